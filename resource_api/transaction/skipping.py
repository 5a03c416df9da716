"""Why an operation is skipped: the run is being ended, or something that it waits for has failed or was skipped.

Of the run as a whole (``Skipping``), and within one call of a provider (``Prerequisites``). An operation is ended by
``results``.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from resource_api.model.action import Action

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from resource_api.model.type_definition import Name
    from resource_api.plan.planner import Plan
    from resource_api.provider.context import Context
    from resource_api.transaction.operation_run import OperationRun

#: Why operations are skipped after a failure.
HALTED: Final = "skipped because an earlier resource failed (--fail-fast)"
#: Why operations are skipped after an interrupt.
INTERRUPTED: Final = "skipped because the run was interrupted"


class Skipping:
    """The failures of one transaction, and what they keep from being done."""

    def __init__(self, plan: Plan, blocked: Mapping[int, str], failures: dict[int, str]) -> None:
        """Begin without failures of the run.

        ``blocked``: entry's index → the failure of planning that keeps it from being done. ``failures``: the failed and
        skipped operations, each with the reference of the failure that caused it (empty: an interrupt), as ``add``
        adds them.
        """
        self._plan = plan
        self._blocked = blocked
        self._failures = failures
        self._pruned = plan.pruned
        #: The references of the failures of what is declared, in their order.
        self._declared_failures: dict[str, None] = {}

    def add(self, run: OperationRun, cause: str) -> None:
        """Add an operation that has failed or was skipped; ``cause``: the reference of the first failure."""
        self._failures[run.number] = cause
        if run.step.entry.index not in self._plan.prior.orphans:
            self._declared_failures[cause] = None

    def cause(self, run: OperationRun, why: str) -> str:
        """Return the failure for which an operation is skipped with a reason; empty: there is none."""
        return next(iter(self._failures.values()), str(run.step.reference)) if why == HALTED else ""

    def reason(self, run: OperationRun, operations_of: Mapping[int, Sequence[int]]) -> tuple[str, str] | None:
        """Return why an operation cannot be done, and the reference of the cause; None: it can.

        ``operations_of``: the entry's index → its operations.
        """
        index = run.step.entry.index
        waits = self._plan.waits.get(run.number, ())
        cause = next((self._failures[n] for n in waits if n in self._failures), self._blocked.get(index))
        if cause is None and run.removal and run.decision.action is Action.REPLACE:
            cause = self._failure_before_replacement(run, operations_of[index])
        hint = ""
        if index in self._pruned and self._declared_failures:
            cause = cause or next(iter(self._declared_failures))
            hint = "; --prune-always deletes it all the same" if cause in self._declared_failures else ""
        if cause is None:
            return None
        return (f"skipped because {cause} failed{hint}" if cause else INTERRUPTED), cause

    def _failure_before_replacement(self, removal: OperationRun, both: Sequence[int]) -> str | None:
        """Return the failure, at any distance, that keeps the new resource of a replacement from being made."""
        waiting, seen = list(both), {removal.number}
        while waiting:
            number = waiting.pop()
            if number in self._failures:
                return self._failures[number]
            if number not in seen:
                seen.add(number)
                waiting += self._plan.waits.get(number, ())
        return None


class Prerequisites:
    """What keeps operations of one segment from being begun in a call: a failure in it, or ``--fail-fast``.

    Dependencies are followed through operations of the segment that have nothing to do.
    """

    def __init__(
        self,
        runs: Sequence[OperationRun],
        waits: Mapping[int, Sequence[int]],
        failures: Collection[int],
        *,
        fail_fast: bool,
    ) -> None:
        """Take the operations in their order; ``waits`` and the growing ``failures`` are the run's, by number."""
        self._runs = runs
        self._fail_fast = fail_fast
        self._failures = failures
        self._blocked: set[int] = set()
        self._waits = waits if all(run.acts for run in runs) else self._through_unchanged(waits)

    @cached_property
    def _by_name(self) -> Mapping[Name, OperationRun]:
        return {run.name: run for run in self._runs}

    @cached_property
    def _by_number(self) -> Mapping[int, OperationRun]:
        return {run.number: run for run in self._runs}

    def blocked(self, name: Name, context: Context | None = None) -> bool:
        """Return whether a prerequisite of ``name`` has failed by now; ``context``: in the call that is being made.

        The names of a call must be asked for in dependency order.
        """
        if context is not None and not (self._failures or context.outcomes.any_failed):
            return False
        run = self._by_name.get(name)
        return run is not None and self._is_blocked(run, context)

    def left_out(self, name: Name, context: Context) -> bool:
        """Return whether a name is left out of a call: it is blocked, or something has failed with ``--fail-fast``."""
        return self.blocked(name, context) or (self._fail_fast and context.outcomes.any_failed)

    def halted(self) -> bool:
        """Return whether nothing more is begun in this segment, because something has failed with ``--fail-fast``."""
        return self._fail_fast and any(run.failing for run in self._runs)

    def _is_blocked(self, run: OperationRun, context: Context | None) -> bool:
        for number in self._waits.get(run.number, ()):
            failed = number in self._failures or number in self._blocked
            other = self._by_number.get(number)
            if not failed and other is not None:
                reported = context.outcomes.get(other.name) if context else None
                failed = other.failing if reported is None else reported.status == "failed" or bool(other.result.error)
            if failed:
                self._blocked.add(run.number)
                return True
        return False

    def _through_unchanged(self, waits: Mapping[int, Sequence[int]]) -> dict[int, Sequence[int]]:
        """Let an operation that waits for one without a change also wait for what that one waits for."""
        found: dict[int, Sequence[int]] = {}
        passed: dict[int, list[int]] = {}
        for run in self._runs:
            before = waits.get(run.number, ())
            if not passed.keys().isdisjoint(before):
                before = list(dict.fromkeys(other for number in before for other in (number, *passed.get(number, ()))))
            if not run.acts:
                inside = (number for number in before if number in self._by_number or number in self._failures)
                passed[run.number] = [number for number in inside if number not in passed]
            found[run.number] = before
        return found
