"""The error of a text that is not of the format of its file: the position, and the reason without a parser's words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Self

from resource_api import ResourceError

if TYPE_CHECKING:
    from collections.abc import Mapping

#: More digits than Python reads as a number.
LONG_NUMBER = re.compile(r"\d{4301}")


class FormatError(ResourceError):
    """A text is not of the format of its file."""

    def __init__(self, reason: str, line: int | None = None, column: int | None = None) -> None:
        """Take the reason, which may be empty, and the position, which counts from 1, or None."""
        super().__init__(reason)
        self.reason, self.line, self.column = reason, line, column

    @classmethod
    def at(cls, text: str, position: int, reason: str) -> Self:
        """Return the error at a position in a text."""
        start = text.rfind("\n", 0, position) + 1
        return cls(reason, text.count("\n", 0, position) + 1, position - start + 1)

    @classmethod
    def of_value(cls, text: str) -> Self:
        """Return the error of a well-formed text with a value that Python refuses: a number, a date.

        Only the position of a number with too many digits can be determined: parsers give none for such an error.
        """
        if number := LONG_NUMBER.search(text):
            return cls.at(text, number.start(), "the number has too many digits")
        return cls("a value does not exist, such as a date")


def reason(message: str, reasons: Mapping[str, str]) -> str:
    """Return our words for a parser's message, from ``reasons`` by its beginning, or ""."""
    return next((reason for beginning, reason in reasons.items() if message.startswith(beginning)), "")
