"""Whether what was asked for has come about, told by what was read after it was done.

What becomes of a resource of which something is missing is not decided here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.change import Difference, exists
from resource_api.model.values.values import same
from resource_api.plan.diff import Incomparable, compare, level

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from resource_api.model.provider_functions import Tools
    from resource_api.model.type_definition import Name, Resource
    from resource_api.snapshot.check_rows import Found
    from resource_api.snapshot.snapshot import Seen
    from resource_api.transaction.operation_run import Work

_SHORT: Final = 16
#: What is equal to nothing of another kind, as 1 is to True.
_ALIKE: Final = frozenset({str, type(None)})


def arrive(works: Iterable[Work], rows: Mapping[Name, Found], tools: Tools) -> None:
    """Note of which works certainly nothing is missing, and what was read; told for all of them at once."""
    pairs = list(_comparable(works, rows))
    for place in level([(work.step.entry, row) for work, row in pairs], tools):
        work, row = pairs[place]
        work.arrived = _once(row, work.should)


def _once(row: Resource, should: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give what was read, held once where it is what was asked for: all of it, or each text that is not short."""
    if row == should and _ALIKE.issuperset(map(type, should.values())):
        return should
    for name, text in should.items():
        if type(text) is str and len(text) > _SHORT and row.get(name) == text:
            row[name] = text
    return row


def _comparable(works: Iterable[Work], rows: Mapping[Name, Found]) -> Iterator[tuple[Work, Resource]]:
    """Give the works that comparing alone decides about, each with the row that was read."""
    for work in works:
        work.arrived = None
        entry, row = work.step.entry, rows.get(work.name)
        if row is None or isinstance(row, str) or not exists(row):
            continue
        if not work.removal and work.asked() is entry.should and exists(entry.should) and not work.decision.foreseen:
            yield work, row


def missing(work: Work, seen: Seen, tools: Tools) -> list[Difference]:
    """Give what of a change is not there yet."""
    row, failure = seen
    asked = work.asked()
    if failure:
        return [Difference("ensure", None, None, failure)]
    if not exists(asked):
        return [Difference("ensure", (row or {}).get("ensure", "present"), "absent")] if exists(row) else []
    if row is None or not exists(row):
        return [Difference("ensure", "absent", asked.get("ensure", "present"))]
    expected = work.decision.foreseen.items()
    unforeseen = [Difference(k, row.get(k), v) for k, v in expected if not same(row.get(k), v)]
    try:
        return compare(work.step.entry, row, asked, tools) + unforeseen
    except Incomparable as error:
        return [Difference("ensure", None, None, str(error))]
