"""The difference of two texts by lines: how many were added and removed, and the lines of a unified diff.

The shortest edit script (Myers, "An O(ND) Difference Algorithm", 1986), found after what cannot belong to a common
sequence is left out: a large file with few changes, and one that is wholly other, take milliseconds. The search ends
after a fixed number of edits; the diff is then still correct, but not the shortest. (``difflib`` is quadratic where
lines repeat, and takes minutes for some files.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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
    """Return the lines of a text with their line breaks; none for what is no text."""
    if not isinstance(text, str):
        return []
    *lines, last = text.split("\n")
    return [line + "\n" for line in lines] + ([last] if last else [])


def is_compared(*texts: object) -> bool:
    """Return whether texts are short enough to be compared, unless everything is asked for."""
    return all(text.count("\n") + (text[-1:] != "\n") <= _LONGEST for text in texts if isinstance(text, str))


def count_changes(is_: object, should: object) -> str:
    """Return ``(+2 -1 lines)``, or ``(5210 → 5214 lines)`` for texts that are not compared."""
    before, after = _lines(is_), _lines(should)
    if not is_compared(is_, should):
        return f"({len(before)} → {len(after)} lines)"
    common = len(_common_lines(before, after))
    return f"(+{len(after) - common} -{len(before) - common} lines)"


def unified(is_: object, should: object, names: tuple[str, str]) -> Iterator[str]:
    """Yield the lines of a unified diff without line breaks; nothing for equal texts."""
    before, after = _lines(is_), _lines(should)
    for number, hunk in enumerate(_hunks(_edits(before, after))):
        if not number:
            yield from (f"{sign} {name}" for sign, name in zip(("---", "+++"), names, strict=True))
        yield f"@@ -{_range(hunk, 1, '+')} +{_range(hunk, 2, '-')} @@"
        for sign, old, new in hunk:
            line = after[new] if sign == "+" else before[old]
            yield sign + line.removesuffix("\n")
            if not line.endswith("\n"):
                yield "\\ No newline at end"


#: ``-``, ``+`` or a blank; the places in both texts.
_Edit = tuple[str, int, int]


def _edits(before: Sequence[str], after: Sequence[str]) -> list[_Edit]:
    found: list[_Edit] = []
    old = new = 0
    for pair in (*_common_lines(before, after), (len(before), len(after))):
        found += (("-", place, new) for place in range(old, pair[0]))
        found += (("+", pair[0], place) for place in range(new, pair[1]))
        found.append((" ", *pair))
        old, new = pair[0] + 1, pair[1] + 1
    return found[:-1]


def _hunks(edits: Sequence[_Edit]) -> Iterator[Sequence[_Edit]]:
    """Yield the changes with the unchanged lines around them; those that touch are one hunk."""
    changed = [place for place, edit in enumerate(edits) if edit[0] != " "]
    spans: list[list[int]] = []
    for place in changed:
        if spans and place - spans[-1][1] <= 2 * _CONTEXT:
            spans[-1][1] = place + 1
        else:
            spans.append([place, place + 1])
    for start, end in spans:
        yield edits[max(0, start - _CONTEXT) : end + _CONTEXT]


def _range(hunk: Sequence[_Edit], field: int, other: str) -> str:
    """Return the place of a hunk in one of the texts: ``3,7``, or ``3`` for one line."""
    count = sum(edit[0] != other for edit in hunk)
    start = int(hunk[0][field]) + bool(count)
    return f"{start}" if count == 1 else f"{start},{count}"


def _common_lines(before: Sequence[str], after: Sequence[str]) -> list[Pair]:
    """Return the lines that both texts have, in their order."""
    shortest = min(len(before), len(after))
    head = next((place for place in range(shortest) if before[place] != after[place]), shortest)
    tail = next((n for n in range(shortest - head) if before[-1 - n] != after[-1 - n]), shortest - head)
    ends = range(head, len(before) - tail), range(head, len(after) - tail)
    both = {before[place] for place in ends[0]} & {after[place] for place in ends[1]}
    numbers = {line: number for number, line in enumerate(both)}
    old, new = [p for p in ends[0] if before[p] in both], [p for p in ends[1] if after[p] in both]
    middle = _Search([numbers[before[place]] for place in old], [numbers[after[place]] for place in new])
    return [
        *((place, place) for place in range(head)),
        *((old[first], new[second]) for first, second in middle.pairs()),
        *((len(before) - n, len(after) - n) for n in range(tail, 0, -1)),
    ]


class _Search:
    """The search for the shortest edit script: after each edit, how far one gets on each diagonal."""

    def __init__(self, old: Sequence[int], new: Sequence[int]) -> None:
        self._old, self._new = old, new
        #: Number of edits → the places reached in ``old``, of the diagonals ``-edits`` to ``edits`` by two.
        self._reached: list[list[int]] = []

    def pairs(self) -> list[Pair]:
        """Return the places of equal lines, up to the end or to what is reached after the most edits."""
        for edits in range(_MOST_EDITS):
            self._reached.append([self._furthest(edits, each) for each in range(-edits, edits + 1, 2)])
            end = len(self._old) - len(self._new)
            if abs(end) <= edits and (end + edits) % 2 == 0 and self._place(edits, end) >= len(self._old):
                return self._back(edits, end)
        inside = [
            (2 * place - diagonal, diagonal)
            for diagonal, place in zip(range(-edits, edits + 1, 2), self._reached[edits], strict=True)
            if place <= len(self._old) and place - diagonal <= len(self._new)
        ]
        return self._back(edits, max(inside)[1])

    def _place(self, edits: int, diagonal: int) -> int:
        return self._reached[edits][(diagonal + edits) // 2]

    def _start(self, edits: int, diagonal: int) -> tuple[int, int]:
        """Return where the last edit leads on a diagonal, and from which diagonal it comes."""
        if not edits:
            return 0, 0
        left = self._place(edits - 1, diagonal - 1) + 1 if diagonal > -edits else -1
        above = self._place(edits - 1, diagonal + 1) if diagonal < edits else -1
        return (above, diagonal + 1) if above >= left else (left, diagonal - 1)

    def _furthest(self, edits: int, diagonal: int) -> int:
        place, _ = self._start(edits, diagonal)
        old, new = self._old, self._new
        while place < len(old) and place - diagonal < len(new) and old[place] == new[place - diagonal]:
            place += 1
        return place

    def _back(self, edits: int, diagonal: int) -> list[Pair]:
        found: list[Pair] = []
        while edits >= 0:
            start, before = self._start(edits, diagonal)
            found += ((place, place - diagonal) for place in range(self._place(edits, diagonal) - 1, start - 1, -1))
            edits, diagonal = edits - 1, before
        return found[::-1]
