"""Recovery after a crash: what an interrupted run may have done that reading the resources cannot show. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from resource_api.model.record import Commit, Record, RecordedLifecycle
from resource_api.prior.schema_upgrade import rename_intents

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from resource_api.catalog.compile import Catalog
    from resource_api.model.provider_functions import ProviderFunctions
    from resource_api.model.record import RecordKey, StackState


def recover(
    catalog: Catalog, state: StackState, functions: Callable[[str], ProviderFunctions]
) -> tuple[StackState, Commit]:
    """Return the state with the recovery of an interrupted run, and the recovery, to be written before anything else.

    The intents of that run stay in the state, with present names, because the user is informed about them.
    """
    declared = {(entry.instance, entry.reference): entry.name for entry in catalog.entries}
    state, former = rename_intents(state, declared, functions)
    recovery = _recovery(catalog, state, former)
    return state if recovery.empty else _recovered(state, recovery), recovery


def join(renaming: Commit, recovery: Commit) -> Commit:
    """Return one commit for a renaming and a recovery."""
    put = {record.key: record for record in (*renaming.put, *recovery.put)}
    owed = {**renaming.owed, **recovery.owed}
    return recovery._replace(
        put=list(put.values()), drop=[*renaming.drop, *recovery.drop], owed=owed, paid=renaming.paid
    )


def _recovery(catalog: Catalog, state: StackState, former: Mapping[RecordKey, RecordKey]) -> Commit:
    """Return what an interrupted run may have done that reading the resources cannot show.

    What it was creating and the catalog does not declare is ours, with the protection that it was to have; so is what
    it was creating under a ``former`` key (present → former), which this commit resolves. What it was changing may have
    been changed, so it notifies.
    """
    interrupted = {entry.index: str(entry.reference) for entry in catalog.entries if entry.key in state.intents}
    owed: dict[RecordKey, Sequence[str]] = {}
    for index, sources in catalog.subscribes.items():
        target = catalog.entries[index]
        names = [interrupted[source] for source in sources if source in interrupted]
        if names and "refreshable" in target.definition.features:
            owed[target.key] = names
    declared = {entry.key for entry in catalog.entries}
    undeclared = [key for key in state.intents if key not in declared]
    made = []
    for key, intent in state.intents.items():
        record = state.records.get(key)
        if not intent.makes or (key in declared and key not in former and not intent.protect):
            continue
        if record is None:
            record = Record(intent.type, intent.name, intent.title, {}, {}, None, owned=True, provider=intent.provider)
            record = record._replace(changed_at=intent.changed_at)
            record = record._replace(lifecycle=RecordedLifecycle(protect=intent.protect), parent=intent.parent)
        elif record.status != "pending":
            continue
        made.append(record._replace(status="unconfirmed"))
    return Commit(made, resolved=[*undeclared, *former.values()], owed=owed)


def _recovered(state: StackState, recovery: Commit) -> StackState:
    """Return the state with the recovery written."""
    owed = {key: list(dict.fromkeys((*state.owed.get(key, ()), *names))) for key, names in recovery.owed.items()}
    return state._replace(
        records={**state.records, **{record.key: record for record in recovery.put}}, owed={**state.owed, **owed}
    )
