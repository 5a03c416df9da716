"""Unified diffs of texts of several lines, in plans and under log lines, as ``--diff`` wants them: short, full or none.

The lines of a diff are those of ``model.values.line_diff``.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from resource_api.model.change import is_text_change
from resource_api.model.values.text import escape_lines, show_attribute
from resource_api.system.log_renderers import line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from resource_api.model.change import Difference
    from resource_api.model.event import LogEvent
    from resource_api.render.changes import Style

#: Lines of a diff that are shown.
SCREEN: Final = 40
#: The lines of a diff that name the texts.
_HEADER: Final = 2
_BOLD: Final = "1"
_COLORS: Final = {"+": "32", "-": "31", "@": "36"}


def count_lines(difference: Difference) -> str:
    """Return how many lines of a text differ: ``(+2 -1 lines)``."""
    from resource_api.model.values.line_diff import count_changes

    return count_changes(difference.is_, difference.should)


def text_diff(
    difference: Difference, style: Style, *, names: tuple[str, str] = ("is", "should"), most: int = SCREEN
) -> Iterator[str]:
    """Yield the lines of the unified diff of a text: at most ``most`` and how many more there are, or all or none."""
    from resource_api.model.values.line_diff import is_compared, unified

    is_, should = difference.is_ or "", difference.should or ""
    if style.diff == "none" or (style.diff == "short" and not is_compared(is_, should)):
        return
    lines = unified(style.mask(is_), style.mask(should), names)
    for number, each in enumerate(lines if style.diff == "full" else islice(lines, most)):
        color = _COLORS.get(each[0], "") if number >= _HEADER else _BOLD
        yield style.paint(escape_lines(style.cut(each)), color)
    if more := sum(1 for _ in lines):
        yield f"… {more} more lines (--diff full)"


def log_lines(event: LogEvent, style: Style, most: int = SCREEN) -> str:
    """Return a log event whose change is large: long values are cut, the diff of a text stands under its line.

    ``most`` as for ``text_diff``.
    """
    text, under = event.text, list[str]()
    if event.change is not None and is_text_change(event.change):
        under = [f"  {line}" for line in text_diff(event.change, style, most=most)]
    elif event.change is not None:
        for whole in (style.mask(show_attribute(value)) for value in event.change[1:3]):
            text = text.replace(whole, style.cut(whole), 1)
    return "\n".join((line(event._replace(text=text), color=style.color), *under))
