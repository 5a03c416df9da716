"""Command lines as they are declared in one text, and as messages show them."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from resource_api import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def problems(attribute: str, command: str) -> Iterator[Problem]:
    """Yield a problem for a command that is empty or cannot be split into words, as it would fail only when run."""
    try:
        message = "" if shlex.split(command) else f"{attribute} is empty"
    except ValueError as error:
        message = f"{attribute} cannot be split into words: {error}: {command}"
    if message:
        yield Problem(attribute, message)


def quoted(argv: Sequence[str]) -> str:
    """Return the words of a command in quotes; in double ones if a word has single ones."""
    text = shlex.join(argv)
    return f'"{text}"' if "'" in text else f"'{text}'"
