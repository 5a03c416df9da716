"""Decide what to do with one resource from its two states; the plan and the transaction use the same rules.

Pure. Order, references and the decisions about other resources must not enter this module.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.change import Action, Difference, exists
from resource_api.model.provider_functions import Planned
from resource_api.model.step import SAME, Decision, Replacement, ReplacementReason
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.text import show
from resource_api.model.values.values import UNKNOWN, is_undecided, is_unknown
from resource_api.plan.diff import ComparisonError, absence_differs, compare
from resource_api.plan.provider_plan import kept_attributes, predict, predicted_values, stable_values
from resource_api.prior.orphans import OrphanKind

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from resource_api.model.entry import Entry
    from resource_api.model.provider_functions import ProviderFunctions
    from resource_api.model.record import Record
    from resource_api.plan.decision_inputs import DecisionInputs

    Resource = Mapping[str, Any]

#: The values of ``lifecycle.replace`` that allow it.
_ALLOWING: Final = frozenset({"delete_first", "create_first"})

#: Why an orphan is only forgotten, by its kind.
_FORGOTTEN: Final = {
    OrphanKind.REMOVED: "listed under removed",
    OrphanKind.RECONFIGURED: "it exists under the new configuration of its provider",
    OrphanKind.INTERRUPTED: "its replacement was interrupted, and nothing is left of it",
}


def decide(
    entry: Entry, is_: Resource | None, should: Resource, functions: ProviderFunctions, inputs: DecisionInputs
) -> Decision:
    """Return what to do with a resource; ``is_`` None: it does not exist.

    A provider's comparison or plan that fails becomes the error of the decision.
    """
    if inputs.orphan is not None:
        return _decide_orphan(entry, is_, inputs)
    if entry.meta.lifecycle.external:
        return Decision(Action.READ) if exists(is_) else Decision(Action.READ, error="does not exist, and is external")
    try:
        if is_ is None or not (exists(is_) or absence_differs(entry, is_, should, functions)):
            return _decide_missing(entry, should, functions, inputs)
        if not exists(should):
            return _decide_deletion(entry, is_, should, inputs)
        return _decide_existing(entry, is_, should, functions, inputs)
    except ComparisonError as error:
        return Decision(Action.UPDATE if exists(is_) else Action.CREATE, error=str(error))


def reason_to_forget(entry: Entry, inputs: DecisionInputs) -> str:
    """Return why an orphan is forgotten without being read; empty if that depends on whether it exists."""
    assert inputs.record is not None
    assert inputs.orphan is not None
    if inputs.orphan in _FORGOTTEN:
        return _FORGOTTEN[inputs.orphan]
    if inputs.record.lifecycle.external:
        return "it is external"
    if not (inputs.record.owned or inputs.orphan is OrphanKind.SUPERSEDED):
        return "it was there before us"
    if not entry.definition.ensurable:
        return "resources of this type are configured, not deleted"
    if entry.meta.lifecycle.retain and not entry.meta.lifecycle.protect:
        return "retained"
    return ""


def _decide_orphan(entry: Entry, is_: Resource | None, inputs: DecisionInputs) -> Decision:
    """Delete what is ours and may be deleted, forget the rest."""
    if why := reason_to_forget(entry, inputs):
        return _forget(why)
    if not exists(is_):
        return _forget("it is gone already")
    differences = (Difference("ensure", (is_ or {}).get("ensure", "present"), "absent"),)
    if entry.meta.lifecycle.protect:
        error = "is protected and would be deleted; declare it with lifecycle.protect: false first"
        return Decision(Action.DELETE, differences, error=error)
    why = "another has replaced it" if inputs.orphan is OrphanKind.SUPERSEDED else "no longer declared"
    return Decision(Action.DELETE, differences, reasons=(why,))


def _forget(why: str) -> Decision:
    return Decision(Action.FORGET, reasons=(why,))


def protected(entry: Entry, record: Record | None) -> bool:
    """Return whether a resource must not be deleted: recorded protection holds until the declaration says ``false``."""
    declared = entry.meta.lifecycle.protect
    return bool(record is not None and record.lifecycle.protect) if declared is None else declared


def imports(entry: Entry, record: Record | None) -> bool:
    """Return whether a resource is to be imported: it is declared so and not recorded yet."""
    return entry.meta.lifecycle.import_ is not None and record is None


def _decide_missing(entry: Entry, should: Resource, functions: ProviderFunctions, inputs: DecisionInputs) -> Decision:
    if imports(entry, inputs.record) and not inputs.removed:
        return Decision(Action.IMPORT, error="cannot be imported: it does not exist")
    if not entry.definition.ensurable:
        return Decision(Action.UPDATE, error="does not exist; resources of this type can be configured, not created")
    if "ensure" not in should or not exists(should):
        return SAME
    if inputs.predecessor is None:
        interrupted = inputs.record is not None and inputs.record.status == "pending"
        ensure = should["ensure"]
        create = create_decision if type(ensure) is str else create_decision.__wrapped__
        return _with_prediction(entry, create(ensure, interrupted=interrupted), should, functions)
    differences = _namevar_differences(entry, inputs.predecessor)
    attributes = tuple(difference.attribute for difference in differences)
    decision = _replace(differences, attributes, inputs.replacement)
    if protected(entry, inputs.predecessor):
        return decision._replace(error="is protected and would be replaced")
    if entry.meta.lifecycle.replace == "never":
        return decision._replace(error="would be replaced, and lifecycle.replace is never")
    return _with_prediction(entry, decision, should, functions)


@lru_cache
def create_decision(ensure: str, *, interrupted: bool) -> Decision:
    """Return the decision to create a resource; cached, because ten thousand resources share it.

    ``interrupted``: a replacement was interrupted after it had deleted the old resource.
    """
    difference = (Difference("ensure", "absent", ensure),)
    return Decision(
        Action.CREATE, difference, ("its replacement was interrupted, and the old one is gone",) if interrupted else ()
    )


def _namevar_differences(entry: Entry, record: Record) -> tuple[Difference, ...]:
    old, new = (each if isinstance(each, tuple) else (each,) for each in (record.name, entry.name))
    pairs = zip(entry.definition.namevars, old, new, strict=True)
    return tuple(Difference(name, before, after) for name, before, after in pairs if before != after)


def _decide_deletion(entry: Entry, is_: Resource, should: Resource, inputs: DecisionInputs) -> Decision:
    if "ensure" in entry.meta.lifecycle.ignore_changes:
        return SAME
    differences = (Difference("ensure", is_.get("ensure", "present"), should["ensure"]),)
    if protected(entry, inputs.record):
        error = "is protected and would be deleted; set lifecycle.protect to false first"
        return Decision(Action.DELETE, differences, error=error)
    if entry.meta.lifecycle.retain:
        return SAME if inputs.record is None else _forget("retained")
    return Decision(Action.DELETE, differences)


def effective_should(entry: Entry, is_: Resource | None, should: Resource, kept: Collection[str] = ()) -> Resource:
    """Return ``should`` for a resource that exists and stays: attributes in ``ignore_changes`` have the present value.

    So have those that its provider has ``kept``, and all of an ``external`` resource, which is only read.
    """
    lifecycle = entry.meta.lifecycle
    ignored: Collection[str] = should if lifecycle.external else lifecycle.ignore_changes
    if kept:
        ignored = {*ignored, *kept}
    if not ignored or is_ is None or not exists(is_):
        return should
    kept = {name: value for name, value in should.items() if name not in ignored}
    kept |= {name: is_[name] for name in ignored if name in should and name in is_}
    if places := [name for name in ignored if name not in entry.definition.attributes]:
        from resource_api.model.values.nested import parse_place, with_present  # noqa: PLC0415 - only for parts

        for name, path in map(parse_place, places):
            if name in kept and name in is_:
                kept[name] = with_present(kept[name], is_[name], path)
    return kept


def _decide_existing(
    entry: Entry, is_: Resource, should: Resource, functions: ProviderFunctions, inputs: DecisionInputs
) -> Decision:
    lifecycle = entry.meta.lifecycle
    wanted = effective_should(entry, is_, should) if lifecycle.ignore_changes else should
    found = compare(entry, is_, wanted, functions, inputs)
    if not (found or inputs.replacement or inputs.lost_sources or lifecycle.import_ is not None):
        return SAME
    found = [difference for difference in found if difference.attribute not in lifecycle.ignore_changes]
    planned = predict(entry, is_, wanted, functions) if found else Planned()
    kept = kept_attributes(planned, is_, wanted) if planned.state else frozenset()
    found = [difference for difference in found if difference.attribute not in kept]
    replacing = _replacing_attributes(entry, found, planned, inputs)
    if inputs.lost_sources and not replacing.certain:
        replacing = _replacing_without_sources(entry, is_, wanted, functions, inputs)
    if replacing.all or inputs.replacement:
        decision = _decide_replacement(entry, found, replacing, inputs)
        if planned.delete_first and lifecycle.replace == "create_first":
            decision = decision._replace(error="cannot be replaced create_first: its provider must delete first")
        if not (replacing.certain or (inputs.replacement and not inputs.conditional)):
            decision = _conditional(decision, found, replacing, inputs)
        if imports(entry, inputs.record):
            decision = decision._replace(reasons=(*decision.reasons, "imported first"))
        final = decision.error or decision.conditional
        return decision if final else _with_prediction(entry, decision, should, functions)
    predicted = {**stable_values(entry.definition, is_), **predicted_values(planned, wanted)}
    if imports(entry, inputs.record):
        return Decision(Action.IMPORT, found, predicted=predicted, kept=kept)
    if not found:
        return Decision(Action.SAME, kept=kept) if kept else SAME
    partial = inputs.record is not None and inputs.record.status == "partial"
    reasons = ("a failed run has left it partial",) if partial else ()
    return Decision(Action.UPDATE, found, reasons, predicted=predicted, kept=kept)


def _with_prediction(entry: Entry, decision: Decision, should: Resource, functions: ProviderFunctions) -> Decision:
    """Add what a provider predicts of a resource that is created."""
    if functions.plan is None:
        return decision
    return decision._replace(predicted=predicted_values(predict(entry, None, should, functions), should))


class _ReplacingAttributes(NamedTuple):
    """The attributes whose change replaces the resource, by the origin of that rule."""

    #: The type: they can only be set at creation. With the text of the error if replacing is not allowed.
    fixed: Mapping[str, str] = {}
    #: The manifest (``replace_on_changes``), which also allows it.
    declared: Sequence[str] = ()
    #: The provider's ``plan``.
    provided: Sequence[str] = ()
    #: Whether one of them differs for certain, or certainly has to be set anew.
    certain: bool = False

    @property
    def all(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.fixed, *self.provided, *self.declared)))


def _replacing_attributes(
    entry: Entry, found: Sequence[Difference], planned: Planned, inputs: DecisionInputs
) -> _ReplacingAttributes:
    """Return which of the differences replace the resource.

    A value that is not yet known counts only if replacing is allowed or its source is deleted first.
    """
    lifecycle, fixed, provided = entry.meta.lifecycle, {}, []
    for attribute, is_, should, _ in found:
        source = inputs.lost_sources.get(attribute) if is_unknown(should) else None
        if is_undecided(is_, should) and source is None and lifecycle.replace not in _ALLOWING:
            continue
        if entry.definition.attributes[attribute].kind != "init_only":
            provided += [attribute] if attribute in planned.replace else []
        elif source is not None:
            fixed[attribute] = f"'{attribute}' comes from {source}, which is replaced"
        else:
            fixed[attribute] = (
                f"'{attribute}' can only be set at creation: it is {show(is_)} and should be {show(should)}"
            )
    declared = [each.attribute for each in found if each.attribute in lifecycle.replace_on_changes]
    lost = inputs.lost_sources.keys() - set(inputs.conditional_sources)
    sure = {each.attribute for each in found if not is_undecided(each.is_, each.should) or each.attribute in lost}
    certain = not sure.isdisjoint((*fixed, *declared, *provided))
    return _ReplacingAttributes(fixed, declared, provided, certain)


def _replacing_without_sources(
    entry: Entry, is_: Resource, wanted: Resource, functions: ProviderFunctions, inputs: DecisionInputs
) -> _ReplacingAttributes:
    """Return what replaces a resource if values from deleted sources are taken as unknown.

    While its source does not exist, a resource that was created from it cannot stay; one that can be updated stays.
    """
    unknown = {**wanted, **dict.fromkeys(inputs.lost_sources.keys() & wanted.keys(), UNKNOWN)}
    ignored = entry.meta.lifecycle.ignore_changes
    found = [each for each in compare(entry, is_, unknown, functions, inputs) if each.attribute not in ignored]
    planned = predict(entry, is_, unknown, functions) if found else Planned()
    return _replacing_attributes(entry, found, planned, inputs)


def _decide_replacement(
    entry: Entry, found: Sequence[Difference], replacing: _ReplacingAttributes, inputs: DecisionInputs
) -> Decision:
    """Replace if the manifest allows it, with ``lifecycle.replace`` or by requesting it; otherwise fail."""
    lifecycle, order = entry.meta.lifecycle, entry.meta.lifecycle.replace
    lost = [name for name in replacing.all if name in inputs.lost_sources]
    requested = order is None and bool(inputs.replacement or replacing.declared)
    if replacing.fixed and order not in _ALLOWING and not requested:
        hint = "lifecycle.replace is never" if order == "never" else "lifecycle.replace: delete_first would replace it"
        # With a lost source this step would be a replacement, so that the replacement of the source is not begun.
        action = Action.REPLACE if lost else Action.UPDATE
        return Decision(action, found, error=f"{'; '.join(replacing.fixed.values())}; {hint}")
    replacement = inputs.replacement or _implied_replacement(replacing, inputs, lost)
    decision = _replace(found, replacing.all, replacement)
    if order == "never":
        return decision._replace(error=f"would be replaced ({replacement or ''}), and lifecycle.replace is never")
    if not entry.definition.ensurable:
        return decision._replace(error="cannot be replaced: its type cannot delete and create it")
    if order == "create_first" and inputs.predecessor is None:
        why = "cannot be replaced create_first: the new one would have the same name as the old one"
        return decision._replace(error=why)
    if protected(entry, inputs.record):
        return decision._replace(error="is protected and would be replaced")
    if lifecycle.retain:
        return decision._replace(error="is retained, and replacing it under its own name would delete it")
    return decision


def _conditional(
    decision: Decision, found: Sequence[Difference], replacing: _ReplacingAttributes, inputs: DecisionInputs
) -> Decision:
    """Return a replacement that is carried out only if it turns out to be needed; what forbids it counts only then."""
    conditions = []
    if inputs.replacement is not None:
        verb = "changes" if inputs.replacement.reason is ReplacementReason.TRIGGERED else "is replaced"
        conditions.append(f"{inputs.replacement.names[0]} {verb}")
    lost = {inputs.lost_sources[name]: None for name in replacing.all if name in inputs.lost_sources}
    conditions += [f"{source} is replaced" for source in lost]
    if unknown := [name for name in replacing.all if name not in inputs.lost_sources]:
        conditions.append(f"{', '.join(unknown)} changes")
    reasons = [f"only if {' or '.join(conditions)}"]
    if decision.error:
        reasons.append(f"fails then: {decision.error}")
    return _replace(found, replacing.all, inputs.replacement)._replace(
        reasons=tuple(reasons), conditional=True, forbidden=decision.error
    )


def _replace(found: Sequence[Difference], attributes: tuple[str, ...], replacement: Replacement | None) -> Decision:
    reasons = (str(replacement),) if replacement is not None else ()
    return Decision(Action.REPLACE, found, reasons, replaces_because=attributes, replacement=replacement)


def _implied_replacement(
    replacing: _ReplacingAttributes, inputs: DecisionInputs, lost: Sequence[str]
) -> Replacement | None:
    """Return the reason that the differences alone do not show."""
    if lost:
        return Replacement(ReplacementReason.SOURCE_REPLACED, (lost[0], inputs.lost_sources[lost[0]]))
    if replacing.provided:
        return Replacement(ReplacementReason.PROVIDER_PLAN, (", ".join(replacing.provided),))
    if replacing.declared:
        return Replacement(ReplacementReason.ATTRIBUTE_CHANGED, (", ".join(replacing.declared),))
    return None
