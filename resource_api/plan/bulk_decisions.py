"""What is in order, or simply not there yet, told for thousands of resources before any is planned by itself.

The plainest alone are told: of all others nothing is said here, and the planner looks at each. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.model.change import exists
from resource_api.model.entry import NO_META
from resource_api.model.record import NO_LIFECYCLE, Record
from resource_api.model.step import SAME
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.plan.decide import create_decision
from resource_api.plan.diff import equal_places

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from resource_api.catalog.compile import Catalog
    from resource_api.model.entry import Entry
    from resource_api.model.provider_functions import ProviderFunctions
    from resource_api.model.step import Decision
    from resource_api.model.type_definition import TypeDefinition
    from resource_api.prior.match import Prior

    Row = Mapping[str, Any]


class BulkDecisions(NamedTuple):
    """What is told, by the entry's index: how each was read and what follows; which are in order and recorded so."""

    told: Mapping[int, tuple[Row | None, Decision]] = {}
    recorded: frozenset[int] = frozenset()


def decide_in_bulk(
    entries: Iterable[Entry],
    catalog: Catalog,
    prior: Prior,
    seen: Callable[[Entry], tuple[Row | None, str]],
    tools: Callable[[str], ProviderFunctions],
) -> BulkDecisions:
    """Tell of those ``entries`` that are as they should be, or not there, and that nothing else concerns.

    That is: no record but that of the same name, no wish, no metaparameter.
    """
    told: dict[int, tuple[Row | None, Decision]] = {}
    recorded = set()
    for there, missing in _plain(entries, prior, seen):
        for place in equal_places(there, tools(there[0][0].instance)) if there else ():
            entry, row = there[place]
            record = prior.records.get(entry.index)
            if record is None:
                told[entry.index] = row, SAME
            elif record.status == "ready" and (record.title, record.parent) == (entry.title, entry.parent):
                told[entry.index] = row, SAME
                if _says_so(record, entry, row) and list(record.requires) == required_references(catalog, entry):
                    recorded.add(entry.index)
        # What may not have been read yet, or is predicted, is the planner's.
        if missing and missing[0][0].instance not in catalog.instances and tools(missing[0][0].instance).plan is None:
            for entry, nothing in missing:
                if type(ensure := entry.should.get("ensure")) is str and entry.index not in prior.records:
                    told[entry.index] = nothing, create_decision(ensure, cut=False)
    return BulkDecisions(told, frozenset() if prior.state.intents else frozenset(recorded))


def _plain(
    entries: Iterable[Entry], prior: Prior, seen: Callable[[Entry], tuple[Row | None, str]]
) -> Iterable[tuple[list[tuple[Entry, Row]], list[tuple[Entry, Row | None]]]]:
    """Give, type by type, the entries that what was read decides about: those that exist, and those that do not."""
    found: dict[TypeDefinition, tuple[list[tuple[Entry, Row]], list[tuple[Entry, Row | None]]]] = {}
    concerned = prior.errors.keys() | prior.predecessors.keys()
    for entry in entries:
        if entry.meta is NO_META and not (entry.pending or entry.sources or entry.index in concerned):
            row, failure = seen(entry)
            if not failure and exists(entry.should):
                there, missing = found.get(entry.definition) or found.setdefault(entry.definition, ([], []))
                if row is not None and exists(row):
                    there.append((entry, row))
                elif entry.definition.ensurable:
                    missing.append((entry, row))
    for definition, pairs in found.items():
        if not definition.write_only and "imperative" not in definition.features:
            yield pairs


def _says_so(record: Record, entry: Entry, row: Row) -> bool:
    """Whether making a record again would say the same."""
    return (
        record.is_ is not None
        and record.is_.items() <= row.items()
        and record.should == entry.should
        and record.inputs == entry.inputs
        and record.lifecycle == NO_LIFECYCLE
        and record.provider is None
        and record.schema_version == entry.definition.schema_version
        and not record.value_requires
    )


def required_references(catalog: Catalog, entry: Entry) -> list[str]:
    """Give the references of what must come directly before an entry."""
    before = catalog.requires.get(entry.index)
    return [catalog.entries[index].reference_text for index in before] if before else []
