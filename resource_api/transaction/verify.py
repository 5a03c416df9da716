"""Whether what was asked for has come about, told by what was read after it was done.

What becomes of a resource of which something is missing is not decided here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.change import Difference, exists
from resource_api.model.values.values import same_value
from resource_api.plan.diff import ComparisonError, compare, equal_places

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from resource_api.model.planner_queries import Observation
    from resource_api.model.provider_functions import ProviderFunctions
    from resource_api.model.type_definition import Name, Resource
    from resource_api.snapshot.check_rows import Found
    from resource_api.transaction.operation_run import OperationRun

_SHORT: Final = 16
#: What is equal to nothing of another kind, as 1 is to True.
_ALIKE: Final = frozenset({str, type(None)})


def arrive(runs: Iterable[OperationRun], rows: Mapping[Name, Found], tools: ProviderFunctions) -> None:
    """Note of which runs certainly nothing is missing, and what was read; told for all of them at once."""
    pairs = list(_comparable(runs, rows))
    for place in equal_places([(run.step.entry, row) for run, row in pairs], tools):
        run, row = pairs[place]
        run.arrived = _once(row, run.should)


def _once(row: Resource, should: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give what was read, held once where it is what was asked for: all of it, or each text that is not short."""
    if row == should and _ALIKE.issuperset(map(type, should.values())):
        return should
    for name, text in should.items():
        if type(text) is str and len(text) > _SHORT and row.get(name) == text:
            row[name] = text
    return row


def _comparable(runs: Iterable[OperationRun], rows: Mapping[Name, Found]) -> Iterator[tuple[OperationRun, Resource]]:
    """Give the runs that comparing alone decides about, each with the row that was read."""
    for run in runs:
        run.arrived = None
        entry, row = run.step.entry, rows.get(run.name)
        if row is None or isinstance(row, str) or not exists(row):
            continue
        if not run.removal and run.asked() is entry.should and exists(entry.should) and not run.decision.predicted:
            yield run, row


def missing(run: OperationRun, seen: Observation, tools: ProviderFunctions) -> list[Difference]:
    """Give what of a change is not there yet."""
    row, failure = seen
    asked = run.asked()
    if failure:
        return [Difference("ensure", None, None, failure)]
    if not exists(asked):
        return [Difference("ensure", (row or {}).get("ensure", "present"), "absent")] if exists(row) else []
    if row is None or not exists(row):
        return [Difference("ensure", "absent", asked.get("ensure", "present"))]
    expected = run.decision.predicted.items()
    unforeseen = [Difference(k, row.get(k), v) for k, v in expected if not same_value(row.get(k), v)]
    try:
        return compare(run.step.entry, row, asked, tools) + unforeseen
    except ComparisonError as error:
        return [Difference("ensure", None, None, str(error))]
