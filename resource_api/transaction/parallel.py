"""Carries out a plan in parallel (``--parallel``): segments in threads, each as soon as its prerequisites have ended.

``plan.set_segments`` decides which operations share a segment, which is split into up to ``--parallel`` calls.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import TYPE_CHECKING

from resource_api.catalog.graph import descendants, reverse
from resource_api.plan.set_segments import SegmentBuilder, handled_operations
from resource_api.system import process_guard
from resource_api.system.thread_pool import Abandoned, ThreadPool
from resource_api.transaction.operation_run import OperationRun
from resource_api.transaction.results import IN_DOUBT, INTERRUPTED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from resource_api.model.step import Operation
    from resource_api.plan.planner import ExecutionPlan
    from resource_api.transaction.transaction_context import TransactionContext

    #: The operations that ended, and the calls that are due.
    ThreadResult = tuple[Iterable[Operation], list[list[OperationRun]]]


class ParallelRun:
    """One parallel run of a plan."""

    def __init__(
        self,
        transaction: TransactionContext,
        *,
        begin: Callable[[Sequence[Operation]], Sequence[OperationRun]],
        carry_out: Callable[[Sequence[OperationRun]], None],
    ) -> None:
        """Prepare to carry out the plan of a transaction; the functions are called in threads.

        ``begin`` re-evaluates the operations of a segment and returns those that have something to do; ``carry_out``
        carries out operations that share a call.
        """
        self._transaction = transaction
        self._plan = transaction.plan
        self._results = transaction.results
        self._begin = begin
        self._carry_out = carry_out

    def run(self) -> None:
        """Carry out up to ``--parallel`` calls at once, until every operation has ended.

        Calls precede the re-evaluation of the next segment, so that the rows just read for them stay fresh.
        """
        schedule, context = Schedule(self._plan), self._transaction.run
        calls: deque[list[OperationRun]] = deque()
        try:
            with process_guard.shared(), ThreadPool(self._plan.options.parallel) as context.threads:
                threads = context.threads
                while schedule.open:
                    while threads.has_free_thread and calls:
                        threads.start(partial(self._make_call, calls.popleft()))
                    while threads.has_free_thread and (operations := schedule.take()):
                        threads.start(partial(self._begin_calls, operations))
                    ended, due_calls = threads.next()
                    schedule.end(ended)
                    calls += due_calls
        except Abandoned:
            self._abandon(schedule)
        except BaseException:
            context.cancelled = True
            raise
        finally:
            context.threads = None

    def _begin_calls(self, operations: Sequence[Operation]) -> ThreadResult:
        """Re-evaluate a segment; return its operations that ended with that, and the calls to make for the others.

        A type without the feature `parallel` gets one call, since its provider may not be called twice at once.
        """
        runs = self._begin(operations)
        due = {run.number for run in runs}
        ended = [operation for operation in operations if operation.number not in due]
        is_parallel = "parallel" in operations[0].step.definition.features
        return ended, split_calls(runs, self._plan.waits, self._plan.options.parallel if is_parallel else 1)

    def _make_call(self, runs: Sequence[OperationRun]) -> ThreadResult:
        """Carry out the operations of one call, or skip them after an interrupt; return them, which have all ended."""
        if halted := self._transaction.halted(runs):
            for run in runs:
                self._results.skip(run, halted)
        else:
            self._carry_out(runs)
        return [run.operation for run in runs], []

    def _abandon(self, schedule: Schedule) -> None:
        """End the remaining operations after an interrupt: in doubt if their call did not return, otherwise skipped.

        A handler of failures that has not begun is not skipped: it may not have been needed at all.
        """
        for operation in self._plan.operations:
            if operation.number in schedule.running:
                self._results.fail(OperationRun(operation), f"its call did not end after the interrupt; {IN_DOUBT}")
            elif operation.number not in schedule.ended and not operation.step.handles_failure:
                self._results.skip(OperationRun(operation), INTERRUPTED)


class Schedule:
    """The segments that may begin in parallel, as operations end; of a type without ``parallel`` one at a time.

    A step that was deferred in the plan, because an earlier step may create its precondition, waits for all steps that
    act before it. Deletions by ``--prune`` wait for all declared resources, those of ``purge`` for all others. Each
    relationship is visited twice, whatever the order in which operations end.
    """

    def __init__(self, plan: ExecutionPlan) -> None:
        """Begin with the operations of ``plan`` ready that wait for no other one."""
        self._plan = plan
        waits = {number: set(prerequisites) for number, prerequisites in plan.waits.items()}
        for number, handled in handled_operations(plan.operations, plan.catalog.on_failure).items():
            waits.setdefault(number, set()).update(handled)
        #: Operation → those that wait for it.
        self._dependents = reverse(waits)
        #: By number, the count of operations that it still waits for.
        self._wait_counts = [len(waits.get(operation.number, ())) for operation in plan.operations]
        #: Provider instance → numbers of the operations that wait for nothing, as a heap.
        self._ready: dict[str, list[int]] = {}
        #: Deferred operations that wait for no other relationship, as a heap.
        self._deferred: list[int] = []
        #: For each late stage, the number of its first operation, which begins when all operations before it have
        #: ended; and the count of the operations before it that have not ended yet.
        self._begins = plan.stage_begins
        self._not_ended = list(self._begins)
        #: Operations that wait only for the stage before theirs. An operation is in ``_ready``, ``_deferred`` or here,
        #: or in none of them, and never in two.
        self._late: list[int] = []
        #: Below this number, every operation that acts has ended.
        self._ended_below = 0
        #: Provider instance → the count of its operations that have begun and not ended.
        self._begun: dict[str, int] = {}
        #: Numbers of the operations that are running, and of those that have ended.
        self.running: set[int] = set()
        self.ended: set[int] = set()
        for operation in plan.operations:
            self._release(operation.number)

    @property
    def open(self) -> bool:
        """Whether any operation has not ended."""
        return len(self.ended) < len(self._plan.operations)

    def take(self) -> list[Operation]:
        """Return the first segment of the plan that may begin now, or an empty list; it counts as running then."""
        operations = self._plan.operations
        # Per provider instance; of one without ``parallel`` only if none of its operations is running.
        free = [
            (ready[0], instance)
            for instance, ready in self._ready.items()
            if not self._begun.get(instance) or "parallel" in operations[ready[0]].step.definition.features
        ]
        if not free:
            return []
        _, instance = min(free)
        segment = self._segment(instance)
        self._begun[instance] = self._begun.get(instance, 0) + len(segment)
        self.running.update(operation.number for operation in segment)
        return segment

    def end(self, operations: Iterable[Operation]) -> None:
        """Record that operations have ended, successfully or not, and make those ready that waited only for them.

        After a failure they begin, too: re-evaluation then skips those that needed success.
        """
        for operation in operations:
            self.ended.add(operation.number)
            self.running.discard(operation.number)
            for stage, number in enumerate(self._begins):
                if operation.number < number:
                    self._not_ended[stage] -= 1
            self._begun[operation.definition.instance] -= 1
            for dependent in self._dependents.get(operation.number, ()):
                self._wait_counts[dependent] -= 1
                self._release(dependent)
        while self._deferred and self._all_before_ended(self._deferred[0]):
            self._make_ready(heappop(self._deferred))
        if self._late and any(self._may_follow(number) for number in self._late):
            late, self._late = self._late, []
            for number in late:
                self._release(number)

    def _release(self, number: int) -> None:
        """Make an operation ready for ``take`` if all that it waits for has ended.

        An operation of a late stage waits for the stages before it, too, and a deferred one for all earlier operations.
        """
        if self._wait_counts[number] or number in self.running or number in self.ended:
            return
        step = self._plan.operations[number].step
        if not self._may_follow(number):
            self._late.append(number)
        elif step.deferred and not step.handles_failure and not self._all_before_ended(number):
            heappush(self._deferred, number)
        else:
            self._make_ready(number)

    def _may_follow(self, number: int) -> bool:
        """Return whether the late stage of an operation, if any, may begin: all operations before it have ended."""
        return not any(pending for begin, pending in zip(self._begins, self._not_ended, strict=True) if number >= begin)

    def _make_ready(self, number: int) -> None:
        """Let ``take`` return an operation."""
        heappush(self._ready.setdefault(self._plan.operations[number].definition.instance, []), number)

    def _all_before_ended(self, number: int) -> bool:
        """Return whether a deferred operation may begin: all earlier ones that act, and are not deferred, have ended.

        Any of them may be its unknown prerequisite, such as the installation of a program that its provider needs.
        """
        operations = self._plan.operations
        # The search goes on where an earlier one stopped, as ended operations stay so.
        while self._ended_below < number:
            step = operations[self._ended_below].step
            if step.acts and not step.deferred and self._ended_below not in self.ended:
                return False
            self._ended_below += 1
        return True

    def _segment(self, instance: str) -> list[Operation]:
        """Return the operations of a provider instance that can share the next call, and remove them from ``_ready``.

        An operation that waits only for operations of this call is added to it, because a provider keeps the order
        within a call: fewer calls are needed.
        """
        segment = SegmentBuilder(self._plan.operations, self._plan.waits, self._begins)
        waiting, later = self._ready.pop(instance), []
        waits_inside: dict[int, int] = {}  # by number, the count of operations in this segment that it waits for
        while waiting and not segment.closed:
            number = heappop(waiting)
            operation = self._plan.operations[number]
            if not segment.accepts(operation):
                later.append(number)
                continue
            segment.add(operation)
            for dependent_number in self._dependents.get(number, ()):
                waits_inside[dependent_number] = waits_inside.get(dependent_number, 0) + 1
                dependent = self._plan.operations[dependent_number]
                waits_only_here = waits_inside[dependent_number] == self._wait_counts[dependent_number]
                shares = dependent.definition.instance == instance and not dependent.step.deferred
                if waits_only_here and shares:
                    heappush(waiting, dependent_number)
        # An operation that waits for one of this segment is released when that has ended.
        if ready := [number for number in (*later, *waiting) if not self._wait_counts[number]]:
            heapify(ready)
            self._ready[instance] = ready
        return segment.operations


def split_calls(
    runs: Sequence[OperationRun], waits: Mapping[int, Sequence[int]], count: int
) -> list[list[OperationRun]]:
    """Split the operations of a segment into up to ``count`` calls of about equal size, which may run side by side.

    Those that wait for each other stay in one call, in order; ``waits``: number → the numbers that it waits for.
    """
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
    """Return the disjoint sets of operations that wait for each other, which must share a call to keep their order.

    Each is in the order of the plan, and the largest comes first.
    """
    by_number = {run.number: run for run in runs}
    neighbours: dict[int, list[int]] = {number: [] for number in by_number}
    for number in by_number:
        for prerequisite in waits.get(number, ()):
            if prerequisite in by_number:
                neighbours[number].append(prerequisite)
                neighbours[prerequisite].append(number)
    chains, chained = [], set[int]()
    for number in by_number:
        if number not in chained:
            members = descendants([number], neighbours)
            chained |= members
            chains.append([by_number[member] for member in sorted(members)])
    return sorted(chains, key=len, reverse=True)


def unrelated_neighbours(plan: ExecutionPlan) -> Iterator[tuple[Operation, Operation]]:
    """Yield adjacent operations of different types that both act and that no relationship orders.

    The first parallel run of a stack logs them: earlier runs kept their order, on which the user may have relied.
    Handlers of failures are left out, as they follow the resources that they handle in any case.
    """
    for first, second in pairwise(plan.operations):
        same_type = first.definition.instance == second.definition.instance
        related = same_type or first.number in plan.waits.get(second.number, ())
        handles = first.step.handles_failure or second.step.handles_failure
        if not (related or handles) and first.step.acts and second.step.acts:
            yield first, second
