"""Values of a manifest without a run: its inputs with their sources, and the value of an expression."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from resource_api.manifest.input_values import LocatedValue, input_values
from resource_api.model.attribute import MISSING
from resource_api.model.sealed_secrets import open_sealed
from resource_api.model.values import expression
from resource_api.model.values.errors import ManifestError, UsageError, hint
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.values import UNKNOWN
from resource_api.plugins.provider_pool import ProviderPool
from resource_api.runtime import recorded_stack
from resource_api.runtime.manifest_compiler import ManifestCompiler, Source

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api.catalog.compile import Catalog
    from resource_api.model.declaration import Manifest
    from resource_api.model.values.expression import ExpressionPath
    from resource_api.runtime.runtime import Runtime


def expression_value(runtime: Runtime, source: Source, inputs: Mapping[str, object], text: str) -> Any:
    """Return the value of ``text`` in a manifest: an expression, with or without ``${`` and ``}``, or text with them.

    The result of a function is ``UNKNOWN``: none is called. A secret is wrapped, or sealed where only its digest is
    recorded. Raise ``UsageError`` for an unknown name, ``ManifestError`` for a wrong manifest.
    """
    catalog = runtime.compile(source, inputs)
    resolve = catalog.scope.resolver(partial(_recorded_value, runtime, catalog))
    try:
        return expression.evaluate(text if "${" in text else f"${{{text}}}", resolve)
    except ValueError as error:
        raise UsageError(str(error)) from error


def _recorded_value(runtime: Runtime, catalog: Catalog, path: ExpressionPath) -> Any:
    """Return the recorded value that a path into a resource leads to, and mask its secrets. Raise ``ValueError``."""
    assert isinstance(path.root, tuple)
    state = runtime.store.load(runtime.name(catalog))
    declared = catalog.find(path.root)
    record = state.records.get(declared.key) if declared is not None else None
    record = record or next((record_ for record_ in state.records.values() if record_.reference == path.root), None)
    if record is None:
        msg = f"{path}: {recorded_stack.no_record(state, path.root)}"
        raise ValueError(msg)
    values = {**record.should, **(record.is_ or {})}
    if path.keys[0] not in values:
        msg = f"{path}: nothing is recorded of '{path.keys[0]}'{hint(path.keys[0], values)}"
        raise ValueError(msg)
    value = open_sealed(values[path.keys[0]])
    runtime.log.mask.add([value])
    return expression.follow_keys(value, path, path.keys[1:])


class InputValue(NamedTuple):
    """One input; ``place``, the location of its value, is empty without one."""

    name: str
    type: str
    value: object
    place: str
    docs: str


def list_inputs(
    runtime: Runtime, source: Source, inputs: Mapping[str, object], located: Mapping[str, LocatedValue]
) -> list[InputValue]:
    """Return the inputs of a manifest, in its order; ``located`` has the positions of ``inputs``.

    A missing mandatory input is no error here, unless the manifest is a program. Raise ``ManifestError`` for wrong
    values, ``UsageError`` for a secret from the command line.
    """
    compiler = ManifestCompiler(runtime.registry, runtime.facts, runtime.log)
    with ProviderPool(runtime.registry, runtime.run) as providers:
        manifest = compiler.read(source, inputs, providers, complete=False)
    declared = manifest.inputs
    if any(entry.default is UNKNOWN for entry in declared.values()):
        raise ManifestError(manifest.problems)
    values, problems = input_values(manifest, inputs)
    missing = {name for name, entry in declared.items() if name not in inputs and entry.default is MISSING}
    if wrong := [problem for problem in problems if problem.attribute not in missing]:
        raise ManifestError(wrong)
    runtime.log.mask.add_inputs(values)
    locations = {name: _location(manifest, name, located) for name in declared}
    return [
        InputValue(name, entry.type, values[name] if locations[name] else None, locations[name], entry.docs)
        for name, entry in declared.items()
    ]


def _location(manifest: Manifest, name: str, located: Mapping[str, LocatedValue]) -> str:
    """Return the location of an input's value, as ``site.yaml:3 (default)``, or an empty text without a value."""
    if name in located:
        return str(located[name])
    declared = manifest.inputs[name]
    default = declared.origin.place("default")
    return "" if declared.default is MISSING else f"{default.line_text or default.file} (default)"
