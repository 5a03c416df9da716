"""What is planned for one resource, and what became of it.

Values that the planner makes and the transaction reports; neither decides anything here.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.change import Action, Difference
from resource_api.model.secrets import mark_secrets
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.values import is_secret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from resource_api.model.entry import Entry
    from resource_api.model.record import Record
    from resource_api.model.type_definition import Name, TypeDefinition
    from resource_api.model.values.reference import Reference


class ReplacementReason(Enum):
    """Why a resource is replaced beyond the attributes that can only be set at creation; the value is the text."""

    REQUESTED = "asked for by --replace"
    TAINTED = "tainted"
    TRIGGERED = "triggered by {}"
    #: ``deleted_with`` names a resource that is replaced.
    HOST_REPLACED = "goes with {}, which is replaced"
    #: A value comes from a resource that is replaced.
    SOURCE_REPLACED = "{} comes from {}, which is replaced"
    PROVIDER_CONFIGURATION = "{}"
    PROVIDER_PLAN = "the provider replaces for {}"
    #: ``replace_on_changes`` names an attribute that differs.
    ATTRIBUTE_CHANGED = "{} changed"


class Replacement(NamedTuple):
    """A reason to replace a resource, with the names that its text contains."""

    reason: ReplacementReason
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the text for the user."""
        return self.reason.value.format(*self.names)


class Decision(NamedTuple):
    """What must be done with one resource, from its two states alone."""

    action: Action
    differences: Sequence[Difference] = ()
    reasons: Sequence[str] = ()
    #: Why it cannot be done; the step fails without being tried.
    error: str = ""
    #: Attributes whose change needs a replacement.
    replaces_because: Sequence[str] = ()
    #: Values that only the resource can tell, where its provider foresees them.
    predicted: Mapping[str, Any] = {}
    #: The reason of a replacement that the differences do not show; its text is also the first of ``reasons``.
    replacement: Replacement | None = None


SAME: Final = Decision(Action.SAME)


class Operation(NamedTuple):
    """One thing to be done in the order of execution: bring a resource to what it should be, or remove it.

    A step has one operation, a replacement two: the removal of the old, the making of the new.
    """

    #: Where it stands in the order of execution.
    number: int
    step: Step
    removal: bool = False

    @property
    def definition(self) -> TypeDefinition:
        """The type, as the configured provider has it that is asked."""
        return self.step.old_definition or self.step.entry.definition if self.removal else self.step.entry.definition


class PlanContext(NamedTuple):
    """What the steps of one plan have in common: how its resources are called, and how they relate."""

    #: Gives a resource's name across stacks.
    urn: Callable[[Entry], str]
    #: The entries of the catalog, and for each of them by index which come before it and which it notifies.
    entries: Sequence[Entry]
    requires: Mapping[int, Sequence[int]]
    notifies: Callable[[], Mapping[int, Sequence[int]]]

    def references(self, indices: Iterable[int]) -> tuple[Reference, ...]:
        """Give the references of entries."""
        return tuple(self.entries[index].reference for index in indices)


class Step(NamedTuple):
    """One resource in a plan."""

    entry: Entry
    is_: Mapping[str, Any] | None
    should: Mapping[str, Any]
    decision: Decision = SAME
    noop: bool = False
    #: What it shares with the other steps; None: it stands alone.
    context: PlanContext | None = None
    #: What was recorded of it; of a replacement under other namevars, of the one that goes.
    record: Record | None = None
    #: References of those whose change refreshes it.
    refreshed_by: Sequence[str] = ()
    #: Why it is decided only at its turn: its type cannot be read yet.
    deferred: str = ""
    #: Attributes that only an earlier step will yield.
    unknown: Sequence[str] = ()
    #: The reference that the resource had before, where it has another title now.
    previous: str = ""
    #: What is declared equals what was recorded as asked, and the system had moved away.
    corrective: bool = False
    #: The type of the one that goes, where another configured provider answers for it than for the new one.
    old_definition: TypeDefinition | None = None

    @property
    def urn(self) -> str:
        """The resource's name across stacks."""
        return self.context.urn(self.entry) if self.context is not None else ""

    @property
    def depends_on(self) -> Sequence[Reference]:
        """What comes directly before it."""
        context = self.context
        return context.references(context.requires.get(self.entry.index, ())) if context is not None else ()

    @property
    def notifies(self) -> Sequence[Reference]:
        """What is refreshed when this changes."""
        context = self.context
        return context.references(context.notifies().get(self.entry.index, ())) if context is not None else ()

    @property
    def expressions(self) -> Mapping[str, Any]:
        """The values that refer to other resources, as declared."""
        return self.entry.pending

    @property
    def sensitive(self) -> Sequence[str]:
        """The attributes whose values are secrets, sorted."""
        return sorted(name for name, value in self.should.items() if is_secret(value))

    @property
    def options(self) -> Mapping[str, Any]:
        """How it is carried out and told."""
        meta = self.entry.meta
        return {"noop": self.noop, "loglevel": meta.loglevel, "tags": sorted(meta.tags)}

    @property
    def masked_is(self) -> Mapping[str, Any] | None:
        """What was read, with every secret wrapped: those of now, and those that were asked for before."""
        if self.is_ is None:
            return None
        before = () if self.record is None else (self.record.should,)
        return mark_secrets(self.definition, self.is_, self.should, *before)

    @property
    def action(self) -> Action:
        """What the step does; ``same`` when nothing."""
        if self.decision.action is Action.SAME and self.refreshed_by and not self.decision.error:
            return Action.REFRESH
        return self.decision.action

    @property
    def changes(self) -> Sequence[Difference]:
        """Every attribute that the step would change; a creation sets all that is declared."""
        found = {difference.attribute: difference for difference in self.decision.differences}
        if self.action in {Action.CREATE, Action.REPLACE}:
            shown = (self.action is Action.REPLACE and self.masked_is) or {}
            for name in self.definition.managed:
                if name in self.should and name not in found:
                    is_ = shown.get(name)
                    if self.action is Action.CREATE or is_ != self.should[name]:
                        found[name] = Difference(name, is_, self.should[name])
        return tuple(found.values())

    @property
    def reasons(self) -> Sequence[str]:
        """Why it does what it does, beside what differs."""
        deferred = (f"deferred: {self.deferred}",) if self.deferred else ()
        return (*self.decision.reasons, *deferred)

    @property
    def replaces_because(self) -> Sequence[str]:
        """Attributes whose change needs a replacement."""
        return self.decision.replaces_because

    @property
    def error(self) -> str:
        """Why it could not be planned; empty: it could."""
        return self.decision.error

    @property
    def acts(self) -> bool:
        """Whether it would change something: it neither fails in the plan, nor is it noop, read, or same."""
        if self.decision is SAME and not self.refreshed_by:
            return False
        return not (self.decision.error or self.noop or self.action in {Action.SAME, Action.READ})

    def is_noop(self, *, noop_run: bool) -> bool:
        """Whether it is left alone: by its run, or, where that is only ``telling``, by the one that is told of."""
        return bool(self.entry.meta.noop) if noop_run else self.noop

    @property
    def definition(self) -> TypeDefinition:
        """The resource's type."""
        return self.entry.definition

    @property
    def reference(self) -> Reference:
        """The user's name of the resource."""
        return self.entry.reference

    @property
    def name(self) -> Name:
        """What identifies it within its type."""
        return self.entry.name

    @property
    def create_first(self) -> bool:
        """Whether a replacement makes the new one before the old one goes."""
        return self.entry.meta.lifecycle.replace == "create_first"

    @property
    def old_name(self) -> Name:
        """What the one that goes is called: another name than the new one's when the namevars have changed."""
        return self.record.name if self.record is not None else self.entry.name
