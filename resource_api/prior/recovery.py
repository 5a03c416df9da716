"""Prepare records and intents for matching: those of other versions of their types, and of an interrupted run.

Pure: the provider's ``upgrade`` comes in as a function. An upgraded record is written with the next change of its
resource.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from resource_api.model.record import Commit, Intent, Record, RecordedLifecycle, RecordKey, StackState
from resource_api.model.sealed_secrets import has_sealed
from resource_api.model.values.errors import DefinitionError, reason

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from resource_api.catalog.compile import Catalog
    from resource_api.model.provider_functions import ProviderFunctions
    from resource_api.model.type_definition import Name, TypeDefinition
    from resource_api.model.values.reference import Reference
    from resource_api.model.values.values import Values


def upgrade(record: Record, functions: ProviderFunctions) -> Record:
    """Return the record with its values as the present version of its type declares them.

    The provider's ``upgrade`` converts them. Raise ``ValueError`` with the reason, also for a version that is newer.
    """
    version, current = record.schema_version, functions.definition.schema_version
    if version > current:
        msg = f"was recorded by version {version} of its type, and this is version {current}: bring the newer type back"
        raise ValueError(msg)
    if version == current or functions.upgrade is None:
        return record
    return record._replace(
        inputs=_upgraded_values(record.inputs, version, functions),
        should=_upgraded_values(record.should, version, functions),
        is_=None if record.is_ is None else _upgraded_values(record.is_, version, functions),
    )


def rename(
    state: StackState, unclaimed: Mapping[RecordKey, Record], functions: Callable[[str], ProviderFunctions]
) -> tuple[StackState, Commit]:
    """Return the state with records renamed whose type has other namevars now, and the commit of these changes.

    Otherwise no declared resource would match the old name, and the resource would be created again. Only ``unclaimed``
    records are renamed, by the recorded values of the namevars or defaults. A record without one of these, or without
    its type, keeps its name, and so does one whose present name another record has.
    """
    present: dict[RecordKey, Record] = {}
    taken = set(state.records)
    for key, record in unclaimed.items():
        renamed = _renamed(record, functions)
        if key in state.records and renamed.key not in taken:
            present[key] = renamed
            taken.add(renamed.key)
    if not present:
        return state, Commit()
    owed = {present[key].key: names for key, names in state.owed.items() if key in present}
    commit = Commit(list(present.values()), list(present), owed=owed)
    records = {(current := present.get(key, record)).key: current for key, record in state.records.items()}
    remaining = {key: names for key, names in state.owed.items() if key not in present}
    return state._replace(records=records, owed={**remaining, **owed}), commit


def rename_intents(
    state: StackState, declared: Mapping[tuple[str, Reference], Name], functions: Callable[[str], ProviderFunctions]
) -> tuple[StackState, Mapping[RecordKey, RecordKey]]:
    """Return the state with intents renamed whose type has other namevars now, and their present → former keys.

    An intent with the old name would not be found for its resource. It has no values of namevars, so its present name
    is that of the record with the same reference, or else of the ``declared`` resource with it ((provider instance,
    reference) → name), or else the one in its title.
    """
    recorded = {
        (record.instance, record.reference): record for record in state.records.values() if not record.is_replaced
    }
    intents: dict[RecordKey, Intent] = {}
    former: dict[RecordKey, RecordKey] = {}
    for key, intent in state.intents.items():
        definition, identity = _definition(key[0], functions), (key[0], intent.reference)
        renamed = intent
        if definition is not None and not _has_namevars(intent.name, definition):
            if identity in recorded:
                name = _renamed(recorded[identity], functions).name
            elif identity in declared:
                name = declared[identity]
            else:
                name = _titled_name(intent, definition)
            renamed = intent._replace(name=name)
        if renamed.key != key and (renamed.key in state.intents or renamed.key in intents):
            renamed = intent  # two names have become one: each intent is recovered by itself
        intents[renamed.key] = renamed
        if renamed.key != key:
            former[renamed.key] = key
    return state._replace(intents=intents), former


def _titled_name(intent: Intent, definition: TypeDefinition) -> Name:
    """Return the name in the title of an intent; the name stays if the title has not all namevars."""
    values = definition.namevars_from_title(intent.title) or {}
    return definition.name_of(values) if values.keys() >= set(definition.namevars) else intent.name


def _renamed(record: Record, functions: Callable[[str], ProviderFunctions]) -> Record:
    """Return a record under the name that it has by the present namevars of its type.

    Their values are recorded or defaults. The name stays if it has a part for each of them already, or if a value or
    the type is missing.
    """
    definition = _definition(record.instance, functions)
    if definition is None or _has_namevars(record.name, definition):
        return record
    defaults = {name: attribute.fresh_default() for name, attribute in definition.defaults}
    values = {**defaults, **record.should, **(record.is_ or {})}
    return record._replace(name=definition.name_of(values)) if values.keys() >= set(definition.namevars) else record


def _definition(instance: str, functions: Callable[[str], ProviderFunctions]) -> TypeDefinition | None:
    """Return the type of a provider instance, or None if it cannot be loaded: then its records keep their names."""
    try:
        return functions(instance).definition
    except DefinitionError:
        return None


def _has_namevars(name: Name, definition: TypeDefinition) -> bool:
    """Return whether a name has as many parts as its type has namevars: otherwise another version has recorded it."""
    return (len(name) if isinstance(name, tuple) else 1) == len(definition.namevars)


def _upgraded_values(values: Mapping[str, object], version: int, functions: ProviderFunctions) -> Values:
    """Return values of an older version of their type, upgraded. Raises ``ValueError`` for a wrong answer."""
    assert functions.upgrade is not None
    try:
        answer = functions.upgrade(version, values)
    except Exception as error:  # a method of a provider may raise anything
        msg = f"what version {version} of its type has recorded cannot be upgraded: {reason(error)}"
        raise ValueError(msg) from error
    if not hasattr(answer, "keys") or not all(isinstance(name, str) for name in answer):
        raise ValueError(f"upgrade must return a mapping of attributes to values, not {type(answer).__name__}")
    for name, value in answer.items():
        if _is_wrong(functions.definition, name, value):
            declared = functions.definition.attributes[name].type
            raise ValueError(f"upgrade returned a value for '{name}' that is not of its type {declared}")
    return dict(answer)


def _is_wrong(definition: TypeDefinition, name: str, value: object) -> bool:
    """Return whether an upgraded value is not of its attribute's data type.

    Secrets and contents pass unchecked, because they may be recorded as digests.
    """
    if name not in definition.attributes or value is None or has_sealed(value):
        return False
    by_digest = definition.secret | definition.content_attributes
    return name not in by_digest and not definition.accepts[name](value)


def recover(
    catalog: Catalog, state: StackState, functions: Callable[[str], ProviderFunctions]
) -> tuple[StackState, Commit]:
    """Return the state with the possible effects of an interrupted run, by its intents, and the commit of them.

    The commit is written before this run changes anything. The intents stay in the state, with present names, because
    the user is informed about them.
    """
    declared = {(entry.instance, entry.reference): entry.name for entry in catalog.entries}
    state, former = rename_intents(state, declared, functions)
    recovery = _recovery(catalog, state, former)
    if not recovery.changes_state:
        return state, recovery
    records = {**state.records, **{record.key: record for record in recovery.put}}
    return state._replace(records=records, owed=_joined(state.owed, recovery.owed)), recovery


def join(renaming: Commit, recovery: Commit) -> Commit:
    """Return one commit for a renaming and a recovery, which are written together before anything else.

    A record that is in both has been recovered under its new name: the recovered form counts.
    """
    put = {record.key: record for record in (*renaming.put, *recovery.put)}
    drop, owed = [*renaming.drop, *recovery.drop], _joined(renaming.owed, recovery.owed)
    return recovery._replace(put=list(put.values()), drop=drop, owed=owed)


def _joined(
    owed: Mapping[RecordKey, Sequence[str]], more: Mapping[RecordKey, Sequence[str]]
) -> dict[RecordKey, Sequence[str]]:
    """Return the owed refreshes of two mappings (key of a resource → references of its sources), each source once."""
    return {**owed, **{key: list(dict.fromkeys((*owed.get(key, ()), *names))) for key, names in more.items()}}


def _recovery(catalog: Catalog, state: StackState, former: Mapping[RecordKey, RecordKey]) -> Commit:
    """Return the commit of possible effects of an interrupted run that reading the resources cannot show.

    A resource that the run was creating may exist: it is recorded as ours and ``unconfirmed`` unless this run reads it
    under the same key (``former``: present → former key). A protected one is always recorded, so that its protection
    holds at once. A resource that the run was changing may be changed: refreshes are owed to its subscribers.
    """
    # Handlers of failures (``on_failure``) are not read either: a creation that was begun is ours, unconfirmed.
    declared = {entry.key for entry in catalog.entries if not entry.meta.on_failure}
    undeclared = [key for key in state.intents if key not in declared]
    put = []
    for key, intent in state.intents.items():
        is_read = key in declared and key not in former
        record = state.records.get(key)
        if intent.makes and (intent.protect or not is_read) and (record is None or record.status == "pending"):
            put.append((record or _created_record(intent))._replace(status="unconfirmed"))
    return Commit(put, resolved=[*undeclared, *former.values()], owed=_interrupted_refreshes(catalog, state))


def _created_record(intent: Intent) -> Record:
    """Return the record of a resource that an interrupted run may have created: owned, without known values."""
    return Record(
        intent.type,
        intent.name,
        intent.title,
        inputs={},
        should={},
        is_=None,
        owned=True,
        lifecycle=RecordedLifecycle(protect=intent.protect),
        provider=intent.provider,
        parent=intent.parent,
        changed_at=intent.changed_at,
    )


def _interrupted_refreshes(catalog: Catalog, state: StackState) -> dict[RecordKey, Sequence[str]]:
    """Return the refreshes that this run owes for changes that an interrupted run had begun.

    Such a change may be complete: reading then shows no difference that would refresh the subscribers. The result is
    the key of a subscriber → the references of its sources with such a change.
    """
    begun = [entry for entry in catalog.entries if entry.key in state.intents and not entry.meta.noop]
    interrupted = {entry.index: str(entry.reference) for entry in begun}
    owed: dict[RecordKey, Sequence[str]] = {}
    for index, sources in catalog.subscribes.items():
        target = catalog.entries[index]
        names = [interrupted[source] for source in sources if source in interrupted]
        if names and "refreshable" in target.definition.features:
            owed[target.key] = names
    return owed
