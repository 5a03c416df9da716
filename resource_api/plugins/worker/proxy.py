"""A provider that runs in workers: the provider as the runtime calls it, the pool of its processes, and one call.

A worker makes one call at a time; calls side by side get a worker each. A lost worker loses its current call only.
"""

from __future__ import annotations

import threading
import time
import weakref
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.change import Changes
from resource_api.model.provider_functions import Planned
from resource_api.model.report import LOG_FIELDS
from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import STOPPED, DefinitionError, ProviderError, ResourceError, reason
from resource_api.model.values.reference import hashable_name
from resource_api.model.values.values import Sensitive, is_secret
from resource_api.plugins.worker import protocol
from resource_api.plugins.worker.process import WorkerLost
from resource_api.provider.context import Context
from resource_api.provider.outcomes import Outcome, Subject
from resource_api.system.log import LEVELS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from resource_api.model.change import Change, SideEffect
    from resource_api.model.provider_functions import Question
    from resource_api.model.type_definition import Name, Resource, TypeDefinition
    from resource_api.model.values.errors import Problem
    from resource_api.model.values.masking import Mask
    from resource_api.plugins.worker.process import WorkerProcess
    from resource_api.plugins.worker.protocol import Frame
    from resource_api.provider.context import RunContext

#: The statuses that a provider may report.
STATUSES: Final = ("created", "updated", "deleted", "unchanged", "failed")
#: Seconds that a call may go on after its deadline, once it was cancelled.
GRACE: Final = 5.0
#: Seconds that a worker has to load its provider: to answer ``hello``.
READY_TIMEOUT: Final = 60.0
#: Seconds that a worker has to end by itself.
CLOSE_TIMEOUT: Final = 2.0

#: Methods whose arguments and answer are sent as they are.
_PASSED_ON: Final = frozenset({"get", "refresh", "canonicalize", "import_"})
#: The reports that a worker may send before its first call and after its last one.
_REPORTS_OUTSIDE_CALLS: Final = frozenset({"log", "conceal"})
#: The log level of a worker's lines on standard output and error.
_LEVELS: Final = {1: "notice", 2: "warning"}


class WorkerProvider:
    """A provider that runs in workers: it has the methods of ``BaseProvider``, and each is a call."""

    def __init__(self, workers: WorkerPool) -> None:
        """Start the first worker, for the provider's methods and priority. Raise ``DefinitionError`` if it fails."""
        self._workers = workers
        #: Closes the workers, once: by ``close``, or when this object is no longer used.
        self._finalizer = weakref.finalize(self, workers.close)
        workers.start_first()
        ready = workers.ready
        self._methods: Sequence[str] = ready.get("methods", ())
        self.priority: int = ready.get("priority", 0)
        #: Whether it has ``suitable``: with its priority, that decides between several providers.
        self.decides: bool = "suitable" in self._methods

    def set(self, context: Context, changes: Mapping[Name, Any], **_noop: bool) -> None:
        """Bring every name from ``is_`` to ``should``."""
        offered = changes if isinstance(changes, Changes) else Changes(changes, lambda _name: False, lambda: False)
        self._workers.call(context, "set", offered)

    def validate_each(self, context: Context, resources: Iterable[Resource]) -> Iterator[list[Problem] | Exception]:
        """Yield the problems of each resource, or the exception of its check; all resources are sent in one call."""
        for answer in self._answers(context, "validate", [[should] for should in resources]):
            try:
                problems = answer if isinstance(answer, Exception) else list(map(protocol.problem, answer or ()))
            except ProviderError as error:
                problems = error
            yield problems

    def insync_each(self, context: Context, questions: Iterable[Question]) -> Iterator[list[object] | Exception]:
        """Yield for each question the answers of ``insync`` for its attributes, or their first error.

        All are sent in one call: one for each attribute would be slow.
        """
        counts: list[int] = []
        calls: list[list[object]] = []
        for name, attributes, is_, should in questions:
            counts.append(len(attributes))
            calls += [[name, attribute, is_, should] for attribute in attributes]
        answers = self._answers(context, "insync", calls)
        for count in counts:
            part = list(islice(answers, count))
            errors = [answer for answer in part if isinstance(answer, Exception)]
            yield errors[0] if errors else list(map(_pair, part))

    def due(self, context: Context, name: Name, should: Mapping[str, object]) -> Any:
        """Return whether an imperative resource is due, as a boolean or as a pair with the reason."""
        return _pair(self._workers.call(context, "due", name, should))

    def plan(self, context: Context, name: Name, is_: Resource | None, should: Resource) -> object:
        """Return the provider's prediction for a change."""
        answer = self._workers.call(context, "plan", name, is_, should)
        return Planned(**answer) if isinstance(answer, dict) and answer.keys() <= set(Planned._fields) else answer

    def preflight(
        self, context: Context, changes: Mapping[Name, Mapping[str, object]]
    ) -> Iterator[tuple[Name, Problem]]:
        """Yield a problem for each requirement of a change that this machine does not meet, from the worker's provider.

        The changes are sent as a list, because a name of several namevars cannot be the key of a JSON object.
        """
        listed = [{"name": name, "should": should} for name, should in changes.items()]
        for name, problem in self._workers.call(context, "preflight", listed) or ():
            yield hashable_name(name), protocol.problem(problem)

    def side_effects(self, context: Context, changes: Mapping[Name, Change]) -> Iterator[tuple[Name, SideEffect]]:
        """Yield the side effects of the changes, as the provider in the worker reports them.

        The changes are sent as a list, as for ``preflight``.
        """
        listed = [{"name": name, "is": is_, "should": should} for name, (is_, should) in changes.items()]
        for name, effect in self._workers.call(context, "side_effects", listed) or ():
            yield hashable_name(name), protocol.side_effect(effect)

    def suitable(self, context: Context) -> object:
        """Return True, or why the provider cannot be used on this machine; one without the method always can."""
        return self._workers.call(context, "suitable") if self.decides else True

    def upgrade(self, version: int, values: Resource) -> object:
        """Return recorded values in the form of the type's schema version."""
        return self._workers.call(self._workers.no_call, "upgrade", version, values)

    def configure(self, _context: Context, config: Mapping[str, object]) -> None:
        """Set the configuration; each worker gets it before its first call that needs it."""
        self._workers.config = dict(config)

    def check_config(self, context: Context, config: Resource, former: Resource | None = None) -> object:
        """Return the configuration as the provider completes it, unchanged if the provider does not have this method.

        ``former`` is the recorded configuration, of which the provider may keep values.
        """
        if "check_config" not in self._methods:
            return config
        return self._workers.call(context, "check_config", config, former)

    def diff_config(self, context: Context, is_: Resource, should: Resource) -> object:
        """Return the attributes whose change makes existing resources unreachable; none if the method is missing."""
        if "diff_config" not in self._methods:
            return []
        return self._workers.call(context, "diff_config", is_, dict(should))

    def __getattr__(self, name: str) -> object:
        """Return a method whose arguments are sent unchanged, such as ``get``, or a function of the type.

        Methods whose arguments need another form in a frame are defined above. A function takes named inputs.
        """
        if name in _PASSED_ON:
            return lambda context, *arguments: self._workers.call(context, name, *arguments)
        if name.startswith("_") or name not in self._workers.functions:
            raise AttributeError(name)
        return lambda context, **inputs: self._workers.call(context, name, inputs)

    def cancel(self) -> None:
        """Have ``cancel`` of each provider called: now, beside its call, or before it is closed."""
        self._workers.interrupt()

    def begin_close(self) -> None:
        """Ask the idle workers to end, and do not wait: those of further providers then end side by side."""
        self._workers.begin_close()

    def close(self) -> None:
        """End the workers."""
        self._finalizer()

    def _answers(self, context: Context, method: str, calls: list[list[object]]) -> Iterator[Any]:
        """Yield the result or error of each of ``calls``, lists of arguments of a method, all sent in one frame.

        If the frame fails as a whole, its error is the answer to each call. Raise ``ProviderError`` for another number
        of answers than of calls.
        """
        try:
            answers = self._workers.call(context, method, calls) if calls else []
        except Exception as error:  # noqa: BLE001 - the answer to each
            answers = [{"raised": protocol.encode_error(error)}] * len(calls)
        if type(answers) is not list or len(answers) != len(calls):
            raise ProviderError(f"{context.type.name}: {method} must return one answer to each of {len(calls)} calls")
        for answer in answers:
            raised = answer.get("raised") if isinstance(answer, dict) else {"text": f"{answer!r:.80} is no answer"}
            yield protocol.decode_exception(raised) if raised is not None else answer.get("value")


def _pair(answer: object) -> object:
    """Return an answer of two parts as a tuple, also from a program without tuples."""
    return tuple(answer) if type(answer) is list else answer


class WorkerPool:
    """The worker processes of one provider, each of which makes one call at a time."""

    def __init__(
        self,
        definition: TypeDefinition,
        run: RunContext,
        start: Callable[[Callable[[int, str], None], Mask], WorkerProcess],
        implementation: str,
    ) -> None:
        """Begin without workers; ``implementation``: one of several providers of the type, or "".

        ``start`` starts a process, with the function for each line of its output, and the mask of its secrets.
        """
        self._definition = definition
        self._implementation = implementation
        self._start_process = start
        self._run = run
        self.functions = definition.functions
        #: The configuration of the provider; None while it has none.
        self.config: Mapping[str, object] | None = None
        #: Whether the run is interrupted: workers that are closed then call ``cancel`` first.
        self.interrupted = False
        #: The body of ``ready`` of the last worker that was started.
        self.ready: Mapping[str, Any] = {}
        #: The context of frames outside of a call.
        self.no_call = Context(definition, run, answering=True)
        self._lock = threading.Lock()
        #: The workers without a call, and those that were asked to end.
        self._idle: list[WorkerProcess] = []
        self._closing: list[WorkerProcess] = []
        #: The number of calls that have changed something.
        self._changes = 0
        #: Each living worker, idle or in a call → the number of changes up to which its provider's cached data are
        #: valid; a call after other changes has the provider made anew.
        self._workers: dict[WorkerProcess, int] = {}

    def start_first(self) -> None:
        """Start a worker, which waits for the first call."""
        self._idle.append(self._start())

    def call(self, context: Context, method: str, *arguments: object) -> Any:
        """Return the answer of a provider's method, called in an idle worker or a new one.

        Raise the method's exceptions, and ``WorkerLost``. After a timeout the worker is killed, names without a status
        have failed in ``context``, and None is returned. A provider may cache data of the system: if another worker has
        changed something since then, the provider is made anew (``fresh``).
        """
        worker, before = self._take(), self._changes
        call = WorkerCall(self._run, context, method, self.config)
        try:
            last = call.run(worker, arguments, fresh=self._workers.get(worker) != before)
        except CallTimeout:
            self._discard(worker, context)
            call.fail_undecided()
            return None
        except BaseException:
            self._discard(worker, context)
            raise
        changed = not context.reading
        with self._lock:
            self._changes += changed
            # The cache of this worker's provider stays valid if no other call changed anything meanwhile; -1: never.
            self._workers[worker] = self._changes if self._changes == before + changed else -1
            self._idle.append(worker)
        return result(last)

    def interrupt(self) -> None:
        """Report to each living worker that the run is interrupted.

        A worker that is started later learns of it when it is closed.
        """
        self.interrupted = True
        for worker in list(self._workers):  # a copy, as other threads start workers
            worker.interrupt()

    def begin_close(self) -> None:
        """Ask the idle workers to end, without waiting, so that they end side by side."""
        with self._lock:
            closing, self._idle = self._idle, []
        self._closing += closing
        for worker in closing:
            worker.begin_close(interrupted=self.interrupted)

    def close(self) -> None:
        """Wait until the workers have ended, for a limited time; log their reports at the end."""
        self.begin_close()
        while self._closing:
            for frame in self._closing.pop().end(CLOSE_TIMEOUT):
                if frame.kind in _REPORTS_OUTSIDE_CALLS:
                    apply_report(self._run, self.no_call, frame)
                elif frame.kind == "raised":
                    text = f"close of its provider failed: {reason(protocol.decode_error(frame.body))}"
                    self._run.log.write("warning", self._definition.instance, text, self._definition.name)

    def _take(self) -> WorkerProcess:
        """Return an idle worker, or a new one. One that has ended while it was idle is replaced.

        The replacement is reported as a warning, unless this run itself has stopped the worker.
        """
        with self._lock:
            worker = self._idle.pop() if self._idle else None
        if worker is not None and worker.has_ended():
            lost = worker.end_as_lost()
            self._workers.pop(worker, None)
            if not worker.stopped:
                text = f"its worker {lost.how} while it was idle{lost.more}; another is started"
                self._run.log.write("warning", self._definition.name, text, self._definition.name)
            worker = None
        return worker or self._start()

    def _discard(self, worker: WorkerProcess, context: Context) -> None:
        """Kill a worker whose call has failed or timed out.

        The call may have changed something before, unless it was ``reading``: it is counted as a change, which makes
        the cached data of the other workers' providers invalid.
        """
        worker.kill()
        with self._lock:
            self._changes += not context.reading
            self._workers.pop(worker, None)

    def _start(self) -> WorkerProcess:
        """Start a worker, wait until it has loaded its provider, and keep its answer in ``ready``.

        Raise ``ProviderError`` where it cannot be started, ``DefinitionError`` where it cannot load the provider.
        """
        name = self._definition.name
        with errors_as(ProviderError, OSError, f"the worker of '{name}' cannot be started: "):
            worker = self._start_process(self._log_output, self._run.log.mask)
        try:
            instance = self._definition.instance
            terms = {"implementation": self._implementation, "level": self._run.log.lowest_level(name)}
            worker.send("hello", protocol=protocol.VERSION, instance=instance, **terms)
            answer = self._await_ready(worker)
            worker.drain()
            problem = self._problem(answer)
        except (WorkerLost, ValueError, LookupError, TypeError) as error:
            worker.kill()
            lost = _as_lost(error)
            msg = f"the worker of '{name}' {lost.how} while it loaded the type and its provider{lost.more}"
            raise DefinitionError(msg) from error
        except BaseException:
            worker.kill()
            raise
        if problem is not None:
            worker.kill()
            raise problem
        self._workers[worker] = self._changes
        self.ready = answer.body
        return worker

    def _await_ready(self, worker: WorkerProcess) -> Frame:
        """Return the answer to ``hello``: ``ready``, or ``raised`` if the provider cannot be made.

        Log lines and secrets before it are applied. Raise ``WorkerLost`` for none in time, and the errors of
        ``apply_report`` for an invalid frame.
        """
        deadline = time.monotonic() + READY_TIMEOUT

        def check() -> None:
            """Raise ``WorkerLost`` when the worker takes too long to load its provider."""
            if time.monotonic() > deadline:
                how = f"did not answer within {READY_TIMEOUT:g} s"
                raise WorkerLost(how)

        while (frame := worker.receive(check)).kind in _REPORTS_OUTSIDE_CALLS:
            apply_report(self._run, self.no_call, frame)
        if frame.kind not in {"ready", "raised"}:
            how = f"sent '{frame.kind:.40}' instead of 'ready'"
            raise WorkerLost(how)
        return frame

    def _problem(self, answer: Frame) -> BaseException | None:
        """Return the error for which a worker that has answered ``hello`` cannot be used, or None if it can.

        The worker reads the files of the type by itself, and they may have been replaced since this run read them.
        Raise ``ValueError``, ``LookupError`` or ``TypeError`` for an invalid frame.
        """
        if answer.kind == "raised":
            return protocol.decode_error(answer.body)
        name, definition, ready = self._definition.name, self._definition, answer.body
        if ready.get("protocol") != protocol.VERSION:
            return ProviderError(
                f"the worker of '{name}' uses protocol {ready.get('protocol')} and this run {protocol.VERSION}:"
                " resource-api or the provider has been replaced; run again with versions that fit each other"
            )
        if type(ready.get("methods", [])) is not list or type(ready.get("priority", 0)) is not int:
            raise ValueError("'methods' is a list, and 'priority' an integer")
        loaded = ready.get("schema_version", definition.schema_version), ready.get("features", definition.features)
        if loaded != (definition.schema_version, definition.features):
            return DefinitionError(f"the worker of '{name}' has loaded another version of the type; run again")
        return None

    def _log_output(self, stream: int, line: str) -> None:
        """Log a line of a worker's standard output (1) or error (2)."""
        self._run.log.write(_LEVELS[stream], self._definition.name, line, self._definition.name)


def _as_lost(error: Exception) -> WorkerLost:
    """Return the error of a worker that cannot be used after ``error``, which an invalid frame may have raised."""
    return error if isinstance(error, WorkerLost) else WorkerLost("sent an invalid frame", f": {error}")


class CallTimeout(Exception):  # noqa: N818 - caught by name, never shown
    """A call did not end at its deadline, nor in the grace period after it."""


class WorkerCall:
    """One call of a method in a worker: its frames, the worker's requests meanwhile, and the time limit."""

    def __init__(self, run: RunContext, context: Context, method: str, config: Mapping[str, object] | None) -> None:
        """Prepare a call; ``config`` is the configuration of the provider, None while it has none."""
        self._run = run
        self._context = context
        self._method = method
        self._config = config
        #: The time limit of the call, None without one.
        self._seconds = None if context.deadline is None else context.deadline - time.monotonic()
        #: Whether the worker was asked to end the call.
        self._cancelled = False
        #: The changes of ``set``; none for another method.
        self._changes = Changes({}, lambda _name: False, lambda: False)

    def run(self, worker: WorkerProcess, arguments: Sequence[Any], *, fresh: bool) -> Frame:
        """Make the call in ``worker`` and return its last frame, see ``result``.

        ``fresh``: the worker makes its provider anew, as others may have changed its cached data. Raise ``WorkerLost``
        when the worker ends or sends an invalid frame, ``CallTimeout``, and ``KeyboardInterrupt`` where all workers are
        being stopped: then no call that changes something begins, and the end of a worker is no fault.
        """
        if self._run.stopping and not self._context.reading:
            raise KeyboardInterrupt(STOPPED)
        if self._method == "set":
            self._changes = arguments[0]
            arguments = [self._offer()]
        number = worker.begin_call()
        try:
            bound = dict(self._run.log.bound)
            terms = {"terms": self._terms(), "bound": bound, "fresh": fresh, "config": self._config}
            self._send(worker, "call", id=number, method=self._method, arguments=list(arguments), **terms)
            frame = self._await_last_frame(worker, number)
            worker.drain()
        except (WorkerLost, ValueError, LookupError, TypeError) as error:
            if worker.stopped:
                raise KeyboardInterrupt(STOPPED) from error
            lost = _as_lost(error)
            msg = f"the worker of '{self._context.type.name}' {lost.how} while in {self._method}{lost.more}"
            raise WorkerLost(msg) from error
        else:
            return frame
        finally:
            worker.assets.close()

    def _await_last_frame(self, worker: WorkerProcess, number: int) -> Frame:
        """Return the last frame of the call ``number``, after handling the frames before it.

        Raise ``ValueError`` if it has the number of another call, because it is then no answer to this one.
        """
        while (frame := worker.receive(lambda: self._check_time(worker))).kind not in {"done", "raised"}:
            self._handle(worker, frame)
        if frame.body.get("id") != number:
            raise ValueError(f"'{frame.kind}' has the id {frame.body.get('id')!r:.20}, and the call {number}")
        return frame

    def _offer(self) -> dict[str, object]:
        """Return the argument of ``set`` for the frame: the changes, and the names whose prerequisites have failed."""
        offered = self._changes.offered
        # Until the worker reports otherwise, it may have begun with each of them.
        self._changes.begun.update(offered)
        left_out = [name for name in offered if self._changes.blocked(name)]
        listed = [{"name": name, "is": is_, "should": should} for name, (is_, should) in offered.items()]
        return {"changes": listed, "blocked": left_out}

    def fail_undecided(self) -> None:
        """Report that the call timed out for each of its names that has no status yet; the worker was ended."""
        outcomes = self._context.outcomes
        undecided = [name for name in outcomes.subjects if name not in outcomes or outcomes[name].status is None]
        self._context.failed(
            undecided,
            f"{self._method} timed out after {round(self._seconds or 0, 1):g} s and did not end when it was asked to;"
            f" the worker of '{self._context.type.name}' has been ended",
        )

    def _terms(self) -> Mapping[str, object]:
        """Return the circumstances of the call for the context in the worker: subjects, noop, reading, time left."""
        context = self._context
        return {
            "subjects": [_subject(name, subject) for name, subject in context.outcomes.subjects.items()],
            "noop": context.noop,
            "reading": context.reading,
            "seconds": self._seconds,
        }

    def _handle(self, worker: WorkerProcess, frame: Frame) -> None:
        """Answer a request that the worker sends during the call, or apply its report, such as a status.

        Private data, assets and failures of prerequisites are requested: only the runtime has them. ``begun`` lists
        the changes that a cancelled call has begun, in place of all that were offered.
        """
        if frame.kind == "blocked":
            self._send(worker, "answer", value=self._changes.blocked(hashable_name(frame.body["name"])))
        elif frame.kind == "begun":
            self._changes.begun.clear()
            self._changes.begun.update(map(hashable_name, frame.body["names"]))
        elif frame.kind == "private":
            self._send(worker, "answer", value=self._context.private(hashable_name(frame.body["name"])))
        elif frame.kind == "store_private":
            self._store_private(worker, hashable_name(frame.body["name"]), frame.body["data"])
        elif frame.kind in {"open", "member", "read"}:
            kind, answer = worker.assets.answer(frame.kind, frame.body)
            self._send(worker, kind, **answer)
        else:
            apply_report(self._run, self._context, frame)

    def _store_private(self, worker: WorkerProcess, name: Name, data: object) -> None:
        """Store private data of a resource that the worker has sent, and answer success or the error.

        The provider waits for the answer: it raises the error where it has stored the data.
        """
        try:
            self._context.store_private(name, data)
        except (ProviderError, ResourceError) as error:
            self._send(worker, "refused", **protocol.encode_error(error))
        else:
            self._send(worker, "answer", value=None)

    def _send(self, worker: WorkerProcess, kind: str, **body: object) -> None:
        """Send a frame of this call. Raise ``CallTimeout`` if the worker does not read it in time."""
        worker.send(kind, self._check_end, **body)

    def _check_time(self, worker: WorkerProcess) -> None:
        """Ask the worker to end a cancelled or late call, once. Raise ``CallTimeout`` after the grace period."""
        if (self._run.cancelled or self._seconds_over > 0) and not self._cancelled:
            self._cancelled = True
            self._send(worker, "cancel")
        self._check_end()

    def _check_end(self) -> None:
        """Raise ``CallTimeout`` after the grace period."""
        if self._seconds_over > GRACE:
            raise CallTimeout

    @property
    def _seconds_over(self) -> float:
        """The seconds since the time of the call was over; 0 without a limit."""
        return 0.0 if self._context.deadline is None else time.monotonic() - self._context.deadline


def result(frame: Frame) -> object:
    """Return the value in the last frame of a call, or raise the exception that the provider has raised."""
    if frame.kind == "raised":
        raise protocol.decode_error(frame.body)
    return frame.body["value"]


def apply_report(run: RunContext, context: Context, frame: Frame) -> None:
    """Carry out a report of a worker during a call: log a line, mask a secret, or record an outcome in ``context``.

    An outcome is a status, the line for it in the log, or the difference that was found in an attribute.
    Raise ``ValueError`` for a frame that is no report.
    """
    body, outcomes = frame.body, context.outcomes
    if frame.kind == "log":
        _log(run, context, **body)
    elif frame.kind == "status":
        _set_status(context, **body)
    elif frame.kind == "status_line":
        outcomes.log_status(list(map(hashable_name, body["names"])), body["status"], body["text"])
    elif frame.kind == "attribute":
        outcome = outcomes.setdefault(hashable_name(body["name"]), Outcome())
        outcome.attributes.append(protocol.difference(body))
    elif frame.kind == "conceal":
        value = body["value"]
        run.log.mask.add(value if is_secret(value) else Sensitive(value))
    else:
        raise ValueError(f"a frame '{frame.kind}' in the middle of a call")


def _set_status(
    context: Context, *, name: Name, status: str, reason: str = "", logged: bool = False, tainted: bool = False
) -> None:
    """Record the status that a worker reports for a resource. Raise ``ValueError`` for an unknown one.

    ``logged``: the worker, in Python, has logged and checked it already; for a program both happen here. ``tainted``:
    the next run replaces the failed resource.
    """
    if status not in STATUSES:
        raise ValueError(f"'{status}' is no status; there are {', '.join(STATUSES)}")
    if logged:
        context.outcomes.copy_status(hashable_name(name), status, reason, tainted=tainted)
    elif status == "failed":
        context.failed(hashable_name(name), reason, tainted=tainted)
    else:
        getattr(context, status)(hashable_name(name))


def _log(
    run: RunContext,
    context: Context,
    *,
    level: str,
    text: str,
    subject: str | None = None,
    name: Name = None,
    fields: Mapping[str, object] | None = None,
    change: Mapping[str, object] | None = None,
) -> None:
    """Log a line about a ``subject``: a text, or the ``name`` of a resource; without both it is about the type.

    ``fields``: those of the event by name; ``change``: the fields of a ``Difference``. Raise ``ValueError`` for a level
    that is not in ``LEVELS``.
    """
    if level not in LEVELS:
        raise ValueError(f"'{level}' is no level of the log")
    if subject is None:
        subject = context.type.name if name is None else context.reference(hashable_name(name))
    selected = {field: fields[field] for field in LOG_FIELDS if field in fields} if fields else {}
    difference = None if change is None else protocol.difference(change)
    run.log.write(level, subject, text, context.type.name, lambda: selected, change=difference)


def _subject(name: Name, subject: Subject) -> dict[str, object]:
    """Return the fields of a resource for the frame of a call, by which the worker logs about it.

    Fields with their default are left out: a call may have thousands of resources.
    """
    fields: dict[str, object] = {"name": name, "title": subject.title, "action": str(subject.action)}
    if subject.loglevel != "notice":
        fields["loglevel"] = subject.loglevel
    if subject.parent:
        fields["parent"] = subject.parent
    if subject.hidden:
        fields["hidden"] = list(subject.hidden)
    return fields
