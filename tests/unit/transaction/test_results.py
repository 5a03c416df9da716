"""How operations end, what follows for others, and what the log and a listener get."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from resource_api.model.action import Action
from resource_api.model.report import StepEnd, StepStart
from resource_api.system.log import ForwardedLog, line
from resource_api.transaction.operation_run import OperationRun, Status
from resource_api.transaction.refreshes import Refreshes
from resource_api.transaction.results import HALTED, INTERRUPTED, Events, Results
from tests.unit.transaction.plans import plan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api.plan.planner import ExecutionPlan


class Table:
    """The results of a plan, with its operations, and what was logged and sent."""

    def __init__(self, resources: Mapping[str, Any], exists: Mapping[str, int] | None = None, **options: Any) -> None:
        """Plan ``resources``."""
        self.plan: ExecutionPlan = plan(resources, exists, **options)
        self.log: list[str] = []
        self.sent: list[Any] = []
        self.events = Events(ForwardedLog("notice", lambda event: self.log.append(line(event))), self.sent.append)
        self.results = Results(self.plan, self.events)
        self.runs = [OperationRun(operation) for operation in self.plan.operations]


def test_a_failure_skips_what_waits_for_it_and_nothing_else() -> None:
    """At any distance, naming the first cause."""
    table = Table({"Part[a]": {}, "Part[b]": {"require": "Part[a]"}, "Part[c]": {"require": "Part[b]"}, "Part[d]": {}})
    a, b, c, d = table.runs
    table.results.fail(a, "broken")
    assert [table.results.skip_if_blocked(run) for run in (b, c, d)] == [True, True, False]
    assert [run.status for run in table.runs] == [Status.FAILED, Status.SKIPPED, Status.SKIPPED, Status.PENDING]
    assert table.log == [
        "Error: Part[a]: broken",
        "Warning: Part[b]: skipped because Part[a] failed",
        "Warning: Part[c]: skipped because Part[a] failed",
    ]
    assert [(report.reference, report.status) for report in table.results.reports] == [
        ("Part[a]", "failed"),
        ("Part[b]", "skipped"),
        ("Part[c]", "skipped"),
    ]
    table.results.complete(d)
    summary = table.results.summary()
    assert (summary.created, summary.failed, summary.skipped) == (1, 1, 2)


def test_what_waits_for_an_interrupted_operation_is_skipped_for_the_interrupt() -> None:
    """Nothing has failed, so no failure is named; after ``--fail-fast`` the first failure is."""
    chain: dict[str, Any] = {"Part[a]": {}, "Part[b]": {}, "Part[c]": {"require": "Part[b]"}}
    table = Table(chain)
    table.results.skip(table.runs[1], INTERRUPTED)
    assert table.results.skip_if_blocked(table.runs[2])
    assert [(report.error, report.cause) for report in table.results.reports] == [(INTERRUPTED, "")] * 2
    table = Table(chain)
    table.results.fail(table.runs[0], "broken")
    table.results.skip(table.runs[1], HALTED)
    assert table.results.skip_if_blocked(table.runs[2])
    assert [item.cause for item in table.results.reports] == ["", "Part[a]", "Part[a]"]
    assert table.results.reports[2].error == "skipped because Part[a] failed"


def test_a_failure_that_the_provider_has_logged_is_not_logged_again() -> None:
    """It is reported all the same."""
    table = Table({"Part[a]": {}})
    table.results.fail(table.runs[0], "broken", logged=True)
    assert table.log == []
    assert table.results.reports[0].error == "broken"


def test_a_change_affects_all_that_wait_for_it() -> None:
    """What is not related is as it was read."""
    resources = {"Part[a]": {}, "Part[b]": {"require": "Part[a]"}, "Part[c]": {"require": "Part[b]"}, "Part[d]": {}}
    table = Table(resources, {"b": 1, "c": 1, "d": 1})
    assert not any(table.results.affected(run.number) for run in table.runs)
    table.runs[0].started = 1.0
    table.results.complete(table.runs[0])
    assert [table.results.affected(run.number) for run in table.runs] == [True, True, True, False]


@pytest.mark.parametrize("status", ["complete", "fail"])
def test_a_call_affects_whatever_its_outcome_and_no_call_affects_nobody(status: str) -> None:
    """A failed call may have changed something; what is only forgotten or imported has changed nothing."""
    for started in (0.0, 1.0):
        table = Table({"Part[a]": {}, "Part[b]": {"require": "Part[a]"}}, {"b": 1})
        table.runs[0].started = started
        end = table.results.complete if status == "complete" else lambda run, table=table: table.results.fail(run, "no")
        end(table.runs[0])
        assert table.results.affected(table.runs[1].number) is bool(started)


def test_a_noop_operation_changes_nothing() -> None:
    """It is reported as noop, and affects nobody."""
    table = Table({"Part[a]": {}, "Part[b]": {"require": "Part[a]"}}, noop=True)
    table.results.complete(table.runs[0])
    assert table.results.reports[0].status == "noop"
    assert table.log == ["Notice: Part[a]: created (noop)"]
    assert not table.results.changed
    assert not table.results.affected(table.runs[1].number)
    assert table.results.summary().created == 1


def test_a_replacement_is_reported_once_with_its_second_half() -> None:
    """Its two operations are one step."""
    table = Table({"Part[a]": {"lifecycle": {"replace": "delete_first"}}}, {"a": 1}, replace=["Part[a]"])
    removal, creation = table.runs
    assert removal.removal
    for run in table.runs:
        table.events.step_started(run.step)
        table.results.complete(run)
    assert [(report.action, report.status) for report in table.results.reports] == [(Action.REPLACE, "success")]
    assert table.log == ["Notice: Part[a]: replaced"]
    assert [type(event) for event in table.sent] == [StepStart, StepEnd]
    assert table.results.succeeded(creation.step.entry.index)


def test_the_first_half_of_a_replacement_is_skipped_when_the_second_cannot_be_done() -> None:
    """A replacement goes whole or not at all."""
    resources = {"Tool[b]": {}, "Part[a]": {"require": "Tool[b]", "lifecycle": {"replace": "delete_first"}}}
    table = Table(resources, {"a": 1}, replace=["Part[a]"])
    tool = next(run for run in table.runs if run.step.entry.type == "tool")
    removal = next(run for run in table.runs if run.removal)
    table.results.fail(tool, "broken")
    assert table.results.skip_if_blocked(removal)


def test_an_unchanged_resource_is_counted_and_not_reported() -> None:
    """Nothing is logged or sent of it."""
    table = Table({"Part[a]": {}}, {"a": 1})
    table.results.unchanged(table.runs[0])
    assert table.results.reports == table.log == table.sent == []
    assert table.results.summary().unchanged == 1


def test_a_change_refreshes_the_listeners_that_exist_and_owes_it_to_them() -> None:
    """Until the refresh has succeeded."""
    table = Table({"Part[a]": {"notify": "Part[b]"}, "Part[b]": {}}, {"b": 1})
    refreshes = Refreshes(table.plan, table.results.changed)
    a, b = table.runs
    assert refreshes.sources(b) == []
    table.results.complete(a)
    assert refreshes.sources(b) == ["Part[a]"]
    assert refreshes.owed([a]) == {("part", "b"): ["Part[a]"]}
