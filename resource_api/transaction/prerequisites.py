"""What the runs of one segment wait for, and which of them wait in vain.

Works that share a call fail while it runs: who comes after them must be left out of it, also where what stands
between them has nothing to do. How a run ends is not decided here.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from resource_api.model.type_definition import Name
    from resource_api.provider.context import Context
    from resource_api.transaction.operation_run import OperationRun


class Prerequisites:
    """The relationships of one segment; ``waits`` and ``bad`` are those of the run, by the operation's number."""

    def __init__(self, runs: Sequence[OperationRun], waits: Mapping[int, Sequence[int]], bad: Collection[int]) -> None:
        """Take the runs in their order; ``bad`` grows while they are carried out."""
        self._bad = bad
        self._works = runs
        self._lost: set[int] = set()
        self._waits = waits if all(run.acts for run in runs) else self._through(runs, waits)

    @cached_property
    def _by_name(self) -> Mapping[Name, OperationRun]:
        return {run.name: run for run in self._works}

    @cached_property
    def _by_operation(self) -> Mapping[int, OperationRun]:
        return {run.operation.number: run for run in self._works}

    def blocked(self, name: Name, context: Context | None = None) -> bool:
        """Whether a prerequisite of a name has failed by now: in the call of ``context``, or before."""
        # What an earlier call has left failed is asked for without a context before it is tried again.
        if context is not None and not (self._bad or context.outcomes.any_failed):
            return False
        run = self._by_name.get(name)
        return run is not None and self._in_vain(run, context)

    def _in_vain(self, run: OperationRun, context: Context | None) -> bool:
        """Names come in dependency order: what was found lost before is remembered, so that nothing is walked twice."""
        for index in self._waits.get(run.operation.number, ()):
            other = self._by_operation.get(index)
            lost = index in self._bad or index in self._lost
            if not lost and other is not None:
                outcome = context.outcomes.get(other.name, other.outcome) if context else other.outcome
                lost = outcome.status == "failed" or bool(other.why)
            if lost:
                self._lost.add(run.operation.number)
                return True
        return False

    def _through(self, runs: Sequence[OperationRun], waits: Mapping[int, Sequence[int]]) -> dict[int, Sequence[int]]:
        """Let who waits for what has nothing to do in the call wait for what that waits for."""
        found: dict[int, Sequence[int]] = {}
        passed: dict[int, list[int]] = {}
        for run in runs:
            number = run.operation.number
            before = waits.get(number, ())
            if not passed.keys().isdisjoint(before):
                before = list(dict.fromkeys(other for index in before for other in (index, *passed.get(index, ()))))
            if not run.acts:
                inside = (index for index in before if index in self._by_operation or index in self._bad)
                passed[number] = [index for index in inside if index not in passed]
            found[number] = before
        return found
