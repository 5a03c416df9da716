"""The import of a state of Terraform: its resources are declared in a manifest, and recorded as ours.

Needs the extra ``terraform``; imported by the command ``import --from-terraform`` alone.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from resource_api.manifest import yaml_reader
from resource_api.manifest.read import read_file
from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import DefinitionError, ManifestError, ResourceAPIError, UsageError
from resource_api.model.values.reference import Reference
from resource_api.model.values.values import is_secret
from resource_api.runtime.import_resources import ForeignRecord, ImportOutcome, import_resources, log_import
from resource_api.system.filesystem import files
from resource_api.terraform import cty, state_file
from resource_api.terraform.schema import SchemaField, attribute_name, declared_values

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from resource_api.model.declaration import ConfiguredProvider, Manifest
    from resource_api.runtime.runtime import Runtime
    from resource_api.terraform.family import Family
    from resource_api.terraform.state_file import StateFile, StateResource


class _Read(NamedTuple):
    """A resource of a Terraform state, with its values in the form of its provider's present schema."""

    resource: StateResource
    reference: str
    fields: Mapping[str, SchemaField]
    values: Mapping[str, object]


def take_over(
    runtime: Runtime, path: str, state: StateFile, inputs: Mapping[str, object], strict: str
) -> list[ImportOutcome]:
    """Add the resources of a state file of Terraform to the manifest at ``path``, and record them as managed by it.

    A resource that is declared already keeps its declaration. ``strict``: as for ``Snapshot``. Raise ``UsageError`` for
    a manifest that cannot be written, and as ``import_resources`` does.
    """
    catalog = runtime.compile(path, inputs)
    declared = {str(entry.reference) for entry in catalog.entries}
    failed: list[ImportOutcome] = []
    try:
        resources = list(_resources(runtime, catalog.manifest, state, failed))
    finally:
        runtime.registry.close_families()
    declarations, records = _declarations(runtime, resources, declared, failed)
    if declarations:
        _write(path, declarations)
    imported: list[ImportOutcome] = []
    if records:
        imported = import_resources(runtime, path, list(records), None, inputs, strict=strict, foreign_records=records)
    for outcome in failed:
        log_import(runtime, outcome)
    return [*imported, *failed]


def _resources(runtime: Runtime, manifest: Manifest, state: StateFile, failed: list[ImportOutcome]) -> list[_Read]:
    """Return the resources of a state file with values in their provider's present schema, without null values.

    The file may have been written by an older version of the provider. A resource whose provider is not declared, or
    cannot upgrade the values, becomes an outcome in ``failed``.
    """
    read = []
    for resource in state.resources:
        try:
            family = _family(runtime, manifest, resource)
            fields = family.resource_fields(resource.type)
            values = family.upgraded(resource.type, resource.version, resource.attributes)
        except ResourceAPIError as error:
            failed.append(ImportOutcome(resource.address, "failed", f"{resource.address} cannot be imported: {error}"))
            continue
        read.append(_Read(resource, str(Reference(resource.type, resource.title)), fields, cty.without_nulls(values)))
    return read


def _family(runtime: Runtime, manifest: Manifest, resource: StateResource) -> Family:
    """Return the Terraform provider of a resource, by the beginning of its type's name (``aws`` of ``aws_instance``).

    Raise ``DefinitionError`` if the manifest does not declare the provider, or does not declare the alias with which
    Terraform used the provider for this resource.
    """
    name = resource.type.partition("_")[0]
    declared: ConfiguredProvider | None = manifest.providers.get(name)
    if declared is None or not declared.is_program:
        raise DefinitionError(f"the manifest declares no provider '{name}'; write it under providers:, with a source")
    if resource.alias and resource.alias not in manifest.providers:
        msg = f"the manifest declares no provider '{resource.alias}'; write {resource.alias}: {{type: {name}, ...}}"
        raise DefinitionError(msg)
    family: Any = runtime.registry.family(name)
    return family  # type: ignore[no-any-return] # a family of this package


def _declarations(
    runtime: Runtime, resources: Sequence[_Read], declared: set[str], failed: list[ImportOutcome]
) -> tuple[list[list[str]], dict[str, ForeignRecord]]:
    """Return the lines of the declarations to add to the manifest, and reference → record of all resources to import.

    ``declared``: the references that the manifest has. A resource that cannot be imported, such as one with a secret
    that only the user can declare, becomes an outcome in ``failed``. The record has the private data with which the
    provider reads the resource again.
    """
    computed = _made_values(resources)
    declarations, records = [], dict[str, ForeignRecord]()
    for row in resources:
        if problem := _import_problem(row, records, declared):
            failed.append(ImportOutcome(row.reference, "failed", f"{row.reference} {problem}"))
            continue
        if row.reference not in declared:
            declarations.append(_declaration(runtime, row, computed))
        resource = row.resource
        private = {
            "type": resource.type,
            "version": resource.version,
            "state": dict(resource.attributes),
            "private": resource.private,
        }
        records[row.reference] = ForeignRecord(private, "tainted" if resource.tainted else "ready")
    return declarations, records


def _import_problem(row: _Read, records: Container[str], declared: Container[str]) -> str:
    """Return the reason that a resource cannot be imported, or "".

    A secret must be declared by the user, as no manifest should contain it in clear. ``records``: the references of the
    resources before it; ``declared``: those in the manifest.
    """
    if row.reference in records:
        return "is there twice; rename one with 'tofu state mv'"
    secrets = [name for name, value in declared_values(row.fields, row.values).items() if is_secret(value)]
    if secrets and row.reference not in declared:
        return f"cannot be imported: declare it first, with its secret {', '.join(secrets)}"
    return ""


def _declaration(runtime: Runtime, row: _Read, computed: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return the lines of a manifest that declare a resource.

    A value that the provider of a dependency has made, such as an id, is written as an expression that refers to the
    dependency; ``computed``: the result of ``_made_values``.
    """
    texts: dict[str, str] = {}
    for address in row.resource.dependencies:
        texts |= computed.get(address, {})
    body = declared_values(row.fields, row.values)
    members = {attribute_name(key): state_file.referring(value, texts) for key, value in body.items()}
    definition = runtime.registry.type(row.resource.type)
    spelling = {name: definition.spelling(name) for name in members}
    return state_file.declaration(row.reference, members, row.resource.alias, spelling)


def _made_values(resources: Sequence[_Read]) -> dict[str, dict[str, str]]:
    """Return address of a resource → text that its provider has made, such as an id → the expression that refers to it.

    In the declarations of dependent resources this expression replaces the text. A resource with several instances is
    omitted, because a dependency in the file has the address of all of them.
    """
    instances = Counter(row.resource.config_address for row in resources)
    return {
        row.resource.config_address: dict(state_file.computed_texts(row.fields, row.values, row.reference))
        for row in resources
        if instances[row.resource.config_address] == 1
    }


def _write(path: str, declarations: Sequence[Sequence[str]]) -> None:
    """Add the declarations to the text of the manifest, which is otherwise unchanged, also in its comments.

    Raise ``UsageError`` for a manifest that is not YAML or cannot be written.
    """
    if not path.endswith((".yaml", ".yml")):
        raise UsageError(f"{path}: declarations are written as YAML; name a manifest that ends in .yaml")
    with errors_as(UsageError, (OSError, ValueError, ManifestError), f"{path} cannot be written: "):
        raw, _ = read_file(path)
        content = state_file.with_resources(yaml_reader.read(raw, path), declarations)
        yaml_reader.read(content, path)  # before it replaces the manifest: raises where it could not be read
        files.replace(os.path.abspath(path), content)
