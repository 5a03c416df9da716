"""Writes a run to state: intents before effects, one commit for each segment, unchanged resources at the end.

``records`` makes the records. The caller holds the lock on the state.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from resource_api.model.action import Action
from resource_api.model.change import exists
from resource_api.model.record import Commit, Intent
from resource_api.model.sealed_secrets import count_digests, seal_secrets
from resource_api.model.values.reference import split_instance
from resource_api.plan.decide import is_imported
from resource_api.plan.replacement import replacement_dependents
from resource_api.plan.unknowns import output_changes
from resource_api.prior import former_names
from resource_api.prior.provider_instances import unused_instances
from resource_api.system.facts import machine_id
from resource_api.transaction.operation_run import OperationRun, Status
from resource_api.transaction.records import Records, are_plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from resource_api.model.change import Difference
    from resource_api.model.entry import Entry
    from resource_api.model.record import Record, RecordKey, StackState
    from resource_api.model.values.reference import Reference
    from resource_api.plan.planner import ExecutionPlan
    from resource_api.state.store import StackName, StateStore
    from resource_api.transaction.results import Results

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
        """Write for the run ``run_id`` of ``plan`` into the stack ``name``; without a ``store`` nothing is written.

        ``records`` makes the records of the plan.
        """
        self._store = store
        self._name = name
        self._plan = plan
        self._run_id = run_id
        self._records = records or Records(plan)
        #: The intents that a run left which was cut: their resources were in doubt.
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
        """Write, before anything else, the recovery from an earlier run that was cut, and the imported resources.

        A resource that is imported and replaced is recorded now: however the run ends, it is not lost.
        """
        self._commit(self._plan.prior.instances.commit)
        self._commit(self._plan.prior.recovery)
        self._commit(Commit(list(self._imported.values())))

    @cached_property
    def _imported(self) -> Mapping[RecordKey, Record]:
        """The records of resources that are imported and replaced, as they are before that."""
        plan = self._plan
        if len(plan.operations) == len(plan.steps):
            return {}  # nothing is replaced: a replacement has two operations
        imported, blocked = {}, plan.blocked
        for operation in plan.operations:
            step, index = operation.step, operation.step.entry.index
            replaced = step.action is Action.REPLACE and step.acts and not operation.removal and index not in blocked
            if replaced and is_imported(step.entry, plan.prior.records.get(index)):
                record = self._records.record(OperationRun(operation))
                assert record is not None
                imported[record.key] = record._replace(status="partial")
        return imported

    def write_instance(self, record: Record) -> None:
        """Write the configuration of a provider instance, before it creates anything."""
        self._commit(Commit([record]))

    def write_intents(self, runs: Iterable[OperationRun]) -> None:
        """Write durably the resources that are about to be changed: after a crash they are in doubt."""
        if self._store is not None:
            self._store.record_intents(self._name, [self._intent(run) for run in runs])

    def _intent(self, run: OperationRun) -> Intent:
        """Return the intent of an operation; that of a cut run that made the resource ours is kept."""
        entry, action = run.step.entry, str(Action.DELETE if run.removal else run.action)
        cut = self._intents.get(run.key) if self._intents else None
        if cut is not None and cut.makes and action != Action.DELETE:
            action = cut.action
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
        """Write that the refreshes owed to resources succeeded: no later run owes them."""
        if runs:
            self._commit(Commit(paid=[run.step.entry.key for run in runs]))

    def commit_results(
        self, runs: Sequence[OperationRun], results: Results, owed: Mapping[RecordKey, Sequence[str]]
    ) -> None:
        """Write the outcome of a segment, the refreshes ``owed`` because of it, and the unchanged resources before it.

        Records thus stand in the order of execution, which a deletion without known dependencies reverses. A resource
        that could not be read after its call stays in doubt: its intent and its record are not touched.
        """
        ended = [run for run in runs if run.status is Status.SUCCEEDED or (run.finished and run.started)]
        if self._store is None or not ended:
            return
        unchanged = self._take_unchanged(results)
        put = self._tainted_dependents(ended, results) + self._records.differing(unchanged)
        drop = self._vanished(unchanged)
        ended = [run for run in ended if not run.result.read_error]
        plain = are_plain(ended)
        for run in ended:
            if run.removal or run.action in _REMOVING:
                if pending := self._pending_creation(run):
                    put.append(pending)
                elif not exists(run.is_) or run.action is Action.FORGET or run.retained:
                    drop.append(run.key)
            elif (record := self._records.record(run, plain=plain)) is not None:
                put.append(record)
                if old := self._plan.prior.predecessors.get(run.step.entry.index):
                    if run.step.create_first and run.status is not Status.FAILED:
                        put.append(self._predecessor_to_delete(run, old))
                    elif run.action is Action.REPLACE and not run.step.create_first and exists(record.is_):
                        drop.append(old.key)  # it was deleted first, and its replacement exists now
        resolved = [*self._resolved_intents(unchanged), *(run.key for run in ended)]
        dropped = set(drop)
        put = [record for record in put if record.key not in dropped] if dropped else put
        drop = [key for key in drop if key in self._plan.prior.state.records]
        self._commit(Commit(put=put, drop=drop, resolved=resolved, owed=owed))

    def _take_unchanged(self, results: Results) -> Sequence[OperationRun]:
        """Return the unchanged operations since the last call, and count them as compared with state."""
        start, self._compared_count = self._compared_count, len(results.unchanged_runs)
        return results.unchanged_runs[start:]

    def _tainted_dependents(self, ended: Iterable[OperationRun], results: Results) -> list[Record]:
        """Return tainted records of resources that the changes replace, and that are not replaced yet.

        If this run ends before it reaches them, a later one replaces them.
        """
        if not (dependents := self._replacement_dependents):
            return []
        changed = [run.step.entry.index for run in ended if run.number in results.changed]
        entries = [entry for index in changed for entry in dependents.get(index, ())]
        records = self._plan.prior.records
        # A resource that was removed for its replacement has a record of that.
        remaining = [e.index for e in entries if not (results.succeeded(e.index) or results.has_changed(e.index))]
        return [records[index]._replace(status="tainted") for index in remaining]

    def _pending_creation(self, run: OperationRun) -> Record | None:
        """Return the record of a resource that was removed for its replacement, until that is created, or None."""
        if run.action is not Action.REPLACE or run.step.create_first or run.retained or exists(run.is_):
            return None
        old = self._plan.prior.state.records.get(run.key) or self._imported.get(run.key)
        return None if old is None else old._replace(is_=None, status="pending")

    def _predecessor_to_delete(self, run: OperationRun, old: Record) -> Record:
        """Return the record of a replaced resource that still exists, for its deletion, under an unused title."""
        lifecycle = old.lifecycle._replace(retain=run.step.entry.meta.lifecycle.retain)
        (renamed,) = former_names.with_unique_titles([old], self._used_references)
        self._used_references.add(renamed.reference)
        successor = str(run.step.reference)
        return renamed._replace(status="replaced", lifecycle=lifecycle, successor=successor)

    @cached_property
    def _used_references(self) -> set[Reference]:
        """The references of declared and recorded resources."""
        recorded = {record.reference for record in self._plan.prior.state.records.values()}
        return recorded.union(entry.reference for entry in self._plan.catalog.entries)

    def finish(self, results: Results, outputs: Mapping[str, object] | None) -> int:
        """Write the unchanged resources that differ from state, and ``outputs``, which stay as recorded if None.

        Return the number of changed outputs. Nothing is written if everything is as recorded. Provider instances that
        no resource uses any more are dropped in a second commit: the first one shows which.
        """
        if self._store is None:
            return 0
        plan, state = self._plan, self._plan.prior.state
        if results.nothing_to_do:
            left_out = {*plan.in_sync, *plan.catalog.on_failure}
            unchanged = [OperationRun(o) for o in plan.operations if o.step.entry.index not in left_out]
        else:
            unchanged = [*self._take_unchanged(results), *results.refreshed_runs]
        sealed = seal_secrets(outputs, state.salt) if outputs is not None else None
        changes = self._output_changes(outputs)
        # A state that is encrypted by now holds outputs of which only digests were recorded.
        new_outputs = changes or (state.encrypted and count_digests(sealed) < count_digests(state.outputs))
        commit = Commit(
            self._records.differing(unchanged),
            [*plan.prior.moved_keys, *self._vanished(unchanged)],
            self._resolved_intents(unchanged),
            outputs=sealed if new_outputs else None,
        )
        if plan.prior.undeclared or plan.prior.orphans or not plan.complete:
            commit = commit._replace(put=[*commit.put, *self._renamed(commit, self._store.load(self._name))])
        if commit.changes_state or not state.serial:
            manifest, machine = plan.catalog.manifest.recorded_as, machine_id()
            commit = commit._replace(
                manifest=manifest if manifest != state.manifest else None,
                machine=machine if machine != state.machine else None,
            )
        self._commit(commit)
        if self._state is not None and (plan.prior.instances.recorded or plan.catalog.instances):
            self._commit(Commit(drop=unused_instances(self._state.records.values())))
        return len(changes)

    def _output_changes(self, outputs: Mapping[str, object] | None) -> Sequence[Difference]:
        """Return the differences between the recorded outputs and these; None keeps the recorded ones."""
        state = self._plan.prior.state
        if outputs is None or not (outputs or state.outputs):
            return ()
        return output_changes(state.outputs, outputs, state.salt)

    def _renamed(self, commit: Commit, state: StackState) -> list[Record]:
        """Return the records of undeclared resources whose title is taken, or that use a resource's former name."""
        plan = self._plan
        declared = (step for step in plan.steps if step.entry.index not in plan.prior.orphans)
        observed = {step.entry.index: step.entry.key for step in declared if not step.noop}
        moved = {index: record for index, record in plan.prior.records.items() if index in observed}
        present = {**state.records, **{record.key: record for record in commit.put}}
        written = {*observed.values(), *commit.drop}
        undeclared = [record for key, record in present.items() if key not in written]
        references = {record.reference for key, record in present.items() if key in written}
        renames = former_names.find_renames(plan.catalog, moved).restricted(
            set(map(str, references)), complete=plan.complete
        )
        renamed = former_names.with_unique_titles(map(renames.record, undeclared), references)
        return [new for old, new in zip(undeclared, renamed, strict=True) if new != old]

    def _commit(self, commit: Commit) -> None:
        """Write a commit that changes state or resolves intents, and keep the new state in ``_state``.

        Do nothing for an empty commit, and in a run without a store.
        """
        if self._store is not None and (commit.resolved or commit.changes_state):
            self._state = self._store.commit(self._name, commit)

    def _vanished(self, runs: Iterable[OperationRun]) -> list[RecordKey]:
        """Return the keys of recorded resources that are declared absent, and are."""
        return [
            run.step.entry.key
            for run in runs
            if run.step.entry.index in self._plan.prior.records
            and not (run.removal or run.step.noop or exists(run.is_) or exists(run.should))
        ]

    def _resolved_intents(self, runs: Iterable[OperationRun]) -> list[RecordKey]:
        """Return the keys of resources that were in doubt and proved to be in sync."""
        return [run.step.entry.key for run in runs if run.step.entry.key in self._intents] if self._intents else []
