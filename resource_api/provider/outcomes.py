"""The outcome of each name in one provider call, as reported through the call's context.

Checks the rules of reporting: only names of the call, a logging context before anything else about its resources,
attributes before the status, one status for each resource. The methods that authors call are in ``context``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.change import difference_fields, large_change
from resource_api.model.values.errors import ProviderError
from resource_api.model.values.reference import Reference, capitalize_type, make_urn, with_path
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.text import show

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from resource_api.model.change import Difference
    from resource_api.model.declaration import Declaration
    from resource_api.model.type_definition import Name, TypeDefinition
    from resource_api.system.log import Log


#: The number of positions in a message.
_MOST: Final = 3


class Subject(NamedTuple):
    """How a name is shown: its title as in the manifest, the level of its change lines, its component, its action."""

    title: str
    loglevel: str = "notice"
    parent: str = ""
    #: The ``write_only`` attributes with new values, which reading does not show.
    hidden: Sequence[str] = ()
    #: The planned action, or "".
    action: str = ""
    #: Its declaration; None in a worker.
    declaration: Declaration | None = None


class Outcome:
    """A provider's report on one name in one call."""

    __slots__ = ("attributes", "mentioned", "reason", "status", "tainted")

    def __init__(self) -> None:
        """Begin without a report; ``status`` becomes created, updated, deleted, unchanged or failed."""
        self.status: str | None = None
        self.reason = ""
        self.attributes: list[Difference] = []
        #: Whether anything was logged or reported for it: then no logging context can be opened for it any more.
        self.mentioned = False
        #: Whether a failed resource must be replaced.
        self.tainted = False


class CallOutcomes(dict["Name", Outcome]):
    """The outcomes of one provider call, by name."""

    def __init__(
        self, definition: TypeDefinition, log: Log, subjects: Mapping[Name, Subject], *, anyone: bool, noop: bool
    ) -> None:
        """Begin without outcomes for a call about ``subjects``; its log lines go to ``log``.

        ``anyone``: allow reports about other names, as in ``get``; ``noop``: mark the lines of changes.
        """
        super().__init__()
        #: Whether any name has failed; and whether one has failed finally, as its call is not repeated: with fail-fast
        #: the provider then gets no further names of the call.
        self.any_failed = self.any_failed_finally = False
        #: The names whose call is repeated if it fails: the runtime logs their failures (contract §10.8).
        self.repeated: Collection[Name] = ()
        self.subjects = subjects
        self._definition = definition
        self._log = log
        self._anyone = anyone
        self._suffix = " (noop)" if noop else ""
        #: The fields of the log that are bound while the provider is called.
        self.bound: Mapping[str, Any] = {}
        #: The log lines of statuses, written only after ``get`` has verified them: functions, each called with the
        #: confirmed names; None: lines are written at once.
        self.held: list[Callable[[Collection[Name]], None]] | None = None

    def names(self, titles: object) -> list[Name]:
        """Return the names in the argument ``titles`` of a provider's report: authors may pass one name or a list.

        Raise ``ProviderError`` for a name that is not among those of the call, as it must be a mistake.
        """
        names = list(titles) if isinstance(titles, (list, set, frozenset)) else [titles]
        if not self._anyone:
            for name in names:
                if name not in self.subjects:
                    reported = f"{self._definition.name}: {show(name)}"
                    raise ProviderError(f"{reported} is not among the changes of this call; it cannot be reported")
        return names

    def mention(self, name: Name) -> Outcome:
        """Return the outcome of a name, new if missing, and mark the name as mentioned in the log.

        A logging context must be opened before its resources are mentioned, so none can be opened for the name now.
        """
        outcome = self.get(name)
        if outcome is None:
            outcome = self[name] = Outcome()
        outcome.mentioned = True
        return outcome

    def reference(self, names: Sequence[Name]) -> str:
        """Return a short common reference of names for messages, such as ``Apt_key[a, b]``.

        Names of a component have their own: ``Keys[all]/Apt_key[a, b]``.
        """
        by_parent: dict[str, list[str]] = {} if names else {"": []}
        for subject in map(self.subject, names):
            parent = f"{subject.parent}/" if subject.parent else ""
            by_parent.setdefault(parent, []).append(subject.title)
        kind = capitalize_type(self._definition.name)
        return ", ".join(f"{parent}{kind}[{', '.join(titles)}]" for parent, titles in by_parent.items())

    def log(self, level: str, names: Sequence[Name], text: object, **fields: object) -> None:
        """Write a line about names, if there are any; ``text`` may be any object, such as an exception."""
        if names and self._log.enabled(level, self._definition.name):
            self.write(level, self.reference(names), f"{text}", names, **fields)

    def write(self, level: str, subject: str, text: str, names: Sequence[Name], **fields: Any) -> None:
        """Write a line about names, shown as ``subject``."""
        self._log.write(level, subject, text, self._definition.name, lambda: self.fields(names), **fields)

    def fields(self, names: Sequence[Name]) -> Mapping[str, Any]:
        """Return the log fields of an event about names: the call's, and the names' reference, action and URN.

        The call's fields are stored in ``self.bound``, too, for lines of threads that the provider starts: the log's
        fields are bound only in the thread of the call.
        """
        bound = {**self.bound, **self._log.bound}
        if not names:
            return bound
        # If the call has one resource, its URN and action are bound: ``names`` may be of other resources.
        fields = {name: value for name, value in bound.items() if name not in {"urn", "action"}}
        fields["reference"] = self.reference(names)
        actions = {self.subjects[name].action for name in names if name in self.subjects}
        if len(actions) == 1 and "" not in actions:
            fields["action"] = str(actions.pop())
        if len(names) == 1 and "stack" in bound and "project" in bound:
            subject = self.subject(names[0])
            reference = Reference(self._definition.name, subject.title)
            fields["urn"] = str(make_urn(bound["stack"], bound["project"], subject.parent, reference))
        return fields

    def log_change(self, names: Sequence[Name], text: object, **fields: object) -> None:
        """Write a change line, marked under noop, at the log level that the user chose for the first of the names."""
        if names:
            self.log(self.subject(names[0]).loglevel, names, f"{text}{self._suffix}", **fields)

    def log_status(self, names: list[Name], status: str, text: object) -> None:
        """Write the line of a status that was reported, or postpone it until ``get`` has verified the success.

        If ``held`` is a list, a line of success is appended to it, as the runtime may find that nothing has changed.
        Failures of names whose call is repeated are not logged here: only the last failure counts.
        """
        if status == "failed":
            self._log_failure([name for name in names if name not in self.repeated], text)
        elif status == "unchanged":
            self.log_change(names, text, status=status)
        elif self.held is None:
            self.log_change(names, text, status="noop" if self._suffix else "success")
        else:
            self.held.append(partial(self._log_success, names, f"{text}"))

    def _log_success(self, names: Sequence[Name], text: str, confirmed: Collection[Name]) -> None:
        """Write a line of success that was held back, about the names whose change was ``confirmed``."""
        self.log_change([name for name in names if name in confirmed], text, status="success")

    def _log_failure(self, names: Sequence[Name], text: object) -> None:
        """Write the line of a failure with the positions of the declarations.

        If lines of success wait for their verification, the line is postponed as well, so that the order stays.
        """
        line = f"{self._with_path(names, text)}{self._positions(names)}"
        if self.held:
            self.held.append(lambda _confirmed: self.log("err", names, line, status="failed"))
        else:
            self.log("err", names, line, status="failed")

    def _with_path(self, names: Sequence[Name], reason: object) -> str:
        """Return the reason of a failure; for a single resource with its path, if the title does not contain it."""
        return with_path(f"{reason}", self.subject(names[0]).title, names[0]) if len(names) == 1 else f"{reason}"

    def _positions(self, names: Sequence[Name]) -> str:
        """Return the end of a message with the positions of the declarations, `` (site.yaml:14)``, or "" if unknown.

        For several names it has at most three positions; for one name also the element of ``for_each``.
        """
        subjects = map(self.subject, names[: _MOST + 1])
        declarations = [subject.declaration for subject in subjects if subject.declaration is not None]
        if len(names) == len(declarations) == 1:
            return declarations[0].located("")
        texts = [declaration.place().line_text for declaration in declarations]
        positions = list(dict.fromkeys(filter(None, texts)))
        return f" ({', '.join(positions[:_MOST])}{', …' if len(positions) > _MOST else ''})" if positions else ""

    def set_status(self, names: list[Name], status: str, reason: object = "", *, tainted: bool = False) -> None:
        """Set the status of names. Raise ``ProviderError`` where one is set already: two would contradict each other.

        ``tainted``: the failed resource must be replaced.
        """
        for name in names:
            outcome = self.mention(name)
            if outcome.status is not None:
                msg = f"{self.reference([name])} has been reported as {outcome.status} already; one status per resource"
                raise ProviderError(msg)
            text = self._with_path([name], reason) if status == "failed" else f"{reason}"
            self.copy_status(name, status, text, tainted=tainted)

    def copy_status(self, name: Name, status: str, reason: str, *, tainted: bool) -> None:
        """Set the status of a name without the checks of ``set_status``, for a report of a provider in a worker.

        The worker's process has made these checks. A failure of a name in ``repeated`` does not count as final, because
        a further call of ``set`` follows.
        """
        outcome = self.setdefault(name, Outcome())
        outcome.status, outcome.reason, outcome.tainted = status, reason, tainted
        if status == "failed":
            self.any_failed = True
            self.any_failed_finally = self.any_failed_finally or name not in self.repeated

    def add_attribute(self, name: Name, difference: Difference, text: str) -> None:
        """Record the change of an attribute for the run's report, and log it.

        Raise ``ProviderError`` if the resource has a status already, which must be the last report about it.
        """
        outcome = self.mention(name)
        if outcome.status is not None:
            attribute = f"{self.reference([name])}: attribute '{difference.attribute}'"
            raise ProviderError(f"{attribute} is reported after the resource's status")
        outcome.attributes.append(difference)
        large = large_change(self._definition, difference)
        self.log_change([name], text, **difference_fields(self._definition, difference), change=large)

    def without_status(self, names: list[Name]) -> list[Name]:
        """Return the ``names`` that have no status yet; all of them count as mentioned from now on."""
        return [name for name in names if self.mention(name).status is None]

    def open_context(self, names: list[Name], enclosing: set[Name]) -> None:
        """Mark the names of a new logging context as mentioned.

        Raise ``ProviderError`` for a name about which a line was logged already, as the first line must be the begin of
        its context. Names in ``enclosing``, those of the logging contexts around the new one, are exempt.
        """
        for name in names:
            outcome = self.get(name)
            if outcome and outcome.mentioned and name not in enclosing:
                msg = f"{self.reference([name])}: a context must be opened before anything else is logged for it"
                raise ProviderError(msg)
            self.mention(name)

    def subject(self, name: Name) -> Subject:
        """Return how a name is shown; one that is not in the call has its own text as title."""
        return self.subjects.get(name) or Subject(", ".join(map(str, name)) if isinstance(name, tuple) else str(name))
