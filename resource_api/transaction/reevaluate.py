"""At its turn, each run is decided again: what has become known is filled in, what may have moved is read once more.

By the same rule as in the plan (``decision``), and never to more than the plan has shown.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from resource_api.catalog.functions import invoke
from resource_api.model.change import CREATING, Action, exists
from resource_api.model.values.reference import Reference
from resource_api.model.values.values import UNKNOWN, is_unknown, same_value
from resource_api.plan import unknowns
from resource_api.plan.decide import decide, effective_should
from resource_api.plan.replacement import is_triggered, trigger_entries
from resource_api.plugins.functions import call_function
from resource_api.snapshot.configure_providers import DeferredInstances
from resource_api.transaction.operation_run import OperationRun

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.model.function import Call
    from resource_api.model.step import Decision, Step
    from resource_api.model.values.expression import Path
    from resource_api.plan.decision_inputs import DecisionInputs
    from resource_api.transaction.results import Ending

_PLANNED_ONLY: Final = frozenset({Action.REPLACE, Action.DELETE, Action.FORGET})


class Reevaluation:
    """Decides runs when their turn has come, and knows what earlier ones have yielded."""

    def __init__(self, ending: Ending) -> None:
        """Begin with no run; what fails here, or has nothing to do any more, is told to ``ending``."""
        self.plan = ending.plan
        self.ending = ending
        self.snapshot = ending.snapshot
        self.providers = ending.providers
        self._awaiting = DeferredInstances(self.plan.catalog.instances, self.plan.prior.instances, self.providers)
        #: What puts or has put something in place, by the index of its entry.
        self.runs: list[OperationRun | None] = [None] * len(self.plan.catalog.entries)
        self.resolve = self.plan.catalog.scope.resolver(self._of_resource, self._invoke)

    def decide(self, runs: Sequence[OperationRun]) -> None:
        """Read again what may have moved since it was planned, and decide with what is known now."""
        definition = runs[0].definition
        if not self._ready(runs):
            return
        live = self._known_now(runs)
        if "imperative" in definition.features:
            for run in live:
                if not run.removal:
                    self._due(run)
            return
        if not self.snapshot.epoch:
            # Nothing has been changed yet: what the plan has read is what there is.
            live = [run for run in live if not self._holds(run)]
        self.snapshot.read(definition, [run.name for run in live], fresh=True)
        for run in live:
            row, failure = self.snapshot.observation(definition.instance, run.name)
            if failure and run.decision.action is not Action.FORGET:
                self._unseen(run, failure)
            elif not (row is run.is_ and self._holds(run)):
                run.is_ = row
                self._decide_anew(run)

    def _holds(self, run: OperationRun) -> bool:
        """Whether what was planned holds as long as nothing else is read: all that decides was known then.

        A provider that foresees is asked again: what it says now must be what others were planned with.
        """
        step = run.step
        return not (run.removal or step.deferred or step.entry.pending or "plan" in step.definition.features)

    def _unseen(self, run: OperationRun, failure: str) -> None:
        """Fail what cannot be read at its turn; under noop it is told as planned, if something before it may help."""
        if not (run.step.noop and run.step.deferred):
            self.ending.fail(run, failure)

    def _decide_anew(self, run: OperationRun) -> None:
        step = run.step
        if not run.removal:
            self._decide_one(run)
        elif self._quiet(step) or (step.unknown and not (step.decision.replacement or step.create_first)):
            self._spare(run)

    def _ready(self, runs: Sequence[OperationRun]) -> bool:
        """Configure a provider that waits for resources, with what is known by now; or fail its runs with why not."""
        awaited = self._awaiting.configure(runs[0].definition.instance, self.resolve)
        if awaited.record is not None:
            self.ending.configured(awaited.record)
        for run in runs if awaited.failure else ():
            # Under noop a configuration may stay unknown: then what was planned is what is said.
            if not (awaited.later and run.step.noop):
                self.ending.fail(run, awaited.failure)
        return not awaited.failure

    def _decide_one(self, run: OperationRun) -> None:
        """Decide anew; what the plan did not show as a removal never becomes one."""
        step = run.step
        known = self._known(step)
        decision = decide(step.entry, run.is_, run.should, self.providers.functions(step.entry.instance), known)
        if step.action is Action.REPLACE and decision.action is Action.CREATE:
            decision = step.decision._replace(differences=decision.differences, predicted=decision.predicted)
        if self._unplanned(run, decision):
            run.decision = step.decision
            verb = "updated" if decision.action is Action.UPDATE else f"{decision.action}d"
            self.ending.fail(run, f"would have to be {verb}, which was not planned; run again")
            return
        if turned := _turned(step.decision, decision):
            self.ending.fail(run, f"its provider plans {turned} otherwise than before; run again")
            return
        run.decision = decision
        if decision.action not in CREATING:
            run.should = effective_should(step.entry, run.is_, run.should)
        if decision.error:
            self.ending.fail(run, decision.error)

    def _spare(self, removal: OperationRun) -> None:
        """Let what would go for a value that was not known stay, where that has turned out the same.

        Where a source of it is still to go itself, the plan holds.
        """
        step = removal.step
        sources = {source.index for name in step.unknown for source in step.entry.sources[name]}
        runs = [self.runs[index] for index in sources]
        if not all(run is not None and run.finished for run in runs):
            return
        new = OperationRun(removal.operation._replace(removal=False))
        self._make_known(new)
        if new.finished:
            removal.finished = True
            return
        tools = self.providers.functions(step.entry.instance)
        decision = decide(step.entry, removal.is_, new.should, tools, self._known(step))
        if decision.error:
            self.ending.fail(removal, decision.error)
        elif decision.action is not Action.REPLACE:
            self.ending.same(removal)

    def _known(self, step: Step) -> DecisionInputs:
        """Give what decides about a step now: what did not change after all replaces nothing."""
        known = self.plan.decision_inputs(step)
        return known._replace(replacement=None) if self._quiet(step) else known

    def _quiet(self, step: Step) -> bool:
        """Whether a step replaces only because another changes, and everything that could has turned out the same."""
        if not is_triggered(step):
            return False
        for other in trigger_entries(self.plan.catalog, step.entry):
            run, numbers = self.runs[other.index], self.ending.halves.get(other.index, ())
            open_ = run is None or not (run.finished or run.decision.action is Action.SAME)
            if numbers and (open_ or any(self.ending.changed[number] for number in numbers)):
                return False
        return True

    def _unplanned(self, run: OperationRun, decision: Decision) -> bool:
        """Whether the plan did not show what is to be done now; a saved plan does nothing that it does not show."""
        step = run.step
        if decision.action is step.action or decision.action is Action.SAME or decision.error:
            return False
        if self.plan.options.saved and not step.deferred:
            return step.action is Action.SAME or decision.action in _PLANNED_ONLY
        if decision.action is Action.DELETE:
            return self.plan.options.saved or not (step.deferred or step.action is Action.SAME)
        return decision.action in _PLANNED_ONLY

    def _known_now(self, runs: Sequence[OperationRun]) -> list[OperationRun]:
        """Give the runs about which can be decided, with what is known by now; the others are told as planned.

        Where all is noop, nothing is done that could yield what was not known.
        """
        settled = [run for run in runs if not (self.plan.options.noop and run.step.unknown)]
        for run in settled:
            self._make_known(run)
        return [run for run in settled if not run.finished]

    def _make_known(self, run: OperationRun) -> None:
        """Replace unknowns by what earlier steps have yielded."""
        entry = run.step.entry
        if not entry.pending or run.removal:
            return
        values: dict[str, Any] = {}
        for name, value in entry.pending.items():
            try:
                found = self.plan.catalog.scope.attribute_value(entry, name, value, self.resolve)
            except ValueError as error:
                self._refuse(run, str(error))
                return
            if is_unknown(found) and not run.step.noop:
                self._refuse(run, f"'{name}' is still not known: {value}")
                return
            values[name] = UNKNOWN if is_unknown(found) else found
        run.should, problem = unknowns.complete_should(entry, values, self.providers.functions(entry.instance))
        if problem:
            self._refuse(run, problem)

    def _refuse(self, run: OperationRun, problem: str) -> None:
        self.ending.fail(run, unknowns.with_location(self.plan.catalog, run.step.entry, problem))

    def _of_resource(self, path: Path) -> Any:
        assert isinstance(path.root, Reference)
        entry = self.plan.catalog.find(path.root)
        assert entry is not None
        run = self.runs[entry.index]
        if run is None:
            row = self.snapshot.observation(entry.instance, entry.name).row
            return unknowns.value_of(path, entry.definition, effective_should(entry, row, entry.should), row)
        if run.step.noop and not exists(run.is_):
            return unknowns.predicted_value(path, run.step)
        return unknowns.value_of(path, entry.definition, run.should, run.is_)

    def _invoke(self, call: Call, given: Mapping[str, Any]) -> Any:
        """Give what a function answers, now at the latest; under noop its provider may still be unknown."""
        awaited = self._awaiting.configure(call.instance, self.resolve)
        if awaited.later:
            return UNKNOWN
        if awaited.failure:
            raise ValueError(awaited.failure)
        return invoke(call, given, partial(call_function, self.providers))

    def _due(self, run: OperationRun) -> None:
        """Ask an imperative resource, right before its turn, whether it is to be run."""
        entry = run.step.entry
        if entry.meta.lifecycle.external:
            self.ending.same(run)
            return
        if any(map(is_unknown, run.should.values())):
            return  # under noop it stays so, and nobody is asked about what is not known
        due, why, failure = self.snapshot.due(entry, run.should)
        if failure:
            self._unseen(run, failure)
        elif due:
            run.decision = run.decision._replace(action=Action.RUN, reasons=(why,) if why else ())
        elif self.ending.refreshers(run):
            run.decision = run.decision._replace(action=Action.SAME)
        else:
            self.ending.same(run)


def _turned(before: Decision, now: Decision) -> str:
    """Give the attributes of which a provider foresees something else than it did in the plan."""
    if not before.predicted:
        return ""
    changed = [k for k, v in now.predicted.items() if k in before.predicted and not same_value(before.predicted[k], v)]
    return ", ".join(changed)
