"""Why a resource would be replaced although nothing of it differs: asked for, tainted, or for another's sake.

That is, another triggers it, takes it along, or is what it was made from and goes before it is made again. Pure;
whether it may be replaced is decided in ``decision``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from resource_api.catalog.targets import matching
from resource_api.model.change import Action, exists
from resource_api.model.step import DecisionInputs
from resource_api.model.values import reference

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from resource_api.catalog.compile import Catalog
    from resource_api.model.entry import Entry
    from resource_api.model.options import Options
    from resource_api.model.step import Step
    from resource_api.prior.match import Prior

_TRIGGERS: Final = frozenset({Action.CREATE, Action.UPDATE, Action.REPLACE})
_TAINTED: Final = "tainted"
_TRIGGERED: Final = "triggered by "
_GOES_WITH: Final = "goes with "


class DecisionContext:
    """What is known of each entry beside its two states. Raises ``UsageError`` for a ``--replace`` of nothing."""

    def __init__(self, catalog: Catalog, prior: Prior, options: Options) -> None:
        """Look up who is asked to be replaced."""
        self._catalog = catalog
        self._prior = prior
        self._noop = options.noop
        self._asked = matching(options.replace, catalog.entries, "--replace") if options.replace else set()
        self._nothing = DecisionInputs(salt=prior.state.salt)
        #: What is replaced, by its index.
        self._replaced: dict[int, Step] = {}
        #: Nothing is recorded and nobody is asked to be replaced: nearly always in a first run.
        self._plain = not (prior.records or prior.predecessors or prior.orphans or options.replace)

    def note(self, step: Step) -> None:
        """Take note of a step that replaces a resource: those made from it come later."""
        is_lasting_reason = step.entry.meta.lifecycle.retain or (step.noop and not self._noop)
        if step.action is Action.REPLACE and not (step.decision.error or is_lasting_reason):
            self._replaced[step.entry.index] = step

    def known(self, entry: Entry, steps: Mapping[int, Step]) -> DecisionInputs:
        """Give what decides about an entry; ``steps`` are those planned before it."""
        index, prior = entry.index, self._prior
        if self._plain and not (self._replaced or entry.meta.lifecycle.replace_triggered_by):
            return self._nothing
        record = prior.records.get(index)
        if (why := prior.orphans.get(index)) is not None:
            names = entry.key
            return DecisionInputs(prior.state.records[names], None, prior.state.salt, orphan=why)
        others = self._asked or self._replaced or prior.instances.replaced
        wished = record is not None or others or entry.meta.lifecycle.replace_triggered_by
        forced = self._forced(entry, steps) if wished else ""
        lost = self._lost(entry) if self._replaced and entry.sources and entry.definition.ensurable else {}
        if record is None and not (forced or lost) and index not in prior.predecessors:
            return self._nothing
        return DecisionInputs(record, prior.predecessors.get(index), prior.state.salt, forced, lost=lost)

    def _lost(self, entry: Entry) -> dict[str, str]:
        """Give the attributes whose values come from what is deleted before it is made again, each with one such."""
        found = {}
        for name, sources in entry.sources.items():
            for source in sources:
                step = self._replaced.get(source.index)
                if step is not None and not step.create_first:
                    found[name] = str(step.reference)
        return found

    def left_behind(self, selected: Collection[int]) -> dict[int, str]:
        """Give what cannot be replaced because something made from it is not among the ``selected``: index → that."""
        found = {}
        for entry in self._catalog.entries if self._replaced else ():
            record = self._prior.records.get(entry.index)
            if entry.index in selected or record is None or not exists(record.is_):
                continue
            for name, sources in entry.sources.items():
                for source in sources if made_from(entry, name) else ():
                    if (step := self._replaced.get(source.index)) is not None and not step.create_first:
                        found[source.index] = str(entry.reference)
        return found

    def _forced(self, entry: Entry, steps: Mapping[int, Step]) -> str:
        if entry.index in self._asked:
            return "asked for by --replace"
        record = self._prior.records.get(entry.index)
        if record is not None and record.status == "tainted":
            return _TAINTED
        successor = self._prior.predecessors.get(entry.index)
        if successor is not None and (why := self._prior.instances.replaced.get(successor.instance)):
            return why
        for trigger in triggers(self._catalog, entry):
            step = steps.get(trigger.index)
            if step is not None and step.action in _TRIGGERS and self._foretold(step):
                return f"{_TRIGGERED}{step.reference}"
        vanishing = self._replaced and entry.meta.lifecycle.deleted_with and entry.definition.ensurable
        return self._vanishing(entry) if vanishing else ""

    def _foretold(self, step: Step) -> bool:
        """Whether a step will be carried out, or would be by the run that this one only tells of."""
        return not (step.decision.error or step.is_noop(noop_run=self._noop))

    def _vanishing(self, entry: Entry) -> str:
        """What goes with another goes when that is replaced too."""
        host = _host(self._catalog, entry)
        return f"{_GOES_WITH}{host.reference}, which is replaced" if host and host.index in self._replaced else ""


def triggers(catalog: Catalog, entry: Entry) -> Iterator[Entry]:
    """Give what replaces a resource when it changes: what is named, or all that a component has made."""
    for text in entry.meta.lifecycle.replace_triggered_by:
        wanted = reference.parse(text)
        group, target = catalog.components.get(wanted), catalog.find(wanted)
        yield from group.members if group is not None else [] if target is None else [target]


def because(step: Step) -> str:
    """Give why a resource is replaced beyond what differs of it; empty where there is no such reason."""
    return step.decision.reasons[0] if step.action is Action.REPLACE and step.decision.reasons else ""


def triggered(step: Step) -> bool:
    """Whether a resource is replaced only because another changes."""
    return because(step).startswith(_TRIGGERED)


def is_lasting_reason(step: Step) -> bool:
    """Whether the reason to replace a resource is one that cannot be seen again once this run is over."""
    return because(step).startswith((_TAINTED, _TRIGGERED, _GOES_WITH))


def replacement_dependents(catalog: Catalog, prior: Prior, steps: Iterable[Step]) -> Mapping[int, Sequence[Entry]]:
    """Give what is recorded and will have to be replaced once another has changed: by the index of that one."""
    if not prior.records:
        return {}
    refused = {step.entry.index for step in steps if step.decision.error}
    found: dict[int, list[Entry]] = {}
    for index in prior.records.keys() - refused:
        entry = catalog.entries[index]
        wanted = entry.meta.lifecycle.replace_triggered_by and _replaceable(entry)
        for other in triggers(catalog, entry) if wanted else ():
            found.setdefault(other.index, []).append(entry)
    for step in steps:
        recorded = step.entry.index in prior.records
        if recorded and is_lasting_reason(step) and (host := _host(catalog, step.entry)) is not None:
            found.setdefault(host.index, []).append(step.entry)
    return found


def _replaceable(entry: Entry) -> bool:
    """Whether a resource would be replaced if another asked for it."""
    lifecycle = entry.meta.lifecycle
    return (
        entry.definition.ensurable and exists(entry.should) and not lifecycle.external and lifecycle.replace != "never"
    )


def _host(catalog: Catalog, entry: Entry) -> Entry | None:
    """Give what a resource goes with."""
    with_ = entry.meta.lifecycle.deleted_with
    return catalog.find(reference.parse(with_)) if with_ else None


def made_from(entry: Entry, attribute: str) -> bool:
    """Whether a resource cannot stay while the source of an attribute is away, as far as its type and manifest say."""
    lifecycle = entry.meta.lifecycle
    if lifecycle.external or not entry.definition.ensurable:
        return False
    fixed = entry.definition.attributes[attribute].kind == "init_only" or attribute in lifecycle.replace_on_changes
    return fixed and attribute not in lifecycle.ignore_changes
