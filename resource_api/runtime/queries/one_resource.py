"""One resource that is named without a manifest: what it is called, and the manifest that changes it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from resource_api.model.change import exists
from resource_api.model.provider_functions import canonical_name
from resource_api.model.values.errors import ManifestError, UnknownName, UsageError, nearest
from resource_api.model.values.reference import Reference
from resource_api.model.values.values import reveal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from resource_api.model.provider_functions import ProviderFunctions
    from resource_api.model.report import Report
    from resource_api.model.type_definition import Name, TypeDefinition
    from resource_api.runtime.configured_provider import SelectedProvider
    from resource_api.runtime.runtime import Runtime


def change(
    runtime: Runtime,
    definition: TypeDefinition,
    reference: Reference,
    row: Mapping[str, Any],
    given: Mapping[str, Any],
    *,
    selected: SelectedProvider | None = None,
    noop: bool = False,
    strict: Any = "error",
) -> Report:
    """Change one resource, which is as ``row``, to the ``given`` attributes. Raise ``ManifestError`` without places.

    What is not given stays as it is, except where ``given`` excludes it: there a default takes its place.
    """
    # An existing resource must be declared with its mandatory attributes too, and the others would get their defaults.
    declared = {key: reveal(row[key]) for key in definition.mandatory if row.get(key) is not None} | dict(given)
    defaulted = {key: reveal(row[key]) for key in _with_default(definition, row) if key not in given}
    with suppress(ManifestError):
        return runtime.change(_manifest(reference, {**defaulted, **declared}, selected), noop=noop, strict=strict)
    for key, value in defaulted.items():
        if _is_valid(runtime, _manifest(reference, {key: value, **declared}, selected)):
            declared[key] = value
    try:
        return runtime.change(_manifest(reference, declared, selected), noop=noop, strict=strict)
    except ManifestError as error:
        raise ManifestError([problem._replace(file="") for problem in error.problems]) from error


def _manifest(reference: Reference, declared: Mapping[str, Any], selected: SelectedProvider | None) -> dict[str, Any]:
    from resource_api.model.values.expression import literal

    body = literal(dict(declared))
    if selected is None:
        return {"resources": {str(reference): body}}
    body["provider"] = selected.name
    return {"resources": {str(reference): body}, "providers": literal(selected.section)}


def _with_default(definition: TypeDefinition, row: Mapping[str, Any]) -> list[str]:
    """Return the attributes that have a default, and in an existing resource a value."""
    names = definition.compared if exists(row) else ()
    return [name for name in names if definition.attributes[name].has_default and row.get(name) is not None]


def _is_valid(runtime: Runtime, manifest: Mapping[str, Any]) -> bool:
    try:
        runtime.compile(manifest)
    except ManifestError:
        return False
    return True


def identity(definition: TypeDefinition, title: str, given: Mapping[str, Any], tools: ProviderFunctions) -> list[Name]:
    """Return the canonical name of a title of the command line, with the namevars among the ``given`` attributes."""
    named = {key: value for key, value in given.items() if key in definition.namevars}
    try:
        return [canonical_name(tools, title, named)]
    except ValueError as error:
        msg = f"{Reference(definition.name, title)}: {error}"
        raise UsageError(msg) from error


def named(
    definition: TypeDefinition, name: str, changes: Sequence[str], read_secret: Callable[[str, str], str]
) -> tuple[str, dict[str, Any]]:
    """Return the title that NAME means, and the values of the ``ATTR=VALUE`` pairs, see ``attributes``.

    Where NAME is such a pair itself, the namevars among the pairs name the resource. Raise ``UsageError``, also where
    one is missing, and for an empty NAME, which is that of a variable that is not set.
    """
    if not name:
        msg = "NAME is empty"
        raise UsageError(msg)
    first, equals, _ = name.partition("=")
    if equals and first in definition.attributes:
        changes = [name, *changes]
        texts = {attribute: text for attribute, _, text in (pair.partition("=") for pair in changes)}
        row = {namevar: attribute.default for namevar, attribute in definition.defaults} | texts
        if missing := next((namevar for namevar in definition.namevars if not row.get(namevar)), None):
            msg = f"NAME is missing before '{first}='; write it there, or {missing}=VALUE"
            raise UsageError(msg)
        name = definition.title_of(row)
    return name, attributes(definition, name, changes, read_secret)


def attributes(
    definition: TypeDefinition, name: str, changes: Sequence[str], read_secret: Callable[[str, str], str]
) -> dict[str, Any]:
    """Return the values of ``ATTR=VALUE`` pairs, coerced to each attribute's data type. Raise ``UsageError``.

    ``read_secret`` returns what the text of a sensitive attribute means, from its name and the text.
    """
    from resource_api.model.datatypes import from_text

    found: dict[str, Any] = {}
    for pair in changes:
        attribute, equals, text = pair.partition("=")
        if not equals:
            msg = f"'{pair}': write ATTR=VALUE"
            raise UsageError(msg)
        if attribute not in definition.attributes:
            hint = nearest(attribute, definition.attributes, "attribute", definition.name)
            msg = f"{Reference(definition.name, name)}: unknown attribute '{attribute}'" + (f"; {hint}" if hint else "")
            raise UnknownName(msg, attribute)
        try:
            declared = definition.attributes[attribute]
            if declared.datatype.sensitive:
                text = read_secret(attribute, text)
            value = from_text.coerce(declared.datatype, text, declared.must_be)
        except ValueError as error:
            msg = f"{Reference(definition.name, name)}: {attribute} {error}"
            raise UsageError(msg, attribute) from error
        found[attribute] = value
    return found
