"""The difference of two texts by lines."""

from __future__ import annotations

import re
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api.model.values.line_diff import count_changes, unified

TEXT = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n", "a"]), max_size=12).map("".join)


def patched(text: str, diff: list[str]) -> str:
    """Return what a unified diff makes of a text; check that it fits."""
    before, after, path = text.splitlines(keepends=True), list[str](), 0
    for previous, line in pairwise(diff[1:]):
        if hunk := re.fullmatch(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@", line):
            start = int(hunk[1]) - (hunk[2] != "0")
            after += before[path:start]
            path = start
        elif line[0] == "+":
            after.append(line[1:] + "\n")
        elif line[0] == "\\" and previous[0] == "+":
            after[-1] = after[-1].removesuffix("\n")
        elif line[0] in " -":
            assert before[path].removesuffix("\n") == line[1:]
            after += [before[path]] if line[0] == " " else []
            path += 1
    return "".join(after + before[path:])


@given(TEXT, TEXT)
def test_a_diff_makes_one_text_of_the_other_and_its_lines_are_counted(is_: str, should: str) -> None:
    """It is a unified diff: a program that knows the first text gets the second one."""
    diff = list(unified(is_, should, ("is", "should")))
    assert patched(is_, diff) == should
    signs = [line[0] for line in diff[2:]]
    assert count_changes(is_, should) == f"(+{signs.count('+')} -{signs.count('-')} lines)"


def test_a_diff_is_as_short_as_possible() -> None:
    """What both texts have stays, also where lines are repeated."""
    same = ["}\n"] * 2_900
    is_, should = "".join(["a\n", *same, "b\n", *same[:50]]), "".join([*same, "c\n", *same[:50], "d\n"])
    assert count_changes(is_, should) == "(+2 -2 lines)"
    assert len(list(unified(is_, should, ("is", "should")))) < 30


@pytest.mark.parametrize("words", [range(1), range(50), range(5_000)])
def test_no_text_takes_long(words: range) -> None:
    """Texts of the greatest length with lines in another order, as often repeated as one likes."""
    lines = [f"{number * 7919 % 5_003 % len(words)}\n" for number in range(4_999)]
    began = time.process_time()
    list(unified("".join(lines), "".join(sorted(lines)) + "x", ("is", "should")))
    assert time.process_time() - began < 3


def test_texts_of_more_than_5000_lines_are_only_counted() -> None:
    """Their lengths are given in place of their differences."""
    assert count_changes("x\n" * 5_210, "x\n" * 5_214) == "(5210 → 5214 lines)"
    assert count_changes("x\n" * 5_000, "x\n" * 4_999) == "(+0 -1 lines)"
