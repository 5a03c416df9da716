"""Carries out a plan in parallel (``--parallel``): segments side by side, each call in a thread.

Which operations may begin is decided by ``scheduler``, how they are split into calls by ``segments``.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from resource_api.system import process_guard
from resource_api.system.thread_pool import Abandoned, ThreadPool
from resource_api.transaction.operation_run import OperationRun
from resource_api.transaction.results import IN_DOUBT
from resource_api.transaction.scheduler import Schedule
from resource_api.transaction.segments import split_calls
from resource_api.transaction.skipping import INTERRUPTED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from resource_api.model.step import Operation
    from resource_api.plan.planner import Plan
    from resource_api.provider.context import RunContext
    from resource_api.transaction.results import Results

    #: Operations that have ended, and calls that are to be made.
    Progress = tuple[Iterable[Operation], list[list[OperationRun]]]


class ParallelRun:
    """One run of a plan, side by side."""

    def __init__(
        self,
        plan: Plan,
        context: RunContext,
        results: Results,
        *,
        begin: Callable[[Sequence[Operation]], Sequence[OperationRun]],
        carry_out: Callable[[Sequence[OperationRun]], None],
        halted: Callable[[], str],
    ) -> None:
        """Prepare to carry out ``plan``; the functions are called in threads.

        ``begin`` re-evaluates the operations of a segment and returns those that have something to do, ``carry_out``
        carries out operations that share a call, and ``halted`` returns why no operation is begun any more, or nothing.
        """
        self._plan = plan
        self._context = context
        self._results = results
        self._begin = begin
        self._carry_out = carry_out
        self._halted = halted

    def run(self) -> None:
        """Carry out up to ``--parallel`` calls at once, until no operation is left.

        A call whose operations are re-evaluated is made before more are re-evaluated, so that what was read is fresh.
        """
        schedule, context = Schedule(self._plan), self._context
        calls: deque[list[OperationRun]] = deque()
        try:
            with process_guard.shared(), ThreadPool(self._plan.options.parallel) as context.threads:
                threads = context.threads
                while schedule.open:
                    while threads.has_free_thread and calls:
                        threads.start(partial(self._make_call, calls.popleft()))
                    while threads.has_free_thread and (operations := schedule.take()):
                        threads.start(partial(self._begin_calls, operations))
                    ended, more = threads.next()
                    schedule.end(ended)
                    calls += more
        except Abandoned:
            self._abandon(schedule)
        except BaseException:
            context.cancelled = True
            raise
        finally:
            context.threads = None

    def _begin_calls(self, operations: Sequence[Operation]) -> Progress:
        """Begin a segment; return the operations that have ended, and the calls that are to be made."""
        runs = self._begin(operations)
        left = {run.number for run in runs}
        ended = [operation for operation in operations if operation.number not in left]
        several = "parallel" in operations[0].step.definition.features
        return ended, split_calls(runs, self._plan.waits, self._plan.options.parallel if several else 1)

    def _make_call(self, runs: Sequence[OperationRun]) -> Progress:
        """Make one call, unless the run has been interrupted or halted; return the operations, which have ended."""
        if why := self._halted():
            for run in runs:
                self._results.skip(run, why)
        else:
            self._carry_out(runs)
        return [run.operation for run in runs], []

    def _abandon(self, schedule: Schedule) -> None:
        """End the operations of calls that did not return after an interrupt: their outcome is in doubt."""
        for operation in self._plan.operations:
            if operation.number in schedule.running:
                why = f"its call did not end after the interrupt; {IN_DOUBT}"
                self._results.fail(OperationRun(operation), why)
            elif operation.number not in schedule.ended:
                self._results.skip(OperationRun(operation), INTERRUPTED)
