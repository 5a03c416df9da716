"""One operation while it is carried out: what is decided about it, what its call reported, how it ended.

Who changes what: the re-evaluation sets ``decision`` and ``should``; the provider's call and its verification set
``result`` and ``is_``; ``side_effects`` and ``results`` alone set ``side_effects`` and ``status``. Nothing else is
decided or changed here.
"""

from __future__ import annotations

import time
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.action import CREATING, Action
from resource_api.model.change import Change, exists
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.values import copy_resource, is_flat

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.model.change import Difference, SideEffect
    from resource_api.model.record import RecordKey
    from resource_api.model.step import Operation
    from resource_api.model.type_definition import Name, TypeDefinition


class Status(Enum):
    """How an operation has ended; ``PENDING``: it has not."""

    PENDING = auto()
    #: Nothing was to be done.
    UNCHANGED = auto()
    #: What was decided was done, or under noop would be done.
    SUCCEEDED = auto()
    FAILED = auto()
    #: Not carried out, or left out by its provider's call.
    SKIPPED = auto()


class CallResult(NamedTuple):
    """What is known of one resource from its provider's call, before the result is verified."""

    #: The status that the provider reported: created, updated, deleted, unchanged or failed; None: none.
    reported: str | None = None
    #: Why the call failed for this resource, as reported or as raised; empty: it did not.
    error: str = ""
    #: The attribute changes that the provider reported, and so logged, itself.
    attributes: Sequence[Difference] = ()
    #: Why the resource could not be read after the call; its outcome is in doubt then.
    unread: str = ""
    #: Whether the provider wants what is there now to be replaced.
    tainted: bool = False
    #: Whether its creation succeeded as far as the provider tells, and it cannot be seen.
    unconfirmed: bool = False

    @property
    def failed(self) -> bool:
        """Whether the call failed for this resource."""
        return self.reported == "failed" or bool(self.error)


#: The result of an operation of which the provider has reported nothing.
NO_RESULT: Final = CallResult()


class OperationRun:
    """One operation of a plan while it is carried out."""

    __slots__ = (
        "changed_at",
        "decision",
        "definition",
        "is_",
        "name",
        "number",
        "operation",
        "removal",
        "result",
        "should",
        "side_effects",
        "started",
        "status",
        "step",
    )

    def __init__(self, operation: Operation) -> None:
        """Begin with what was planned."""
        self.operation = operation
        #: The operation's place in the order of execution.
        self.number = operation.number
        self.step = operation.step
        #: The type, for the provider instance of this operation: what is removed may belong to another one.
        self.definition: TypeDefinition = operation.definition
        #: Whether it removes what is replaced, or what is not declared any more.
        self.removal = operation.removal
        #: The canonical name of the resource: the former one where that is removed.
        self.name: Name = self.step.old_name if operation.removal else self.step.name
        self.decision = self.step.decision
        self.should: Mapping[str, Any] = self.step.should
        #: The resource as it was last read; None: it did not exist, or could not be read.
        self.is_ = self.step.is_
        self.result = NO_RESULT
        #: What its provider has said right before its call that it does besides; None: it was not asked.
        self.side_effects: Sequence[SideEffect] | None = None
        self.status = Status.PENDING
        #: When the first call for it began, in seconds of ``time.monotonic``; 0.0: none has.
        self.started = 0.0
        #: The time (ISO 8601) of its first call, where the change may take time to become visible; empty: it does not.
        self.changed_at = ""

    @property
    def key(self) -> RecordKey:
        """The key of its record."""
        return self.definition.instance, self.name

    @property
    def action(self) -> Action:
        """The action as it is reported."""
        if self.decision.action is Action.SAME and self.step.refreshed_by:
            return Action.REFRESH
        return self.decision.action

    @property
    def timeout(self) -> float | None:
        """The time limit of its change in seconds, or None."""
        return self.step.entry.timeout(str(self.decision.action))

    @property
    def acts(self) -> bool:
        """Whether anything is to be changed or recorded, beyond a refresh."""
        return not self.step.noop and self.decision.action is not Action.SAME

    @property
    def finished(self) -> bool:
        """Whether it has ended."""
        return self.status is not Status.PENDING

    @property
    def failing(self) -> bool:
        """Whether it has failed, or its call has and the result is not verified yet."""
        return self.status is Status.FAILED if self.finished else self.result.failed

    @property
    def seconds(self) -> float:
        """The seconds since the first call for it began; 0.0 if none has."""
        return time.monotonic() - self.started if self.started else 0.0

    def log_fields(self) -> Mapping[str, Any]:
        """Return the fields of a log event about it, with the action that is decided now."""
        return {**self.step.log_fields(), "action": self.action}

    @property
    def retained(self) -> bool:
        """Whether it removes the former resource of a replacement that is only to be forgotten."""
        return self.removal and self.decision.action is Action.REPLACE and self.step.entry.meta.lifecycle.retain

    @property
    def sets_write_only(self) -> bool:
        """Whether a value is to be set that cannot be read back: reading does not prove that it was set."""
        hidden = self.step.definition.write_only
        if not hidden or self.removal or not exists(self.should):
            return False
        if self.decision.action in CREATING:
            return not hidden.isdisjoint(self.should)
        return any(difference.attribute in hidden for difference in self.decision.differences)

    def requested(self) -> Mapping[str, Any]:
        """Return what ``set`` is asked for: the declared values, without ignored ones of a resource that stays."""
        if self.removal:
            return {**self._identity(), "ensure": "absent"}
        ignored = self.step.entry.meta.lifecycle.ignore_changes
        if not ignored or self.decision.action in CREATING:
            return self.should
        return {name: value for name, value in self.should.items() if name not in ignored}

    @property
    def asks_side_effects(self) -> bool:
        """Whether the provider is asked what it does besides."""
        return "side_effects" in self.definition.features and self.definition.asks_side_effects(*self.change())

    def _identity(self) -> dict[str, Any]:
        """Return the namevars of what is removed, and the parameters that its deletion may need."""
        definition = self.step.definition
        parameters = {key: self.should[key] for key in definition.names_of_kind("parameter") if key in self.should}
        return {**parameters, **definition.named_row(self.name)}

    def change(self) -> Change:
        """Return what ``set`` is asked to do, as it is decided now; ``Changes`` protects it from the provider."""
        made_anew = self.decision.action in CREATING and not self.removal
        # What was read may share nested values with the provider, which may change them during the call.
        is_ = None if made_anew or self.is_ is None else (self.is_ if is_flat(self.is_) else copy_resource(self.is_))
        return Change(is_, self.requested())
