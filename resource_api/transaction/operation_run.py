"""The state of one operation while it is carried out: its decision, the result of its call, its end.

The re-evaluation sets ``decision`` and ``should``; the provider's call and its verification set ``result`` and ``is_``;
the modules ``side_effects`` and ``results`` alone set ``side_effects`` and ``status``. Nothing is decided here.
"""

from __future__ import annotations

import time
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.action import CREATING, Action
from resource_api.model.change import Change, exists
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.values import copy_resource, is_flat

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.model.change import Difference, SideEffect
    from resource_api.model.record import RecordKey
    from resource_api.model.step import Operation
    from resource_api.model.type_definition import Name, TypeDefinition


class Status(Enum):
    """The end of an operation; ``PENDING`` before it."""

    PENDING = auto()
    #: It had nothing to do.
    UNCHANGED = auto()
    #: Its action was done, or under noop would be.
    SUCCEEDED = auto()
    FAILED = auto()
    #: Not carried out, or left out by its provider's call.
    SKIPPED = auto()


class CallResult(NamedTuple):
    """The result of a provider's call for one resource, before it is verified."""

    #: The status that the provider reported: created, updated, deleted, unchanged or failed; or None.
    reported: str | None = None
    #: The error of the call for this resource, as reported or as raised, or an empty text.
    error: str = ""
    #: The attribute changes that the provider reported, and so logged, itself.
    attributes: Sequence[Difference] = ()
    #: The error of reading the resource after the call, or an empty text; its outcome is in doubt then.
    read_error: str = ""
    #: Whether the provider wants the present resource to be replaced.
    tainted: bool = False
    #: Whether the provider reported its creation, and it is not visible.
    unconfirmed: bool = False
    #: Whether the resource reads after the call as it did before it.
    unaltered: bool = False

    @property
    def failed(self) -> bool:
        """Whether the call failed for this resource."""
        return self.reported == "failed" or bool(self.error)


#: The result of an operation for which the provider reported nothing.
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
        "tries",
    )

    def __init__(self, operation: Operation) -> None:
        """Begin with the planned state."""
        self.operation = operation
        #: The operation's position in the order of execution.
        self.number = operation.number
        self.step = operation.step
        #: The type, for the provider instance of this operation: a removed resource may belong to another instance.
        self.definition: TypeDefinition = operation.definition
        #: Whether it removes a resource that is replaced, or not declared any more.
        self.removal = operation.removal
        #: The canonical name of the resource; the former one of a removal.
        self.name: Name = self.step.old_name if operation.removal else self.step.name
        self.decision = self.step.decision
        self.should: Mapping[str, object] = self.step.should
        #: The resource as it was last read, or None: it did not exist, or could not be read.
        self.is_ = self.step.is_
        self.result = NO_RESULT
        #: The side effects that its provider announced right before its call, or None.
        self.side_effects: Sequence[SideEffect] | None = None
        self.status = Status.PENDING
        #: The start of the first call for it, in seconds of ``time.monotonic``; 0.0 before it.
        self.started = 0.0
        #: The time (ISO 8601) of its first call, or empty for a type whose changes are visible at once.
        self.changed_at = ""
        #: The number of calls of ``set``, or then of ``refresh``, that it was tried in; counted where ``retry`` holds.
        self.tries = 0

    @property
    def key(self) -> RecordKey:
        """The key of its record."""
        return self.definition.instance, self.name

    @property
    def action(self) -> Action:
        """The action to report: the decided one, or a refresh of a resource that is in sync otherwise."""
        if self.decision.action is Action.SAME and self.step.refreshed_by:
            return Action.REFRESH
        return self.decision.action

    @property
    def timeout(self) -> float | None:
        """The time limit of its change, in seconds, or None."""
        return self.step.entry.timeout(str(self.decision.action))

    @property
    def acts(self) -> bool:
        """Whether it changes or records anything, beyond a refresh."""
        return not self.step.noop and self.decision.action is not Action.SAME

    @property
    def finished(self) -> bool:
        """Whether its end is recorded: it succeeded, failed, was skipped, or had nothing to do."""
        return self.status is not Status.PENDING

    @property
    def failing(self) -> bool:
        """Whether it failed, or its call failed and the result is not verified yet."""
        return self.status is Status.FAILED if self.finished else self.result.failed

    @property
    def tries_left(self) -> int:
        """The number of times that its call may be repeated by ``retry``; 0 without it (contract §10.8)."""
        policy = self.step.entry.meta.retry
        return 0 if policy is None else policy.tries - self.tries

    @property
    def number_of_try(self) -> str:
        """`` (try 2 of 3)`` before a repeated call, else an empty text."""
        policy = self.step.entry.meta.retry
        return f" (try {self.tries + 1} of {policy.tries})" if policy is not None and self.tries else ""

    @property
    def is_to_repeat(self) -> bool:
        """Whether its call failed, and is to be repeated; a tainted resource is replaced by the next run instead."""
        return self.result.failed and self.tries_left > 0 and not self.result.tainted

    @property
    def is_logged(self) -> bool:
        """Whether its failure was logged when its provider reported it: not while its call may be repeated."""
        return self.result.reported == "failed" and self.tries_left <= 0

    @property
    def seconds(self) -> float:
        """The seconds since the first call for it began; 0.0 if none has."""
        return time.monotonic() - self.started if self.started else 0.0

    def log_fields(self) -> Mapping[str, Any]:
        """Return the fields of a log event for it, with its present action."""
        return {**self.step.log_fields(), "action": self.action}

    @property
    def retained(self) -> bool:
        """Whether it removes the former resource of a replacement that is retained: only its record goes."""
        return self.removal and self.decision.action is Action.REPLACE and self.step.entry.meta.lifecycle.retain

    @property
    def sets_write_only(self) -> bool:
        """Whether it sets a value that cannot be read back: then reading does not prove that its call succeeded."""
        hidden = self.step.definition.write_only
        if not hidden or self.removal or not exists(self.should):
            return False
        if self.decision.action in CREATING:
            return not hidden.isdisjoint(self.should)
        return any(difference.attribute in hidden for difference in self.decision.differences)

    @property
    def has_no_effect(self) -> bool:
        """Whether reading shows that a failed update changed nothing: then the record needs no mark for a repair.

        Reading cannot show that for a write-only value, nor for a difference that only a provider's message describes.
        """
        if not self.result.unaltered or self.action is not Action.UPDATE or self.sets_write_only:
            return False
        return not any(difference.only_explained for difference in self.decision.differences)

    def requested(self) -> Mapping[str, Any]:
        """Return the values that ``set`` gets as ``should``, and that are verified afterwards.

        Attributes in ``ignore_changes`` are left out for an existing resource. A provider that plans needs all values:
        it gets the present ones of these attributes, which ``should`` has already.
        """
        if self.removal:
            definition = self.step.definition
            # The deletion may need the parameters, such as a force option.
            parameters = {key: self.should[key] for key in definition.parameters if key in self.should}
            return {**parameters, **definition.named_row(self.name), "ensure": "absent"}
        ignored = self.step.entry.meta.lifecycle.ignore_changes
        if not ignored or self.decision.action in CREATING or "plan" in self.definition.features:
            return self.should
        return {name: value for name, value in self.should.items() if name not in ignored}

    @property
    def asks_side_effects(self) -> bool:
        """Whether the provider is asked for its side effects."""
        return "side_effects" in self.definition.features and self.definition.asks_side_effects(*self.change())

    def change(self) -> Change:
        """Return the change that ``set`` gets for the present decision; ``Changes`` protects it from the provider."""
        creates = self.decision.action in CREATING and not self.removal
        # The row may share nested values with the provider, which may change them during the call.
        is_ = None if creates or self.is_ is None else (self.is_ if is_flat(self.is_) else copy_resource(self.is_))
        return Change(is_, self.requested())
