"""Reports what noop resources would do, also by their provider where it has ``noop_handler``.

Nothing is changed or recorded, and no provider is called for a resource with unknown values.
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
    from resource_api.transaction.events import Events
    from resource_api.transaction.operation_run import OperationRun
    from resource_api.transaction.provider_call import ProviderCaller
    from resource_api.transaction.results import Results

#: Actions that change nothing and need no call.
_WITHOUT_CALL: Final = frozenset({Action.SAME, Action.READ})


def call_noop_handler(
    runs: Sequence[OperationRun],
    caller: ProviderCaller,
    results: Results,
    left_out: Callable[[Name, Context], bool],
) -> None:
    """Call ``set`` with ``noop=True`` where the type has ``noop_handler``; what fails there has failed."""
    if not runs or "noop_handler" not in runs[0].definition.features:
        return
    known = [run for run in runs if not any(map(is_unknown, run.should.values()))]
    called = [run for run in known if run.decision.action not in _WITHOUT_CALL]
    error = caller.set(called, LazyChanges(called), left_out, noop=True) if called else None
    for run in called:
        logged = run.result.reported == "failed"
        if logged or (error is not None and run.result.reported is None):
            results.fail(run, run.result.error or reason(error or RuntimeError("failed")), logged=logged)


def report_noop(runs: Sequence[OperationRun], results: Results, events: Events) -> None:
    """Report what each operation that has not failed would do."""
    with events.log.buffered():
        for run in runs:
            if run.finished:
                continue
            if run.decision.action not in _WITHOUT_CALL:
                results.complete(run)
            elif run.step.refreshed_by:
                text = f"would be refreshed by {', '.join(run.step.refreshed_by)} (noop)"
                events.log.write("notice", str(run.step.reference), text)
                results.succeed(run, Action.REFRESH)
            else:
                results.unchanged(run)
