"""Execute Python manifests (``site.py``) and components (``components/NAME.py``), and return their documents.

Only they have logic: the declarations become plain data, which every later stage treats like a YAML file's. Problems
have the Python line.
"""

from __future__ import annotations

import builtins
import os
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from resource_api.manifest.input_values import input_values
from resource_api.manifest.python_api import ComponentApi, DeclaredResource, ManifestApi, PendingValue
from resource_api.manifest.python_positions import CONSTANTS, constant_position, positions, raised_at, source
from resource_api.manifest.read import read_mapping
from resource_api.manifest.sections import assemble
from resource_api.model.type_definition import LoadedComponent
from resource_api.model.values import document
from resource_api.model.values.document import Document
from resource_api.model.values.errors import ManifestError, Problem, library_hint, reason
from resource_api.model.values.expression import Expression, ExpressionPath
from resource_api.model.values.values import Sensitive
from resource_api.system.process_guard import read_only

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import CodeType

    from resource_api.manifest.python_positions import CallSite
    from resource_api.model.type_definition import ComponentDefinition

_OTHER_NAME: Final = "give it another name"
#: Constants that are called like a section, and are not one → the remedy.
_UNREAD: Final = {
    "RESOURCES": f"declare resources in manifest(m), with m.resource('file', '/etc/motd', ...); or {_OTHER_NAME}",
    "OUTPUTS": f"declare outputs in manifest(m), with m.output('name', value); or {_OTHER_NAME}",
}


def read(
    raw: bytes,
    file: str,
    inputs: Mapping[str, object],
    facts: object,
    on_inputs: Callable[[Any], None] = lambda _inputs: None,
    *,
    builtin_names: Mapping[str, object] = vars(builtins),
) -> Document:
    """Execute a Python manifest and return its document. Raises ``ManifestError`` with the Python line.

    ``inputs`` are values by name; ``facts`` has ``[name]`` and ``names()``. ``on_inputs`` is called with the checked
    inputs before ``manifest``. ``builtin_names`` are those of Python, with an ``__import__`` that knows ``lib``.
    """
    module = _execute(raw, file, builtin_names)
    _check_constants(module, file, raw)
    data = {key: module[name] for name, key in CONSTANTS.items() if name in module}
    function = module.get("manifest")
    if not callable(function):
        raise document.manifest_error(file, (1, 1), "manifest", "it defines no function manifest(m)")
    checked = _inputs(_document(data, file, raw, {}), inputs)
    on_inputs(checked)
    values = data.get("values") or {}
    m = ManifestApi(file, {**checked, **_ephemeral(data)}, facts, values)
    run_author_code(file, raw, lambda: check_executed(function, function(m)))
    declared, calls = m.data()
    if values and "values" in declared:
        declared["values"] = {**values, **declared["values"]}
    return _document({**data, **declared}, file, raw, calls)


def _check_constants(module: Mapping[str, object], file: str, raw: bytes) -> None:
    """Raise ``ManifestError`` for constants with the names of sections that are not read."""
    problems = [
        Problem(None, f"{name} is not read", "error", "", file, *constant_position(raw, name), "constant", advice)
        for name, advice in _UNREAD.items()
        if name in module
    ]
    if problems:
        raise ManifestError(problems)


def _document(
    data: Mapping[str, object], file: str, raw: bytes, calls: Mapping[str, Mapping[str, CallSite]]
) -> Document:
    """Return the document of data that the file ``raw`` declares. Raises ``ManifestError`` for unsuitable values."""
    index = partial(positions, calls, raw)
    return Document(read_mapping(data, file, index).data, file, raw, index)


def _inputs(constants: Document, arguments: Mapping[str, object]) -> Mapping[str, Any]:
    """Return the values of the declared inputs. Raise ``ManifestError`` for wrong ones, and for wrong constants."""
    manifest = assemble([constants])
    declared = {name: value for name, value in arguments.items() if name in manifest.inputs}
    values, problems = input_values(manifest, declared)
    if problems:
        raise ManifestError(problems)
    return values


def _ephemeral(constants: Mapping[str, Any]) -> dict[str, PendingValue]:
    """Return the ephemeral inputs as pending values: their uses are checked, so that none is recorded."""
    declared = constants.get("inputs") or {}
    names = [name for name, body in declared.items() if body and body.get("ephemeral")]
    return {name: PendingValue(Expression((ExpressionPath("inputs", (name,)),))) for name in names}


def _execute(raw: bytes, file: str, builtin_names: Mapping[str, object]) -> dict[str, Any]:
    """Execute the module of a manifest and return its names."""
    module: dict[str, object] = {"__name__": "__manifest__", "__file__": file, "__builtins__": builtin_names}

    def run() -> None:
        code: CodeType = compile(raw, file, "exec", dont_inherit=True)
        exec(code, module)  # noqa: S102 - a Python manifest is a program of its user

    run_author_code(file, raw, run)
    return module


def run_author_code(file: str, raw: bytes | None, run: Callable[[], object]) -> None:
    """Call ``run``, which executes the author's file; raise its exceptions as ``ManifestError`` with positions.

    ``raw`` are the file's bytes, or None to read them when needed.
    """
    try:
        run()
    except (ManifestError, KeyboardInterrupt):
        raise
    except (Exception, SystemExit) as error:
        position = raised_at(error, file, source(file) if raw is None else raw)
        message = error.msg if isinstance(error, SyntaxError) else reason(error, with_origin=False)
        message += library_hint(error, os.path.dirname(file) or ".", os.path.exists)
        raise document.manifest_error(file, position, "python", message) from error


def check_executed(function: Callable[..., object], answer: Any) -> None:
    """Raise ``ManifestError`` if an author's function returned a value, which declares nothing.

    The code of a generator or a coroutine was not even executed. A ``lambda`` may return a declared resource.
    """
    kind, name = type(answer), getattr(function, "__name__", "manifest")
    if hasattr(kind, "__next__") or hasattr(kind, "__await__"):
        if hasattr(kind, "close"):
            answer.close()
        message = "must be a plain function: it has a yield, or is async, and has declared nothing"
    elif answer is None or isinstance(answer, DeclaredResource):
        return
    else:
        message = f"returns a value of the type {kind.__name__}, which declares nothing; call m.resource(...)"
    code = getattr(function, "__code__", None)
    file, line = (code.co_filename, code.co_firstlineno) if code is not None else ("", 0)
    raise document.manifest_error(file, (line, 1), "python", f"{name}(m) {message}")


def blueprint(
    definition: ComponentDefinition,
    function: Callable[[ComponentApi], object],
    facts: object,
    on_inputs: Callable[[Any], None],
) -> LoadedComponent:
    """Return the function that builds uses of a component; ``on_inputs`` is called first, with the use's inputs."""
    code = getattr(function, "__code__", None)
    file, line = (code.co_filename, code.co_firstlineno) if code is not None else (definition.name, 1)

    def build(parent: str, title: str, inputs: Mapping[str, object]) -> Document:
        on_inputs({name: value for name, value in inputs.items() if not _is_pending(value)})
        m = ComponentApi(file, parent, title, inputs, facts)
        with read_only("a component"):
            run_author_code(file, None, lambda: check_executed(function, function(m)))
        declared, calls = m.data()
        return read_mapping(declared, file, lambda: positions(calls, source(file), (line, 1)))

    return LoadedComponent(definition, build)


def _is_pending(value: object) -> bool:
    """Whether an input is an expression, whose own text is no secret."""
    return isinstance(value.reveal() if isinstance(value, Sensitive) else value, Expression)
