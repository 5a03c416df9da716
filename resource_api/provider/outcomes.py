"""What a provider has said, in one call, about each name that it was asked about.

Keeps the rules of order (a context before anything else of its resource, attributes before the status, one status
each) and of whom one may speak of. The words that authors use are the context's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import ProviderError
from resource_api.model.values.reference import capitalize_type
from resource_api.model.values.text import show

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api.model.change import Difference
    from resource_api.model.type_definition import Name, TypeDefinition
    from resource_api.system.log import Log


class Subject(NamedTuple):
    """How a name is shown: the user's title as written; the level of its change lines; the component around it."""

    title: str
    loglevel: str = "notice"
    parent: str = ""


class Outcome:
    """What a provider has said about one name in one call."""

    __slots__ = ("attributes", "reason", "spoken", "status")

    def __init__(self) -> None:
        """Nothing said yet; ``status`` becomes created, updated, deleted, unchanged or failed."""
        self.status: str | None = None
        self.reason = ""
        self.attributes: list[Difference] = []
        self.spoken = False


class CallOutcomes:
    """Outcomes by name; ``subjects`` are the names of the call, ``anyone`` lets a reading call speak of others."""

    def __init__(
        self, definition: TypeDefinition, log: Log, subjects: Mapping[Name, Subject], *, anyone: bool, noop: bool
    ) -> None:
        """Begin with nothing said."""
        self.outcomes: dict[Name, Outcome] = {}
        #: Whether any name has failed.
        self.failures = False
        self._definition = definition
        self._log = log
        self.subjects = subjects
        self._anyone = anyone
        self._end = " (noop)" if noop else ""

    def names(self, titles: Any) -> list[Name]:
        """Give the names meant, one or a list; raises ``ProviderError`` for one that is not among the changes."""
        names = list(titles) if isinstance(titles, (list, set, frozenset)) else [titles]
        if not self._anyone:
            for name in names:
                if name not in self.subjects:
                    told = f"{self._definition.name}: {show(name)}"
                    msg = f"{told} is not among the changes of this call; it cannot be reported"
                    raise ProviderError(msg)
        return names

    def outcome(self, name: Name) -> Outcome:
        """Give the outcome of a name that is now being spoken of."""
        outcome = self.outcomes.get(name)
        if outcome is None:
            outcome = self.outcomes[name] = Outcome()
        outcome.spoken = True
        return outcome

    def shown(self, names: list[Name]) -> str:
        """Give the user's reference of names: ``Apt_key[a, b]``, ``Keys[all]/Apt_key[a, b]`` within a component."""
        within: dict[str, list[str]] = {}
        for name in names:
            subject = self.subjects.get(name)
            within.setdefault(f"{subject.parent}/" if subject and subject.parent else "", []).append(self._title(name))
        head = capitalize_type(self._definition.name)
        return ", ".join(f"{parent}{head}[{', '.join(titles)}]" for parent, titles in (within or {"": []}).items())

    def say(self, level: str, names: list[Name], text: object) -> None:
        """Write a line about names; what providers say may be any object, an error for one."""
        if self._log.enabled(level):
            self._log.write(level, self.shown(names), f"{text}")

    def tell(self, names: list[Name], text: object) -> None:
        """Write a change line, at the level that the user wants those of the first name to have."""
        subject = self.subjects.get(names[0]) if names else None
        self.say(subject.loglevel if subject else "notice", names, f"{text}{self._end}")

    def settle(self, names: list[Name], status: str, why: object = "") -> None:
        """Give names their status; raises ``ProviderError`` where one has it already."""
        for name in names:
            outcome = self.outcome(name)
            if outcome.status is not None:
                msg = f"{self.shown([name])} has been reported as {outcome.status} already; one status per resource"
                raise ProviderError(msg)
            outcome.status, outcome.reason = status, f"{why}"
            self.failures = self.failures or status == "failed"

    def take(self, name: Name, status: str, why: str) -> None:
        """Take over what was said of a name elsewhere, where the rules have been kept."""
        outcome = self.outcomes.setdefault(name, Outcome())
        outcome.status, outcome.reason = status, why
        self.failures = self.failures or status == "failed"

    def attribute(self, name: Name, difference: Difference, text: str) -> None:
        """Note and tell that one attribute has been changed."""
        outcome = self.outcome(name)
        if outcome.status is not None:
            msg = f"{self.shown([name])}: attribute '{difference.attribute}' is reported after the resource's status"
            raise ProviderError(msg)
        outcome.attributes.append(difference)
        self.tell([name], text)

    def undecided(self, names: list[Name]) -> list[Name]:
        """Give those of ``names`` that have no status yet."""
        return [name for name in names if self.outcome(name).status is None]

    def open(self, names: list[Name], inside: set[Name]) -> None:
        """Note that a context opens; it must come before anything else of its resources, unless one is around it."""
        for name in names:
            outcome = self.outcomes.get(name)
            if outcome and outcome.spoken and name not in inside:
                msg = f"{self.shown([name])}: a context must be opened before anything else is logged for it"
                raise ProviderError(msg)
            self.outcome(name)

    def _title(self, name: Name) -> str:
        if subject := self.subjects.get(name):
            return subject.title
        return ", ".join(map(str, name)) if isinstance(name, tuple) else str(name)
