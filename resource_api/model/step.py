"""One step of a plan: the action on one resource, its differences, and its reasons; and the views of policies."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.action import CREATING, Action
from resource_api.model.change import Difference, exists
from resource_api.model.sealed_secrets import mark_secrets
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.values import is_secret, same_value

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence

    from resource_api.model.change import SideEffect
    from resource_api.model.entry import Entry
    from resource_api.model.json_documents import StepOptionsJson
    from resource_api.model.record import Record, RecordKey
    from resource_api.model.type_definition import Name, TypeDefinition
    from resource_api.model.values.reference import Reference
    from resource_api.model.values.values import Values


#: The reason on a resource that is recorded for the first time and existed before.
ADOPTED: Final = "exists already; managed from now on, not ours"
#: The prefix of a deferral's reason among the documented ``reasons`` of a step.
_DEFERRED: Final = "deferred: "


class ReplacementReason(Enum):
    """The reason to replace a resource beyond attributes that are set at creation only; the value is the text."""

    REQUESTED = "asked for by --replace"
    TAINTED = "tainted"
    TRIGGERED = "triggered by {}"
    #: ``deleted_with`` names a resource that is replaced.
    HOST_REPLACED = "goes with {}, which is replaced"
    #: A value comes from a resource that is replaced.
    SOURCE_REPLACED = "{} comes from {}, which is replaced"
    PROVIDER_CONFIGURATION = "{}"
    PROVIDER_PLAN = "its provider cannot change {} in place"
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
    """The decision about one resource: the action and its reasons."""

    action: Action
    differences: Sequence[Difference] = ()
    reasons: Sequence[str] = ()
    #: The reason why it is impossible; the step then fails without a call of its provider.
    error: str = ""
    #: Attributes whose change needs a replacement.
    replaces_because: Sequence[str] = ()
    #: Values that are not declared and that the provider predicts; ``UNKNOWN``: they will change.
    predicted: Mapping[str, object] = {}
    #: The reason of a replacement that the differences do not show; its text is also the first of ``reasons``.
    replacement: Replacement | None = None
    #: Whether it is not yet certain that a replacement is needed: only if an unknown value turns out to differ, or if
    #: another resource changes. Decided again at its turn; nothing is deleted before.
    conditional: bool = False
    #: Why a conditional replacement fails if it turns out to be needed; empty: nothing forbids it.
    forbidden: str = ""
    #: Declared attributes that stay as they are, because that means the same according to the provider's plan.
    unaffected: Collection[str] = ()
    #: The rules that the tolerant plan of its provider breaks; None: the plan is not tolerant.
    tolerated: Sequence[str] | None = None


SAME: Final = Decision(Action.SAME)


class Operation(NamedTuple):
    """One part of a step in the order of execution: to bring a resource to its declared state, or to remove it.

    A replacement has two operations, the removal of the old resource and the creation of the new one.
    """

    #: The position in the order of execution.
    number: int
    step: Step
    removal: bool = False

    def __repr__(self) -> str:
        """Show the number, and the action on the resource."""
        return f"<Operation {self.number}: {'remove' if self.removal else self.step.action} {self.step.reference}>"

    @property
    def definition(self) -> TypeDefinition:
        """The type with the configured provider that is called."""
        old_definition = self.step.old_definition if self.removal else None
        return old_definition or self.step.entry.definition


class PlanContext(NamedTuple):
    """The shared part of one plan's steps: the names and the relationships of the catalog's entries."""

    #: Entry → its URN.
    urn: Callable[[Entry], str]
    #: All entries; for the index of each, the indices of those that precede it and of those that it notifies.
    entries: Sequence[Entry]
    requires: Mapping[int, Sequence[int]]
    notifies: Callable[[], Mapping[int, Sequence[int]]]
    #: The keys of resources that an interrupted run may have created, which are ours; None: nothing is recorded.
    unfinished: Container[RecordKey] | None = None

    def __repr__(self) -> str:
        """Show the number of entries."""
        return f"<PlanContext: {len(self.entries)} entries>"

    def references(self, indices: Iterable[int]) -> tuple[Reference, ...]:
        """Return the references of the entries with these indices."""
        return tuple(self.entries[index].reference for index in indices)


class Step(NamedTuple):
    """The plan for one resource."""

    entry: Entry
    is_: Values | None
    should: Values
    decision: Decision = SAME
    noop: bool = False
    #: Shared by the steps of a plan; None for a step outside of a plan.
    context: PlanContext | None = None
    #: The record of the resource; for a replacement under other namevars, the removed resource's.
    record: Record | None = None
    #: References of the resources whose change causes a refresh.
    refreshed_by: Sequence[str] = ()
    #: The reason why the decision waits until the step is due: its type cannot be read yet; or "".
    deferred: str = ""
    #: Attributes whose values only an earlier step will provide.
    unknown: Sequence[str] = ()
    #: The former reference of a resource that has a new title.
    previous: str = ""
    #: The declaration is unchanged since the last run, and the system has drifted from it.
    corrective: bool = False
    #: The type with the old provider, if a replacement changes the configured provider.
    old_definition: TypeDefinition | None = None
    #: Whether the run decided on it: it was in sync in the plan, and an earlier change of the run put it out of sync.
    late: bool = False
    #: The side effects that its provider names; None: the provider can name them only when the step is due.
    side_effects: Sequence[SideEffect] | None = ()

    def __repr__(self) -> str:
        """Show the action and the reference."""
        return f"<Step {self.action} {self.reference}>"

    @property
    def handles_failure(self) -> bool:
        """Whether it is carried out only if another resource has failed in the run (contract §10.8)."""
        return bool(self.entry.meta.on_failure)

    @property
    def asks_side_effects(self) -> bool:
        """Whether its provider is asked for the side effects of this step, as its type declares."""
        removes = self.action in {Action.DELETE, Action.REPLACE}
        return self.definition.asks_side_effects(self.is_, {"ensure": "absent"} if removes else self.should)

    @property
    def urn(self) -> str:
        """The resource's name across stacks; empty outside of a plan."""
        return self.context.urn(self.entry) if self.context is not None else ""

    def log_fields(self) -> Mapping[str, Any]:
        """Return the fields of a log event about the resource."""
        fields = {"reference": self.entry.reference_text, "action": self.action}
        return {**fields, "urn": self.urn} if self.context is not None else fields

    @property
    def depends_on(self) -> Sequence[Reference]:
        """References of the resources that directly precede it."""
        context = self.context
        return context.references(context.requires.get(self.entry.index, ())) if context is not None else ()

    @property
    def notifies(self) -> Sequence[Reference]:
        """References of the resources that are refreshed when this one changes."""
        context = self.context
        return context.references(context.notifies().get(self.entry.index, ())) if context is not None else ()

    @property
    def expressions(self) -> Values:
        """Attribute → value with expressions, as declared."""
        return self.entry.pending

    @property
    def sensitive(self) -> Sequence[str]:
        """The attributes with secret values, sorted."""
        return sorted(name for name, value in self.should.items() if is_secret(value))

    @property
    def options(self) -> StepOptionsJson:
        """The options that apply to this resource, as in the plan's JSON."""
        meta = self.entry.meta
        options: StepOptionsJson = {"noop": self.noop, "loglevel": meta.loglevel, "tags": sorted(meta.tags)}
        if meta.lifecycle.replace:
            options["replace"] = meta.lifecycle.replace
        if meta.retry is not None:
            options["retry"] = {"tries": meta.retry.tries, "delay": meta.retry.delay}
        return options

    @property
    def masked_is(self) -> Values | None:
        """The values that were read, with every secret wrapped: ``get`` returns them in clear. None: no resource."""
        if self.is_ is None:
            return None
        recorded = () if self.record is None else (self.record.should,)
        return mark_secrets(self.definition, self.is_, self.should, *recorded)

    @property
    def action(self) -> Action:
        """The action; ``refresh`` if nothing differs and a notification is pending."""
        if self.decision.action is Action.SAME and self.refreshed_by and not self.decision.error:
            return Action.REFRESH
        return self.decision.action

    @property
    def changes(self) -> Sequence[Difference]:
        """The differences to show: those that the decision has found, and all declared values of a new resource.

        For a replacement, which makes a new resource, declared values that the old one has already are left out.
        """
        changes = {change.attribute: change for change in self.decision.differences}
        action, should = self.action, self.should
        if action in CREATING:
            present = (self.masked_is or {}) if action is Action.REPLACE else {}
            for name in self.definition.managed:
                if name in should and name not in changes:
                    is_ = present.get(name)
                    if action is Action.CREATE or is_ != should[name]:
                        changes[name] = Difference(name, is_, should[name])
        return tuple(changes.values())

    @property
    def predictions(self) -> Sequence[Difference]:
        """The changes of undeclared attributes that the provider predicts in its ``plan``, as differences to show.

        A prediction that equals the present value, or is a difference already, is left out.
        """
        predicted = self.decision.predicted
        if not predicted:
            return ()
        former = {} if self.action is Action.CREATE else self.masked_is or {}
        marked = mark_secrets(self.definition, predicted, self.should)
        differing = {difference.attribute for difference in self.decision.differences}
        return [
            Difference(name, former.get(name), marked[name], "predicted")
            for name, value in predicted.items()
            if name not in differing and not same_value(former.get(name), value)
        ]

    @property
    def reasons(self) -> Sequence[str]:
        """The reasons of the action in the plan's JSON: those of the decision, an adoption and a deferral."""
        deferred = (f"{_DEFERRED}{self.deferred}",) if self.deferred else ()
        adopted = (ADOPTED,) if self.adopts else ()
        return (*self.decision.reasons, *adopted, *deferred)

    @property
    def adopts(self) -> bool:
        """Whether a run would record an existing resource for the first time: from then on managed, but not ours.

        A resource that an interrupted run may have created (its key is in ``unfinished``) counts as ours, and is not
        adopted. Only a step that leaves the resource unchanged or updates it adopts it.
        """
        entry, unfinished = self.entry, self.context.unfinished if self.context is not None else None
        if self.record is not None or unfinished is None or entry.key in unfinished:
            return False
        acts_on_it = self.decision.action in {Action.SAME, Action.UPDATE} and not self.decision.error
        may_be_recorded = entry.can_be_adopted and not entry.meta.noop
        return acts_on_it and may_be_recorded and exists(self.is_) and exists(self.should)

    @property
    def replaces_because(self) -> Sequence[str]:
        """Attributes whose change needs a replacement."""
        return self.decision.replaces_because

    @property
    def error(self) -> str:
        """The reason why it cannot be done; empty if it can."""
        return self.decision.error

    @property
    def acts(self) -> bool:
        """Whether it would change something: it is without error, and neither noop, read nor same."""
        if self.decision is SAME and not self.refreshed_by:
            return False
        return not (self.decision.error or self.noop or self.action in {Action.SAME, Action.READ})

    def is_noop(self, *, noop_run: bool) -> bool:
        """Return whether it changes nothing because of ``noop``; in a noop run only its own metaparameter counts."""
        return bool(self.entry.meta.noop) if noop_run else self.noop

    @property
    def definition(self) -> TypeDefinition:
        """The type of the resource."""
        return self.entry.definition

    @property
    def reference(self) -> Reference:
        """The user's name of the resource."""
        return self.entry.reference

    @property
    def name(self) -> Name:
        """The canonical name of the resource within its type."""
        return self.entry.name

    @property
    def create_first(self) -> bool:
        """Whether a replacement creates the new resource before it deletes the old one, as its ``lifecycle`` declares.

        Two resources of one name cannot exist side by side: this is false for a conditional replacement, and for that
        of a tainted resource whose name stays the same (contract §10.2).
        """
        if self.entry.meta.lifecycle.replace != "create_first" or self.decision.conditional:
            return False
        replacement = self.decision.replacement
        tainted = replacement is not None and replacement.reason is ReplacementReason.TAINTED
        return not (tainted and self.old_name == self.name)

    @property
    def old_name(self) -> Name:
        """The name of the resource to be removed, which differs from ``name`` if the namevars have changed."""
        return self.record.name if self.record is not None else self.entry.name


def split_reasons(reasons: Iterable[str]) -> tuple[list[str], str]:
    """Return the reasons of a step's decision, and the reason of its deferral or "", from the ``reasons`` in its JSON.

    ``Step.reasons`` has joined them, and a saved plan is shown as it was before. ``ADOPTED`` is left out: the text of a
    plan does not show it.
    """
    decision, deferral = list[str](), ""
    for reason in reasons:
        if reason.startswith(_DEFERRED):
            deferral = reason.removeprefix(_DEFERRED)
        elif reason != ADOPTED:
            decision.append(reason)
    return decision, deferral


class PolicyResource(NamedTuple):
    """One declared resource, checked and canonical; values are ``UNKNOWN`` until known, secrets are ``Sensitive``."""

    reference: str
    urn: str
    type: str
    title: str
    name: Name
    #: The reference of the component that declares it; empty if none does.
    parent: str
    tags: frozenset[str]
    should: Values
    protect: bool
    noop: bool


class PolicyStep(NamedTuple):
    """One step of a plan; ``is_`` None: the resource does not exist; ``changes``: the attributes that differ."""

    reference: str
    urn: str
    type: str
    title: str
    name: Name
    parent: str
    tags: frozenset[str]
    action: str
    is_: Values | None
    should: Values
    changes: Sequence[str]
    noop: bool
    #: Why the step cannot be done; empty if it can.
    error: str


class PolicyPlan(NamedTuple):
    """A whole plan in the order of execution; ``complete`` is false if it covers only a part of the manifest."""

    project: str
    stack: str
    steps: Sequence[PolicyStep]
    complete: bool


class Policy(NamedTuple):
    """One policy: its name, its file and its functions, of which either may be None.

    They return nothing, a string, a ``Problem``, or a list of these; a string is an error.
    """

    name: str
    file: str
    resource: Callable[[PolicyResource], Any] | None = None
    plan: Callable[[PolicyPlan], Any] | None = None
