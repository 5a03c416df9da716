"""Invariants of every plan, and of state, world and report after every run.

The bench checks them around each run of each test, so that a scenario checks more than its own subject.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from resource_api.model import codec
from resource_api.model.action import Action
from resource_api.model.record import STATUSES
from resource_api.model.values.values import same_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api.model.record import StackState
    from resource_api.model.report import RunReport
    from resource_api.plan.planner import ExecutionPlan
    from tests.lifecycle.world import Bench


class Before(NamedTuple):
    """World and state before a run."""

    things: Mapping[str, Mapping[str, Any]]
    state: StackState


def of_plan(plan: ExecutionPlan) -> None:
    """Check that steps occur once, in order, and that no deletion is beside another step of the same name."""
    urns = [step.urn for step in plan.steps]
    assert len(urns) == len(set(urns)), urns
    observed: dict[tuple[Any, Any], list[tuple[Action, bool]]] = {}
    for index, operation in enumerate(plan.operations):
        assert operation.number == index
        assert all(second < index for second in plan.waits.get(index, ())), "an operation waits for a later one"
        step = operation.step
        name = step.old_name if operation.removal else step.name
        observed.setdefault((step.entry.type, name), []).append((step.action, operation.removal))
    for key, uses in observed.items():
        actions = {action for action, _ in uses}
        assert len(uses) == 1 or actions == {Action.REPLACE}, f"{key} has several steps: {uses}"
        assert len(uses) <= 2, f"{key} has several steps: {uses}"
    _ordered(plan)


def _ordered(plan: ExecutionPlan) -> None:
    """Check that declared resources are in the order of the catalog's relationships."""
    path = {o.step.entry.index: o.number for o in plan.operations if not o.removal}
    for index, before in plan.catalog.requires.items():
        for second in before:
            if index in path and second in path:
                assert path[second] < path[index], "a dependent stands before what it requires"


def of_state(state: StackState) -> None:
    """Check that records can be encoded and found, and contain no secrets and no unknown values."""
    for key, record in state.records.items():
        assert record.key == key
        text = codec.encode(record)
        assert "secret" not in text, text
        assert str(record.reference) not in record.requires, f"{record.reference} requires itself"
        assert record.status in STATUSES
    assert not state.outputs or codec.encode(state.outputs)
    for target, sources in state.owed.items():
        assert sources, f"{target} owes a refresh to nobody"


def of_run(bench: Bench, before: Before, report: RunReport, *, noop: bool) -> None:
    """Check that exactly the reported changes have happened, and that state agrees with the world."""
    state, world = bench.state, bench.world
    of_state(state)
    # One that goes may have the title of one that is declared; what was changed may be refreshed too.
    rest = (Action.REFRESH, Action.DELETE, Action.FORGET)
    ends = [(step.reference, step.action if step.action in rest else None) for step in report.steps]
    copies = Counter(str(record.reference) for record in before.state.records.values())
    for (reference, action), times in Counter(ends).items():
        assert times <= (max(1, copies[reference]) if action else 1), f"reported twice: {ends}"
    if noop:
        assert (world.things, state) == (before.things, before.state)
        return
    failed = {item.reference for item in report.steps if item.status == "failed"}
    doubts = {str(intent.reference) for key, intent in state.intents.items() if key not in before.state.intents}
    assert doubts <= failed, "a run that has ended leaves no intent of its own but of what it could not read"
    _truthful(bench, before, report)
    _protected(bench, before)
    assert state.serial >= before.state.serial
    if not before.state.lineage or not state.lineage:
        return
    assert state.lineage == before.state.lineage


def _truthful(bench: Bench, before: Before, report: RunReport) -> None:
    """Check that records of changed resources equal the world, and that no other resource was changed."""
    touched = {(kind, name) for verb, kind, name in bench.world.calls if verb != "refresh"}
    for kind, rows in bench.world.things.items():
        was = before.things[kind]
        for name in rows.keys() | was.keys():
            if rows.get(name) != was.get(name):
                assert (kind, name) in touched
    succeeded = {step.reference for step in report.steps if step.status == "success"}
    for key, record in bench.state.records.items():
        if str(record.reference) not in succeeded and key not in touched:
            continue
        row = bench.world.row(key) if key[0] != "job" else None
        if key[0] == "job" or key[0] in bench.world.unreadable:
            continue
        if row is None:
            assert record.is_ is None or record.is_.get("ensure") == "absent", f"{key} is recorded and gone"
            continue
        assert record.is_ is not None, f"{key} exists and is recorded as absent"
        for attribute, value in record.is_.items():
            assert same_value(row.get(attribute), value), (
                f"{key}.{attribute}: recorded {value!r}, is {row.get(attribute)!r}"
            )


def _protected(bench: Bench, before: Before) -> None:
    """Check that no resource that is still protected was deleted."""
    for key, record in before.state.records.items():
        current = bench.state.records.get(key)
        protected = (
            record.lifecycle.protect and (current is None or current.lifecycle.protect) and key not in bench.lifted
        )
        if protected and before.things[key[0]].get(key[1]) is not None:
            assert bench.world.row(key) is not None or ("delete", *key) not in bench.world.calls, f"{key} was protected"
