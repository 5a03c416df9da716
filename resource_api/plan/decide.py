"""From the two states of one resource to what must be done with it; the same rules in plan and apply.

Pure. Order, references and what other resources do are not known here.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.change import Action, Difference, exists
from resource_api.model.provider_functions import Planned
from resource_api.model.step import SAME, Decision, DecisionInputs
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.text import show
from resource_api.model.values.values import UNKNOWN
from resource_api.plan.diff import ComparisonError, absence_differs, compare
from resource_api.plan.provider_plan import predict, predicted_values

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from resource_api.model.entry import Entry
    from resource_api.model.provider_functions import ProviderFunctions
    from resource_api.model.record import Record

#: The values of ``lifecycle.replace`` that allow it.
_LEAVE: Final = frozenset({"delete_first", "create_first"})


def decide(
    entry: Entry,
    is_: Mapping[str, Any] | None,
    should: Mapping[str, Any],
    tools: ProviderFunctions,
    known: DecisionInputs,
) -> Decision:
    """Compare what is with what should be; ``is_`` None means that the resource does not exist."""
    if known.orphan:
        return _ghost(entry, is_, known)
    if entry.meta.lifecycle.external:
        return Decision(Action.READ) if exists(is_) else Decision(Action.READ, error="does not exist, and is external")
    try:
        if is_ is None or not (exists(is_) or absence_differs(entry, is_, should, tools)):
            return _missing(entry, should, tools, known)
        if not exists(should):
            return _deletion(entry, is_, should, known)
        return _existing(entry, is_, should, tools, known)
    except ComparisonError as error:
        return Decision(Action.UPDATE, error=str(error))


def forgotten(entry: Entry, known: DecisionInputs) -> str:
    """Give why a orphan is only forgotten, whether it exists or not; empty when that is not known yet."""
    assert known.record is not None
    if known.orphan == "removed":
        return "listed under removed"
    if known.orphan == "met":
        return "it exists under the new configuration of its provider"
    if known.orphan == "pending":
        return "its replacement was cut, and nothing is left of it"
    if known.record.lifecycle.external:
        return "it is external"
    if not (known.record.owned or known.orphan == "replaced"):
        return "it was there before us"
    if not entry.definition.ensurable:
        return "resources of this type are configured, not deleted"
    if entry.meta.lifecycle.retain and not entry.meta.lifecycle.protect:
        return "retained"
    return ""


def _ghost(entry: Entry, is_: Mapping[str, Any] | None, known: DecisionInputs) -> Decision:
    """What is recorded and no longer declared: delete what is ours and may go, forget the rest."""
    if why := forgotten(entry, known):
        return _forget(why)
    if not exists(is_):
        return _forget("it is gone already")
    if entry.meta.lifecycle.protect:
        error = "is protected and would be deleted; declare it with lifecycle.protect: false first"
        return Decision(Action.DELETE, _gone(is_), error=error)
    why = "another has replaced it" if known.orphan == "replaced" else "no longer declared"
    return Decision(Action.DELETE, _gone(is_), reasons=(why,))


def _forget(why: str) -> Decision:
    return Decision(Action.FORGET, reasons=(why,))


def _gone(is_: Mapping[str, Any] | None) -> tuple[Difference]:
    return (Difference("ensure", (is_ or {}).get("ensure", "present"), "absent"),)


def protected(entry: Entry, record: Record | None) -> bool:
    """Whether a resource must not be deleted: recorded protection holds until the declaration says ``false``."""
    declared = entry.meta.lifecycle.protect
    return bool(record is not None and record.lifecycle.protect) if declared is None else declared


def _missing(entry: Entry, should: Mapping[str, Any], tools: ProviderFunctions, known: DecisionInputs) -> Decision:
    if entry.meta.lifecycle.import_ is not None and known.record is None:
        return Decision(Action.IMPORT, error="cannot be imported: it does not exist")
    if not entry.definition.ensurable:
        return Decision(Action.UPDATE, error="does not exist; resources of this type can be configured, not created")
    if "ensure" not in should or not exists(should):
        return SAME
    if known.predecessor is None:
        cut = known.record is not None and known.record.status == "pending"
        ensure = should["ensure"]
        made = create_decision if type(ensure) is str else create_decision.__wrapped__
        return _anew(entry, made(ensure, cut=cut), should, tools)
    names = _renamed(entry, known.predecessor)
    reasons = (known.forced,) if known.forced else ()
    renamed = Decision(Action.REPLACE, names, reasons, replaces_because=tuple(each.attribute for each in names))
    if protected(entry, known.predecessor):
        return renamed._replace(error="is protected and would be replaced")
    if entry.meta.lifecycle.replace == "never":
        return renamed._replace(error="would be replaced, and lifecycle.replace is never")
    return _anew(entry, renamed, should, tools)


@lru_cache
def create_decision(ensure: str, *, cut: bool) -> Decision:
    """Give the decision to make something: ten thousand resources share it."""
    made = (Difference("ensure", "absent", ensure),)
    return Decision(Action.CREATE, made, ("its replacement was cut, and the old one has gone",) if cut else ())


def _renamed(entry: Entry, record: Record) -> tuple[Difference, ...]:
    """Give the namevars in which a resource differs from the one that it replaces."""
    old, new = (each if isinstance(each, tuple) else (each,) for each in (record.name, entry.name))
    pairs = zip(entry.definition.namevars, old, new, strict=True)
    return tuple(Difference(name, before, after) for name, before, after in pairs if before != after)


def _deletion(entry: Entry, is_: Mapping[str, Any], should: Mapping[str, Any], known: DecisionInputs) -> Decision:
    if "ensure" in entry.meta.lifecycle.ignore_changes:
        return SAME
    change = (Difference("ensure", is_.get("ensure", "present"), should["ensure"]),)
    if protected(entry, known.record):
        error = "is protected and would be deleted; set lifecycle.protect to false first"
        return Decision(Action.DELETE, change, error=error)
    if entry.meta.lifecycle.retain:
        return SAME if known.record is None else _forget("retained")
    return Decision(Action.DELETE, change)


def effective_should(entry: Entry, is_: Mapping[str, Any] | None, should: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give what is asked of what exists and stays: what is to be ignored, or only read, is asked for as it is."""
    ignored: Collection[str] = should if entry.meta.lifecycle.external else entry.meta.lifecycle.ignore_changes
    if not ignored or is_ is None or not exists(is_):
        return should
    kept = {name: value for name, value in should.items() if name not in ignored}
    return {**kept, **{name: is_[name] for name in ignored if name in should and name in is_}}


def _existing(
    entry: Entry, is_: Mapping[str, Any], should: Mapping[str, Any], tools: ProviderFunctions, known: DecisionInputs
) -> Decision:
    lifecycle = entry.meta.lifecycle
    asked = effective_should(entry, is_, should) if lifecycle.ignore_changes else should
    found = compare(entry, is_, asked, tools, known)
    if not (found or known.forced or known.lost or lifecycle.import_ is not None):
        return SAME
    found = [difference for difference in found if difference.attribute not in lifecycle.ignore_changes]
    planned = predict(entry, is_, asked, tools) if found else Planned()
    because = _because(entry, found, planned, known)
    if known.lost and not because.attributes:
        because = _lost(entry, is_, asked, tools, known)
    if because.attributes or known.forced:
        decision = _replacement(entry, found, because, known)
        if planned.delete_first and lifecycle.replace == "create_first":
            return decision._replace(error="cannot be replaced create_first: its provider must delete first")
        return decision if decision.error else _anew(entry, decision, should, tools)
    expected = predicted_values(planned, asked)
    if lifecycle.import_ is not None and known.record is None:
        return Decision(Action.IMPORT, found, predicted=expected)
    if not found:
        return SAME
    partial = known.record is not None and known.record.status == "partial"
    return Decision(Action.UPDATE, found, ("a failed run has left it partial",) if partial else (), predicted=expected)


def _anew(entry: Entry, decision: Decision, should: Mapping[str, Any], tools: ProviderFunctions) -> Decision:
    """Add what a provider foresees of a resource that is made anew, told nothing of the one that was."""
    if tools.plan is None:
        return decision
    return decision._replace(predicted=predicted_values(predict(entry, None, should, tools), should))


class _Because(NamedTuple):
    """Why a resource would be replaced, by attribute."""

    #: What cannot be set on what exists, with the words for it: replacing for it needs leave.
    fixed: Mapping[str, str] = {}
    #: Attributes whose change is declared to replace (``replace_on_changes``): that is leave.
    wanted: Sequence[str] = ()
    #: Attributes for whose change the provider replaces: it has looked at both states, and says so itself.
    provided: Sequence[str] = ()

    @property
    def attributes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.fixed, *self.provided, *self.wanted)))


def _because(entry: Entry, found: Sequence[Difference], planned: Planned, known: DecisionInputs) -> _Because:
    """Sort out the differences that replace: the type's, the provider's, the manifest's.

    What is not known yet counts where replacing is allowed, and where its source goes before it is made again.
    """
    lifecycle, fixed, provided = entry.meta.lifecycle, {}, []
    for attribute, is_, should, _ in found:
        if should is UNKNOWN and attribute not in known.lost and lifecycle.replace not in _LEAVE:
            continue
        if entry.definition.attributes[attribute].kind != "init_only":
            provided += [attribute] if attribute in planned.replace else []
        elif should is UNKNOWN and attribute in known.lost:
            fixed[attribute] = f"'{attribute}' comes from {known.lost[attribute]}, which is replaced"
        else:
            fixed[attribute] = (
                f"'{attribute}' can only be set at creation: it is {show(is_)} and should be {show(should)}"
            )
    wanted = [each.attribute for each in found if each.attribute in lifecycle.replace_on_changes]
    return _Because(fixed, wanted, provided)


def _lost(
    entry: Entry, is_: Mapping[str, Any], asked: Mapping[str, Any], tools: ProviderFunctions, known: DecisionInputs
) -> _Because:
    """Find what replaces a resource when nothing is known of what goes before it is made again.

    While its source does not exist, a resource that was made from it cannot stay; one that can be set again can.
    """
    doubtful = {**asked, **dict.fromkeys(known.lost.keys() & asked.keys(), UNKNOWN)}
    ignored = entry.meta.lifecycle.ignore_changes
    found = [each for each in compare(entry, is_, doubtful, tools, known) if each.attribute not in ignored]
    return _because(entry, found, predict(entry, is_, doubtful, tools) if found else Planned(), known)


def _replacement(entry: Entry, found: Sequence[Difference], because: _Because, known: DecisionInputs) -> Decision:
    """Replace only what asks for it: a change that needs it, without ``lifecycle.replace``, is an error.

    Who wishes for a replacement has it, whatever else changes with it.
    """
    lifecycle, order = entry.meta.lifecycle, entry.meta.lifecycle.replace
    lost = [name for name in because.attributes if name in known.lost]
    wished = order is None and bool(known.forced or because.wanted)
    if because.fixed and order not in _LEAVE and not wished:
        hint = "lifecycle.replace is never" if order == "never" else "lifecycle.replace: delete_first would replace it"
        # Where its source would be replaced, that is not begun either.
        action = Action.REPLACE if lost else Action.UPDATE
        return Decision(action, found, error=f"{'; '.join(because.fixed.values())}; {hint}")
    forced = known.forced or _forced(because, known, lost)
    replacing = Decision(Action.REPLACE, found, (forced,) if forced else (), replaces_because=because.attributes)
    if order == "never":
        return replacing._replace(error=f"would be replaced ({forced}), and lifecycle.replace is never")
    if not entry.definition.ensurable:
        return replacing._replace(error="cannot be replaced: its type cannot delete and create it")
    if order == "create_first" and known.predecessor is None:
        why = "cannot be replaced create_first: the new one would have the same name as the old one"
        return replacing._replace(error=why)
    if protected(entry, known.record):
        return replacing._replace(error="is protected and would be replaced")
    if lifecycle.retain:
        return replacing._replace(error="is retained, and replacing it under its own name would delete it")
    return replacing


def _forced(because: _Because, known: DecisionInputs, lost: Sequence[str]) -> str:
    """Give the reason that a change of values alone does not show."""
    if lost:
        return f"{lost[0]} comes from {known.lost[lost[0]]}, which is replaced"
    if because.provided:
        return f"the provider replaces for {', '.join(because.provided)}"
    return f"{', '.join(because.wanted)} changed" if because.wanted else ""
