"""Python manifests: ``site.py`` with ``def manifest(m)`` → the same document as a YAML or JSON file.

Only Python manifests have logic: the declarations become plain data, which every later stage treats like that of other
manifests. Problems carry the Python line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.manifest import mapping_reader
from resource_api.manifest.python_api import ManifestApi
from resource_api.manifest.scope import Scope
from resource_api.manifest.sections import assemble
from resource_api.model.values import document
from resource_api.model.values.document import Document, Node
from resource_api.model.values.errors import ManifestError, reason

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Iterator, Mapping
    from types import CodeType

    from resource_api.model.values.document import Position

    Children = dict[str | int, tuple[Position, Node]]

#: Constants of a Python manifest → sections.
CONSTANTS: Final = {
    "PROJECT": "project",
    "INPUTS": "inputs",
    "DEFAULTS": "defaults",
    "INCLUDE": "include",
    "PROVIDERS": "providers",
}
_TOP: Final = (1, 1)


def read(
    raw: bytes,
    file: str,
    inputs: Mapping[str, Any],
    facts: Any,
    on_inputs: Callable[[Any], None] = lambda _inputs: None,
) -> Document:
    """Execute a Python manifest and return its document. Raises ``ManifestError`` with the Python line.

    ``inputs`` are given values by name; ``facts`` has ``[name]`` and ``names()``. ``on_inputs`` is called with the
    checked inputs before ``manifest`` is.
    """
    module = _execute(raw, file)
    data = {key: module[name] for name, key in CONSTANTS.items() if name in module}
    function = module.get("manifest")
    if not callable(function):
        raise document.manifest_error(file, (1, 1), "manifest", "it defines no function manifest(m)")
    checked = _inputs(_document(data, file, raw, {}), inputs, facts)
    on_inputs(checked)
    m = ManifestApi(file, checked, facts)
    run_author_code(file, lambda: _check_executed(function(m)))
    declared, lines = m.data()
    return _document({**data, **declared}, file, raw, lines)


def _document(data: Mapping[str, Any], file: str, raw: bytes, lines: Mapping[str, Mapping[str, int]]) -> Document:
    """Return the document of data that the file ``raw`` declares. Raises ``ManifestError`` for unsuitable values."""

    def index() -> Node:
        return positions(lines, raw)

    return Document(mapping_reader.read(data, file, index).data, file, raw, index)


def _inputs(constants: Document, given: Mapping[str, Any], facts: Any) -> Mapping[str, Any]:
    """Return the values of the declared inputs; the other constants are checked too."""
    manifest = assemble([constants])
    scope = Scope(manifest, {name: value for name, value in given.items() if name in manifest.inputs}, facts)
    if scope.problems:
        raise ManifestError(scope.problems)
    return scope.inputs


def _execute(raw: bytes, file: str) -> dict[str, Any]:
    module: dict[str, Any] = {"__name__": "__manifest__", "__file__": file, "__builtins__": __builtins__}

    def run() -> None:
        code: CodeType = compile(raw, file, "exec", dont_inherit=True)
        exec(code, module)  # noqa: S102 - a Python manifest is a program of its user

    run_author_code(file, run)
    return module


def run_author_code(file: str, run: Callable[[], object]) -> None:
    """Call ``run``, which executes the author's file; raise its exceptions as ``ManifestError`` with their line."""
    try:
        run()
    except (ManifestError, KeyboardInterrupt):
        raise
    except SyntaxError as error:
        raise document.manifest_error(file, (error.lineno or 1, error.offset or 1), "python", error.msg) from error
    except (Exception, SystemExit) as error:
        line, trace = 1, error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == file:
                line = trace.tb_lineno
            trace = trace.tb_next
        raise document.manifest_error(file, (line, 1), "python", reason(error, with_origin=False)) from error


def _check_executed(answer: Any) -> None:
    """Raise ``TypeError`` for a generator or a coroutine: its code has not been executed and has declared nothing."""
    kind = type(answer)
    if hasattr(kind, "__next__") or hasattr(kind, "__await__"):
        if hasattr(kind, "close"):
            answer.close()
        msg = "manifest(m) must be a plain function: it has a yield, or is async, and has declared nothing"
        raise TypeError(msg)


def positions(lines: Mapping[str, Mapping[str, int]], raw: bytes = b"") -> Node:
    """Return the positions of all declarations, by section and key, and of the constants in the file ``raw``."""
    sections: Children = {section: (place, node) for section, place, node in _constants(raw)}
    for section, keys in lines.items():
        children: Children = {key: ((line, 1), Node((line, 1), {})) for key, line in keys.items()}
        sections[section] = (_TOP, Node(_TOP, children))
    return Node(_TOP, sections)


def _constants(raw: bytes) -> Iterator[tuple[str, Position, Node]]:
    import ast  # noqa: PLC0415 - only where a position is needed

    for statement in ast.parse(raw).body:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        targets = [statement.target] if isinstance(statement, ast.AnnAssign) else targets
        for target in targets:
            if isinstance(target, ast.Name) and target.id in CONSTANTS:
                value = statement.value if isinstance(statement, (ast.Assign, ast.AnnAssign)) else None
                yield CONSTANTS[target.id], _position(target), _literal_positions(value or target)


def _literal_positions(value: ast.expr) -> Node:
    """Return the positions in a literal; a computed value has only its own."""
    import ast  # noqa: PLC0415 - as above

    children: Children = {}
    if isinstance(value, ast.Dict):
        pairs = zip(value.keys, value.values, strict=True)
        named = ((key, item) for key, item in pairs if isinstance(key, ast.Constant) and isinstance(key.value, str))
        children = {str(key.value): (_position(key), _literal_positions(item)) for key, item in named}
    elif isinstance(value, (ast.List, ast.Tuple)):
        children = {number: (_position(item), _literal_positions(item)) for number, item in enumerate(value.elts)}
    return Node(_position(value), children)


def _position(part: Any) -> Position:
    return part.lineno, part.col_offset + 1
