"""Catalog, prior state and observations → a plan: the ordered steps that a run would take.

Pure: the planner changes none of its arguments and reads the system only through ``PlannerQueries``. Destroying is
the plan of the empty manifest, and ``--noop`` a plan that is not applied.
"""

from __future__ import annotations

from collections import Counter
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from resource_api.catalog.graph import descendants, reverse
from resource_api.model.action import CREATING, Action
from resource_api.model.change import Difference, exists
from resource_api.model.provider_functions import PlannerQueries, ProviderFunctions
from resource_api.model.record import OrphanKind
from resource_api.model.report import SUMMARY_FIELDS, Drifted, Summary
from resource_api.model.step import SAME, Decision, Operation, PlanContext, Replacement, ReplacementReason, Step
from resource_api.model.values import expression
from resource_api.model.values.errors import DefinitionError, ManifestError, Problem
from resource_api.model.values.expression import EvaluationError, ExpressionPath
from resource_api.model.values.reference import Reference
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.text import shell_word
from resource_api.model.values.values import UNKNOWN, is_unknown
from resource_api.plan import set_segments as ordering
from resource_api.plan import targets, unknowns
from resource_api.plan.decide import (
    BulkDecisions,
    decide,
    decide_in_bulk,
    effective_should,
    reason_to_forget,
    rerun_reasons,
)
from resource_api.plan.diff import DecisionInputs, find_drift, is_corrective
from resource_api.plan.replacement import (
    cannot_outlive_source,
    fail_with_lost_providers,
    forget_hosted,
    host_of,
    trigger_entries,
)
from resource_api.plan.set_segments import PRUNE_STAGE, PURGE_STAGE
from resource_api.plan.unknowns import output_changes
from resource_api.prior import former_names
from resource_api.prior.match import Prior, rematch

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from resource_api.catalog.compile import Catalog
    from resource_api.model.entry import Entry
    from resource_api.model.options import Options
    from resource_api.model.type_definition import FunctionCall
    from resource_api.plan.diff import Resource


T = TypeVar("T")
#: The actions of a step that trigger a replacement.
_TRIGGERING: Final = frozenset({Action.CREATE, Action.UPDATE, Action.REPLACE})


class ExecutionPlan(NamedTuple):
    """The intention of a run: one step per selected resource, and the operations in the order of execution."""

    catalog: Catalog
    prior: Prior
    options: Options
    steps: Sequence[Step]
    operations: Sequence[Operation] = ()
    #: Number of an operation → the operations that must have succeeded before it.
    waits: Mapping[int, Sequence[int]] = {}
    #: Whether every entry was selected.
    complete: bool = True
    outputs: Mapping[str, Any] = {}
    #: How the outputs will differ from those that are recorded; of a plan that fails or is partial those stay.
    output_changes: Sequence[Difference] = ()
    drift: Sequence[Drifted] = ()
    #: The indexes of entries that are in sync and recorded as they are: a run does and writes nothing for them.
    in_sync: Collection[int] = ()
    #: The number of unchanged resources without a step, because of the conclusion of an earlier run.
    cached_unchanged: int = 0
    #: The problems of outputs: a function that failed, a missing key.
    problems: Sequence[Problem] = ()
    #: The resources that are decided and carried out only if others fail in the run (``on_failure``, contract §10.8).
    #: They have operations, and none of ``steps``.
    failure_handlers: Sequence[Step] = ()

    def __repr__(self) -> str:
        """Return one short line, whatever the number of steps."""
        return f"<Plan: {len(self.steps)} steps>"

    @property
    def applicable(self) -> bool:
        """Whether every step could be planned."""
        return not any(step.decision.error for step in self.steps)

    @property
    def summary(self) -> Summary:
        """The number of steps of each kind and of changed outputs, as shown with a plan."""
        summary = summarize(self.steps, self.blocked, noop=self.options.noop)
        # Without any change nothing makes an unknown output known: it is no change either.
        outputs = [change for change in self.output_changes if summary.changed or not is_unknown(change.should)]
        return summary._replace(unchanged=summary.unchanged + self.cached_unchanged, outputs_changed=len(outputs))

    @property
    def blocked(self) -> Mapping[int, str]:
        """The entries blocked by a step that failed in the plan: entry's index → reference of that step."""
        return ordering.blocked(self.operations, self.waits, self.prior.orphans, self.late)

    def failure_sources(self) -> Iterator[tuple[str, Sequence[str]]]:
        """Yield each resource with ``on_failure`` and the resources whose failure triggers it, for display."""
        for step in self.failure_handlers:
            if indexes := sorted(self.catalog.on_failure[step.entry.index]):
                yield str(step.reference), [str(self.catalog.entries[index].reference) for index in indexes]

    def may_change(self) -> Mapping[int, int]:
        """Return the resources in sync that an earlier step may put out of sync: the run reads them again.

        Resource → the changed resource that it depends on, directly or not (both by the index of their entry).
        """
        noop, planned = self.options.noop, {step.entry.index for step in self.steps}
        nodes = (
            (
                step.entry.index,
                would_change(step) and not step.is_noop(noop_run=noop),
                () if step.error else ordering.requirements(step.entry.index, self.catalog.requires, planned),
            )
            for step in self.steps
        )
        causes = first_causes(nodes)
        in_sync = (step.entry.index for step in self.steps if step.action is Action.SAME)
        return {index: causes[index] for index in in_sync if index in causes}

    @property
    def late(self) -> Mapping[int, int]:
        """Index of an orphan that is left alone if anything before it fails → its stage, see ``late_orphans``."""
        return late_orphans(self.prior, self.options)

    @property
    def stage_begins(self) -> Sequence[int]:
        """The number of the first operation of each late stage: it begins only when all before it have ended."""
        return ordering.stage_begins(self.operations, self.late)

    @property
    def segments(self) -> Iterator[list[Operation]]:
        """The operations in their order, in segments that can share a call."""
        return ordering.segments(self.operations, self.waits, self.stage_begins)

    def with_steps(self, steps: Mapping[int, Step]) -> ExecutionPlan:
        """Return this plan with the given ``steps`` (entry's index → step), also in its operations.

        For checks of the finished plan, such as policies, which turn the steps that they forbid into failed ones.
        """
        return self._replace(
            steps=[steps.get(step.entry.index, step) for step in self.steps],
            operations=[
                operation._replace(step=steps.get(operation.step.entry.index, operation.step))
                for operation in self.operations
            ],
        )

    def decision_inputs(self, step: Step) -> DecisionInputs:
        """Return the inputs to decide a step again at its turn, with the planned reason for its replacement.

        Steps before it may have changed the resource or its values since it was planned.
        """
        index = step.entry.index
        return DecisionInputs(
            self.prior.records.get(index) or step.record,
            self.prior.predecessors.get(index),
            self.prior.state.salt,
            step.decision.replacement,
            self.prior.orphans.get(index),
            state_options=self.options.state_options,
        )


def plan(
    catalog: Catalog, prior: Prior, selected: set[int] | None, queries: PlannerQueries, options: Options
) -> ExecutionPlan:
    """Return the plan of the ``selected`` entries (indexes; None: all); no argument is changed.

    Entries are planned in order, because references need the steps that were planned before. Raises ``UsageError`` for
    a ``--replace`` that matches nothing, and for a deletion that leaves recorded dependents behind; ``ManifestError``
    for resources whose provider cannot be created, where no step before them changes anything.
    """
    if prior.predecessors or prior.moved_keys:
        catalog, prior, selected = rematch(catalog, prior, selected, queries, prune=options.prune)
    entries = [entry for entry in catalog.entries if selected is None or entry.index in selected]
    # The trigger of a handler, a failure, is known only in the run.
    on_failure = [entry for entry in entries if entry.index in catalog.on_failure]
    if on_failure:
        entries = [entry for entry in entries if entry.index not in catalog.on_failure]
    # --replace is a reason to act that no row shows: then each resource is decided alone.
    bulk = BulkDecisions() if options.replace else decide_in_bulk(entries, catalog, prior, queries)
    planner = _Planner(catalog, prior, queries, options, selected)
    for entry in entries:
        planner.add(entry, bulk.decided.get(entry.index))
    steps = planner.finished_steps(selected)
    handlers = [planner.failure_handler(entry) for entry in on_failure]
    operations, waits = ordering.order_operations(
        sorted((*steps, *handlers), key=lambda step: step.entry.index) if handlers else steps,
        catalog.requires,
        prior.orphans,
        late_orphans(prior, options),
        catalog.on_failure,
    )
    read = (entry for entry in entries if not (entry.index in bulk.in_sync or entry.instance in catalog.missing))
    drift = find_drift(prior, queries.observation, read)
    outputs, problems = unknowns.outputs(catalog, planner.resolve)
    # Outputs are recorded as a whole: a partial or failing plan leaves the recorded ones as they are.
    is_whole = selected is None and not problems and not any(step.decision.error for step in steps)
    return ExecutionPlan(
        catalog,
        prior,
        options,
        steps=steps,
        operations=operations,
        waits=waits,
        complete=selected is None,
        outputs=outputs,
        output_changes=output_changes(prior.state.outputs, outputs, prior.state.salt) if is_whole else (),
        drift=drift,
        in_sync=bulk.in_sync,
        problems=problems,
        failure_handlers=handlers,
    )


def late_orphans(prior: Prior, options: Options) -> Mapping[int, int]:
    """Return orphan's index → its stage, for those that are deleted only after all declared resources have succeeded.

    Otherwise a failed run could delete a resource whose successor does not exist yet. The first stage has the orphans
    of ``--prune``, unless ``--prune-always`` deletes them in any case; the second has those of ``purge``.
    """
    stages = {OrphanKind.PURGED: PURGE_STAGE, **({} if options.prune_always else {OrphanKind.UNDECLARED: PRUNE_STAGE})}
    return {index: stages[kind] for index, kind in prior.orphans.items() if kind in stages}


class _Planner:
    """The steps planned so far, and the facts about them that the next ones need."""

    def __init__(
        self,
        catalog: Catalog,
        prior: Prior,
        queries: PlannerQueries,
        options: Options,
        selected: Collection[int] | None,
    ) -> None:
        """Begin with no step. ``selected``: the indexes of the entries of a partial run, None for all."""
        self.catalog = catalog
        self.prior = prior
        self.queries = queries
        self.options = options
        #: By the index of the entry, in the order of the catalog; handlers of failures are not among them.
        self.steps: dict[int, Step] = {}
        #: Whether a step so far changes something: then a read that fails is deferred, because the change may help.
        self.has_changes = False
        #: The problems of resources whose provider cannot be created, where no step before them changes anything.
        self.problems: list[Problem] = []
        self.collector = InputCollector(catalog, prior, options, selected)
        notifies = cache(lambda: reverse(catalog.subscribes))
        # Resources that an interrupted run may have created count as ours: the plan does not report their adoption.
        keys_in_doubt = (
            {key for key, intent in prior.state.intents.items() if intent.makes} if options.recorded else None
        )
        #: Makes a step with the part that all steps of this plan share.
        context = PlanContext(prior.urn, catalog.entries, catalog.requires, notifies, keys_in_doubt)
        self._make = partial(Step, context=context)

    def add(self, entry: Entry, decided: tuple[Resource | None, Decision] | None) -> None:
        """Plan one entry and store its step, from which the entries after it take values and reasons to act.

        ``decided``: its row and decision by ``decide_in_bulk``; None if that left the entry to a decision of its own.
        """
        if decided is None:
            step = self._step(entry)
            if self.prior.state.records:
                step = self._with_record(step)
        else:
            row, decision = decided
            record = self.prior.records.get(entry.index)
            step = self._make(entry, row, entry.should, decision, self.options.noop, record=record)
        if "refreshable" in entry.definition.features:
            step = self._with_refresh(step)
        self.steps[entry.index] = step
        if step.decision is not SAME or step.refreshed_by:
            self.has_changes = self.has_changes or self._would_act(step)
            if step.decision.action is Action.REPLACE:
                self.collector.add_replacement(step)

    def failure_handler(self, entry: Entry) -> Step:
        """Return the step of a resource with ``on_failure``, which nothing has read: it is decided at its turn."""
        indexes = sorted(self.catalog.on_failure[entry.index])
        names = " or ".join(str(self.catalog.entries[index].reference) for index in indexes)
        noop = self.options.noop or bool(entry.meta.noop)
        step = self._undecided_step(entry, entry.should, f"only if {names} fails", noop=noop, may_help=True)
        return step._replace(record=self.prior.records.get(entry.index))

    def finished_steps(self, selected: Collection[int] | None) -> list[Step]:
        """Return all steps, after the changes and checks that need all of them.

        A resource that disappears with its deleted host is only forgotten. A replacement fails if a resource outside of
        the ``selected`` ones would have to be replaced too, or if resources would be out of reach of their provider.
        Raises ``ManifestError`` for the problems of steps, ``UsageError`` for a deletion that leaves dependents behind.
        """
        if self.problems:
            raise ManifestError(self.problems)
        noop = self.options.noop
        steps = list(forget_hosted(self.steps, noop=noop).values())
        if selected is not None:
            targets.check_untargeted_dependents(self.catalog, self.prior, self.steps, selected)
            if dependents := self.collector.untargeted_dependents(selected):
                steps = targets.fail_with_untargeted_dependents(steps, dependents)
        if any(instance.pending for instance in self.catalog.instances.values()):
            steps = fail_with_lost_providers(steps, self.catalog, self.prior, self.queries.functions, noop=noop)
        return steps

    def _would_act(self, step: Step) -> bool:
        """Return whether a step changes something; in a noop run, whether a real one would, as its plan is shown."""
        return step.acts or (self.options.noop and not step.entry.meta.noop and would_change(step))

    def _step(self, entry: Entry) -> Step:
        """Plan one entry from its row and the values of earlier steps; deferred where only the run can decide it.

        The cases that need no row come first: errors, orphans to forget, providers that cannot be called yet. For an
        existing resource the step then shows as ``should`` the present value of every attribute that the run must not
        change.
        """
        noop = self.options.noop or bool(entry.meta.noop)
        should, unknown, error = self._known_should(entry) if entry.pending else (entry.should, (), "")
        error = error or self.prior.errors.get(entry.index, "")
        if error:
            return self._make(entry, None, should, Decision(Action.UPDATE, error=error), noop)
        if entry.index in self.prior.orphans and (step := self._unread_orphan(entry, noop=noop)) is not None:
            return step
        if entry.instance in self.catalog.missing:
            return self._step_without_provider(entry, should, unknown, noop=noop)
        failure, later = "", False
        if self.catalog.instances:
            # ``later``: the configuration of its provider waits for a value that this run yields.
            failure, later, _ = self.queries.readiness(entry.instance, self.resolve)
        if "imperative" in entry.definition.features and not failure:
            return self._imperative_step(entry, should, unknown, noop=noop)
        row, failure = (None, failure) if failure else self.queries.observation(entry)
        if entry.meta.lifecycle.external and self.has_changes and not (failure or exists(row)):
            failure = "does not exist yet"  # a step before it may create it
        if failure:
            return self._undecided_step(entry, should, failure, unknown, noop=noop, may_help=later or self.has_changes)
        inputs, functions = self.collector.inputs(entry, self.steps), self.queries.functions(entry.instance)
        if unknown and row is not None:
            inputs = inputs._replace(excluded=self._excluded_attributes(entry, unknown, row, functions))
        decision = decide(entry, row, should, functions, inputs)
        if decision.action not in CREATING:
            should = effective_should(entry, row, should, decision.unaffected)
        return self._make(entry, row, should, decision, noop or self._needs_noop(entry, unknown), unknown=unknown)

    def _unread_orphan(self, entry: Entry, *, noop: bool) -> Step | None:
        """Return the step of an orphan that is decided without reading it; None for an orphan that has to be read.

        An orphan that is forgotten in any case need not be read. An orphan whose type is missing cannot be read, which
        is an error. A purged orphan has to be read: it may have no record, and the reasons to forget come from records.
        """
        inputs = self.collector.inputs(entry, self.steps)
        if inputs.orphan is not OrphanKind.PURGED and (reason := reason_to_forget(entry, inputs)):
            row = self.queries.observation(entry).row
            return self._make(entry, row, entry.should, Decision(Action.FORGET, reasons=(reason,)), noop)
        missing: object = self.catalog.missing.get(entry.instance)
        try:
            self.queries.functions(entry.instance)
        except DefinitionError as error:
            missing = error
        if missing:
            remedy = f"bring its type back, or forget it: state rm {shell_word(entry.reference)}{inputs.state_options}"
            reason = f"cannot be deleted: {missing}; {remedy}"
            return self._make(entry, None, entry.should, Decision(Action.DELETE, error=reason), noop)
        return None

    def _step_without_provider(self, entry: Entry, should: Resource, unknown: Sequence[str], *, noop: bool) -> Step:
        """Plan a resource whose provider lacks a requirement: deferred if a step may install it, else a problem."""
        reason = self.catalog.missing[entry.instance]
        if not self.has_changes:
            position = self.catalog.manifest.place(entry.declaration)
            self.problems.append(Problem(None, reason, "error", str(entry.reference), *position, code="type"))
        return self._undecided_step(entry, should, reason, unknown, noop=noop, may_help=self.has_changes)

    def _undecided_step(
        self, entry: Entry, should: Resource, reason: str, unknown: Sequence[str] = (), *, noop: bool, may_help: bool
    ) -> Step:
        """Plan a resource that cannot be decided now, for a ``reason``: deferred if a step before it may help.

        Otherwise it fails in the plan. A provider may need a tool that an earlier resource installs. A deferred
        resource is decided at its turn, when all that acts before it has ended; until then the likely action stands in
        for the decision. ``unknown``: the attributes without known values.
        """
        action = Action.READ if entry.meta.lifecycle.external else Action.UPDATE
        if "imperative" in entry.definition.features:
            action = Action.RUN
        if not may_help:
            return self._make(entry, None, should, Decision(action, error=reason), noop)
        return self._make(entry, None, should, Decision(action), noop, deferred=reason, unknown=unknown)

    def _imperative_step(self, entry: Entry, should: Resource, unknown: Sequence[str], *, noop: bool) -> Step:
        """Plan an imperative resource by its provider's answer whether it is due: it has no state to compare.

        With ``unknown`` attributes, whose values are not known yet, it is deferred. A run that ended half-way and a
        requested replacement (``--replace``, taint) are reasons to run it although it is not due.
        """
        if entry.meta.lifecycle.external:
            return self._make(entry, None, should, Decision(Action.READ), noop)
        replacement = self.collector.explicit_reason(entry)
        if unknown:
            reason = "it needs values that are not yet known"
            noop = noop or self._needs_noop(entry, unknown)
            step = self._undecided_step(entry, should, reason, unknown, noop=noop, may_help=True)
            return step._replace(decision=step.decision._replace(replacement=replacement))
        due = self.queries.due(entry, should)
        if due.failure:
            return self._undecided_step(entry, should, due.failure, noop=noop, may_help=self.has_changes)
        repairs = rerun_reasons(self.prior.records.get(entry.index), replacement)
        if not (due.run or repairs):
            return self._make(entry, due.row, should, SAME, noop)
        reasons = (due.reason, *repairs) if due.reason else repairs
        decision = Decision(Action.RUN, due.differences, reasons, replacement=replacement)
        return self._make(entry, None, should, decision, noop)

    def _with_record(self, step: Step) -> Step:
        """Add the record, the former title, and whether the step corrects drift: the plan shows all three."""
        index = step.entry.index
        if index in self.prior.orphans:
            return step._replace(record=self.prior.state.records.get(step.entry.key))
        record = self.prior.records.get(index)
        if record is None:
            predecessor = self.prior.predecessors.get(index)
            if predecessor is None:
                return step
            # The old resource is deleted by the provider instance that has created it.
            changed_instance = predecessor.instance != step.definition.instance
            old_definition = self.queries.functions(predecessor.instance).definition if changed_instance else None
            return step._replace(record=predecessor, old_definition=old_definition)
        previous = former_names.former_name(self.catalog, step.entry, record)
        decided = would_change(step) and not step.deferred
        corrective = decided and is_corrective(step, record, self.prior.state.salt)
        return step._replace(record=record, previous=previous, corrective=corrective)

    def _with_refresh(self, step: Step) -> Step:
        """Add the names of the resources that refresh this one, because they have changed and notify it.

        They change in this run, or have changed in an earlier one that ended before the refresh and left it owed.
        """
        if not is_refreshable(step):
            return step
        indexes = self.catalog.subscribes.get(step.entry.index, ())
        sources = [self.steps[index] for index in indexes if index in self.steps]
        names = [str(source.reference) for source in sources if self._would_act(source)]
        names += [name for name in self.prior.state.owed.get(step.entry.key, ()) if name not in names]
        return step._replace(refreshed_by=tuple(names)) if names else step

    @property
    def resolve(self) -> Callable[[ExpressionPath], Any]:
        """The function that returns the value of a path into a planned resource, ``UNKNOWN`` until it is known."""
        # Not stored: it refers to this planner, and without the cyclic collector the circle would stay in memory.
        return self.catalog.scope.resolver(self._value_of, self._call)

    def _known_should(self, entry: Entry) -> tuple[Resource, Sequence[str], str]:
        """Return ``should`` with the values of its ``${...}`` as far as known, the unknown attributes, an error or "".

        The unknown attributes refer to values that only this run yields. If a reference cannot be resolved, ``should``
        is returned as declared, with the error.
        """
        values: dict[str, object] = {}
        for name in entry.pending:
            try:
                values[name] = unknowns.pending_value(self.catalog, entry, name, self.resolve)
            except ValueError as error:
                return entry.should, (), str(error)
        without_provider = entry.instance in self.catalog.missing
        functions = (
            ProviderFunctions(entry.definition, {}) if without_provider else self.queries.functions(entry.instance)
        )
        should, problem = unknowns.complete_should(entry, values, functions)
        return should, tuple(name for name, value in values.items() if is_unknown(value)), problem

    def _excluded_attributes(
        self, entry: Entry, unknown: Sequence[str], row: Resource, functions: ProviderFunctions
    ) -> Collection[str]:
        """Return the ``unknown`` attributes that certainly differ from a row: no value of ``${...}`` makes them equal.

        ``v${other.id}`` never equals ``w1``: the plan then shows a change, and not a possible one. With a provider's
        ``canonicalize`` or ``insync`` nothing is certain.
        """
        if functions.canonicalize is not None or functions.insync is not None:
            return ()
        values = ((name, entry.pending[name], row.get(name)) for name in unknown)
        return [name for name, written, is_ in values if not expression.may_yield(written, self.resolve, is_)]

    def _value_of(self, path: ExpressionPath) -> Any:
        """Return the planned value of a reference such as ``File[/a].mode``, for the resource that refers to it.

        A resource outside of the ``--target`` ones has no step: its value is the one that was read. Raises
        ``ValueError`` if it does not exist. A resource whose provider cannot be called yet has ``UNKNOWN`` values.
        """
        assert isinstance(path.root, Reference)
        entry = self.catalog.find(path.root)
        assert entry is not None
        step = self.steps.get(entry.index)
        if step is not None:
            return UNKNOWN if entry.instance in self.catalog.missing else self._predicted_value(path, step)
        row, failure = self.queries.observation(entry)
        if failure or not exists(row):
            raise ValueError(f"{path}: {entry.reference} does not exist and is not among the targets")
        return unknowns.value_of(path, entry.definition, effective_should(entry, row, entry.should), row)

    def _predicted_value(self, path: ExpressionPath, step: Step) -> Any:
        """Return the value of a path after a step, for the resources that refer to it.

        A value that a resource in sync lacks is ``UNKNOWN`` if an earlier change may yield it, else an error.
        """
        try:
            return unknowns.predicted_value(path, step)
        except ValueError:
            index, noop = step.entry.index, self.options.noop
            if step.action is Action.SAME and exists(step.should):
                required = descendants([index], self.catalog.requires) - {index}
                sources = (self.steps[source] for source in required if source in self.steps)
                if any(would_change(source) and not source.is_noop(noop_run=noop) for source in sources):
                    return UNKNOWN
            raise

    def _call(self, call: FunctionCall, inputs: Resource) -> Any:
        """Return a function's result for a value ``${...}``.

        If the function fails, the result is ``UNKNOWN`` where an earlier step may help: it is called again in the run.
        Raise ``EvaluationError`` where none does.
        """
        failure, later, _ = self.queries.readiness(call.instance, self.resolve)
        try:
            return UNKNOWN if later else self.queries.call(call, inputs)
        except ValueError as error:
            if self.has_changes:
                return UNKNOWN
            raise EvaluationError(failure or str(error)) from error

    def _needs_noop(self, entry: Entry, unknown: Sequence[str]) -> bool:
        """Return whether a step must be noop because an ``unknown`` value comes from a noop step, which yields none."""
        required = (self.steps.get(index) for index in self.catalog.requires.get(entry.index, ()) if unknown)
        noop = {step.entry.index for step in required if step is not None and step.noop and would_change(step)}
        if not noop:
            return False
        paths = self.catalog.scope.paths([entry.pending[name] for name in unknown])
        sources = (self.catalog.find(path.root) for path in paths if isinstance(path.root, Reference))
        return any(source is not None and source.index in noop for source in sources)


def first_causes(nodes: Iterable[tuple[T, bool, Iterable[T]]]) -> dict[T, T]:
    """Return node → one acting node among its direct or indirect dependencies; an acting node is its own cause.

    A plan names it as the change for which an unchanged resource is read again. ``nodes`` are tuples of a key, whether
    the node acts, and its direct dependencies, which come before it. A node without an acting dependency is left out.
    """
    causes: dict[T, T] = {}
    for key, acts, before in nodes:
        sources = [key] if acts else [causes[required] for required in before if required in causes]
        if sources:
            causes[key] = sources[0]
    return causes


def would_change(step: Step) -> bool:
    """Return whether a step would change something if it were not noop."""
    return step.action not in {Action.SAME, Action.READ} and not step.decision.error


def is_refreshable(step: Step) -> bool:
    """Return whether the resource will exist after the step: only then a notification of it can lead to a refresh.

    A missing resource that the step leaves absent cannot be refreshed. An imperative resource needs no row for it.
    """
    return step.action not in {Action.DELETE, Action.FORGET, Action.READ} and (
        step.is_ is not None or step.action is not Action.SAME or "imperative" in step.definition.features
    )


def summarize(steps: Sequence[Step], blocked: Collection[int], *, noop: bool) -> Summary:
    """Return the number of steps of each kind; those of ``blocked`` entries count as skipped.

    Steps of noop resources count as unchanged. In a ``noop`` run, where all steps are noop, the steps count as in a run
    without noop, because the summary is the forecast of that run.
    """
    totals: Counter[str] = Counter()
    for step in steps:
        action = step.action
        if step.decision.error:
            totals["failed"] += 1
        elif step.entry.index in blocked:
            totals["skipped"] += 1
        elif step.is_noop(noop_run=noop) or action not in SUMMARY_FIELDS:
            totals["unchanged"] += 1
        else:
            totals[SUMMARY_FIELDS[action]] += 1
            # A notified resource is changed first, then refreshed.
            if step.refreshed_by and action is not Action.REFRESH:
                totals["refreshed"] += 1
    return Summary(**totals)  # type: ignore[arg-type] # counts only


class InputCollector:
    """Collects the inputs of each decision, in the order of planning: later ones depend on earlier replacements."""

    def __init__(self, catalog: Catalog, prior: Prior, options: Options, selected: Collection[int] | None) -> None:
        """Begin with the reasons to replace that are known before planning: ``--replace``, interrupted replacements.

        ``selected``: the indexes of a partial run, None for all. Raises ``UsageError`` if a pattern of ``--replace``
        matches nothing.
        """
        self._catalog = catalog
        self._prior = prior
        self._noop, self._destroy, self._state_options = options.noop, options.destroy, options.state_options
        #: The indices of the resources of ``--replace``.
        self._requested: set[int] = set()
        if options.replace:
            self._requested = targets.matching(options.replace, catalog, "--replace", prior.undeclared)
        #: The references of resources that an interrupted run has replaced without deleting the old one: this run does.
        self._superseded = {
            str(prior.state.records[catalog.entries[index].key].reference)
            for index, kind in prior.orphans.items()
            if kind is OrphanKind.SUPERSEDED and (selected is None or index in selected)
        }
        #: The steps that replace a resource, by the index of their entry.
        self._replaced: dict[int, Step] = {}

    def add_replacement(self, step: Step) -> None:
        """Store a planned replacement: resources made from its values, or ``deleted_with`` it, may be replaced too.

        A replacement that fails, is noop or retains the old resource deletes nothing and does not concern them.
        """
        stays = step.entry.meta.lifecycle.retain or step.is_noop(noop_run=self._noop)
        if not (step.decision.error or stays):
            self._replaced[step.entry.index] = step

    def inputs(self, entry: Entry, steps: Mapping[int, Step]) -> DecisionInputs:
        """Return the inputs for deciding an entry, from its record, the options and the ``steps`` planned before it.

        ``steps``: entry's index → step. An orphan is only deleted or forgotten: it needs no reasons for a replacement.
        """
        index, prior = entry.index, self._prior
        if (kind := prior.orphans.get(index)) is not None:
            record, salt = prior.state.records.get(entry.key), prior.state.salt
            return DecisionInputs(
                record,
                salt=salt,
                orphan=kind,
                destroyed=self._destroy,
                in_doubt=self._is_in_doubt(entry),
                state_options=self._state_options,
            )
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
            in_doubt=self._is_in_doubt(entry),
            state_options=self._state_options,
        )

    def _is_in_doubt(self, entry: Entry) -> bool:
        """Return whether an interrupted run may have created the resource under an id that it could not record.

        The service chooses this id (``identity``), and without it the resource cannot be read: another creation could
        make a duplicate.
        """
        if entry.definition.identity is None:  # it is found by its name
            return False
        record, intent = self._prior.records.get(entry.index), self._prior.state.intents.get(entry.key)
        return (intent is not None and intent.makes) or (record is not None and record.status == "unconfirmed")

    def explicit_reason(self, entry: Entry) -> Replacement | None:
        """Return the reason for a replacement that a command (``--replace``, ``taint``) or a provider gave, or None."""
        record = self._prior.records.get(entry.index)
        if record is not None and record.status == "tainted":
            return Replacement(ReplacementReason.TAINTED)
        return Replacement(ReplacementReason.REQUESTED) if entry.index in self._requested else None

    def _own_reason(self, entry: Entry) -> Replacement | None:
        """Return the reason for a replacement that does not depend on other resources, or None."""
        if (explicit := self.explicit_reason(entry)) is not None:
            return explicit
        predecessor = self._prior.predecessors.get(entry.index)
        if predecessor is not None and (reason := self._prior.instances.replaced.get(predecessor.instance)):
            return Replacement(ReplacementReason.PROVIDER_CONFIGURATION, (reason,))
        return None

    def _reason_elsewhere(self, entry: Entry, steps: Mapping[int, Step]) -> tuple[Replacement | None, bool]:
        """Return the replacement due to another resource's change, or None, and whether it may turn out needless.

        A change in ``replace_triggered_by`` comes first, then the replacement of the resource's host.
        """
        indexes = (trigger.index for trigger in trigger_entries(self._catalog, entry))
        planned = (steps[index] for index in indexes if index in steps)
        carried_out = (step for step in planned if not (step.decision.error or step.is_noop(noop_run=self._noop)))
        triggers = [step for step in carried_out if step.action in _TRIGGERING]
        if triggers:
            step = min(triggers, key=_may_change_nothing)  # one that certainly changes something, if any does
            return Replacement(ReplacementReason.TRIGGERED, (str(step.reference),)), _may_change_nothing(step)
        return self._replacement_with_host(entry)

    def _replacement_with_host(self, entry: Entry) -> tuple[Replacement | None, bool]:
        """Return the replacement of a resource with its host (``deleted_with``) or None, and whether it is conditional.

        The resource disappears with its old host and has to be created on the new one. The host is replaced in this
        run, or an interrupted run has created the new host and this run deletes the old one.
        """
        name = entry.meta.lifecycle.deleted_with
        if not name or not (self._replaced or self._superseded) or not entry.definition.ensurable:
            return None, False
        host = host_of(self._catalog, entry)
        superseded = entry.index in self._prior.records and name in self._superseded
        if host is None or not (host.index in self._replaced or superseded):
            return None, False
        conditional = not superseded and self._replaced[host.index].decision.conditional
        return Replacement(ReplacementReason.HOST_REPLACED, (str(host.reference),)), conditional

    def _lost_sources(self, entry: Entry) -> tuple[dict[str, str], set[str]]:
        """Return attribute → its lost source, and the attributes whose source may turn out not to be lost.

        A lost source is a resource that the value refers to and that its replacement deletes before it creates the new
        one: a resource that was created from such a value may not be able to stay. With create_first the old source
        exists until its dependents are changed, and is not lost.
        """
        lost_sources, conditional = {}, set()
        for name, sources in entry.sources.items():
            steps = [self._replaced[source.index] for source in sources if source.index in self._replaced]
            if lost := [step for step in steps if not step.create_first]:
                step = min(lost, key=lambda step: step.decision.conditional)  # one that is certain, if any is
                lost_sources[name] = str(step.reference)
                if step.decision.conditional:
                    conditional.add(name)
        return lost_sources, conditional

    def untargeted_dependents(self, selected: Collection[int]) -> dict[int, str]:
        """Return replaced entry → a resource outside of the ``selected`` ones that would have to be replaced with it.

        The resource was created from a value of that entry and cannot stay without it. The run must not replace it, so
        that the replacement of the entry fails, with an error that names the resource.
        """
        dependents = {}
        for entry in self._catalog.entries if self._replaced else ():
            record = self._prior.records.get(entry.index)
            if entry.index in selected or record is None or not exists(record.is_):
                continue
            names = [name for name in entry.sources if cannot_outlive_source(entry, name)]
            for source in (source for name in names for source in entry.sources[name]):
                step = self._replaced.get(source.index)
                if step is not None and not step.create_first:
                    dependents[source.index] = str(entry.reference)
        return dependents


def _may_change_nothing(step: Step) -> bool:
    """Return whether a step may find, at its turn, nothing to do: a replacement due to it is then needless."""
    differences = step.decision.differences
    updates = step.action is Action.UPDATE and all(difference.undecided for difference in differences)
    return updates or step.decision.conditional or bool(step.deferred)
