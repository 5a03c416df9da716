"""Which operations share a call, and which segments may begin: in the order of the plan, or side by side.

A segment is what one ``set`` is about. One after the other, it is a run of consecutive operations of one type; side by
side, where relationships alone order, it is all of a type that waits for nothing else. Pure: nothing is carried out.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import groupby
from typing import TYPE_CHECKING, Any

from resource_api.catalog.graph import reverse
from resource_api.model.change import Action

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from resource_api.model.step import Operation
    from resource_api.plan.planner import Plan
    from resource_api.transaction.operation_run import OperationRun


class SegmentBuilder:
    """A segment that is being put together."""

    def __init__(self, plan: Plan) -> None:
        """Begin with no operation."""
        self.operations: list[Operation] = []
        #: Whether it has a call of its own: nothing may be added.
        self.closed = False
        self._plan = plan
        self._members: set[int] = set()
        self._names: set[Any] = set()

    def takes(self, operation: Operation) -> bool:
        """Whether an operation can share a call with those that are in already."""
        if not self.operations:
            return True
        if self.closed or _alone(operation):
            return False
        step, waits, operations = operation.step, self._plan.waits, self._plan.operations
        if (step.old_name if operation.removal else step.entry.name) in self._names:
            return False
        forgotten = step.decision.action is Action.FORGET
        if not (forgotten or step.unknown or step.entry.pending or step.refreshed_by):
            return True
        inside = self._members.intersection(waits.get(operation.number, ()))
        if inside and (step.unknown or forgotten):
            return False
        # What is predicted of another must have come true before it is used.
        if step.entry.pending and any(operations[index].step.decision.predicted for index in inside):
            return False
        # What is refreshed notifies in turn: whom it notifies comes after that.
        return not (step.refreshed_by and any(operations[index].step.refreshed_by for index in inside))

    def add(self, operation: Operation) -> None:
        """Take an operation in."""
        step = operation.step
        self.closed = _alone(operation)
        self.operations.append(operation)
        self._members.add(operation.number)
        self._names.add(step.old_name if operation.removal else step.entry.name)


def in_order(plan: Plan) -> Iterator[list[Operation]]:
    """Cut the sequence of operations where the type changes, or one wants a call of its own."""
    for _, same_type in groupby(plan.operations, key=_kind):
        operations = list(same_type)
        if all(map(_plain, operations)):
            yield operations
            continue
        draft = SegmentBuilder(plan)
        for operation in operations:
            if not draft.takes(operation):
                yield draft.operations
                draft = SegmentBuilder(plan)
            draft.add(operation)
        yield draft.operations


class Schedule:
    """What may begin, as operations end; of a type that is not ``parallel`` one segment at a time.

    Each relationship is looked at twice, whatever the order in which operations end. What was deferred in the plan,
    because something before it may be what it needs, waits for all that acts before it.
    """

    def __init__(self, plan: Plan) -> None:
        """Begin with nothing done."""
        self._plan = plan
        waits = {number: set(before) for number, before in plan.waits.items()}
        self._after = reverse(waits)
        self._left = [len(waits.get(operation.number, ())) for operation in plan.operations]
        self._ready: dict[str, list[int]] = {}
        #: What was deferred and waits for nothing else, and how far nothing that acts is still to end.
        self._deferred: list[int] = []
        self._quiet = 0
        #: Type → how many operations of it have begun and not ended.
        self._begun: dict[str, int] = {}
        #: Operations that have begun and not ended, and those that have ended, by number.
        self.running: set[int] = set()
        self.ended: set[int] = set()
        for operation in plan.operations:
            self._release(operation.number)

    @property
    def open(self) -> bool:
        """Whether anything has not ended."""
        return len(self.ended) < len(self._plan.operations)

    def take(self) -> list[Operation]:
        """Give the segment that may begin now and comes first in the plan; nothing while all must wait."""
        free = [(ready[0], kind) for kind, ready in self._ready.items() if self._may_begin(kind, ready[0])]
        if not free:
            return []
        segment = self._segment(min(free)[1])
        kind = _kind(segment[0])
        self._begun[kind] = self._begun.get(kind, 0) + len(segment)
        self.running.update(operation.number for operation in segment)
        return segment

    def _may_begin(self, kind: str, number: int) -> bool:
        return not self._begun.get(kind) or "parallel" in self._plan.operations[number].step.definition.features

    def end(self, operations: Iterable[Operation]) -> None:
        """Note that operations have ended, however they did."""
        for operation in operations:
            self.ended.add(operation.number)
            self.running.discard(operation.number)
            self._begun[_kind(operation)] -= 1
            for then in self._after.get(operation.number, ()):
                self._left[then] -= 1
                self._release(then)
        while self._deferred and self._calm(self._deferred[0]):
            self._make_ready(heappop(self._deferred))

    def _release(self, number: int) -> None:
        if self._left[number] or number in self.running or number in self.ended:
            return
        if self._plan.operations[number].step.deferred and not self._calm(number):
            heappush(self._deferred, number)
        else:
            self._make_ready(number)

    def _make_ready(self, number: int) -> None:
        heappush(self._ready.setdefault(_kind(self._plan.operations[number]), []), number)

    def _calm(self, number: int) -> bool:
        """Whether all that acts before an operation, and was not deferred itself, has ended."""
        operations = self._plan.operations
        while self._quiet < number:
            step = operations[self._quiet].step
            if step.acts and not step.deferred and self._quiet not in self.ended:
                return False
            self._quiet += 1
        return True

    def _segment(self, kind: str) -> list[Operation]:
        """Take what is ready of a type, and what waits only for that, as far as it can share a call."""
        draft, waiting, later = SegmentBuilder(self._plan), self._ready.pop(kind), []
        inside: dict[int, int] = {}
        while waiting and not draft.closed:
            number = heappop(waiting)
            operation = self._plan.operations[number]
            if not draft.takes(operation):
                later.append(number)
                continue
            draft.add(operation)
            for then in self._after.get(number, ()):
                inside[then] = inside.get(then, 0) + 1
                follower = self._plan.operations[then]
                if inside[then] == self._left[then] and _kind(follower) == kind and not follower.step.deferred:
                    heappush(waiting, then)
        # What waits for a member of this segment is released when that has ended.
        if left := [number for number in (*later, *waiting) if not self._left[number]]:
            heapify(left)
            self._ready[kind] = left
        return draft.operations


def unrelated_neighbours(plan: Plan) -> Iterator[tuple[Operation, Operation]]:
    """Give the neighbours of different types that both act and that no relationship keeps in the order of the plan."""
    for first, then in zip(plan.operations, plan.operations[1:], strict=False):
        apart = _kind(first) != _kind(then) and first.number not in plan.waits.get(then.number, ())
        if apart and first.step.acts and then.step.acts:
            yield first, then


def split_calls(
    runs: Sequence[OperationRun], waits: Mapping[int, Sequence[int]], count: int
) -> list[list[OperationRun]]:
    """Split runs into up to ``count`` calls of about the same size; what waits for another stays in its call."""
    chains = _chains(runs, waits)
    calls: list[list[OperationRun]] = [[] for _ in range(min(count, len(chains)))]
    sizes = [(0, index) for index in range(len(calls))]
    for chain in chains:
        size, index = heappop(sizes)
        calls[index] += chain
        heappush(sizes, (size + len(chain), index))
    for call in calls:
        call.sort(key=lambda run: run.operation.number)
    return calls


def _chains(runs: Sequence[OperationRun], waits: Mapping[int, Sequence[int]]) -> list[list[OperationRun]]:
    """Give what is connected by waiting, each chain in its order, the longest chains first."""
    heads: dict[int, int] = {}

    def head(number: int) -> int:
        while heads[number] != number:
            heads[number] = heads[heads[number]]
            number = heads[number]
        return number

    for run in runs:
        number = run.operation.number
        heads[number] = number
        for before in waits.get(number, ()):
            if before in heads:
                heads[head(before)] = head(number)
    chains: dict[int, list[OperationRun]] = {}
    for run in runs:
        chains.setdefault(head(run.operation.number), []).append(run)
    return sorted(chains.values(), key=len, reverse=True)


def _kind(operation: Operation) -> str:
    return operation.definition.instance


def _plain(operation: Operation) -> bool:
    """Whether an operation can share a call with any other of its type that is as plain: nearly all are."""
    step = operation.step
    special = operation.removal or step.unknown or step.refreshed_by or step.entry.pending
    return not (special or step.decision.action is Action.FORGET or _alone(operation))


def _alone(operation: Operation) -> bool:
    entry = operation.step.entry
    return "imperative" in entry.definition.features or entry.meta.timeout is not None
