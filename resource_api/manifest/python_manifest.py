"""Python manifests: ``site.py`` with ``def manifest(m)`` → the same document as a YAML or JSON file.

Logic lives here, in Python, and nothing else does: what ``m`` is told becomes plain data with references in it, and
every later stage treats it like any other manifest. Problems carry the Python line.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from resource_api.manifest import json_reader
from resource_api.manifest import read as manifests
from resource_api.manifest.python_handles import Facts, Handle, Value, View
from resource_api.manifest.scope import Scope
from resource_api.model.declaration import METAPARAMETERS
from resource_api.model.values import document
from resource_api.model.values.document import Document, Node
from resource_api.model.values.errors import ManifestError, reason
from resource_api.model.values.expression import Expression, Path, escape_expressions
from resource_api.model.values.reference import Reference, capitalize_type
from resource_api.model.values.values import Sensitive

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Iterator, Mapping
    from types import CodeType

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


class Manifest:
    """The ``m`` of ``def manifest(m)``: declares resources and outputs, knows inputs and facts."""

    def __init__(self, file: str, inputs: Mapping[str, Any], facts: Any) -> None:
        """Begin with nothing declared."""
        self.inputs = View(inputs)
        self.facts = Facts(facts)
        self._file = file
        self._resources: dict[str, Any] = {}
        self._outputs: dict[str, Any] = {}
        self._values: dict[str, Any] = {}
        self._lines: dict[str, dict[str, int]] = {"resources": {}, "outputs": {}, "values": {}}

    def resource(self, type_name: str, title: str, attributes: Mapping[str, Any] | None = None, **more: Any) -> Handle:
        """Declare a resource; keywords are attributes or metaparameters. Gives its handle."""
        reference = Reference(type_name[:1].lower() + type_name[1:], title)
        key = escape_expressions(f"{capitalize_type(reference.type)}[{title}]")
        body = {**(attributes or {}), **more}
        self._note("resources", key)
        self._resources[key] = {
            name: _relation(value) if name in METAPARAMETERS else _plain(value) for name, value in body.items()
        }
        return Handle(self._outside(reference))

    def _outside(self, reference: Reference) -> Reference:
        """Give the name by which the whole manifest knows what is declared here."""
        return reference

    def asset(self, **given: Any) -> dict[str, Any]:
        """Give an asset: of ``text=``, of ``file=`` relative to the manifest, or of ``url=`` with ``sha256=``."""
        return {"asset": given}

    def archive(self, **given: Any) -> dict[str, Any]:
        """Give an archive: of ``file=``, of ``url=`` with ``sha256=``, of ``directory=``, or of ``files=`` by name."""
        return {"archive": given}

    def output(self, name: str, value: Any) -> None:
        """Declare an output of the stack."""
        self._note("outputs", name)
        self._outputs[name] = _plain(value)

    def invoke(
        self, function: str, given: Mapping[str, Any] | None = None, *, provider: str | None = None, **more: Any
    ) -> Value:
        """Ask a provider's function, of ``provider`` or of its type's default one; keywords are inputs.

        What it answers is not known yet: use it as a value, or a part of it, ``answer["address"]``.
        """
        name = f"{function.rpartition('.')[2]}-{len(self._values) + 1}"
        self._note("values", name)
        asked = {"invoke": function, "with": _plain({**(given or {}), **more})}
        self._values[name] = asked if provider is None else {**asked, "provider": provider}
        return Value(Expression((Path("values", (name,)),)))

    def text(self, template: str, *values: Any) -> Value | Sensitive[Value]:
        """Give text with ``{0}``, ``{1}``, ... replaced by values, known or not; with a secret in it, a secret."""
        parts: list[str | Path] = []
        secret = False
        for literal, field in _fields(template):
            parts.append(literal)
            if field is not None:
                value = values[field]
                secret = secret or isinstance(value, Sensitive)
                parts += _parts(value.reveal() if isinstance(value, Sensitive) else value)
        found = Value(Expression(tuple(part for part in parts if part != "")))
        return Sensitive(found) if secret else found

    def __getattr__(self, type_name: str) -> Callable[..., Handle]:
        """Give the short form of ``resource``: ``m.file("/etc/motd", content="hi")``."""
        if type_name.startswith("_"):
            raise AttributeError(type_name)

        def declare(title: str, attributes: Mapping[str, Any] | None = None, **more: Any) -> Handle:
            return self.resource(type_name, title, attributes, **more)

        return declare

    def _note(self, section: str, key: str) -> None:
        line = _line_in(self._file)
        first = self._lines[section].setdefault(key, line)
        if key in {"resources": self._resources, "outputs": self._outputs, "values": self._values}[section]:
            message = f"{key}: declared twice; first at {self._file}:{first}"
            raise document.manifest_error(self._file, (line, 1), "duplicate", message)

    def data(self) -> tuple[dict[str, Any], dict[str, dict[str, int]]]:
        """Give what was declared, as a manifest's data, and the line of each key."""
        found = {"resources": self._resources, "outputs": self._outputs}
        return ({**found, "values": self._values} if self._values else found), self._lines


def read(
    raw: bytes, file: str, inputs: Mapping[str, Any], facts: Any, told: Callable[[Any], None] = lambda _inputs: None
) -> Document:
    """Execute a Python manifest and give it as a document. Raises ``ManifestError`` with the Python line.

    ``inputs`` are given values by name, ``facts`` answers ``[name]``; ``told`` hears of the inputs before ``manifest``.
    """
    module = _execute(raw, file)
    data = {key: module[name] for name, key in CONSTANTS.items() if name in module}
    function = module.get("manifest")
    if not callable(function):
        raise document.manifest_error(file, (1, 1), "manifest", "it defines no function manifest(m)")
    known = _inputs(_document(data, file, raw, {}), inputs, facts)
    told(known)
    m = Manifest(file, known, facts)
    guarded(file, lambda: _finished(function(m)))
    declared, lines = m.data()
    return _document({**data, **declared}, file, raw, lines)


def _document(data: Mapping[str, Any], file: str, raw: bytes, lines: Mapping[str, Mapping[str, int]]) -> Document:
    """Give data that was said in the file ``raw``. Raises ``ManifestError`` for what no manifest can hold."""

    def index() -> Node:
        return positions_of(lines, raw)

    return Document(json_reader.adopt(data, file, index).data, file, raw, index)


def _inputs(said: Document, given: Mapping[str, Any], facts: Any) -> Mapping[str, Any]:
    """Give the values of the inputs that the module declares; its other constants are checked with them."""
    frame = manifests.assemble([said])
    scope = Scope(frame, {name: value for name, value in given.items() if name in frame.inputs}, facts)
    if scope.problems:
        raise ManifestError(scope.problems)
    return scope.inputs


def _execute(raw: bytes, file: str) -> dict[str, Any]:
    module: dict[str, Any] = {"__name__": "__manifest__", "__file__": file, "__builtins__": __builtins__}

    def run() -> None:
        code: CodeType = compile(raw, file, "exec", dont_inherit=True)
        exec(code, module)  # noqa: S102 - a Python manifest is a program of its user

    guarded(file, run)
    return module


def guarded(file: str, run: Callable[[], object]) -> None:
    """Run the user's code; whatever it raises becomes a problem at its line."""
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
        raise document.manifest_error(file, (line, 1), "python", reason(error)) from error


def _finished(answer: Any) -> None:
    """Refuse what has not been executed yet: of a generator or a coroutine nothing would be declared."""
    kind = type(answer)
    if hasattr(kind, "__next__") or hasattr(kind, "__await__"):
        if hasattr(kind, "close"):
            answer.close()
        msg = "manifest(m) must be a plain function: it has a yield, or is async, and has declared nothing"
        raise TypeError(msg)


def _line_in(file: str) -> int:
    """Give the line of the manifest that is being executed."""
    frame = sys._getframe()  # noqa: SLF001 - the documented way to the caller's line
    while frame.f_back is not None and frame.f_code.co_filename != file:
        frame = frame.f_back
    return frame.f_lineno if frame.f_code.co_filename == file else 1


def _plain(value: Any) -> Any:
    """Give a value as manifests spell it: what is not known yet as ``${...}``, literal text escaped."""
    if isinstance(value, str):
        return escape_expressions(value)
    if isinstance(value, Value):
        return str(value.expression)
    if isinstance(value, Handle):
        return escape_expressions(str(value))
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, Sensitive):
        return Sensitive(_plain(value.reveal()))
    return value


def _relation(value: Any) -> Any:
    """Give a metaparameter's value: handles become references, the rest stays."""
    if isinstance(value, (str, Handle)):
        return escape_expressions(str(value))
    if isinstance(value, (list, tuple)):
        return [_relation(item) for item in value]
    if isinstance(value, dict):
        return {key: _relation(item) for key, item in value.items()}
    return value


def _parts(value: Any) -> tuple[str | Path, ...]:
    return value.expression.parts if isinstance(value, Value) else (str(value),)


def _fields(template: str) -> list[tuple[str, int | None]]:
    """Split ``sum {0}`` into literal text and the numbers of values; raises ``ValueError`` for anything else."""
    from string import Formatter  # noqa: PLC0415 - only for m.text

    found: list[tuple[str, int | None]] = []
    for literal, field, spec, conversion in Formatter().parse(template):
        if field is None:
            found.append((literal, None))
        elif field.isdigit() and not spec and not conversion:
            found.append((literal, int(field)))
        else:
            msg = f"m.text takes {{0}}, {{1}}, ... only, not {{{field}}}"
            raise ValueError(msg)
    return found


def positions_of(lines: Mapping[str, Mapping[str, int]], raw: bytes = b"") -> Node:
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
