"""Calls a provider's ``set`` and ``refresh``, and notes on each operation what the provider reported of it.

An ``Exception`` is returned, for the caller to contain; anything else ends the run (``CallStopped``). What follows from
a report is not decided here.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from threading import get_ident
from typing import TYPE_CHECKING, Any

from resource_api.model.action import Action
from resource_api.model.change import Changes
from resource_api.model.report import ProviderCall
from resource_api.model.values.errors import reason
from resource_api.provider.context import Context
from resource_api.provider.outcomes import Subject
from resource_api.system import process_guard
from resource_api.transaction.call_progress import RunningCall
from resource_api.transaction.operation_run import NO_RESULT, CallResult

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from resource_api.model.change import Change
    from resource_api.model.type_definition import Name, TypeDefinition
    from resource_api.plugins.provider_pool import ProviderPool
    from resource_api.provider.outcomes import CallOutcomes
    from resource_api.transaction.call_progress import Places
    from resource_api.transaction.operation_run import OperationRun
    from resource_api.transaction.side_effects import SideEffectCheck


class CallStopped(Exception):  # noqa: N818 - it carries an interrupt through the stages of a run
    """A provider let something through that is no ``Exception``: the run ends, with everything written."""

    def __init__(self, cause: BaseException) -> None:
        """Keep what the provider let through."""
        super().__init__(reason(cause))
        self.cause = cause


class ProviderCaller:
    """Calls the provider instance of one type."""

    def __init__(
        self,
        definition: TypeDefinition,
        providers: ProviderPool,
        places: Places,
        calls: list[ProviderCall],
        check: Callable[[], SideEffectCheck] | None,
    ) -> None:
        """Prepare to call; the provider is made at the first call.

        ``places`` are shown while a call runs. Each call is appended to ``calls``. ``check`` makes what decides about
        the side effects of a ``set``; None: it has none.
        """
        self._check = check
        self._definition = definition
        self._providers = providers
        self._places = places
        self._calls = calls
        #: The names that a ``set`` of this caller has got to: with no other has anything begun.
        self.begun: set[Name] = set()
        #: The reports of calls whose lines of success wait for the verification.
        self._verified: list[CallOutcomes] = []

    @property
    def holds_lines(self) -> bool:
        """Whether a provider has reported a success that is shown only once it is confirmed."""
        return bool(self._verified)

    def log_held(self, confirmed: Collection[Name]) -> None:
        """Show the successes that were reported of ``confirmed`` names."""
        for outcomes in self._verified:
            outcomes.log_held(confirmed)

    def set(
        self,
        runs: Sequence[OperationRun],
        changes: Mapping[Name, Change],
        left_out: Callable[[Name, Context], bool],
        *,
        noop: bool,
    ) -> Exception | None:
        """Call ``set`` with ``changes`` and return what it raised, or None. Raises ``CallStopped``.

        ``left_out`` returns whether a name must be left out; it is called when the provider comes to that name.
        """
        if self._check is not None and not noop:
            try:
                changes = self._check().allowed(runs, changes)
            except Exception as error:  # noqa: BLE001 - as if ``set`` had raised it: then nothing was changed either
                return error
            except BaseException as error:
                raise CallStopped(error) from error
            if not changes:
                return None
            runs = [run for run in runs if run.name in changes]
        context = self._context(runs, noop=noop)
        if not noop and "imperative" not in self._definition.features:
            context.outcomes.held = []
        extra = {"noop": noop} if "noop_handler" in self._definition.features else {}
        offered = Changes(changes, lambda name: left_out(name, context), lambda: context.cancelled)
        try:
            running = RunningCall(runs, context, offered, self._places)
            return self._call(running, context, "set", lambda provider: provider.set(context, offered, **extra))
        finally:
            self.begun |= offered.begun
            if context.outcomes.held:
                self._verified.append(context.outcomes)

    def refresh(self, runs: Sequence[OperationRun]) -> Exception | None:
        """Call ``refresh`` and return what it raised, or None; earlier reports are dropped. Raises ``CallStopped``."""
        for run in runs:
            run.result = NO_RESULT
        context = self._context(runs, noop=False, action=Action.REFRESH)
        running = RunningCall(runs, context, None, self._places)
        names = [run.name for run in runs]
        return self._call(running, context, "refresh", lambda provider: provider.refresh(context, names))

    def interrupted(self, run: OperationRun) -> bool:
        """Return whether the run was interrupted before anything began with an operation."""
        return self._providers.run.cancelled and run.name not in self.begun

    def _context(self, runs: Sequence[OperationRun], *, noop: bool, action: Action | None = None) -> Context:
        """Return the context of a call; ``action`` None: what is decided for each operation."""
        hidden = self._definition.write_only
        subjects = {
            run.name: Subject(
                entry.title,
                entry.meta.loglevel,
                entry.parent,
                _hidden(run, hidden) if hidden else (),
                action or run.decision.action,
                entry.declaration,
            )
            for run, entry in ((run, run.step.entry) for run in runs)
        }
        return Context(self._definition, self._providers.run, subjects=subjects, noop=noop, deadline=_deadline(runs))

    def _call(
        self, running: RunningCall, context: Context, method: str, call: Callable[[Any], None]
    ) -> Exception | None:
        run = self._providers.run
        # Outside of ``provider_call``, where this thread alone runs: what shows the calls is made with the first one.
        shown = run.shown(running)
        try:
            provider = self._providers.instance(self._definition.instance)
            with run.provider_call(), process_guard.protected(), shown, context.activate(provider):
                if context.deadline is None or run.isolates(self._definition):
                    call(provider)
                else:
                    _call_within(context.deadline, running.runs[0].timeout or 0, provider, call)
        except Exception as error:  # noqa: BLE001 - contained in the resources of this call
            context.log_traceback(error)
            return error
        except BaseException as error:
            raise CallStopped(error) from error
        finally:
            operations, seconds = [run.operation for run in running.runs], time.monotonic() - running.started
            instance = self._definition.instance
            self._calls.append(ProviderCall(instance, method, operations, running.started, seconds, get_ident()))
            _note_reports(running.runs, context)
        return None


def _call_within(deadline: float, timeout: float, provider: Any, call: Callable[[Any], None]) -> None:
    """Call a provider with a time limit in seconds; a worker, as programs have, keeps to its own and says more."""
    from resource_api.plugins.worker.proxy import WorkerProvider
    from resource_api.system.time_limit import time_limit

    with nullcontext() if isinstance(provider, WorkerProvider) else time_limit(deadline, timeout):
        call(provider)


def _deadline(runs: Sequence[OperationRun]) -> float | None:
    """Return when a call must have ended, in seconds of ``time.monotonic``; None: there is no time limit.

    A resource with a timeout has a call of its own (``segments``). The call's programs and workers obey the deadline.
    """
    timeout = runs[0].timeout if len(runs) == 1 else None
    return None if timeout is None else time.monotonic() + timeout


def _hidden(run: OperationRun, write_only: Collection[str]) -> list[str]:
    """Return the ``write_only`` attributes of an operation that get another value."""
    return [difference.attribute for difference in run.decision.differences if difference.attribute in write_only]


def _note_reports(runs: Sequence[OperationRun], context: Context) -> None:
    for run in runs if context.outcomes else ():
        if outcome := context.outcomes.get(run.name):
            error = outcome.reason if outcome.status == "failed" else ""
            run.result = CallResult(outcome.status, error, tuple(outcome.attributes), tainted=outcome.tainted)
