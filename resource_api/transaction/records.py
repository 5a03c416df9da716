"""Makes the record of an operation's resource: its state as read, its declaration, with secrets sealed.

State records the resource as it *is*, never only as declared. ``recorder`` decides when records are written.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from resource_api.model.action import CREATING, Action
from resource_api.model.change import exists
from resource_api.model.entry import EMPTY, NO_META
from resource_api.model.record import NO_LIFECYCLE, OWNING_ACTIONS, Record, RecordedLifecycle
from resource_api.model.sealed_secrets import (
    Sealed,
    conceal_like,
    count_digests,
    digest_secret,
    map_sealed,
    mark_secrets,
    seal_secrets,
)
from resource_api.model.values.reference import Reference
from resource_api.model.values.values import are_flat, is_flat, is_secret, is_unknown
from resource_api.plan.decide import required_references
from resource_api.plan.replacement import has_transient_reason
from resource_api.provider.private_data import PrivateData
from resource_api.transaction.operation_run import Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from resource_api.model.entry import Entry
    from resource_api.model.record import RecordKey
    from resource_api.model.type_definition import TypeDefinition
    from resource_api.plan.planner import ExecutionPlan
    from resource_api.plugins.implementations import Implementations
    from resource_api.transaction.operation_run import OperationRun

    #: The values of a record: as written, as declared, and as read, or None for a resource that does not exist.
    Values = tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any] | None]


class Records:
    """Makes the records of the operations of one plan."""

    def __init__(
        self,
        plan: ExecutionPlan,
        several: Mapping[str, Implementations] = EMPTY,
        private: PrivateData | None = None,
    ) -> None:
        """Make records for ``plan``; ``private`` is the data that providers stored in this run.

        ``several``: the provider instances whose types have several providers.
        """
        self._private = private or PrivateData()
        self._plan = plan
        self._several = several
        #: By key, the changes that an interrupted run had begun.
        self._intents = plan.prior.state.intents
        #: By key, the operations whose resources existed before us and are recorded for the first time.
        self.adopted: dict[RecordKey, OperationRun] = {}

    def record(self, run: OperationRun, *, plain: bool = False) -> Record | None:
        """Return the record of an operation's resource, or None if it has none and needs none.

        ``plain``: none of its values is secret, unknown or nested (``are_plain``). An operation whose resource existed
        before us and is recorded for the first time is added to ``adopted``.
        """
        entry, plan = run.step.entry, self._plan
        definition = entry.definition
        before = plan.prior.records.get(entry.index)
        failed = run.status in (Status.FAILED, Status.SKIPPED)
        unconfirmed = run.result.unconfirmed
        was_run = run.status is Status.FAILED and _was_run(run)
        if failed and before is None and not (exists(run.is_) or unconfirmed or was_run):
            return None
        if run.status is Status.SKIPPED and run.is_ == run.step.is_:
            # Nothing was done: the record stays, but a replacement whose reason passes with this run must not be lost.
            return before._replace(status="tainted") if before and has_transient_reason(run.step) else before
        inputs, should, is_ = plain_values(run) if plain else sealed_values(run, plan.prior.state.salt, failed=failed)
        if failed and before is not None and not (run.action in CREATING and (exists(run.is_) or unconfirmed)):
            should = before.should  # of a failed change the former declaration stays: the next run makes it again
        owned = self._is_owned(run, before)
        private = self._private_data(entry, before) if self._private.stored or before is not None else None
        if failed and before is None and not (owned or private) and run.has_no_effect:
            return None
        if before is None and not owned and entry.can_be_adopted and exists(run.is_) and exists(run.should):
            self.adopted[entry.key] = run
        return Record(
            type=definition.name,
            name=entry.name,
            title=entry.title,
            inputs=inputs,
            should=should,
            is_=is_,
            owned=owned,
            requires=required_references(plan.catalog, entry),
            value_requires=entry.pending and _value_requires(entry),
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
        """Return the private data of a resource, sealed: as stored in this run, or as recorded."""
        if entry.key in self._private.stored:
            return seal_secrets(self._private.get(entry.key), self._plan.prior.state.salt)
        return None if before is None else before.private

    def _implementation(self, entry: Entry, before: Record | None) -> str | None:
        """Return the provider that manages a resource of a type with several: the recorded one if none is chosen."""
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
        """Return whether a declared resource that is recorded as ours has brought this one, as its type tells."""
        origins = ((name, (run.is_ or {}).get(key)) for name, key in run.step.definition.brought_by.items())
        entries = (self._plan.catalog.find(Reference(name, title)) for name, title in origins if title)
        records = (self._plan.prior.records.get(entry.index) for entry in entries if entry is not None)
        return any(record is not None and record.owned and exists(record.is_) for record in records)

    def differing(self, runs: Iterable[OperationRun]) -> list[Record]:
        """Return the records of unchanged resources that differ from state."""
        return [record for run in runs if (record := self._record_if_different(run)) is not None]

    def _record_if_different(self, run: OperationRun) -> Record | None:
        """Return the record of an operation's resource if it must be written, otherwise None.

        Nothing is written for a step without effect, for a resource that is not ours, and where read-only values alone
        differ: so a run without changes writes no state.
        """
        step, entry, prior = run.step, run.step.entry, self._plan.prior
        if step.noop or run.removal or step.decision.error:
            return None
        if entry.index in self._plan.in_sync and run.is_ is step.is_:
            return None
        if "imperative" in step.definition.features:
            return self.record(run) if _was_run(run) or entry.key in self._intents else None
        before = prior.records.get(entry.index)
        if not exists(run.should) and (before is None or not exists(run.is_)):
            return None  # gone, and dropped from state; or existing although it should not, and not ours
        if run.is_ is None and before is None:
            return None
        record = self.record(run)
        if before is None or record is None:
            return record
        # Data that a reading has stored is written with other changes only (contract §10.9).
        comparable = record._replace(private=before.private)
        if not comparable.equals_except_is(before) or (prior.state.encrypted and _holds_more_secrets(record, before)):
            return record
        # A change of read_only values alone is not recorded.
        managed = step.definition.managed
        is_same = record.is_ == before.is_ or _values_of(managed, record.is_) == _values_of(managed, before.is_)
        return None if is_same else record


def _failed_status(run: OperationRun, before: Record | None) -> str:
    """Return the status of a resource whose operation failed: still to be created, replaced, or updated."""
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
    imperative = "imperative" in run.step.definition.features
    return imperative and bool(run.started) and run.result.reported != "unchanged"


def _last_run(run: OperationRun, before: Record | None) -> str:
    """Return when an imperative resource was last run, in ISO 8601: now, or as recorded."""
    if _was_run(run):
        return datetime.now(UTC).isoformat(timespec="seconds")
    return before.last_run if before is not None else ""


def recorded_lifecycle(entry: Entry, before: Record | None) -> RecordedLifecycle:
    """Return the lifecycle options to record; an undeclared ``protect`` keeps its recorded value."""
    lifecycle, protect = entry.meta.lifecycle, entry.is_protected(before)
    if entry.meta is NO_META and not protect:
        return NO_LIFECYCLE
    return RecordedLifecycle(protect, lifecycle.retain, lifecycle.replace, lifecycle.deleted_with, lifecycle.external)


def _value_requires(entry: Entry) -> Mapping[str, Sequence[str]]:
    """Return, by attribute, the references of the resources that its value comes from."""
    return {name: sorted({str(source.reference) for source in entry.sources.get(name, ())}) for name in entry.pending}


def _holds_more_secrets(record: Record, before: Record) -> bool:
    """Return whether a record holds a secret of which the former one, written without a key, has only the digest."""
    return count_digests(record.should) < count_digests(before.should) or count_digests(record.is_) < count_digests(
        before.is_
    )


def _values_of(attributes: Sequence[str], resource: Mapping[str, object] | None) -> dict[str, Any] | None:
    """Return the values of ``attributes``, None for an absent value; None if there is no resource."""
    return None if resource is None else {name: resource.get(name) for name in attributes}


# The values of a record


def are_plain(runs: Sequence[OperationRun]) -> bool:
    """Return whether no value of any operation is secret, unknown or nested, as in nearly every run."""
    if any(definition.secret for definition in {run.step.definition for run in runs}):
        return False
    states: list[Mapping[str, object]] = []
    for run in runs:
        entry = run.step.entry
        states.append(run.should)
        if run.is_ is not None and run.is_ is not run.should:
            states.append(run.is_)
        # Inputs that are the very values of ``should`` have been added with that.
        if type(entry.written) is dict or run.should is not entry.should:
            states.append(entry.inputs)
    return are_flat(states)


def plain_values(run: OperationRun) -> Values:
    """Return the values to record of an operation whose values are plain (``are_plain``)."""
    should, row = run.should, run.is_
    if row is not None and row is not should:
        recorded = run.step.definition.recorded_attributes
        row = {name: row[name] for name in row if name in should or name in recorded}
    return run.step.entry.inputs, should, row


def sealed_values(run: OperationRun, salt: bytes, *, failed: bool) -> Values:
    """Return the values to record of an operation, secrets sealed.

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
    """Return the values of a resource as written, sealed; a value that is secret by its type was written in clear."""
    definition = entry.definition
    hidden = definition.secret
    if not is_flat(should):
        hidden |= {name for name, value in should.items() if is_secret(value)}
    sealed = _sealed(_without_ephemeral(entry, entry.inputs), salt)
    if hidden := hidden & sealed.keys():
        return {**sealed, **{name: _digested(entry, name, should, salt) for name in hidden}}
    return sealed


def _digested(entry: Entry, name: str, should: Mapping[str, object], salt: bytes) -> Any:
    """Return a value as written with its secrets as digests, of which no source is recorded."""
    attribute = entry.definition.attributes[name]
    if attribute.write_only:
        return digest_secret(entry.inputs[name], salt)
    concealed = conceal_like(attribute.datatype.conceal(entry.inputs[name]), should.get(name))
    return map_sealed(seal_secrets(concealed, salt), lambda secret, _path: Sealed(secret.digest))


def _without_ephemeral(entry: Entry, values: Mapping[str, object]) -> Mapping[str, Any]:
    """Return the values of a resource that may be recorded."""
    hidden = entry.ephemeral
    return {name: value for name, value in values.items() if name not in hidden} if hidden else values


def recorded_state(
    definition: TypeDefinition, should: Mapping[str, object], row: Mapping[str, object]
) -> dict[str, Any]:
    """Return the recorded part of a row: declared attributes and those that only the resource can tell.

    ``should``, as declared or as recorded, shows which values are secret: ``get`` may return them in clear.
    """
    recorded, marked = definition.recorded_attributes, mark_secrets(definition, row, should)
    return {name: value for name, value in marked.items() if name in should or name in recorded}


def _sealed(values: Mapping[str, object], salt: bytes) -> Mapping[str, Any]:
    """Return the known values, secrets sealed; flat values are returned as they are."""
    if is_flat(values):
        return values
    return {name: seal_secrets(value, salt) for name, value in values.items() if not is_unknown(value)}
