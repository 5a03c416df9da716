"""Which operations may begin side by side (``--parallel``), as those end that they wait for.

How many run at once is decided by ``parallel``, which carries them out; which can share a call by ``segments``. Pure.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from resource_api.catalog.graph import reverse
from resource_api.transaction.segments import SegmentBuilder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from resource_api.model.step import Operation
    from resource_api.plan.planner import Plan


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
            self._begun[operation.definition.instance] -= 1
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
        heappush(self._ready.setdefault(self._plan.operations[number].definition.instance, []), number)

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
                if only_for_these and dependent.definition.instance == instance and not dependent.step.deferred:
                    heappush(waiting, then)
        # What waits for an operation of this segment is released when that has ended.
        if left := [number for number in (*later, *waiting) if not self._waits_for[number]]:
            heapify(left)
            self._ready[instance] = left
        return segment.operations


def unrelated_neighbours(plan: Plan) -> Iterator[tuple[Operation, Operation]]:
    """Yield neighbours of different types that both act and that no relationship orders."""
    for first, then in zip(plan.operations, plan.operations[1:], strict=False):
        same_type = first.definition.instance == then.definition.instance
        related = same_type or first.number in plan.waits.get(then.number, ())
        if not related and first.step.acts and then.step.acts:
            yield first, then
