"""A text read as plain data, and where in the text each part of it stands.

Every format obeys the same limits and refuses the same characters, so they are written down here.
No format's grammar enters, nor what a manifest means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values import text
from resource_api.model.values._lazy_regex import regex
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import ManifestError, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

MAX_DEPTH: Final = 100
MAX_BYTES: Final = 100_000_000
# Weighed, not counted: a node costs 64 and its text one for each character, so that neither many small
# repetitions pass nor a few huge ones.
MAX_EXPANSION: Final = 64_000_000
NODE_WEIGHT: Final = 64

QUOTING: Final = "a reference inside [...] or {...}, or with ': ' or ' #' in its title, needs quotes"

Position = tuple[int, int]

_CONTROL_BYTES: Final = bytes([*range(9), 11, 12, *range(14, 32), 127])
_FORBIDDEN: Final = regex("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufeff\ufffe\uffff]")
_KEY_FLAW: Final = regex("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_VALUE_FLAW: Final = regex("[\x00\ud800-\udfff]")
_SHOWN: Final = 80
# Nobody pastes more, and a hostile line must not cost more.
_LONGEST_LINE: Final = 1000
_WORD: Final = regex(r"(?<!\w)[A-Za-z]\w*\[")
# A capital marks a reference; what else looks like one may be a secret and is not repeated.
_PASTABLE: Final = regex(r"(?<![\w\"'])(?:\$\{|[A-Z][a-z0-9_]*\[)")


class Node(NamedTuple):
    """Where a value stands and, for a mapping or list, where its parts do: key → (the key's place, its node)."""

    position: Position
    children: dict[str | int, tuple[Position, Node]]


class Document:
    """Plain data, the file's name and bytes, and positions on demand.

    ``heads`` are the positions known without walking the text again: top-level key → key below it → place.
    ``index`` walks the text for all others; it is called once, at the first question it must answer.
    """

    __slots__ = ("_heads", "_index", "_root", "data", "file", "raw")

    def __init__(
        self,
        data: Any,
        file: str,
        raw: bytes,
        index: Callable[[], Node] | None = None,
        heads: Mapping[str, Mapping[str, Position]] | None = None,
    ) -> None:
        """Keep ``data`` as it is; without ``index`` no position is known."""
        self.data = data
        self.file = file
        self.raw = raw
        self._index = index
        self._heads = heads or {}
        self._root: Node | None = None

    def holding(self, data: Any) -> Document:
        """Give a document with a part of this one's data; all that is in it stands where it stood."""
        return Document(data, self.file, self.raw, self._index, self._heads)

    def quoting(self, line: int) -> str:
        """Give the hint for a line that has a reference without its end: the text to paste, where that can be told."""
        lines = self.raw.splitlines()[line - 1 : line] if line else []
        return next(filter(None, (quoting_hint(each.decode(errors="replace")) for each in lines)), QUOTING)

    def position(self, path: Sequence[str | int], *, value: bool = False) -> Position:
        """Give line and column, from 1, of the key at ``path``, or of its value.

        Where the path leads to nothing, the last part of it that exists is answered; ``(0, 0)`` means not known.
        """
        if len(path) == 2 and not value:  # noqa: PLR2004 - a section and a key in it
            known = self._heads.get(str(path[0]), {}).get(str(path[1]))
            if known:
                return known
        if self._index is None:
            return (0, 0)
        if self._root is None:
            self._root = self._index()
        node, place = self._root, self._root.position
        for step in path:
            child = node.children.get(step)
            if child is None:
                return place
            place, node = child
        return node.position if value else place


def decode(raw: bytes, file: str) -> str:
    """Give the characters of ``raw``, which are UTF-8 without control characters (tab and line ends apart).

    Raises ``ManifestError`` naming the line and column of the first that is not.
    """
    if len(raw) > MAX_BYTES:
        raise manifest_error(file, (0, 0), "limit", f"the file is larger than {MAX_BYTES // 1_000_000} MB")
    if raw.startswith((b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")):
        hint = "save it as UTF-8 without one"
        raise manifest_error(file, (1, 1), "encoding", "the file begins with a byte order mark", hint)
    try:
        decoded = raw.decode()
    except UnicodeDecodeError as error:
        line = raw.rfind(b"\n", 0, error.start) + 1
        place = (raw.count(b"\n", 0, error.start) + 1, len(raw[line : error.start].decode()) + 1)
        raise manifest_error(file, place, "encoding", "this is not UTF-8") from None
    # Counting bytes is many times faster than searching characters, and nearly all files are plain ASCII.
    if len(decoded) != len(raw) or len(raw.translate(None, _CONTROL_BYTES)) != len(raw):
        found = _FORBIDDEN.search(decoded)
        if found:
            message = f"control character U+{ord(found[0]):04X}"
            raise manifest_error(file, position_of(decoded, found.start()), "encoding", message)
    return decoded


def position_of(text: str, offset: int) -> Position:
    """Give line and column, from 1, of a character's offset."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def manifest_error(file: str, place: Position, code: str, message: str, hint: str = "") -> ManifestError:
    """Make the error of one problem at one place."""
    return ManifestError([problem(file, place, code, message, hint)])


def problem(file: str, place: Position, code: str, message: str, hint: str = "") -> Problem:
    """Make a problem that belongs to no resource."""
    return Problem(None, message, file=file, line=place[0], column=place[1], code=code, hint=hint)


def character_problem(value: str, *, key: bool, what: str = "") -> str:
    """Say what is wrong with the characters of a string or, stricter, of a key; empty when nothing is.

    A NUL reaches no file system, program or database unharmed, and a lone surrogate is no character;
    keys are names, which end up in logs, on command lines and in line-based files. ``what`` else is a name.
    """
    found = (_KEY_FLAW if key else _VALUE_FLAW).search(value)
    if not found:
        return ""
    if "\ud800" <= found[0] <= "\udfff":
        return "a lone surrogate is no character"
    return f"{what or ('a key' if key else 'a string')} cannot hold the control character U+{ord(found[0]):04X}"


def duplicate_key(file: str, place: Position, first: Position, key: str) -> Problem:
    """Make the problem of a key that stands twice in one mapping."""
    message = f"duplicate key {quote_key(key)}"
    return problem(file, place, "duplicate", message, f"first at line {first[0]}, column {first[1]}")


def quote_key(key: str) -> str:
    """Give a key in quotes, cut when it is long, its control characters escaped."""
    return f"'{text.escape(key if len(key) <= _SHOWN else key[:_SHOWN] + '…')}'"


def quoting_hint(line: str) -> str:
    """Give the hint for a line of YAML that may have failed for want of quotes around a reference; else nothing."""
    line = line[:_LONGEST_LINE]
    starts = [found.start() for found in _PASTABLE.finditer(line) if not _inside_quotes(line[: found.start()])]
    pastable = [cut for cut in (_balanced(line, start) for start in starts) if cut]
    # Cut apart again, a reference inside a reference would be offered twice.
    pastable = [cut for cut in pastable if not any(cut != other and cut in other for other in pastable)]
    if not pastable and not _WORD.search(line):
        return ""
    return f"{QUOTING}: write {', '.join(map(_quoted, dict.fromkeys(pastable)))}" if pastable else QUOTING


def quoting_advice(lines: Sequence[str], near: Sequence[int]) -> tuple[Position | None, str]:
    """Give the hint for the first of some lines, numbered from 1, that may have failed for want of quotes.

    A line in which a comment cuts a reference off goes before the others, and then with the place of that.
    """
    numbers = [number for number in dict.fromkeys(near) if 0 < number <= len(lines)]
    for number in numbers:
        if column := _torn(lines[number - 1]):
            return (number, column), quoting_hint(lines[number - 1])
    return None, next(filter(None, (quoting_hint(lines[number - 1]) for number in numbers)), "")


def _torn(line: str) -> int:
    """Give the column, from 1, of a reference in a line of YAML that a comment has cut off; 0 where there is none."""
    line = line[:_LONGEST_LINE]
    for found in _PASTABLE.finditer(line):
        start = found.start()
        comment = line.find(" #", start)
        if not _inside_quotes(line[:start]) and 0 < comment < start + len(_balanced(line, start)):
            return start + 1
    return 0


def _inside_quotes(before: str) -> bool:
    return before.count('"') % 2 == 1 or before.count("'") % 2 == 1


def _balanced(line: str, start: int) -> str:
    """Cut from ``start`` to the bracket that closes the first one; nothing when none does."""
    depth = 0
    for offset in range(start, len(line)):
        depth += (line[offset] in "[{") - (line[offset] in "]}")
        if depth == 0 and line[offset] in "]}":
            return line[start : offset + 1]
    return ""


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'" if '"' in text or "\\" in text else f'"{text}"'
