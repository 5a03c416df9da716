"""A logging context: what is being done to which resources, said around a block of a provider's code.

It swallows an ``Exception`` after logging it and marking its resources failed; anything else passes on (Puppet
Resource API, "Logging contexts").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from resource_api.model.change import Difference, describe, differing, status
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import reason

if TYPE_CHECKING:
    from types import TracebackType

    from resource_api.model.type_definition import Name, TypeDefinition
    from resource_api.provider.outcomes import Ledger


class Doing(NamedTuple):
    """What is being done: the word for it, the status that success gives, and for ``processing`` the two states."""

    message: str
    status: str
    change: tuple[Any, Any] | None = None


class Section:
    """One open logging context."""

    def __init__(
        self, definition: TypeDefinition, ledger: Ledger, opened: list[Section], names: list[Name], doing: Doing
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


def process(definition: TypeDefinition, ledger: Ledger, names: list[Name], change: tuple[Any, Any]) -> None:
    """Report a finished change, attribute by attribute, with default messages."""
    for name in names:
        for attribute, before, after in differing(*change):
            difference = Difference(attribute, before, after)
            ledger.attribute(name, difference, describe(definition, difference))
        word = status(*change)
        ledger.settle([name], word)
        ledger.tell([name], word.capitalize())
