"""Which record belongs to which resource, and what is recorded but no longer declared.

Identity is type plus canonical name: what is declared under another title is the same resource, moved. What nobody
declares any more becomes an *orphan*: an entry that should be absent, ordered after everything else. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.model.attribute import Attribute
from resource_api.model.codec import has_sealed, open_sealed
from resource_api.model.declaration import Declaration
from resource_api.model.entry import Entry, Lifecycle, Meta
from resource_api.model.record import Commit, Record, RecordedLifecycle, StackState
from resource_api.model.type_definition import TypeDefinition
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import DefinitionError, ManifestError, Problem
from resource_api.model.values.reference import Reference, enclosing_components, make_urn
from resource_api.prior.moved import FormerNames, find_renames, with_unique_titles
from resource_api.prior.provider_instances import ProviderInstances, current
from resource_api.prior.schema_upgrade import upgrade

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from resource_api.catalog.compile import Catalog
    from resource_api.model.provider_functions import ProviderFunctions
    from resource_api.model.record import Key


class Prior(NamedTuple):
    """What a plan knows of earlier runs."""

    state: StackState
    #: Entry's index → its record.
    records: Mapping[int, Record]
    #: Entry's index → the record of the same title under other namevars: what a replacement removes.
    predecessors: Mapping[int, Record]
    #: Records that are neither declared nor to be dealt with in this run.
    undeclared: Sequence[Record] = ()
    #: Index of each orphan among the entries → why it is one.
    orphans: Mapping[int, str] = {}
    #: Keys under which nothing is recorded any more once the run is over.
    moved_keys: Sequence[Key] = ()
    #: What is to be written of a run that was cut, before anything else is.
    recovery: Commit = Commit()
    #: Entry's index → why nothing can be said of what was recorded of it.
    errors: Mapping[int, str] = {}
    #: Which configured provider answers for what.
    instances: ProviderInstances = ProviderInstances(StackState("", ""))

    def urn(self, entry: Entry) -> str:
        """Give a resource's name across stacks."""
        return str(make_urn(self.state.stack, self.state.project, entry.parent, Reference(entry.type, entry.title)))


def match(
    catalog: Catalog, instances: ProviderInstances, *, prune: bool, tools: Callable[[str], ProviderFunctions]
) -> tuple[Catalog, Prior]:
    """Give the catalog with its orphans, and who is who. ``prune``: what is undeclared is to go.

    Raises ``ManifestError`` where former names (``aliases``, ``moved``) do not tell who is who.
    """
    catalog, prior = _match(catalog, instances.state, instances.replaced, prune=prune, tools=tools)
    return catalog, prior._replace(instances=instances)


def _match(
    catalog: Catalog,
    state: StackState,
    replaced: Mapping[str, str],
    *,
    prune: bool,
    tools: Callable[[str], ProviderFunctions],
) -> tuple[Catalog, Prior]:
    recovery = _recovery_commit(catalog, state) if state.intents else Commit()
    if not state.records and recovery.empty:
        return catalog, Prior(state, {}, {}, recovery=recovery)
    if not recovery.empty:
        state = _known(state, recovery)
    records, moved_keys = _claim(catalog, state)
    errors = _upgraded(catalog, records, tools)
    left: dict[Key, Record] = {}
    # Each by its identity, and all of them: then nothing is left.
    if moved_keys or len(records) < len(state.records):
        claimed = {record.key for record in records.values()}
        left = {key: record for key, record in state.records.items() if key not in claimed}
    predecessors = _successors(catalog, records, left, replaced)
    for index, record in list(predecessors.items()):
        left.pop(record.key, None)
        if record.status == "pending":
            # The old one has gone already: nothing is left to be replaced.
            records[index] = predecessors.pop(index)
            moved_keys.append(record.key)
    removed = {str(wish.reference) for wish in catalog.manifest.removed}
    going: list[tuple[Record, str]] = []
    undeclared: list[Record] = []
    for record in left.values():
        if why := _why(record, removed, prune=prune):
            going.append((record, why))
        else:
            undeclared.append(record)
    if going or undeclared:
        present = find_renames(catalog, records)
        going = [(present.record(record), why) for record, why in going]
        taken = {entry.reference for entry in catalog.entries}
        undeclared = with_unique_titles(map(present.record, undeclared), taken)
    catalog, orphans = add_orphans(catalog, going, tools)
    return catalog, Prior(state, records, predecessors, undeclared, orphans, moved_keys, recovery, errors)


def _upgraded(
    catalog: Catalog, records: dict[int, Record], tools: Callable[[str], ProviderFunctions]
) -> dict[int, str]:
    """Bring records that another version of their type has written to this one; gives those that cannot be, and why."""
    entries = catalog.entries
    errors = {}
    for index, record in list(records.items()):
        if record.schema_version != entries[index].definition.schema_version:
            try:
                records[index] = upgrade(record, tools(entries[index].instance))
            except ValueError as error:
                errors[index] = str(error)
    return errors


def _recovery_commit(catalog: Catalog, state: StackState) -> Commit:
    """Give what a run that was cut may have done beside what its resources show.

    What it was about to make and nobody declares is ours, and protected if it was to be; what it was about to change
    notifies, for it may have.
    """
    cut = {entry.index: str(entry.reference) for entry in catalog.entries if entry.key in state.intents}
    owed: dict[Key, Sequence[str]] = {}
    for index, sources in catalog.subscribes.items():
        target = catalog.entries[index]
        names = [cut[source] for source in sources if source in cut]
        if names and "refreshable" in target.definition.features:
            owed[target.key] = names
    declared = {entry.key for entry in catalog.entries}
    orphans = [intent for key, intent in state.intents.items() if key not in declared]
    made = []
    for key, intent in state.intents.items():
        record = state.records.get(key)
        if not intent.makes or (key in declared and not intent.protect):
            continue
        if record is None:
            record = Record(intent.type, intent.name, intent.title, {}, {}, None, owned=True, provider=intent.provider)
            record = record._replace(lifecycle=RecordedLifecycle(protect=intent.protect), parent=intent.parent)
        elif record.status != "pending":
            continue
        made.append(record._replace(status="partial"))
    return Commit(made, done=[intent.key for intent in orphans], owed=owed)


def _known(state: StackState, recovery: Commit) -> StackState:
    """Give the state as it is once the recovery commit is written; intents stay, for people are told of them."""
    owed = {key: list(dict.fromkeys((*state.owed.get(key, ()), *names))) for key, names in recovery.owed.items()}
    return state._replace(
        records={**state.records, **{record.key: record for record in recovery.put}}, owed={**state.owed, **owed}
    )


def _claim(catalog: Catalog, state: StackState) -> tuple[dict[int, Record], list[Key]]:
    """Give each entry its record, by identity, else by a name that it had; and the keys of those found by name."""
    former = FormerNames(catalog)
    found: dict[int, Record] = {}
    renamed: list[tuple[Entry, Sequence[Reference]]] = []
    for entry in catalog.entries:
        if (record := state.records.get(entry.key)) is not None:
            found[entry.index] = record
        elif names := former.names(entry):
            renamed.append((entry, names))
    return found, _claim_renamed(catalog, state, renamed, found) if renamed else []


def _claim_renamed(
    catalog: Catalog, state: StackState, renamed: Sequence[tuple[Entry, Sequence[Reference]]], found: dict[int, Record]
) -> list[Key]:
    """Add to ``found`` what is recorded under a former name, which must be one record's and one entry's."""
    declared = {entry.key for entry in catalog.entries}
    free = [record for record in state.records.values() if not (record.is_replaced or record.key in declared)]
    by_name = {record.reference: record for record in free}
    claimed: dict[Key, Entry] = {}
    problems: list[Problem] = []
    for entry, names in renamed:
        known = (by_name[name] for name in names if name in by_name)
        meant = {record.key: record for record in known if record.type == entry.type}
        for key, record in meant.items():
            found[entry.index] = record
            if (twin := claimed.setdefault(key, entry)) is not entry:
                problems.append(_ambiguous(catalog, entry, f"{record.reference} has become {twin.reference} already"))
        if len(meant) > 1:
            listed = ", ".join(str(record.reference) for record in meant.values())
            problems.append(_ambiguous(catalog, entry, f"several that are recorded have a former name of it: {listed}"))
    if problems:
        raise ManifestError(problems)
    return list(claimed)


def _ambiguous(catalog: Catalog, entry: Entry, message: str) -> Problem:
    place = catalog.manifest.place(entry.declaration, "lifecycle")
    return Problem("lifecycle", message, "error", str(entry.reference), *place, code="alias", hint="only one can be it")


def _successors(
    catalog: Catalog, records: Mapping[int, Record], left: Mapping[Key, Record], replaced: Collection[str]
) -> dict[int, Record]:
    """Find what is declared under the title of a record whose namevars differ, where replacing is allowed."""
    by_name = {record.reference: record for record in left.values() if not record.is_replaced}
    found = {}
    met = {(current(record.instance), record.name): record for record in left.values() if record.instance in replaced}
    for entry in catalog.entries if by_name else ():
        if entry.index in records:
            continue
        record = met.get(entry.key)
        if record is None and entry.meta.lifecycle.replace in {"delete_first", "create_first"}:
            record = by_name.get(entry.reference)
        if record is not None:
            found[entry.index] = record
    return found


def _why(record: Record, removed: set[str], *, prune: bool) -> str:
    """Give why a record that nobody claims is to go; empty: it stays."""
    if removed and not removed.isdisjoint([str(record.reference), *enclosing_components(record.parent)]):
        return "removed"
    if record.is_replaced:
        return "replaced"
    if record.status == "pending":
        return "pending"
    return "undeclared" if prune else ""


def add_orphans(
    catalog: Catalog, going: Sequence[tuple[Record, str]], tools: Callable[[str], ProviderFunctions]
) -> tuple[Catalog, dict[int, str]]:
    """Append an entry for each record that is to go, the last made first, with the dependencies that it had."""
    if not going:
        return catalog, {}
    entries = list(catalog.entries)
    orphans: dict[int, str] = {}
    leaving = with_unique_titles((record for record, _ in reversed(going)), {entry.reference for entry in entries})
    for record, (_, why) in zip(leaving, reversed(going), strict=True):
        entry = orphan(record, tools)
        entry.index = len(entries)
        entries.append(entry)
        orphans[entry.index] = why
    places = {str(entry.reference): entry.index for entry in entries}
    requires = dict(catalog.requires)
    for record, index in zip(leaving, orphans, strict=True):
        if needed := [places[name] for name in record.requires if places.get(name, index) != index]:
            requires[index] = needed
    return catalog._replace(entries=entries, requires=requires), orphans


def _definition(record: Record, tools: Callable[[str], ProviderFunctions]) -> TypeDefinition:
    """Give the type of a record; of one that cannot be found any more, as much as naming its record takes."""
    try:
        return tools(record.instance).definition
    except DefinitionError:
        names = record.name if isinstance(record.name, tuple) else (record.name,)
        attributes = {f"name{number}": Attribute("Any", "A name.", kind="namevar") for number in range(len(names))}
        ensure = Attribute("Enum[present, absent]", "Whether it exists.")
        gone = TypeDefinition(name=record.type, docs="Gone.", attributes={**attributes, "ensure": ensure})
        return gone.for_instance(record.instance)


def orphan(record: Record, tools: Callable[[str], ProviderFunctions]) -> Entry:
    """Give the entry that stands for a record: it should be absent."""
    definition = _definition(record, tools)
    entry = Entry(Declaration(record.type, record.title, {}, {}, parent=record.parent), definition)
    entry.name = record.name
    names = record.name if isinstance(record.name, tuple) else (record.name,)
    entry.should = {**dict(zip(definition.namevars, names, strict=False)), **_parameters(definition, record)}
    if definition.ensurable:
        entry.should["ensure"] = "absent"
    recorded = record.lifecycle
    entry.meta = Meta(
        lifecycle=Lifecycle(
            protect=recorded.protect,
            retain=recorded.retain,
            deleted_with=recorded.deleted_with,
            external=recorded.external,
        )
    )
    return entry


def _parameters(definition: TypeDefinition, record: Record) -> dict[str, Any]:
    """Give the parameters that the resource was last set with: a deletion may need them.

    A secret of which only the digest is kept is left out: it is no value.
    """
    kept = {
        name: open_sealed(record.should[name])
        for name in definition.names_of_kind("parameter")
        if name in record.should
    }
    return {name: value for name, value in kept.items() if not has_sealed(value)}
