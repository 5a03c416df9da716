"""Catalog, snapshot and prior state → the ordered steps that a run would take.

Pure: what was read comes in as a function, what providers compare or foresee as plain functions. Destroying is the
plan of the empty manifest and ``--noop`` a plan that is not applied: there are no modes in here.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any

from resource_api.catalog.graph import reverse
from resource_api.model.change import CREATING, Action, exists
from resource_api.model.report import SUMMARY_FIELDS, Summary
from resource_api.model.step import SAME, Decision, DecisionInputs, Operation, PlanContext, Step
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import DefinitionError
from resource_api.model.values.reference import Reference
from resource_api.model.values.values import UNKNOWN, is_unknown
from resource_api.plan import accord, unknowns
from resource_api.plan import drift as drifting
from resource_api.plan import operations as sequence
from resource_api.plan.bulk_decisions import BulkDecisions, decide_in_bulk
from resource_api.plan.decide import decide, effective_should, forgotten
from resource_api.plan.replacement import DecisionContext, because
from resource_api.prior.succession import Succession

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from resource_api.catalog.compile import Catalog
    from resource_api.model.entry import Entry
    from resource_api.model.function import Call
    from resource_api.model.options import Options
    from resource_api.model.planner_queries import PlannerQueries
    from resource_api.model.values.expression import Path
    from resource_api.plan.drift import Drift
    from resource_api.prior.match import Prior


class Plan(NamedTuple):
    """The intention: one step per selected resource, and the operations in the order of execution."""

    catalog: Catalog
    prior: Prior
    options: Options
    steps: Sequence[Step]
    operations: Sequence[Operation] = ()
    #: Operation → the operations that must have succeeded before it.
    waits: Mapping[int, Sequence[int]] = {}
    complete: bool = True
    outputs: Mapping[str, Any] = {}
    drift: Sequence[Drift] = ()
    #: Entries, by index, that are in order and recorded so: of them nothing is done, told or written.
    in_sync: Collection[int] = ()
    #: How many more are in order, of which an earlier run knows that and the plan does not speak.
    cached_unchanged: int = 0

    @property
    def applicable(self) -> bool:
        """Whether every step could be planned."""
        return not any(step.decision.error for step in self.steps)

    @property
    def summary(self) -> Summary:
        """How many steps of each kind."""
        found = summarize(self.steps, self.blocked, noop=self.options.noop)
        return found._replace(unchanged=found.unchanged + self.cached_unchanged)

    @property
    def blocked(self) -> Mapping[int, str]:
        """What cannot be done because a step has failed: by the entry's index, the reference of that one."""
        return sequence.blocked(self.operations, self.waits)

    def decision_inputs(self, step: Step) -> DecisionInputs:
        """Give what decides about a step beside its two states."""
        index = step.entry.index
        return DecisionInputs(
            self.prior.records.get(index) or step.record,
            self.prior.predecessors.get(index),
            self.prior.state.salt,
            because(step),
            self.prior.orphans.get(index, ""),
        )


def plan(catalog: Catalog, prior: Prior, selected: set[int] | None, world: PlannerQueries, options: Options) -> Plan:
    """Decide every selected entry, in order, so that references find what was decided before them."""
    if prior.predecessors or prior.moved_keys:
        succession = Succession(catalog, prior, world.observation, world.tools)
        selected = succession.settle(selected, prune=options.prune)
        catalog, prior = succession.catalog, succession.prior
    entries = [entry for entry in catalog.entries if selected is None or entry.index in selected]
    quiet = (
        decide_in_bulk(entries, catalog, prior, world.observation, world.tools)
        if not options.replace
        else BulkDecisions()
    )
    planner = _Planner(catalog, prior, world, options)
    for entry in entries:
        told = quiet.told.get(entry.index)
        planner.add(entry) if told is None else planner.keep(entry, *told)
    steps = list(accord.spare(planner.steps, noop=options.noop).values())
    if selected is not None:
        steps = accord.hold(steps, planner.wishes.left_behind(selected))
    operations, waits = sequence.arrange(steps, catalog.requires, prior.orphans)
    drift = drifting.drift(prior, world.observation, (entry for entry in entries if entry.index not in quiet.recorded))
    outputs = planner.outputs()
    return Plan(catalog, prior, options, steps, operations, waits, selected is None, outputs, drift, quiet.recorded)


class _Planner:
    """Knows the steps planned so far, by the index of their entry."""

    def __init__(self, catalog: Catalog, prior: Prior, world: PlannerQueries, options: Options) -> None:
        self.catalog = catalog
        self.prior = prior
        self.world = world
        self.options = options
        self.steps: dict[int, Step] = {}
        self.acting = False
        self.wishes = DecisionContext(catalog, prior, options)
        notifies = cache(lambda: reverse(catalog.subscribes))
        self._around = PlanContext(prior.urn, catalog.entries, catalog.requires, notifies)
        self._make = partial(Step, context=self._around)

    def add(self, entry: Entry) -> None:
        step = self._step(entry)
        if self.prior.state.records:
            step = self._recall(step)
        if "refreshable" in entry.definition.features:
            step = self._refresh(step)
        self.steps[entry.index] = step
        if step.decision is not SAME or step.refreshed_by:
            self.acting = self.acting or self._would_act(step)
            self.wishes.note(step)

    def keep(self, entry: Entry, row: Mapping[str, Any] | None, decision: Decision) -> None:
        """Add what was told of an entry at once with many others: nothing else concerns it."""
        record = self.prior.records.get(entry.index)
        step = Step(entry, row, entry.should, decision, self.options.noop, self._around, record)
        self.steps[entry.index] = self._refresh(step) if "refreshable" in entry.definition.features else step
        self.acting = self.acting or self._would_act(self.steps[entry.index])

    def _would_act(self, step: Step) -> bool:
        """Whether a step changes something where it is carried out: a run that only tells foretells that one."""
        return step.acts or (self.options.noop and not step.entry.meta.noop and would_change(step))

    def _step(self, entry: Entry) -> Step:
        noop = self.options.noop or bool(entry.meta.noop)
        should, unknown, error = self._known(entry) if entry.pending else (entry.should, (), "")
        if error := error or self.prior.errors.get(entry.index, ""):
            return self._make(entry, None, should, Decision(Action.UPDATE, error=error), noop)
        if entry.index in self.prior.orphans and (step := self._let_go(entry, noop=noop)) is not None:
            return step
        failure, later = self.world.awaited(entry.instance, self._resolve) if self.catalog.instances else ("", False)
        imperative = "imperative" in entry.definition.features
        if imperative and not failure:
            return self._imperative(entry, should, unknown, noop=noop)
        row, failure = (None, failure) if failure else self.world.observation(entry)
        if failure:
            decision = Decision(Action.RUN if imperative else Action.UPDATE)
            if self.acting or later:
                return self._make(entry, None, should, decision, noop, deferred=failure, unknown=unknown)
            return self._make(entry, None, should, decision._replace(error=failure), noop)
        known = self.wishes.known(entry, self.steps)
        decision = decide(entry, row, should, self.world.tools(entry.instance), known)
        if decision.action not in CREATING:
            should = effective_should(entry, row, should)
        return self._make(entry, row, should, decision, noop or self._waits_for_noop(entry, unknown), unknown=unknown)

    def _let_go(self, entry: Entry, *, noop: bool) -> Step | None:
        """Plan for an orphan what does not depend on what there is: it is only forgotten, or nobody can delete it."""
        known = self.wishes.known(entry, self.steps)
        if why := forgotten(entry, known):
            row = self.world.observation(entry)[0]
            return self._make(entry, row, entry.should, Decision(Action.FORGET, reasons=(why,)), noop)
        try:
            self.world.tools(entry.instance)
        except DefinitionError as error:
            why = f"cannot be deleted: {error}; bring its type back, or forget it: state rm {entry.reference}"
            return self._make(entry, None, entry.should, Decision(Action.DELETE, error=why), noop)
        return None

    def _imperative(self, entry: Entry, should: Mapping[str, Any], unknown: Sequence[str], *, noop: bool) -> Step:
        if entry.meta.lifecycle.external:
            return self._make(entry, None, should, Decision(Action.READ), noop)
        if unknown:
            why = "it needs values that are not yet known"
            noop = noop or self._waits_for_noop(entry, unknown)
            return self._make(entry, None, should, Decision(Action.RUN), noop, deferred=why, unknown=unknown)
        entry.should.update(should)
        run, why, failure = self.world.due(entry)
        if failure and self.acting:
            return self._make(entry, None, should, Decision(Action.RUN), noop, deferred=failure)
        if failure:
            return self._make(entry, None, should, Decision(Action.RUN, error=failure), noop)
        reasons = (why,) if why else ()
        return self._make(entry, None, should, Decision(Action.RUN, reasons=reasons) if run else SAME, noop)

    def _recall(self, step: Step) -> Step:
        """Add what was recorded: the former title, and whether the system has moved away from what was asked."""
        index = step.entry.index
        if index in self.prior.orphans:
            return step._replace(record=self.prior.state.records[step.entry.key])
        record = self.prior.records.get(index)
        if record is None:
            successor = self.prior.predecessors.get(index)
            if successor is None:
                return step
            other = successor.instance != step.definition.instance
            former = self.world.tools(successor.instance).definition if other else None
            return step._replace(record=successor, old_definition=former)
        named = record.title == step.entry.title and record.parent == step.entry.parent
        previous = "" if named else str(record.reference)
        corrective = would_change(step) and drifting.corrective(step, record, self.prior.state.salt)
        return step._replace(record=record, previous=previous, corrective=corrective)

    def _refresh(self, step: Step) -> Step:
        """Note whose change refreshes this resource, in this run or in one before that could not."""
        if not is_refreshable(step):
            return step
        sources = self.catalog.subscribes.get(step.entry.index, ())
        noisy = [self.steps[source] for source in sources if source in self.steps]
        names = [str(s.reference) for s in noisy if self._would_act(s)]
        names += [name for name in self.prior.state.owed.get(step.entry.key, ()) if name not in names]
        return step._replace(refreshed_by=tuple(names)) if names else step

    # Values that only another resource's state tells

    @property
    def _resolve(self) -> Callable[[Path], Any]:
        # Not kept: it knows this planner, which would live as long as the process then.
        return self.catalog.scope.resolver(self._of_resource, self._invoke)

    def _known(self, entry: Entry) -> tuple[Mapping[str, Any], Sequence[str], str]:
        """Give what should be as far as it is known, the attributes that are not, and what is wrong."""
        values: dict[str, Any] = {}
        for name, value in entry.pending.items():
            try:
                found = self.catalog.scope.attribute_value(entry, name, value, self._resolve)
            except ValueError as error:
                return entry.should, (), unknowns.with_location(self.catalog, entry, str(error))
            values[name] = UNKNOWN if is_unknown(found) else found
        should, problem = unknowns.complete_should(entry, values, self.world.tools(entry.instance))
        problem = problem and unknowns.with_location(self.catalog, entry, problem)
        return should, tuple(name for name, value in values.items() if value is UNKNOWN), problem

    def _of_resource(self, path: Path) -> Any:
        assert isinstance(path.root, Reference)
        entry = self.catalog.find(path.root)
        assert entry is not None
        step = self.steps.get(entry.index)
        if step is not None:
            return unknowns.predicted_value(path, step)
        row, failure = self.world.observation(entry)
        if failure or not exists(row):
            msg = f"{path}: {entry.reference} does not exist and is not among the targets"
            raise ValueError(msg)
        return unknowns.value_of(path, entry.definition, effective_should(entry, row, entry.should), row)

    def _invoke(self, call: Call, given: Mapping[str, Any]) -> Any:
        """Give what a function answers; what cannot be asked yet is not known yet."""
        why, later = self.world.awaited(call.instance, self._resolve)
        try:
            return UNKNOWN if later else self.world.invoke(call, given)
        except ValueError as error:
            if self.acting:
                return UNKNOWN
            raise ValueError(why or str(error)) from error

    def _waits_for_noop(self, entry: Entry, unknown: Sequence[str]) -> bool:
        """Whether a value would only come from doing a noop resource: then this one is noop too."""
        if not unknown:
            return False
        targets = self.catalog.requires.get(entry.index, ())
        return any(
            self.steps[index].noop and would_change(self.steps[index]) for index in targets if index in self.steps
        )

    def outputs(self) -> dict[str, Any]:
        """Give the manifest's outputs as far as they are known."""
        return dict(unknowns.outputs(self.catalog, self._resolve))


def would_change(step: Step) -> bool:
    """Whether a step would change something if it were not noop."""
    return step.action not in {Action.SAME, Action.READ} and not step.decision.error


def is_refreshable(step: Step) -> bool:
    """Whether there will be something to refresh."""
    return step.action not in {Action.DELETE, Action.FORGET, Action.READ} and (
        step.is_ is not None or step.action is not Action.SAME or "imperative" in step.definition.features
    )


def summarize(steps: Sequence[Step], blocked: Collection[int] = (), *, noop: bool = False) -> Summary:
    """Count what the steps would do; failures in the plan count as failed, what is not to be touched as unchanged.

    What is ``blocked`` counts as skipped; under ``noop`` it is counted what a run without it would do.
    """
    totals = dict.fromkeys(Summary._fields[:-1], 0)
    for step in steps:
        kind = "unchanged" if step.is_noop(noop_run=noop) else SUMMARY_FIELDS.get(step.action, "unchanged")
        totals["failed" if step.decision.error else "skipped" if step.entry.index in blocked else kind] += 1
    return Summary(**totals)  # type: ignore[arg-type] # counts only
