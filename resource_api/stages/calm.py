"""What is in order and recorded so, told for thousands of resources at once, before any is planned by itself.

The plainest alone are told: of all others nothing is said here, and the planner looks at each. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.nouns.change import exists
from resource_api.nouns.entry import NO_META
from resource_api.nouns.named import NamedTuple
from resource_api.nouns.record import Record
from resource_api.stages.comparison import level

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from resource_api.nouns.definition import TypeDefinition
    from resource_api.nouns.entry import Entry
    from resource_api.nouns.tools import Tools
    from resource_api.stages.catalog import Catalog
    from resource_api.stages.prior import Prior

    Row = Mapping[str, Any]

#: The part of a record that metaparameters decide, and what it is for a resource that has none.
_OPTIONS: Final = slice(Record._fields.index("protect"), Record._fields.index("provider") + 1)
_NO_OPTIONS: Final = (False, False, None, None, False, None)


class Calm(NamedTuple):
    """The entries, by index, of which nothing is to be done: how they were read, and which are recorded just so."""

    rows: Mapping[int, Row] = {}
    recorded: frozenset[int] = frozenset()


def calm(
    entries: Iterable[Entry],
    catalog: Catalog,
    prior: Prior,
    seen: Callable[[Entry], tuple[Row | None, str]],
    tools: Callable[[str], Tools],
) -> Calm:
    """Give those of ``entries`` that are as they should be and that no record, wish or metaparameter concerns."""
    rows: dict[int, Row] = {}
    recorded = set()
    for pairs in _plain(entries, prior, seen):
        for place in level(pairs, tools(pairs[0][0].instance)):
            entry, row = pairs[place]
            record = prior.records.get(entry.index)
            if record is None:
                rows[entry.index] = row
            elif record.status == "ready" and (record.title, record.parent) == (entry.title, entry.parent):
                rows[entry.index] = row
                if _says_so(record, entry, row) and list(record.requires) == required(catalog, entry):
                    recorded.add(entry.index)
    return Calm(rows, frozenset() if prior.state.intents else frozenset(recorded))


def _plain(
    entries: Iterable[Entry], prior: Prior, seen: Callable[[Entry], tuple[Row | None, str]]
) -> Iterable[list[tuple[Entry, Row]]]:
    """Give, type by type, the entries that comparing alone decides about, each with the row that was read."""
    found: dict[TypeDefinition, list[tuple[Entry, Row]]] = {}
    concerned = prior.broken.keys() | prior.successors.keys()
    for entry in entries:
        if entry.meta is NO_META and not (entry.pending or entry.sources or entry.index in concerned):
            row, failure = seen(entry)
            if row is not None and not failure and exists(row) and exists(entry.should):
                found.setdefault(entry.definition, []).append((entry, row))
    for definition, pairs in found.items():
        if not definition.write_only and "imperative" not in definition.features:
            yield pairs


def _says_so(record: Record, entry: Entry, row: Row) -> bool:
    """Whether making a record again would say the same."""
    return (
        record.is_ is not None
        and record.is_.items() <= row.items()
        and record.should == entry.should
        and record.inputs == entry.spelling
        and record[_OPTIONS] == _NO_OPTIONS
        and record.schema_version == entry.definition.schema_version
        and not record.value_requires
    )


def required(catalog: Catalog, entry: Entry) -> list[str]:
    """Give the references of what must come directly before an entry."""
    before = catalog.requires.get(entry.index)
    return [str(catalog.entries[index].reference) for index in before] if before else []
