"""Check declarations without a host: the names of types, attributes and inputs, and literal values. Pure.

Whatever the facts of a host are, compiling reports these problems, too. Components, and types whose version a manifest
selects, are left to compiling.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.catalog.diagnostics import Diagnostics
from resource_api.catalog.entry_values import Evaluator
from resource_api.catalog.expression_scope import Scope
from resource_api.catalog.resource_table import Definitions, ResourceTable
from resource_api.model.provider_functions import ProviderFunctions
from resource_api.model.values import expression
from resource_api.model.values.errors import hint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from resource_api.model.declaration import Manifest
    from resource_api.model.type_definition import TypeDefinition
    from resource_api.model.values.errors import Problem


def declaration_problems(
    manifest: Manifest, find_type: Callable[[str], TypeDefinition], is_component: Callable[[str], bool]
) -> Sequence[Problem]:
    """Return the problems of a manifest that hold on every host; ``find_type`` may raise ``DefinitionError``."""
    if any(declared.is_program for declared in manifest.providers.values()):
        return ()  # the types of Terraform providers are known when these are started
    selected = {declared.type for declared in manifest.providers.values()}
    resources = [
        declared for declared in manifest.resources if declared.type not in selected and not is_component(declared.type)
    ]
    diagnostics = Diagnostics(manifest)
    scope = Scope(manifest, {}, {})
    table = ResourceTable(scope, Definitions(lambda name: ProviderFunctions(find_type(name), {})))
    table.empty += resources
    Evaluator(table, diagnostics, scope).check_without_resource()
    for declared in resources:
        for name, value in declared.attributes.items():
            for message in _unknown_inputs(manifest, value):
                diagnostics.declaration_error(declared, message, "expression", name)
    for name, value in manifest.outputs.items():
        for message in _unknown_inputs(manifest, value):
            diagnostics.output_error(name, message)
    return diagnostics.distinct


def _unknown_inputs(manifest: Manifest, value: Any) -> Iterator[str]:
    for path in expression.find_paths(value):
        if path.root == "inputs" and path.keys[0] not in manifest.inputs:
            yield f"{path}: unknown input '{path.keys[0]}'{hint(path.keys[0], manifest.inputs, 'input')}"
