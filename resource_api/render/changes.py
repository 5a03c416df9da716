"""Render changes of values as text, in plans, drift and log lines alike, with unified diffs of limited length.

``--diff`` selects short, full or no diffs. A secret is masked before a text is cut, so that no part of it remains.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from resource_api.model.change import is_text_change
from resource_api.model.values.line_diff import count_changes, is_compared, unified
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.text import common_start, counted, escape_lines, show_attribute
from resource_api.system.log import line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from resource_api.model.change import Difference
    from resource_api.model.report import LogEvent


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
        """Return text with a code of ECMA-48 for a colour or bold, if this style has colours; "" is no code."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.color and code else text

    def value(self, value: object) -> str:
        """Return a value on one line; ``(none)`` for None. A long one is cut and ends in its length."""
        return self.cut(self.mask(show_attribute(value)))

    def pair(self, is_: object, should: object) -> str:
        """Return ``is → should``; two long values begin shortly before their first difference."""
        return " → ".join(self.parts(is_, should))

    def parts(self, is_: object, should: object) -> list[str]:
        """Return two values on a line each; two long ones begin shortly before their first difference."""
        texts = [self.mask(show_attribute(value)) for value in (is_, should)]
        return texts if self.diff == "full" else cut_pair(texts)

    def cut(self, line: str) -> str:
        """Return a line; of a long one its beginning and length, so that it fits a screen, unless ``--diff full``."""
        return line if self.diff == "full" else cut_line(line)

    def reason(self, line: str) -> str:
        """Return the reason of a failure; a long one is cut in the middle, unless ``--diff full``.

        Its beginning is the command line that has failed, and its end the message of the program: both stay visible.
        """
        if len(line) <= _WIDEST or self.diff == "full":
            return line
        end = line[-(_WIDEST - _BEGINNING) :]
        return f"{line[:_BEGINNING]} … {end} ({len(line)} characters)"


#: Codes of ECMA-48.
BOLD: Final = "1"
RED: Final = "31"
#: Without colours, with short diffs.
PLAIN: Final = Style()


def cut_pair(texts: Sequence[str], widest: int = _WIDEST) -> list[str]:
    """Return two values, each cut to ``widest`` characters, so that the user sees where they differ.

    If both are too long, and the beginning would not show their first difference, both begin ``_BEFORE`` characters
    before the difference: ``…port 8080…`` and ``…port 8081…``.
    """
    are_long = min(map(len, texts)) > widest and texts[0] != texts[1]
    same = common_start(*texts) if are_long else 0
    start = same - _BEFORE if same > widest - _BEFORE else 0
    return [cut_line(text, widest, start) for text in texts]


def cut_line(line: str, widest: int = _WIDEST, start: int = 0) -> str:
    """Return a line, cut to ``widest`` characters from ``start`` on, so that it fits a screen.

    A cut line has ``…`` for omitted text and its whole length: ``…port 8080… (5000 characters)``.
    """
    if len(line) <= widest:
        return line
    end = start + widest
    return f"{'…' if start else ''}{line[start:end]}{'…' if end < len(line) else ''} ({len(line)} characters)"


#: Lines of a diff that are shown.
SCREEN: Final = 40
#: The lines of a diff that name the texts.
_HEADER: Final = 2
_COLORS: Final = {"+": "32", "-": "31", "@": "36"}


def count_lines(difference: Difference) -> str:
    """Return how many lines of a text differ: ``(+2 -1 lines)``."""
    return count_changes(difference.is_, difference.should)


def text_diff(
    difference: Difference,
    style: Style,
    *,
    names: tuple[str, str] = ("is", "should"),
    most: int = SCREEN,
    advice: str = " (--diff full)",
) -> Iterator[str]:
    """Yield the lines of the unified diff of a changed text, which shows a user more than both texts in full.

    By ``--diff`` these are all lines, none, or at most ``most`` and a count of the rest with ``advice``, the option
    that shows all. ``names``: those of the two sides in the header.
    """
    is_, should = difference.is_ or "", difference.should or ""
    if style.diff == "none" or (style.diff == "short" and not is_compared(is_, should)):
        return
    # Masked before the comparison: a secret of several lines would be found in no single one.
    lines = unified(style.mask(is_), style.mask(should), names)
    for number, text in enumerate(lines if style.diff == "full" else islice(lines, most)):
        color = _COLORS.get(text[0], "") if number >= _HEADER else BOLD
        yield style.paint(escape_lines(style.cut(text)), color)
    if more := sum(1 for _ in lines):
        yield f"… {counted(more, 'more line')}{advice}"


def log_lines(event: LogEvent, style: Style, most: int = SCREEN) -> str:
    """Return the line of a log event, with its change made readable.

    If a text has changed, its diff of at most ``most`` lines is below the line. Other values that are too long are cut.
    """
    text, under = event.text, list[str]()
    if event.change is not None and is_text_change(event.change):
        under = [f"  {line}" for line in text_diff(event.change, style, most=most)]
    elif event.change is not None:
        # The text has both values in full: each is replaced by the part of it that is shown.
        for value, part in zip(event.change.values, style.parts(*event.change.values), strict=True):
            text = text.replace(style.mask(show_attribute(value)), part, 1)
    return "\n".join((line(event._replace(text=text), color=style.color), *under))
