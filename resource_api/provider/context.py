"""The context of one provider call: logging, status reports, and the names of the call.

The vocabulary of the Puppet Resource API's "Logging and Reporting". The effect of a status on dependents, state and
exit codes is decided in ``transaction``. By ``current`` a command finds the context of its call.
"""

from __future__ import annotations

import time
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from resource_api.model.change import Difference, change_status, describe_difference, state_differences
from resource_api.model.values.errors import (
    PLUGIN_FILE,
    ProviderError,
    ResourceAPIError,
    ResourceError,
    reason,
    suggestion,
)
from resource_api.model.values.text import show
from resource_api.provider.outcomes import CallOutcomes, Outcome, Subject
from resource_api.provider.stored_values import PrivateData

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from types import TracebackType

    from resource_api.model.type_definition import Name, TypeDefinition
    from resource_api.model.values.masking import Mask
    from resource_api.provider.stored_values import DerivedValues
    from resource_api.system.log import Log
    from resource_api.system.thread_pool import ThreadPool


__all__ = ["Context", "Outcome", "RunContext", "Subject", "calling_context", "current"]

#: The context of the provider call that is running in this thread.
current: ContextVar[Context | None] = ContextVar("current", default=None)

#: The interval in seconds at which an interrupt is looked for.
_TICK: Final = 0.05
#: The attribute of a provider that holds the contexts of its present calls.
_ATTRIBUTE: Final = "_resource_api_contexts"
#: Levels of the loggers of Python → methods of a context.
_LEVELS_ELSEWHERE: Final = {"warn": "warning", "error": "err", "exception": "err", "critical": "err", "log": "notice"}


def calling_context(provider: object) -> Context | None:
    """Return the context of the present call of ``provider``, or None: its programs obey noop and log by the context.

    A thread that the provider started has no current context, and may belong to any of the provider's parallel calls.
    There a context with noop is preferred, so that the thread changes nothing by mistake.
    """
    context = current.get()
    contexts = tuple(getattr(provider, _ATTRIBUTE, ()))
    if context is None and contexts:
        context = next((candidate for candidate in contexts if candidate.noop), contexts[-1])
    return context


def _stack(provider: object) -> list[Context]:
    """Return the contexts of the calls that a provider is in, the innermost last; a new list if it can hold none."""
    contexts: list[Context] = provider.__dict__.setdefault(_ATTRIBUTE, []) if hasattr(provider, "__dict__") else []
    return contexts


class Activity(Protocol):
    """An activity that takes time. Its methods are called in another thread."""

    @property
    def started(self) -> float:
        """When it began, in seconds of ``time.monotonic``."""

    @property
    def place(self) -> str:
        """Its number among all steps of the run, ``3/14``, or ""."""

    @property
    def subject(self) -> str:
        """Its subject: ``Package[nginx]``."""

    @property
    def verb(self) -> str:
        """Its participle: ``installing``."""

    @property
    def detail(self) -> str:
        """Its current detail as a text for users; empty if unknown."""

    def log(self, seconds: int) -> None:
        """Log a notice that it still goes on after ``seconds``."""


class ActivityDisplay(Protocol):
    """Displays the activities of a run."""

    def running(self, activity: Activity) -> AbstractContextManager[None]:
        """Return a context around an activity that may take long."""

    def waiting(self, activity: Activity) -> AbstractContextManager[Callable[[], None]]:
        """Return a context around a wait; the caller must call the yielded function a few times per second."""


class RunContext:
    """The shared state of all contexts of one run: log, cancellation, threads, isolation."""

    def __init__(self, log: Log) -> None:
        """Begin a run that logs to ``log``; the runtime sets the other attributes as far as the run needs them."""
        self.log = log
        #: Whether the run has been asked to stop; ``cancel`` sets it.
        self.cancelled = False
        #: The number of the last signal that came; 0: none.
        self.signal = 0
        #: Called when the run is to stop; None: nothing is called.
        self.on_cancel: Callable[[], None] | None = None
        #: Whether segments are being applied: then a signal only sets ``cancelled``.
        self.applying = False
        #: Whether programs have been stopped, and no more may be started for a change.
        self.stopping = False
        #: The threads that apply segments; None while there is only one.
        self.threads: ThreadPool | None = None
        #: Whether the plan of a noop run was printed: the log then repeats nothing of it.
        self.plan_is_shown = False
        #: Returns the display of the running calls and waits of this run, or None.
        self.progress: Callable[[], ActivityDisplay] | None = None
        #: Whether all providers run in workers (True), none (False), or those of types with ``isolation`` (None).
        self.isolate: bool | None = None
        #: Directories of ``--trust-path``: other users may change code beneath them.
        self.trusted_directories: Sequence[str] = ()
        #: The cached results of ``Context.derived``, or None.
        self.derived: DerivedValues | None = None
        #: The private data of providers about their resources.
        self.private = PrivateData()

    def provider_call(self) -> AbstractContextManager[None]:
        """Return a context in which a provider is called while the other threads of the run go on."""
        return nullcontext() if self.threads is None else self.threads.unlocked()

    def shown(self, activity: Activity) -> AbstractContextManager[None]:
        """Return a context around an activity of the run, in which it is shown."""
        return nullcontext() if self.progress is None else self.progress().running(activity)

    def cancel(self) -> None:
        """Ask the run to stop: no further operation begins, and running calls of providers should end soon.

        At the first call ``on_cancel`` is called, which calls ``cancel`` of the providers. Safe in a signal handler.
        """
        first, self.cancelled = not self.cancelled, True
        if first and self.on_cancel is not None:
            self.on_cancel()

    def pause(self, seconds: float) -> bool:
        """Wait before an operation is repeated (``retry``); return False as soon as the run is interrupted.

        Other threads of the run go on meanwhile.
        """
        until = time.monotonic() + seconds
        with self.provider_call():
            while not self.cancelled and (remaining := until - time.monotonic()) > 0:
                time.sleep(min(_TICK, remaining))
        return not self.cancelled

    def stop_soon(self) -> None:
        """Forbid to start programs, and give running calls a few seconds to end, after a further interrupt of the user.

        Safe in a signal handler.
        """
        self.stopping = True
        if self.threads is not None:
            self.threads.start_grace_period()

    def log_traceback(self, error: BaseException, subject: str) -> None:
        """Log the traceback of a provider's exception at the level debug, for the provider's author.

        It begins at the first frame in the provider's code. Errors of our own classes are omitted, since their messages
        suffice.
        """
        if isinstance(error, ResourceAPIError) or not self.log.enabled("debug"):
            return
        from traceback import TracebackException

        trace = error.__traceback__
        while trace is not None and PLUGIN_FILE not in trace.tb_frame.f_globals:
            trace = trace.tb_next
        if trace is not None:
            for line in "".join(TracebackException(type(error), error, trace).format()).splitlines():
                self.log.write("debug", subject, line)

    def isolates(self, definition: TypeDefinition) -> bool:
        """Whether the provider of a type runs in a worker."""
        return definition.isolation is not None if self.isolate is None else self.isolate

    def new_outcomes(self, *arguments: Any, **keywords: Any) -> CallOutcomes:
        """Return the outcomes of a call that begins, empty; a worker overrides this to send them to the runtime."""
        return CallOutcomes(*arguments, **keywords)


class Context:
    """The logging and reporting of a provider during one call of ``get``, ``set``, ``refresh`` or ``due``.

    >>> from resource_api import Attribute, TypeDefinition
    >>> from resource_api.testing import context as method_context
    >>> queue = TypeDefinition(name="queue", attributes={"name": Attribute("String", kind="namevar")})
    >>> context = method_context(queue, ["a", "b", "c"])
    >>> with context.creating("a"):
    ...     context.debug("creates it")
    >>> with context.updating("b"):
    ...     context.fail("the disk is full")
    >>> context.deleted("c", message="Removed")
    >>> {name: outcome.status for name, outcome in context.outcomes.items()}
    {'a': 'created', 'b': 'failed', 'c': 'deleted'}
    """

    def __init__(
        self,
        definition: TypeDefinition,
        run: RunContext,
        *,
        subjects: Mapping[Name, Subject] | None = None,
        noop: bool = False,
        reading: bool = False,
        answering: bool = False,
        deadline: float | None = None,
    ) -> None:
        """Begin a call about ``subjects`` (by name); a ``reading`` call may report any name, but only as failed.

        An ``answering`` call, such as ``preflight``, reads too, but reports on no resource: its result or exception
        counts. In a ``noop`` call, of types with ``noop_handler``, programs that may change something are skipped.
        """
        self.type = definition
        self.noop = noop
        self.reading = reading or answering
        self._answering = answering
        #: When this call must have ended, in seconds of ``time.monotonic``; None: never.
        self.deadline = deadline
        #: Whether a line above the level info was logged or a secret was concealed: the call's result must then not be
        #: cached, since a later run with the cached result would do neither.
        self.wrote_output = False
        #: The last line that a program of this call has printed and that is not logged; empty: there is none.
        self.last_printed = ""
        self._run = run
        #: The reports so far, by name. Authors report with the methods below.
        self.outcomes = run.new_outcomes(definition, run.log, subjects or {}, anyone=self.reading, noop=noop)
        #: Mistakes of the provider that raise nothing where they are made; they fail the call.
        self.mistakes: list[Exception] = []
        #: Whether a logging context has swallowed an exception, which may be the cause of any mistake.
        self._has_failed = False
        #: The logging contexts that are open, the innermost last.
        self.open_contexts: list[LoggingContext] = []
        #: The only name of the call; empty if there are more.
        self._only: Sequence[Name] = list(subjects) if subjects and len(subjects) == 1 else ()

    if not TYPE_CHECKING:  # a type checker is to find these mistakes itself

        def __getattr__(self, name: str) -> Any:
            """Raise ``AttributeError`` with a suggestion for the provider's author, such as ``err`` for ``error``."""
            if name in _LEVELS_ELSEWHERE:
                hint = f"did you mean '{_LEVELS_ELSEWHERE[name]}'?"
            else:
                hint = suggestion(name, [method for method in dir(type(self)) if method[0] != "_"])
            raise AttributeError(f"a context has no '{name}'" + (f"; {hint}" if hint else ""))

    @contextmanager
    def activate(self, provider: object) -> Iterator[Self]:
        """Make this the current context while ``provider`` is called, and add the fields of the call to all log lines.

        At the end raise the errors of ``_check_end``, unless a logging context has failed: this failure, which is
        reported already, may be their cause.
        """
        stack = _stack(provider)
        stack.append(self)
        token = current.set(self)
        try:
            with self._run.log.bind(**self.log_fields):
                self.outcomes.bound = self._run.log.bound
                yield self
                if not self._has_failed:
                    self._check_end()
        finally:
            current.reset(token)
            stack.remove(self)

    def _check_end(self) -> None:
        """Raise the first of ``mistakes``, such as an unused iterator of a program, or a ``ProviderError``.

        The latter is for a logging context without ``with`` that is still open: its resources have no status.
        """
        if self.mistakes:
            raise self.mistakes[0]
        for opened in self.open_contexts:
            if not opened.is_block:
                msg = f"a logging context ('{opened.message}') was made without 'with', and no action has ended it"
                raise ProviderError(msg)

    def end_block(self, error: BaseException | None, earlier: int) -> BaseException | None:
        """Return the error by which a logging context fails at its end, or None.

        ``error``: the exception that ended the block, or None; then the provider's first mistake in the block is
        returned. ``earlier``: the number of mistakes before the block. Later ones are removed, because they are
        reported by this failure and must not fail the whole call, too.
        """
        if error is not None:
            self._has_failed = True
        elif len(self.mistakes) > earlier:
            error = self.mistakes[earlier]
        del self.mistakes[earlier:]
        return error

    @property
    def log_fields(self) -> Mapping[str, Any]:
        """The fields of every event of the call: those of its type, and of its resource if it is the only one."""
        return {"resource_type": self.type.name, **self.outcomes.fields(self._only)}

    def make_default(self, provider: object) -> None:
        """Make this the context of ``provider`` outside of its calls: for programs that its threads run then."""
        _stack(provider).insert(0, self)

    @property
    def stderr_level(self) -> str:
        """The log level of programs' stderr: debug in a call that reads one resource, such as a guard (``onlyif``)."""
        return "debug" if self.reading and self._only else "warning"

    @property
    def mask(self) -> Mask:
        """The secrets that are known in this process, for texts that are shortened before they are logged."""
        return self._run.log.mask

    @property
    def trusted_directories(self) -> Sequence[str]:
        """The directories of ``--trust-path``: programs may execute code beneath them that other users can change."""
        return self._run.trusted_directories

    @property
    def cancelled(self) -> bool:
        """Whether the run is to stop: a long ``set`` should end soon."""
        return self._run.cancelled

    @property
    def stopping(self) -> bool:
        """Whether no program is to be started any more for a change."""
        return self._run.stopping

    def reference(self, name: Name) -> str:
        """Return the user's reference of a name, title as written: ``Apt_key[0xF1D2]``."""
        return self.outcomes.reference([name])

    def conceal(self, value: object) -> None:
        """Mask the secrets in ``value`` from now on, wherever their text appears; a cached call could not do that."""
        self.wrote_output = True
        self._run.log.mask.add(value)

    def derived(self, function: Callable[..., Any], *arguments: object) -> Any:
        """Return ``function(*arguments)``, perhaps as an earlier run has computed it with the same code.

        Only for functions whose result follows from their arguments, is plain data (JSON) and no secret, such as data
        that is parsed from a file's content. Then a run without changes need not import the parser. Arguments are
        plain data or bytes; of them only a digest is kept, beside the state, with the result.
        """
        values = self._run.derived
        return function(*arguments) if values is None else values.get(self.type.name, function, arguments)

    def private(self, name: Name) -> Any:
        """Return the data that the provider stored for a resource with ``store_private``, or None.

        >>> from resource_api import Attribute, TypeDefinition
        >>> from resource_api.testing import context as method_context
        >>> bucket = TypeDefinition(name="bucket", attributes={"name": Attribute("String", kind="namevar")})
        >>> context = method_context(bucket, ["logs"])
        >>> context.store_private("logs", {"id": "b-17"})
        >>> context.private("logs")
        {'id': 'b-17'}
        """
        return self._run.private.get((self.type.instance, name))

    def store_private(self, name: Name, data: object) -> None:
        """Store data of the provider for a resource: JSON with ``Sensitive`` values, kept in its record in state.

        From ``set`` it is recorded with the outcome, also of a failed call; from ``get`` only with a record that is
        written anyway, or by ``refresh``. A noop call stores nothing. Raise ``ProviderError`` for other data, and
        outside of ``get``, ``set``, ``refresh`` and ``import_``; ``ResourceError`` for a secret where state has no key.
        """
        if self._answering:
            raise ProviderError("private data is stored in get, set, refresh and import_ only")
        if not self.reading:
            self.outcomes.names(name)
        if not self.noop:
            self.conceal(data)
            self._run.private.store((self.type.instance, name), data)

    def accepted(self, rows: Iterable[Mapping[str, object]]) -> Iterator[dict[str, Any]]:
        """Yield the rows of ``get`` without the values that the type does not accept, for data of other programs.

        A resource whose name is not accepted cannot be declared: it is left out with a warning, and so are those that
        have the name of an earlier one, as in a file of accounts with two lines for one name.
        """
        names: set[Name] = set()
        for row in rows:
            accepted, name = self.type.accepted_row(row), self.type.name_of(row)
            if accepted is None:
                self.warning(f"{show(name)} is left out: no manifest can contain this name")
            elif name in names:
                self.warning(f"{show(name)} is there more than once: the first one counts")
            else:
                names.add(name)
                yield accepted

    def debug(self, titles: object, message: str | None = None) -> None:
        """Log details for debugging: ``debug(message)`` or ``debug(titles, message=...)``."""
        self._log("debug", titles, message)

    def info(self, titles: object, message: str | None = None) -> None:
        """Log regular progress, especially before long operations."""
        self._log("info", titles, message)

    def notice(self, titles: object, message: str | None = None) -> None:
        """Log that state has changed, or another event of notice."""
        self._log("notice", titles, message)

    def warning(self, titles: object, message: str | None = None) -> None:
        """Log a problem that does not stop the provider."""
        self._log("warning", titles, message)

    def err(self, titles: object, message: str | None = None) -> None:
        """Log the cause of a failed operation; this alone marks nothing as failed."""
        self._log("err", titles, message)

    def enabled(self, level: str) -> bool:
        """Whether a line of this level is shown: one that is not need not be made."""
        return self._run.log.enabled(level, self.type.name)

    def note(self, level: str, message: str, *, prefix: bool = False, **fields: object) -> None:
        """Log a line that the provider has not written itself, such as a line of a program that it runs.

        With ``prefix`` the message of the open logging context is put before it: ``Updating: 3 files``.
        """
        if self.enabled(level):
            # The only name of the call, or those whose change is being made.
            names = self._only or self._open_names
            subject = self.outcomes.reference(names) if names else self.type.name
            start = f"{self.open_contexts[-1].message}: " if prefix and self.open_contexts else ""
            self.outcomes.write(level, subject, start + message, names, **fields)

    def creating(self, titles: object, message: str = "Creating") -> LoggingContext:
        """Open the context of a creation."""
        return self._open(titles, message, "created")

    def updating(self, titles: object, message: str = "Updating") -> LoggingContext:
        """Open the context of an update."""
        return self._open(titles, message, "updated")

    def deleting(self, titles: object, message: str = "Deleting") -> LoggingContext:
        """Open the context of a deletion."""
        return self._open(titles, message, "deleted")

    def failing(self, titles: object, message: str = "Failing") -> LoggingContext:
        """Open a context whose resources fail in any case."""
        return self._open(titles, message, "failed")

    def processing(self, titles: object, is_: object, should: object, message: str = "Processing") -> LoggingContext:
        """Open the context of a change from ``is_`` to ``should``; success reports every attribute that differs."""
        return self._open(titles, message, "processed", (is_, should))

    def created(self, titles: object, message: str = "Created") -> None:
        """Report that resources have been created."""
        self._report(titles, "created", message)

    def updated(self, titles: object, message: str = "Updated") -> None:
        """Report that resources have been updated."""
        self._report(titles, "updated", message)

    def deleted(self, titles: object, message: str = "Deleted") -> None:
        """Report that resources have been deleted."""
        self._report(titles, "deleted", message)

    def unchanged(self, titles: object, message: str = "") -> None:
        """Report that resources did not need a change; logs nothing without a ``message``."""
        self._report(titles, "unchanged", message)

    def failed(self, titles: object, message: str = "Failed", *, tainted: bool = False) -> None:
        """Report that resources could not be changed as declared, or in ``get`` not be read, and why.

        ``tainted``: the resources are unusable; the next run replaces them.
        """
        if self._answering:
            self._require_changing()  # raises: such a call reports on no resource
        names = self.outcomes.names(titles)
        names = self.outcomes.without_status(names) if self.reading else names
        self.outcomes.set_status(names, "failed", message, tainted=tainted)
        if not self.reading:  # the failure of a read is shown by the stage that needed it
            self.outcomes.log_status(names, "failed", message)
            self._close_plain()

    def processed(self, titles: object, is_: object, should: object) -> None:
        """Report a finished change from ``is_`` to ``should``, attribute by attribute.

        Authors call it after the change; ``processing`` is the logging context around a change with the same report.
        """
        self._require_changing()
        self.report_change(self.outcomes.names(titles), is_, should)
        self._close_plain()

    def attribute_changed(self, *arguments: Any, message: str = "") -> None:
        """Report the change of one attribute, for the log and the run's report.

        The arguments are ``([titles,] attribute, is_, should, message=...)``. Without titles the change is one of the
        resources of the open logging context; raise ``ProviderError`` if none is open.
        """
        self._require_changing()
        *titles, attribute, is_, should = arguments
        if not titles and not self.open_contexts:
            raise ProviderError("attribute_changed needs a title outside a context")
        names = self.outcomes.names(titles[0]) if titles else self.open_contexts[-1].names
        difference = Difference(attribute, is_, should, message)
        for name in names:
            messages = [opened.message for opened in self.open_contexts if name in opened.names]
            text = describe_difference(self.type, difference, colon=bool(messages))
            self.outcomes.add_attribute(name, difference, f"{messages[-1]} {text}" if messages else text)

    def fail(self, message: str) -> None:
        """Abort the current logging context, or the call, with an error: raise ``ResourceError``."""
        raise ResourceError(message)

    def report_change(self, names: list[Name], is_: Any, should: Any) -> None:
        """Record and log a finished change of ``names``: each different attribute, then the status.

        The status, created, updated, deleted or unchanged, follows from the two states.
        """
        for name in names:
            for difference in state_differences(self.type, is_, should, self.outcomes.subject(name).hidden):
                self.outcomes.add_attribute(name, difference, describe_difference(self.type, difference))
            word = change_status(is_, should)
            self.outcomes.set_status([name], word)
            self.outcomes.log_status([name], word, word.capitalize())

    def _require_changing(self) -> None:
        """Raise ``ProviderError`` in a call that only reads, in which changes cannot be reported.

        An answering call, such as ``preflight``, does not even report failures.
        """
        if self.reading:
            how = "only context.failed(name, message=...) reports on a resource"
            if self._answering:
                how = "no resource is reported on: what it returns or raises counts"
            raise ProviderError(f"nothing is changed in this call; {how}")

    def _open(
        self, titles: object, message: str, status: str, change: tuple[object, object] | None = None
    ) -> LoggingContext:
        """Open a logging context for resources, which authors use as a block (``with``) or without one.

        At the end of a block without an exception the resources get ``status``. With ``change``, the states is and
        should, each different attribute is reported instead, and the status follows from them.
        """
        self._require_changing()
        return LoggingContext(self, self.outcomes.names(titles), message, status, change).opened()

    def _report(self, titles: object, status: str, message: str) -> None:
        """Set the status that the provider reports for resources, such as ``created``, for the run's report.

        The status is logged unless the message is empty.
        """
        self._require_changing()
        names = self.outcomes.names(titles)
        self.outcomes.set_status(names, status)
        if message:
            self.outcomes.log_status(names, status, message)
        self._close_plain()

    def _close_plain(self) -> None:
        """Close the logging contexts that were opened without ``with``, once all their resources have a status.

        A status means that the work on the resource has ended.
        """
        for opened in [opened for opened in self.open_contexts if not opened.is_block]:
            if not self.outcomes.without_status(opened.names):
                self.open_contexts.remove(opened)

    def log_traceback(self, error: BaseException, subject: str = "") -> None:
        """Log where an exception of this call comes from, at the level debug; ``subject``: by default its resource."""
        whole = self.outcomes.reference(self._only) if self._only else self.type.name
        self._run.log_traceback(error, subject or whole)

    @property
    def _open_names(self) -> Sequence[Name]:
        return self.open_contexts[-1].names if self.open_contexts else ()

    def _log(self, level: str, titles: object, message: str | None) -> None:
        """Log ``message`` about the resources ``titles``, for ``debug``, ``info`` and the other methods for authors.

        Authors may also pass the message alone: then it is in ``titles``, ``message`` is None, and the line is about
        the resources of the open logging context.
        """
        self.wrote_output = self.wrote_output or level not in {"debug", "info"}
        if message is not None:
            names = self.outcomes.names(titles)
            for name in names:
                self.outcomes.mention(name)
            self.outcomes.log(level, names, message)
        elif self._run.log.enabled(level, self.type.name):
            prefix = f"{self.open_contexts[-1].message}: " if self.open_contexts else ""
            subject = self.outcomes.reference(self._open_names) if self._open_names else self.type.name
            self.outcomes.write(level, subject, f"{prefix}{titles}", self._open_names or self._only)


class LoggingContext:
    """A provider's work on some resources: a block of its code, or all until it reports their status.

    A block swallows an ``Exception`` after logging it and marking its resources failed; anything else passes on (Puppet
    Resource API, "Logging contexts").
    """

    def __init__(
        self, context: Context, names: list[Name], message: str, status: str, change: tuple[object, object] | None
    ) -> None:
        """Prepare a logging context for ``names``; ``message``: the action, ``status``: that of its success.

        ``change``: both states for ``processing``, whose status follows from them.
        """
        self.names = names
        self.message = message
        self._context = context
        self._outcomes = context.outcomes
        self._status = status
        self._change = change
        #: The number of the call's mistakes when it was opened: later ones are its own.
        self._mistakes = 0
        #: Whether it is used as a block; otherwise the status of its resources closes it.
        self.is_block = False

    def opened(self) -> Self:
        """Log that the work on the resources begins, become the innermost open logging context, and return it.

        Raise ``ProviderError`` if anything was logged or reported for one of the resources before, except in an
        enclosing logging context: this line must be the first one about them.
        """
        around = self._context.open_contexts
        self._outcomes.open_context(self.names, {name for opened in around for name in opened.names})
        self._outcomes.log("debug", self.names, f"Started {self.message[:1].lower()}{self.message[1:]}")
        around.append(self)
        # Later mistakes of the provider make this logging context fail, not the earlier ones.
        self._mistakes = len(self._context.mistakes)
        return self

    def __enter__(self) -> Self:
        """Begin a block."""
        self.is_block = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        """Report success, or log the exception and mark the resources without a status as failed.

        An ``Exception`` is not raised further, so that the provider goes on with the other resources of the call. A
        block of ``failing``, with the status "failed", always fails.
        """
        self._context.open_contexts.remove(self)
        error = self._context.end_block(error, self._mistakes)
        names = self._outcomes.without_status(self.names)
        if error is None and self._status != "failed":
            self._succeed(names)
            return False
        message = reason(error) if error is not None else self.message
        if error is not None:
            self._context.log_traceback(error, self._outcomes.reference(names or self.names))
        self._outcomes.set_status(names, "failed", message)
        text = f"{self.message} failed: {message}" if error else self.message
        self._outcomes.log_status(names or self.names, "failed", text)
        return isinstance(error, Exception)

    def _succeed(self, names: list[Name]) -> None:
        """Report success at the end of a block for ``names``, its resources that the provider has not reported yet."""
        if self._change is not None:
            self._context.report_change(names, *self._change)
        elif names:
            self._outcomes.set_status(names, self._status)
            self._outcomes.log_status(names, self._status, f"Successfully {self._status}")
