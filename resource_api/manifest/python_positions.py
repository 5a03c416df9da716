"""Positions in Python source: of calls that declared something, of constants, and of exceptions; literal constants.

A call is recorded as the executed instruction; its line and columns are computed only where a problem needs them.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from resource_api.manifest.read import read_file
from resource_api.model.values.document import Document, Node
from resource_api.model.values.start_up import NamedTuple

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator, Mapping
    from types import CodeType

    from resource_api.model.values.document import Position

    #: Key → the position of the key, and the node of its value.
    Children = dict[str | int, tuple[Position, Node]]
    #: Line and offset in bytes of the start and the end of an instruction's source.
    Extent = tuple[int | None, int | None, int | None, int | None]

#: Constants of a Python manifest → sections.
CONSTANTS: Final = {
    "PROJECT": "project",
    "INPUTS": "inputs",
    "DEFAULTS": "defaults",
    "INCLUDE": "include",
    "PROVIDERS": "providers",
    "VALUES": "values",
    "MOVED": "moved",
    "REMOVED": "removed",
    "PURGE": "purge",
}
_TOP: Final = (1, 1)
_INSTRUCTION_BYTES: Final = 2


class CallSite(NamedTuple):
    """An instruction of the author's code: the code, its offset in bytes, and its line."""

    code: CodeType | None
    offset: int
    line: int

    @property
    def extent(self) -> Extent:
        """The start and end of the instruction's source, with which ``_Source`` looks up the call in its syntax tree.

        A part is None if Python does not know it.
        """
        # ``co_positions`` has one entry for each instruction, of two bytes: ``offset`` 10 is the entry 5.
        positions = self.code.co_positions() if self.code is not None else ()
        line, end_line, start, end = next(islice(positions, self.offset // _INSTRUCTION_BYTES, None), (None,) * 4)
        return line, start, end_line, end

    def position(self, raw: bytes) -> Position:
        """Return line and column of the call in its file, of the bytes ``raw``; column 1 if it is not known."""
        line, start, *_ = self.extent
        return (self.line, 1) if line != self.line or start is None else _Source(raw).position(line, start)


def current_call(file: str) -> CallSite:
    """Return the call in the author's ``file`` that is being executed, as the position of the declaration it makes.

    It is the innermost frame of that file on the stack. Return line 1 if the file has none, as when other code has
    called the author's function.
    """
    frame = sys._getframe()  # noqa: SLF001 - the documented way to the caller's line
    while frame.f_back is not None and frame.f_code.co_filename != file:
        frame = frame.f_back
    if frame.f_code.co_filename != file:
        return CallSite(None, 0, 1)
    return CallSite(frame.f_code, frame.f_lasti, frame.f_lineno)


def source(file: str) -> bytes:
    """Return the bytes of the author's file, for the columns of positions; b"" if it cannot be read any more."""
    try:
        return read_file(file)[0]
    except (OSError, ValueError):
        return b""


def raised_at(error: BaseException, file: str, raw: bytes) -> Position:
    """Return the position in the author's ``file`` (with the bytes ``raw``) at which an exception was raised.

    It is the innermost one: the exception may come from a module that the file has called.
    """
    if isinstance(error, SyntaxError):
        return error.lineno or 1, error.offset or 1
    call, trace = CallSite(None, 0, 1), error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            call = CallSite(trace.tb_frame.f_code, trace.tb_lasti, trace.tb_lineno)
        trace = trace.tb_next
    return call.position(raw)


def positions(calls: Mapping[str, Mapping[str, CallSite]], raw: bytes, top: Position = _TOP) -> Node:
    """Return the positions of a Python manifest's declarations for problems, in the same form as for YAML and JSON.

    ``calls``: section → key → the call that declared it. Constants have their position in the file's bytes ``raw``. A
    section may have both, such as ``values``. ``top`` is the position of the whole and of a section without a constant.
    """
    source = _Source(raw)
    sections: Children = source.constants()
    for section, keys in calls.items():
        position, constant = sections.get(section, (top, Node(top, {})))
        children = dict(constant.children)
        for key, call in keys.items():
            node = source.node(call)
            children[key] = node.position, node
        sections[section] = (position, Node(position, children))
    return Node(top, sections)


def constant_position(raw: bytes, name: str) -> Position:
    """Return the position where a module first assigns or imports a name; line 1 if it does so otherwise."""
    return _Source(raw).first(name)


def literal_section(raw: bytes, file: str, constant: str) -> Document:
    """Return a literal constant of a Python manifest as its section, without executing it; empty if computed."""
    return Document(_Source(raw).literal_section(constant), file, raw)


class _Source:
    """The parsed text of one Python file, for the positions of its parts."""

    def __init__(self, raw: bytes) -> None:
        """Parse the manifest. An invalid text has no positions here: its error is reported by its execution."""
        import ast  # most runs need no position in Python source

        self._ast = ast
        self._lines = raw.splitlines()
        try:
            self._tree = ast.parse(raw)
        except (SyntaxError, ValueError):
            self._tree = ast.Module([], [])
        #: Where a call starts and ends → its node; made for the first position of a call.
        self._calls: dict[Extent, ast.Call] | None = None

    def position(self, line: int, offset: int) -> Position:
        """Return line and column, in characters from 1, of the syntax tree's offset in bytes from 0."""
        text = self._lines[line - 1] if 0 < line <= len(self._lines) else b""
        return line, len(text[:offset].decode(errors="replace")) + 1

    def node(self, call: CallSite) -> Node:
        """Return the position of the author's call that declared something, with the positions of the attributes.

        Attributes are its keywords, and the keys of mappings that are written out in it. An unknown call has only its
        line.
        """
        if self._calls is None:
            nodes = (node for node in self._ast.walk(self._tree) if isinstance(node, self._ast.Call))
            self._calls = {(node.lineno, node.col_offset, node.end_lineno, node.end_col_offset): node for node in nodes}
        written = self._calls.get(call.extent)
        if written is None:
            return Node((call.line, 1), {})
        children: Children = {}
        for argument in written.args:
            children |= self._literal(argument).children if isinstance(argument, self._ast.Dict) else {}
        for keyword in written.keywords:
            if keyword.arg is None:
                children |= self._literal(keyword.value).children
            else:
                children[keyword.arg] = self._at(keyword), self._literal(keyword.value)
        return Node(self._at(written), children)

    def _assignments(self) -> Iterator[tuple[ast.Name, ast.expr | None]]:
        """Yield target and value of each assignment of the module to one of ``CONSTANTS``, such as ``INPUTS``.

        From these nodes come the positions of constants, and their values where the file is not executed.
        """
        ast = self._ast
        for statement in self._tree.body:
            if isinstance(statement, (ast.Assign, ast.AnnAssign)):
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                names = [target for target in targets if isinstance(target, ast.Name) and target.id in CONSTANTS]
                yield from ((name, statement.value) for name in names)

    def constants(self) -> Children:
        """Return the positions of the constants such as ``INPUTS``, by section, and of the keys and items in them."""
        return {
            # ``PURGE: list`` is an assignment without a value.
            CONSTANTS[target.id]: (self._at(target), self._literal(value or target))
            for target, value in self._assignments()
        }

    def literal_section(self, constant: str) -> dict[str, Any]:
        """Return the value of a constant under the name of its section, without executing the file.

        So a fleet's controller reads ``INCLUDE``, and a command on state reads ``PROJECT``. The result is empty if the
        constant is missing or is not a literal.
        """
        section = {}
        with suppress(ValueError, TypeError):
            for target, value in self._assignments():
                if target.id == constant and value is not None:
                    section[CONSTANTS[constant]] = self._ast.literal_eval(value)
        return section

    def first(self, name: str) -> Position:
        """Return the position where a name is first assigned or imported, for a problem; else the file's start."""
        ast = self._ast
        for part in ast.walk(self._tree):
            stored = isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store) and part.id == name
            if stored or (isinstance(part, ast.alias) and name in {part.name, part.asname}):
                return self._at(part)
        return _TOP

    def _literal(self, value: ast.expr) -> Node:
        """Return the position of an expression, with those of the keys and items of a literal collection."""
        ast = self._ast
        children: Children = {}
        if isinstance(value, ast.Dict):
            for key, item in zip(value.keys, value.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    children[key.value] = self._at(key), self._literal(item)
        elif isinstance(value, (ast.List, ast.Tuple)):
            children = {number: (self._at(item), self._literal(item)) for number, item in enumerate(value.elts)}
        return Node(self._at(value), children)

    def _at(self, part: Any) -> Position:
        return self.position(part.lineno, part.col_offset)
