"""The ``defaults`` of a manifest: those of a declaration, and the check of those that nothing inherits.

Defaults hold for the file that they stand in. The defaults that a type declares itself are filled in by
``canonicalize``. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.catalog import canonicalize
from resource_api.model.attribute import METAPARAMETERS, AttributeSet
from resource_api.model.values.errors import DefinitionError, Problem, nearest
from resource_api.model.values.reference import capitalize_type
from resource_api.model.values.values import is_unknown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from resource_api.catalog.diagnostics import Diagnostics
    from resource_api.catalog.entries import ResourceTable
    from resource_api.catalog.entry_values import Evaluator
    from resource_api.model.declaration import Declaration, Manifest


def defaults_of(manifest: Manifest, declared: Declaration) -> Mapping[str, Any]:
    """Return the values that a declaration of a resource or component inherits, by attribute."""
    return manifest.defaults.get(declared.file, {}).get(declared.type, {})


def check_unused(table: ResourceTable, evaluator: Evaluator, diagnostics: Diagnostics) -> None:
    """Check the defaults that no declaration inherits, as far as they are known."""
    manifest = diagnostics.manifest
    inherited = {(declared.file, declared.type) for declared in manifest.resources} if manifest.defaults else ()
    for file, defaults in manifest.defaults.items():
        for type_name, given in defaults.items():
            if (file, type_name) in inherited:
                continue
            for problem in _problems(table, evaluator, type_name, given):
                place = manifest.defaults_place(file, type_name, *filter(None, [problem.attribute]))
                message = f"defaults of {capitalize_type(type_name)}: {problem.message}"
                diagnostics.problems.append(problem._replace(message=message, **place._asdict()))


def _problems(
    table: ResourceTable, evaluator: Evaluator, type_name: str, given: Mapping[str, Any]
) -> Iterator[Problem]:
    try:
        known = AttributeSet(table.attributes(type_name))
    except DefinitionError as error:
        yield Problem(None, str(error), code="type")
        return
    for name, written in given.items():
        if name not in known.attributes:
            hint = nearest(name, known.attributes.keys() | METAPARAMETERS, "attribute", type_name)
            yield Problem(name, f"unknown attribute '{name}'", code="unknown_attribute", hint=hint)
        elif known.attributes[name].kind == "read_only":
            yield Problem(name, f"'{name}' is read_only; it is reported, never set", code="read_only")
        else:
            yield from _value_problems(known, name, written, evaluator)


def _value_problems(known: AttributeSet, name: str, written: Any, evaluator: Evaluator) -> Iterator[Problem]:
    try:
        value = evaluator.evaluate(written)
    except ValueError as error:
        yield Problem(name, str(error), code="expression")
        return
    # Assets and archives are made for resources only: here their descriptions stand.
    if not is_unknown(value) and not known.attributes[name].datatype.holds_contents:
        concealed = known.attributes[name].datatype.conceal(value)
        yield from canonicalize.check_values(known, {name: concealed}, {name: written})
