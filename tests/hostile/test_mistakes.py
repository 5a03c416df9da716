"""Mistakes of users, and the exact answer to each: place, words, source line and exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.hostile.mistakes import cases, page

if TYPE_CHECKING:
    from pathlib import Path

CORPUS: Final = [case for path in cases.groups() for case in cases.load(path)]


@pytest.mark.parametrize("case", CORPUS, ids=[f"{case.group}: {case.name}" for case in CORPUS])
def test_a_mistake_has_this_answer(case: cases.Case, tmp_path: Path) -> None:
    """After a wanted change of an answer: ``python -m tests.hostile.mistakes --write``, and read the difference."""
    assert case.run(tmp_path) == (case.exit, case.stderr)


def test_each_mistake_has_a_name_of_its_own() -> None:
    """A page that lists the answers can name each."""
    assert len({(case.group, case.name) for case in CORPUS}) == len(CORPUS)


def test_the_page_of_errors_shows_every_kind_of_answer() -> None:
    """``docs/errors.md`` is written by ``python -m tests.hostile.mistakes --write``."""
    assert page.PAGE.read_text(encoding="utf-8") == page.page()
    assert len(CORPUS) >= 160
    shown = {answer.kind for case in CORPUS for answer in page.answers(case)}
    assert len(shown) > 300
    assert page.page().count("\n| ") > len(shown)
