"""The corpus of the fuzz targets: the inputs that broke a law once, and the seeds of the mutations, break none now."""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Final

import pytest

import tests.fuzz.targets  # noqa: F401 - registers the targets
from resource_api import ManifestError, Problem, StateError
from tests.fuzz.phases import Notes, read_notes
from tests.fuzz.target import CORPUS, TARGETS, Target, judge
from tests.namespaces import private_mounts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

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
    assert {path: row for path, row in broken.items() if row} == {}


def test_every_directory_of_the_corpus_belongs_to_a_target() -> None:
    """A target that was renamed loses its corpus."""
    assert {path.name for path in CORPUS.iterdir()} == set(TARGETS)


def _target(check: Callable[[bytes], object]) -> Target:
    return Target("broken", "", check, None, (), grows=False, readings=1)


def _raise(error: BaseException) -> None:
    raise error


def _wait(_data: bytes) -> None:
    end = time.process_time() + 0.05
    while time.process_time() < end:
        pass


BROKEN: Final[dict[str, tuple[Callable[[bytes], object], str]]] = {
    "exception": (lambda data: {}[data], "KeyError tests/fuzz/test_corpus.py"),
    "law": (lambda _: _raise(AssertionError("3 is not 4")), "is not"),
    "empty": (lambda _: _raise(StateError("")), "an empty message"),
    "place": (lambda _: _raise(ManifestError([Problem(None, "wrong")])), "without a place"),
    "slow": (_wait, "slow"),
}


@pytest.mark.parametrize("law", sorted(BROKEN))
def test_a_broken_law_is_found(law: str) -> None:
    """An exception that is not ours, a law of the target's own, a message that says nothing, too much time."""
    check, key = BROKEN[law]
    result = judge(_target(check), b"x", slow=0.01)
    assert result is not None
    assert key in result.key


def test_a_refusal_with_a_place_is_no_finding() -> None:
    """It is what a target is expected to do with nearly every input."""
    refuse = _target(lambda _: _raise(ManifestError([Problem(None, "wrong", file="site.yaml", line=1, column=1)])))
    assert judge(refuse, b"x") is None


def test_the_last_input_of_a_killed_phase_is_known(tmp_path: Path) -> None:
    """It is what the phase hangs at, or what has ended the process."""
    notes = Notes(tmp_path)
    notes.attempt(_target(lambda _: None), b"first", 1.0)
    with pytest.raises(KeyboardInterrupt):
        notes.attempt(_target(lambda _: _raise(KeyboardInterrupt())), b"last", 1.0)
    assert read_notes(tmp_path) == (1, b"last")
