"""Declared regular expressions: their mistakes, and the lines that one matches, however long that would take."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

from resource_api import Problem, ResourceError, compute

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: The longest line, in characters, that is searched: others may have written it.
LONGEST = 65536
#: Parts of an expression that are no repetition: an escaped character, and a set.
PLAIN = re.compile(r"\\.|\[\^?\]?[^\]]*(?:\]|\Z)", re.DOTALL)
#: Repetitions; of a group, they may take exponential time.
REPETITION, OF_GROUP = re.compile(r"[*+{]"), re.compile(r"\)[*+{]")
#: Steps that are taken at once: some tenths of a second.
FEW = 30_000_000


def problems(attribute: str, expression: Any) -> Iterator[Problem]:
    """Yield a problem if a text is no regular expression; a value that is unknown yet, or a secret, is no text."""
    if isinstance(expression, str):
        try:
            re.compile(expression)
        except (re.error, RecursionError) as error:
            yield Problem(attribute, f"{attribute} is no regular expression: {error}")


def find(expression: str, lines: Sequence[str], *, seconds: float | None = None) -> list[int]:
    """Return the numbers of the lines, from 0, in which an expression matches.

    A search that may take long runs in a process with a time limit (``compute``): ``seconds`` (None: 30), and that of
    the resource. Raise ``ResourceError`` for a line of more than 64 KiB.
    """
    longest = max(map(len, lines), default=0)
    if longest > LONGEST:
        number = next(number for number, line in enumerate(lines) if len(line) > LONGEST)
        msg = f"line {number + 1} has more than {LONGEST >> 10} KiB, and no regular expression is searched in it"
        raise ResourceError(msg)
    function = partial(_find, expression, lines)
    if _steps(expression, longest) * len(lines) <= FEW:
        return function()
    return compute(f"the search for the regular expression '{expression}'", function, seconds=seconds)


def _find(expression: str, lines: Sequence[str]) -> list[int]:
    """Return the numbers of the lines, from 0, in which an expression matches."""
    search = re.compile(expression).search
    return [number for number, line in enumerate(lines) if search(line)]


def _steps(expression: str, longest: int) -> float:
    """Return roughly the most steps that a search in a line of ``longest`` characters may take.

    ``find`` uses a process with a time limit if they are many. The number is the length of the line to the power of the
    number of repetitions: ``^a*b*`` needs at most the square. A repeated group or a back reference may take exponential
    time: the result is then above the limit.
    """
    rest = PLAIN.sub("x", expression)  # without escaped characters and sets, whose ``*`` repeats nothing
    if OF_GROUP.search(rest) or re.search(r"\\[1-9]|\(\?P=", expression):
        return FEW + 1.0
    # An expression that may match anywhere is tried at each character, which is one more repetition.
    starts = 0 if rest.startswith(("^", "\\A")) and "|" not in rest else 1
    return float(max(longest, 1)) ** max(1, starts + len(REPETITION.findall(rest)))
