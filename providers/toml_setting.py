"""Read settings in TOML files, and change them with tomlkit, which keeps comments."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any, ClassVar

from lib import kept_formatting, prerequisites, structured_settings
from lib.format_error import FormatError, reason
from resource_api import ResourceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lib.structured_settings import KeyPath

#: The most mappings, arrays and values of a file that is changed: tomlkit takes 0.2 ms for each.
LARGEST_FILE = 50_000
#: The most dots between two equals signs: the parser's time grows with the square of a key's parts.
MOST_DOTS = 2_000
#: The position of a mistake in the parser's message; otherwise it is at the end.
POSITION = re.compile(r"\(at line (?P<line>\d+), column (?P<column>\d+)\)\Z")
#: The mistakes in our words, by the beginning of the parser's message.
REASONS = {
    "Cannot declare": "the table is there already",
    "Cannot mutate": "the table cannot get more keys here",
    "Cannot overwrite": "the key is there already",
    "Duplicate inline table key": "the key is there already",
    "Expected '='": "'=' is expected",
    "Expected ']": "']' is expected",
    "Expected newline": "the end of the line is expected",
    "Illegal character": "a control character cannot stand here",
    "Invalid date": "the date does not exist",
    "Invalid initial character": "a key is expected",
    "Invalid statement": "a key or a table is expected",
    "Invalid value": "a value is expected",
    "Unclosed array": "the array has no end",
    "Unclosed inline table": "the table has no end",
    "Unescaped": "the backslash escapes nothing",
    "Unterminated string": "the text has no end",
}


class Provider(structured_settings.SettingsProvider):
    """The settings of TOML files."""

    _FORMAT: ClassVar = "TOML"
    _MODULES: ClassVar = {"tomlkit": "Package[python3-tomlkit]"}

    @staticmethod
    def _parse(text: str) -> Any:
        """Return the document. Raise ``FormatError`` with the position, also for a key that takes too long to parse."""
        for number, line in enumerate(text.split("\n"), 1):
            if len(line) > MOST_DOTS and any(part.count(".") > MOST_DOTS for part in line.split("=")):
                raise FormatError("the key has too many parts", number)
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            message = reason(str(error), REASONS)
            if position := POSITION.search(str(error)):
                raise FormatError(message, int(position["line"]), int(position["column"])) from None
            raise FormatError.at(text, len(text.rstrip()), message) from None
        except ValueError:
            raise FormatError.of_value(text) from None

    @staticmethod
    def _edit(text: str, values: Mapping[KeyPath, Any]) -> str:
        """Return the text with changed values, and comments, order and formatting as they were."""
        with prerequisites.needing("tomlkit", "pip install 'resource-api[settings]'"):
            import tomlkit
            from tomlkit.exceptions import TOMLKitError
        try:
            return kept_formatting.edit(
                text,
                values,
                parse=tomllib.loads,
                load=tomlkit.parse,
                dump=tomlkit.dumps,
                convert=lambda _old, new: new,
                largest=LARGEST_FILE,
            )
        except (TOMLKitError, TypeError, ValueError):
            raise ResourceError("a value cannot be written as TOML, which has no null") from None
