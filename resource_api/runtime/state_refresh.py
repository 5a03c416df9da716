"""Refresh: read recorded resources again and record their present state; no resource is changed."""

from __future__ import annotations

import time
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

from resource_api.catalog.provider_config import invoke
from resource_api.model.change import Difference, exists
from resource_api.model.declaration import FilePosition
from resource_api.model.record import Commit, Record, StackState
from resource_api.model.report import Drifted, Summary
from resource_api.model.sealed_secrets import has_sealed, open_sealed, seal_secrets
from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import DefinitionError, Problem, ResourceError
from resource_api.model.values.expression import EvaluationError, ExpressionPath
from resource_api.model.values.reference import Reference
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.text import escape
from resource_api.model.values.values import UNKNOWN, is_unknown, same_value
from resource_api.plan import diff as drifting
from resource_api.plan import targets as selecting
from resource_api.plan import unknowns
from resource_api.plan.unknowns import output_changes
from resource_api.plugins.provider_pool import ProviderPool
from resource_api.prior.recovery import rename, upgrade
from resource_api.render import json as documents
from resource_api.render import run_document
from resource_api.snapshot.batched_get import Snapshot
from resource_api.snapshot.observe import configure_instances
from resource_api.system.gc_pause import gc_paused
from resource_api.transaction.recorder import recorded_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from resource_api.catalog.compile import Catalog
    from resource_api.model.json_documents import RefreshJson
    from resource_api.model.provider_functions import ProviderFunctions
    from resource_api.model.record import RecordKey
    from resource_api.model.type_definition import FunctionCall, Name, TypeDefinition
    from resource_api.prior.provider_instances import ProviderInstances
    from resource_api.runtime.commands import Call
    from resource_api.runtime.manifest_compiler import Source
    from resource_api.runtime.runtime import Runtime
    from resource_api.state.store import StackName


class Refreshed(NamedTuple):
    """The differences that a refresh has found to the recorded state: attributes of resources, and outputs."""

    resources: Sequence[Drifted]
    outputs: Sequence[Difference] = ()

    @property
    def references(self) -> list[str]:
        """The references of the resources that differ."""
        return [drift.reference for drift in self.resources]


class _ChangedRecord(NamedTuple):
    """A new record, and its differences from the former one: not all of them are drift."""

    record: Record
    #: In managed attributes; read-only ones change by themselves.
    drift: Sequence[Difference]
    changes: Sequence[Difference]


def document(call: Call) -> RefreshJson:
    """Carry out the command ``refresh`` for the selected resources; return the document of their differences."""
    selection = {name: call.options[name] for name in ("targets", "excludes", "noop", "strict") if name in call.options}
    refreshed = refresh(call.runtime, call.manifest, call.inputs, **selection)
    return documents.refresh(refreshed.resources, refreshed.outputs)


def refresh(
    runtime: Runtime,
    source: Source,
    inputs: Mapping[str, object] | None = None,
    *,
    targets: Sequence[str] = (),
    excludes: Sequence[str] = (),
    noop: bool = False,
    strict: str = "error",
) -> Refreshed:
    """Read the recorded resources of a manifest's stack again, and record their present state and outputs made of it.

    ``targets`` and ``excludes`` select resources; outputs, which may depend on others, are then not computed.
    ``noop``: nothing is recorded, and no lock is taken. ``strict``: as for ``Snapshot``. When everything else is
    recorded, raise ``ResourceError`` with all resources that cannot be read and all outputs that cannot be computed.
    Raise ``UsageError`` for a pattern without a match.
    """
    providers = ProviderPool(runtime.registry, runtime.run)
    started = time.time()
    with nullcontext() if noop else runtime.lock("refresh"), providers, gc_paused():
        catalog = runtime.catalog(source, inputs, providers)
        name = runtime.name(catalog)
        if not noop:
            runtime.claim(name)
        instances = _configure_as_recorded(catalog, runtime.store.load(name), providers)
        state, renaming = rename(instances.state, instances.state.records, providers.functions)
        providers.assigned = partial(_recorded_implementations, state)
        runtime.begin_private_data(state)
        selected = _selected_records(state, targets, excludes, selecting.aliases(catalog))
        with runtime.log.bind(**name._asdict(), phase="observe"):
            changed_records, failures = _read_records(Snapshot(providers, strict), state, selected)
        records = [change.record for change in changed_records]
        drift = [Drifted(str(change.record.reference), change.drift) for change in changed_records if change.drift]
        for event in drift:
            runtime.notify(event)
        outputs = state.outputs
        if not (targets or excludes or failures):
            call = partial(_call_function, catalog, instances, providers)
            outputs, failures = _refreshed_outputs(catalog, state, records, call)
        changed = output_changes(state.outputs, outputs, state.salt)
        written = seal_secrets(outputs, state.salt) if changed else None
        # In this order: the records of the last commit have the keys that the one before it writes.
        for commit in (instances.commit, renaming, Commit(records, outputs=written)):
            if commit.changes_state and not noop:
                runtime.store.commit(name, commit)
    counts = Summary(refreshed=len(changed_records), outputs_changed=len(changed), failed=len(failures))
    if runtime.on_document is not None:
        runtime.on_document(_refresh_document(runtime, name, started, drift, failures, counts=counts))
    if failures:
        raise ResourceError("\n".join(map(escape, failures)))
    return Refreshed([Drifted(str(change.record.reference), change.changes) for change in changed_records], changed)


def _configure_as_recorded(catalog: Catalog, state: StackState, providers: ProviderPool) -> ProviderInstances:
    """Configure and return the provider instances; those that refer to resources as recorded: nothing is planned."""
    complete = {key: instance for key, instance in catalog.instances.items() if not instance.pending}
    return configure_instances(catalog._replace(instances=complete), state, providers)


def _refreshed_outputs(
    catalog: Catalog,
    state: StackState,
    changed: Sequence[Record],
    call: Callable[[FunctionCall, Mapping[str, object]], object],
) -> tuple[Mapping[str, object], list[str]]:
    """Return the outputs to record, and the failures.

    Outputs that refer to ``changed`` records are computed again, and the others are as recorded. After a failure all
    are as recorded, because outputs are recorded together or not at all, as after a failed run. ``call`` calls a
    function whose inputs are known.
    """
    changed_records = {record.key: record for record in changed}
    affected = {
        name: value
        for name, value in catalog.manifest.outputs.items()
        if name in state.outputs and not changed_records.keys().isdisjoint(_referenced_keys(catalog, value))
    }
    narrowed = catalog._replace(manifest=catalog.manifest._replace(outputs=affected))
    value_of = partial(_recorded_value, catalog, {**state.records, **changed_records})
    values, problems = unknowns.outputs(narrowed, catalog.scope.resolver(value_of, call))
    if problems:
        return state.outputs, [FilePosition(row.file, row.line).after(row.message) for row in problems]
    return {**state.outputs, **{name: value for name, value in values.items() if not is_unknown(value)}}, []


def _referenced_keys(catalog: Catalog, value: object) -> Iterator[RecordKey]:
    """Yield the keys of the resources that the expressions of an output refer to, to find the changed outputs."""
    for path in catalog.scope.paths(value):
        if isinstance(path.root, Reference) and (entry := catalog.find(path.root)) is not None:
            yield entry.key


def _recorded_value(catalog: Catalog, records: Mapping[RecordKey, Record], path: ExpressionPath) -> object:
    """Return the recorded value at a path into a resource, to compute an output.

    Return ``UNKNOWN`` if the resource has no record, or if the value is a secret of which only a digest is recorded.
    """
    entry = catalog.find(path.root) if isinstance(path.root, Reference) else None
    record = records.get(entry.key) if entry is not None else None
    if entry is None or record is None:
        return UNKNOWN
    value = unknowns.value_of(path, entry.definition, open_sealed(record.should), open_sealed(record.is_))
    return UNKNOWN if has_sealed(value) else value


def _call_function(
    catalog: Catalog,
    instances: ProviderInstances,
    providers: ProviderPool,
    call: FunctionCall,
    inputs: Mapping[str, object],
) -> object:
    """Return the result of a function in an output, to record the output.

    Return ``UNKNOWN`` if its provider is not configured, as the configuration has unknown values; the output then stays
    as recorded. Raise ``EvaluationError`` if the function fails.
    """
    declared = catalog.instances.get(call.instance)
    if declared is not None and declared.pending and call.instance not in instances.configs:
        return UNKNOWN
    with errors_as(EvaluationError):
        return invoke(call, inputs, providers.call_function)


def _selected_records(
    state: StackState, targets: Sequence[str], excludes: Sequence[str], aliases: Mapping[str, str]
) -> list[Record]:
    """Return the records that ``--target`` and ``--exclude`` select, in the order of the state.

    A replaced resource that is not deleted yet is selected by the reference of its successor, too. ``aliases``: second
    name → reference. Raise ``UsageError`` for a URN of another stack, and for a pattern without a match.
    """
    records = list(state.records.values())

    def matching(patterns: Sequence[str], option: str) -> set[str]:
        selecting.check_stack(patterns, option, state)
        indices = selecting.matching_indices(patterns, records, option, aliases=aliases)
        return {str(records[index].reference) for index in indices}

    targeted, excluded = matching(targets, "--target"), matching(excludes, "--exclude")
    selected = []
    for record in records:
        names = {str(record.reference), record.successor}
        if excluded.isdisjoint(names) and not (targets and targeted.isdisjoint(names)):
            selected.append(record)
    return selected


def _recorded_implementations(state: StackState, instance: str) -> dict[Name, str]:
    """Return name → the recorded implementation of each resource of an instance: of several, that one reads it."""
    records = [record for record in state.records.values() if record.instance == instance]
    return {record.name: record.implementation for record in records if record.implementation}


def _refresh_document(
    runtime: Runtime, name: StackName, started: float, drift: list[Drifted], failures: list[str], *, counts: Summary
) -> dict[str, object]:
    """Return the document of a refresh, like that of a run: it has drift and problems, no steps; secrets are masked.

    So the receiver of ``on_document`` gets one form for all commands that write state.
    """
    summary = {**counts._asdict(), "exit_code": int(bool(failures))}
    run = {**name._asdict(), "run": "", "command": "refresh", "started": started, "ended": time.time()}
    document = run_document.history_document({**run, "summary": summary, "drifted": len(drift)})
    document["drift"] = [documents.drift(drifted.reference, drifted.changes) for drifted in drift]
    document["problems"] = [documents.problem(Problem(None, failure, code="resource")) for failure in failures]
    masked: dict[str, object] = runtime.log.mask.document(document)
    return masked


def _read_records(
    snapshot: Snapshot, state: StackState, records: Sequence[Record]
) -> tuple[list[_ChangedRecord], list[str]]:
    """Read recorded resources again; return the changed records and the failures of unreadable ones.

    They are grouped by provider instance, as each is called once for all its resources.
    """
    by_instance: dict[str, list[Record]] = {}
    for record in records:
        by_instance.setdefault(record.instance, []).append(record)
    changed_records: list[_ChangedRecord] = []
    failures: list[str] = []
    for of_instance in by_instance.values():
        changed, failed = _read_instance(snapshot, state, of_instance)
        changed_records += changed
        failures += failed
    return changed_records, failures


def _read_instance(
    snapshot: Snapshot, state: StackState, records: Sequence[Record]
) -> tuple[list[_ChangedRecord], list[str]]:
    """Read the records of one provider instance; return the changed ones and the failures.

    A record whose private data alone changed counts as changed too: the new data must be recorded for later calls.
    """
    try:
        functions = snapshot.providers.functions(records[0].instance)
    except DefinitionError as error:
        return [], [f"{record.reference}: {error}" for record in records]
    if "imperative" in functions.definition.features:  # its effect cannot be read back
        return [], []
    changed_records = []
    records, failures = _upgraded(records, functions)
    snapshot.read(functions.definition, [record.name for record in records])
    for record in records:
        row, failure = snapshot.observation(record.instance, record.name)
        if failure:
            failures.append(f"{record.reference}: {failure}")
            continue
        # A provider may store other private data while it reads.
        private = snapshot.providers.run.private
        data = seal_secrets(private.get(key), state.salt) if (key := record.key) in private.stored else record.private
        change = _compared(functions.definition, record._replace(private=data), row, state.salt)
        if change.changes or data != record.private:
            changed_records.append(change)
    return changed_records, failures


def _compared(
    definition: TypeDefinition, record: Record, row: Mapping[str, object] | None, salt: bytes
) -> _ChangedRecord:
    """Return a record with the present state in ``row`` (None: no row), and its differences from the former state.

    Changes of read-only attributes, which happen by themselves, are among the differences, but are no drift.
    """
    drift = drifting.drifted_attributes(definition, record, row, salt)
    # By the former and declared values, secrets in the row are recognized.
    values = {**(record.is_ or {}), **record.should}
    is_ = recorded_state(definition, values, row) if row is not None and exists(row) else None
    new = record._replace(is_=seal_secrets(is_, salt), schema_version=definition.schema_version)
    return _ChangedRecord(new, drift, [*drift, *_read_only_changes(definition, record, new)])


def _upgraded(records: Iterable[Record], functions: ProviderFunctions) -> tuple[list[Record], list[str]]:
    """Return records in the form of the present version of their type, and the failures of those without an upgrade.

    Only in this form they can be compared with rows that are read now.
    """
    upgraded, failures = [], []
    for record in records:
        try:
            upgraded.append(upgrade(record, functions))
        except ValueError as error:
            failures.append(f"{record.reference}: {error}")
    return upgraded, failures


def _read_only_changes(definition: TypeDefinition, before: Record, after: Record) -> Iterator[Difference]:
    """Yield the differences of read-only attributes between the former and the new record of an existing resource.

    They are recorded too, but are no drift, as the system changes these attributes itself.
    """
    if before.is_ is None or after.is_ is None:
        return
    for name in sorted(definition.read_only):
        was, current = before.is_.get(name), after.is_.get(name)
        if not same_value(was, current):
            yield Difference(name, was, current)
