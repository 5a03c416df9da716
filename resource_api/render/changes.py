"""Changes of values as text for people, in plans, drift and log lines alike; diffs of texts are in ``text_diff``.

A secret is masked before a text is cut, so that no part of it is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.text import show_attribute

if TYPE_CHECKING:
    from collections.abc import Callable

#: Characters of a line that are shown.
_WIDEST: Final = 200
#: Characters before the first difference of two long values.
_BEFORE: Final = 40
#: Characters of the beginning of a long reason that are shown: a command line begins there, its outcome ends it.
_BEGINNING: Final = 80


class Style(NamedTuple):
    """How changes are shown; ``diff`` is ``short``, ``full`` or ``none``, ``mask`` masks the secrets in a text."""

    color: bool = False
    diff: str = "short"
    mask: Callable[[str], str] = str

    def paint(self, text: str, code: str) -> str:
        """Return text in a colour, if colours are wanted."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.color and code else text

    def value(self, value: Any) -> str:
        """Return a value on one line; ``(none)`` for None. A long one is cut and ends in its length."""
        return self.cut(self.mask(show_attribute(value)))

    def pair(self, is_: Any, should: Any) -> str:
        """Return ``is → should``; two long values begin shortly before their first difference."""
        shown = [self.mask(show_attribute(value)) for value in (is_, should)]
        if self.diff == "full" or min(map(len, shown)) <= _WIDEST:
            return f"{self.value(is_)} → {self.value(should)}"
        same = next((at for at, pair in enumerate(zip(*shown, strict=False)) if pair[0] != pair[1]), 0)
        start = same - _BEFORE if same > _WIDEST - _BEFORE else 0
        return " → ".join(_part(each, start) for each in shown)

    def cut(self, line: str) -> str:
        """Return a line, the first 200 characters and the length of a longer one, unless everything is asked for."""
        if len(line) <= _WIDEST or self.diff == "full":
            return line
        return _part(line, 0)

    def reason(self, line: str) -> str:
        """Return why something failed; of a longer one than ``cut`` shows, both ends, as a program's words end it."""
        if len(line) <= _WIDEST or self.diff == "full":
            return line
        return f"{line[:_BEGINNING]} … {line[_BEGINNING - _WIDEST :]} ({len(line)} characters)"


def _part(line: str, start: int) -> str:
    """Return a part of a long line, with its ends that are left out marked and its length."""
    end = start + _WIDEST
    return f"{'…' if start else ''}{line[start:end]}{'…' if end < len(line) else ''} ({len(line)} characters)"
