"""What a provider is lent for one call: it logs, reports status, and tells what is asked.

Every sentence of the seed's "Logging and Reporting" lives here. What a report means for dependents, state and
exit codes is the transaction's business. ``current`` is how a command finds the context of the call it is in.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from resource_api.nouns.change import Difference, exists
from resource_api.nouns.errors import ProviderError, ResourceError, reason
from resource_api.nouns.reference import capital
from resource_api.nouns.text import show
from resource_api.nouns.values import same

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType

    from resource_api.hands.log import Log
    from resource_api.nouns.definition import Name, TypeDefinition

#: The context of the provider call that is running in this thread.
current: ContextVar[Context | None] = ContextVar("current", default=None)

_LENT: Final = "_resource_api_lent"


def lent_to(provider: object) -> Context | None:
    """Give the context of the call that ``provider`` is in, also from a thread that the provider started."""
    found = current.get()
    if found is None:
        stack = getattr(provider, _LENT, None)
        found = stack[-1] if stack else None
    return found


class Subject(NamedTuple):
    """How a name is shown: the user's title as written, and the level of its change lines."""

    title: str
    loglevel: str = "notice"


class Outcome:
    """What a provider has said about one name in one call."""

    __slots__ = ("attributes", "reason", "spoken", "status")

    def __init__(self) -> None:
        """Nothing said yet; ``status`` becomes created, updated, deleted, unchanged or failed."""
        self.status: str | None = None
        self.reason = ""
        self.attributes: list[Difference] = []
        self.spoken = False


class Run:
    """What all contexts of one run share: the log, and whether the run has been cancelled."""

    def __init__(self, log: Log) -> None:
        """Begin a run that logs to ``log``."""
        self.log = log
        self.cancelled = False
        #: Whether segments are being carried out: then a signal only sets ``cancelled``.
        self.applying = False


class Context:
    """Lent to a provider for one call of ``get``, ``set``, ``refresh`` or ``due``."""

    def __init__(  # noqa: PLR0913 - keyword-only, all optional
        self,
        definition: TypeDefinition,
        run: Run,
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
        self.outcomes: dict[Name, Outcome] = {}
        self._run = run
        self._subjects = subjects or {}
        self._sections: list[Section] = []

    @contextmanager
    def lend(self, provider: object) -> Iterator[Self]:
        """Make this the current context while ``provider`` is being called."""
        stack = provider.__dict__.setdefault(_LENT, []) if hasattr(provider, "__dict__") else []
        stack.append(self)
        token = current.set(self)
        try:
            yield self
        finally:
            current.reset(token)
            stack.remove(self)

    @property
    def cancelled(self) -> bool:
        """Whether the run has been asked to stop: a long ``set`` should end soon."""
        return self._run.cancelled

    def reference(self, name: Name) -> str:
        """Give the user's reference of a name, title as written: ``Apt_key[0xF1D2]``."""
        return self._shown([name])

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
            self._run.log.write(level, self._here(), message)

    # Contexts

    def creating(self, titles: Any, message: str = "Creating") -> Section:
        """Open the context of a creation."""
        return Section(self, titles, message, "created")

    def updating(self, titles: Any, message: str = "Updating") -> Section:
        """Open the context of an update."""
        return Section(self, titles, message, "updated")

    def deleting(self, titles: Any, message: str = "Deleting") -> Section:
        """Open the context of a deletion."""
        return Section(self, titles, message, "deleted")

    def failing(self, titles: Any, message: str = "Failing") -> Section:
        """Open a context whose resources fail in any case."""
        return Section(self, titles, message, "failed")

    def processing(self, titles: Any, is_: Any, should: Any, message: str = "Processing") -> Section:
        """Open the context of a change from ``is_`` to ``should``; a success reports every attribute that differs."""
        return Section(self, titles, message, "processed", (is_, should))

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
        """Report that resources did not need a change; logs nothing."""
        self._act(titles, "unchanged", message)

    def failed(self, titles: Any, message: str = "Failed") -> None:
        """Report that resources could not be brought (in ``get``: read) to what is asked; ``message`` says why."""
        for name in self._names(titles):
            outcome = self._outcome(name)
            if not self.reading:
                self._settle(name, outcome)
            outcome.status, outcome.reason = "failed", message
        if not self.reading:
            self._run.log.write("err", self._shown(self._names(titles)), message)

    def processed(self, titles: Any, is_: Any, should: Any) -> None:
        """Report a finished change from ``is_`` to ``should``, attribute by attribute."""
        for name in self._names(titles):
            for attribute, before, after in _differences(is_, should):
                self._attribute(name, Difference(attribute, before, after), "")
            status = _status(is_, should)
            self._act([name], status, status.capitalize())

    def attribute_changed(self, *arguments: Any, message: str = "") -> None:
        """Report one attribute: ``([titles,] attribute, is_, should, message=...)``; the title is the context's unless given."""
        *titles, attribute, is_, should = arguments
        if titles:
            names = self._names(titles[0])
        elif self._sections:
            names = self._sections[-1].names
        else:
            msg = "attribute_changed needs a title outside a context"
            raise ProviderError(msg)
        for name in names:
            section = next((s for s in reversed(self._sections) if name in s.names), None)
            self._attribute(name, Difference(attribute, is_, should, message), f"{section.message} " if section else "")

    def fail(self, message: str) -> None:
        """Abort the current context with an error."""
        raise ResourceError(message)

    # Inside

    def _names(self, titles: Any) -> list[Name]:
        """Give the names meant; one that is not among the changes is an error of the provider."""
        names = list(titles) if isinstance(titles, (list, set, frozenset)) else [titles]
        if not self.reading:
            for name in names:
                if name not in self._subjects:
                    msg = f"{self.type.name}: {show(name)} is not among the changes of this call; it cannot be reported"
                    raise ProviderError(msg)
        return names

    def _outcome(self, name: Name) -> Outcome:
        outcome = self.outcomes.get(name)
        if outcome is None:
            outcome = self.outcomes[name] = Outcome()
        outcome.spoken = True
        return outcome

    def _settle(self, name: Name, outcome: Outcome) -> None:
        if outcome.status is not None:
            msg = f"{self.reference(name)} has been reported as {outcome.status} already; one status per resource"
            raise ProviderError(msg)

    def _shown(self, names: list[Name]) -> str:
        return f"{capital(self.type.name)}[{', '.join(map(self._title, names))}]"

    def _title(self, name: Name) -> str:
        if subject := self._subjects.get(name):
            return subject.title
        return ", ".join(map(str, name)) if isinstance(name, tuple) else str(name)

    def _level(self, names: list[Name]) -> str:
        subject = self._subjects.get(names[0]) if names else None
        return subject.loglevel if subject else "notice"

    def _here(self) -> str:
        return self._shown(self._sections[-1].names) if self._sections else self.type.name

    def _say(self, level: str, titles: Any, message: str | None) -> None:
        if message is not None:
            names = self._names(titles)
            for name in names:
                self._outcome(name)
            self._run.log.write(level, self._shown(names), message)
        elif self._run.log.enabled(level):
            prefix = f"{self._sections[-1].message}: " if self._sections else ""
            self._run.log.write(level, self._here(), f"{prefix}{titles}")

    def _act(self, titles: Any, status: str, message: str) -> None:
        names = self._names(titles)
        for name in names:
            outcome = self._outcome(name)
            self._settle(name, outcome)
            outcome.status = status
        if status != "unchanged":
            self._run.log.write(self._level(names), self._shown(names), _noop(message, noop=self.noop))

    def _attribute(self, name: Name, difference: Difference, prefix: str) -> None:
        outcome = self._outcome(name)
        if outcome.status is not None:
            msg = f"{self.reference(name)}: attribute '{difference.attribute}' is reported after the resource's status"
            raise ProviderError(msg)
        outcome.attributes.append(difference)
        text = describe(self.type, difference, noop=self.noop, told=bool(prefix))
        self._run.log.write(self._level([name]), self._shown([name]), prefix + text)


class Section:
    """A logging context: names what is being done to which resources, and contains their failure.

    It swallows an ``Exception`` after logging it and marking its resources failed; anything else passes.
    """

    def __init__(
        self, context: Context, titles: Any, message: str, status: str, change: tuple[Any, Any] | None = None
    ) -> None:
        """Prepare to do ``message`` to ``titles``."""
        self.names = context._names(titles)  # noqa: SLF001 - two halves of one thing
        self.message = message
        self._context = context
        self._status = status
        self._change = change

    def __enter__(self) -> Self:
        """Open: must come before anything else that is said of these resources."""
        context = self._context
        inside = {name for section in context._sections for name in section.names}  # noqa: SLF001
        for name in self.names:
            outcome = context.outcomes.get(name)
            if outcome and outcome.spoken and name not in inside:
                msg = f"{context.reference(name)}: a context must be opened before anything else is logged for it"
                raise ProviderError(msg)
            context._outcome(name)  # noqa: SLF001
        context._run.log.write("debug", context._shown(self.names), f"Started {_lower(self.message)}")  # noqa: SLF001
        context._sections.append(self)  # noqa: SLF001
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        """Close: report success, or log the error and mark what has no status yet as failed."""
        self._context._sections.remove(self)  # noqa: SLF001
        if error is None and self._status != "failed":
            self._succeed()
            return False
        why = reason(error) if error is not None else self.message
        names = self._without_status()
        for name in names:
            outcome = self._context.outcomes[name]
            outcome.status, outcome.reason = "failed", why
        text = f"{self.message} failed: {why}" if error is not None else self.message
        self._context._run.log.write("err", self._context._shown(names or self.names), text)  # noqa: SLF001
        return isinstance(error, Exception)

    def _without_status(self) -> list[Name]:
        return [name for name in self.names if self._context.outcomes[name].status is None]

    def _succeed(self) -> None:
        context = self._context
        names = self._without_status()
        if self._change is not None:
            for name in names:
                context.processed(name, *self._change)
            return
        for name in names:
            context.outcomes[name].status = self._status
        if names:
            text = _noop(f"Successfully {self._status}", noop=context.noop)
            context._run.log.write(context._level(names), context._shown(names), text)  # noqa: SLF001


def describe(definition: TypeDefinition, difference: Difference, *, noop: bool = False, told: bool = False) -> str:
    """Give the change line of one attribute: ``size changed from 3 to 4``; after a section's word (``told``) with a colon."""
    attribute, is_, should, message = difference
    if message:
        text = f"{attribute}: {message}"
    else:
        verb = f"{attribute}: changed" if told else f"{attribute} changed"
        declared = definition.attributes.get(attribute)
        secret = declared is not None and (declared.datatype.sensitive or declared.write_only)
        text = f"{verb} <sensitive>" if secret else f"{verb} from {show(is_)} to {show(should)}"
    return _noop(text, noop=noop)


def _noop(text: str, *, noop: bool) -> str:
    return f"{text} (noop)" if noop else text


def _lower(word: str) -> str:
    return word[:1].lower() + word[1:]


def _differences(is_: Any, should: Any) -> list[tuple[str, Any, Any]]:
    if not exists(is_) or not exists(should):
        return []
    return [(k, is_.get(k), v) for k, v in should.items() if not same(is_.get(k), v)]


def _status(is_: Any, should: Any) -> str:
    if not exists(should):
        return "deleted"
    return "updated" if exists(is_) else "created"
