"""Decide thousands of plain resources at once: those that are in sync, and those that are only missing.

A plain resource has no metaparameters, no references and no record but its own. The planner decides all others one by
one, with the same result for these: everything works without this module, only slower. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.model.change import exists
from resource_api.model.entry import NO_META
from resource_api.model.record import NO_LIFECYCLE
from resource_api.model.step import SAME
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.plan.decide import create_decision
from resource_api.plan.diff import equal_places

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from resource_api.catalog.compile import Catalog
    from resource_api.model.entry import Entry
    from resource_api.model.planner_queries import PlannerQueries
    from resource_api.model.record import Record
    from resource_api.model.step import Decision
    from resource_api.model.type_definition import TypeDefinition
    from resource_api.prior.match import Prior

    Row = Mapping[str, Any]


class BulkDecisions(NamedTuple):
    """Decisions by the index of the entry, each with the row that was read."""

    decided: Mapping[int, tuple[Row | None, Decision]] = {}
    #: The entries that are in sync and whose record would not change.
    in_sync: frozenset[int] = frozenset()


def decide_in_bulk(entries: Iterable[Entry], catalog: Catalog, prior: Prior, queries: PlannerQueries) -> BulkDecisions:
    """Return the decisions about those ``entries`` that are plain and in sync, or plain and missing."""
    decided: dict[int, tuple[Row | None, Decision]] = {}
    in_sync = set()
    if catalog.missing:
        entries = [entry for entry in entries if entry.instance not in catalog.missing]
    for existing, missing in _plain_by_type(entries, prior, queries):
        places = equal_places(existing, queries.functions(existing[0][0].instance)) if existing else ()
        for entry, row in map(existing.__getitem__, places):
            record = prior.records.get(entry.index)
            if record is None:
                decided[entry.index] = row, SAME
            elif record.status == "ready" and (record.title, record.parent) == (entry.title, entry.parent):
                decided[entry.index] = row, SAME
                if _is_recorded(record, entry, row) and list(record.requires) == required_references(catalog, entry):
                    in_sync.add(entry.index)
        # An instance that is configured late may not have been read yet, and a provider's plan needs the planner.
        instance = missing[0][0].instance if missing else ""
        if missing and instance not in catalog.instances and queries.functions(instance).plan is None:
            for entry, absent in missing:
                if type(ensure := entry.should.get("ensure")) is str and entry.index not in prior.records:
                    decided[entry.index] = absent, create_decision(ensure)
    return BulkDecisions(decided, frozenset() if prior.state.intents else frozenset(in_sync))


def _plain_by_type(
    entries: Iterable[Entry], prior: Prior, queries: PlannerQueries
) -> Iterable[tuple[list[tuple[Entry, Row]], list[tuple[Entry, Row | None]]]]:
    """Yield for each type the plain entries that exist and those that do not, each with its row."""
    found: dict[TypeDefinition, tuple[list[tuple[Entry, Row]], list[tuple[Entry, Row | None]]]] = {}
    excluded = prior.errors.keys() | prior.predecessors.keys()
    for entry in entries:
        if entry.meta is NO_META and not (entry.pending or entry.sources or entry.index in excluded):
            row, failure = queries.observation(entry)
            if not failure and exists(entry.should):
                existing, missing = found.get(entry.definition) or found.setdefault(entry.definition, ([], []))
                if row is not None and exists(row):
                    existing.append((entry, row))
                elif entry.definition.ensurable:
                    missing.append((entry, row))
    for definition, pairs in found.items():
        if not definition.write_only and "imperative" not in definition.features:
            yield pairs


def _is_recorded(record: Record, entry: Entry, row: Row) -> bool:
    """Return whether recording the resource again would change nothing."""
    return (
        record.is_ is not None
        and record.is_.items() <= row.items()
        and record.should == entry.should
        and record.inputs == entry.inputs
        and record.schema_version == entry.definition.schema_version
        and not record.value_requires
        and record.lifecycle == NO_LIFECYCLE
        and record.provider is None
    )


def required_references(catalog: Catalog, entry: Entry) -> list[str]:
    """Return the references of what must come directly before an entry."""
    before = catalog.requires.get(entry.index)
    return [catalog.entries[index].reference_text for index in before] if before else []
