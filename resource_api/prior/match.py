"""Match the records of earlier runs with the resources that the catalog declares.

Identity is type plus canonical name: a resource that is declared under another title has moved. ``match`` uses
names only; ``rematch`` corrects its result once the resources have been read. Recorded resources that are not declared
any more, and that this run deletes or forgets, under ``removed`` or with ``--prune``, are orphans: entries for them are
appended to the catalog, so that the planner treats them like any other entry. Pure: rows come in through
``PlannerQueries``.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from resource_api.model.attribute import Attribute
from resource_api.model.change import exists
from resource_api.model.declaration import Declaration
from resource_api.model.entry import Entry, Lifecycle, Meta
from resource_api.model.record import Commit, OrphanKind, Record, RecordKey, StackState
from resource_api.model.sealed_secrets import has_sealed, open_sealed
from resource_api.model.type_definition import TypeDefinition
from resource_api.model.values.errors import DefinitionError, ManifestError, Problem
from resource_api.model.values.reference import Reference, enclosing_components, make_urn
from resource_api.model.values.start_up import NamedTuple
from resource_api.prior import former_names
from resource_api.prior import recovery as recovering
from resource_api.prior.provider_instances import ProviderInstances, current_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from resource_api.catalog.compile import Catalog, PurgeRule
    from resource_api.model.provider_functions import PlannerQueries, ProviderFunctions
    from resource_api.model.type_definition import Name
    from resource_api.prior.former_names import Renames


class Prior(NamedTuple):
    """The records of earlier runs, matched with a catalog."""

    state: StackState
    #: Entry's index → its record.
    records: Mapping[int, Record]
    #: Entry's index → the record of the resource that it replaces: the same title, other namevars.
    predecessors: Mapping[int, Record]
    #: Records that nothing declares and that this run leaves alone.
    undeclared: Sequence[Record] = ()
    #: Entry's index → its kind, for the orphans among the entries.
    orphans: Mapping[int, OrphanKind] = {}
    #: Former key of a record → the entry's index by whose key it is recorded from now on, once its step has succeeded.
    moved_keys: Mapping[RecordKey, int] = {}
    #: The changes that an interrupted run has left open, written before anything else.
    recovery: Commit = Commit()
    #: Entry's index → the error of a record that cannot be used.
    errors: Mapping[int, str] = {}
    instances: ProviderInstances = ProviderInstances(StackState("", ""))
    #: Entry's index → the rule of ``purge`` by which it is deleted, recorded or not.
    purges: Mapping[int, PurgeRule] = {}

    def urn(self, entry: Entry) -> str:
        """Return the name of a resource across stacks."""
        return str(make_urn(self.state.stack, self.state.project, entry.parent, Reference(entry.type, entry.title)))


def recorded_dependents(catalog: Catalog, prior: Prior) -> dict[int, list[int]]:
    """Return index of an undeclared orphan → indices of the existing resources that need it by their records.

    A plan that deletes the orphan must not leave these behind. A resource needs its requirements and the resource in
    ``deleted_with``.
    """
    orphans = {index: prior.state.records[catalog.entries[index].key] for index in prior.orphans}
    undeclared = (index for index, kind in prior.orphans.items() if kind is OrphanKind.UNDECLARED)
    by_reference = {str(orphans[index].reference): index for index in undeclared}
    dependents: dict[int, list[int]] = {}
    for index, record in {**prior.records, **orphans}.items():
        # An imperative resource cannot be read back: it may exist if it ever ran.
        if record.status != "pending" and (exists(record.is_) or record.last_run):
            for name in by_reference.keys() & {*record.requires, record.lifecycle.deleted_with}:
                if by_reference[name] != index:
                    dependents.setdefault(by_reference[name], []).append(index)
    return dependents


def leftovers(catalog: Catalog, prior: Prior) -> dict[int, list[int]]:
    """Return index of an entry → indices of the old resources that it has replaced and that are still to be deleted.

    ``--target`` and ``--exclude`` use it: the name of the entry selects its old resources together with it.
    """
    replaced = [index for index, kind in prior.orphans.items() if kind is OrphanKind.SUPERSEDED]
    if not replaced:
        return {}
    present = former_names.find_renames(catalog, prior.records)
    by_reference = {str(entry.reference): entry.index for entry in catalog.entries}
    remaining: dict[int, list[int]] = {}
    for index in replaced:
        successor = present(prior.state.records[catalog.entries[index].key].successor)
        if successor in by_reference:
            remaining.setdefault(by_reference[successor], []).append(index)
    return remaining


def match(
    catalog: Catalog, instances: ProviderInstances, *, prune: bool, functions: Callable[[str], ProviderFunctions]
) -> tuple[Catalog, Prior]:
    """Return the catalog with orphans, recorded resources to delete or forget, as entries; and the records by entry.

    Only names are compared, as nothing has been read yet; ``rematch`` corrects the result later. ``prune``: all
    undeclared resources become orphans; ``functions`` returns those of a provider instance. Raise ``ManifestError``
    for ambiguous former names (``aliases``, ``moved``), and for a declared resource under ``removed``.
    """
    state, recovery = instances.state, Commit()
    if catalog.left_out.all and catalog.manifest.moved:
        state, recovery = former_names.carry_out_moves(catalog, state)
    if recovery.changes_state:  # the moved records are matched under their new names
        catalog, prior = match(catalog, instances._replace(state=state), prune=prune, functions=functions)
        return catalog, prior._replace(recovery=recovering.join(recovery, prior.recovery))
    if catalog.missing:
        catalog = _with_recorded_names(catalog, state)
    if state.intents:
        state, recovery = recovering.recover(catalog, state, functions)
    if not (state.records or recovery.changes_state):
        return catalog, Prior(state, {}, {}, recovery=recovery, instances=instances)
    records, moved_keys = _claimed_records(catalog, state)
    _check_removed_titles(catalog, records)
    errors = _upgrade_records(catalog, records, functions)
    unclaimed = _unclaimed(state, records, moved_keys)
    # A record under the namevars of an older version of its type is unclaimed: no entry has its name.
    present, renaming = recovering.rename(instances.state, unclaimed, functions)
    if renaming.changes_state:
        catalog, prior = match(catalog, instances._replace(state=present), prune=prune, functions=functions)
        return catalog, prior._replace(recovery=recovering.join(renaming, prior.recovery))
    # Entries without a record of their own that replace another resource, of the same title or another instance.
    predecessors = _predecessors(catalog, records, unclaimed, instances.replaced)
    for index, record in list(predecessors.items()):
        unclaimed.pop(record.key, None)
        if record.status == "pending":
            # The old resource was deleted already: there is nothing to replace.
            records[index] = predecessors.pop(index)
            moved_keys[record.key] = index
    renames = former_names.find_renames(catalog, records) if unclaimed else former_names.NO_RENAMES
    orphans, undeclared = _sort_unclaimed(catalog, renames, unclaimed, prune=prune)
    catalog, kinds = add_orphans(catalog, orphans, functions, renames)
    return catalog, Prior(
        state,
        records,
        predecessors,
        undeclared=undeclared,
        orphans=kinds,
        moved_keys=moved_keys,
        recovery=recovery,
        errors=errors,
        instances=instances,
    )


def _unclaimed(
    state: StackState, records: Mapping[int, Record], moved_keys: Collection[RecordKey]
) -> dict[RecordKey, Record]:
    """Return, by key, the records that no entry claims by its present name or by a former one (``moved_keys``).

    Their resources are not declared any more: they become orphans, or stay as they are.
    """
    if not moved_keys and len(records) == len(state.records):
        return {}
    claimed = {record.key for record in records.values()}
    return {key: record for key, record in state.records.items() if key not in claimed and key not in moved_keys}


def _with_recorded_names(catalog: Catalog, state: StackState) -> Catalog:
    """Return the catalog with recorded names for resources whose provider cannot be created yet.

    Without its provider a name cannot be made canonical, and its record would not be found: the entry gets the name
    of the record with the same declared namevars instead.
    """
    without_provider = [entry for entry in catalog.entries if entry.instance in catalog.missing]
    namevars = {entry.instance: entry.definition.namevars for entry in without_provider}
    recorded = [record for record in state.records.values() if record.instance in namevars]
    names = {(record.instance, *map(record.inputs.get, namevars[record.instance])): record.name for record in recorded}
    entries = list(catalog.entries)
    for entry in without_provider:
        if (name := names.get((entry.instance, *map(entry.should.get, entry.definition.namevars)))) is not None:
            entries[entry.index] = copy(entry)
            entries[entry.index].name = name
    return catalog._replace(entries=entries)


def rematch(
    catalog: Catalog, prior: Prior, selected: set[int] | None, queries: PlannerQueries, *, prune: bool
) -> tuple[Catalog, Prior, set[int] | None]:
    """Correct a match, which used names only, by the rows read since; return catalog, prior state and selection.

    By names alone a declared resource seems to be a recorded one under a new name, or to replace one. If reading shows
    that both exist, they are two resources: the recorded one stays, or is deleted. ``selected``: indices of entries;
    None: all. ``prune``: undeclared resources become orphans.
    """
    prior, orphans = _reject_former_names(catalog, prior, selected, queries, prune=prune)
    predecessors = dict(prior.predecessors)
    for index, record in prior.predecessors.items():
        entry = catalog.entries[index]
        if (selected is None or index in selected) and exists(queries.observation(entry).row):
            # The new resource exists already: only the old one will be deleted. Under a new configuration of its
            # provider both may be the same, unless an interrupted run was making the new one.
            del predecessors[index]
            intent = prior.state.intents.get(entry.key)
            is_made = intent is not None and intent.makes
            is_same = record.instance in prior.instances.replaced and not is_made
            orphans.append((record, OrphanKind.RECONFIGURED if is_same else OrphanKind.SUPERSEDED))
    catalog, kinds = add_orphans(catalog, orphans, queries.functions)
    selected = None if selected is None else selected | kinds.keys()
    return catalog, prior._replace(predecessors=predecessors, orphans={**prior.orphans, **kinds}), selected


def _reject_former_names(
    catalog: Catalog, prior: Prior, selected: set[int] | None, queries: PlannerQueries, *, prune: bool
) -> tuple[Prior, list[tuple[Record, OrphanKind]]]:
    """Undo a match by a former name if the resource of that name still exists; return the match and new orphans.

    The resource was then not renamed in the system: if the new one took its record over, nothing would manage the old
    one any more. If the old one cannot be read, it may exist, so the entry gets an error. ``prune``: it becomes an
    orphan, unless the new one replaces it.
    """
    moved_keys, errors = dict(prior.moved_keys), dict(prior.errors)
    records, predecessors, undeclared = dict(prior.records), dict(prior.predecessors), list(prior.undeclared)
    orphans: list[tuple[Record, OrphanKind]] = []
    for index, record in prior.records.items():
        entry = catalog.entries[index]
        is_selected = selected is None or index in selected  # others may not have been read
        if record.key not in moved_keys or not is_selected or not _may_be_another(record, entry):
            continue
        row, failure = queries.observation(_orphan_entry(record, queries.functions))
        if failure and not queries.observation(entry).failure:
            errors[index] = f"{record.reference}, which it was before, cannot be read: {failure}"
        if failure or not exists(row):
            continue
        del moved_keys[record.key]
        del records[index]
        if _may_replace(entry):
            predecessors[index] = record
        elif prune:
            orphans.append((record, OrphanKind.UNDECLARED))
        else:
            undeclared.append(record)
    for index in moved_keys.values():  # the record is about the entry's name from now on
        if selected is None or index in selected:
            entry = catalog.entries[index]
            records[index] = records[index]._replace(name=entry.name, provider=entry.provider)
    prior = prior._replace(records=records, predecessors=predecessors, undeclared=undeclared)
    return _with_moved_refreshes(prior._replace(moved_keys=moved_keys, errors=errors), catalog), orphans


def _may_be_another(record: Record, entry: Entry) -> bool:
    """Return whether the resource of a record found by a former name may exist beside that of the entry."""
    # Where both names are the manifest's (``identity``), the former resource is the same one.
    return record.key != entry.key and record.status != "pending" and entry.definition.identity is None


def _with_moved_refreshes(prior: Prior, catalog: Catalog) -> Prior:
    """Return the match with the refreshes that an earlier run owed moved to the present names of their resources.

    They are stored by the resource's key, which a rename changes: otherwise the refresh would never be made.
    """
    keys = {former: catalog.entries[index].key for former, index in prior.moved_keys.items()}
    owed = prior.state.owed
    moved = {keys[former]: sources for former, sources in owed.items() if former in keys}
    if not moved:
        return prior
    remaining = {key: sources for key, sources in owed.items() if key not in keys}
    commit = prior.recovery._replace(
        owed={**prior.recovery.owed, **moved}, paid=[*prior.recovery.paid, *(owed.keys() & keys)]
    )
    return prior._replace(state=prior.state._replace(owed={**remaining, **moved}), recovery=commit)


def _may_replace(entry: Entry) -> bool:
    """Return whether an entry may take the place of another resource: it is to exist, and its lifecycle allows that."""
    return entry.meta.lifecycle.allows_replacement and not entry.absent


def _upgrade_records(
    catalog: Catalog, records: dict[int, Record], functions: Callable[[str], ProviderFunctions]
) -> dict[int, str]:
    """Upgrade, in ``records``, values of other versions of their types; return entry's index → error.

    The plan compares them with values of the present version. A resource whose record cannot be upgraded fails alone.
    """
    entries = catalog.entries
    errors = {}
    for index, record in list(records.items()):
        if record.schema_version != entries[index].definition.schema_version:
            try:
                records[index] = recovering.upgrade(record, functions(entries[index].instance))
            except (ValueError, DefinitionError) as error:
                errors[index] = str(error)
    return errors


def _claimed_records(catalog: Catalog, state: StackState) -> tuple[dict[int, Record], dict[RecordKey, int]]:
    """Return entry's index → its record, by present or former name; and, for former names, recorded key → the index.

    A former name can claim a record unless a declared resource has its name now, or its resource is going to be deleted
    anyway: it was replaced, or is listed under ``removed``.
    """
    former = former_names.FormerNames(catalog)
    claims: dict[int, Record] = {}
    renamed: list[tuple[Entry, Sequence[Reference]]] = []
    for entry in catalog.entries:
        if (record := state.records.get(entry.key)) is not None:
            claims[entry.index] = record
        elif names := former.of_entry(entry):
            renamed.append((entry, names))
    if not renamed:
        return claims, {}
    declared, removed = {entry.key for entry in catalog.entries}, removed_names(catalog)
    free = [
        record
        for record in state.records.values()
        if not (record.is_replaced or record.key in declared or is_removed(record, removed))
    ]
    claimed = former_names.claim_renamed(catalog, free, renamed)
    present = {index: _as_type(record, catalog.entries[index]) for index, record in claimed.items()}
    return claims | present, {record.key: index for index, record in claimed.items()}


def _as_type(record: Record, entry: Entry) -> Record:
    """Return a record as one of the entry's type, to which its resource has moved.

    The values of the former type are dropped, as its attributes are others: the record only shows that the resource
    exists. The private data stay, from which the provider of the new type converts the resource.
    """
    if record.type == entry.type:
        return record
    row = {**entry.definition.absent_row(entry.name), "ensure": "present"}
    return record._replace(
        type=entry.type,
        name=entry.name,
        inputs={},
        should={},
        is_=row,
        value_requires={},
        provider=entry.provider,
        schema_version=entry.definition.schema_version,
    )


def _predecessors(
    catalog: Catalog, records: Mapping[int, Record], unclaimed: Mapping[RecordKey, Record], replaced: Collection[str]
) -> dict[int, Record]:
    """Return entry's index → the unclaimed record of the resource that it replaces.

    The same title with other namevars means another resource in place of the old one. So does the same name in a
    ``replaced`` provider instance, whose resources the present configuration cannot reach. An entry in ``records`` has
    a record of its own, and replaces none.
    """
    by_reference = {record.reference: record for record in unclaimed.values() if not record.is_replaced}
    of_older = {
        (current_name(record.instance), record.name): record
        for record in unclaimed.values()
        if record.instance in replaced
    }
    predecessors = {}
    for entry in catalog.entries if by_reference else ():
        if entry.index in records:
            continue
        record = of_older.get(entry.key)
        if record is None and _may_replace(entry):
            record = by_reference.get(entry.reference)
        if record is not None:
            predecessors[entry.index] = record
    return predecessors


def stated_implementations(catalog: Catalog, prior: Prior | None, instance: str) -> dict[Name, str]:
    """Return name → the implementation (``apt`` or ``pip`` of ``package``) that must manage a resource of an instance.

    The manifest states it. With ``prior`` the record counts for a resource that is deleted or replaced, if its
    declaration states none: only the provider that made it can delete it.
    """
    implementations: dict[Name, str] = {}
    for record in prior.predecessors.values() if prior else ():
        if record.instance == instance and record.implementation:
            implementations[record.name] = record.implementation
    for entry in catalog.entries:
        if entry.instance != instance:
            continue
        stated = entry.meta.implementation
        if not stated and prior and entry.absent and (before := prior.records.get(entry.index)):
            stated = before.implementation
        if stated:
            implementations[entry.name] = stated
    return implementations


def _sort_unclaimed(
    catalog: Catalog, renames: Renames, unclaimed: Mapping[RecordKey, Record], *, prune: bool
) -> tuple[list[tuple[Record, OrphanKind]], list[Record]]:
    """Return the unclaimed records that become orphans, with their kind, and the records that stay as they are.

    This run deletes an orphan's resource or removes its record; ``prune`` makes all undeclared records orphans. The
    other records only get the present names of ``renames``.
    """
    if not unclaimed:
        return [], []
    removed = removed_names(catalog)
    orphans: list[tuple[Record, OrphanKind]] = []
    undeclared: list[Record] = []
    for record in unclaimed.values():
        # ``removed`` may have the recorded name of a component around the resource, or its present one.
        is_listed = is_removed(record, removed) or is_removed(renames.record(record), removed)
        kind = OrphanKind.REMOVED if is_listed else _orphan_kind(record, prune=prune)
        if kind is not None:
            orphans.append((record, kind))
        else:
            undeclared.append(record)
    reserved = {entry.reference for entry in catalog.entries}
    return orphans, former_names.with_unique_titles(undeclared, reserved, renames)


def _orphan_kind(record: Record, *, prune: bool) -> OrphanKind | None:
    """Return the kind of orphan of an unclaimed record that is not listed under ``removed``, or None if it stays.

    Only a merely undeclared resource needs ``prune``. A replaced one is deleted in any run, which completes its
    replacement, and a ``pending`` record of an interrupted replacement has no resource any more.
    """
    if record.is_replaced:
        return OrphanKind.SUPERSEDED
    if record.status == "pending":
        return OrphanKind.INTERRUPTED
    return OrphanKind.UNDECLARED if prune else None


def removed_names(catalog: Catalog) -> set[str]:
    """Return the references of the resources and components under ``removed``."""
    return {str(removed.reference) for removed in catalog.manifest.removed}


def is_removed(record: Record, removed: set[str]) -> bool:
    """Return whether a record is listed under ``removed``: by itself, its successor, or an enclosing component."""
    names = (str(record.reference), record.successor, *enclosing_components(record.parent))
    return bool(removed) and not removed.isdisjoint(names)


def _check_removed_titles(catalog: Catalog, records: Mapping[int, Record]) -> None:
    """Raise ``ManifestError`` for a name under ``removed`` whose resource is declared under another title.

    The compiler cannot report this contradiction, because only the records show that both are one resource.
    """
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
    catalog: Catalog,
    records: Sequence[tuple[Record, OrphanKind]],
    functions: Callable[[str], ProviderFunctions],
    renames: Renames | None = None,
) -> tuple[Catalog, dict[int, OrphanKind]]:
    """Return the catalog with an entry for each record of an orphan, and the kinds by the index of these entries.

    The planner then treats them like declared resources. The one that was created last comes first, to be deleted
    first; each keeps its recorded dependencies, under the present names of ``renames``.
    """
    if not records:
        return catalog, {}
    entries = list(catalog.entries)
    kinds: dict[int, OrphanKind] = {}
    unique = former_names.with_unique_titles(
        (record for record, _ in reversed(records)),
        {entry.reference for entry in entries},
        renames or former_names.NO_RENAMES,
    )
    for record, (_, kind) in zip(unique, reversed(records), strict=True):
        entry = _orphan_entry(record, functions)
        entry.index = len(entries)
        entries.append(entry)
        kinds[entry.index] = kind
    indexes = {str(entry.reference): entry.index for entry in entries}
    requires = dict(catalog.requires)
    for record, index in zip(unique, kinds, strict=True):
        # A requirement that is no entry any more is dropped, and so is one of the resource itself.
        if needed := [indexes[name] for name in record.requires if indexes.get(name, index) != index]:
            requires[index] = needed
    return catalog._replace(entries=entries, requires=requires), kinds


def _orphan_entry(record: Record, functions: Callable[[str], ProviderFunctions]) -> Entry:
    """Return an entry that declares the recorded resource absent, so that the planner treats it like any other.

    The lifecycle options that restrict a deletion, such as ``protect``, are those that were declared last.
    """
    definition = _recorded_definition(record, functions)
    entry = Entry(Declaration(record.type, record.title, {}, {}, parent=record.parent), definition)
    entry.name = record.name
    names = record.name if isinstance(record.name, tuple) else (record.name,)
    entry.should = dict(zip(definition.namevars, names, strict=False))
    # A deletion may need the parameters; of secrets only a digest may be kept.
    parameters = {name: open_sealed(record.should[name]) for name in definition.parameters if name in record.should}
    entry.should |= {name: value for name, value in parameters.items() if not has_sealed(value)}
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


def _recorded_definition(record: Record, functions: Callable[[str], ProviderFunctions]) -> TypeDefinition:
    """Return the type of a record; if that cannot be loaded any more, a substitute, so that the record can be an entry.

    The substitute has a namevar for each part of the recorded name.
    """
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
