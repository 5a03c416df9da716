"""Which operations of one segment a call leaves out: one that they wait for has failed in it, or ``--fail-fast``.

Dependencies are followed through operations of the segment that have nothing to do. No operation is ended here.
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
    """What keeps operations of one segment from being begun."""

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
