"""What a provider is lent for one call: it logs, reports status, and tells what is asked.

The vocabulary of the Puppet Resource API's "Logging and Reporting". What a report means for dependents, state and
exit codes is the transaction's business. ``current`` is how a command finds the context of the call it is in.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Self

from resource_api.model.change import Difference, change_status, describe_difference, state_differences
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import ProviderError, ResourceError, reason
from resource_api.provider.outcomes import CallOutcomes, Outcome, Subject

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager
    from types import TracebackType

    from resource_api.model.type_definition import Name, TypeDefinition
    from resource_api.system.log import Log
    from resource_api.system.thread_pool import ThreadPool

__all__ = ["Context", "Outcome", "RunContext", "Subject", "calling_context", "current"]

#: The context of the provider call that is running in this thread.
current: ContextVar[Context | None] = ContextVar("current", default=None)

_LENT: Final = "_resource_api_lent"


def calling_context(provider: object) -> Context | None:
    """Give the context of the call that ``provider`` is in, also from a thread that the provider started.

    Which of several calls such a thread belongs to cannot be told: under noop, if one of them is.
    """
    found = current.get()
    if found is None and (stack := tuple(getattr(provider, _LENT, ()))):
        found = next((context for context in stack if context.noop), stack[-1])
    return found


def _stack(provider: object) -> list[Context]:
    found: list[Context] = provider.__dict__.setdefault(_LENT, []) if hasattr(provider, "__dict__") else []
    return found


class RunContext:
    """What all contexts of one run share: the log, and whether the run has been cancelled."""

    def __init__(self, log: Log) -> None:
        """Begin a run that logs to ``log``."""
        self.log = log
        self.cancelled = False
        #: Whether segments are being carried out: then a signal only sets ``cancelled``.
        self.applying = False
        #: Whether programs have been stopped, and no more are to be started for a change.
        self.stopping = False
        #: The threads that carry segments out, while there are several.
        self.threads: ThreadPool | None = None
        #: Whether all providers run in workers, not only those whose type asks for it.
        self.isolate = False

    def provider_call(self) -> AbstractContextManager[None]:
        """Let the other threads of the pool work while a provider is being called."""
        return nullcontext() if self.threads is None else self.threads.unlocked()

    def stop_soon(self) -> None:
        """End changes as soon as they can be; calls side by side have a few seconds. Safe in a signal handler."""
        self.stopping = True
        if self.threads is not None:
            self.threads.start_grace_period()

    def isolates(self, definition: TypeDefinition) -> bool:
        """Whether the provider of a type runs in a worker."""
        return self.isolate or definition.isolation is not None

    def ledger(self, *about: Any, **call: Any) -> CallOutcomes:
        """Give what keeps the outcomes of one call."""
        return CallOutcomes(*about, **call)


class Context:
    """Lent to a provider for one call of ``get``, ``set``, ``refresh`` or ``due``."""

    def __init__(
        self,
        definition: TypeDefinition,
        run: RunContext,
        *,
        subjects: Mapping[Name, Subject] | None = None,
        noop: bool = False,
        reading: bool = False,
        deadline: float | None = None,
    ) -> None:
        """Lend for a call about ``subjects`` (name → title); ``reading`` calls may speak of any name."""
        self.type = definition
        self.noop = noop
        self.reading = reading
        #: When this call must have ended, in seconds of ``time.monotonic``; None: never.
        self.deadline = deadline
        #: Whether anything was said that most runs show, or concealed: who is not asked does neither.
        self.wrote_output = False
        self._run = run
        #: What has been said so far: for the runtime, authors say it through the methods below.
        self.ledger = run.ledger(definition, run.log, subjects or {}, anyone=reading, noop=noop)
        self._sections: list[LoggingContext] = []
        #: The one resource that the call is about: what is observed during the call is said of it.
        self._only = self.ledger.shown(list(subjects)) if subjects is not None and len(subjects) == 1 else ""

    @contextmanager
    def activate(self, provider: object) -> Iterator[Self]:
        """Make this the current context while ``provider`` is being called."""
        stack = _stack(provider)
        stack.append(self)
        token = current.set(self)
        try:
            yield self
        finally:
            current.reset(token)
            stack.remove(self)

    def adopt(self, provider: object) -> None:
        """Be what commands of ``provider`` obey outside any call that is lent a context of its own."""
        _stack(provider).insert(0, self)

    @property
    def stderr_level(self) -> str:
        """The level of what programs write to stderr: while a guard is being asked it is no warning."""
        return "debug" if self.reading and self._only else "warning"

    @property
    def outcomes(self) -> dict[Name, Outcome]:
        """What has been said so far, by name."""
        return self.ledger.outcomes

    @property
    def subjects(self) -> Mapping[Name, Subject]:
        """How each name that the call is about is shown."""
        return self.ledger.subjects

    @property
    def cancelled(self) -> bool:
        """Whether the run has been asked to stop: a long ``set`` should end soon."""
        return self._run.cancelled

    @property
    def stopping(self) -> bool:
        """Whether no program is to be started any more for a change."""
        return self._run.stopping

    def reference(self, name: Name) -> str:
        """Give the user's reference of a name, title as written: ``Apt_key[0xF1D2]``."""
        return self.ledger.shown([name])

    def conceal(self, value: object) -> None:
        """Mask what is secret in ``value`` from now on, wherever it turns up."""
        self.wrote_output = True
        self._run.log.mask.add(value)

    # Plain messages

    def debug(self, titles: Any, message: str | None = None) -> None:
        """Say details for those who debug: ``debug(message)`` or ``debug(titles, message=...)``."""
        self._say("debug", titles, message)

    def info(self, titles: Any, message: str | None = None) -> None:
        """Say regular progress, especially before what may take long."""
        self._say("info", titles, message)

    def notice(self, titles: Any, message: str | None = None) -> None:
        """Say that state has changed, or another event of notice."""
        self._say("notice", titles, message)

    def warning(self, titles: Any, message: str | None = None) -> None:
        """Say what is wrong but does not keep the provider from its work."""
        self._say("warning", titles, message)

    def err(self, titles: Any, message: str | None = None) -> None:
        """Say what made an operation fail; this alone marks nothing as failed."""
        self._say("err", titles, message)

    def note(self, level: str, message: str) -> None:
        """Say what the runtime observes during the call, without the section's word in front."""
        if self._run.log.enabled(level):
            self._run.log.write(level, self._only or self._here(), message)

    # Contexts

    def creating(self, titles: Any, message: str = "Creating") -> LoggingContext:
        """Open the context of a creation."""
        return self._open(titles, Activity(message, "created"))

    def updating(self, titles: Any, message: str = "Updating") -> LoggingContext:
        """Open the context of an update."""
        return self._open(titles, Activity(message, "updated"))

    def deleting(self, titles: Any, message: str = "Deleting") -> LoggingContext:
        """Open the context of a deletion."""
        return self._open(titles, Activity(message, "deleted"))

    def failing(self, titles: Any, message: str = "Failing") -> LoggingContext:
        """Open a context whose resources fail in any case."""
        return self._open(titles, Activity(message, "failed"))

    def processing(self, titles: Any, is_: Any, should: Any, message: str = "Processing") -> LoggingContext:
        """Open the context of a change from ``is_`` to ``should``; success reports every attribute that differs."""
        return self._open(titles, Activity(message, "processed", (is_, should)))

    # Actions

    def created(self, titles: Any, message: str = "Created") -> None:
        """Report that resources have been created."""
        self._act(titles, "created", message)

    def updated(self, titles: Any, message: str = "Updated") -> None:
        """Report that resources have been updated."""
        self._act(titles, "updated", message)

    def deleted(self, titles: Any, message: str = "Deleted") -> None:
        """Report that resources have been deleted."""
        self._act(titles, "deleted", message)

    def unchanged(self, titles: Any, message: str = "") -> None:
        """Report that resources did not need a change; logs nothing unless told what."""
        self._act(titles, "unchanged", message)

    def failed(self, titles: Any, message: str = "Failed") -> None:
        """Report that resources could not be brought to what is asked, or in ``get`` read; ``message`` says why."""
        names = self.ledger.names(titles)
        self.ledger.settle(self.ledger.undecided(names) if self.reading else names, "failed", message)
        if not self.reading:
            self.ledger.say("err", names, message)

    def processed(self, titles: Any, is_: Any, should: Any) -> None:
        """Report a finished change from ``is_`` to ``should``, attribute by attribute."""
        self._changing()
        process(self.type, self.ledger, self.ledger.names(titles), (is_, should))

    def attribute_changed(self, *arguments: Any, message: str = "") -> None:
        """Report one attribute: ``([titles,] attribute, is_, should, message=...)``; a context gives the titles."""
        self._changing()
        *titles, attribute, is_, should = arguments
        if not titles and not self._sections:
            msg = "attribute_changed needs a title outside a context"
            raise ProviderError(msg)
        names = self.ledger.names(titles[0]) if titles else self._sections[-1].names
        difference = Difference(attribute, is_, should, message)
        for name in names:
            section = next((s for s in reversed(self._sections) if name in s.names), None)
            told = describe_difference(self.type, difference, colon=section is not None)
            self.ledger.attribute(name, difference, f"{section.message} {told}" if section else told)

    def fail(self, message: str) -> None:
        """Abort the current context with an error."""
        raise ResourceError(message)

    def _changing(self) -> None:
        if self.reading:
            msg = "nothing is changed in this call; only context.failed(name, message=...) says something of a resource"
            raise ProviderError(msg)

    def _open(self, titles: Any, doing: Activity) -> LoggingContext:
        self._changing()
        return LoggingContext(self.type, self.ledger, self._sections, self.ledger.names(titles), doing)

    def _act(self, titles: Any, status: str, message: str) -> None:
        self._changing()
        names = self.ledger.names(titles)
        self.ledger.settle(names, status)
        if message:
            self.ledger.tell(names, message)

    def _here(self) -> str:
        return self.ledger.shown(self._sections[-1].names) if self._sections else self.type.name

    def _say(self, level: str, titles: Any, message: str | None) -> None:
        self.wrote_output = self.wrote_output or level not in {"debug", "info"}
        if message is not None:
            names = self.ledger.names(titles)
            for name in names:
                self.ledger.outcome(name)
            self.ledger.say(level, names, message)
        elif self._run.log.enabled(level):
            prefix = f"{self._sections[-1].message}: " if self._sections else ""
            self._run.log.write(level, self._here(), f"{prefix}{titles}")


class Activity(NamedTuple):
    """What is being done: the word for it, the status that success gives, and for ``processing`` the two states."""

    message: str
    status: str
    change: tuple[Any, Any] | None = None


class LoggingContext:
    """One open logging context."""

    def __init__(
        self,
        definition: TypeDefinition,
        ledger: CallOutcomes,
        opened: list[LoggingContext],
        names: list[Name],
        doing: Activity,
    ) -> None:
        """Prepare to do ``doing`` to ``names``; ``opened`` are the sections around it, the innermost last."""
        self.names = names
        self.message = doing.message
        self._definition = definition
        self._ledger = ledger
        self._opened = opened
        self._doing = doing

    def __enter__(self) -> Self:
        """Open."""
        self._ledger.open(self.names, {name for section in self._opened for name in section.names})
        self._ledger.say("debug", self.names, f"Started {self.message[:1].lower()}{self.message[1:]}")
        self._opened.append(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        """Close: report success, or log the error and mark what has no status yet as failed."""
        self._opened.remove(self)
        names = self._ledger.undecided(self.names)
        if error is None and self._doing.status != "failed":
            self._succeed(names)
            return False
        why = reason(error) if error is not None else self.message
        self._ledger.settle(names, "failed", why)
        self._ledger.say("err", names or self.names, f"{self.message} failed: {why}" if error else self.message)
        return isinstance(error, Exception)

    def _succeed(self, names: list[Name]) -> None:
        if not names:
            return
        if self._doing.change is not None:
            process(self._definition, self._ledger, names, self._doing.change)
            return
        self._ledger.settle(names, self._doing.status)
        self._ledger.tell(names, f"Successfully {self._doing.status}")


def process(definition: TypeDefinition, ledger: CallOutcomes, names: list[Name], change: tuple[Any, Any]) -> None:
    """Report a finished change, attribute by attribute, with default messages."""
    for name in names:
        for attribute, before, after in state_differences(*change):
            difference = Difference(attribute, before, after)
            ledger.attribute(name, difference, describe_difference(definition, difference))
        word = change_status(*change)
        ledger.settle([name], word)
        ledger.tell([name], word.capitalize())
