"""Lists the inputs of a manifest as a run would have them: each with its value and where that is from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.manifest.input_values import input_values
from resource_api.model.attribute import MISSING
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import ManifestError
from resource_api.plugins.provider_pool import ProviderPool
from resource_api.runtime.manifest_compiler import ManifestCompiler

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from resource_api.model.declaration import Manifest
    from resource_api.runtime.manifest_compiler import Source
    from resource_api.runtime.runtime import Runtime

    #: Inputs by name from one place, and what tells the place of one of them.
    Given = tuple[Mapping[str, Any], Callable[[str], str]]


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
