"""Cuts operations into segments, of which each is one ``set``, and a segment into the calls of ``--parallel``.

One by one, a segment is a run of consecutive operations of one type; with ``--parallel``, where relationships alone
order, it is all of a type that waits for nothing else (``scheduler``). An imperative resource and one with a timeout
are a segment of their own; a segment is also split where an operation needs what another one of it yields. Pure.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import groupby
from typing import TYPE_CHECKING, Any

from resource_api.model.action import Action

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from resource_api.model.step import Operation
    from resource_api.plan.planner import Plan
    from resource_api.transaction.operation_run import OperationRun


class SegmentBuilder:
    """Puts a segment together, operation by operation."""

    def __init__(self, plan: Plan, prune_begins: int) -> None:
        """Begin with no operation; from the number ``prune_begins`` on, operations share no call with others."""
        self.operations: list[Operation] = []
        #: Whether nothing may be added, because the only operation has a call of its own.
        self.closed = False
        self._plan = plan
        self._prune_begins = prune_begins
        self._numbers: set[int] = set()
        self._names: set[Any] = set()

    def accepts(self, operation: Operation) -> bool:
        """Return whether an operation can share a call with those of the segment."""
        if not self.operations:
            return True
        if self.closed or _needs_own_call(operation):
            return False
        step, operations = operation.step, self._plan.operations
        if _name(operation) in self._names or self.operations[0].number < self._prune_begins <= operation.number:
            return False
        # What goes with another resource is looked at when that has gone.
        forgets = step.decision.action is Action.FORGET or (
            operation.removal and step.entry.meta.lifecycle.deleted_with
        )
        conditional = step.decision.conditional
        if not (forgets or conditional or step.unknown or step.entry.pending or step.refreshed_by):
            return True
        waits_for = self._numbers.intersection(self._plan.waits.get(operation.number, ()))
        if waits_for and (step.unknown or forgets or conditional):
            return False
        # A predicted value is used only when it has become true.
        if step.entry.pending and any(operations[number].step.decision.predicted for number in waits_for):
            return False
        # A resource that is refreshed notifies its listeners: they are refreshed by a later call.
        return not (step.refreshed_by and any(operations[number].step.refreshed_by for number in waits_for))

    def add(self, operation: Operation) -> None:
        """Add an operation that is accepted."""
        self.closed = _needs_own_call(operation)
        self.operations.append(operation)
        self._numbers.add(operation.number)
        self._names.add(_name(operation))


def in_order(plan: Plan) -> Iterator[list[Operation]]:
    """Yield the segments of a plan in its order: consecutive operations of one type that can share a call."""
    prune_begins = plan.prune_begins
    for _, same_type in groupby(plan.operations, key=lambda operation: operation.definition.instance):
        operations = list(same_type)
        if all(map(_is_plain, operations)):
            yield operations
            continue
        segment = SegmentBuilder(plan, prune_begins)
        for operation in operations:
            if not segment.accepts(operation):
                yield segment.operations
                segment = SegmentBuilder(plan, prune_begins)
            segment.add(operation)
        yield segment.operations


def split_calls(
    runs: Sequence[OperationRun], waits: Mapping[int, Sequence[int]], count: int
) -> list[list[OperationRun]]:
    """Split operations into up to ``count`` calls of about equal size; what waits for another stays in its call."""
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
    """Return the operations that are connected by waiting, each chain in its order, the longest chains first."""
    heads: dict[int, int] = {}

    def head(number: int) -> int:
        while heads[number] != number:
            heads[number] = heads[heads[number]]
            number = heads[number]
        return number

    for run in runs:
        heads[run.number] = run.number
        for before in waits.get(run.number, ()):
            if before in heads:
                heads[head(before)] = head(run.number)
    chains: dict[int, list[OperationRun]] = {}
    for run in runs:
        chains.setdefault(head(run.number), []).append(run)
    return sorted(chains.values(), key=len, reverse=True)


def _name(operation: Operation) -> Any:
    step = operation.step
    return step.old_name if operation.removal else step.entry.name


def _is_plain(operation: Operation) -> bool:
    """Return whether an operation can share a call with any other plain one of its type; nearly all can."""
    step = operation.step
    special = operation.removal or step.unknown or step.refreshed_by or step.entry.pending or step.decision.conditional
    return not (special or step.decision.action is Action.FORGET or _needs_own_call(operation))


def _needs_own_call(operation: Operation) -> bool:
    entry = operation.step.entry
    return "imperative" in entry.definition.features or entry.has_timeout
