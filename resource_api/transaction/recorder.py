"""Writes what a run does into state: intents before effects, one commit per segment, at the end what was only read.

State records what *is*, never what should be. What a provider does and what a plan contains is not known here beyond
the values themselves.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.change import CREATING, Action, exists
from resource_api.model.codec import count_digests, seal_secrets
from resource_api.model.entry import NO_META
from resource_api.model.record import NO_LIFECYCLE, OWNING_ACTIONS, Commit, Intent, Record, RecordedLifecycle
from resource_api.model.values.reference import split_instance
from resource_api.plan.bulk_decisions import required_references
from resource_api.plan.decide import protected
from resource_api.plan.replacement import has_transient_reason
from resource_api.prior.moved import find_renames, with_unique_titles
from resource_api.prior.provider_instances import unused_instances
from resource_api.transaction.recorded_values import are_plain, as_it_is, keep

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from resource_api.model.entry import Entry
    from resource_api.model.record import Key, StackState
    from resource_api.plan.planner import Plan
    from resource_api.state.store import StackName, StateStore
    from resource_api.transaction.operation_run import OperationRun

#: What leaves nothing to record, where it succeeds.
_GOES: Final = frozenset({Action.DELETE, Action.FORGET})


class Recorder:
    """The writing side of one run; a run under ``--noop`` has none."""

    def __init__(self, store: StateStore, name: StackName, plan: Plan, run: str) -> None:
        """Write for the run ``run`` of ``plan`` into the stack ``name``; the lock is held by the caller."""
        self._store = store
        self._name = name
        self._plan = plan
        self._run = run
        self._intents = plan.prior.state.intents
        #: What is recorded since the last commit of this run.
        self._known: StackState | None = None

    def begin(self) -> None:
        """Write what an earlier run that was cut may have done, before anything else is."""
        self._commit(self._plan.prior.instances.commit)
        self._commit(self._plan.prior.recovery)

    def configured(self, record: Record) -> None:
        """Write what a provider is configured with, before anything is made with it."""
        self._commit(Commit([record]))

    def intend(self, runs: Iterable[OperationRun]) -> None:
        """Note durably what is about to be changed."""
        self._store.record_intents(self._name, [self._intent(run) for run in runs])

    def _intent(self, run: OperationRun) -> Intent:
        """Give the intent of a run; what an earlier run may have made stays made by us if this one is cut too."""
        entry, action = run.step.entry, str(Action.DELETE if run.removal else run.action)
        cut = self._intents.get(run.key) if self._intents else None
        if cut is not None and cut.makes and action != Action.DELETE:
            action = cut.action
        type_name, provider = split_instance(run.definition.instance)
        return Intent(
            run=self._run,
            type=type_name,
            name=run.name,
            title=entry.title,
            action=action,
            provider=provider,
            protect=not run.removal and protected(entry, None),
            parent=entry.parent,
        )

    def pay(self, runs: Iterable[OperationRun]) -> None:
        """Write that refreshes have succeeded."""
        self._commit(Commit(paid=[run.step.entry.key for run in runs]))

    def settle(
        self,
        runs: Sequence[OperationRun],
        same: Sequence[OperationRun],
        owed: Mapping[Key, Sequence[str]],
        condemned: Sequence[Entry] = (),
    ) -> None:
        """Write the outcome of runs that have ended and the refreshes owed now; with what stood ``same`` before them.

        What is ``condemned`` is to be replaced because of them, by a later run if this one does not come to it.
        Records are in the order of execution then, which is what a deletion without known dependencies reverses.
        What could not be read afterwards stays in doubt: its intent and its record stay as they are.
        """
        records = self._plan.prior.records
        put = [records[entry.index]._replace(status="tainted") for entry in condemned]
        put += self.news(same)
        drop = self._gone(same)
        runs = [run for run in runs if not run.unread]
        plain = are_plain(runs)
        for run in runs:
            if run.removal or run.action in _GOES:
                if pending := self._pending(run):
                    put.append(pending)
                elif not exists(run.is_) or run.action is Action.FORGET or run.spared:
                    drop.append(run.key)
            elif (record := self.record(run, plain=plain)) is not None:
                put.append(record)
                if self._plan.prior.predecessors:
                    put += self._replaced(run)
                    drop += self._succeeded(run, record)
        done = [*self._resolved(same), *(run.key for run in runs)]
        gone = set(drop)
        put = [record for record in put if record.key not in gone] if gone else put
        drop = [key for key in drop if key in self._plan.prior.state.records]
        self._commit(Commit(put=put, drop=drop, done=done, owed=owed))

    def _pending(self, run: OperationRun) -> Record | None:
        """Give the record of what has gone so that its replacement can come, until that has."""
        if run.action is not Action.REPLACE or run.step.create_first or run.spared or exists(run.is_):
            return None
        old = self._plan.prior.state.records.get(run.key)
        return None if old is None else old._replace(is_=None, status="pending")

    def _succeeded(self, run: OperationRun, record: Record) -> list[Key]:
        """Give what was recorded of the one that went first, under another name, once the new one is there."""
        old = self._plan.prior.predecessors.get(run.step.entry.index)
        first = old is not None and run.action is Action.REPLACE and not run.step.create_first
        return [old.key] if old is not None and first and exists(record.is_) else []

    def _replaced(self, run: OperationRun) -> list[Record]:
        """Give the record of what has been replaced and still exists: whatever happens, it is to go."""
        old = self._plan.prior.predecessors.get(run.step.entry.index)
        if old is None or not run.step.create_first or run.outcome.status == "failed" or run.why:
            return []
        lifecycle = old.lifecycle._replace(retain=run.step.entry.meta.lifecycle.retain)
        return [old._replace(status="replaced", lifecycle=lifecycle)]

    def finish(self, same: Sequence[OperationRun], outputs: Mapping[str, Any] | None) -> None:
        """Write what was only read and differs from what is recorded; nothing when all is as it was."""
        state = self._plan.prior.state
        manifest = self._plan.catalog.manifest.file
        kept = seal_secrets(outputs, state.salt) if outputs is not None else None
        commit = Commit(
            self.news(same),
            [*self._plan.prior.moved_keys, *self._gone(same)],
            self._resolved(same),
            outputs=kept
            if kept != state.outputs or (state.encrypted and count_digests(kept) < count_digests(state.outputs))
            else None,
        )
        if self._plan.prior.undeclared or not self._plan.complete:
            commit = commit._replace(put=[*commit.put, *self._renamed(commit)])
        if not commit.empty or not state.serial:
            commit = commit._replace(manifest=manifest if manifest != state.manifest else None)
        self._commit(commit)
        if self._known is not None and (self._plan.prior.instances.recorded or self._plan.catalog.instances):
            self._commit(Commit(drop=unused_instances(self._known.records.values())))

    def _renamed(self, commit: Commit) -> list[Record]:
        """Give what this run has not looked at, and what has lost its name or refers to something by a former one."""
        plan = self._plan
        looked_at = {step.entry.index: step.entry.key for step in plan.steps if not step.noop}
        moved = {index: record for index, record in plan.prior.records.items() if index in looked_at}
        present = find_renames(plan.catalog, moved)
        now = {**self._store.load(self._name).records, **{record.key: record for record in commit.put}}
        touched = {*looked_at.values(), *commit.drop}
        others = [record for key, record in now.items() if key not in touched]
        taken = {record.reference for key, record in now.items() if key in touched}
        present = present.restricted({str(name) for name in taken}, complete=plan.complete)
        after = with_unique_titles(map(present.record, others), taken)
        return [new for old, new in zip(others, after, strict=True) if new != old]

    def _commit(self, commit: Commit) -> None:
        if commit.done or not commit.empty:
            self._known = self._store.commit(self._name, commit)

    def record(self, run: OperationRun, *, plain: bool = False) -> Record | None:
        """Give what is to be recorded of a run; None when there is nothing and nothing was recorded.

        ``plain``: none of its values is a secret, unknown, or holds anything else.
        """
        entry, plan = run.step.entry, self._plan
        definition = entry.definition
        before = plan.prior.records.get(entry.index)
        failed = run.outcome.status == "failed" or bool(run.why) or run.skipped
        if failed and before is None and not exists(run.is_):
            return None
        if run.skipped and before is not None and run.is_ == run.step.is_:
            return before._replace(status="tainted") if has_transient_reason(run.step) else before
        stays = failed and before is not None and not (run.action in CREATING and exists(run.is_))
        inputs, should, is_ = as_it_is(run) if plain else keep(run, plan.prior.state.salt, failed=failed)
        return Record(
            type=definition.name,
            name=entry.name,
            title=entry.title,
            inputs=inputs,
            should=before.should if stays and before is not None else should,
            is_=is_,
            owned=self._owned(run, before),
            requires=required_references(plan.catalog, entry),
            value_requires=entry.pending and _value_requires(entry),
            lifecycle=_lifecycle(entry, before),
            provider=entry.provider,
            schema_version=definition.schema_version,
            status=_status(run, before) if failed else "ready",
            parent=entry.declaration.parent,
            last_run=_last_run(run, before) if "imperative" in definition.features else "",
        )

    def _owned(self, run: OperationRun, before: Record | None) -> bool:
        """Whether it is ours: said so, recorded so, made or run by this run, or by one that was cut while it made it.

        What is declared to be external has been handed over.
        """
        lifecycle = run.step.entry.meta.lifecycle
        if lifecycle.owned is not None or lifecycle.external:
            return bool(lifecycle.owned) and not lifecycle.external
        recorded = before is not None and before.owned
        if recorded or run.action in OWNING_ACTIONS or _has_run(run):
            return True
        cut = self._intents.get(run.step.entry.key)
        return cut is not None and cut.makes

    def _gone(self, runs: Iterable[OperationRun]) -> list[Key]:
        """Give what is recorded, should be absent and is: it has gone by itself, or in a run that was cut."""
        return [
            run.step.entry.key
            for run in runs
            if run.step.entry.index in self._plan.prior.records
            and not (run.removal or run.step.noop or exists(run.is_) or exists(run.should))
        ]

    def _resolved(self, runs: Iterable[OperationRun]) -> list[Key]:
        """Give what was in doubt, has been looked at, and is in order."""
        return [run.step.entry.key for run in runs if run.step.entry.key in self._intents] if self._intents else []

    def news(self, runs: Iterable[OperationRun]) -> list[Record]:
        """Give the records of what was left as it is and is not recorded so."""
        return [record for run in runs if (record := self._news(run)) is not None]

    def _news(self, run: OperationRun) -> Record | None:
        """Give the record of what was left as it is, unless the same is recorded already."""
        if run.step.noop or run.removal or run.step.decision.error:
            return None
        if run.step.entry.index in self._plan.in_sync and run.is_ is run.step.is_:
            return None
        if "imperative" in run.step.definition.features:
            return self.record(run) if _has_run(run) or run.step.entry.key in self._intents else None
        before = self._plan.prior.records.get(run.step.entry.index)
        if not exists(run.should) and (before is None or not exists(run.is_)):
            return None  # it is gone, or stays although it should not: that is forgotten, and not ours
        if run.is_ is None and before is None:
            return None
        record = self.record(run)
        if before is None or record is None:
            return record
        # What only the resource can tell may have changed by itself: that alone is not news.
        if not record.equals_except_is(before) or (self._plan.prior.state.encrypted and _fuller(record, before)):
            return record
        managed = run.step.definition.managed
        read_as = record.is_ == before.is_ or _only(record.is_, managed) == _only(before.is_, managed)
        return None if read_as else record


def _status(run: OperationRun, before: Record | None) -> str:
    """Give how a resource stands after its run failed; what went to be replaced and is not back is to be made."""
    gone = run.action is Action.REPLACE or (before is not None and before.status == "pending")
    if gone and not exists(run.is_):
        return "pending"
    return "tainted" if has_transient_reason(run.step) else "partial"


def _has_run(run: OperationRun) -> bool:
    """Whether what cannot be read back has been done; of a refresh its provider may say that nothing was."""
    imperative = "imperative" in run.step.definition.features
    return imperative and bool(run.started) and run.outcome.status != "unchanged"


def _last_run(run: OperationRun, before: Record | None) -> str:
    """Give when what cannot be read back was last done: now, or as it was recorded."""
    if _has_run(run):
        return datetime.now(UTC).isoformat(timespec="seconds")
    return before.last_run if before is not None else ""


def _lifecycle(entry: Entry, before: Record | None) -> RecordedLifecycle:
    """Return the lifecycle options to record; an undeclared ``protect`` keeps its recorded value."""
    lifecycle, protect = entry.meta.lifecycle, protected(entry, before)
    if entry.meta is NO_META and not protect:
        return NO_LIFECYCLE
    return RecordedLifecycle(protect, lifecycle.retain, lifecycle.replace, lifecycle.deleted_with, lifecycle.external)


def _value_requires(entry: Entry) -> Mapping[str, Sequence[str]]:
    """Give, by attribute, the resources that its value comes from."""
    return {name: sorted({str(source.reference) for source in entry.sources.get(name, ())}) for name in entry.pending}


def _fuller(record: Record, before: Record) -> bool:
    """Whether a record keeps a secret of which the one before has only the digest: it was made without a key."""
    return count_digests(record.should) < count_digests(before.should) or count_digests(record.is_) < count_digests(
        before.is_
    )


def _only(resource: Mapping[str, Any] | None, attributes: Sequence[str]) -> dict[str, Any] | None:
    return None if resource is None else {name: resource.get(name) for name in attributes}
