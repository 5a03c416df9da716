"""What decides about a resource beside its two states: its record, and reasons to replace it.

Collected while planning, because the replacement of one resource can be the reason for that of another. Pure; whether
a resource may be replaced is decided in ``replacement``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from resource_api.catalog.targets import matching
from resource_api.model.action import Action
from resource_api.model.change import exists
from resource_api.model.step import Replacement, ReplacementReason
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.plan.replacement import cannot_outlive_source, host_of, trigger_entries
from resource_api.prior.orphans import OrphanKind

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from resource_api.catalog.compile import Catalog
    from resource_api.model.entry import Entry
    from resource_api.model.options import Options
    from resource_api.model.record import Record
    from resource_api.model.step import Step
    from resource_api.prior.match import Prior

_TRIGGERING = frozenset({Action.CREATE, Action.UPDATE, Action.REPLACE})


class DecisionInputs(NamedTuple):
    """The inputs of a decision beside the two states of the resource."""

    record: Record | None = None
    #: The record of the resource that a replacement deletes, if it has other namevars.
    predecessor: Record | None = None
    salt: bytes = b""
    #: A reason to replace the resource even if nothing differs.
    replacement: Replacement | None = None
    orphan: OrphanKind | None = None
    #: Whether all that is recorded goes, whether it is declared or not.
    destroyed: bool = False
    #: Attribute → reference of a resource that its value comes from and that is deleted before it is created again.
    lost_sources: Mapping[str, str] = {}
    #: The attributes of ``lost_sources`` of which it is not certain that the source is deleted.
    conditional_sources: Collection[str] = ()
    #: Whether it is not certain that ``replacement`` holds.
    conditional: bool = False
    #: Whether its replacement in this run has removed it.
    removed: bool = False
    #: The attributes whose values are not known yet and cannot become those that the resource has.
    excluded: Collection[str] = ()


class InputCollector:
    """Collects the inputs of each decision, in the order of planning."""

    def __init__(self, catalog: Catalog, prior: Prior, options: Options, selected: Collection[int] | None) -> None:
        """Find what ``--replace`` names. Raises ``UsageError`` if a pattern matches nothing."""
        self._catalog = catalog
        self._prior = prior
        self._noop, self._destroy = options.noop, options.destroy
        self._requested: set[int] = set()
        if options.replace:
            self._requested = matching(options.replace, catalog, "--replace", prior.undeclared)
        #: The references of resources of which an interrupted run has left the former one, which this run deletes.
        self._superseded = {
            str(prior.state.records[catalog.entries[index].key].reference)
            for index, kind in prior.orphans.items()
            if kind is OrphanKind.SUPERSEDED and (selected is None or index in selected)
        }
        #: The steps that replace a resource, by the index of their entry.
        self._replaced: dict[int, Step] = {}

    def add_replacement(self, step: Step) -> None:
        """Take account of a replacement that was planned: it may be a reason for later ones."""
        stays = step.entry.meta.lifecycle.retain or (step.noop and not self._noop)
        if not (step.decision.error or stays):
            self._replaced[step.entry.index] = step

    def inputs(self, entry: Entry, steps: Mapping[int, Step]) -> DecisionInputs:
        """Return the inputs for an entry; ``steps`` are those planned before it, by the index of their entry."""
        index, prior = entry.index, self._prior
        if (kind := prior.orphans.get(index)) is not None:
            record, salt = prior.state.records[entry.key], prior.state.salt
            return DecisionInputs(record, salt=salt, orphan=kind, destroyed=self._destroy)
        replacement = self._own_reason(entry)
        conditional = False
        if replacement is None:
            replacement, conditional = self._reason_elsewhere(entry, steps)
        lost, uncertain = self._lost_sources(entry) if self._replaced and entry.definition.ensurable else ({}, ())
        return DecisionInputs(
            prior.records.get(index),
            prior.predecessors.get(index),
            prior.state.salt,
            replacement,
            lost_sources=lost,
            conditional_sources=uncertain,
            conditional=conditional,
        )

    def _own_reason(self, entry: Entry) -> Replacement | None:
        """Return the reason for a replacement that does not depend on other resources."""
        if entry.index in self._requested:
            return Replacement(ReplacementReason.REQUESTED)
        record = self._prior.records.get(entry.index)
        if record is not None and record.status == "tainted":
            return Replacement(ReplacementReason.TAINTED)
        predecessor = self._prior.predecessors.get(entry.index)
        if predecessor is not None and (why := self._prior.instances.replaced.get(predecessor.instance)):
            return Replacement(ReplacementReason.PROVIDER_CONFIGURATION, (why,))
        return None

    def _reason_elsewhere(self, entry: Entry, steps: Mapping[int, Step]) -> tuple[Replacement | None, bool]:
        """Return the replacement for the sake of another resource, and whether it is conditional."""
        found = (steps[trigger.index] for trigger in trigger_entries(self._catalog, entry) if trigger.index in steps)
        triggers = [step for step in found if step.action in _TRIGGERING and self._is_carried_out(step)]
        if triggers:
            step = min(triggers, key=_may_change_nothing)
            return Replacement(ReplacementReason.TRIGGERED, (str(step.reference),)), _may_change_nothing(step)
        return self._replacement_with_host(entry)

    def _replacement_with_host(self, entry: Entry) -> tuple[Replacement | None, bool]:
        """Return the replacement of a resource that goes with its host, in this run or for an interrupted one."""
        name = entry.meta.lifecycle.deleted_with
        if not name or not (self._replaced or self._superseded) or not entry.definition.ensurable:
            return None, False
        host = host_of(self._catalog, entry)
        superseded = entry.index in self._prior.records and name in self._superseded
        if host is None or not (host.index in self._replaced or superseded):
            return None, False
        conditional = not superseded and self._replaced[host.index].decision.conditional
        return Replacement(ReplacementReason.HOST_REPLACED, (str(host.reference),)), conditional

    def _is_carried_out(self, step: Step) -> bool:
        """Return whether a step is carried out; in a noop run, whether a run without noop would do it."""
        return not (step.decision.error or step.is_noop(noop_run=self._noop))

    def _lost_sources(self, entry: Entry) -> tuple[dict[str, str], set[str]]:
        """Return attribute → the source that is deleted, and the attributes for which that is not certain."""
        found, conditional = {}, set()
        for name, sources in entry.sources.items():
            steps = [self._replaced[source.index] for source in sources if source.index in self._replaced]
            if lost := [step for step in steps if not step.create_first]:
                step = min(lost, key=lambda step: step.decision.conditional)
                found[name] = str(step.reference)
                if step.decision.conditional:
                    conditional.add(name)
        return found, conditional

    def untargeted_dependents(self, selected: Collection[int]) -> dict[int, str]:
        """Return replaced entry → a resource that is not ``selected`` and cannot stay while that one is away."""
        found = {}
        for entry in self._catalog.entries if self._replaced else ():
            record = self._prior.records.get(entry.index)
            if entry.index in selected or record is None or not exists(record.is_):
                continue
            for name, sources in entry.sources.items():
                for source in sources if cannot_outlive_source(entry, name) else ():
                    if (step := self._replaced.get(source.index)) is not None and not step.create_first:
                        found[source.index] = str(entry.reference)
        return found


def _may_change_nothing(step: Step) -> bool:
    """Return whether a step may find, at its turn, that nothing is to be done."""
    differences = step.decision.differences
    updates = step.action is Action.UPDATE and all(each.undecided for each in differences)
    return updates or step.decision.conditional or bool(step.deferred)
