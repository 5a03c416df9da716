"""One call of a provider in a worker, as the runtime conducts it: from its first frame to its last, and for how long.

Which worker makes the call, and what follows when it is lost, is decided in ``proxy``.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.event import LOG_FIELDS
from resource_api.model.values.errors import STOPPED
from resource_api.model.values.values import Sensitive, is_secret
from resource_api.plugins.worker import protocol
from resource_api.plugins.worker.process import WorkerLost
from resource_api.plugins.worker.protocol import decode_error
from resource_api.provider.outcomes import Outcome, Subject
from resource_api.system.log import LEVELS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from resource_api.model.type_definition import Name
    from resource_api.plugins.worker.process import WorkerProcess
    from resource_api.plugins.worker.protocol import Frame
    from resource_api.provider.context import Context, RunContext

#: The statuses that a provider may report.
STATUSES: Final = ("created", "updated", "deleted", "unchanged", "failed")
#: Seconds that a call may go on after its deadline, once it has been asked to end.
GRACE: Final = 5.0


def never_blocked(_name: Name) -> bool:
    """Return that no name is blocked."""
    return False


def never_interrupted() -> bool:
    """Return that the run is not interrupted."""
    return False


class CallTimeout(Exception):  # noqa: N818 - caught by name, never shown
    """A call has not ended at its deadline, nor in the grace period after it."""


class WorkerCall:
    """One call of a method in a worker."""

    def __init__(self, run: RunContext, context: Context, method: str, config: Mapping[str, Any] | None) -> None:
        """Prepare a call; ``config`` is the configuration of the provider, None while it has none."""
        self._run = run
        self._context = context
        self._method = method
        self._config = config
        self._seconds = None if context.deadline is None else context.deadline - time.monotonic()
        self._cancelled = False
        #: The names of ``set`` with which the provider has begun.
        self._begun: set[Name] = set()

    def run(self, worker: WorkerProcess, arguments: Sequence[Any], *, fresh: bool) -> Frame:
        """Conduct the call and return its last frame, see ``result``; ``fresh`` has the provider made anew.

        Raise ``WorkerLost`` when the worker ends or sends nonsense, ``CallTimeout``, and ``KeyboardInterrupt`` where
        all workers are being stopped.
        """
        if self._run.stopping and not self._context.reading:
            raise KeyboardInterrupt(STOPPED)
        blocked: Callable[[Name], bool] = never_blocked
        if self._method == "set":
            changes = arguments[0]
            blocked, self._begun = changes.blocked, changes.begun
            # Until the worker reports it, with each of them may have been begun.
            self._begun.update(changes.offered)
            left_out = [name for name in changes.offered if blocked(name)]
            offered = changes.offered.items()
            listed = [{"name": name, "is": is_, "should": should} for name, (is_, should) in offered]
            arguments = [{"changes": listed, "blocked": left_out}]
        number = worker.begin_call()
        try:
            bound = dict(self._run.log.bound)
            terms = {"terms": self._terms(), "bound": bound, "fresh": fresh, "config": self._config}
            worker.send("call", id=number, method=self._method, arguments=list(arguments), **terms)
            while (frame := worker.receive(lambda: self._check_time(worker))).kind not in {"done", "raised"}:
                self._handle(worker, frame, blocked)
            if frame.body.get("id") != number:
                msg = f"'{frame.kind}' has the id {frame.body.get('id')!r:.20}, and the call {number}"
                raise ValueError(msg)  # noqa: TRY301 - as an invalid frame
            worker.drain()
        except (WorkerLost, ValueError, LookupError, TypeError) as error:
            if worker.stopped:
                raise KeyboardInterrupt(STOPPED) from error
            lost = error if isinstance(error, WorkerLost) else WorkerLost("sent an invalid frame", f": {error}")
            msg = f"the worker of '{self._context.type.name}' {lost.how} while in {self._method}{lost.more}"
            raise WorkerLost(msg) from error
        else:
            return frame
        finally:
            worker.assets.close()

    def fail_undecided(self) -> None:
        """Report that the call timed out for each of its names that has no status yet."""
        outcomes, names = self._context.outcomes, self._context.subjects
        undecided = [name for name in names if name not in outcomes or outcomes[name].status is None]
        self._context.failed(
            undecided,
            f"{self._method} timed out after {round(self._seconds or 0, 1):g} s and did not end when it was asked to;"
            f" the worker of '{self._context.type.name}' has been ended",
        )

    def _terms(self) -> Mapping[str, Any]:
        context = self._context
        return {
            "subjects": [_subject(name, subject) for name, subject in context.subjects.items()],
            "noop": context.noop,
            "reading": context.reading,
            "seconds": self._seconds,
        }

    def _handle(self, worker: WorkerProcess, frame: Frame, blocked: Callable[[Name], bool]) -> None:
        """Answer a request of the worker, or take over what it reports."""
        if frame.kind == "blocked":
            worker.send("answer", value=blocked(protocol.name(frame.body["name"])))
        elif frame.kind == "begun":
            self._begun.clear()
            self._begun.update(map(protocol.name, frame.body["names"]))
        elif frame.kind in {"open", "member", "read"}:
            kind, answer = worker.assets.answer(frame.kind, frame.body)
            worker.send(kind, **answer)
        else:
            apply_report(self._run, self._context, frame)

    def _check_time(self, worker: WorkerProcess) -> None:
        """Ask the call to end once the run is cancelled or its time is over. Raise ``CallTimeout`` after the grace."""
        over = self._context.deadline is not None and time.monotonic() - self._context.deadline
        if (self._run.cancelled or over > 0) and not self._cancelled:
            self._cancelled = True
            worker.send("cancel")
        if over > GRACE:
            raise CallTimeout


def result(frame: Frame) -> Any:
    """Return the value of the last frame of a call; raise what the provider raised."""
    if frame.kind == "raised":
        raise decode_error(frame.body)
    return frame.body["value"]


def apply_report(run: RunContext, context: Context, frame: Frame) -> None:
    """Log, mask or record what a worker has reported. Raise ``ValueError`` for a frame that is no report."""
    body = frame.body
    if frame.kind == "log":
        _log(run, context, **body)
    elif frame.kind == "status":
        _set_status(context, **body)
    elif frame.kind == "status_line":
        names = list(map(protocol.name, body["names"]))
        context.outcomes.log_status(names, body["status"], body["text"])
    elif frame.kind == "attribute":
        context.outcomes.setdefault(protocol.name(body["name"]), Outcome()).attributes.append(protocol.difference(body))
    elif frame.kind == "conceal":
        run.log.mask.add(body["value"] if is_secret(body["value"]) else Sensitive(body["value"]))
    else:
        msg = f"a frame '{frame.kind}' in the middle of a call"
        raise ValueError(msg)


def _set_status(
    context: Context, *, name: Name, status: str, reason: str = "", logged: bool = False, tainted: bool = False
) -> None:
    """Record the status of a resource; log it as a provider in Python would, unless it has been ``logged``."""
    if status not in STATUSES:
        msg = f"'{status}' is no status; there are {', '.join(STATUSES)}"
        raise ValueError(msg)
    if logged:
        context.outcomes.copy_status(protocol.name(name), status, reason, tainted=tainted)
    elif status == "failed":
        context.failed(protocol.name(name), reason, tainted=tainted)
    else:
        getattr(context, status)(protocol.name(name))


def _log(
    run: RunContext,
    context: Context,
    *,
    level: str,
    text: str,
    subject: str | None = None,
    name: Name = None,
    fields: Mapping[str, Any] | None = None,
    change: Mapping[str, Any] | None = None,
) -> None:
    """Log a line about a ``subject``: a text, or the ``name`` of a resource; without both it is about the type."""
    if level not in LEVELS:
        msg = f"'{level}' is no level of the log"
        raise ValueError(msg)
    if subject is None:
        subject = context.type.name if name is None else context.reference(protocol.name(name))
    known = {field: fields[field] for field in LOG_FIELDS if field in fields} if fields else {}
    difference = None if change is None else protocol.difference(change)
    run.log.write(level, subject, text, context.type.name, lambda: known, change=difference)


def _subject(name: Name, subject: Subject) -> dict[str, Any]:
    """Return a subject as an object, without what is as usual: thousands are sent at once."""
    title, loglevel, parent, hidden, action, _declaration = subject
    fields: dict[str, Any] = {"name": name, "title": title, "action": str(action)}
    if loglevel != "notice":
        fields["loglevel"] = loglevel
    if parent:
        fields["parent"] = parent
    if hidden:
        fields["hidden"] = list(hidden)
    return fields
