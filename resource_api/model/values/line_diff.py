"""The difference of two texts by lines: how many were added and removed, and the lines of a unified diff.

The shortest edit script (Myers, "An O(ND) Difference Algorithm", 1986), found after lines of only one text are left
out. The search ends after a fixed number of edits; the diff is then still correct, but not the shortest. (``difflib``
takes more than three minutes for 5,000 lines of two kinds; with ``autojunk`` it finds no common line of them.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from resource_api.model.values.text import common_start

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    #: A line of the first text and the same line of the second one.
    Pair = tuple[int, int]

#: Texts of more lines are not compared unless everything is asked for.
_LONGEST: Final = 5_000
#: Edits after which the search for a shorter script ends.
_MOST_EDITS: Final = 500
#: Unchanged lines around a change.
_CONTEXT: Final = 3


def _lines(text: object) -> list[str]:
    """Return the lines of a text with their line breaks; none for a value that is no text, such as None for no file."""
    if not isinstance(text, str):
        return []
    *lines, last = text.split("\n")
    return [line + "\n" for line in lines] + ([last] if last else [])


def is_compared(*texts: object) -> bool:
    """Return whether all texts are short enough (5,000 lines) to be compared where no option requests all."""
    return all(text.count("\n") + (text[-1:] != "\n") <= _LONGEST for text in texts if isinstance(text, str))


def count_changes(is_: object, should: object) -> str:
    """Return the size of a change for one line of a log: ``(+2 -1 lines)``.

    Texts that are too long to be compared have only their sizes, ``(5210 → 5214 lines)``.
    """
    before, after = _lines(is_), _lines(should)
    if not is_compared(is_, should):
        return f"({len(before)} → {len(after)} lines)"
    common = len(_common_lines(before, after))
    return f"(+{len(after) - common} -{len(before) - common} lines)"


def unified(is_: object, should: object, names: tuple[str, str]) -> Iterator[str]:
    """Yield the lines of a unified diff without line breaks; nothing for equal texts. ``names``: of both texts."""
    before, after = _lines(is_), _lines(should)
    hunks = list(_hunks(_edits(before, after)))
    if hunks:
        yield f"--- {names[0]}"
        yield f"+++ {names[1]}"
    for hunk in hunks:
        yield f"@@ -{_range(hunk, 1, '+')} +{_range(hunk, 2, '-')} @@"
        for sign, old, new in hunk:
            line = after[new] if sign == "+" else before[old]
            yield sign + line.removesuffix("\n")
            if not line.endswith("\n"):
                yield "\\ No newline at end"


#: ``-``, ``+`` or a blank; the indexes in both texts.
_Edit = tuple[str, int, int]


def _edits(before: Sequence[str], after: Sequence[str]) -> list[_Edit]:
    """Return the removed, added and common lines of two texts in order: the signs with the indexes in both texts.

    Where lines were replaced, removals come first.
    """
    edits: list[_Edit] = []
    old = new = 0
    for pair in (*_common_lines(before, after), (len(before), len(after))):
        edits += (("-", index, new) for index in range(old, pair[0]))
        edits += (("+", pair[0], index) for index in range(new, pair[1]))
        edits.append((" ", *pair))
        old, new = pair[0] + 1, pair[1] + 1
    return edits[:-1]  # without the pair of ends, which is no line


def _hunks(edits: Sequence[_Edit]) -> Iterator[Sequence[_Edit]]:
    """Yield the hunks of a diff: changes with some unchanged lines around them; those that touch are one hunk."""
    changed = [index for index, edit in enumerate(edits) if edit[0] != " "]
    spans: list[list[int]] = []
    for index in changed:
        if spans and index - spans[-1][1] <= 2 * _CONTEXT:
            spans[-1][1] = index + 1
        else:
            spans.append([index, index + 1])
    for start, end in spans:
        yield edits[max(0, start - _CONTEXT) : end + _CONTEXT]


def _range(hunk: Sequence[_Edit], field: int, excluded: str) -> str:
    """Return the range of a hunk's lines, ``3,7`` for seven from the third one, or ``3`` for one line.

    ``field``: 1 for the old text, 2 for the new one; ``excluded``: the sign of the lines that it does not have.
    """
    count = sum(edit[0] != excluded for edit in hunk)
    # From 1; without a line, the number of the one before.
    start = int(hunk[0][field]) + bool(count)
    return f"{start}" if count == 1 else f"{start},{count}"


def _common_lines(before: Sequence[str], after: Sequence[str]) -> list[Pair]:
    """Return the indexes (before, after) of the lines that both texts have; only the changed middle takes a search.

    First the equal start and end are left out, then lines that only one text has: the rest is short for most changes.
    Lines become numbers, which are compared faster.
    """
    head = common_start(before, after)
    tail = common_start(before[head:][::-1], after[head:][::-1])  # the common end: the start of the reversed lines
    old_lines, new_lines = range(head, len(before) - tail), range(head, len(after) - tail)
    both = {before[index] for index in old_lines} & {after[index] for index in new_lines}
    numbers = {line: number for number, line in enumerate(both)}
    old = [index for index in old_lines if before[index] in both]
    new = [index for index in new_lines if after[index] in both]
    search = _Search([numbers[before[index]] for index in old], [numbers[after[index]] for index in new])
    middle = [(old[first], new[second]) for first, second in search.pairs()]
    end = zip(range(old_lines.stop, len(before)), range(new_lines.stop, len(after)), strict=True)
    return [*((index, index) for index in range(head)), *middle, *end]


class _Search:
    """The search for the shortest edit script: after each edit, how far one gets on each diagonal."""

    def __init__(self, old: Sequence[int], new: Sequence[int]) -> None:
        self._old, self._new = old, new
        #: Number of edits → the indexes reached in ``old``, of the diagonals ``-edits`` to ``edits`` by two.
        self._reached: list[list[int]] = []

    def pairs(self) -> list[Pair]:
        """Return the indexes (old, new) of the equal lines that the fewest edits leave, as in Myers' algorithm.

        The diagonal of a point is its index in ``old`` minus its index in ``new``. For 0, 1, 2, ... edits the furthest
        point on each diagonal is computed, until one is the end of both texts. After the most edits the search stops at
        the furthest point, and the lines behind it count as different.
        """
        for edits in range(_MOST_EDITS):
            self._reached.append([self._furthest(edits, diagonal) for diagonal in range(-edits, edits + 1, 2)])
            end = len(self._old) - len(self._new)  # the diagonal on which both texts end
            if abs(end) <= edits and (end + edits) % 2 == 0 and self._index(edits, end) >= len(self._old):
                return self._back(edits, end)
        # (lines passed in both texts, diagonal) of the points that are not behind the end of a text.
        inside = [
            (2 * index - diagonal, diagonal)
            for diagonal, index in zip(range(-edits, edits + 1, 2), self._reached[edits], strict=True)
            if index <= len(self._old) and index - diagonal <= len(self._new)
        ]
        return self._back(edits, max(inside)[1])

    def _index(self, edits: int, diagonal: int) -> int:
        """Return the index in ``old`` that was reached on a diagonal with this number of edits."""
        return self._reached[edits][(diagonal + edits) // 2]

    def _start(self, edits: int, diagonal: int) -> tuple[int, int]:
        """Return the index in ``old`` right after the last of ``edits`` edits, and the diagonal before that edit.

        A removal passes a line of ``old`` and comes from ``diagonal - 1``, an addition from ``diagonal + 1``. The one
        that gets further is chosen, as in Myers' algorithm.
        """
        if not edits:
            return 0, 0
        from_left = self._index(edits - 1, diagonal - 1) + 1 if diagonal > -edits else -1
        from_above = self._index(edits - 1, diagonal + 1) if diagonal < edits else -1
        return (from_above, diagonal + 1) if from_above >= from_left else (from_left, diagonal - 1)

    def _furthest(self, edits: int, diagonal: int) -> int:
        """Return the furthest index in ``old`` that ``edits`` edits reach on a diagonal.

        Equal lines that follow the last edit are passed without an edit.
        """
        index, _ = self._start(edits, diagonal)
        old, new = self._old, self._new
        while index < len(old) and index - diagonal < len(new) and old[index] == new[index - diagonal]:
            index += 1
        return index

    def _back(self, edits: int, diagonal: int) -> list[Pair]:
        """Return the indexes (old, new) of the equal lines on the path of ``edits`` edits that ends on a diagonal.

        The search has kept only the furthest points: the path is followed back from its end, edit by edit. The equal
        lines are those between the point right after an edit and the furthest point on its diagonal.
        """
        pairs: list[Pair] = []
        while edits >= 0:
            start, previous_diagonal = self._start(edits, diagonal)
            pairs += ((index, index - diagonal) for index in range(self._index(edits, diagonal) - 1, start - 1, -1))
            edits, diagonal = edits - 1, previous_diagonal
        return pairs[::-1]  # found from the last one to the first
