"""Which operations share a call, and which of them may begin: in the order of the plan, or side by side.

A segment is the operations of one ``set``. One by one, it is a run of consecutive operations of one type; with
``--parallel``, where relationships alone order, it is all of a type that waits for nothing else. An imperative resource
and one with a timeout are a segment of their own; a segment is also split where an operation needs what another one of
it yields. Pure: nothing is carried out.
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
    for _, same_type in groupby(plan.operations, key=_instance):
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


class Schedule:
    """Which segments may begin side by side, as operations end; of a type without ``parallel`` one at a time.

    A step that was deferred in the plan, because one before it may be what it needs, waits for all that act before it.
    What ``--prune`` deletes waits for all that is declared.
    Each relationship is looked at twice, whatever the order in which operations end.
    """

    def __init__(self, plan: Plan) -> None:
        """Begin with no operation begun."""
        self._plan = plan
        waits = {number: set(before) for number, before in plan.waits.items()}
        self._dependents = reverse(waits)
        #: By number, how many operations it still waits for.
        self._waits_for = [len(waits.get(operation.number, ())) for operation in plan.operations]
        #: Provider instance → numbers of the operations that wait for nothing, as a heap.
        self._ready: dict[str, list[int]] = {}
        #: Deferred operations that wait for no other relationship, as a heap.
        self._deferred: list[int] = []
        #: From this number on, operations begin when all others have ended; how many of those have not, and what waits.
        self._prune_begins = self._before_prune = plan.prune_begins
        self._to_prune: list[int] = []
        #: Below this number, every operation that acts has ended.
        self._ended_below = 0
        #: Provider instance → how many of its operations have begun and not ended.
        self._begun: dict[str, int] = {}
        #: Numbers of the operations that have begun and not ended, and of those that have ended.
        self.running: set[int] = set()
        self.ended: set[int] = set()
        for operation in plan.operations:
            self._release(operation.number)

    @property
    def open(self) -> bool:
        """Whether any operation has not ended."""
        return len(self.ended) < len(self._plan.operations)

    def take(self) -> list[Operation]:
        """Return the segment that comes first in the plan of those that may begin now; empty: none may."""
        free = [(ready[0], instance) for instance, ready in self._ready.items() if self._may_begin(instance, ready[0])]
        if not free:
            return []
        _, instance = min(free)
        segment = self._segment(instance)
        self._begun[instance] = self._begun.get(instance, 0) + len(segment)
        self.running.update(operation.number for operation in segment)
        return segment

    def _may_begin(self, instance: str, number: int) -> bool:
        return not self._begun.get(instance) or "parallel" in self._plan.operations[number].step.definition.features

    def end(self, operations: Iterable[Operation]) -> None:
        """Note that operations have ended, successfully or not."""
        for operation in operations:
            self.ended.add(operation.number)
            self.running.discard(operation.number)
            self._before_prune -= operation.number < self._prune_begins
            self._begun[_instance(operation)] -= 1
            for dependent in self._dependents.get(operation.number, ()):
                self._waits_for[dependent] -= 1
                self._release(dependent)
        while self._deferred and self._all_before_ended(self._deferred[0]):
            self._make_ready(heappop(self._deferred))
        while self._to_prune and not self._before_prune:
            self._make_ready(self._to_prune.pop())

    def _release(self, number: int) -> None:
        """Make an operation ready if it waits for nothing."""
        if self._waits_for[number] or number in self.running or number in self.ended:
            return
        if number >= self._prune_begins and self._before_prune:
            self._to_prune.append(number)
        elif self._plan.operations[number].step.deferred and not self._all_before_ended(number):
            heappush(self._deferred, number)
        else:
            self._make_ready(number)

    def _make_ready(self, number: int) -> None:
        heappush(self._ready.setdefault(_instance(self._plan.operations[number]), []), number)

    def _all_before_ended(self, number: int) -> bool:
        """Return whether every operation before this one that acts, and was not deferred itself, has ended."""
        operations = self._plan.operations
        while self._ended_below < number:
            step = operations[self._ended_below].step
            if step.acts and not step.deferred and self._ended_below not in self.ended:
                return False
            self._ended_below += 1
        return True

    def _segment(self, instance: str) -> list[Operation]:
        """Take what is ready of a provider instance, and what waits only for that, as far as it can share a call."""
        segment, waiting, later = SegmentBuilder(self._plan, self._prune_begins), self._ready.pop(instance), []
        waits_inside: dict[int, int] = {}
        while waiting and not segment.closed:
            number = heappop(waiting)
            operation = self._plan.operations[number]
            if not segment.accepts(operation):
                later.append(number)
                continue
            segment.add(operation)
            for then in self._dependents.get(number, ()):
                waits_inside[then] = waits_inside.get(then, 0) + 1
                dependent = self._plan.operations[then]
                only_for_these = waits_inside[then] == self._waits_for[then]
                if only_for_these and _instance(dependent) == instance and not dependent.step.deferred:
                    heappush(waiting, then)
        # What waits for an operation of this segment is released when that has ended.
        if left := [number for number in (*later, *waiting) if not self._waits_for[number]]:
            heapify(left)
            self._ready[instance] = left
        return segment.operations


def unrelated_neighbours(plan: Plan) -> Iterator[tuple[Operation, Operation]]:
    """Yield neighbours of different types that both act and that no relationship orders."""
    for first, then in zip(plan.operations, plan.operations[1:], strict=False):
        related = _instance(first) == _instance(then) or first.number in plan.waits.get(then.number, ())
        if not related and first.step.acts and then.step.acts:
            yield first, then


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


def _instance(operation: Operation) -> str:
    """Return the provider instance that is called for an operation."""
    return operation.definition.instance


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
