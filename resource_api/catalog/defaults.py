"""The defaults of types that nothing in their file is of: checked all the same, as far as they are known.

What a resource inherits is checked with the rest of it. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.catalog import canonicalize
from resource_api.model.attribute import AttributeSet
from resource_api.model.declaration import METAPARAMETERS
from resource_api.model.values.errors import DefinitionError, Problem, nearest
from resource_api.model.values.reference import capitalize_type
from resource_api.model.values.values import Sensitive, is_unknown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from resource_api.catalog.diagnostics import Diagnostics
    from resource_api.catalog.evaluate import Evaluator
    from resource_api.catalog.resources import ResourceTable


def check(table: ResourceTable, evaluator: Evaluator, diagnostics: Diagnostics) -> None:
    """Complain of defaults that no resource and no component inherits."""
    manifest = diagnostics.manifest
    inherited = {(declared.file, declared.type) for declared in manifest.resources} if manifest.defaults else ()
    for file, defaults in manifest.defaults.items():
        for type_name, given in defaults.items():
            if (file, type_name) in inherited:
                continue
            for problem in _problems(table, evaluator, type_name, given):
                place = manifest.defaults_place(file, type_name, *filter(None, [problem.attribute]))
                message = f"defaults of {capitalize_type(type_name)}: {problem.message}"
                diagnostics.problems.append(
                    problem._replace(message=message, file=place.file, line=place.line, column=place.column)
                )


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
            hint = nearest(name, known.attributes.keys() | METAPARAMETERS)
            yield Problem(name, f"unknown attribute '{name}'", code="unknown_attribute", hint=hint)
        elif known.attributes[name].kind == "read_only":
            yield Problem(name, f"'{name}' is read_only; it is reported, never set", code="read_only")
        else:
            yield from _refused(known, name, written, evaluator)


def _refused(known: AttributeSet, name: str, written: Any, evaluator: Evaluator) -> Iterator[Problem]:
    try:
        value = evaluator.check(written)
    except ValueError as error:
        yield Problem(name, str(error), code="expression")
        return
    # What stands for a content is made one for a resource alone.
    if not is_unknown(value) and not known.attributes[name].datatype.holds_contents:
        yield from canonicalize.check_values(known, {name: Sensitive(value) if name in known.sensitive else value})
