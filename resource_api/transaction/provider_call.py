"""Calls a provider's ``set`` and ``refresh``, shows their progress, and stores the reported result of each operation.

An ``Exception`` is returned, for the caller to contain; anything else ends the run (``CallStopped``). The consequences
of a report are decided by ``segment_run``.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from functools import cached_property, partial
from itertools import islice
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.action import Action
from resource_api.model.change import Changes
from resource_api.model.report import ProviderCall
from resource_api.model.values.errors import reason
from resource_api.model.values.reference import capitalize_type
from resource_api.model.values.text import show_name
from resource_api.provider.context import Context
from resource_api.provider.outcomes import Subject
from resource_api.system import process_guard
from resource_api.transaction.operation_run import NO_RESULT, CallResult
from resource_api.transaction.side_effects import SideEffectCheck

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from resource_api.model.change import Change
    from resource_api.model.type_definition import Name, TypeDefinition
    from resource_api.system.log import Log
    from resource_api.transaction.operation_run import OperationRun
    from resource_api.transaction.transaction_context import StepPositions, TransactionContext

#: The number of names of a call that are shown.
_MOST_NAMES: Final = 5


class CallStopped(Exception):  # noqa: N818 - it carries an interrupt through the stages of a run
    """A provider raised an exception that is no ``Exception``: the run ends, with everything written."""

    def __init__(self, cause: BaseException) -> None:
        """Keep the exception of the provider."""
        super().__init__(reason(cause))
        self.cause = cause


class ProviderCaller:
    """Calls the provider instance of one type."""

    def __init__(
        self, transaction: TransactionContext, definition: TypeDefinition, prerequisites: Prerequisites
    ) -> None:
        """Take the type, whose provider is created at the first call.

        ``prerequisites``: they show which names a call has to leave out, because one that they need has failed.
        """
        self._check = SideEffectCheck(transaction).allowed if "side_effects" in definition.features else None
        self._definition = definition
        self._prerequisites = prerequisites
        self._providers = transaction.snapshot.providers
        self._positions = transaction.positions
        self._calls = transaction.results.calls
        #: The names that a ``set`` of this caller has reached; nothing has begun for any other name.
        self.begun: set[Name] = set()
        #: Whether ``retry`` is declared for any name of its calls.
        self.retries = False
        #: The lines of all its calls that wait for the verification, which confirms a success; in the order reported.
        self.held: list[Callable[[Collection[Name]], None]] = []

    def log_held(self, confirmed: Collection[Name]) -> None:
        """Log the provider's reports that were held back until verification: a success only if ``confirmed``."""
        for show_line in self.held:
            show_line(confirmed)
        self.held.clear()

    def set(
        self, runs: Sequence[OperationRun], changes: Mapping[Name, Change], *, noop: bool = False
    ) -> Exception | None:
        """Call ``set`` with ``changes`` and return its exception, or None. Raises ``CallStopped``.

        Operations with forbidden side effects end as failed before the call, which does not contain them.
        """
        if self._check is not None and not noop:
            try:
                changes = self._check(runs, changes)
            except Exception as error:  # noqa: BLE001 - as if ``set`` had raised it: then nothing was changed either
                return error
            except BaseException as error:
                raise CallStopped(error) from error
            if not changes:
                return None
            runs = [run for run in runs if run.name in changes]
        return self._set(runs, changes, noop=noop)

    def _set(self, runs: Sequence[OperationRun], changes: Mapping[Name, Change], *, noop: bool) -> Exception | None:
        """Call ``set`` with allowed changes, count the tries, and return its exception, or None.

        The provider's lines about successes are held back until reading confirms them, except under noop and for
        imperative types, where nothing can be read. A failure that is to be repeated is not logged as one.
        """
        context = self._context(runs, noop=noop)
        if not noop and "imperative" not in self._definition.features:
            context.outcomes.held = self.held
        retried = [run for run in runs if run.step.entry.meta.retry is not None] if not noop else []
        if retried:
            self.retries = True
            context.outcomes.repeated = {run.name for run in retried if run.tries_left > 1}
        extra = {"noop": noop} if "noop_handler" in self._definition.features else {}
        offered = Changes(changes, partial(self._prerequisites.left_out, context=context), lambda: context.cancelled)
        try:
            running = RunningCall(runs, context, offered, self._positions)
            return self._call(running, context, "set", lambda provider: provider.set(context, offered, **extra))
        finally:
            self.begun |= offered.begun
            if retried:
                _count_tries(retried, offered.begun | context.outcomes.keys())

    def refresh(self, runs: Sequence[OperationRun]) -> Exception | None:
        """Call ``refresh`` and return its exception, or None. Raises ``CallStopped``.

        The results of the operations are cleared before: they may be those of their changes, which have ended.
        """
        for run in runs:
            run.result = NO_RESULT
        context = self._context(runs, noop=False, action=Action.REFRESH)
        context.outcomes.repeated = {run.name for run in runs if run.tries_left > 1}
        running = RunningCall(runs, context, None, self._positions)
        names = [run.name for run in runs]
        try:
            return self._call(running, context, "refresh", lambda provider: provider.refresh(context, names))
        finally:
            _count_tries(runs, names)

    def interrupted(self, run: OperationRun) -> bool:
        """Return whether the run was interrupted before a ``set`` reached this operation: it counts as skipped."""
        return self._providers.run.cancelled and run.name not in self.begun

    def _context(self, runs: Sequence[OperationRun], *, noop: bool, action: Action | None = None) -> Context:
        """Return the context of a call, with the titles and actions for its log lines, and its time limit.

        ``action`` defaults to the decided one of each operation.
        """
        write_only, subjects = self._definition.write_only, {}
        for run in runs:
            entry, changes = run.step.entry, run.decision.differences
            subjects[run.name] = Subject(
                entry.title,
                entry.meta.loglevel,
                entry.parent,
                # Log lines need the names of these changes, as no row shows them.
                hidden=[c.attribute for c in changes if c.attribute in write_only] if write_only else (),
                action=action or run.decision.action,
                declaration=entry.declaration,
            )
        # A resource with a timeout has a call of its own, whose programs and workers obey the deadline.
        timeout = runs[0].timeout if len(runs) == 1 else None
        deadline = None if timeout is None else time.monotonic() + timeout
        return Context(self._definition, self._providers.run, subjects=subjects, noop=noop, deadline=deadline)

    def _call(
        self, running: RunningCall, context: Context, method: str, call: Callable[[Any], None]
    ) -> Exception | None:
        """Call the provider within the time limit; return its exception or None, and record the duration in any case.

        ``running`` is shown meanwhile; ``method`` is the name in the report. Raise ``CallStopped`` for an interrupt,
        after which the outcome of the call is unknown.
        """
        run = self._providers.run
        # Outside of ``provider_call``, where this thread alone runs: the display is created with the first call.
        display = run.shown(running)
        try:
            provider = self._providers.instance(self._definition.instance)
            with run.provider_call(), process_guard.protected(), display, context.activate(provider):
                if context.deadline is None or run.isolates(self._definition):  # a worker enforces the limit itself
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
            self._calls.append(
                ProviderCall(instance, method, operations, started=running.started, seconds=seconds, thread=get_ident())
            )
            _store_reports(running.runs, context)
        return None


def _count_tries(runs: Sequence[OperationRun], reached: Collection[Name]) -> None:
    """Count a call as a try of the operations with ``retry`` that it has ``reached`` (contract §10.8).

    A call that failed before it reached any counts as a try of each: it would otherwise be repeated without end.
    """
    for run in runs:
        if run.step.entry.meta.retry is not None and (run.name in reached or not reached):
            run.tries += 1


def _call_within(deadline: float, timeout: float, provider: object, call: Callable[[Any], None]) -> None:
    """Call a provider with a time limit: until ``deadline``, which is ``timeout`` seconds after the beginning.

    A worker enforces the limit itself, with a more detailed message.
    """
    from resource_api.plugins.worker.proxy import WorkerProvider

    with nullcontext() if isinstance(provider, WorkerProvider) else process_guard.time_limit(deadline, timeout):
        call(provider)


def _store_reports(runs: Sequence[OperationRun], context: Context) -> None:
    """Give each operation the result that the provider reported for its resource in this call."""
    if not context.outcomes:
        return  # nothing was reported: nearly every call
    for run in runs:
        if outcome := context.outcomes.get(run.name):
            error = outcome.reason if outcome.status == "failed" else ""
            run.result = CallResult(outcome.status, error, tuple(outcome.attributes), tainted=outcome.tainted)


class SettlingProgress:
    """The progress of a wait until changes are visible, as it is shown."""

    place = detail = ""
    verb = "waiting to see"

    def __init__(self, definition: TypeDefinition, names: Callable[[], Sequence[Name]], log: Log) -> None:
        """Begin now; ``names`` returns the names whose change is not visible yet, anew each time they are shown."""
        self.started = time.monotonic()
        self._definition = definition
        self._names = names
        self._log = log

    @property
    def subject(self) -> str:
        """The references of the resources; of more than five only the first."""
        names = self._names()
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        titles = ", ".join(map(show_name, names[:_MOST_NAMES]))
        return f"{capitalize_type(self._definition.name)}[{titles}]{more}"

    def log(self, seconds: int) -> None:
        """Log a notice that it still goes on."""
        text = f"still {self.verb} it as declared ({seconds} s)"
        self._log.write("notice", self.subject, text, self._definition.name)


class RunningCall:
    """The progress of one call of ``set`` or ``refresh``; only the thread that shows it computes anything."""

    def __init__(
        self, runs: Sequence[OperationRun], context: Context, changes: Changes | None, positions: StepPositions
    ) -> None:
        """Begin now; ``changes``: those of a ``set``, whose iteration shows the present resource, or None."""
        self.started = time.monotonic()
        self.runs = runs
        self._context = context
        self._changes = changes
        self._positions = positions

    @property
    def _names(self) -> Sequence[Name]:
        """The names to show as those in progress.

        They are the names of the call's open logging context, else the one that its iteration has reached, else all.
        """
        # The call may close the context at any time, in another thread: a slice cannot fail.
        for innermost in self._context.open_contexts[-1:]:
            return innermost.names
        current = self._changes.current if self._changes is not None else None
        return [run.name for run in self.runs] if current is None else [current]

    @property
    def place(self) -> str:
        """The positions of its resources among all that the plan changes, such as ``3/14``."""
        names = set(self._names)
        return self._positions.describe({run.step.entry.index for run in self.runs if run.name in names})

    @property
    def subject(self) -> str:
        """The references of the resources; of more than five only the first."""
        names = self._names
        reference = self._context.outcomes.reference(list(islice(names, _MOST_NAMES)))
        more = len(names) - _MOST_NAMES
        return f"{reference} and {more} more" if more > 0 else reference

    @property
    def verb(self) -> str:
        """The type's verb for the actions on the resources, such as "creating", with the number of the try."""
        subjects = self._context.outcomes.subjects
        verb = self._context.type.verb({subjects[name].action for name in self._names if name in subjects})
        repeated = self.runs[0] if len(self.runs) == 1 else None
        return f"{verb}{repeated.number_of_try}" if repeated is not None else verb

    @property
    def detail(self) -> str:
        """The last line that a program of this call printed."""
        return self._context.last_printed

    def log(self, seconds: int) -> None:
        """Log a notice that it still goes on."""
        self._context.outcomes.write("notice", self.subject, f"still {self.verb} ({seconds} s)", self._names)


class Prerequisites:
    """The failures that block operations of one segment during its call, also by ``--fail-fast``.

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
        """Take the operations of a segment in their order.

        ``waits``: number of an operation → numbers of those that must have succeeded before it. ``failures``: numbers
        of all failed operations of the run; it grows meanwhile. ``fail_fast``: any failure halts the segment.
        """
        self._runs = runs
        self._fail_fast = fail_fast
        self._failures = failures
        #: The numbers of operations found blocked since the last ``take_freed``.
        self._blocked: set[int] = set()
        self._waits = waits if all(run.acts for run in runs) else self._through_unchanged(waits)

    @cached_property
    def _by_name(self) -> Mapping[Name, OperationRun]:
        """The operations by the name that a provider reaches."""
        return {run.name: run for run in self._runs}

    @cached_property
    def _by_number(self) -> Mapping[int, OperationRun]:
        """The operations by the number that is in ``_waits``."""
        return {run.number: run for run in self._runs}

    def blocked(self, name: Name, context: Context | None = None) -> bool:
        """Return whether a prerequisite of ``name`` has failed, before the call or, by the reports so far, within it.

        ``context`` is that of the running call, or None after it. The names have to come in dependency order: a blocked
        one blocks those after it.
        """
        if context is not None and not (self._failures or context.outcomes.any_failed):
            return False
        run = self._by_name.get(name)
        return run is not None and self._is_blocked(run, context)

    def left_out(self, name: Name, context: Context) -> bool:
        """Return whether a running call omits a name: it is blocked, or any resource failed with ``--fail-fast``."""
        return self.blocked(name, context) or (self._fail_fast and context.outcomes.any_failed_finally)

    def halted(self) -> bool:
        """Return whether no further operation of this segment begins, because one failed with ``--fail-fast``."""
        return self._fail_fast and any(run.failing and not run.is_to_repeat for run in self._runs)

    def take_freed(self) -> list[OperationRun]:
        """Return the operations that calls left out and that are not blocked any more, to be called now.

        A repeated call of a failed prerequisite may have succeeded. Each operation is returned once; one that is still
        blocked may be returned later.
        """
        omitted = [run for run in self._runs if run.number in self._blocked]
        self._blocked.clear()  # ``blocked`` notes again those that still are
        return [run for run in omitted if run.started and not (run.finished or self.blocked(run.name))]

    def _is_blocked(self, run: OperationRun, context: Context | None) -> bool:
        """Return whether a failed or blocked prerequisite blocks an operation; note that, for those that wait for it.

        ``context``: the running call, by whose reports a prerequisite may have failed, or None after the call.
        """
        for number in self._waits.get(run.number, ()):
            prerequisite = self._by_number.get(number)
            if (
                number in self._failures
                or number in self._blocked
                or (prerequisite is not None and _is_failing(prerequisite, context))
            ):
                self._blocked.add(run.number)
                return True
        return False

    def _through_unchanged(self, waits: Mapping[int, Sequence[int]]) -> dict[int, Sequence[int]]:
        """Return the waits of the segment's operations, past those that have nothing to do.

        A call does not contain these and so cannot show them as blocked: those after them wait for their prerequisites.
        Where C waits for B, which has nothing to do, and B for A, C waits for A too.
        """
        closed: dict[int, Sequence[int]] = {}
        #: Operation that has nothing to do → the prerequisites that it passes on, themselves with something to do.
        inherited: dict[int, list[int]] = {}
        for run in self._runs:
            numbers = waits.get(run.number, ())
            if not inherited.keys().isdisjoint(numbers):
                numbers = list(
                    dict.fromkeys(before for number in numbers for before in (number, *inherited.get(number, ())))
                )
            if not run.acts:
                relevant = (number for number in numbers if number in self._by_number or number in self._failures)
                inherited[run.number] = [number for number in relevant if number not in inherited]
            closed[run.number] = numbers
        return closed


def _is_failing(run: OperationRun, context: Context | None) -> bool:
    """Return whether an operation has failed: by its report in the running call of ``context``, else by its result."""
    outcome = context.outcomes.get(run.name) if context else None
    return run.failing if outcome is None else outcome.status == "failed" or bool(run.result.error)
