"""Where in a Python file stands what it says: its constants as they are written, the rest by the line that said it.

Only asked where something is wrong. What is said is not known here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values.document import Node

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator, Mapping

    from resource_api.model.values.document import Position

    Children = dict[str | int, tuple[Position, Node]]

CONSTANTS: Final = {
    "PROJECT": "project",
    "INPUTS": "inputs",
    "DEFAULTS": "defaults",
    "INCLUDE": "include",
    "PROVIDERS": "providers",
}
_TOP: Final = (1, 1)


def places(lines: Mapping[str, Mapping[str, int]], raw: bytes = b"") -> Node:
    """Give the places of all that was declared, by section and key, and of the constants of the file ``raw``."""
    sections: Children = {section: (place, node) for section, place, node in _constants(raw)}
    for section, keys in lines.items():
        children: Children = {key: ((line, 1), Node((line, 1), {})) for key, line in keys.items()}
        sections[section] = (_TOP, Node(_TOP, children))
    return Node(_TOP, sections)


def _constants(raw: bytes) -> Iterator[tuple[str, Position, Node]]:
    import ast  # noqa: PLC0415 - only for those who ask

    for statement in ast.parse(raw).body:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        targets = [statement.target] if isinstance(statement, ast.AnnAssign) else targets
        for target in targets:
            if isinstance(target, ast.Name) and target.id in CONSTANTS:
                value = statement.value if isinstance(statement, (ast.Assign, ast.AnnAssign)) else None
                yield CONSTANTS[target.id], _position(target), _written(value or target)


def _written(value: ast.expr) -> Node:
    """Give the places of what is written out; of what is computed, that of the whole."""
    import ast  # noqa: PLC0415 - as above

    children: Children = {}
    if isinstance(value, ast.Dict):
        pairs = zip(value.keys, value.values, strict=True)
        named = ((key, item) for key, item in pairs if isinstance(key, ast.Constant) and isinstance(key.value, str))
        children = {str(key.value): (_position(key), _written(item)) for key, item in named}
    elif isinstance(value, (ast.List, ast.Tuple)):
        children = {number: (_position(item), _written(item)) for number, item in enumerate(value.elts)}
    return Node(_position(value), children)


def _position(part: Any) -> Position:
    return part.lineno, part.col_offset + 1
