"""Our own Python code as a host gets it: without what only people and type checkers read.

Each line keeps its number, so that tracebacks agree with the source.
"""

from __future__ import annotations

import ast
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from resource_api.model.values._namedtuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_DOCUMENTED: Final = (ast.Module, ast.ClassDef, *_FUNCTIONS)


#: Stands in a block whose code is not sent.
_NOTHING: Final = b"pass"


class _Part(NamedTuple):
    """Code that is not sent."""

    first: ast.AST
    last: ast.AST
    #: What stands before and after it and is not sent either; what is sent instead.
    before: bytes = b""
    after: bytes = b""
    instead: bytes = b""

    @property
    def place(self) -> tuple[int, int]:
        """Where it begins."""
        return self.first.lineno, self.first.col_offset  # type: ignore[attr-defined] # what has a place only


def stripped(source: bytes) -> bytes:
    """Return code without comments, docstrings, blocks for type checkers, and annotations except those of classes."""
    return _without_comments(_without_types(source))


def _without_types(source: bytes) -> bytes:
    starts = [0, *accumulate(map(len, source.splitlines(keepends=True)))]
    pieces, at = list[bytes](), 0
    for part in sorted(_types(ast.parse(source)), key=lambda each: each.place):
        (line, column), last = part.place, part.last
        first = starts[line - 1] + column
        first = source.rindex(part.before, at, first) if part.before else first
        end = starts[last.end_lineno - 1] + last.end_col_offset  # type: ignore[attr-defined] # as above
        end = source.index(part.after, end) + len(part.after)
        pieces += source[at:first], part.instead, b"\n" * source.count(b"\n", first, end)
        at = end
    return b"".join((*pieces, source[at:]))


def _types(node: ast.AST, *, in_class: bool = False) -> Iterator[_Part]:
    """Yield what is for type checkers alone."""
    children = ast.iter_child_nodes(node)
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        yield _Part(node.body[0], node.body[-1], instead=_NOTHING)
        children = iter(node.orelse)
    elif isinstance(node, ast.arg) and node.annotation is not None:
        yield _Part(node.annotation, node.annotation, b":")
    elif isinstance(node, _FUNCTIONS) and node.returns is not None:
        yield _Part(node.returns, node.returns, b"->", b":", b":")
    elif isinstance(node, ast.AnnAssign) and node.value is not None and not in_class:
        yield _Part(node.annotation, node.annotation, b":")
    for child in children:
        yield from _types(child, in_class=isinstance(node, ast.ClassDef) or (in_class and isinstance(node, ast.If)))


def _without_comments(source: bytes) -> bytes:
    """Return code without lines of comments and the texts of docstrings."""
    lines, inside = source.split(b"\n"), set[int]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, _DOCUMENTED) and node.body and _is_text(node.body[0]):
            first, last = node.body[0].lineno, node.body[0].end_lineno or 0
            after = lines[last - 1][node.body[0].end_col_offset or 0 :]
            lines[first - 1] = lines[first - 1][: node.body[0].col_offset] + b'""' + after
            lines[first:last] = [b""] * (last - first)
        elif isinstance(node, (ast.Constant, ast.JoinedStr)):
            inside.update(range(node.lineno + 1, (node.end_lineno or 0) + 1))
    for number, line in enumerate(lines, 1):
        if number not in inside and line.lstrip().startswith(b"#"):
            lines[number - 1] = b""
    return b"\n".join(lines)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
