"""From the two states of one resource to what must be done with it; the same rules in plan and apply.

Pure. Order, references and what other resources do are not known here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.nouns.change import Action, Difference, exists
from resource_api.nouns.step import SAME, Decision, Known
from resource_api.nouns.text import show
from resource_api.nouns.tools import Planned
from resource_api.nouns.values import UNKNOWN
from resource_api.stages.comparison import Incomparable, compare, leftover
from resource_api.stages.prediction import foreseen, predict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.nouns.entry import Entry
    from resource_api.nouns.record import Record
    from resource_api.nouns.tools import Tools


def decide(
    entry: Entry, is_: Mapping[str, Any] | None, should: Mapping[str, Any], tools: Tools, known: Known
) -> Decision:
    """Compare what is with what should be; ``is_`` None means that the resource does not exist."""
    if known.ghost:
        return _ghost(entry, is_, known)
    if entry.meta.lifecycle.external:
        return Decision(Action.READ) if exists(is_) else Decision(Action.READ, error="does not exist, and is external")
    try:
        if is_ is None or not (exists(is_) or leftover(entry, is_, should, tools)):
            return _missing(entry, should, tools, known)
        if not exists(should):
            return _deletion(entry, is_, should, known)
        return _existing(entry, is_, should, tools, known)
    except Incomparable as error:
        return Decision(Action.UPDATE, error=str(error))


def forgotten(entry: Entry, known: Known) -> str:
    """Give why a ghost is only forgotten, whether it exists or not; empty when that is not known yet."""
    assert known.record is not None
    if known.ghost == "removed":
        return "listed under removed"
    if not (known.record.owned or known.ghost == "replaced"):
        return "it was there before us"
    if not entry.definition.ensurable:
        return "resources of this type are configured, not deleted"
    if entry.meta.lifecycle.retain and not entry.meta.lifecycle.protect:
        return "retained"
    return ""


def _ghost(entry: Entry, is_: Mapping[str, Any] | None, known: Known) -> Decision:
    """What is recorded and no longer declared: delete what is ours and may go, forget the rest."""
    if why := forgotten(entry, known):
        return _forget(why)
    if not exists(is_):
        return _forget("it is gone already")
    if entry.meta.lifecycle.protect:
        error = "is protected and would be deleted; declare it with lifecycle.protect: false first"
        return Decision(Action.DELETE, _gone(is_), error=error)
    why = "another has replaced it" if known.ghost == "replaced" else "no longer declared"
    return Decision(Action.DELETE, _gone(is_), reasons=(why,))


def _forget(why: str) -> Decision:
    return Decision(Action.FORGET, reasons=(why,))


def _gone(is_: Mapping[str, Any] | None) -> tuple[Difference]:
    return (Difference("ensure", (is_ or {}).get("ensure", "present"), "absent"),)


def protected(entry: Entry, record: Record | None) -> bool:
    """Whether a resource must not be deleted: recorded protection holds until the declaration says ``false``."""
    declared = entry.meta.lifecycle.protect
    return bool(record is not None and record.protect) if declared is None else declared


def _missing(entry: Entry, should: Mapping[str, Any], tools: Tools, known: Known) -> Decision:
    if entry.meta.lifecycle.import_ is not None and known.record is None:
        return Decision(Action.IMPORT, error="cannot be imported: it does not exist")
    if not entry.definition.ensurable:
        return Decision(Action.UPDATE, error="does not exist; resources of this type can be configured, not created")
    if "ensure" not in should or not exists(should):
        return SAME
    made = (Difference("ensure", "absent", should["ensure"]),)
    if known.successor_of is None:
        return _anew(entry, Decision(Action.CREATE, made), should, tools)
    if protected(entry, known.successor_of):
        return Decision(Action.REPLACE, made, error="is protected and would be replaced")
    return _anew(entry, Decision(Action.REPLACE, made, replaces_because=entry.definition.namevars), should, tools)


def _deletion(entry: Entry, is_: Mapping[str, Any], should: Mapping[str, Any], known: Known) -> Decision:
    change = (Difference("ensure", is_.get("ensure", "present"), should["ensure"]),)
    if protected(entry, known.record):
        error = "is protected and would be deleted; set lifecycle.protect to false first"
        return Decision(Action.DELETE, change, error=error)
    if entry.meta.lifecycle.retain:
        return _forget("retained")
    return Decision(Action.DELETE, change)


def _existing(entry: Entry, is_: Mapping[str, Any], should: Mapping[str, Any], tools: Tools, known: Known) -> Decision:
    lifecycle = entry.meta.lifecycle
    found = compare(entry, is_, should, tools, known)
    if not found and not known.forced and lifecycle.import_ is None:
        return SAME
    found = [difference for difference in found if difference.attribute not in lifecycle.ignore_changes]
    wanted = [difference.attribute for difference in found if difference.attribute in lifecycle.replace_on_changes]
    fixed = [difference for difference in found if _fixed(entry, difference)]
    forced = known.forced or (f"{', '.join(wanted)} changed" if wanted else "")
    planned = predict(entry, is_, should, tools) if found else Planned()
    if wished := [each.attribute for each in found if each.attribute in planned.replace]:
        forced = forced or f"the provider replaces for {', '.join(wished)}"
    if fixed or forced:
        decision = _replacement(entry, found, fixed, forced, known)
        if planned.delete_first and lifecycle.replace == "create_first":
            return decision._replace(error="cannot be replaced create_first: its provider must delete first")
        return decision if decision.error else _anew(entry, decision, should, tools)
    expected = foreseen(planned, should)
    imported = lifecycle.import_ is not None and known.record is None
    if imported:
        return Decision(Action.IMPORT, found, foreseen=expected)
    return Decision(Action.UPDATE, found, foreseen=expected) if found else SAME


def _anew(entry: Entry, decision: Decision, should: Mapping[str, Any], tools: Tools) -> Decision:
    """Add what a provider foresees of a resource that is made anew."""
    if tools.plan is None:
        return decision
    return decision._replace(foreseen=foreseen(predict(entry, None, should, tools), should))


def _fixed(entry: Entry, difference: Difference) -> bool:
    """Whether a difference cannot be set on what exists; what is unknown counts where replacing is allowed."""
    if entry.definition.attributes[difference.attribute].kind != "init_only":
        return False
    return difference.should is not UNKNOWN or entry.meta.lifecycle.replace in {"delete_first", "create_first"}


def _replacement(
    entry: Entry, found: Sequence[Difference], fixed: Sequence[Difference], forced: str, known: Known
) -> Decision:
    """Replace only what asks for it: an ``init_only`` change without ``lifecycle.replace`` is an error."""
    order = entry.meta.lifecycle.replace
    because = tuple(difference.attribute for difference in fixed)
    if fixed and order not in {"delete_first", "create_first"}:
        changed = "; ".join(
            f"'{d.attribute}' can only be set at creation: it is {show(d.is_)} and should be {show(d.should)}"
            for d in fixed
        )
        hint = "lifecycle.replace is never" if order == "never" else "lifecycle.replace: delete_first would replace it"
        return Decision(Action.UPDATE, found, error=f"{changed}; {hint}")
    reasons = (forced,) if forced else ()
    if order == "never":
        return Decision(Action.REPLACE, found, reasons, f"would be replaced ({forced}), and lifecycle.replace is never")
    if not entry.definition.ensurable:
        return Decision(Action.REPLACE, found, reasons, "cannot be replaced: its type cannot delete and create it")
    if order == "create_first" and known.successor_of is None:
        why = "cannot be replaced create_first: the new one would have the same name as the old one"
        return Decision(Action.REPLACE, found, reasons, why, because)
    if protected(entry, known.record):
        return Decision(Action.REPLACE, found, reasons, "is protected and would be replaced", because)
    if entry.meta.lifecycle.retain:
        why = "is retained, and replacing it under its own name would delete it"
        return Decision(Action.REPLACE, found, reasons, why, because)
    return Decision(Action.REPLACE, found, reasons, replaces_because=because)
