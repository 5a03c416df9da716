"""Decides operations again right before they are carried out, by the same rule as the plan (``plan.decide``).

Unknown values are filled in from the results of earlier operations; resources that may have changed are read again. An
operation that would do more than the plan showed fails. The catalog and the plan stay as they are: new values go into
the ``OperationRun``.

A replacement is conditional if its reason was not certain in the plan. Those of resources that were created from each
other are a group: all that turn out to be needed are carried out, or none.
"""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from resource_api.catalog.graph import reverse
from resource_api.catalog.provider_config import invoke
from resource_api.manifest.conditions import ConditionError
from resource_api.model.action import CREATING, Action
from resource_api.model.change import exists
from resource_api.model.report import SUMMARY_FIELDS
from resource_api.model.step import SAME, Decision, ReplacementReason
from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import CannotList, DefinitionError
from resource_api.model.values.expression import EvaluationError
from resource_api.model.values.reference import Reference, with_path
from resource_api.model.values.text import show
from resource_api.model.values.values import UNKNOWN, is_unknown, same_value
from resource_api.plan import unknowns
from resource_api.plan.decide import decide, effective_should, rerun_reasons
from resource_api.plan.diff import equal_indexes, is_corrective
from resource_api.plan.replacement import (
    conditional_groups,
    conditional_requirements,
    host_of,
    is_triggered,
    trigger_entries,
)
from resource_api.snapshot.observe import DeferredInstances

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from resource_api.model.step import Operation, Step
    from resource_api.model.type_definition import FunctionCall, Name
    from resource_api.model.values.expression import ExpressionPath
    from resource_api.plan.diff import DecisionInputs
    from resource_api.transaction.operation_run import OperationRun
    from resource_api.transaction.transaction_context import TransactionContext

#: Actions that remove or give up a resource: none is carried out in place of another one that the plan showed.
_UNPLANNED: Final = frozenset({Action.REPLACE, Action.DELETE, Action.FORGET})


class Reevaluation:
    """Re-evaluates operations, and resolves references to the values of the resources of this run."""

    def __init__(self, transaction: TransactionContext) -> None:
        """Begin with no operation."""
        self._transaction = transaction
        self._plan = plan = transaction.plan
        self._snapshot = transaction.snapshot
        self._providers = transaction.snapshot.providers
        self._results = transaction.results
        self._deferred = DeferredInstances(plan.catalog.instances, plan.prior.instances, self._providers)
        #: Entry's index → the operation that creates or changes it, once that has begun.
        self._runs: dict[int, OperationRun] = {}
        #: Entry's index → the decision about a conditional replacement, while operations are decided.
        self._present_decisions: dict[int, Decision] = {}
        #: Returns the present value of an expression, from the resources and functions of this run.
        self.resolve = plan.catalog.scope.resolver(self._of_resource, self._invoke)

    def add(self, run: OperationRun) -> None:
        """Add an operation that begins: references to its resource resolve to its values from now on."""
        if not run.removal:
            self._runs[run.step.entry.index] = run

    def decide(self, runs: Sequence[OperationRun], ahead: Sequence[Name] = ()) -> None:
        """Decide operations of one type again, with the present values and rows; those that cannot be decided fail.

        ``ahead``: names of later operations of the type, read in the same ``get`` to save one. Rows of the plan count
        as present as long as this run has changed nothing.
        """
        definition = runs[0].definition
        if runs[0].step.entry.index in self._plan.prior.purges:
            self._list_again(runs)
            return
        self._present_decisions.clear()
        if not self._configure(runs):
            return
        runs = self._fill_in_unknowns(runs)
        if "imperative" in definition.features:
            for run in runs:
                if not run.removal:
                    self._ask_due(run)
            return
        if not self._snapshot.epoch:
            # Nothing was changed in this run: the rows of the plan are still true.
            runs = [run for run in runs if not self._holds_if_same(run)]
        with self._snapshot.providers.run.log.bind(phase="observe"):
            self._snapshot.read(definition, [*(run.name for run in runs), *ahead], fresh=True)
        in_sync, indexes = self._still_in_sync(runs), {run.step.entry.index for run in runs}
        for run in runs:
            if run.number not in in_sync:
                self._decide_as_read(run, indexes)

    def _list_again(self, runs: Sequence[OperationRun]) -> None:
        """List a purged type again: a resource to delete may be gone or excepted by now (contract §10.7)."""
        definition = runs[0].definition
        try:
            with self._providers.run.log.bind(phase="observe"):
                _, failure = self._snapshot.list_whole(definition)
        except CannotList as error:
            failure = str(error)
        for run in runs:
            row, unread = (None, failure) if failure else self._snapshot.observation(definition.instance, run.name)
            run.is_ = row
            if unread:
                self._results.fail(run, f"cannot be listed again: {unread}")
            elif not self._is_still_purged(run):
                self._results.not_needed(run)

    def _is_still_purged(self, run: OperationRun) -> bool:
        """Return whether the purge still includes a resource, or has to drop the record of one that is gone already.

        A resource whose value does not fit the condition ``where`` of the purge is not deleted.
        """
        if not exists(run.is_):
            return run.step.record is not None
        try:
            return self._plan.prior.purges[run.step.entry.index].includes(run.is_ or {})
        except ConditionError:
            return False

    def _decide_as_read(self, run: OperationRun, indexes: Collection[int]) -> None:
        """Decide an operation by its new row.

        ``indexes``: the entries that were read with it. Values that refer to one of them are computed again first.
        """
        row, failure = self._snapshot.observation(run.definition.instance, run.name)
        if failure and run.decision.action is not Action.FORGET:
            self._unreadable(run, with_path(failure, run.step.entry.title, run.name))
            return
        if row is run.is_ and self._holds_if_same(run):
            return
        run.is_ = row
        sources = run.step.entry.sources.values() if run.step.entry.pending and not run.removal else ()
        refers = any(source.index in indexes for entries in sources for source in entries)
        if refers and not self._take_known_values(run):
            return
        if run.step.noop and run.step.decision.conditional:
            return  # shown as planned, because the operation that would decide it is not done
        if run.removal:
            self._decide_removal(run)
        else:
            self._decide_one(run)

    def _still_in_sync(self, runs: Sequence[OperationRun]) -> Collection[int]:
        """Return the numbers of operations of one type that certainly are still in sync, by one comparison of all.

        That is cheaper than to decide about each, which is done for the other operations only. An operation in sync
        gets the new row, which may differ in undeclared values.
        """
        instance = runs[0].definition.instance if runs else ""
        if not runs or self._snapshot.failure(instance):
            return ()
        rows = self._snapshot.rows(instance)
        pairs: list[tuple[OperationRun, Any]] = []
        for run in runs:
            row = rows.get(run.name)
            readable = type(row) is dict and exists(row) and exists(run.should)
            if readable and run.step.decision is SAME and self._holds_if_same(run):
                pairs.append((run, row))
        positions = equal_indexes([(run.step.entry, row) for run, row in pairs], self._providers.functions(instance))
        equal = [pairs[position] for position in positions]
        for run, row in equal:
            if row != run.is_:
                run.is_ = row
        return {run.number for run, _ in equal}

    def _holds_if_same(self, run: OperationRun) -> bool:
        """Return whether the planned decision holds while the row stays the same: all inputs were known in the plan.

        A provider with ``plan`` is asked again: its prediction must be the one that other steps were planned with.
        """
        step = run.step
        return not (run.removal or step.deferred or step.entry.pending or "plan" in step.definition.features)

    def _configure(self, runs: Sequence[OperationRun]) -> bool:
        """Configure and record the provider instance of ``runs``, if its configuration waited for values.

        Return False if that failed: the operations have then failed too.
        """
        configured = self._deferred.configure(runs[0].definition.instance, self.resolve)
        if configured.record is not None:
            self._transaction.recorder.write_instance(configured.record)
        for run in runs if configured.failure else ():
            # Under noop a configuration may stay unknown; then the planned action is shown.
            if not (configured.later and run.step.noop):
                self._results.fail(run, configured.failure)
        return not configured.failure

    def _fill_in_unknowns(self, runs: Sequence[OperationRun]) -> list[OperationRun]:
        """Give operations the values that are known now; return those without an error or, under noop, unknown."""
        noop = self._plan.options.noop
        return [run for run in runs if not (noop and run.step.unknown) and (run.removal or self._fill_in(run))]

    def _fill_in(self, run: OperationRun) -> bool:
        """Give an operation the values that are known now; return False if they are wrong or cannot be known."""
        if run.step.entry.instance in self._plan.catalog.missing:  # without a provider, the plan could not check them
            run.should, problem = self._values_without_plan(run)
            if problem:
                self._unreadable(run, problem)
            return not problem
        return not run.step.entry.pending or self._take_known_values(run)

    def _take_known_values(self, run: OperationRun) -> bool:
        """Give an operation the values that are known now; return False if one is wrong: the operation has failed."""
        run.should, problem = self._known_values(run.step, run.should)
        if problem:
            self._results.fail(run, problem)
        return not problem

    def _values_without_plan(self, run: OperationRun) -> tuple[Mapping[str, Any], str]:
        """Return the declared values of a resource whose provider could not be created in the plan, and a problem.

        The canonical name comes from the provider: the operation is renamed where it differs from the declared one.
        """
        try:
            functions = self._providers.declared(run.step.entry.instance)
        except DefinitionError as error:
            return run.should, str(error)
        if functions.missing:
            return run.should, functions.missing
        should, problem = self._known_values(run.step, run.should)
        if not problem and (name := run.definition.name_of(should)) != run.name:
            problem = self._rename(run, name)
        return should, problem

    def _rename(self, run: OperationRun, name: Name) -> str:
        """Give a resource its canonical name, which is known only now; return the problem with it, or an empty text.

        Another resource may have the name. A record of the name is a problem too, as the plan did not consider it.
        """
        key = run.definition.instance, name
        entries = [step.entry for step in self._plan.steps] + [run.step.entry for run in self._runs.values()]
        for namesake in entries:
            if namesake.key == key:
                return f"is the same resource as {namesake.reference}"
        if key in self._plan.prior.state.records:
            return f"is {show(name)}, as only its provider could tell, and was recorded otherwise; run again"
        entry = copy(run.step.entry)
        entry.name = run.name = name
        run.step = run.step._replace(entry=entry)
        return ""

    def _known_values(
        self, step: Step, should: Mapping[str, object], lost: Collection[str] = ()
    ) -> tuple[Mapping[str, Any], str]:
        """Return ``should`` with the values that became known, and a problem with them or "".

        ``lost``: attributes that stay unknown, as the source of their value is deleted and not created again yet.
        """
        entry, catalog = step.entry, self._plan.catalog
        values: dict[str, object] = {}
        for name, value in entry.pending.items():
            if name in lost:
                values[name] = UNKNOWN
                continue
            try:
                values[name] = unknowns.pending_value(catalog, entry, name, self.resolve)
            except ValueError as error:
                return should, str(error)
            if is_unknown(values[name]) and not step.noop:
                return should, f"'{name}' is still not known: {value}"
        return unknowns.complete_should(entry, values, self._providers.functions(entry.instance))

    def _of_resource(self, path: ExpressionPath) -> Any:
        """Return the value at a path into a resource: as changed by this run, else as read. Raises ``ValueError``.

        A resource that is not created because of noop has the values that the plan predicts.
        """
        assert isinstance(path.root, Reference)
        entry = self._plan.catalog.find(path.root)
        assert entry is not None
        run = self._runs.get(entry.index)
        if run is None:
            row = self._snapshot.observation(entry.instance, entry.name).row
            return unknowns.value_of(path, entry.definition, effective_should(entry, row, entry.should), row)
        if run.step.noop and not exists(run.is_):
            return unknowns.predicted_value(path, run.step)
        return unknowns.value_of(path, entry.definition, run.should, run.is_)

    def _invoke(self, call: FunctionCall, arguments: Mapping[str, object]) -> Any:
        """Return the result of a function. Raises ``EvaluationError``.

        It is unknown if its provider cannot be configured yet, because noop leaves values of its configuration unknown.
        """
        configured = self._deferred.configure(call.instance, self.resolve)
        if configured.later:
            return UNKNOWN
        if configured.failure:
            raise EvaluationError(configured.failure)
        with errors_as(EvaluationError):
            return invoke(call, arguments, self._providers.call_function)

    def _unreadable(self, run: OperationRun, failure: str) -> None:
        """Fail an operation whose resource cannot be read; a deferred noop one is shown as planned instead."""
        if not (run.step.noop and run.step.deferred):
            self._results.fail(run, failure)

    def _decide_one(self, run: OperationRun) -> None:
        """Decide about an operation again, from the values that the resource and those it refers to have now.

        The operation fails if the new action exceeds the plan, which the user has accepted, or if its provider predicts
        other values than those on which the plan of other steps relies.
        """
        step = run.step
        functions = self._providers.functions(step.entry.instance)
        removed = step.action is Action.REPLACE and exists(step.is_)  # then it is created, and not imported again
        inputs = self._inputs(step)._replace(removed=removed)
        if step.decision.unaffected and not step.entry.pending:
            # Of attributes that the provider would not change, ``run.should`` has the values read for the plan.
            run.should = step.entry.should
        decision = decide(step.entry, run.is_, run.should, functions, inputs)
        if step.action is Action.REPLACE and decision.action is Action.CREATE:
            # Its removal has been carried out: the creation is the second half of the replacement.
            decision = step.decision._replace(differences=decision.differences, predicted=decision.predicted)
        if refusal := self._refusal(run, decision):
            run.decision = step.decision
            self._results.fail(run, refusal)
            return
        if changed := _changed_predictions(step, decision):
            self._results.fail(run, f"its provider plans {changed} otherwise than before; run again")
            return
        run.decision = decision
        if decision.action not in CREATING:
            run.should = effective_should(step.entry, run.is_, run.should, decision.unaffected)
        if step.decision.action is Action.SAME and decision.action is not Action.SAME:
            run.step = self._late_step(run)
        if decision.error and step.noop and step.deferred:
            run.decision = step.decision  # an earlier step would remove the cause
        elif decision.error:
            self._results.fail(run, decision.error)

    def _late_step(self, run: OperationRun) -> Step:
        """Return the step, marked as late, of a resource that an earlier change has put out of sync since the plan.

        Whether it corrects drift was not determined in the plan, and is now.
        """
        step = run.step._replace(is_=run.is_, should=run.should, decision=run.decision, late=True)
        record = self._plan.prior.records.get(step.entry.index)
        corrective = record is not None and is_corrective(step, record, self._plan.prior.state.salt)
        return step._replace(corrective=corrective)

    def _decide_removal(self, removal: OperationRun) -> None:
        """End the removal of a resource whose replacement turns out needless, forbidden, or impossible to complete.

        It is impossible where another replacement, in its group or among its requirements, is forbidden: the resource
        would be deleted and not created again. Any other removal goes on.
        """
        step, index = removal.step, removal.step.entry.index
        if step.decision.conditional or self._trigger_unchanged(step):
            decision = self._present_decision(step)
            if decision.action is not Action.REPLACE and not decision.error:
                self._results.unchanged(removal)
                return
            if problem := decision.error or step.decision.forbidden:
                self._results.fail(removal, problem)
                return
        elif step.action is not Action.REPLACE or step.noop or step.create_first:
            return
        requirements = [member for member in self._requirements.get(index, ()) if not self._step(member).noop]
        for member in (index, *requirements):
            if cause := self._forbidden_in_group(member):
                self._results.skip(removal, f"skipped because {cause} failed", cause)
                return

    def _forbidden_in_group(self, index: int) -> str:
        """Return the reference of a resource whose replacement turns out to be forbidden, in a resource's group, or "".

        The members of a group of conditional replacements take values from each other: if one resource has to stay, the
        resources from which it was created must not be removed either.
        """
        for member in self._groups.get(index, ()):
            step = self._step(member)
            if self._results.has_changed(member):
                continue  # removed already
            decision = self._present_decision(step)
            if decision.error or (step.decision.forbidden and decision.action is Action.REPLACE):
                return str(step.reference)
        return ""

    @cached_property
    def _groups(self) -> Mapping[int, Mapping[int, Collection[int]]]:
        """Entry's index → its group of conditional replacements: member → its sources, which are removed after it."""
        return conditional_groups(self._plan.steps)

    @cached_property
    def _requirements(self) -> Mapping[int, Sequence[int]]:
        """Entry's index → the conditional replacements that it requires, directly or not.

        Where one of them is forbidden, the resource is not removed, as it could not be created again.
        """
        if not self._groups:
            return {}
        return conditional_requirements(self._groups, reverse(self._plan.catalog.requires))

    def _step(self, index: int) -> Step:
        """Return the step of an entry that has operations."""
        return self._plan.operations[self._results.operations_of[index][0]].step

    def _present_decision(self, step: Step) -> Decision:
        """Return the decision about a conditional replacement, made once for all members of its group."""
        index = step.entry.index
        if index not in self._present_decisions:
            self._present_decisions[index] = self._decide_by_present_values(step)
        return self._present_decisions[index]

    def _decide_by_present_values(self, step: Step) -> Decision:
        """Return the decision about a conditional replacement, by the values that its sources and triggers have now.

        A value from a source that is deleted is lost. Triggers that have not changed are no reason for a replacement.
        """
        entry = step.entry
        sources = [(name, source) for name, entries in entry.sources.items() for source in entries]
        lost = {name: str(source.reference) for name, source in sources if self._is_lost(source.index)}
        should, problem = self._known_values(step, step.should, lost) if entry.pending else (step.should, "")
        if problem:
            return Decision(Action.REPLACE, error=problem)
        functions = self._providers.functions(entry.instance)
        row = self._snapshot.observation(entry.instance, entry.name).row
        inputs = self._inputs(step)._replace(lost_sources=lost)
        if is_triggered(step):
            indexes = [trigger.index for trigger in trigger_entries(self._plan.catalog, entry)]
            if not (any(map(self._results.has_changed, indexes)) or any(map(self._is_removed, indexes))):
                inputs = inputs._replace(replacement=None)
        return decide(entry, row, should, functions, inputs)

    def _is_lost(self, index: int) -> bool:
        """Return whether a resource is or will be deleted and is not created again yet, so that it has no values."""
        return not (index in self._runs and self._runs[index].finished) and self._is_removed(index)

    def _is_removed(self, index: int) -> bool:
        """Return whether a resource is or will be deleted for its replacement.

        Then resources that it triggers, and those ``deleted_with`` it, are replaced too. A conditional replacement,
        whose reason was not certain in the plan, is decided by the present values.
        """
        step = self._step(index) if index in self._results.operations_of else None
        if step is None or step.action is not Action.REPLACE or step.create_first or step.decision.error:
            return False
        if self._results.has_changed(index):
            return True
        if index in self._runs and self._runs[index].finished:
            return False
        return not step.decision.conditional or self._present_decision(step).action is Action.REPLACE

    def late_removal(self, run: OperationRun) -> Operation | None:
        """Return the removal that has to precede an operation whose replacement became certain only now, or None.

        At its own turn the removal seemed needless and was ended; after that, a value to which the resource refers has
        changed. If values of other resources come from this one, they had to be removed before it, which is too late:
        the operation fails, and the next run replaces all.
        """
        step, index = run.step, run.step.entry.index
        replaces = step.decision.conditional and run.decision.action is Action.REPLACE and exists(run.is_)
        if not replaces or run.removal or run.finished or step.noop:
            return None
        later = [self._step(member) for member, sources in self._groups[index].items() if index in sources]
        if step.decision.forbidden:
            self._results.fail(run, step.decision.forbidden)
        elif later:
            self._results.fail(run, f"would have to be replaced together with {later[0].reference}; run again")
        else:
            operations = [self._plan.operations[number] for number in self._results.operations_of[index]]
            return next(operation for operation in operations if operation.removal)
        return None

    def _inputs(self, step: Step) -> DecisionInputs:
        """Return the inputs of a step's decision; a planned replacement is dropped where its cause did not change."""
        inputs = self._plan.decision_inputs(step)
        return inputs._replace(replacement=None) if self._trigger_unchanged(step) or self._host_kept(step) else inputs

    def _host_kept(self, step: Step) -> bool:
        """Return whether a step replaces only because its host might be replaced, and the host is kept after all.

        The host is the resource in its ``deleted_with``. Then the replacement has lost its reason.
        """
        replacement = step.decision.replacement
        if replacement is None or replacement.reason is not ReplacementReason.HOST_REPLACED:
            return False
        host = host_of(self._plan.catalog, step.entry)
        return host is not None and step.decision.conditional and not self._is_removed(host.index)

    def _trigger_unchanged(self, step: Step) -> bool:
        """Return whether a step replaces only because of its triggers, and none of them changed after all."""
        if not is_triggered(step):
            return False
        return not any(self._may_have_changed(entry.index) for entry in trigger_entries(self._plan.catalog, step.entry))

    def _may_have_changed(self, index: int) -> bool:
        """Return whether a trigger has changed in this run or may still be changed, so that others are replaced."""
        if self._results.has_changed(index):
            return True
        run = self._runs.get(index)
        has_ended = run is not None and (run.finished or run.decision.action is Action.SAME)
        return not has_ended and index in self._results.operations_of

    def _refusal(self, run: OperationRun, decision: Decision) -> str:
        """Return the reason to refuse a new decision that would do more than the plan has shown, or "".

        A replacement has to be in the plan. So has a deletion, unless the plan deferred the decision, or an earlier
        change has put the resource out of sync (``late``). A saved plan was approved as it is: it permits no deferred
        deletion, and a late change only where it shows that as possible.
        """
        step, action = run.step, decision.action
        if action in (step.action, Action.SAME) or run.step.noop:
            return ""
        late, saved = step.decision.action is Action.SAME, self._plan.options.saved
        if late and action in _UNPLANNED and (action is Action.REPLACE or decision.error):
            return f"would be {SUMMARY_FIELDS[action]}; plan again"
        if decision.error:
            return ""
        if late:
            is_announced = not saved or step.entry.index in self._may_change
            return "" if is_announced else "is no longer as planned; plan again"
        if action in _UNPLANNED and (saved or not (step.deferred and action is Action.DELETE)):
            return f"would be {SUMMARY_FIELDS[action]}; plan again"
        return ""

    @cached_property
    def _may_change(self) -> Mapping[int, int]:
        """Index of an entry in sync that an earlier step may put out of sync → the index of that step's entry."""
        return self._plan.may_change()

    def _ask_due(self, run: OperationRun) -> None:
        """Ask the provider whether an imperative resource is due, and decide: run, only refresh, or nothing to do.

        A requested replacement and an interrupted run are reasons to run it too; a change of a resource that it
        subscribes to is one to refresh it.
        """
        entry = run.step.entry
        if entry.meta.lifecycle.external:
            self._results.unchanged(run)
            return
        if any(map(is_unknown, run.should.values())):
            return  # only under noop; then it is shown as planned
        due = self._snapshot.due(entry, run.should)
        pending = rerun_reasons(self._plan.prior.records.get(entry.index), run.step.decision.replacement)
        run.is_ = run.is_ if due.row is None else due.row
        if due.failure:
            self._unreadable(run, due.failure)
        elif due.run or pending:
            reasons = (due.reason, *pending) if due.reason else pending
            self._decide_run(
                run, run.decision._replace(action=Action.RUN, differences=due.differences, reasons=reasons)
            )
        elif self._transaction.refreshes.sources(run):
            run.decision = run.decision._replace(action=Action.SAME)
        else:
            self._results.unchanged(run)

    def _decide_run(self, run: OperationRun, decision: Decision) -> None:
        """Give an imperative resource that is due the decision to run it; fail it if that exceeds the plan."""
        if refusal := self._refusal(run, decision):
            self._results.fail(run, refusal)
            return
        run.decision = decision
        if run.step.decision.action is Action.SAME and not run.step.refreshed_by:
            run.step = run.step._replace(decision=decision, late=True)


def _changed_predictions(step: Step, decision: Decision) -> str:
    """Return the attributes predicted otherwise than in the plan, on which other steps may rely, as text; or ""."""
    # A stable value was read, not predicted: if it differs now, other steps are decided with the new one.
    stable, predicted = step.definition.stable, decision.predicted
    return ", ".join(
        name
        for name, value in step.decision.predicted.items()
        if not (value is UNKNOWN or name in stable or same_value(predicted.get(name, value), value))
    )
