"""Lines of a file that regular expressions find, and the place for new ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lib import regular_expressions
from resource_api import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from resource_api import files


def place_problems(should: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield a problem if ``after`` and ``insertbefore`` are both declared, or one is no regular expression.

    With both it would not be clear where a new line belongs.
    """
    if should.get("after") is not None and should.get("insertbefore") is not None:
        yield Problem("insertbefore", "after and insertbefore exclude each other")
    for attribute in ("after", "insertbefore"):
        yield from regular_expressions.problems(attribute, should.get(attribute))


def find(lines: files.Lines, expression: str) -> list[int]:
    """Return the numbers of the lines that an expression matches, or none for an empty one. Raise ``ResourceError``."""
    return regular_expressions.find(expression, list(lines)) if expression else []


def place(lines: files.Lines, should: Mapping[str, Any]) -> int:
    """Return the number of the line before which a new one is inserted, by ``after`` or ``insertbefore``.

    It is the end of the file if neither is declared, or its expression matches no line.
    """
    after, before = should.get("after"), should.get("insertbefore")
    if before == "BOF":
        return 0
    matches = find(lines, after or before or "")
    if not matches:
        return len(lines)
    return matches[-1] + 1 if after else matches[-1]
