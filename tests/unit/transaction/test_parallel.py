"""Which operations may begin side by side, and which share a call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from resource_api.transaction.operation_run import OperationRun
from resource_api.transaction.parallel import Schedule, split_calls, unrelated_neighbours
from tests.unit.transaction.plans import plan

if TYPE_CHECKING:
    from collections.abc import Iterable

    from resource_api.model.step import Operation


def _names(operations: Iterable[Operation]) -> list[str]:
    return [str(operation.step.reference) for operation in operations]


def test_side_by_side_a_segment_is_all_of_a_type_that_waits_for_nothing_else() -> None:
    """The order of the manifest does not count, relationships do."""
    created = plan({"Part[a]": {}, "Tool[b]": {}, "Part[c]": {}, "Part[d]": {"require": "Tool[b]"}}, parallel=2)
    schedule = Schedule(created)
    parts, tools = schedule.take(), schedule.take()
    assert [_names(parts), _names(tools)] == [["Part[a]", "Part[c]"], ["Tool[b]"]]
    assert schedule.take() == []
    schedule.end(tools)
    assert schedule.take() == []  # one call at a time of a type without `parallel`
    schedule.end(parts)
    last = schedule.take()
    assert _names(last) == ["Part[d]"]
    schedule.end(last)
    assert not schedule.open


def test_neighbours_of_different_types_without_a_relationship_are_unrelated() -> None:
    """They are in order only because the manifest is."""
    created = plan({"Part[a]": {}, "Tool[b]": {}, "Part[c]": {"require": "Tool[b]"}})
    assert [_names(pair) for pair in unrelated_neighbours(created)] == [["Part[a]", "Tool[b]"]]


def test_calls_are_of_about_the_same_size_and_keep_chains_together() -> None:
    """What waits for another is in its call, after it."""
    created = plan({"Part[a]": {}, "Part[b]": {"require": "Part[a]"}, "Part[c]": {}, "Part[d]": {}})
    calls = split_calls([OperationRun(operation) for operation in created.operations], created.waits, 2)
    assert [[str(run.step.reference) for run in call] for call in calls] == [
        ["Part[a]", "Part[b]"],
        ["Part[c]", "Part[d]"],
    ]
