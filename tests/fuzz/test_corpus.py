"""The corpus of the fuzz targets: the inputs that broke a law once, and the seeds of the mutations, break none now."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import pytest

import tests.fuzz.targets  # noqa: F401 - registers the targets
from tests.fuzz.target import CORPUS, TARGETS, judge
from tests.namespaces import private_mounts

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Seconds of processor time: more than the law allows, because the machine of a test may be busy.
SLOW = 3.0


@pytest.fixture(autouse=True)
def _own_files() -> Iterator[None]:
    """Keep what a target changes, the files of accounts among it, from every other test."""
    with private_mounts():
        yield


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_no_input_of_the_corpus_breaks_a_law(name: str) -> None:
    """Each is accepted, or refused in one clear line, within a bounded time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        broken = {path.name: judge(TARGETS[name], path.read_bytes(), SLOW) for path in TARGETS[name].corpus()}
    assert broken
    assert {path: found for path, found in broken.items() if found} == {}


def test_every_directory_of_the_corpus_belongs_to_a_target() -> None:
    """A target that was renamed loses its corpus."""
    assert {path.name for path in CORPUS.iterdir()} == set(TARGETS)
