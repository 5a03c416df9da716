"""Decide what to do with one resource from its two states; the plan and the transaction use the same rules.

Pure. Whether one is replaced is decided in ``replacement``; order and references must not enter this module.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.action import Action
from resource_api.model.change import Difference, ensure_of, exists
from resource_api.model.provider_functions import Planned
from resource_api.model.step import SAME, Decision
from resource_api.plan.diff import ComparisonError, absence_differs, compare
from resource_api.plan.provider_plan import kept_attributes, predict, predicted_values, stable_values
from resource_api.plan.replacement import decide_replacement, possible_failure, replace_predecessor
from resource_api.prior.orphans import OrphanKind

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from resource_api.model.entry import Entry
    from resource_api.model.provider_functions import ProviderFunctions
    from resource_api.model.record import Record
    from resource_api.plan.decision_inputs import DecisionInputs

    Resource = Mapping[str, Any]

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
    if not entry.definition.ensurable:  # a package has made it, such as a service: no run creates one
        return "resources of this type are configured, not deleted"
    if not (inputs.record.owned or inputs.orphan is OrphanKind.SUPERSEDED):
        return "it was there before us"
    if entry.meta.lifecycle.retain and not entry.meta.lifecycle.protect:
        return "retained"
    return ""


def _decide_orphan(entry: Entry, is_: Resource | None, inputs: DecisionInputs) -> Decision:
    """Delete what is ours and may be deleted, forget the rest."""
    from resource_api.plan.protection import deletion_refusal

    if why := reason_to_forget(entry, inputs):
        return _forget(why)
    if not exists(is_):
        unconfirmed = inputs.record is not None and inputs.record.status == "unconfirmed"
        return _forget("its creation was not confirmed, and it does not exist" if unconfirmed else "it is gone already")
    differences = (Difference("ensure", ensure_of(is_), "absent"),)
    if error := deletion_refusal(entry, inputs.record, declared=False):
        return Decision(Action.DELETE, differences, error=error)
    if inputs.orphan is OrphanKind.SUPERSEDED:
        return Decision(Action.DELETE, differences, reasons=("another has replaced it",))
    return Decision(Action.DELETE, differences, reasons=() if inputs.destroyed else ("no longer declared",))


def _forget(why: str) -> Decision:
    return Decision(Action.FORGET, reasons=(why,))


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
        ensure = should["ensure"]
        create = create_decision if type(ensure) is str else create_decision.__wrapped__
        return _with_prediction(entry, create(ensure, _creation_reasons(inputs.record)), should, functions)
    decision = replace_predecessor(entry, inputs.predecessor, inputs.replacement)
    if decision.error:
        return decision
    return _with_prediction(entry, decision, should, functions)


@lru_cache
def create_decision(ensure: str, reasons: Sequence[str] = ()) -> Decision:
    """Return the decision to create a resource; cached, because ten thousand resources share it."""
    return Decision(Action.CREATE, (Difference("ensure", "absent", ensure),), reasons)


def _creation_reasons(record: Record | None) -> Sequence[str]:
    if record is not None and record.status == "pending":
        return ("its replacement was interrupted, and the old one is gone",)
    return left_by_earlier_run(record)


def _decide_deletion(entry: Entry, is_: Resource, should: Resource, inputs: DecisionInputs) -> Decision:
    from resource_api.plan.protection import deletion_refusal

    if "ensure" in entry.meta.lifecycle.ignore_changes:
        return SAME
    differences = (Difference("ensure", ensure_of(is_), should["ensure"]),)
    if error := deletion_refusal(entry, inputs.record):
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
        from resource_api.model.values.nested import parse_place, with_present

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
    if inputs.excluded:
        found = [each._replace(excluded=each.attribute in inputs.excluded) for each in found]
    partial = inputs.record is not None and inputs.record.status == "partial"
    if not (found or inputs.replacement or inputs.lost_sources or partial or lifecycle.import_ is not None):
        return SAME
    found = [difference for difference in found if difference.attribute not in lifecycle.ignore_changes]
    planned = predict(entry, is_, wanted, functions) if found else Planned()
    kept = kept_attributes(planned, is_, wanted) if planned.state else frozenset()
    found = [difference for difference in found if difference.attribute not in kept]
    replacement = decide_replacement(entry, is_, wanted, functions, inputs, found=found, planned=planned)
    if replacement is not None:
        if imports(entry, inputs.record):
            replacement = replacement._replace(reasons=(*replacement.reasons, "imported first"))
        final = replacement.error or replacement.conditional
        return replacement if final else _with_prediction(entry, replacement, should, functions)
    predicted = {**stable_values(entry.definition, is_), **predicted_values(planned, wanted)}
    if imports(entry, inputs.record):
        return Decision(Action.IMPORT, found, possible_failure(entry, found, planned), predicted=predicted, kept=kept)
    if not (found or partial):
        return Decision(Action.SAME, kept=kept) if kept else SAME
    reasons = (*left_by_earlier_run(inputs.record), *possible_failure(entry, found, planned))
    return Decision(Action.UPDATE, found, reasons, predicted=predicted, kept=kept)


def left_by_earlier_run(record: Record | None) -> Sequence[str]:
    """Return why a resource is not as an earlier run would have left it: its change failed half-way, or is not seen."""
    return (f"left {record.status}",) if record is not None and record.status in {"partial", "unconfirmed"} else ()


def _with_prediction(entry: Entry, decision: Decision, should: Resource, functions: ProviderFunctions) -> Decision:
    """Add what a provider predicts of a resource that is created."""
    if functions.plan is None:
        return decision
    return decision._replace(predicted=predicted_values(predict(entry, None, should, functions), should))
