"""Writes a run to state: intents before effects, one commit for each segment, unchanged resources at the end.

A record has the state of a resource as it *is*, never only as declared, and its declaration, with secrets sealed: as
digests, encrypted too where the state has a key. The caller holds the lock on the state.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.action import CREATING, Action
from resource_api.model.change import exists
from resource_api.model.entry import EMPTY, NO_META
from resource_api.model.record import NO_LIFECYCLE, OWNING_ACTIONS, Commit, Intent, Record, RecordedLifecycle
from resource_api.model.sealed_secrets import (
    Sealed,
    conceal_like,
    count_digests,
    digest_secret,
    map_sealed,
    mark_secrets,
    seal_secrets,
)
from resource_api.model.values.reference import Reference, split_instance
from resource_api.model.values.values import are_flat, is_flat, is_secret, is_unknown
from resource_api.plan.decide import is_imported, required_references
from resource_api.plan.replacement import has_transient_reason, replacement_dependents
from resource_api.plan.unknowns import output_changes
from resource_api.prior import former_names
from resource_api.prior.provider_instances import unused_instances
from resource_api.provider.stored_values import PrivateData
from resource_api.system.facts import machine_id
from resource_api.transaction.operation_run import OperationRun, Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from resource_api.model.change import Difference
    from resource_api.model.entry import Entry
    from resource_api.model.record import RecordKey, StackState
    from resource_api.model.type_definition import TypeDefinition
    from resource_api.plan.planner import ExecutionPlan
    from resource_api.plugins.implementations import Implementations
    from resource_api.state.store import StackName, StateStore
    from resource_api.transaction.results import Results

    #: The values of a record: as written, as declared, and as read, or None for a resource that does not exist.
    Values = tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any] | None]

_REMOVING: Final = frozenset({Action.DELETE, Action.FORGET})


class Recorder:
    """Writes one run into the state of one stack."""

    def __init__(
        self,
        store: StateStore | None,
        name: StackName,
        plan: ExecutionPlan,
        run_id: str,
        records: Records | None = None,
    ) -> None:
        """Write for the run ``run_id`` of ``plan`` into the stack ``name``; without a ``store`` nothing is written."""
        self._store = store
        self._name = name
        self._plan = plan
        self._run_id = run_id
        self._records = records or Records(plan)
        #: By key, the intents that an interrupted run left: their resources were in doubt.
        self._intents = plan.prior.state.intents
        #: The count of unchanged operations that have been compared with state.
        self._compared_count = 0
        #: The state after the last commit of this run, None before the first: ``finish`` finds unused instances in it.
        self._state: StackState | None = None

    @cached_property
    def _replacement_dependents(self) -> Mapping[int, Sequence[Entry]]:
        """Entry's index → the recorded resources that its change replaces."""
        return replacement_dependents(self._plan.catalog, self._plan.prior, self._plan.steps)

    @property
    def adopted(self) -> Sequence[OperationRun]:
        """The operations whose resources existed before us and were recorded for the first time."""
        return list(self._records.adopted.values()) if self._store is not None else ()

    def begin(self) -> None:
        """Write, before anything else, the recovery from an interrupted run, and resources of ours without a record.

        This run deletes or replaces them: if it ends before, they must not be forgotten.
        """
        self._commit(self._plan.prior.instances.commit)
        self._commit(self._plan.prior.recovery)
        self._commit(Commit(list(self._unrecorded.values())))

    @cached_property
    def _unrecorded(self) -> Mapping[RecordKey, Record]:
        """By key, the records to write first, of resources that belong to the stack, have no record and are removed.

        Such a resource is replaced right after its import, or was created by an interrupted run. Without the record,
        an interruption of this run would leave it without an owner.
        """
        plan = self._plan
        if len(plan.operations) == len(plan.steps) and not self._intents:
            return {}  # nothing is replaced: a replacement has two operations
        unrecorded, blocked = {}, plan.blocked
        for operation in plan.operations:
            step, index = operation.step, operation.step.entry.index
            removes = step.action in {Action.REPLACE, Action.DELETE} and step.acts and not operation.removal
            if not (removes and exists(step.is_)) or index in blocked or index in plan.prior.records:
                continue
            intent = self._intents.get(step.entry.key)
            imported_first = step.action is Action.REPLACE and is_imported(step.entry, None)
            if imported_first or (intent is not None and intent.makes):
                record = self._records.record(OperationRun(operation))
                assert record is not None
                unrecorded[record.key] = record._replace(status="partial")
        return unrecorded

    def write_instance(self, record: Record) -> None:
        """Write the configuration of a provider instance, before it creates anything."""
        self._commit(Commit([record]))

    def write_intents(self, runs: Iterable[OperationRun]) -> None:
        """Write durably the resources that are about to be changed: after a crash they are in doubt."""
        if self._store is not None:
            self._store.record_intents(self._name, [self._intent(run) for run in runs])

    def _intent(self, run: OperationRun) -> Intent:
        """Return the intent of an operation.

        If an interrupted run has begun to create or import the resource, its action stays in the intent: by that the
        resource is ours.
        """
        entry, action = run.step.entry, str(Action.DELETE if run.removal else run.action)
        interrupted = self._intents.get(run.key) if self._intents else None
        if interrupted is not None and interrupted.makes and action != Action.DELETE:
            action = interrupted.action
        type_name, provider = split_instance(run.definition.instance)
        return Intent(
            run=self._run_id,
            type=type_name,
            name=run.name,
            title=entry.title,
            action=action,
            provider=provider,
            protect=not run.removal and entry.is_protected(None),
            parent=entry.parent,
            changed_at=run.changed_at,
        )

    def write_refreshes(self, runs: Sequence[OperationRun]) -> None:
        """Write the success of refreshes, so that no later run owes them."""
        if runs:
            self._commit(Commit(paid=[run.step.entry.key for run in runs]))

    def commit_results(
        self, runs: Sequence[OperationRun], results: Results, owed: Mapping[RecordKey, Sequence[str]]
    ) -> None:
        """Write the outcome of a segment in one commit, with the unchanged resources before it.

        Records thus stand in the order of execution, which a later deletion reverses. Operations that ended without
        success before their call are left out, as they changed nothing. ``owed``: key of a resource to refresh →
        references of the changed ones.
        """
        ended = [run for run in runs if run.status is Status.SUCCEEDED or (run.finished and run.started)]
        if self._store is None or not ended:
            return
        unchanged = self._take_unchanged(results)
        put = self._tainted_dependents(ended, results) + self._records.differing(unchanged)
        drop = self._vanished(unchanged)
        # An unreadable resource stays in doubt, with its intent and record.
        ended = [run for run in ended if not run.result.read_error]
        plain = _are_plain(ended)
        for run in ended:
            if run.removal or run.action in _REMOVING:
                self._record_removal(run, put, drop)
            elif (record := self._records.record(run, plain=plain)) is not None:
                put.append(record)
                if run.step.entry.index in self._plan.prior.predecessors:
                    self._record_predecessor(run, record, results, put, drop)
        resolved = [*self._resolved_intents(unchanged), *(run.key for run in ended)]
        # A record is written or dropped, not both, and only one that is recorded needs to be dropped.
        dropped = set(drop)
        put = [record for record in put if record.key not in dropped] if dropped else put
        drop = [key for key in drop if key in self._plan.prior.state.records or key in self._unrecorded]
        self._commit(Commit(put=put, drop=drop, resolved=resolved, owed=owed))

    def _take_unchanged(self, results: Results) -> Sequence[OperationRun]:
        """Return the unchanged operations since the last call, and count them as compared with state."""
        start, self._compared_count = self._compared_count, len(results.unchanged_runs)
        return results.unchanged_runs[start:]

    def _tainted_dependents(self, ended: Iterable[OperationRun], results: Results) -> list[Record]:
        """Return the records, marked as tainted, of resources that this run must still replace for these changes.

        If the run is interrupted before it does so, the next run replaces them.
        """
        if not (dependents := self._replacement_dependents):
            return []
        changed = [run.step.entry.index for run in ended if run.number in results.changed]
        indexes = [entry.index for index in changed for entry in dependents.get(index, ())]
        # One whose replacement has begun has a record of that already.
        remaining = [index for index in indexes if not (results.succeeded(index) or results.has_changed(index))]
        return [self._plan.prior.records[index]._replace(status="tainted") for index in remaining]

    def _record_removal(self, run: OperationRun, put: list[Record], drop: list[RecordKey]) -> None:
        """Drop the record of a resource that is gone or forgotten; one to be created again is put as pending.

        The record of a resource whose removal failed stays, so that the next run removes it.
        """
        if pending := self._pending_creation(run):
            put.append(pending)
        elif not exists(run.is_) or run.action is Action.FORGET or run.retained:
            drop.append(run.key)

    def _pending_creation(self, run: OperationRun) -> Record | None:
        """Return the record of a resource deleted for its replacement, for the next run to create it; or None."""
        if run.action is not Action.REPLACE or run.step.create_first or run.retained or exists(run.is_):
            return None
        prior, index = self._plan.prior, run.step.entry.index
        old = prior.state.records.get(run.key) or prior.records.get(index) or self._unrecorded.get(run.key)
        return None if old is None else old._replace(is_=None, status="pending")

    def _record_predecessor(
        self, run: OperationRun, record: Record, results: Results, put: list[Record], drop: list[RecordKey]
    ) -> None:
        """Put the record of a former resource yet to be deleted, or drop the record if it is deleted.

        The former resource has the same title and other namevars. ``run`` and ``record`` are those of its successor. If
        the successor is created first, its predecessor still exists; otherwise it exists only if its removal failed.
        """
        old = self._plan.prior.predecessors[run.step.entry.index]
        replaced = run.action is Action.REPLACE and exists(record.is_)
        if run.step.create_first:
            if run.status is not Status.FAILED:
                put.append(self._predecessor_to_delete(run, old))
        elif replaced and results.failed_to_remove(run.step.entry.index):
            put.append(self._predecessor_to_delete(run, old))
        elif replaced:
            drop.append(old.key)

    def _predecessor_to_delete(self, run: OperationRun, old: Record) -> Record:
        """Return the record of an old resource yet to be deleted, under a free title: its own is its successor's."""
        # Whether the old resource is retained is declared at its successor.
        lifecycle = old.lifecycle._replace(retain=run.step.entry.meta.lifecycle.retain)
        (renamed,) = former_names.with_unique_titles([old], self._used_references)
        self._used_references.add(renamed.reference)
        successor = str(run.step.reference)
        return renamed._replace(status="replaced", lifecycle=lifecycle, successor=successor)

    @cached_property
    def _used_references(self) -> set[Reference]:
        """The references that no old resource may get: those of declared and recorded ones, and of others renamed."""
        recorded = {record.reference for record in self._plan.prior.state.records.values()}
        return recorded.union(entry.reference for entry in self._plan.catalog.entries)

    def finish(self, results: Results, outputs: Mapping[str, object] | None) -> int:
        """Write the unchanged resources that differ from state, and ``outputs``, which stay as recorded if None.

        Return the number of changed outputs. Nothing is written if everything is as recorded. Provider instances that
        no resource uses any more are dropped in a second commit: the first one shows which.
        """
        if self._store is None:
            return 0
        plan, state, unchanged = self._plan, self._plan.prior.state, self._last_unchanged(results)
        changes = () if outputs is None else output_changes(state.outputs, outputs, state.salt)
        commit = Commit(
            self._records.differing(unchanged),
            self._vanished(unchanged),
            self._resolved_intents(unchanged),
            outputs=None if outputs is None else self._outputs_to_write(outputs, changes),
        )
        if plan.prior.moved_keys:
            commit = commit._replace(drop=[*commit.drop, *self._moved(commit, results)])
        if plan.prior.undeclared or plan.prior.orphans or not plan.complete:
            commit = commit._replace(put=[*commit.put, *self._renamed(commit, self._store.load(self._name))])
        has_changed = self._state is not None and self._state.serial != state.serial
        if commit.changes_state or has_changed or not state.serial:
            commit = self._with_origin(commit)
        self._commit(commit)
        if self._state is not None and (plan.prior.instances.recorded or plan.catalog.instances):
            self._commit(Commit(drop=unused_instances(self._state.records.values())))
        return len(changes)

    def _last_unchanged(self, results: Results) -> Sequence[OperationRun]:
        """Return the unchanged operations after the last segment, to record them if they differ from state.

        A run that had nothing to do visited no operation: then all are returned, except those that equal their records
        by the plan, and handlers of failures, which no failure called for.
        """
        if not results.nothing_to_do:
            return [*self._take_unchanged(results), *results.refreshed_runs]
        left_out = {*self._plan.in_sync, *self._plan.catalog.on_failure}
        operations = self._plan.operations
        return [OperationRun(operation) for operation in operations if operation.step.entry.index not in left_out]

    def _outputs_to_write(self, outputs: Mapping[str, object], changes: Sequence[Difference]) -> Any:
        """Return the outputs, sealed, or None without a change: then they are not written again."""
        state = self._plan.prior.state
        sealed = seal_secrets(outputs, state.salt)
        # A state that is encrypted by now holds outputs of which only digests were recorded.
        is_new = changes or (state.encrypted and count_digests(sealed) < count_digests(state.outputs))
        return sealed if is_new else None

    def _with_origin(self, commit: Commit) -> Commit:
        """Return a commit with the manifest and the machine of this run, each None if it is as recorded.

        By these a later run recognizes that another manifest or machine has written the state.
        """
        state = self._plan.prior.state
        manifest, machine = self._plan.catalog.manifest.recorded_after(state), machine_id()
        return commit._replace(
            manifest=manifest if manifest != state.manifest else None,
            machine=machine if machine != state.machine else None,
        )

    def _moved(self, commit: Commit, results: Results) -> Iterator[RecordKey]:
        """Yield the keys of records to drop, because their renamed resources are recorded under new keys, or are gone.

        One whose step is noop, or did not succeed, keeps its record: a later run finds it by its former name again.
        """
        written = {*(record.key for record in commit.put), *(self._state.records if self._state is not None else ())}
        vanished = set(commit.drop)
        for former, index in self._plan.prior.moved_keys.items():
            key = self._plan.catalog.entries[index].key
            if key in written or key in vanished or results.succeeded(index):
                yield former

    def _renamed(self, commit: Commit, state: StackState) -> list[Record]:
        """Return the changed records of undeclared resources, so that their titles and references stay right.

        An undeclared resource gets another title if a declared one has its title now, since titles must be unique. Its
        references to resources that were renamed get the new names.
        """
        plan = self._plan
        # The declared resources of this run have their present names in state by now; noop ones have not.
        declared = (step for step in plan.steps if step.entry.index not in plan.prior.orphans)
        keys = {step.entry.index: step.entry.key for step in declared if not step.noop}
        moved = {index: record for index, record in plan.prior.records.items() if index in keys}
        present = {**state.records, **{record.key: record for record in commit.put}}
        written = {*keys.values(), *commit.drop}
        undeclared = [record for key, record in present.items() if key not in written]
        references = {record.reference for key, record in present.items() if key in written}
        renames = former_names.find_renames(plan.catalog, moved).restricted(
            set(map(str, references)), complete=plan.complete
        )
        renamed = former_names.with_unique_titles(undeclared, references, renames)
        return [new for old, new in zip(undeclared, renamed, strict=True) if new != old]

    def _commit(self, commit: Commit) -> None:
        """Write a commit that changes state or resolves intents, if there is a store; keep the new state."""
        if self._store is not None and (commit.resolved or commit.changes_state):
            self._state = self._store.commit(self._name, commit)

    def _vanished(self, runs: Iterable[OperationRun]) -> list[RecordKey]:
        """Return the keys of recorded resources that were found absent, as declared: their records are dropped."""
        return [
            run.step.entry.key
            for run in runs
            if run.step.entry.index in self._plan.prior.records
            and not (run.removal or run.step.noop or exists(run.is_) or exists(run.should))
        ]

    def _resolved_intents(self, runs: Iterable[OperationRun]) -> list[RecordKey]:
        """Return the keys of unchanged resources with an intent of an interrupted run: their outcome is certain now.

        The intents of noop resources stay, because nothing is recorded of these.
        """
        keys = (run.step.entry.key for run in runs if not run.step.noop) if self._intents else ()
        return [key for key in keys if key in self._intents]


class Records:
    """Makes the records of the operations of one plan."""

    def __init__(
        self, plan: ExecutionPlan, several: Mapping[str, Implementations] = EMPTY, private: PrivateData | None = None
    ) -> None:
        """Make records for ``plan``; ``private`` is the data that providers stored in this run for their resources.

        ``several``: provider instance → its implementations, for types with several, such as a package's ``apt``.
        """
        self._private = private or PrivateData()
        self._plan = plan
        self._several = several
        #: By key, the changes that an interrupted run had begun.
        self._intents = plan.prior.state.intents
        #: By key, the operations whose resources existed before us and are recorded for the first time.
        self.adopted: dict[RecordKey, OperationRun] = {}

    def record(self, run: OperationRun, *, plain: bool = False) -> Record | None:
        """Return the record of an operation's resource as it ended, or None if there is nothing to record.

        ``plain``: none of its values is secret, unknown or nested (``_are_plain``). An operation whose resource existed
        before this stack recorded it is added to ``adopted``.
        """
        entry, definition = run.step.entry, run.step.entry.definition
        before = self._plan.prior.records.get(entry.index)
        failed = run.status in (Status.FAILED, Status.SKIPPED)
        if failed and before is None and not _may_exist(run):
            return None  # it was not created
        if run.status is Status.SKIPPED and run.is_ == run.step.is_:
            # Nothing was done: the record stays, but a replacement whose reason passes with this run must not be lost.
            return before._replace(status="tainted") if before and has_transient_reason(run.step) else before
        owned, private = self._is_owned(run, before), self._private_data(entry, before)
        if failed and before is None and not (owned or private) and run.has_no_effect:
            return None  # it is there without us, and as it was
        if before is None and not owned and entry.can_be_adopted and exists(run.is_) and exists(run.should):
            self.adopted[entry.key] = run
        salt = self._plan.prior.state.salt
        inputs, should, is_ = _plain_values(run) if plain else _sealed_values(run, salt, failed=failed)
        if failed and before is not None and not _has_created(run):
            should = before.should  # of a failed change the former declaration stays: the next run makes it again
        return Record(
            type=definition.name,
            name=entry.name,
            title=entry.title,
            inputs=inputs,
            should=should,
            is_=is_,
            owned=owned,
            requires=required_references(self._plan.catalog, entry),
            value_requires=_value_sources(entry) if entry.pending else EMPTY,
            lifecycle=recorded_lifecycle(entry, before),
            provider=entry.provider,
            schema_version=definition.schema_version,
            status=_failed_status(run, before) if failed else "ready",
            parent=entry.declaration.parent,
            last_run=_last_run(run, before) if "imperative" in definition.features else "",
            changed_at=run.changed_at or (before.changed_at if before is not None else ""),
            implementation=self._implementation(entry, before) if self._several else None,
            private=private,
        )

    def _private_data(self, entry: Entry, before: Record | None) -> Any:
        """Return the data that a provider keeps about a resource, secrets sealed: as of this run, or as recorded."""
        if self._private.stored and entry.key in self._private.stored:
            return seal_secrets(self._private.get(entry.key), self._plan.prior.state.salt)
        return None if before is None else before.private

    def _implementation(self, entry: Entry, before: Record | None) -> str | None:
        """Return the implementation to record for a resource: the chosen one, or else the recorded one.

        It is None for a type with one implementation only. A later run uses the recorded one.
        """
        implementations = self._several.get(entry.instance)
        if implementations is None:
            return None
        return implementations.implementation(entry.name) or (before and before.implementation)

    def _is_owned(self, run: OperationRun, before: Record | None) -> bool:
        """Return whether the resource is ours: no other one is deleted when it is no longer declared.

        A declared ``owned`` or ``external`` decides. Otherwise a resource is ours if it is recorded so; if its creation
        was planned and it did not exist before this run, whichever change then created it, such as a package's file; if
        this run created, replaced, imported or ran it, or an interrupted run intended to; or if it is not recorded yet
        and came with a resource of ours.
        """
        lifecycle = run.step.entry.meta.lifecycle
        if lifecycle.owned is not None or lifecycle.external:
            return bool(lifecycle.owned) and not lifecycle.external
        recorded = before is not None and before.owned
        # A step that is not deferred was planned from a row that was read before this run changed anything.
        was_absent = run.step.action is Action.CREATE and not run.step.deferred
        if recorded or was_absent or run.action in OWNING_ACTIONS or _was_run(run):
            return True
        interrupted = self._intents.get(run.step.entry.key)
        return (interrupted is not None and interrupted.makes) or (before is None and self._was_brought_by_ours(run))

    def _was_brought_by_ours(self, run: OperationRun) -> bool:
        """Return whether a resource came with one of ours, such as a service with its package: then it is ours too.

        Its type's ``brought_by`` has, by type, the attribute with the name of the resource that it comes with.
        """
        origins = ((name, (run.is_ or {}).get(key)) for name, key in run.step.definition.brought_by.items())
        entries = (self._plan.catalog.find(Reference(name, title)) for name, title in origins if title)
        records = (self._plan.prior.records.get(entry.index) for entry in entries if entry is not None)
        return any(record is not None and record.owned and exists(record.is_) for record in records)

    def differing(self, runs: Iterable[OperationRun]) -> list[Record]:
        """Return the new records of unchanged resources, as far as they differ from those in state."""
        return [record for run in runs if (record := self._record_if_different(run)) is not None]

    def _record_if_different(self, run: OperationRun) -> Record | None:
        """Return the record of an operation's resource if it must be written, otherwise None.

        Nothing is written for a step without effect, for a resource that is not ours, and where read-only values alone
        differ: so a run without changes writes no state. An imperative resource is recorded when it was run.
        """
        step, entry, prior = run.step, run.step.entry, self._plan.prior
        if step.noop or run.removal or step.decision.error:
            return None
        if entry.index in self._plan.in_sync and run.is_ is step.is_:
            return None
        before = prior.records.get(entry.index)
        if "imperative" in step.definition.features:
            moved = entry.index in prior.moved_keys.values()
            return self.record(run) if moved or _was_run(run) or entry.key in self._intents else None
        if not exists(run.should) and (before is None or not exists(run.is_)):
            return None  # gone, and dropped from state; or existing although it should not, and not ours
        if run.is_ is None and before is None:
            return None  # it does not exist and is not recorded
        record = self.record(run)
        is_same = before is not None and record is not None and self._is_same(record, before, step.definition.managed)
        return None if is_same else record

    def _is_same(self, record: Record, before: Record, managed: Sequence[str]) -> bool:
        """Return whether a new record need not be written: a change of read-only values alone is not recorded."""
        # Data that a reading has stored is written with other changes only (contract §10.9).
        if record._replace(private=None, is_=None) != before._replace(private=None, is_=None):
            return False
        # Of a secret the former record, written without a key, may have only the digest.
        pairs = ((record.should, before.should), (record.is_, before.is_)) if self._plan.prior.state.encrypted else ()
        if any(count_digests(new) < count_digests(former) for new, former in pairs):
            return False
        return record.is_ == before.is_ or _values_of(managed, record.is_) == _values_of(managed, before.is_)


def _may_exist(run: OperationRun) -> bool:
    """Return whether a failed or skipped operation may have left a resource, or the effect of an imperative one."""
    was_run = run.status is Status.FAILED and _was_run(run)
    return exists(run.is_) or run.result.unconfirmed or was_run


def _has_created(run: OperationRun) -> bool:
    """Return whether a failed operation has created its resource, at least as far as its provider reported."""
    return run.action in CREATING and (exists(run.is_) or run.result.unconfirmed)


def _value_sources(entry: Entry) -> Mapping[str, Sequence[str]]:
    """Return attribute with references → the references of its sources, for exports of the state."""
    sources = {name: entry.sources.get(name, ()) for name in entry.pending}
    return {name: sorted({str(source.reference) for source in entries}) for name, entries in sources.items()}


def _failed_status(run: OperationRun, before: Record | None) -> str:
    """Return the status to record after a failure, for the next run.

    It reads an ``unconfirmed`` resource again, replaces a ``tainted`` one, creates a ``pending`` one and completes the
    change of a ``partial`` one. A failure without an effect leaves the status as it was.
    """
    if run.result.unconfirmed:
        return "unconfirmed"
    if run.result.tainted and exists(run.is_):
        return "tainted"
    status = before.status if before is not None else "ready"
    if status == "ready" and run.has_no_effect:
        return status
    replacing = run.action is Action.REPLACE or status == "pending"
    if replacing and not exists(run.is_):
        return "pending"
    return "tainted" if has_transient_reason(run.step) else "partial"


def _was_run(run: OperationRun) -> bool:
    """Return whether an imperative resource was run: called, and not reported as unchanged after a refresh."""
    return "imperative" in run.step.definition.features and bool(run.started) and run.result.reported != "unchanged"


def _last_run(run: OperationRun, before: Record | None) -> str:
    """Return the time (ISO 8601) of an imperative resource's last run, which state shows: now, or as recorded."""
    if _was_run(run):
        return datetime.now(UTC).isoformat(timespec="seconds")
    return before.last_run if before is not None else ""


def recorded_lifecycle(entry: Entry, before: Record | None) -> RecordedLifecycle:
    """Return the lifecycle options to record, which hold when the resource is not declared any more.

    A ``protect`` that is not declared keeps its recorded value.
    """
    lifecycle, protect = entry.meta.lifecycle, entry.is_protected(before)
    if entry.meta is NO_META and not protect:
        return NO_LIFECYCLE
    return RecordedLifecycle(protect, lifecycle.retain, lifecycle.replace, lifecycle.deleted_with, lifecycle.external)


def _values_of(attributes: Sequence[str], resource: Mapping[str, object] | None) -> dict[str, Any] | None:
    """Return the values of ``attributes``, None for an absent value; None if there is no resource."""
    return None if resource is None else {name: resource.get(name) for name in attributes}


def _are_plain(runs: Sequence[OperationRun]) -> bool:
    """Return whether no value of any operation is secret, unknown or nested: then, as in most runs, none is sealed."""
    if any(definition.secret for definition in {run.step.definition for run in runs}):
        return False
    states: list[Mapping[str, object]] = []
    for run in runs:
        entry = run.step.entry
        states.append(run.should)
        if run.is_ is not None and run.is_ is not run.should:
            states.append(run.is_)
        # With a tuple of names the inputs are values of ``entry.should``, which has mostly been added as ``should``.
        if type(entry.written) is dict or run.should is not entry.should:
            states.append(entry.inputs)
    return are_flat(states)


def _plain_values(run: OperationRun) -> Values:
    """Return the values to record of an operation whose values are plain (``_are_plain``): none has to be sealed.

    Of the row, declared attributes and those that only the system has are recorded.
    """
    should, row = run.should, run.is_
    if row is not None and row is not should:
        recorded = run.step.definition.recorded_attributes
        row = {name: row[name] for name in row if name in should or name in recorded}
    return run.step.entry.inputs, should, row


def _sealed_values(run: OperationRun, salt: bytes, *, failed: bool) -> Values:
    """Return the values to record of an operation, with its secrets as digests, also encrypted if state has a key.

    A write-only value is left out where the operation ``failed``: whether it was set is unknown, the next run sets it.
    """
    definition, should, row = run.step.definition, _without_ephemeral(run.step.entry, run.should), run.is_
    is_ = None if row is None else _sealed(recorded_state(definition, should, row), salt)
    sealed, write_only = _sealed(should, salt), definition.write_only
    if failed:
        sealed = {name: value for name, value in sealed.items() if name not in write_only}
    elif hidden := write_only & sealed.keys():
        sealed = {**sealed, **{name: digest_secret(should[name], salt) for name in hidden}}
    return recorded_inputs(run.step.entry, should, salt), sealed, is_


def recorded_inputs(entry: Entry, should: Mapping[str, object], salt: bytes) -> Mapping[str, Any]:
    """Return the values of a resource as the manifest has them, with secrets sealed, for comparison in the next run.

    A value may be secret only because its type says so, and is then in clear among the inputs. The type and ``should``,
    the canonical values, show which values are secret.
    """
    hidden = entry.definition.secret
    if not is_flat(should):
        hidden |= {name for name, value in should.items() if is_secret(value)}
    sealed = _sealed(_without_ephemeral(entry, entry.inputs), salt)
    if hidden := hidden & sealed.keys():
        return {**sealed, **{name: _digested(entry, name, should, salt) for name in hidden}}
    return sealed


def _digested(entry: Entry, name: str, should: Mapping[str, object], salt: bytes) -> Any:
    """Return the value of attribute ``name`` as the manifest has it, with its secrets as digests only, not encrypted.

    The next run compares it with its manifest, to find changed declarations. Exports and providers use the canonical
    value in ``should``, which may hold further secrets: these are concealed here as well.
    """
    attribute = entry.definition.attributes[name]
    if attribute.write_only:
        return digest_secret(entry.inputs[name], salt)
    concealed = conceal_like(attribute.datatype.conceal(entry.inputs[name]), should.get(name))
    return map_sealed(seal_secrets(concealed, salt), lambda secret, _path: Sealed(secret.digest))


def _without_ephemeral(entry: Entry, values: Mapping[str, object]) -> Mapping[str, Any]:
    """Return the values of a resource that may be recorded: none that is made from an ephemeral input."""
    hidden = entry.ephemeral
    return {name: value for name, value in values.items() if name not in hidden} if hidden else values


def recorded_state(
    definition: TypeDefinition, should: Mapping[str, object], row: Mapping[str, object]
) -> dict[str, Any]:
    """Return the part of a row to record: declared attributes, and those that only the system has, such as an id.

    ``should``, as declared or as recorded, shows which values are secret: ``get`` may return them in clear.
    """
    recorded, marked = definition.recorded_attributes, mark_secrets(definition, row, should)
    return {name: value for name, value in marked.items() if name in should or name in recorded}


def _sealed(values: Mapping[str, object], salt: bytes) -> Mapping[str, Any]:
    """Return the known values with secrets sealed. A flat resource has no secrets or unknowns, and is unchanged."""
    if is_flat(values):
        return values
    return {name: seal_secrets(value, salt) for name, value in values.items() if not is_unknown(value)}
