"""One operation while it is being carried out.

A value of the transaction; what is done with it is decided elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.change import CREATING, Action, Change, describe_difference, exists
from resource_api.model.values.values import copy_resource, is_flat
from resource_api.provider.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from resource_api.model.record import Key
    from resource_api.model.step import Operation, Step
    from resource_api.model.type_definition import Name, TypeDefinition

_WORDS = {Action.CREATE: "created", Action.DELETE: "deleted", Action.REPLACE: "replaced", Action.RUN: "executed"}


#: The outcome of whatever no provider has spoken of; never changed.
NOTHING_SAID: Final = Outcome()


class OperationRun:
    """One operation in progress."""

    __slots__ = (
        "arrived",
        "decision",
        "finished",
        "is_",
        "name",
        "operation",
        "outcome",
        "removal",
        "should",
        "skipped",
        "started",
        "step",
        "unread",
        "why",
    )

    def __init__(self, operation: Operation) -> None:
        """Begin with what was planned."""
        self.operation = operation
        #: The step that this is part of, and whether it is the removal of what is replaced or no longer declared.
        self.step: Step = operation.step
        self.removal = operation.removal
        #: What the resource is called that this operation is about.
        self.name: Name = self.step.old_name if operation.removal else self.step.name
        self.decision = self.step.decision
        self.is_ = self.step.is_
        self.should: Mapping[str, Any] = self.step.should
        #: What was read of it after the call, where certainly nothing of what was asked is missing.
        self.arrived: Mapping[str, Any] | None = None
        self.finished = False
        #: Whether it was left out, be it in the middle of a call.
        self.skipped = False
        self.started = 0.0
        self.outcome = NOTHING_SAID
        #: Why the provider's call failed, where it did not say it of this resource.
        self.why = ""
        #: Why it could not be read after the call: what has come of it is in doubt.
        self.unread = ""

    @property
    def definition(self) -> TypeDefinition:
        """The type, as the configured provider has it that is asked: what is removed may be another one's."""
        return self.operation.definition

    @property
    def key(self) -> Key:
        """What is recorded of it is found by."""
        return self.definition.instance, self.name

    @property
    def action(self) -> Action:
        """What is being done, as it is reported."""
        if self.decision.action is Action.SAME and self.step.refreshed_by:
            return Action.REFRESH
        return self.decision.action

    @property
    def acts(self) -> bool:
        """Whether anything is to be done to the system or recorded, beyond a refresh."""
        return not self.step.noop and self.decision.action is not Action.SAME

    def change(self) -> Change:
        """Give what ``set`` gets: a provider cannot change what the runtime compares with."""
        made_anew = self.decision.action in CREATING and not self.removal
        return Change(None if made_anew or self.is_ is None else _lent(self.is_), _lent(self.asked()))

    @property
    def made_plainly(self) -> bool:
        """Whether all that is declared is asked of something that does not exist."""
        return self.decision.action is Action.CREATE and not self.removal

    def asked(self) -> Mapping[str, Any]:
        """Give what is asked for: what is declared, without what is to be ignored on something that stays."""
        if self.removal:
            return {**self._identity(), "ensure": "absent"}
        ignored = self.step.entry.meta.lifecycle.ignore_changes
        if not ignored or self.decision.action in CREATING:
            return self.should
        return {name: value for name, value in self.should.items() if name not in ignored}

    def _identity(self) -> dict[str, Any]:
        """Give the namevars of what goes, with the parameters that its deletion may need."""
        definition = self.step.definition
        name = self.name if isinstance(self.name, tuple) else (self.name,)
        parameters = {key: self.should[key] for key in definition.names_of_kind("parameter") if key in self.should}
        return {**parameters, **dict(zip(definition.namevars, name, strict=True))}

    @property
    def spared(self) -> bool:
        """Whether it is the old one of a replacement and is only to be forgotten."""
        return self.removal and self.decision.action is Action.REPLACE and self.step.entry.meta.lifecycle.retain

    @property
    def unproven(self) -> bool:
        """Whether something was to be set that cannot be read back: a call that was cut proves nothing of it."""
        hidden = self.step.definition.write_only
        if not hidden or self.removal or not exists(self.should):
            return False
        if self.decision.action in CREATING:
            return not hidden.isdisjoint(self.should)
        return any(difference.attribute in hidden for difference in self.decision.differences)

    def lines(self) -> Sequence[str]:
        """Give the change lines that the provider has not written itself."""
        end = " (noop)" if self.step.noop else ""
        word = _WORDS.get(self.decision.action)
        if word is not None:
            return [f"{word}{end}"] if self.outcome.status is None else []
        told = {difference.attribute for difference in self.outcome.attributes}
        left = [difference for difference in self.decision.differences if difference.attribute not in told]
        return [describe_difference(self.step.definition, difference) + end for difference in left]


class LazyChanges(Mapping[Any, Change]):
    """What a call asks of each name, as it was decided before the call.

    What is to be made, of nothing, is put into a change when a provider looks at it: it looks at one after the other.
    """

    def __init__(self, runs: Iterable[OperationRun]) -> None:
        """Ask what is decided of ``runs``."""
        self._asked: dict[Name, Change | Mapping[str, Any]] = {
            run.name: run.should if run.made_plainly else run.change() for run in runs
        }

    def __getitem__(self, name: Name) -> Change:
        """Give the change of one name."""
        asked = self._asked[name]
        return asked if type(asked) is Change else Change(None, _lent(asked))  # type: ignore[arg-type] # a mapping then

    def __iter__(self) -> Iterator[Name]:
        """Give the names, in dependency order."""
        return iter(self._asked)

    def __len__(self) -> int:
        """Give how many there are."""
        return len(self._asked)


def _lent(resource: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give a view through which nothing can be changed; what holds something else could be, and is copied."""
    return MappingProxyType(resource if is_flat(resource) else copy_resource(resource))


def deadline(runs: list[OperationRun]) -> float | None:
    """Give when a call must have ended; a resource with a ``timeout`` has a call of its own."""
    timeout = runs[0].step.entry.meta.timeout if len(runs) == 1 else None
    if isinstance(timeout, dict):
        timeout = timeout.get(str(runs[0].decision.action))
    return time.monotonic() + timeout if isinstance(timeout, (int, float)) else None
