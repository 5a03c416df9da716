"""``refresh`` and ``import``: state is brought to what is; the system is not touched.

Both are an observation and one commit, composed of the same stages as a run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.model.change import exists
from resource_api.model.codec import seal_secrets
from resource_api.model.event import Drifted
from resource_api.model.record import Commit, Record, RecordedLifecycle
from resource_api.model.report import Summary
from resource_api.model.values import reference
from resource_api.model.values.errors import DefinitionError, ResourceError, UsageError, nearest
from resource_api.model.values.text import escape
from resource_api.plan import drift as drifting
from resource_api.plugins.provider_pool import ProviderPool
from resource_api.prior.schema_upgrade import upgrade
from resource_api.snapshot.configure_providers import configure_instances
from resource_api.snapshot.snapshot import Snapshot
from resource_api.system.gc_pause import gc_paused
from resource_api.transaction.recorded_values import recorded_inputs, recorded_state

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api.catalog.compile import Catalog
    from resource_api.model.entry import Entry
    from resource_api.model.record import StackState
    from resource_api.runtime.runtime import Runtime, Source


def refresh(runtime: Runtime, source: Source, inputs: Mapping[str, Any] | None = None) -> list[str]:
    """Read everything that is recorded again and write what has moved; gives the references of what has.

    Raises ``ResourceError`` naming what could not be read; what could is written all the same.
    """
    providers = ProviderPool(runtime.registry, runtime.run)
    with runtime.store.lock("refresh", runtime.lock_timeout), providers, gc_paused():
        catalog = runtime.catalog(source, inputs, providers)
        name = runtime.name(catalog)
        # What waits for resources is read with what was recorded of it: nothing is planned here that could tell.
        known = {key: instance for key, instance in catalog.instances.items() if not instance.pending}
        instances = configure_instances(catalog._replace(instances=known), runtime.store.load(name), providers)
        state = instances.state
        snapshot = Snapshot(providers)
        put: list[Record] = []
        failures: list[str] = []
        for instance in dict.fromkeys(record.instance for record in state.records.values()):
            records = [record for record in state.records.values() if record.instance == instance]
            failures += _reread(runtime, snapshot, state, records, put)
        if not instances.commit.empty:
            runtime.store.commit(name, instances.commit)
        if put:
            runtime.store.commit(name, Commit(put))
    if failures:
        raise ResourceError("\n".join(map(escape, failures)))
    return [str(record.reference) for record in put]


def _reread(
    runtime: Runtime, snapshot: Snapshot, state: StackState, records: list[Record], put: list[Record]
) -> list[str]:
    """Read the records of one instance again; those that have moved are added to ``put``."""
    try:
        tools = snapshot.providers.tools(records[0].instance)
        records = [upgrade(record, tools) for record in records]
    except (DefinitionError, ValueError) as error:
        return [f"{record.reference}: {error}" for record in records]
    definition = tools.definition
    if "imperative" in definition.features:
        return []
    snapshot.read(definition, [record.name for record in records])
    failures = []
    for record in records:
        row, failure = snapshot.observation(record.instance, record.name)
        if failure:
            failures.append(f"{record.reference}: {failure}")
        elif changes := drifting.drifted_attributes(definition, record, row, state.salt):
            runtime.tell(Drifted(str(record.reference), changes))
            known = {**(record.is_ or {}), **record.should}
            is_ = recorded_state(definition, known, row) if row is not None and exists(row) else None
            put.append(record._replace(is_=seal_secrets(is_, state.salt), schema_version=definition.schema_version))
    return failures


def take_over(
    runtime: Runtime, source: Source, target: str, name: str | None, inputs: Mapping[str, Any] | None = None
) -> Summary:
    """Record an existing thing, declared as ``target``, as ours. Raises ``ResourceError`` when it does not exist."""
    providers = ProviderPool(runtime.registry, runtime.run)
    with runtime.store.lock("import", runtime.lock_timeout), providers, gc_paused():
        catalog = runtime.catalog(source, inputs, providers)
        entry = _declared(catalog, target)
        if name is not None and name not in entry.own_names:
            msg = f"{entry.reference} is declared as '{entry.name}', not '{name}'; declare what is to be imported"
            raise UsageError(msg)
        stack = runtime.name(catalog)
        instances = configure_instances(catalog, runtime.store.load(stack), providers)
        state = instances.state
        before = state.records.get(entry.key)
        if before is not None and before.owned:
            runtime.log.write("notice", str(entry.reference), "is recorded as ours already")
            return Summary(unchanged=1)
        snapshot = Snapshot(providers)
        snapshot.read(entry.definition, [entry.name])
        row, failure = snapshot.observation(entry.instance, entry.name)
        if failure or row is None or not exists(row):
            msg = f"{entry.reference} cannot be imported: {failure or 'it does not exist'}"
            raise ResourceError(msg)
        if not instances.commit.empty:
            runtime.store.commit(stack, instances.commit)
        runtime.store.commit(stack, Commit([_record(catalog, entry, row, state)], manifest=catalog.manifest.file))
        runtime.log.write("notice", str(entry.reference), "imported")
    return Summary(imported=1)


def _declared(catalog: Catalog, target: str) -> Entry:
    try:
        wanted = reference.parse_name(target)
    except ValueError as error:
        raise UsageError(str(error)) from error
    entry = catalog.find(wanted)
    if wanted in catalog.components:
        made = ", ".join(str(member.reference) for member in catalog.components[wanted].members)
        msg = f"{wanted} is a component; import what it makes, one by one: {made}"
        raise UsageError(msg)
    if entry is None:
        hint = nearest(str(wanted), [str(known.reference) for known in catalog.entries])
        msg = f"{wanted} is not declared in {catalog.manifest.file}; declare it first"
        raise UsageError(f"{msg}; {hint}" if hint else msg)
    return entry


def _record(catalog: Catalog, entry: Entry, row: Mapping[str, Any], state: StackState) -> Record:
    """Give what is recorded of what is taken over; what it is not (yet) like has never been asked of it."""
    known = {key: value for key, value in entry.should.items() if key not in entry.definition.write_only}
    lifecycle = entry.meta.lifecycle
    record = Record(
        entry.type,
        entry.name,
        entry.title,
        recorded_inputs(entry, entry.should, state.salt),
        seal_secrets({key: value for key, value in known.items() if key not in entry.pending}, state.salt),
        seal_secrets(recorded_state(entry.definition, entry.should, row), state.salt),
        owned=True,
        requires=[str(catalog.entries[index].reference) for index in catalog.requires.get(entry.index, ())],
        lifecycle=RecordedLifecycle(
            protect=bool(lifecycle.protect),
            retain=lifecycle.retain,
            replace=lifecycle.replace,
            deleted_with=lifecycle.deleted_with,
        ),
        provider=entry.provider,
        schema_version=entry.definition.schema_version,
        parent=entry.parent,
    )
    asked = record._replace(is_=record.should)
    unlike = {change.attribute for change in drifting.drifted_attributes(entry.definition, asked, row, state.salt)}
    return record._replace(should={key: value for key, value in record.should.items() if key not in unlike})
