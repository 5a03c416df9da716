"""Writes what a run does into state: intents before effects, one commit per segment, at the end what was only read.

State records what *is*, never what should be. What a provider does and what a plan contains is not known here beyond
the values themselves.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.change import MADE_ANEW, Action, exists
from resource_api.model.codec import bare, sealed
from resource_api.model.record import MAKES_OURS, Commit, Intent, Record
from resource_api.model.values.reference import parts
from resource_api.plan.decide import protected
from resource_api.plan.replacement import lasting
from resource_api.plan.unchanged import required
from resource_api.prior.moved import renames, told_apart
from resource_api.prior.provider_instances import unused
from resource_api.transaction.recorded_values import are_plain, as_it_is, keep

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from resource_api.model.entry import Entry
    from resource_api.model.record import Key, StackState
    from resource_api.plan.planner import Plan
    from resource_api.state.store import StackName, StateStore
    from resource_api.transaction.operation_run import Work

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
        self._commit(self._plan.prior.lineup.commit)
        self._commit(self._plan.prior.doubts)

    def configured(self, record: Record) -> None:
        """Write what a provider is configured with, before anything is made with it."""
        self._commit(Commit([record]))

    def intend(self, works: Iterable[Work]) -> None:
        """Note durably what is about to be changed."""
        self._store.intend(self._name, [self._intent(work) for work in works])

    def _intent(self, work: Work) -> Intent:
        """Give the intent of a work; what an earlier run may have made stays made by us if this one is cut too."""
        entry, action = work.step.entry, str(Action.DELETE if work.removal else work.action)
        cut = self._intents.get(work.key) if self._intents else None
        if cut is not None and cut.makes and action != Action.DELETE:
            action = cut.action
        type_name, provider = parts(work.definition.instance)
        protect = not work.removal and protected(entry, None)
        return Intent(self._run, type_name, work.name, entry.title, action, provider, protect, entry.parent)

    def pay(self, works: Iterable[Work]) -> None:
        """Write that refreshes have succeeded."""
        self._commit(Commit(paid=[work.step.entry.key for work in works]))

    def settle(
        self,
        works: Sequence[Work],
        same: Sequence[Work],
        owed: Mapping[Key, Sequence[str]],
        condemned: Sequence[Entry] = (),
    ) -> None:
        """Write the outcome of works that have ended and the refreshes owed now; with what stood ``same`` before them.

        What is ``condemned`` is to be replaced because of them, by a later run if this one does not come to it.
        Records are in the order of execution then, which is what a deletion without known dependencies reverses.
        What could not be read afterwards stays in doubt: its intent and its record stay as they are.
        """
        records = self._plan.prior.records
        put = [records[entry.index]._replace(status="tainted") for entry in condemned]
        put += self.news(same)
        drop = self._gone(same)
        works = [work for work in works if not work.unread]
        plain = are_plain(works)
        for work in works:
            if work.removal or work.action in _GOES:
                if pending := self._pending(work):
                    put.append(pending)
                elif not exists(work.is_) or work.action is Action.FORGET or work.spared:
                    drop.append(work.key)
            elif (record := self.record(work, plain=plain)) is not None:
                put.append(record)
                if self._plan.prior.successors:
                    put += self._replaced(work)
                    drop += self._succeeded(work, record)
        done = [*self._resolved(same), *(work.key for work in works)]
        gone = set(drop)
        put = [record for record in put if record.key not in gone] if gone else put
        self._commit(Commit(put, [key for key in drop if key in self._plan.prior.state.records], done, owed))

    def _pending(self, work: Work) -> Record | None:
        """Give the record of what has gone so that its replacement can come, until that has."""
        if work.action is not Action.REPLACE or work.step.create_first or work.spared or exists(work.is_):
            return None
        old = self._plan.prior.state.records.get(work.key)
        return None if old is None else old._replace(is_=None, status="pending")

    def _succeeded(self, work: Work, record: Record) -> list[Key]:
        """Give what was recorded of the one that went first, under another name, once the new one is there."""
        old = self._plan.prior.successors.get(work.step.entry.index)
        first = old is not None and work.action is Action.REPLACE and not work.step.create_first
        return [old.key] if old is not None and first and exists(record.is_) else []

    def _replaced(self, work: Work) -> list[Record]:
        """Give the record of what has been replaced and still exists: whatever happens, it is to go."""
        old = self._plan.prior.successors.get(work.step.entry.index)
        if old is None or not work.step.create_first or work.outcome.status == "failed" or work.why:
            return []
        return [old._replace(status="replaced", retain=work.step.entry.meta.lifecycle.retain)]

    def finish(self, same: Sequence[Work], outputs: Mapping[str, Any] | None) -> None:
        """Write what was only read and differs from what is recorded; nothing when all is as it was."""
        state = self._plan.prior.state
        manifest = self._plan.catalog.manifest.file
        kept = sealed(outputs, state.salt) if outputs is not None else None
        commit = Commit(
            self.news(same),
            [*self._plan.prior.superseded, *self._gone(same)],
            self._resolved(same),
            outputs=kept if kept != state.outputs or (state.encrypted and bare(kept) < bare(state.outputs)) else None,
        )
        if self._plan.prior.undeclared or not self._plan.complete:
            commit = commit._replace(put=[*commit.put, *self._renamed(commit)])
        if not commit.empty or not state.serial:
            commit = commit._replace(manifest=manifest if manifest != state.manifest else None)
        self._commit(commit)
        if self._known is not None and (self._plan.prior.lineup.recorded or self._plan.catalog.instances):
            self._commit(Commit(drop=unused(self._known.records.values())))

    def _renamed(self, commit: Commit) -> list[Record]:
        """Give what this run has not looked at, and what has lost its name or refers to something by a former one."""
        plan = self._plan
        looked_at = {step.entry.index: step.entry.key for step in plan.steps if not step.noop}
        moved = {index: record for index, record in plan.prior.records.items() if index in looked_at}
        present = renames(plan.catalog, moved)
        now = {**self._store.load(self._name).records, **{record.key: record for record in commit.put}}
        touched = {*looked_at.values(), *commit.drop}
        others = [record for key, record in now.items() if key not in touched]
        taken = {record.reference for key, record in now.items() if key in touched}
        present = present.kept({str(name) for name in taken}, complete=plan.complete)
        after = told_apart(map(present.record, others), taken)
        return [new for old, new in zip(others, after, strict=True) if new != old]

    def _commit(self, commit: Commit) -> None:
        if commit.done or not commit.empty:
            self._known = self._store.commit(self._name, commit)

    def record(self, work: Work, *, plain: bool = False) -> Record | None:
        """Give what is to be recorded of a work; None when there is nothing and nothing was recorded.

        ``plain``: none of its values is a secret, unknown, or holds anything else.
        """
        entry, plan = work.step.entry, self._plan
        definition, lifecycle = entry.definition, entry.meta.lifecycle
        before = plan.prior.records.get(entry.index)
        failed = work.outcome.status == "failed" or bool(work.why) or work.skipped
        if failed and before is None and not exists(work.is_):
            return None
        if work.skipped and before is not None and work.is_ == work.step.is_:
            return before._replace(status="tainted") if lasting(work.step) else before
        stays = failed and before is not None and not (work.action in MADE_ANEW and exists(work.is_))
        inputs, should, is_ = as_it_is(work) if plain else keep(work, plan.prior.state.salt, failed=failed)
        # In the order of the fields: naming nineteen of them takes as long as all the rest.
        return Record(
            definition.name,
            entry.name,
            entry.title,
            inputs,
            before.should if stays and before is not None else should,
            is_,
            self._owned(work, before),
            required(plan.catalog, entry),
            entry.pending and _value_requires(entry),
            protected(entry, before),
            lifecycle.retain,
            lifecycle.replace,
            lifecycle.deleted_with,
            lifecycle.external,
            entry.provider,
            definition.schema_version,
            _status(work, before) if failed else "ready",
            entry.declaration.parent,
            _last_run(work, before) if "imperative" in definition.features else "",
        )

    def _owned(self, work: Work, before: Record | None) -> bool:
        """Whether it is ours: said so, recorded so, made or run by this run, or by one that was cut while it made it.

        What is declared to be external has been handed over.
        """
        lifecycle = work.step.entry.meta.lifecycle
        if lifecycle.owned is not None or lifecycle.external:
            return bool(lifecycle.owned) and not lifecycle.external
        recorded = before is not None and before.owned
        if recorded or work.action in MAKES_OURS or _has_run(work):
            return True
        cut = self._intents.get(work.step.entry.key)
        return cut is not None and cut.makes

    def _gone(self, works: Iterable[Work]) -> list[Key]:
        """Give what is recorded, should be absent and is: it has gone by itself, or in a run that was cut."""
        return [
            work.step.entry.key
            for work in works
            if work.step.entry.index in self._plan.prior.records
            and not (work.removal or work.step.noop or exists(work.is_) or exists(work.should))
        ]

    def _resolved(self, works: Iterable[Work]) -> list[Key]:
        """Give what was in doubt, has been looked at, and is in order."""
        return [work.step.entry.key for work in works if work.step.entry.key in self._intents] if self._intents else []

    def news(self, works: Iterable[Work]) -> list[Record]:
        """Give the records of what was left as it is and is not recorded so."""
        return [record for work in works if (record := self._news(work)) is not None]

    def _news(self, work: Work) -> Record | None:
        """Give the record of what was left as it is, unless the same is recorded already."""
        if work.step.noop or work.removal or work.step.decision.error:
            return None
        if work.step.entry.index in self._plan.settled and work.is_ is work.step.is_:
            return None
        if "imperative" in work.step.definition.features:
            return self.record(work) if _has_run(work) or work.step.entry.key in self._intents else None
        before = self._plan.prior.records.get(work.step.entry.index)
        if not exists(work.should) and (before is None or not exists(work.is_)):
            return None  # it is gone, or stays although it should not: that is forgotten, and not ours
        if work.is_ is None and before is None:
            return None
        record = self.record(work)
        if before is None or record is None:
            return record
        # What only the resource can tell may have changed by itself: that alone is not news.
        if not record.asks_as(before) or (self._plan.prior.state.encrypted and _fuller(record, before)):
            return record
        managed = work.step.definition.managed
        read_as = record.is_ == before.is_ or _only(record.is_, managed) == _only(before.is_, managed)
        return None if read_as else record


def _status(work: Work, before: Record | None) -> str:
    """Give how a resource stands after its work failed; what went to be replaced and is not back is to be made."""
    gone = work.action is Action.REPLACE or (before is not None and before.status == "pending")
    if gone and not exists(work.is_):
        return "pending"
    return "tainted" if lasting(work.step) else "partial"


def _has_run(work: Work) -> bool:
    """Whether what cannot be read back has been done; of a refresh its provider may say that nothing was."""
    imperative = "imperative" in work.step.definition.features
    return imperative and bool(work.started) and work.outcome.status != "unchanged"


def _last_run(work: Work, before: Record | None) -> str:
    """Give when what cannot be read back was last done: now, or as it was recorded."""
    if _has_run(work):
        return datetime.now(UTC).isoformat(timespec="seconds")
    return before.last_run if before is not None else ""


def _value_requires(entry: Entry) -> Mapping[str, Sequence[str]]:
    """Give, by attribute, the resources that its value comes from."""
    return {name: sorted({str(source.reference) for source in entry.sources.get(name, ())}) for name in entry.pending}


def _fuller(record: Record, before: Record) -> bool:
    """Whether a record keeps a secret of which the one before has only the digest: it was made without a key."""
    return bare(record.should) < bare(before.should) or bare(record.is_) < bare(before.is_)


def _only(resource: Mapping[str, Any] | None, attributes: Sequence[str]) -> dict[str, Any] | None:
    return None if resource is None else {name: resource.get(name) for name in attributes}
