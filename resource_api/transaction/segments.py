"""Cuts operations into segments, each for one ``set``, and a segment into the calls of ``--parallel``. Pure.

In order, a segment is a series of consecutive operations of one type; with ``--parallel``, where relationships alone
order, it has all operations of a type that wait for nothing else (``parallel``). An imperative resource and one with a
timeout have a segment of their own; a segment is also split where an operation needs a value that another one yields,
and where it needs a failure.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import groupby
from typing import TYPE_CHECKING, Any

from resource_api.model.action import Action

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from resource_api.model.step import Operation
    from resource_api.plan.planner import ExecutionPlan
    from resource_api.transaction.operation_run import OperationRun


class SegmentBuilder:
    """Builds a segment, operation by operation."""

    def __init__(self, plan: ExecutionPlan, begins: Sequence[int]) -> None:
        """Begin with no operation; those from each number in ``begins`` on share no call with earlier ones."""
        self.operations: list[Operation] = []
        #: Whether the segment accepts no operation, because its only one has a call of its own.
        self.closed = False
        self._plan = plan
        self._begins = begins
        self._numbers: set[int] = set()
        self._names: set[object] = set()

    def accepts(self, operation: Operation) -> bool:
        """Return whether an operation can share a call with those of the segment."""
        if not self.operations:
            return True
        if self.closed or _needs_own_call(operation):
            return False
        step, operations = operation.step, self._plan.operations
        if step.entry.meta.on_failure != self.operations[0].step.entry.meta.on_failure:
            return False
        first, last = self.operations[0].number, operation.number
        if _name(operation) in self._names or any(first < number <= last for number in self._begins):
            return False
        # A resource that goes with another one is read when that has gone.
        forgets = step.decision.action is Action.FORGET or (
            operation.removal and step.entry.meta.lifecycle.deleted_with
        )
        conditional = step.decision.conditional
        if not (forgets or conditional or step.unknown or step.entry.pending or step.refreshed_by):
            return True
        waits_for = self._numbers.intersection(self._plan.waits.get(operation.number, ()))
        if waits_for and (step.unknown or forgets or conditional):
            return False
        # A predicted value is used only when it became true.
        if step.entry.pending and any(operations[number].step.decision.predicted for number in waits_for):
            return False
        # A refreshed resource notifies its listeners: they are refreshed by a later call.
        return not (step.refreshed_by and any(operations[number].step.refreshed_by for number in waits_for))

    def add(self, operation: Operation) -> None:
        """Add an operation that is accepted."""
        self.closed = _needs_own_call(operation)
        self.operations.append(operation)
        self._numbers.add(operation.number)
        self._names.add(_name(operation))


def in_order(plan: ExecutionPlan) -> Iterator[list[Operation]]:
    """Yield the segments of a plan in its order: consecutive operations of one type that can share a call."""
    begins = plan.stage_begins
    for _, same_type in groupby(plan.operations, key=lambda operation: operation.definition.instance):
        operations = list(same_type)
        if all(map(_is_plain, operations)):
            yield operations
            continue
        segment = SegmentBuilder(plan, begins)
        for operation in operations:
            if not segment.accepts(operation):
                yield segment.operations
                segment = SegmentBuilder(plan, begins)
            segment.add(operation)
        yield segment.operations


def split_calls(
    runs: Sequence[OperationRun], waits: Mapping[int, Sequence[int]], count: int
) -> list[list[OperationRun]]:
    """Split operations into up to ``count`` calls of about equal size; those that wait for each other stay together."""
    # Each set of them, the largest first, goes to the call that is the smallest so far.
    chains = _chains(runs, waits)
    calls: list[list[OperationRun]] = [[] for _ in range(min(count, len(chains)))]
    sizes = [(0, index) for index in range(len(calls))]
    for chain in chains:
        size, index = heappop(sizes)
        calls[index] += chain
        heappush(sizes, (size + len(chain), index))
    for call in calls:
        call.sort(key=lambda run: run.number)
    return calls


def _chains(runs: Sequence[OperationRun], waits: Mapping[int, Sequence[int]]) -> list[list[OperationRun]]:
    """Return the disjoint sets of operations that wait for each other, each in its order, the largest first."""
    # A union-find structure: every number of a set leads over ``parents`` to the same root.
    parents: dict[int, int] = {}

    def root(number: int) -> int:
        """Return the root of a number's set, and shorten the way to it."""
        while parents[number] != number:
            parents[number] = parents[parents[number]]
            number = parents[number]
        return number

    for run in runs:
        parents[run.number] = run.number
        for prerequisite in waits.get(run.number, ()):
            if prerequisite in parents:
                parents[root(prerequisite)] = root(run.number)
    chains: dict[int, list[OperationRun]] = {}
    for run in runs:
        chains.setdefault(root(run.number), []).append(run)
    return sorted(chains.values(), key=len, reverse=True)


def _name(operation: Operation) -> Any:
    """Return the name of the resource that an operation changes: of a replacement's removal, the former one."""
    step = operation.step
    return step.old_name if operation.removal else step.entry.name


def _is_plain(operation: Operation) -> bool:
    """Return whether an operation can share a call with any other plain one of its type; most can."""
    step = operation.step
    special = operation.removal or step.unknown or step.refreshed_by or step.entry.pending or step.decision.conditional
    return not (
        special or step.entry.meta.on_failure or step.decision.action is Action.FORGET or _needs_own_call(operation)
    )


def _needs_own_call(operation: Operation) -> bool:
    """Return whether no other operation may share its call: imperative types take one, a time limit is for one."""
    entry = operation.step.entry
    return "imperative" in entry.definition.features or entry.has_timeout
