"""What is noop is told: what would be done, also by the provider where it handles noop.

Nothing is changed or recorded here, and no provider is asked about what is not known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from resource_api.model.change import Action
from resource_api.model.values.errors import reason
from resource_api.model.values.values import is_unknown
from resource_api.transaction.operation_run import Asked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from resource_api.model.type_definition import Name
    from resource_api.provider.context import Context
    from resource_api.transaction.operation_run import Work
    from resource_api.transaction.provider_call import Caller
    from resource_api.transaction.results import Ending

#: What does nothing to the system, and needs no call.
_NOTHING: Final = frozenset({Action.SAME, Action.READ})


def pretend(ending: Ending, caller: Caller, works: Sequence[Work], left_out: Callable[[Name, Context], bool]) -> None:
    """Tell what would be done; a provider that handles noop is asked to tell more."""
    if works and "noop_handler" in works[0].definition.features:
        known = (work for work in works if not any(map(is_unknown, work.should.values())))
        _ask(ending, caller, [work for work in known if work.decision.action not in _NOTHING], left_out)
    with ending.log.together():
        for work in works:
            if not work.finished:
                _tell(ending, work)


def _ask(ending: Ending, caller: Caller, works: list[Work], left_out: Callable[[Name, Context], bool]) -> None:
    error = caller.set(works, Asked(works), left_out, noop=True) if works else None
    for work in works:
        told = work.outcome.status == "failed"
        if told or (error is not None and work.outcome.status is None):
            ending.fail(work, work.outcome.reason or reason(error or RuntimeError("failed")), told=told)


def _tell(ending: Ending, work: Work) -> None:
    if work.decision.action not in _NOTHING:
        ending.carried_out(work)
    elif work.step.refreshed_by:
        text = f"would be refreshed by {', '.join(work.step.refreshed_by)} (noop)"
        ending.log.write("notice", str(work.step.reference), text)
        ending.succeed(work, Action.REFRESH)
    else:
        ending.same(work)
