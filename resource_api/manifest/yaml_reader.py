"""Read YAML text as plain data, built from the parser's events in one pass.

Scalars are those of YAML 1.2's core schema, no objects are constructed, and limits hold before memory or the stack is
exhausted: any bytes give data or a ``ManifestError``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from yaml.error import MarkedYAMLError, YAMLError
from yaml.events import AliasEvent, MappingEndEvent, MappingStartEvent, ScalarEvent, SequenceEndEvent, StreamEndEvent

from resource_api.manifest import syntax_hints
from resource_api.manifest import yaml_scalar as scalar
from resource_api.model.values import document
from resource_api.model.values.document import Document, Node, Position
from resource_api.model.values.errors import ManifestError, Problem, ResourceAPIError
from resource_api.model.values.start_up import regex
from resource_api.system.gc_pause import gc_paused

try:
    from yaml._yaml import CParser
except ImportError:  # pragma: no cover - the pure parser is thirty times slower and has other limits
    _message = "PyYAML was built without libyaml; install a PyYAML that has it"
    raise ResourceAPIError(_message) from None

if TYPE_CHECKING:
    from collections.abc import Callable

    from yaml._yaml import Mark

# libyaml compares each %TAG with all before it, and a manifest needs none: only core tags are allowed.
_TAG_DIRECTIVE: Final = regex(r"^%TAG\b", re.MULTILINE)
_LINE_END: Final = regex("\r\n|[\r\n\u2028\u2029]")
#: The value of an anchor whose collection is not complete.
_OPEN: Final = object()
#: The value of an anchor whose scalar is refused.
_REFUSED: Final = object()
_MAX_PROBLEMS: Final = 100


class _PositionedError(Exception):
    """A problem at a mark, the parser's position in the text."""

    def __init__(self, mark: Mark, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.mark, self.code, self.message, self.hint = mark, code, message, hint


class _MisreadError(_PositionedError):
    """A value was read as an alias, an anchor, a tag or a mapping, by its first character."""


class _DuplicateKey(Exception):  # noqa: N818 - never leaves this module
    """A key is repeated; the position of the first one was not kept."""


class _EnoughProblems(Exception):  # noqa: N818 - never leaves this module
    """As many problems as are reported have been found."""


def read(text: bytes, file: str) -> Document:
    """Return the data of one YAML document; ``None`` for an empty text.

    Raises ``ManifestError`` for a text that is not YAML 1.2 core, repeats a key or exceeds a limit: with every problem
    up to the first one of syntax, at most a hundred. Beyond a limit the text is not read a second time.
    """
    decoded = document.decode(text, file)
    directive = _TAG_DIRECTIVE.search(decoded) if "%TAG" in decoded else None
    if directive:
        position = document.position_of(decoded, directive.start())
        raise document.manifest_error(file, position, "syntax", "a %TAG directive is not allowed")
    builder = _Builder(text)  # fast, and stops at the first problem
    try:
        data = builder.document()
    except (_PositionedError, _DuplicateKey, YAMLError) as error:
        if isinstance(error, _PositionedError) and error.code == "limit":
            raise document.manifest_error(file, _position(error.mark), error.code, error.message, error.hint) from None
        # Read again, to find all problems.
        raise ManifestError(_ProblemCollector(text, decoded, file).all_problems()) from None
    heads = {section: {key: _position(mark) for key, mark in marks.items()} for section, marks in builder.heads.items()}
    return Document(data, file, text, lambda: _index(text), heads)


def _index(text: bytes) -> Node:
    """Return the positions of everything in a text that ``read`` accepted, parsed again for a problem."""
    with gc_paused():  # it makes very many objects, and none is garbage
        return _Index(text).document()


def _position(mark: Any) -> Position:
    """Return line and column, from 1, of a mark of libyaml, which counts from 0; (0, 0) without a mark."""
    return (mark.line + 1, mark.column + 1) if mark else (0, 0)


def _scalar(event: Any) -> Any:
    """Return the value of a scalar by YAML 1.2's core schema: text in quotes stays text. Raise ``_PositionedError``."""
    text: str = event.value
    try:
        value: object = text
        if event.tag is not None:
            value = scalar.tagged(text, event.tag)
        elif not event.style:
            value = scalar.plain(text)
    except ValueError as error:
        # A local tag, as in ``password: !abc``, is mostly the beginning of a text without quotes: its error has the
        # hint to add them.
        is_local = event.tag is not None and not event.tag.startswith(("!!", "tag:"))
        raise (_MisreadError if is_local else _PositionedError)(event.start_mark, "value", str(error)) from None
    message = document.character_problem(value, key=False) if type(value) is str else ""
    if message:
        raise _PositionedError(event.start_mark, "encoding", message)
    return value


class _Builder:
    """Builds the data of one document, up to a first problem, and keeps the marks of the keys of its sections."""

    def __init__(self, text: bytes) -> None:
        """Parse by libyaml's events, which keep positions and never build objects of other classes."""
        self._get: Callable[[], Any] = CParser(text).get_event
        #: Anchor → its value, or ``_OPEN`` or ``_REFUSED``.
        self._anchors: dict[str, object] = {}
        #: Anchor of a scalar that no alias has used yet → its mark: it may be a text that begins with ``&``.
        self._unused: dict[str, Any] = {}
        #: The plain keys that were accepted: one object for each text.
        self._keys: dict[str, str] = {}
        #: ``id`` of a collection that an alias repeats → its weight and height.
        self._measured: dict[int, tuple[int, int]] = {}
        #: The weight of all aliases so far.
        self._expanded = 0
        #: The key of the section that is being read.
        self._section = ""
        #: Section → key → its mark.
        self.heads: dict[str, dict[str, Mark]] = {}

    def document(self) -> Any:
        """Return the value of the file's only document, or None for an empty file.

        An anchor that no alias uses is refused: mostly it is a text that begins with ``&`` and lacks quotes.
        """
        get = self._get
        get()  # the start of the stream; next come the start of a document, its root, and its end
        if type(get()) is StreamEndEvent:
            return None
        data = self._node(get(), 0)
        for mark in self._unused.values():
            self._refuse(_MisreadError(mark, "syntax", "no alias uses this anchor"))
        get()  # the end of the document
        event = get()
        if type(event) is not StreamEndEvent:
            message, hint = "there is a second document in this file", "use one file for each"
            raise _PositionedError(event.start_mark, "syntax", message, hint)
        return data

    def _refuse(self, error: _PositionedError) -> None:
        """Raise an error after which reading could continue; ``_ProblemCollector`` records it and does."""
        raise error

    def _node(self, event: Any, depth: int) -> Any:
        """Return the value of the node that begins with ``event``: a scalar, a collection or an alias.

        The anchor of a collection is ``_OPEN`` until the collection is complete, to refuse an alias within it, which
        would be a cycle. The anchor of a scalar is ``_unused`` until an alias uses it: see ``document``.
        """
        if type(event) is AliasEvent:
            return self._alias(event, depth)
        anchor = event.anchor
        if type(event) is ScalarEvent:
            value = _scalar(event)
            if anchor:
                self._unused[anchor] = event.start_mark
        else:
            if anchor:
                self._anchors[anchor] = _OPEN
            value = self._collection(event, depth + 1)
        if anchor:
            self._anchors[anchor] = value
        return value

    def _collection(self, event: Any, depth: int) -> Any:
        """Return the mapping or list that begins with ``event``; refuse one that is too deep or has another tag.

        The marks of the second level, the keys of each section, are kept in ``heads``: most problems need only these.
        """
        if depth > document.MAX_DEPTH:
            raise _PositionedError(event.start_mark, "limit", f"nested deeper than {document.MAX_DEPTH}")
        mapping = type(event) is MappingStartEvent
        # ``!`` is YAML's tag without a meaning of its own.
        if event.tag not in (None, "!", scalar.CORE + ("map" if mapping else "seq")):
            message, hint = "this tag is not allowed here", "a mapping is !!map, a list !!seq, and needs no tag"
            self._refuse(_PositionedError(event.start_mark, "value", message, hint))
        if not mapping:
            return self._sequence(depth)
        marks: dict[str, Mark] | None = None
        if depth == 2:  # noqa: PLR2004 - the level whose marks are kept
            marks = self.heads[self._section] = {}
        return self._mapping(depth, marks)

    def _sequence(self, depth: int) -> list[Any]:
        """Read the rest of a list; scalars, most of its items, without a call of ``_node``, which saves time."""
        get, node = self._get, self._node
        data: list[Any] = []
        while type(event := get()) is not SequenceEndEvent:
            plain = type(event) is ScalarEvent and event.anchor is None
            data.append(_scalar(event) if plain else node(event, depth))
        return data

    def _mapping(self, depth: int, marks: dict[str, Mark] | None) -> dict[str, Any]:
        """Read the rest of a mapping, whose start event was taken; ``marks``, if any, gets the position of each key.

        Plain keys and scalars are handled here and not by calls, because a manifest has tens of thousands of them.
        Raise ``_DuplicateKey``, after which the text is read again for the position of the first one.
        """
        get, keys = self._get, self._keys
        words, numeric = scalar.WORDS, scalar.NUMERIC
        data: dict[str, Any] = {}
        while type(event := get()) is not MappingEndEvent:
            # A plain key that was accepted before needs no check: names of attributes are repeated thousands of times.
            key = keys.get(event.value) if type(event) is ScalarEvent and event.tag is event.anchor is None else None
            if key is None:
                key = self._key(event)
            if key in data:
                raise _DuplicateKey
            if marks is not None:
                marks[key] = event.start_mark
            elif depth == 1:
                # the marks of the mapping under this key will be those of a section
                self._section = key
            event = get()
            if type(event) is ScalarEvent and event.tag is event.anchor is None:
                value = event.value
                if event.style:  # in quotes: a text
                    if "\0" in value:
                        _scalar(event)  # raises
                elif value in words or value[0] in numeric:  # perhaps null, a Boolean or a number
                    value = _scalar(event)
                data[key] = value
            else:
                data[key] = self._node(event, depth)
        return data

    def _key(self, event: Any) -> str:
        """Return a key of a mapping, which must be a text or the alias of one. Raise ``_PositionedError``."""
        written = type(event) is ScalarEvent
        if not written and type(event) is not AliasEvent:
            raise _MisreadError(event.start_mark, "syntax", "a key must be a string")
        if written and event.value == "<<" and not event.style and event.tag is None:
            hint = "repeat the keys, or use 'defaults'"
            raise _PositionedError(event.start_mark, "syntax", "YAML 1.2 has no merge key '<<'", hint)
        value = self._node(event, 0)
        if type(value) is not str:
            raise _PositionedError(event.start_mark, "syntax", "a key must be a string", "write it in quotes")
        message = document.character_problem(value, key=True)
        if message:
            raise _PositionedError(event.start_mark, "encoding", message)
        if written and not event.style and event.tag is event.anchor is None:
            self._keys[value] = value
        return value

    def _alias(self, event: Any, depth: int) -> Any:
        """Return the value of an alias's anchor.

        Raise ``_PositionedError`` for an unknown anchor, for an alias within its own value, and if aliases of aliases
        make the data too deep or, exponentially, too large.
        """
        # The name of an anchor is not shown: it may be a password that begins with '*'.
        if event.anchor not in self._anchors:
            raise _MisreadError(event.start_mark, "syntax", "no anchor of this name stands before this alias")
        self._unused.pop(event.anchor, None)
        value = self._anchors[event.anchor]
        if value is _OPEN:
            raise _PositionedError(event.start_mark, "limit", "this alias stands inside what it stands for")
        weight, height = self._measure(value)
        if depth + height > document.MAX_DEPTH:
            raise _PositionedError(event.start_mark, "limit", f"nested deeper than {document.MAX_DEPTH} by this alias")
        self._expanded += weight
        if self._expanded > document.MAX_EXPANSION:
            raise _PositionedError(event.start_mark, "limit", "aliases expand this file beyond the limit")
        return value

    def _measure(self, value: Any) -> tuple[int, int]:
        """Return the weight and height of an alias's value, for the limits on aliases of aliases.

        The weight is about its size in bytes if each alias was a copy, the height the number of levels. A collection is
        measured once, because aliases may repeat it exponentially often.
        """
        if type(value) not in (dict, list):
            return document.NODE_WEIGHT + (len(value) if type(value) is str else 0), 0
        measured = self._measured.get(id(value))
        if measured is None:
            weight, height = document.NODE_WEIGHT, 0
            for part in value.values() if type(value) is dict else value:
                more, higher = self._measure(part)
                weight, height = weight + more, max(height, higher)
            weight += sum(map(len, value)) if type(value) is dict else 0
            measured = self._measured[id(value)] = weight, height + 1
        return measured


class _ProblemCollector(_Builder):
    """Reads a refused text again, and continues after problems other than limits and syntax errors."""

    def __init__(self, text: bytes, decoded: str, file: str) -> None:
        """Prepare to read ``text`` of ``file`` again for its problems; ``decoded``: the same as lines, for advice."""
        super().__init__(text)
        self._lines = _LINE_END.split(decoded)
        self._file = file
        self._problems: list[Problem] = []

    def all_problems(self) -> list[Problem]:
        """Read the document, and return its problems up to one that ends the reading."""
        try:
            self.document()
        except _EnoughProblems:
            pass
        except _PositionedError as error:
            self._problems.append(self._problem(error))
        except MarkedYAMLError as error:
            self._problems.append(self._syntax_problem(error))
        except YAMLError:
            self._problems.append(document.problem(self._file, (0, 0), "syntax", "this is not YAML"))
        return self._problems

    def _problem(self, error: _PositionedError) -> Problem:
        """Return an error as a problem at its line; a value that YAML has misread has the hint to put it in quotes."""
        position = _position(error.mark)
        if not isinstance(error, _MisreadError):
            return document.problem(self._file, position, error.code, error.message, error.hint)
        advice = syntax_hints.value_needs_quotes(self._lines[position[0] - 1], position)
        problem = document.problem(self._file, position, error.code, error.message, advice.message)
        return problem._replace(paste=advice.paste)

    def _syntax_problem(self, error: MarkedYAMLError) -> Problem:
        """Return libyaml's syntax error as a problem, with advice instead of its message if the line shows the mistake.

        libyaml's messages never repeat the text, which may hold a secret.
        """
        message = " ".join(part for part in ("not valid YAML:", error.problem, error.context) if part)
        # ``start``: that of the construct in which the parser failed, such as an open quote.
        lines, position, start = self._lines, _position(error.problem_mark), _position(error.context_mark)
        if start not in ((0, 0), position):
            message += f" that begins at line {start[0]}, column {start[1]}"
        if position[0] > len(lines):
            # The parser reports the end of the text on the line after the last one.
            position = start if 0 < start[0] <= len(lines) else (len(lines), len(lines[-1]) + 1)
        last = position[0]
        # The parser finds a key that ' #' has cut off only on the next line.
        first = start[0] or max(last - 1, 1)
        cut_position, hint = syntax_hints.first_quoting_hint(lines, (last, last - 1, first))
        failure = syntax_hints.Failure(error.problem or "", error.context or "", position, start, lines)
        if cut_position is None and (advice := syntax_hints.advise(failure)) is not None:
            problem = document.problem(self._file, advice.position, "syntax", f"not valid YAML: {advice.message}")
            return problem._replace(paste=advice.paste)
        return document.problem(self._file, cut_position or position, "syntax", message, hint)

    def _refuse(self, error: _PositionedError) -> None:
        """Record an error, where the base class raises it, and read on to find further ones.

        An error about a limit is raised here too: reading on could take too much time or memory.
        """
        if error.code == "limit":
            raise error
        self._add(self._problem(error))

    def _add(self, problem: Problem) -> None:
        """Add a problem unless it repeats the last one; the hundredth ends the reading, by ``_EnoughProblems``."""
        if any(last.place == problem.place and last.message == problem.message for last in self._problems[-1:]):
            return  # as of a key within a key, which begins at the same character
        self._problems.append(problem)
        if len(self._problems) == _MAX_PROBLEMS:
            raise _EnoughProblems

    def _node(self, event: object, depth: int) -> Any:
        """Return the value of a node; record the problem of a refused one and return ``_REFUSED``, to read on."""
        try:
            return super()._node(event, depth)
        except _PositionedError as error:
            # The parts of a collection have recorded their own problems: this is one of an alias or a scalar.
            self._refuse(error)
            if type(event) is ScalarEvent and event.anchor:
                self._anchors[event.anchor] = _REFUSED
            return _REFUSED

    def _sequence(self, depth: int) -> list[Any]:
        """Record the problems of a list's items, and return an empty list: a refused manifest needs no data."""
        while type(event := self._get()) is not SequenceEndEvent:
            self._node(event, depth)
        return []

    def _mapping(self, depth: int, marks: dict[str, Mark] | None) -> dict[str, Any]:
        """Record the problems of a mapping, such as repeated keys, and return an empty one: its data is not needed."""
        del marks  # only the reader of data keeps them
        positions: dict[str, Position] = {}
        while type(event := self._get()) is not MappingEndEvent:
            key, position = self._any_key(event, depth), _position(event.start_mark)
            if key is not None and positions.setdefault(key, position) != position:
                self._add(document.duplicate_key(self._file, position, positions[key], key))
            self._node(self._get(), depth)
        return {}

    def _any_key(self, event: object, depth: int) -> str | None:
        """Return a key of a mapping; record the problem of a refused one and return None, to read on.

        If a collection is written as the key, all of it is read, so that the next event is that of the value.
        """
        if type(event) is AliasEvent and self._anchors.get(event.anchor or "") is _REFUSED:
            return None
        count = len(self._problems)
        try:
            return self._key(event)
        except _PositionedError as error:
            if len(self._problems) == count:  # otherwise ``_node`` has recorded it
                self._refuse(error)
            if type(event) not in (ScalarEvent, AliasEvent):  # a collection
                self._node(event, depth)
            return None


class _Index:
    """Walks a text once more when a problem needs a position, and records the position of everything in it."""

    def __init__(self, text: bytes) -> None:
        self._get: Callable[[], Any] = CParser(text).get_event
        #: Anchor → the positions of its value.
        self._anchors: dict[str, Node] = {}

    def document(self) -> Node:
        """Return the positions of the document's root and of everything in it, for the messages of later stages."""
        self._get()  # the start of the stream
        if type(self._get()) is StreamEndEvent:
            return Node((1, 1), {})
        return self._node(self._get())

    def _node(self, event: Any) -> Node:
        """Return the position of a node and of its children, by key or number; an alias has those of its anchor."""
        node = Node(_position(event.start_mark), {})
        if type(event) is AliasEvent:
            anchored = self._anchors.get(event.anchor or "")
            return Node(node.position, anchored.children) if anchored else node
        if type(event) is not ScalarEvent:
            fill = self._mapping if type(event) is MappingStartEvent else self._sequence
            fill(node)
        if event.anchor:
            self._anchors[event.anchor] = node
        return node

    def _sequence(self, node: Node) -> None:
        """Read the rest of a list, and add the positions of its items to the children of ``node``, by number."""
        while type(event := self._get()) is not SequenceEndEvent:
            item = self._node(event)
            node.children[len(node.children)] = item.position, item

    def _mapping(self, node: Node) -> None:
        """Read the rest of a mapping, and add the positions of its keys and values to the children of ``node``."""
        while type(event := self._get()) is not MappingEndEvent:
            position = self._node(event).position
            key = event.value if type(event) is ScalarEvent else None
            value = self._node(self._get())
            if key is not None:
                node.children[key] = position, value
