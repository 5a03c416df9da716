"""When a run writes to state: intents before effects, one commit for each segment, and at the end what was only read.

What a record holds is decided by ``records``. The lock on the state is held by the caller.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.action import Action
from resource_api.model.change import exists
from resource_api.model.record import Commit, Intent
from resource_api.model.sealed_secrets import count_digests, seal_secrets
from resource_api.model.values.reference import split_instance
from resource_api.plan.decide import imports
from resource_api.plan.replacement import replacement_dependents
from resource_api.prior.former_names import find_renames, with_unique_titles
from resource_api.prior.provider_instances import unused_instances
from resource_api.transaction.operation_run import OperationRun, Status
from resource_api.transaction.records import Records, are_plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from resource_api.model.change import Difference
    from resource_api.model.entry import Entry
    from resource_api.model.record import Record, RecordKey, StackState
    from resource_api.model.values.reference import Reference
    from resource_api.plan.planner import Plan
    from resource_api.state.store import StackName, StateStore
    from resource_api.transaction.results import Results

_REMOVING: Final = frozenset({Action.DELETE, Action.FORGET})


class Recorder:
    """Writes what one run does into the state of one stack."""

    def __init__(
        self, store: StateStore | None, name: StackName, plan: Plan, run_id: str, records: Records | None = None
    ) -> None:
        """Write for the run ``run_id`` of ``plan`` into the stack ``name``; ``store`` None: nothing is written.

        ``records`` makes the records of the plan.
        """
        self._store = store
        self._name = name
        self._plan = plan
        self._run_id = run_id
        self._records = records or Records(plan)
        self._intents = plan.prior.state.intents
        #: How many of the unchanged operations have been compared with state.
        self._unchanged_seen = 0
        #: The state after the last commit of this run.
        self._state: StackState | None = None

    @cached_property
    def _replacement_dependents(self) -> Mapping[int, Sequence[Entry]]:
        """Entry's index → the recorded resources to be replaced once it has changed."""
        return replacement_dependents(self._plan.catalog, self._plan.prior, self._plan.steps)

    @property
    def adopted(self) -> Sequence[OperationRun]:
        """The operations whose resources existed before us and have been recorded for the first time."""
        return list(self._records.adopted.values()) if self._store is not None else ()

    def begin(self) -> None:
        """Write, before anything else, what an earlier run that was cut may have done, and what is imported.

        A resource that is imported and replaced is recorded now: whatever ends the run then, it is not lost.
        """
        self._commit(self._plan.prior.instances.commit)
        self._commit(self._plan.prior.recovery)
        self._commit(Commit(list(self._imported.values())))

    @cached_property
    def _imported(self) -> Mapping[RecordKey, Record]:
        """The records of resources that are imported and replaced, as they are before that."""
        plan = self._plan
        if len(plan.operations) == len(plan.steps):
            return {}  # nothing is replaced
        found, blocked = {}, plan.blocked
        for operation in plan.operations:
            step, index = operation.step, operation.step.entry.index
            replaced = step.action is Action.REPLACE and step.acts and not operation.removal and index not in blocked
            if replaced and imports(step.entry, plan.prior.records.get(index)):
                record = self._records.record(OperationRun(operation))
                assert record is not None
                found[record.key] = record._replace(status="partial")
        return found

    def configured(self, record: Record) -> None:
        """Write the configuration of a provider instance, before anything is made with it."""
        self._commit(Commit([record]))

    def intend(self, runs: Iterable[OperationRun]) -> None:
        """Write durably which resources are about to be changed."""
        if self._store is not None:
            self._store.record_intents(self._name, [self._intent(run) for run in runs])

    def _intent(self, run: OperationRun) -> Intent:
        """Return the intent of an operation; one of a cut run that made the resource ours is kept."""
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

    def refreshed(self, runs: Sequence[OperationRun]) -> None:
        """Write that the refreshes owed to resources have succeeded."""
        if runs:
            self._commit(Commit(paid=[run.step.entry.key for run in runs]))

    def commit_results(
        self, runs: Sequence[OperationRun], results: Results, owed: Mapping[RecordKey, Sequence[str]]
    ) -> None:
        """Write the outcome of a segment, the refreshes ``owed`` because of it, and what was unchanged before it.

        Records thus stand in the order of execution, which a deletion without known dependencies reverses. A resource
        that could not be read after its call stays in doubt: its intent and its record are not touched.
        """
        ended = [run for run in runs if run.status is Status.SUCCEEDED or (run.finished and run.started)]
        if self._store is None or not ended:
            return
        unchanged = self._next_unchanged(results)
        put = self._to_replace(ended, results) + self._records.differing(unchanged)
        drop = self._vanished(unchanged)
        ended = [run for run in ended if not run.result.unread]
        plain = are_plain(ended)
        for run in ended:
            if run.removal or run.action in _REMOVING:
                if pending := self._pending(run):
                    put.append(pending)
                elif not exists(run.is_) or run.action is Action.FORGET or run.retained:
                    drop.append(run.key)
            elif (record := self._records.record(run, plain=plain)) is not None:
                put.append(record)
                if self._plan.prior.predecessors:
                    put += self._replaced(run)
                    drop += self._removed_predecessor(run, record)
        done = [*self._resolved(unchanged), *(run.key for run in ended)]
        dropped = set(drop)
        put = [record for record in put if record.key not in dropped] if dropped else put
        drop = [key for key in drop if key in self._plan.prior.state.records]
        self._commit(Commit(put=put, drop=drop, done=done, owed=owed))

    def _next_unchanged(self, results: Results) -> Sequence[OperationRun]:
        """Return the unchanged operations that have not been compared with state yet."""
        start, self._unchanged_seen = self._unchanged_seen, len(results.unchanged_runs)
        return results.unchanged_runs[start:]

    def _to_replace(self, ended: Iterable[OperationRun], results: Results) -> list[Record]:
        """Return tainted records of resources to be replaced because of what has changed, and not replaced yet.

        If this run ends before it comes to them, a later one replaces them.
        """
        if not (dependents := self._replacement_dependents):
            return []
        changed = [run.step.entry.index for run in ended if run.number in results.changed]
        entries = [entry for index in changed for entry in dependents.get(index, ())]
        records = self._plan.prior.records
        # One that was removed for its replacement is recorded so.
        left = [e.index for e in entries if not (results.succeeded(e.index) or results.has_changed(e.index))]
        return [records[index]._replace(status="tainted") for index in left]

    def _pending(self, run: OperationRun) -> Record | None:
        """Return the record of a resource that was removed for its replacement, while that is not made yet."""
        if run.action is not Action.REPLACE or run.step.create_first or run.retained or exists(run.is_):
            return None
        old = self._plan.prior.state.records.get(run.key) or self._imported.get(run.key)
        return None if old is None else old._replace(is_=None, status="pending")

    def _removed_predecessor(self, run: OperationRun, record: Record) -> list[RecordKey]:
        """Return the key of the record of a resource that was deleted first, once its replacement exists."""
        old = self._plan.prior.predecessors.get(run.step.entry.index)
        first = old is not None and run.action is Action.REPLACE and not run.step.create_first
        return [old.key] if old is not None and first and exists(record.is_) else []

    def _replaced(self, run: OperationRun) -> list[Record]:
        """Return the record of a resource that has been replaced and still exists: it is to be deleted."""
        old = self._plan.prior.predecessors.get(run.step.entry.index)
        if old is None or not run.step.create_first or run.status is Status.FAILED:
            return []
        lifecycle = old.lifecycle._replace(retain=run.step.entry.meta.lifecycle.retain)
        (renamed,) = with_unique_titles([old], self._taken)
        self._taken.add(renamed.reference)
        successor = str(run.step.reference)
        return [renamed._replace(status="replaced", lifecycle=lifecycle, successor=successor)]

    @cached_property
    def _taken(self) -> set[Reference]:
        """References that a resource has which is declared or recorded."""
        recorded = {record.reference for record in self._plan.prior.state.records.values()}
        return recorded.union(entry.reference for entry in self._plan.catalog.entries)

    def finish(self, results: Results, outputs: Mapping[str, Any] | None) -> int:
        """Write what was only read or refreshed and differs from state, and ``outputs``; None: they stay as they are.

        Return how many outputs have changed. Nothing is written when all is as recorded.
        """
        if self._store is None:
            return 0
        plan, state = self._plan, self._plan.prior.state
        if results.nothing_to_do:
            unchanged = [OperationRun(o) for o in plan.operations if o.step.entry.index not in plan.in_sync]
        else:
            unchanged = [*self._next_unchanged(results), *results.refreshed_runs]
        kept = seal_secrets(outputs, state.salt) if outputs is not None else None
        changes = self._output_changes(outputs)
        new_outputs = changes or (state.encrypted and count_digests(kept) < count_digests(state.outputs))
        commit = Commit(
            self._records.differing(unchanged),
            [*plan.prior.moved_keys, *self._vanished(unchanged)],
            self._resolved(unchanged),
            outputs=kept if new_outputs else None,
        )
        if plan.prior.undeclared or plan.prior.orphans or not plan.complete:
            commit = commit._replace(put=[*commit.put, *self._renamed(commit, self._store.load(self._name))])
        if not commit.empty or not state.serial:
            manifest = plan.catalog.manifest.recorded_as
            commit = commit._replace(manifest=manifest if manifest != state.manifest else None)
        self._commit(commit)
        if self._state is not None and (plan.prior.instances.recorded or plan.catalog.instances):
            self._commit(Commit(drop=unused_instances(self._state.records.values())))
        return len(changes)

    def _output_changes(self, outputs: Mapping[str, Any] | None) -> Sequence[Difference]:
        state = self._plan.prior.state
        if outputs is None or not (outputs or state.outputs):
            return ()
        from resource_api.plan.output_changes import output_changes

        return output_changes(state.outputs, outputs, state.salt)

    def _renamed(self, commit: Commit, state: StackState) -> list[Record]:
        """Return records of what is not declared whose title is taken, or that refer to a resource by a former name."""
        plan = self._plan
        declared = (step for step in plan.steps if step.entry.index not in plan.prior.orphans)
        observed = {step.entry.index: step.entry.key for step in declared if not step.noop}
        moved = {index: record for index, record in plan.prior.records.items() if index in observed}
        now = {**state.records, **{record.key: record for record in commit.put}}
        written = {*observed.values(), *commit.drop}
        others = [record for key, record in now.items() if key not in written]
        taken = {record.reference for key, record in now.items() if key in written}
        renames = find_renames(plan.catalog, moved).restricted({str(name) for name in taken}, complete=plan.complete)
        after = with_unique_titles(map(renames.record, others), taken)
        return [new for old, new in zip(others, after, strict=True) if new != old]

    def _commit(self, commit: Commit) -> None:
        if self._store is not None and (commit.done or not commit.empty):
            self._state = self._store.commit(self._name, commit)

    def _vanished(self, runs: Iterable[OperationRun]) -> list[RecordKey]:
        """Return the keys of resources that are recorded, should be absent, and are."""
        return [
            run.step.entry.key
            for run in runs
            if run.step.entry.index in self._plan.prior.records
            and not (run.removal or run.step.noop or exists(run.is_) or exists(run.should))
        ]

    def _resolved(self, runs: Iterable[OperationRun]) -> list[RecordKey]:
        """Return the keys of resources that were in doubt and turned out to be in sync."""
        return [run.step.entry.key for run in runs if run.step.entry.key in self._intents] if self._intents else []
