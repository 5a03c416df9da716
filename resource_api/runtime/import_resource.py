"""Import: record an existing, declared resource as ours; the resource is not changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.catalog.resource_table import names_entry
from resource_api.model.change import exists
from resource_api.model.record import Commit, Record, RecordedLifecycle
from resource_api.model.report import Summary
from resource_api.model.sealed_secrets import seal_secrets
from resource_api.model.values import reference
from resource_api.model.values.errors import ResourceError, UsageError, hint
from resource_api.plan import drift as drifting
from resource_api.plugins.provider_pool import ProviderPool
from resource_api.snapshot.configure_providers import configure_instances
from resource_api.snapshot.snapshot import Snapshot
from resource_api.system.gc_pause import gc_paused
from resource_api.transaction.records import recorded_inputs, recorded_state

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api.catalog.compile import Catalog
    from resource_api.model.entry import Entry
    from resource_api.model.record import StackState
    from resource_api.runtime.manifest_compiler import Source
    from resource_api.runtime.runtime import Runtime
    from resource_api.state.store import StackName


def import_resource(
    runtime: Runtime, source: Source, target: str, name: str | None, inputs: Mapping[str, Any] | None = None
) -> Summary:
    """Record the existing resource that the manifest declares as ``target`` (a reference or URN) as ours.

    ``name``, unless None, must be the name that is declared for it, in any spelling. Raise ``UsageError`` when
    ``target`` is not declared, ``ResourceError`` when it cannot be read or does not exist.
    """
    providers = ProviderPool(runtime.registry, runtime.run)
    bound = runtime.log.bind(stack=runtime.stack, phase="observe")
    with bound, runtime.lock("import"), providers, gc_paused():
        catalog = runtime.catalog(source, inputs, providers)
        stack = runtime.name(catalog)
        entry = _declared(catalog, target, stack)
        if name is not None and not names_entry(name, entry, providers.functions(entry.instance)):
            declared = entry.definition.title_of(entry.definition.absent_row(entry.name))
            msg = f"{entry.reference} is declared as '{declared}', not '{name}'; declare what is to be imported"
            raise UsageError(msg)
        instances = configure_instances(catalog, runtime.store.load(stack), providers)
        state = instances.state
        before = state.records.get(entry.key)
        if before is not None and before.owned:
            _log(runtime, entry, "is recorded as ours already")
            return Summary(unchanged=1)
        if entry.meta.implementation is not None:
            stated = {entry.name: entry.meta.implementation}
            providers.assigned = lambda _instance: stated
        snapshot = Snapshot(providers)
        snapshot.read(entry.definition, [entry.name])
        row, failure = snapshot.observation(entry.instance, entry.name)
        if failure or row is None or not exists(row):
            msg = f"{entry.reference} cannot be imported: {failure or 'it does not exist'}"
            raise ResourceError(msg)
        if not instances.commit.empty:
            runtime.store.commit(stack, instances.commit)
        record = _record(catalog, entry, row, state)
        record = record._replace(implementation=providers.implementation(entry.instance, entry.name))
        runtime.store.commit(stack, Commit([record], manifest=catalog.manifest.recorded_as))
        _log(runtime, entry, "imported")
    return Summary(imported=1)


def _log(runtime: Runtime, entry: Entry, text: str) -> None:
    reference = str(entry.reference)
    runtime.log.write("notice", reference, text, entry.type, reference=reference, action="import", status="success")


def _declared(catalog: Catalog, target: str, stack: StackName) -> Entry:
    """Return the entry of the catalog that ``target`` names. Raise ``UsageError``."""
    try:
        reference.check_stack(target, *stack)
        wanted = reference.parse_name(target)
    except ValueError as error:
        raise UsageError(str(error)) from error
    if wanted in catalog.components:
        members = ", ".join(str(member.reference) for member in catalog.components[wanted].members)
        msg = f"{wanted} is a component; import its resources one by one: {members}"
        raise UsageError(msg)
    entry = catalog.find(wanted)
    if entry is None:
        near = hint(wanted, (str(known.reference) for known in catalog.entries))
        msg = f"{wanted} is not declared in {catalog.manifest.file}; declare it first{near}"
        raise UsageError(msg)
    return entry


def _record(catalog: Catalog, entry: Entry, row: Mapping[str, Any], state: StackState) -> Record:
    """Return the record of an imported resource; declared values that differ from ``row`` are not recorded as asked."""
    hidden = {*entry.definition.write_only, *entry.ephemeral}
    known = {key: value for key, value in entry.should.items() if key not in hidden}
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
