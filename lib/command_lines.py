"""Command lines as messages show them."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def quoted(argv: Sequence[str]) -> str:
    """Return the words of a command in quotes; in double ones where a word has single ones."""
    text = shlex.join(argv)
    return f'"{text}"' if "'" in text else f"'{text}'"
