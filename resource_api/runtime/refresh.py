"""Refresh: read every recorded resource again and write what has changed to state; no resource is changed."""

from __future__ import annotations

import time
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from resource_api.catalog import targets as selecting
from resource_api.model.change import exists
from resource_api.model.event import Drifted
from resource_api.model.record import Commit, Record
from resource_api.model.report import Summary
from resource_api.model.sealed_secrets import seal_secrets
from resource_api.model.values.errors import DefinitionError, Problem, ResourceError
from resource_api.model.values.text import escape
from resource_api.plan import drift as drifting
from resource_api.plugins.provider_pool import ProviderPool
from resource_api.prior.schema_upgrade import rename, upgrade
from resource_api.snapshot.configure_providers import configure_instances
from resource_api.snapshot.snapshot import Snapshot
from resource_api.system.gc_pause import gc_paused
from resource_api.transaction.records import recorded_state

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.model.record import StackState
    from resource_api.model.type_definition import Name
    from resource_api.runtime.manifest_compiler import Source
    from resource_api.runtime.runtime import Runtime
    from resource_api.state.store import StackName


def refresh(
    runtime: Runtime,
    source: Source,
    inputs: Mapping[str, Any] | None = None,
    *,
    targets: Sequence[str] = (),
    excludes: Sequence[str] = (),
    noop: bool = False,
) -> list[str]:
    """Read every recorded resource of a manifest's stack again and record what is there now.

    Return the references of the resources that have drifted. ``targets`` and ``excludes`` select resources; ``noop``:
    nothing is recorded, and no lock is taken. Raise ``ResourceError`` naming every resource that could not be read,
    after the others are recorded; ``UsageError`` for a pattern that matches nothing.
    """
    providers = ProviderPool(runtime.registry, runtime.run)
    started, drift = time.time(), list[Drifted]()
    with nullcontext() if noop else runtime.lock("refresh"), providers, gc_paused():
        catalog = runtime.catalog(source, inputs, providers)
        name = runtime.name(catalog)
        # Nothing is planned here: a provider whose configuration refers to resources is configured as it was recorded.
        known = {key: instance for key, instance in catalog.instances.items() if not instance.pending}
        instances = configure_instances(catalog._replace(instances=known), runtime.store.load(name), providers)
        for option, patterns in (("--target", targets), ("--exclude", excludes)):
            selecting.check_stack(patterns, option, instances.state)
        state, renaming = rename(instances.state, instances.state.records, providers.functions)
        providers.assigned = partial(_recorded_implementations, state)
        snapshot = Snapshot(providers)
        drifted: list[Record] = []
        failures: list[str] = []
        selected = _selected(list(state.records.values()), targets, excludes, selecting.aliases(catalog))
        for instance in dict.fromkeys(record.instance for record in selected):
            records = [record for record in selected if record.instance == instance]
            with runtime.log.bind(**name._asdict(), phase="observe"):
                failures += _read_again(snapshot, state, records, drifted, drift)
        for each in drift:
            runtime.notify(each)
        for commit in () if noop else (instances.commit, renaming, Commit(drifted)):
            if not commit.empty:
                runtime.store.commit(name, commit)
    if runtime.on_document is not None:
        runtime.on_document(_document(runtime, name, started, drift, failures))
    if failures:
        raise ResourceError("\n".join(map(escape, failures)))
    return [str(record.reference) for record in drifted]


def _selected(
    records: Sequence[Record], targets: Sequence[str], excludes: Sequence[str], aliases: Mapping[str, str]
) -> list[Record]:
    chosen = set(range(len(records)))
    if targets:
        chosen = selecting.places(targets, records, "--target", aliases=aliases)
    chosen -= selecting.places(excludes, records, "--exclude", aliases=aliases)
    return [record for place, record in enumerate(records) if place in chosen]


def _recorded_implementations(state: StackState, instance: str) -> dict[Name, str]:
    """Return, by name, which of several providers made each recorded resource of an instance."""
    records = [record for record in state.records.values() if record.instance == instance]
    return {record.name: record.implementation for record in records if record.implementation}


def _document(
    runtime: Runtime, name: StackName, started: float, drift: list[Drifted], failures: list[str]
) -> dict[str, Any]:
    """Return the document of a refresh, which has drift and no steps."""
    from resource_api.render import json as documents  # noqa: PLC0415 - only where it is wanted
    from resource_api.render.runs import document as run_document  # noqa: PLC0415 - see above

    counts = Summary(refreshed=len(drift), failed=len(failures))
    summary = {**counts._asdict(), "exit_code": int(bool(failures))}
    run = {**name._asdict(), "run": "", "command": "refresh", "started": started, "ended": time.time()}
    found = run_document.history_document({**run, "summary": summary, "drifted": len(drift)})
    found["drift"] = [documents.drift(each.reference, each.changes) for each in drift]
    found["problems"] = [documents.problem(Problem(None, failure, code="resource")) for failure in failures]
    masked: dict[str, Any] = runtime.log.mask.document(found)
    return masked


def _read_again(
    snapshot: Snapshot, state: StackState, records: list[Record], drifted: list[Record], drift: list[Drifted]
) -> list[str]:
    """Read the records of one provider instance; append the changed ones to ``drifted`` and return the failures."""
    try:
        tools = snapshot.providers.functions(records[0].instance)
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
            drift.append(Drifted(str(record.reference), changes))
            known = {**(record.is_ or {}), **record.should}
            is_ = recorded_state(definition, known, row) if row is not None and exists(row) else None
            drifted.append(record._replace(is_=seal_secrets(is_, state.salt), schema_version=definition.schema_version))
    return failures
