"""Decide the action for each resource from its two states; the plan and the transaction use the same rules.

Thousands of plain resources, without metaparameters, references and any record but their own, are decided together,
with the same result. Pure.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from resource_api.model.action import Action
from resource_api.model.change import Difference, ensure_of, exists
from resource_api.model.entry import NO_META, Entry
from resource_api.model.record import NO_LIFECYCLE, OrphanKind, Record
from resource_api.model.step import SAME, Decision
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.text import quote_command, shell_word
from resource_api.model.values.values import parse_place, with_present
from resource_api.plan.diff import (
    ComparisonError,
    absence_differs,
    compare,
    equal_indexes,
    kept_attributes,
    planned_differences,
    predict,
    predicted_values,
    stable_values,
    tolerated_rules,
)
from resource_api.plan.replacement import decide_replacement, deletion_refusal, possible_failure, replace_predecessor

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from resource_api.catalog.compile import Catalog
    from resource_api.model.provider_functions import Planned, PlannerQueries, ProviderFunctions
    from resource_api.model.step import Replacement
    from resource_api.model.type_definition import TypeDefinition
    from resource_api.plan.diff import DecisionInputs, Resource
    from resource_api.prior.match import Prior


#: The reason to forget an orphan, by its kind.
_FORGOTTEN: Final = {
    OrphanKind.REMOVED: "listed under removed",
    OrphanKind.RECONFIGURED: "it exists under the new configuration of its provider",
    OrphanKind.INTERRUPTED: "its replacement was interrupted, and nothing is left of it",
}

#: Features of types whose resources are not decided in bulk: their providers decide whether there is something to do.
_DECIDED_SINGLY: Final = frozenset({"imperative", "plan"})


def decide(
    entry: Entry, is_: Resource | None, should: Resource, functions: ProviderFunctions, inputs: DecisionInputs
) -> Decision:
    """Return the decision about a resource; ``is_`` is None if it does not exist.

    ``inputs`` are facts from state, options and other steps. The failure of a provider's comparison or plan becomes the
    error of the decision, so that the plan still has all other resources.
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
    """Return the reason to forget an orphan, whether it exists or not; "" if the decision depends on its existence.

    A resource that existed before the first run is not deleted, except if a replacement has superseded it: the
    replacement includes its deletion. A resource with ``retain`` and ``protect`` is not forgotten: the caller reports
    the protection as an error, because nothing would protect a forgotten resource.
    """
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
    """Return the decision to delete or to forget an orphan: a resource that is recorded or purged, but not declared.

    An existing resource is deleted if ``purge`` names its type, or if ``reason_to_forget`` returns no reason against
    it; otherwise it is forgotten. The deletion of a protected resource is an error, as is that of a resource that an
    interrupted run may have created under an unknown id.
    """
    differences = (Difference("ensure", ensure_of(is_), "absent"),)
    if inputs.orphan is OrphanKind.PURGED:
        gone = not exists(is_)
        return _forget("it is gone already") if gone else Decision(Action.DELETE, differences, reasons=("purged",))
    if reason := reason_to_forget(entry, inputs):
        return _forget(reason)
    if not exists(is_) and inputs.in_doubt:
        return Decision(Action.DELETE, error=_in_doubt_error(entry, inputs))
    if not exists(is_):
        unconfirmed = inputs.record is not None and inputs.record.status == "unconfirmed"
        return _forget("its creation was not confirmed, and it does not exist" if unconfirmed else "it is gone already")
    if error := deletion_refusal(entry, inputs.record, declared=False):
        return Decision(Action.DELETE, differences, error=error)
    if inputs.orphan is OrphanKind.SUPERSEDED:
        return Decision(Action.DELETE, differences, reasons=("another has replaced it",))
    return Decision(Action.DELETE, differences, reasons=() if inputs.destroyed else ("no longer declared",))


def _in_doubt_error(entry: Entry, inputs: DecisionInputs) -> str:
    """Return the error for a resource that may exist under an id that no record has, with advice for both cases."""
    reference, options = shell_word(entry.reference), inputs.state_options
    return (
        "an interrupted run may have created it, and it cannot be found by its name:"
        f" {quote_command(f'resource-api import MANIFEST {reference} ID{options}')} takes it over;"
        f" if it was not created, {quote_command(f'resource-api state rm {reference}{options}')}"
    )


def _forget(reason: str) -> Decision:
    """Return the decision to drop a resource from state, which leaves the resource itself as it is."""
    return Decision(Action.FORGET, reasons=(reason,))


def is_imported(entry: Entry, record: Record | None) -> bool:
    """Return whether a resource will be imported: it declares ``lifecycle.import`` and is not recorded yet."""
    return entry.meta.lifecycle.import_ is not None and record is None


def _decide_missing(entry: Entry, should: Resource, functions: ProviderFunctions, inputs: DecisionInputs) -> Decision:
    """Decide about a resource that does not exist: create it, replace its predecessor, or leave it absent.

    The predecessor is the recorded resource of the same title under other namevars: it is deleted, and the new one is
    created. Errors come first: only an existing resource can be imported, or configured where its type cannot create
    it, and a resource that an interrupted run may have created must not be created twice.
    """
    if is_imported(entry, inputs.record) and not inputs.removed:
        return Decision(Action.IMPORT, error="cannot be imported: it does not exist")
    if not entry.definition.ensurable:
        return Decision(Action.UPDATE, error="does not exist; resources of this type can be configured, not created")
    if inputs.in_doubt:
        return Decision(Action.CREATE, error=_in_doubt_error(entry, inputs))
    if "ensure" not in should or not exists(should):
        return SAME
    if inputs.predecessor is None:
        ensure, interrupted = should["ensure"], inputs.record is not None and inputs.record.status == "pending"
        reasons = ("its replacement was interrupted, and the old one is gone",) if interrupted else ()
        # The cache needs a hashable argument; an unknown or secret value is none.
        create = create_decision if type(ensure) is str else create_decision.__wrapped__
        return _with_prediction(entry, create(ensure, reasons or repair_reasons(inputs.record)), should, functions)
    decision = replace_predecessor(entry, inputs.predecessor, inputs)
    if decision.error:
        return decision
    return _with_prediction(entry, decision, should, functions)


@lru_cache
def create_decision(ensure: str, reasons: Sequence[str] = ()) -> Decision:
    """Return the decision to create a resource with this ``ensure``; cached: ten thousand resources share one."""
    return Decision(Action.CREATE, (Difference("ensure", "absent", ensure),), reasons)


def _decide_deletion(entry: Entry, is_: Resource, should: Resource, inputs: DecisionInputs) -> Decision:
    """Decide about a resource that exists and is declared absent: delete it unless ignored, protected or retained.

    A retained resource stays on the machine: its record is dropped, so that later runs leave it alone.
    """
    if "ensure" in entry.meta.lifecycle.ignore_changes:
        return SAME
    differences = (Difference("ensure", ensure_of(is_), should["ensure"]),)
    if error := deletion_refusal(entry, inputs.record):
        return Decision(Action.DELETE, differences, error=error)
    if entry.meta.lifecycle.retain:
        return SAME if inputs.record is None else _forget("retained")
    return Decision(Action.DELETE, differences)


def effective_should(entry: Entry, is_: Resource | None, should: Resource, as_is: Collection[str] = ()) -> Resource:
    """Return ``should`` of an existing resource with the present values of attributes that a run must not change.

    Such attributes then never differ, and the report shows their true values. They are the attributes in
    ``ignore_changes``, the attributes ``as_is`` that the provider plans to leave unchanged, and every attribute of an
    ``external`` resource. A provider with a ``plan`` method gets the ignored attributes even if they are undeclared:
    otherwise it would plan to remove their values.
    """
    lifecycle = entry.meta.lifecycle
    ignored: Collection[str] = should if lifecycle.external else lifecycle.ignore_changes
    if as_is:
        ignored = {*ignored, *as_is}
    if not ignored or is_ is None or not exists(is_):
        return should
    values = {name: value for name, value in should.items() if name not in ignored}
    with_undeclared = "plan" in entry.definition.features and not lifecycle.external
    values |= {name: is_[name] for name in ignored if name in is_ and (with_undeclared or name in should)}
    # A key path such as ``body.region`` ignores a part of an attribute: only that part gets its present value.
    if key_paths := [name for name in ignored if name not in entry.definition.attributes]:
        for name, path in map(parse_place, key_paths):
            if name in values and name in is_:
                values[name] = with_present(values[name], is_[name], path)
    return values


def _decide_existing(
    entry: Entry, is_: Resource, should: Resource, functions: ProviderFunctions, inputs: DecisionInputs
) -> Decision:
    """Decide about a resource that exists and should exist: leave, update, import or replace it.

    A resource without differences is still acted upon if its replacement is requested or follows from that of another
    resource, if its import is declared, or if a run left it changed in part.
    """
    lifecycle = entry.meta.lifecycle
    expected = effective_should(entry, is_, should) if lifecycle.ignore_changes else should
    differences, planned, unaffected = _differences(entry, is_, expected, functions, inputs)
    same = Decision(Action.SAME, unaffected=unaffected) if unaffected else SAME
    partial = inputs.record is not None and inputs.record.status == "partial"
    # In most runs nearly all resources end here: nothing differs, and nothing else is a reason to act.
    if not (differences or inputs.replacement or inputs.lost_sources or partial or lifecycle.import_ is not None):
        return same
    differences = [difference for difference in differences if difference.attribute not in lifecycle.ignore_changes]
    imported = is_imported(entry, inputs.record)
    replacement = decide_replacement(entry, is_, expected, functions, inputs, differences=differences, planned=planned)
    if replacement is not None:
        if imported:
            replacement = replacement._replace(reasons=(*replacement.reasons, "imported first"))
        # The new resource's values are predicted only where it is certain that one is created.
        uncertain = replacement.error or replacement.conditional
        return replacement if uncertain else _with_prediction(entry, replacement, should, functions)
    if not (imported or differences or partial):
        return same
    return Decision(
        Action.IMPORT if imported else Action.UPDATE,
        differences,
        (*repair_reasons(inputs.record), *possible_failure(entry, differences, planned)),
        predicted={**stable_values(entry.definition, is_), **predicted_values(planned, expected)},
        unaffected=unaffected,
        tolerated=tolerated_rules(entry, planned, is_, expected),
    )


def _differences(
    entry: Entry, is_: Resource, expected: Resource, functions: ProviderFunctions, inputs: DecisionInputs
) -> tuple[Sequence[Difference], Planned, Collection[str]]:
    """Return the differences from the ``expected`` values, the provider's plan for them, and unaffected attributes.

    Unaffected attributes are declared differently, but the provider plans to leave them as they are: they are no reason
    for a change. Raise ``ComparisonError`` if the provider's comparison or plan fails.
    """
    differences = compare(entry, is_, expected, functions, inputs)
    planned = predict(entry, is_, expected, functions)
    if excluded := inputs.excluded:
        # The new values are not known yet, but they certainly differ: the plan shows a change, not a possible one.
        differences = [diff._replace(excluded=diff.attribute in excluded) for diff in differences]
    unaffected = kept_attributes(planned, is_, expected) if planned.state else frozenset()
    if planned.state or planned.changes:
        differences = planned_differences(entry, is_, expected, differences, planned)
    return differences, planned, unaffected


def repair_reasons(record: Record | None) -> Sequence[str]:
    """Return the reason to act on a resource that an earlier run changed in part or created unconfirmed, or ()."""
    return (f"left {record.status}",) if record is not None and record.status in {"partial", "unconfirmed"} else ()


def rerun_reasons(record: Record | None, replacement: Replacement | None) -> Sequence[str]:
    """Return the reasons to run an imperative resource that is not due: an unfinished run, a requested replacement."""
    return (*repair_reasons(record), *((str(replacement),) if replacement is not None else ()))


def _with_prediction(entry: Entry, decision: Decision, should: Resource, functions: ProviderFunctions) -> Decision:
    """Return the decision with the provider's predicted values of the new resource, for references to them."""
    if functions.plan is None:
        return decision
    planned = predict(entry, None, should, functions)
    tolerated = tolerated_rules(entry, planned, None, should)
    return decision._replace(predicted=predicted_values(planned, should), tolerated=tolerated)


class BulkDecisions(NamedTuple):
    """Decisions by the index of the entry, each with the row that was read."""

    decided: Mapping[int, tuple[Resource | None, Decision]] = {}
    #: The entries that are in sync and whose record would not change.
    in_sync: frozenset[int] = frozenset()


def decide_in_bulk(entries: Iterable[Entry], catalog: Catalog, prior: Prior, queries: PlannerQueries) -> BulkDecisions:
    """Return the decisions about plain ``entries`` that are in sync or missing; all other entries need ``decide``.

    A plain entry is decided by its two states alone. All resources of a type are compared at once, which takes less
    time than thousands of single decisions. An entry in sync whose record would not change either is also in
    ``in_sync``: the run writes nothing for it. An entry with a record of another title or parent was renamed, and needs
    ``decide``.
    """
    decided: dict[int, tuple[Resource | None, Decision]] = {}
    in_sync = set()
    if catalog.missing:
        entries = [entry for entry in entries if entry.instance not in catalog.missing]
    for plain in _plain_by_type(entries, prior, queries):
        for entry, row in _equal_pairs(plain.present, queries):
            record = prior.records.get(entry.index)
            if record is None:
                decided[entry.index] = row, SAME
            elif record.status == "ready" and (record.title, record.parent) == (entry.title, entry.parent):
                decided[entry.index] = row, SAME
                if _is_recorded(record, entry, row, catalog):
                    in_sync.add(entry.index)
        # An instance that is configured late may not have been read yet: a missing row does not mean absent then.
        if plain.absent and plain.absent[0][0].instance not in catalog.instances:
            for entry, absent_row in plain.absent:
                ensure = entry.should.get("ensure")
                if type(ensure) is str and _is_new(entry, prior):
                    decided[entry.index] = absent_row, create_decision(ensure)
    # The intents of an interrupted run are resolved only for resources that the run visits.
    return BulkDecisions(decided, frozenset() if prior.state.intents else frozenset(in_sync))


class _PlainEntries(NamedTuple):
    """The plain entries of one type that exist, and those that do not, each with its row.

    For a plain entry nothing but its two states matters: it has no metaparameters, references, predecessor or error,
    and its type has no write-only attribute.
    """

    present: list[tuple[Entry, Resource]]
    absent: list[tuple[Entry, Resource | None]]


def _plain_by_type(entries: Iterable[Entry], prior: Prior, queries: PlannerQueries) -> Iterator[_PlainEntries]:
    """Yield the plain entries of each type: those that exist and those that do not, with their rows.

    An entry with metaparameters, references, a predecessor or an error is not plain, nor one declared absent or not
    read: ``decide`` has to look at more than its two states. Types with write-only attributes, and those whose provider
    decides whether there is something to do, are left out.
    """
    groups: dict[TypeDefinition, _PlainEntries] = {}
    excluded = prior.errors.keys() | prior.predecessors.keys()
    for entry in entries:
        if entry.meta is not NO_META or entry.pending or entry.sources or entry.index in excluded:
            continue
        row, failure = queries.observation(entry)
        if failure or not exists(entry.should):
            continue
        group = groups.get(entry.definition)
        if group is None:
            group = groups[entry.definition] = _PlainEntries([], [])
        if row is not None and exists(row):
            group.present.append((entry, row))
        elif entry.definition.ensurable:
            group.absent.append((entry, row))
    for definition, group in groups.items():
        if not definition.write_only and _DECIDED_SINGLY.isdisjoint(definition.features):
            yield group


def _equal_pairs(pairs: Sequence[tuple[Entry, Resource]], queries: PlannerQueries) -> Iterator[tuple[Entry, Resource]]:
    """Yield the ``pairs`` (entry, row) of one type that are certainly in sync."""
    if pairs:
        yield from map(pairs.__getitem__, equal_indexes(pairs, queries.functions(pairs[0][0].instance)))


def _is_new(entry: Entry, prior: Prior) -> bool:
    """Return whether no earlier run has recorded or, interrupted, may have created a resource."""
    in_doubt = entry.definition.identity is not None and entry.key in prior.state.intents
    return entry.index not in prior.records and not in_doubt


def _is_recorded(record: Record, entry: Entry, row: Resource, catalog: Catalog) -> bool:
    """Return whether recording the resource again would change nothing, so that the run need not write it.

    A plain entry has no references in values, no lifecycle options and no configured provider: its record, which may be
    from an earlier declaration, must have none either.
    """
    return (
        record.is_ is not None
        and (record.is_ == row or record.is_.items() <= row.items())
        and record.should == entry.should
        and record.inputs == entry.inputs
        and record.schema_version == entry.definition.schema_version
        and not record.value_requires
        and record.lifecycle == NO_LIFECYCLE
        and record.provider is None
        and list(record.requires) == required_references(catalog, entry)
    )


def required_references(catalog: Catalog, entry: Entry) -> list[str]:
    """Return the references that an entry directly requires; recorded, they later give the order of its deletion."""
    before = catalog.requires.get(entry.index)
    return [catalog.entries[index].reference_text for index in before] if before else []
