"""Orphans: entries for recorded resources that are not declared any more and that this run deletes or forgets.

They are appended to the catalog, so that the planner treats them like any other entry. Which of the records that no
entry claims become orphans, under ``removed`` or with ``--prune``, is decided here too. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.model.attribute import Attribute
from resource_api.model.declaration import Declaration
from resource_api.model.entry import Entry, Lifecycle, Meta
from resource_api.model.record import OrphanKind, Record, RecordKey
from resource_api.model.sealed_secrets import has_sealed, open_sealed
from resource_api.model.type_definition import TypeDefinition
from resource_api.model.values.errors import DefinitionError, ManifestError, Problem
from resource_api.model.values.reference import enclosing_components
from resource_api.prior.former_names import find_renames, with_unique_titles

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from resource_api.catalog.compile import Catalog
    from resource_api.model.provider_functions import ProviderFunctions


def sort_unclaimed(
    catalog: Catalog, records: Mapping[int, Record], unclaimed: Mapping[RecordKey, Record], *, prune: bool
) -> tuple[list[tuple[Record, OrphanKind]], list[Record]]:
    """Return the records that become orphans and those that are left alone, both with present names."""
    if not unclaimed:
        return [], []
    removed = removed_names(catalog)
    present = find_renames(catalog, records)
    orphans: list[tuple[Record, OrphanKind]] = []
    undeclared: list[Record] = []
    for record in unclaimed.values():
        current = present.record(record)
        is_listed = is_removed(record, removed) or is_removed(current, removed)
        kind = OrphanKind.REMOVED if is_listed else _orphan_kind(record, prune=prune)
        if kind is not None:
            orphans.append((current, kind))
        else:
            undeclared.append(current)
    return orphans, with_unique_titles(undeclared, {entry.reference for entry in catalog.entries})


def _orphan_kind(record: Record, *, prune: bool) -> OrphanKind | None:
    """Return the kind of orphan of an unclaimed record that is not listed under ``removed``, or None if it stays."""
    if record.is_replaced:
        return OrphanKind.SUPERSEDED
    if record.status == "pending":
        return OrphanKind.INTERRUPTED
    return OrphanKind.UNDECLARED if prune else None


def removed_names(catalog: Catalog) -> set[str]:
    """Return the references of the resources and components under ``removed``."""
    return {str(removed.reference) for removed in catalog.manifest.removed}


def is_removed(record: Record, removed: set[str]) -> bool:
    """Return whether a resource, its successor, or a component around it is listed under ``removed``.

    It becomes no other resource then.
    """
    names = (str(record.reference), record.successor, *enclosing_components(record.parent))
    return bool(removed) and not removed.isdisjoint(names)


def check_removed_titles(catalog: Catalog, records: Mapping[int, Record]) -> None:
    """Raise ``ManifestError`` for a removed name that is the recorded title of a resource with another title now."""
    removed = {str(declaration.reference): declaration for declaration in catalog.manifest.removed}
    problems = []
    for index, record in records.items() if removed else ():
        name, present = str(record.reference), catalog.entries[index].reference
        if name in removed and name != str(present):
            message = f"{name} is removed, and is still declared as {present}: it has only another title"
            problems.append(Problem(None, message, "error", "", *removed[name].origin.place(), code="moved"))
    if problems:
        raise ManifestError(problems)


def add_orphans(
    catalog: Catalog, records: Sequence[tuple[Record, OrphanKind]], functions: Callable[[str], ProviderFunctions]
) -> tuple[Catalog, dict[int, OrphanKind]]:
    """Return the catalog with an entry for each record, and the kinds by the index of these entries.

    The resource that was created last comes first; each keeps its recorded dependencies.
    """
    if not records:
        return catalog, {}
    entries = list(catalog.entries)
    kinds: dict[int, OrphanKind] = {}
    unique = with_unique_titles((record for record, _ in reversed(records)), {entry.reference for entry in entries})
    for record, (_, kind) in zip(unique, reversed(records), strict=True):
        entry = orphan_entry(record, functions)
        entry.index = len(entries)
        entries.append(entry)
        kinds[entry.index] = kind
    indexes = {str(entry.reference): entry.index for entry in entries}
    requires = dict(catalog.requires)
    for record, index in zip(unique, kinds, strict=True):
        if needed := [indexes[name] for name in record.requires if indexes.get(name, index) != index]:
            requires[index] = needed
    return catalog._replace(entries=entries, requires=requires), kinds


def orphan_entry(record: Record, functions: Callable[[str], ProviderFunctions]) -> Entry:
    """Return an entry that declares the recorded resource absent."""
    definition = _definition(record, functions)
    entry = Entry(Declaration(record.type, record.title, {}, {}, parent=record.parent), definition)
    entry.name = record.name
    names = record.name if isinstance(record.name, tuple) else (record.name,)
    entry.should = {**dict(zip(definition.namevars, names, strict=False)), **_parameters(definition, record)}
    if definition.ensurable:
        entry.should["ensure"] = "absent"
    recorded = record.lifecycle
    entry.meta = Meta(
        implementation=record.implementation,
        lifecycle=Lifecycle(
            protect=recorded.protect,
            retain=recorded.retain,
            deleted_with=recorded.deleted_with,
            external=recorded.external,
        ),
    )
    return entry


def _definition(record: Record, functions: Callable[[str], ProviderFunctions]) -> TypeDefinition:
    """Return the type of a record; if it cannot be loaded, a type that can hold the names of the record."""
    try:
        return functions(record.instance).definition
    except DefinitionError:
        names = record.name if isinstance(record.name, tuple) else (record.name,)
        attributes = {
            f"name{number}": Attribute("Optional[Scalar]", "A name.", kind="namevar") for number in range(len(names))
        }
        ensure = Attribute("Enum[present, absent]", "Whether it exists.")
        unknown = TypeDefinition(name=record.type, docs="Gone.", attributes={**attributes, "ensure": ensure})
        return unknown.for_instance(record.instance)


def _parameters(definition: TypeDefinition, record: Record) -> dict[str, Any]:
    """Return the recorded parameters, which a deletion may need, without secrets of which only a digest is kept."""
    values = {name: open_sealed(record.should[name]) for name in definition.parameters if name in record.should}
    return {name: value for name, value in values.items() if not has_sealed(value)}
