"""Values of a manifest without a run: its inputs with their sources, and the value of an expression."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from resource_api.manifest.input_values import input_values
from resource_api.model.attribute import MISSING
from resource_api.model.sealed_secrets import open_sealed
from resource_api.model.values import expression
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import ManifestError, UsageError, hint
from resource_api.plugins.provider_pool import ProviderPool
from resource_api.runtime import recorded_stack
from resource_api.runtime.manifest_compiler import ManifestCompiler

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from resource_api.catalog.compile import Catalog
    from resource_api.model.declaration import Manifest
    from resource_api.model.values.expression import ExpressionPath
    from resource_api.runtime.manifest_compiler import Source
    from resource_api.runtime.runtime import Runtime

    #: Inputs by name from one place, and what tells the place of one of them.
    Given = tuple[Mapping[str, Any], Callable[[str], str]]


def expression_value(runtime: Runtime, source: Source, inputs: Mapping[str, Any], text: str) -> Any:
    """Return the value of ``text`` in a manifest: an expression, with or without ``${`` and ``}``, or text with some.

    The answer of a function is ``UNKNOWN``: none is called. A secret is wrapped, or sealed where only its digest is
    recorded. Raise ``UsageError`` for what does not exist, ``ManifestError`` for a wrong manifest.
    """
    catalog = runtime.compile(source, inputs)
    resolve = catalog.scope.resolver(partial(_recorded, runtime, catalog))
    try:
        return expression.evaluate(text if "${" in text else f"${{{text}}}", resolve)
    except ValueError as error:
        raise UsageError(str(error)) from error


def _recorded(runtime: Runtime, catalog: Catalog, path: ExpressionPath) -> Any:
    """Return the recorded value that a path into a resource leads to. Raise ``ValueError`` where there is none."""
    assert isinstance(path.root, tuple)
    state = runtime.store.load(runtime.name(catalog))
    declared = catalog.find(path.root)
    record = state.records.get(declared.key) if declared is not None else None
    record = record or next((each for each in state.records.values() if each.reference == path.root), None)
    if record is None:
        msg = f"{path}: {recorded_stack.no_record(state, path.root)}"
        raise ValueError(msg)
    values = {**record.should, **(record.is_ or {})}
    if path.keys[0] not in values:
        msg = f"{path}: nothing is recorded of '{path.keys[0]}'{hint(path.keys[0], values)}"
        raise ValueError(msg)
    found = open_sealed(values[path.keys[0]])
    runtime.log.mask.add([found])
    return expression.follow_keys(found, path, path.keys[1:])


class InputValue(NamedTuple):
    """One input; ``place`` is empty where it is not given and has no default."""

    name: str
    type: str
    value: Any
    place: str
    docs: str


def list_inputs(runtime: Runtime, source: Source, given: Sequence[Given]) -> list[InputValue]:
    """Return the inputs of a manifest, in its order; ``given`` are values by place, the later ones win.

    What must be given and is not is no error here, unless the manifest is a program. Raise ``ManifestError`` for values
    that are wrong, ``UsageError`` for a secret from the command line.
    """
    values = {name: value for each, _ in given for name, value in each.items()}
    compiler = ManifestCompiler(runtime.registry, runtime.facts, runtime.log)
    with ProviderPool(runtime.registry, runtime.run) as providers:
        manifest = compiler.read(source, values, providers)
    found, wrong = input_values(manifest, values)
    missing = {name for name, each in manifest.inputs.items() if name not in values and each.default is MISSING}
    if problems := [problem for problem in wrong if problem.attribute not in missing]:
        raise ManifestError(problems)
    runtime.log.mask.add_inputs(found)
    return [
        InputValue(
            name,
            each.type,
            found[name] if (place := _place(manifest, name, given)) else None,
            place,
            each.docs,
        )
        for name, each in manifest.inputs.items()
    ]


def _place(manifest: Manifest, name: str, given: Sequence[Given]) -> str:
    """Return where an input is from, as ``site.yaml:3 (default)``; empty where it is from nowhere."""
    for values, place in reversed(given):
        if name in values:
            return place(name)
    declared = manifest.inputs[name]
    default = declared.origin.place("default")
    return "" if declared.default is MISSING else f"{default.file}:{default.line} (default)"
