"""Whether a provider's call has brought about what was requested, judged by what was read after it.

What becomes of a resource of which something is missing is decided by ``segment_run``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.change import Difference, conceal_difference, exists
from resource_api.model.implied_secrets import mark_secrets
from resource_api.model.values.values import UNKNOWN, same_value
from resource_api.plan.diff import ComparisonError, compare, equal_places

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from resource_api.model.planner_queries import Observation
    from resource_api.model.provider_functions import ProviderFunctions
    from resource_api.model.type_definition import Name, Resource
    from resource_api.snapshot.check_rows import Found
    from resource_api.transaction.operation_run import OperationRun

#: The length from which equal texts are held once.
_LONG: Final = 16
#: Types whose values equal no value of another type, as 1 equals True.
_DISTINCT: Final = frozenset({str, type(None)})


def verified(
    runs: Iterable[OperationRun], rows: Mapping[Name, Found], functions: ProviderFunctions
) -> dict[int, Mapping[str, Any]]:
    """Return, by number, the row of each operation of which certainly nothing is missing; all are compared at once.

    For the others, see ``missing``.
    """
    pairs = list(_comparable(runs, rows))
    places = equal_places([(run.step.entry, row) for run, row in pairs], functions)
    return {run.number: _shared(row, run.should) for run, row in (pairs[place] for place in places)}


def _shared(row: Resource, should: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a row that shares its equal values with ``should``, to hold them in memory once."""
    if row == should and _DISTINCT.issuperset(map(type, should.values())):
        return should
    for name, text in should.items():
        if type(text) is str and len(text) > _LONG and row.get(name) == text:
            row[name] = text
    return row


def _comparable(runs: Iterable[OperationRun], rows: Mapping[Name, Found]) -> Iterator[tuple[OperationRun, Resource]]:
    """Yield the operations that a comparison with what is declared decides about, each with the row that was read."""
    for run in runs:
        should, row = run.step.entry.should, rows.get(run.name)
        if row is None or isinstance(row, str) or not exists(row):
            continue
        if not run.removal and run.requested() is should and exists(should) and not run.decision.predicted:
            yield run, row


def missing(run: OperationRun, seen: Observation, functions: ProviderFunctions) -> list[Difference]:
    """Return what of a change is not there in what was ``seen`` after the call."""
    row, failure = seen
    requested = run.requested()
    if failure:
        return [Difference("ensure", None, None, failure)]
    if not exists(requested):
        return [Difference("ensure", (row or {}).get("ensure", "present"), "absent")] if exists(row) else []
    if row is None or not exists(row):
        return [Difference("ensure", "absent", requested.get("ensure", "present"))]
    try:
        return [*compare(run.step.entry, row, requested, functions), *_unpredicted(run, row)]
    except ComparisonError as error:
        return [Difference("ensure", None, None, str(error))]


def _unpredicted(run: OperationRun, row: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield the values that are not as predicted; secrets in them are wrapped."""
    definition, predicted = run.step.definition, run.decision.predicted
    marked = mark_secrets(definition, predicted, run.should) if predicted else {}
    for name, value in predicted.items():
        if not (value is UNKNOWN or same_value(row.get(name), value)):
            yield conceal_difference(definition, Difference(name, row.get(name), marked[name]))
