"""Calls ``set`` once more, one by one, for the operations of a call that raised: a bad resource fails alone.

The resources without a reported status are read again, and those that are not as they should be are tried once more. A
single one is not, an imperative one is not, and after an interrupt none is.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

from resource_api.model.values.errors import reason
from resource_api.transaction.operation_run import NO_RESULT
from resource_api.transaction.skipping import HALTED, INTERRUPTED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from resource_api.model.change import Change
    from resource_api.transaction.operation_run import OperationRun
    from resource_api.transaction.provider_call import ProviderCaller
    from resource_api.transaction.skipping import Prerequisites
    from resource_api.transaction.transaction import Parts
    from resource_api.transaction.verify import Verification


class Retry:
    """The retry of the operations of one ``set`` that raised."""

    def __init__(
        self, parts: Parts, caller: ProviderCaller, prerequisites: Prerequisites, verification: Verification
    ) -> None:
        """Take what the segment of these operations has called and read with."""
        self._snapshot = parts.snapshot
        self._run = parts.snapshot.providers.run
        self._results = parts.results
        self._caller = caller
        self._prerequisites = prerequisites
        self._verification = verification

    def run(self, runs: Sequence[OperationRun], error: Exception) -> None:
        """Try again, one by one, what has no status and is not as it should be; ``error`` is what ``set`` raised.

        What is raised again, or what an operation reports, is in its ``result``. Raises ``CallStopped``.
        """
        definition = runs[0].definition
        undecided = [run for run in runs if run.result.reported is None and not run.finished]
        if "imperative" in definition.features:
            for run in undecided:
                _set_error(run, error)
            return
        self._verification.read(undecided)
        self._verification.settle(undecided, self._caller.begun)
        self._verification.compare(undecided)
        for run in undecided:
            if not self._prerequisites.blocked(run.name) and (self._verification.missing(run) or run.sets_write_only):
                self._try_again(run, error, alone=len(runs) == 1)
        if not any(run.result.error for run in undecided):
            self._run.log.write("warning", definition.name, f"set raised: {reason(error)}", definition.name)

    def _try_again(self, run: OperationRun, error: Exception, *, alone: bool) -> None:
        """Call ``set`` for one operation of a call that raised ``error``; ``alone``: it was a call for this one."""
        if self._caller.interrupted(run):
            self._results.skip(run, INTERRUPTED)
            return
        if self._run.cancelled or self._run.stopping:
            _set_error(run, error)
            return
        run.result = NO_RESULT
        if self._prerequisites.halted():
            self._results.skip(run, HALTED)
            return
        if alone:
            _set_error(run, error)
            return
        changes = {run.name: self._change_from_now(run)}
        again = self._caller.set([run], changes, self._prerequisites.left_out, noop=False)
        self._snapshot.changed()
        if again is not None and run.result.reported is None:
            _set_error(run, again)

    def _change_from_now(self, run: OperationRun) -> Change:
        """Return the change of an operation from what was read last; from what was planned, where that failed."""
        row, failure = self._verification.observed(run)
        change = run.change()
        return change if failure else change._replace(is_=deepcopy(dict(row)) if row is not None else None)


def _set_error(run: OperationRun, error: Exception) -> None:
    run.result = run.result._replace(error=reason(error))
