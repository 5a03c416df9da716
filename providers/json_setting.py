"""Read settings in JSON files, and replace only their text."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from lib import structured_settings
from lib.format_error import FormatError, reason
from lib.structured_settings import MISSING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lib.structured_settings import KeyPath

BLANK = re.compile(r"[ \t\r\n]*")
INDENT = re.compile(r"[\[{]\r?\n([ \t]+)")
DECODER = json.JSONDecoder()
COMMENTS = ("//", "/*", "#")
#: The mistakes in our words, by the beginning of the parser's message.
REASONS = {
    "Expecting property name": "a name in double quotes is expected",
    "Expecting value": "a value is expected",
    "Expecting ':'": "':' is expected",
    "Expecting ','": "',' is expected, or the end of the object or array",
    "Extra data": "the end of the file is expected",
    "Illegal trailing comma": "nothing follows the comma",
    "Invalid \\": "the backslash escapes nothing",
    "Invalid control character": "a text contains a control character that is not escaped",
    "Unterminated string": "the text that begins here has no end",
}


class Provider(structured_settings.SettingsProvider):
    """The settings of JSON files."""

    _FORMAT: ClassVar = "JSON"

    @staticmethod
    def _parse(text: str) -> Any:
        """Return the document in a text. Raise ``FormatError`` with the position and the reason."""
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            comment = text.startswith(COMMENTS, error.pos)
            message = "JSON has no comments" if comment else reason(error.msg, REASONS)
            raise FormatError.at(text, error.pos, message) from None
        except ValueError:
            raise FormatError.of_value(text) from None

    @staticmethod
    def _edit(text: str, values: Mapping[KeyPath, Any]) -> str:
        """Return the text with changed values by their key paths; every other byte stays."""
        document = _Document(text)
        for key_path, value in values.items():
            if value is MISSING:
                document.remove(key_path)
            else:
                document.put(key_path, value)
        return document.text


class _Item(NamedTuple):
    """A member of an object or an element of an array: its key, and the positions of it and its value."""

    key: str | int
    begin: int
    value: int
    end: int


class _Document:
    """The text of a JSON file, in which values are replaced, added and removed."""

    def __init__(self, text: str) -> None:
        """Recognize the style of ``text``, which new values get; a file without content becomes an object."""
        is_new = not text.strip()
        self.text = "{\n}\n" if is_new else text
        self._newline = "\r\n" if "\r\n" in text else "\n"
        #: The blanks of one level, as of ``json.dumps``; None for a document on one line.
        self._indent: str | None = None
        if indent := INDENT.search(text):
            self._indent = indent[1]
        elif is_new:
            self._indent = "  "
        elif "\n" in text.strip():
            self._indent = ""
        self._separators = (",", ":")
        if self._indent is not None:
            self._separators = (",", ": ")
        elif '": ' in text:
            self._separators = (", ", ": ")
        #: Whether the file writes other characters as ``\u00e9``.
        self._ascii = text.isascii() and "\\u" in text

    def put(self, key_path: KeyPath, value: Any) -> None:
        """Replace the value at a key path, or add it with all objects and arrays that lead to it."""
        begin = end = self._skip(0)
        for depth, step in enumerate(key_path):
            items = self._items(begin, step, key_path[:depth])
            item = next((item for item in reversed(items) if item.key == step), None)
            if item is None:
                self._add(begin, items, key_path[: depth + 1], structured_settings.nested(key_path[depth + 1 :], value))
                return
            begin, end = item.value, item.end
        self.text = self.text[:begin] + self._dump(value, self._line_indent(begin)) + self.text[end:]

    def remove(self, key_path: KeyPath) -> None:
        """Remove the value at a key path, and then each object around it that has become empty.

        Each occurrence of a repeated key is removed: after the last one alone, the one before it would count.
        """
        # The positions of the objects and arrays on the key path, from the document inwards.
        containers = [self._skip(0)]
        for depth, step in enumerate(key_path):
            items = self._items(containers[-1], step, key_path[:depth])
            containers += [item.value for item in items if item.key == step][-1:]
        # The value, and then each container around it, until one keeps other items.
        while key_path:
            *outer, step = key_path
            items = self._items(containers[len(outer)], step, tuple(outer))
            if isinstance(step, int):
                structured_settings.check_index(step, len(items), key_path, removal=True)
            for number in reversed([number for number, item in enumerate(items) if item.key == step]):
                self._cut(containers[len(outer)], items, number)
                items = self._items(containers[len(outer)], step, tuple(outer))
            key_path = tuple(outer)
            if items or not key_path or isinstance(key_path[-1], int):
                return

    def _cut(self, container: int, items: list[_Item], number: int) -> None:
        """Remove the item with this number, and the comma beside it, from a container.

        ``container`` is the position of its opening bracket.
        """
        begin, end = items[number].begin, items[number].end
        if number + 1 < len(items):
            end = items[number + 1].begin
        elif number:  # the last item, with the comma before it
            begin = items[number - 1].end
        else:
            begin, end = container + 1, self._skip(end)
        self.text = self.text[:begin] + self.text[end:]

    def _add(self, container: int, items: list[_Item], key_path: KeyPath, value: Any) -> None:
        """Add an item with the last key of ``key_path`` to the container whose bracket is at ``container``.

        It follows the last one of ``items``, after the same white space.
        """
        step = key_path[-1]
        if isinstance(step, int):
            structured_settings.check_index(step, len(items), key_path, removal=False)
        key = "" if isinstance(step, int) else json.dumps(step, ensure_ascii=self._ascii) + self._separators[1]
        if items:
            last = items[-1]
            gap = self.text[len(self.text[: last.begin].rstrip(" \t\r\n")) : last.begin]
            # The only item does not show the space that follows a comma.
            if len(items) == 1 and not gap and self._separators[1] == ": ":
                gap = " "
            indent = gap.rpartition("\n")[2] if "\n" in gap else self._line_indent(container)
            self.text = self.text[: last.end] + "," + gap + key + self._dump(value, indent) + self.text[last.end :]
        else:
            self._fill(container, key, value)

    def _fill(self, container: int, key: str, value: Any) -> None:
        """Put a value into an empty container after ``key``, on a line of its own unless the document is one line."""
        end = self._skip(container + 1)
        outer = self._line_indent(container)
        if self._indent is None:
            inside = key + self._dump(value, "")
        else:
            inner = outer + self._indent
            inside = self._newline + inner + key + self._dump(value, inner) + self._newline + outer
        self.text = self.text[: container + 1] + inside + self.text[end:]

    def _items(self, at: int, step: str | int, key_path: KeyPath) -> list[_Item]:
        """Return the items of the container at ``key_path``. Raise ``ResourceError`` if it cannot contain ``step``."""
        structured_settings.check_container({"{": {}, "[": []}.get(self.text[at]), step, key_path)
        return list(self._scan(at))

    def _scan(self, at: int) -> Iterator[_Item]:
        """Yield the positions of the items of an object or array, so that a change replaces only the text of one item.

        ``at`` is the position of its opening bracket.
        """
        text, index = self.text, 0
        in_object = text[at] == "{"
        at = self._skip(at + 1)
        while text[at] not in "]}":
            begin, key = at, index
            if in_object:
                key, at = DECODER.raw_decode(text, at)
                at = self._skip(self._skip(at) + 1)  # behind the colon
            end = DECODER.raw_decode(text, at)[1]
            yield _Item(key, begin, at, end)
            at, index = self._skip(end), index + 1
            if text[at] == ",":
                at = self._skip(at + 1)

    def _skip(self, at: int) -> int:
        """Return the position after white space."""
        blank = BLANK.match(self.text, at)
        return blank.end() if blank else at

    def _line_indent(self, at: int) -> str:
        """Return the white space at the beginning of the line of a position."""
        line = self.text[self.text.rfind("\n", 0, at) + 1 : at]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def _dump(self, value: Any, indent: str) -> str:
        """Return a value as JSON in the style of the file, whose lines begin with ``indent``."""
        text = json.dumps(value, ensure_ascii=self._ascii, indent=self._indent, separators=self._separators)
        return text.replace("\n", self._newline + indent)
