"""A parsed file: its plain data, and the position of each part; limits and refused characters of all formats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values import text
from resource_api.model.values.errors import ManifestError, Problem, suggestion
from resource_api.model.values.start_up import NamedTuple, regex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

MAX_DEPTH: Final = 100
MAX_BYTES: Final = 100_000_000
#: The last suffix of an encrypted file of inputs.
AGE: Final = ".age"
# A weight, not a count: a node weighs 64 and its text one per character, which limits both many small repetitions
# and a few huge ones.
MAX_EXPANSION: Final = 64_000_000
NODE_WEIGHT: Final = 64

Position = tuple[int, int]

_CONTROL_BYTES: Final = bytes([*range(9), 11, 12, *range(14, 32), 127])
_FORBIDDEN: Final = regex("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufeff\ufffe\uffff]")
_KEY_FLAW: Final = regex("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_VALUE_FLAW: Final = regex("[\x00\ud800-\udfff]")
_SHOWN: Final = 80


#: The most that the inputs of a pure function weigh: it is computed while the manifest is compiled.
MAX_INPUTS: Final = MAX_EXPANSION // 4


def check_inputs(data: object, label: str) -> None:
    """Raise ``ValueError`` for inputs that are too large or nested, each repetition counted; ``label``: their name.

    One list that is referred to a thousand times costs little memory and much time in a function. A list of waiting
    values takes the place of recursion, as Python's stack is limited.
    """
    weight, waiting = 0, [(data, 0)]
    while waiting:
        value, depth = waiting.pop()
        weight += NODE_WEIGHT + (len(value) if type(value) is str else 0)
        if depth > MAX_DEPTH:
            raise ValueError(f"{label} is nested deeper than {MAX_DEPTH}")
        if weight > MAX_INPUTS:
            raise ValueError(f"{label} expands beyond the limit")
        if type(value) is dict:
            waiting += ((part, depth + 1) for part in value.values())
        elif type(value) is list:
            waiting += ((part, depth + 1) for part in value)


class Node(NamedTuple):
    """The position of a value and, for a mapping or list, of its parts: key → (position of the key, its node)."""

    position: Position
    children: dict[str | int, tuple[Position, Node]]


class Document:
    """Plain data, the file's name and bytes, and positions on demand.

    ``heads`` holds positions that the parser has found anyway: top-level key → key below it → position. ``index``
    parses the text again for all other positions; it is called once, when the first of them is needed.
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
        """Keep ``data`` unchanged; ``index`` computes the positions of all parts, or is None if they are unknown.

        ``heads``: section → key → position, known without it.
        """
        self.data = data
        self.file = file
        self.raw = raw
        self._index = index
        self._heads = heads or {}
        self._root: Node | None = None

    @property
    def root(self) -> Node | None:
        """The positions of all parts, computed at the first use, since most runs report no problem; None: unknown."""
        if self._root is None and self._index is not None:
            self._root = self._index()
        return self._root

    def heads(self) -> dict[str, dict[str, Position]]:
        """Return section → key → position, as far as the reader has recorded them, to save them with the data.

        They suffice for most messages, and computing others would parse the file again. Keys that the data does not
        have any more are left out.
        """
        sections = self.data if type(self.data) is dict else {}
        return {
            section: {key: positions[key] for key in sections[section] if key in positions}
            for section, positions in self._heads.items()
            if type(sections.get(section)) is dict
        }

    def places(self, *sections: str) -> dict[str, dict[str, Position]]:
        """Return the positions of the keys in these sections, for a saved plan: section → key → position."""
        data = self.data if type(self.data) is dict else {}
        mappings = {name: data[name] for name in sections if type(data.get(name)) is dict}
        return {name: {key: self.position((name, key)) for key in keys} for name, keys in mappings.items()}

    def beneath(self, key: str) -> Document:
        """Return a document whose only section, ``key``, is this document's data: ``{a: 1}`` becomes ``{key: {a: 1}}``.

        So a file that contains one section alone is read like a manifest. Its positions stay the same.
        """
        start, index = (1, 1), self._index
        shifted = None if index is None else lambda: Node(start, {key: (start, index())})
        return Document({key: self.data}, self.file, self.raw, shifted)

    def with_data(self, data: object) -> Document:
        """Return a document with other data, whose parts keep their positions in this one."""
        return Document(data, self.file, self.raw, self._index, self._heads)

    def renamed(self, names: Mapping[str, str]) -> Document:
        """Return a document with other names for some top-level keys, such as misspelt sections; positions stay.

        ``names``: key in this document → its new name.
        """
        if not names:
            return self
        data = {names.get(key, key): value for key, value in self.data.items()}
        heads = {names.get(key, key): positions for key, positions in self._heads.items()}

        def index() -> Node:
            root = self.root or Node((0, 0), {})
            return root._replace(children={names.get(str(key), key): part for key, part in root.children.items()})

        return Document(data, self.file, self.raw, index, heads)

    def position(self, path: Sequence[str | int], *, value: bool = False) -> Position:
        """Return line and column, from 1, of the key at ``path``, or of its value.

        Messages need it. If the path does not exist, the position of its last existing part; ``(0, 0)`` means unknown.
        """
        # Nearly all positions that are asked for are heads; for any other one the text is parsed again.
        head = self._heads.get(str(path[0]), {}).get(str(path[1])) if len(path) > 1 else None
        if head and not path[2:] and not value:
            return head
        root = self.root
        if root is None:
            return head or (0, 0)
        node, position = root, root.position
        for step in path:
            if step not in node.children:
                return position
            position, node = node.children[step]
        return node.position if value else position


def decode(raw: bytes, file: str) -> str:
    """Return the text of ``raw``, which must be UTF-8 without control characters other than tab and line ends.

    Raises ``ManifestError`` with the position of the first character that is not.
    """
    if len(raw) > MAX_BYTES:
        raise manifest_error(file, (0, 0), "limit", f"the file is larger than {MAX_BYTES // 1_000_000} MB")
    if raw.startswith((b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")):
        hint = "save it as UTF-8 without one"
        raise manifest_error(file, (1, 1), "encoding", "the file begins with a byte order mark", hint)
    try:
        decoded = raw.decode()
    except UnicodeDecodeError as error:
        # The column counts characters, so the line up to the mistake, which is valid, is decoded.
        line = raw.rfind(b"\n", 0, error.start) + 1
        position = (raw.count(b"\n", 0, error.start) + 1, len(raw[line : error.start].decode()) + 1)
        raise manifest_error(file, position, "encoding", "this is not UTF-8") from None
    # Counting bytes is many times faster than a search, and nearly all files are ASCII.
    is_plain = len(decoded) == len(raw) == len(raw.translate(None, _CONTROL_BYTES))
    if not is_plain and (match := _FORBIDDEN.search(decoded)):
        message = f"control character U+{ord(match[0]):04X}"
        raise manifest_error(file, position_of(decoded, match.start()), "encoding", message)
    return decoded


def position_of(text: str, offset: int) -> Position:
    """Return line and column, from 1, of a character's offset."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def manifest_error(file: str, position: Position, code: str, message: str, hint: str = "") -> ManifestError:
    """Return the error for one problem at one position."""
    return ManifestError([problem(file, position, code, message, hint)])


def problem(file: str, position: Position, code: str, message: str, hint: str = "") -> Problem:
    """Return a problem that belongs to no resource."""
    return Problem(None, message, file=file, line=position[0], column=position[1], code=code, hint=hint)


def type_problem(value: object) -> str:
    """Return the problem of a Python value that no manifest can hold, with the value to write instead."""
    name = type(value).__name__
    if isinstance(value, type):
        return f"a manifest cannot hold the class {value.__name__}; a data type is text, such as 'String'"
    if isinstance(value, bytes):
        advice = "; write the text, or m.asset(file=...)"
    elif hasattr(value, "__iter__"):
        advice = "; write list(...)"
    elif hasattr(value, "__fspath__") or hasattr(value, "isoformat"):
        advice = "; write str(...)"
    else:
        advice = ""
    return f"a manifest cannot hold a value of the type {name}{advice}"


def character_problem(value: str, *, key: bool, noun: str = "") -> str:
    """Return the problem of a string's characters or, more strictly, of a key's; "" if there is none.

    NUL is accepted by no file system, program or database, and a lone surrogate is no character. Keys become names in
    logs, command lines and line-based files. ``noun`` names another kind of name in the message.
    """
    if value.isprintable():
        return ""  # many times faster than a search, or than compiling it
    match = (_KEY_FLAW if key else _VALUE_FLAW).search(value)
    if not match:
        return ""
    if "\ud800" <= match[0] <= "\udfff":
        return "a lone surrogate is no character"
    return f"{noun or ('a key' if key else 'a string')} cannot hold the control character U+{ord(match[0]):04X}"


def duplicate_key(file: str, position: Position, first: Position, key: str) -> Problem:
    """Return the problem of a key that occurs twice in one mapping, at the second one; ``first``: the first one's."""
    message = f"duplicate key {quote_key(key)}"
    return problem(file, position, "duplicate", message, f"first at line {first[0]}, column {first[1]}")


def quote_key(key: str) -> str:
    """Return a key in quotes, shortened, with control characters escaped."""
    return f"'{text.escape(key if len(key) <= _SHOWN else key[:_SHOWN] + '…')}'"


class Violation(NamedTuple):
    """A message about an invalid value, and the path of keys to the value."""

    path: tuple[str | int, ...]
    message: str
    hint: str = ""
    code: str = "invalid"


def unknown_keys(
    path: tuple[str | int, ...], mapping: dict[str, object], allowed: tuple[str, ...], context: str
) -> Iterator[Violation]:
    """Yield a violation, with the nearest allowed key, for each key of ``mapping`` that is not ``allowed``.

    ``path``: the keys to the mapping. ``context``, such as ``section``, selects the table of other tools' words, which
    have an equivalent here.
    """
    for key, value in mapping.items():
        if key not in allowed:
            # The nearest key, advice on a Salt module as the value, or a sentence on any unknown key in this context.
            advice = (suggestion(key, allowed, context), module_hint(value), suggestion("*", (), context))
            hint = next(filter(None, advice), f"known are {', '.join(allowed)}")
            yield Violation((*path, key), f"unknown key {quote_key(key)}", hint, "unknown_key")


def module_hint(body: object) -> str:
    """Return the hint for a body whose key is a Salt module, such as ``pkg.installed``, or an empty string."""
    return next(filter(None, (suggestion(str(key), (), "module") for key in body)), "") if type(body) is dict else ""
