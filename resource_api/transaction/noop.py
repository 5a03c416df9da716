"""What is noop is told: what would be done, also by the provider where it handles noop.

Nothing is changed or recorded here, and no provider is asked about what is not known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from resource_api.model.change import Action
from resource_api.model.values.errors import reason
from resource_api.model.values.values import is_unknown
from resource_api.transaction.operation_run import LazyChanges

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from resource_api.model.type_definition import Name
    from resource_api.provider.context import Context
    from resource_api.transaction.operation_run import OperationRun
    from resource_api.transaction.provider_call import ProviderCaller
    from resource_api.transaction.results import Ending

#: What does nothing to the system, and needs no call.
_NOTHING: Final = frozenset({Action.SAME, Action.READ})


def pretend(
    ending: Ending, caller: ProviderCaller, runs: Sequence[OperationRun], left_out: Callable[[Name, Context], bool]
) -> None:
    """Tell what would be done; a provider that handles noop is asked to tell more."""
    if runs and "noop_handler" in runs[0].definition.features:
        known = (run for run in runs if not any(map(is_unknown, run.should.values())))
        _ask(ending, caller, [run for run in known if run.decision.action not in _NOTHING], left_out)
    with ending.log.buffered():
        for run in runs:
            if not run.finished:
                _tell(ending, run)


def _ask(
    ending: Ending, caller: ProviderCaller, runs: list[OperationRun], left_out: Callable[[Name, Context], bool]
) -> None:
    error = caller.set(runs, LazyChanges(runs), left_out, noop=True) if runs else None
    for run in runs:
        told = run.outcome.status == "failed"
        if told or (error is not None and run.outcome.status is None):
            ending.fail(run, run.outcome.reason or reason(error or RuntimeError("failed")), told=told)


def _tell(ending: Ending, run: OperationRun) -> None:
    if run.decision.action not in _NOTHING:
        ending.carried_out(run)
    elif run.step.refreshed_by:
        text = f"would be refreshed by {', '.join(run.step.refreshed_by)} (noop)"
        ending.log.write("notice", str(run.step.reference), text)
        ending.succeed(run, Action.REFRESH)
    else:
        ending.same(run)
