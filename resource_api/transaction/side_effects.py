"""Asks providers for the side effects of their changes, for the plan and again right before each ``set``.

Forbidden are those that undo a declaration, or remove resources of other owners.

An operation with a forbidden side effect fails before anything is touched; a saved plan forbids those it does not show.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.action import CREATING, Action
from resource_api.model.change import SideEffect, describe_side_effects, exists
from resource_api.model.values.errors import ResourceAPIError, ResourceError, reason
from resource_api.model.values.reference import split_instance
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.values import is_unknown
from resource_api.plan.diff import ComparisonError, compare
from resource_api.plan.planner import would_change
from resource_api.provider.base import named_answers
from resource_api.provider.context import Context
from resource_api.provider.outcomes import Subject
from resource_api.system import process_guard
from resource_api.transaction.operation_run import OperationRun

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from resource_api.model.change import Change
    from resource_api.model.entry import Entry
    from resource_api.model.provider_functions import ProviderFunctions
    from resource_api.model.record import RecordKey
    from resource_api.model.step import Operation, Step
    from resource_api.model.type_definition import Name
    from resource_api.model.values.values import Values
    from resource_api.plan.diff import Resource
    from resource_api.plan.planner import ExecutionPlan
    from resource_api.plugins.provider_pool import ProviderPool
    from resource_api.transaction.transaction_context import TransactionContext


#: The limit of questions about one call that fails: each may be a program that runs for a second.
_MOST_QUESTIONS: Final = 16
#: The actions for which ``set`` is called.
_CALLED: Final = CREATING | {Action.UPDATE, Action.DELETE, Action.IMPORT, Action.RUN}


def ask(
    runs: Sequence[OperationRun], changes: Mapping[Name, Change], providers: ProviderPool
) -> dict[Name, list[SideEffect]]:
    """Return the side effects of one ``set`` of these operations of a type, by the name that causes them.

    Pass on exceptions of the provider; raise ``ProviderError`` for a malformed answer.
    """
    definition = runs[0].definition
    subjects = {run.name: Subject(run.step.entry.title, parent=run.step.entry.parent) for run in runs}
    context = Context(definition, providers.run, subjects=subjects, answering=True)
    provider = providers.instance(definition.instance)
    with providers.run.provider_call(), process_guard.contained(), context.activate(provider):
        return _by_cause(provider.side_effects(context, changes), changes)


def _by_cause(answers: Any, changes: Mapping[Name, Change]) -> dict[Name, list[SideEffect]]:
    """Return a provider's answers by name, each once.

    Effects on resources that the same call changes are left out, because the plan shows their changes anyway. Raise
    ``ProviderError`` for an answer that is malformed or about no change.
    """
    effects: dict[Name, list[SideEffect]] = {name: [] for name in changes}
    reported: set[tuple[Name, str, Name, str]] = set()
    for name, unchecked in named_answers("side_effects", SideEffect, answers, changes):
        effect = unchecked.checked()
        is_foreign = effect.type or effect.tree or changes.keys().isdisjoint((effect.name, *effect.aliases))
        key = (name, effect.type, effect.name, effect.action)
        if is_foreign and key not in reported:
            reported.add(key)
            effects[name].append(effect)
    return effects


class SideEffectCheck:
    """Asks right before each ``set`` of a run, and fails the operations whose side effects are forbidden."""

    def __init__(self, transaction: TransactionContext) -> None:
        """Ask the providers of a transaction."""
        self._providers = transaction.snapshot.providers
        self._results = transaction.results
        self._events = transaction.events
        self._bound = transaction.plan.options.bound
        self._rule = SideEffectRule(transaction.plan, self._providers.functions)

    def allowed(self, runs: Sequence[OperationRun], changes: Mapping[Name, Change]) -> Mapping[Name, Change]:
        """Return the changes without forbidden side effects; the operations of all others have failed.

        The provider is asked only about those of which its type declares side effects. Raise as ``ask``.
        """
        definition = runs[0].definition
        candidates = {name: change for name, change in changes.items() if definition.asks_side_effects(*change)}
        refused = candidates.keys() - self._judge(runs, candidates)
        return {name: change for name, change in changes.items() if name not in refused} if refused else changes

    def _judge(self, runs: Sequence[OperationRun], changes: Mapping[Name, Change]) -> Collection[Name]:
        """Return the names of the changes that are allowed.

        After a refusal the provider is asked again about the rest, as fewer changes may have other effects. The effects
        are stored in the operations and logged; the operations of refused changes have failed.
        """
        while changes:
            judged = [run for run in runs if run.name in changes]
            effects = ask(judged, changes, self._providers)
            refused = {run.name for run in judged if self._fail_if_refused(run, effects[run.name])}
            if not refused:
                break
            changes = {name: change for name, change in changes.items() if name not in refused}
        return changes.keys()

    def _fail_if_refused(self, run: OperationRun, effects: Sequence[SideEffect]) -> bool:
        """Fail an operation with forbidden side effects; return whether it has failed.

        Allowed side effects are logged, unless an earlier answer of the provider had the same. The declared changes
        themselves, which an answer may contain (``asked``), are none.
        """
        refusal, unasked = self._refusal(run, effects), _unasked(effects)
        if run.side_effects != unasked:
            run.side_effects = unasked
            for line in () if refusal else describe_side_effects(unasked):
                self._events.log("notice", run, line)
        if refusal:
            self._results.fail(run, refusal)
        return bool(refusal)

    def _refusal(self, run: OperationRun, effects: Sequence[SideEffect]) -> str:
        """Return the reason to refuse these side effects, or "": they are forbidden, or beyond the plan.

        If the user has approved the plan (``_bound``), no side effect may happen that it does not show. Where the plan
        could not show any, only removals are refused.
        """
        planned = run.step.side_effects if run.step.asks_side_effects else None
        planned_keys = {(effect.name, effect.action, effect.type) for effect in planned or ()}
        for effect in effects:
            if refusal := self._rule.refusal(run.step, effect):
                return refusal
            if planned is None:
                was_planned = not effect.removes
            else:
                was_planned = (effect.name, effect.action, effect.type) in planned_keys
            if self._bound and not (was_planned or effect.asked or self._rule.goes_anyway(run.step, effect)):
                return f"would also {effect.action} {effect}, which was not planned; plan again"
        return ""


class Refusal(NamedTuple):
    """The reason why the side effects of steps are unknown: their change would fail as things are."""

    steps: Sequence[Step]
    #: The first step of the call: an earlier one may make the change possible.
    first: Step
    reason: str


def with_side_effects(plan: ExecutionPlan, providers: ProviderPool) -> tuple[ExecutionPlan, Sequence[Refusal]]:
    """Return the plan with the side effects of its steps, and the refusals; steps with forbidden effects have failed.

    The provider is asked about each ``set`` of the run as a whole, as a package manager resolves all changes at once.
    Effects are None where a step's values are known only in the run.
    """
    rule, blocked = SideEffectRule(plan, providers.functions), plan.blocked
    steps: dict[int, Step] = {}
    # The resources that earlier segments delete themselves: their removal is no side effect of a later one.
    gone: set[RecordKey] = set()
    refusals: list[Refusal] = []
    for operations in plan.segments:
        acting = [
            OperationRun(operation)
            for operation in operations
            if _acts(plan, operation) and operation.step.entry.index not in blocked
        ]
        with_effects = [run for run in acting if run.asks_side_effects]
        predictable = [run for run in with_effects if not _has_late_values(run.step)]
        effects_by_name, refused = _effects(predictable, providers) if predictable else ({}, [])
        refusals += refused
        for run in with_effects:
            effects = effects_by_name.get(run.name)
            if effects is not None:
                effects = [effect for effect in effects if not (effect.removes and rule.keys(run.step, effect) & gone)]
            index = run.step.entry.index
            steps[index] = _with_effects(steps.get(index, run.step), effects, rule)
        gone.update(run.key for run in acting if run.requested().get("ensure") == "absent")
    return plan.with_steps(steps) if steps else plan, refusals


def _unasked(effects: Sequence[SideEffect]) -> list[SideEffect]:
    """Return the side effects without the declared changes themselves, which a plan shows anyway."""
    return [effect for effect in effects if not effect.asked]


def _acts(plan: ExecutionPlan, operation: Operation) -> bool:
    """Return whether the run would call ``set`` for an operation: only then it has side effects.

    A handler of failures is left out, as it normally does not run; an import without differences changes nothing.
    """
    step = operation.step
    forgets = operation.removal and step.action is Action.REPLACE and step.entry.meta.lifecycle.retain
    return (
        step.action in _CALLED
        and not step.entry.meta.on_failure
        and would_change(step)
        and not (forgets or step.is_noop(noop_run=plan.options.noop))
        and bool(step.decision.differences or step.action is not Action.IMPORT)
    )


def _has_late_values(step: Step) -> bool:
    """Return whether the values that a step sets are known only in the run."""
    return bool(step.deferred or step.decision.conditional) or any(map(is_unknown, step.should.values()))


def _effects(
    runs: Sequence[OperationRun], providers: ProviderPool
) -> tuple[Mapping[Name, Sequence[SideEffect]], Sequence[Refusal]]:
    """Return the side effects of one ``set`` by name, and the refusals of its provider (``ResourceError``).

    After a failed question its halves are asked separately: one bad resource must not hide the effects of the rest.
    """
    effects: dict[Name, Sequence[SideEffect]] = {}
    refusals: list[Refusal] = []
    waiting, questions = [runs], 0
    while waiting:
        batch, questions = waiting.pop(0), questions + 1
        try:
            effects |= ask(batch, {run.name: run.change() for run in batch}, providers)
        except Exception as error:  # noqa: BLE001 - contained: it is asked again at the turn, and an error then counts
            # It is split only if the limit allows both halves, besides the calls that wait.
            middle = len(batch) // 2 if questions + len(waiting) + 2 <= _MOST_QUESTIONS else 0
            if middle:
                waiting += [batch[:middle], batch[middle:]]
            else:
                definition, level = batch[0].definition, "info" if isinstance(error, ResourceAPIError) else "warning"
                text = f"cannot tell yet what else its changes do: {reason(error)}"
                providers.run.log.write(level, definition.name, text, definition.name)
            if isinstance(error, ResourceError):
                refusals.append(Refusal([run.step for run in batch], runs[0].step, reason(error)))
    return effects, _smallest(refusals)


def _smallest(refusals: Sequence[Refusal]) -> Sequence[Refusal]:
    """Return the refusals without those that include a smaller one: that names the resources more precisely."""
    indices = [{step.entry.index for step in refusal.steps} for refusal in refusals]
    return [
        refusal for refusal, whole in zip(refusals, indices, strict=True) if not any(part < whole for part in indices)
    ]


def _with_effects(step: Step, effects: Sequence[SideEffect] | None, rule: SideEffectRule) -> Step:
    """Return a step with side effects of an operation added (None: unknown); a forbidden one makes it an error."""
    if effects is None or step.side_effects is None:
        return step._replace(side_effects=None)
    step = step._replace(side_effects=(*step.side_effects, *_unasked(effects)))
    refusal = next(filter(None, (rule.refusal(step, effect) for effect in effects)), "")
    return step._replace(decision=step.decision._replace(error=refusal)) if refusal and not step.error else step


class SideEffectRule:
    """Decides about the side effects of the steps of one plan."""

    def __init__(self, plan: ExecutionPlan, functions: Callable[[str], ProviderFunctions]) -> None:
        """Take a plan, and a getter of the pure functions of a provider instance."""
        self._plan = plan
        self._functions = functions

    @cached_property
    def _entries(self) -> Mapping[RecordKey, Entry]:
        """The declared resources and orphans by key, to find the one that a side effect happens to."""
        return {entry.key: entry for entry in self._plan.catalog.entries}

    @cached_property
    def _steps(self) -> Mapping[int, Step]:
        """Entry's index → its step."""
        return {step.entry.index: step for step in self._plan.steps}

    def refusal(self, step: Step, effect: SideEffect) -> str:
        """Return the reason to refuse a step because of a side effect, or "".

        No side effect may contradict a declaration, nor may the declared change itself (``asked``). A deletion that no
        declaration demands (``destroy``, ``--prune``) may take along only resources that the same run deletes too.
        """
        entries = list(self._concerned(step, effect))
        orphans = self._plan.prior.orphans
        advice = f"to leave {step.reference} as it is, take its declaration away and list it under 'removed:'"
        for entry in entries:
            if entry.index not in orphans and self._contradicts(step, entry, effect):
                value = "as present" if effect.removes else "otherwise"
                position = self._plan.catalog.manifest.place(entry.declaration)
                declared = position.after(f"{entry.reference} declares {value}")
                if effect.asked:
                    return f"would {effect.action} {effect}, which {declared}"
                return f"would also {effect.action} {effect}, which {declared}; {advice}"
        if not effect.removes or effect.asked or step.entry.index not in orphans or self._came_with(effect, entries):
            return ""
        recorded = not self.keys(step, effect).isdisjoint(self._plan.prior.state.records)
        reason = "which this run is not to delete" if recorded else "which is not ours"
        return f"would also {effect.action} {effect}, {reason}; {advice}"

    def keys(self, step: Step, effect: SideEffect) -> set[RecordKey]:
        """Return the keys that a side effect's resource may have: several instances may manage the same place."""
        instances = self._instances.get(effect.type or step.definition.name, ())
        reached = [instance for instance in instances if self._same_place(step.definition.instance, instance)]
        return {(instance, name) for instance in reached for name in (effect.name, *effect.aliases)}

    @cached_property
    def _instances(self) -> Mapping[str, Collection[str]]:
        """Type → the provider instances of its declared and recorded resources: a side effect may reach any."""
        instances: dict[str, set[str]] = {}
        for instance, _ in (*self._entries, *self._plan.prior.state.records):
            instances.setdefault(split_instance(instance)[0], set()).add(instance)
        return instances

    def _same_place(self, instance: str, candidate: str) -> bool:
        """Return whether two provider instances may manage the same place, so that a side effect reaches both.

        They do unless ``diff_config`` of the second finds settings that lead to other resources.
        """
        if instance == candidate:
            return True
        config, candidate_config = self._config(instance), self._config(candidate)
        compare_configs = self._functions(candidate).diff_config if config and candidate_config else None
        return compare_configs is None or not compare_configs(config or {}, candidate_config or {})

    def _config(self, instance: str) -> Resource | None:
        """Return the declared or else the recorded configuration of a provider; None if neither is known."""
        if (declared := self._plan.catalog.instances.get(instance)) is not None:
            return declared.config
        recorded = self._plan.prior.instances.recorded.get(instance)
        return None if recorded is None else recorded.should

    def goes_anyway(self, step: Step, effect: SideEffect) -> bool:
        """Return whether a side effect removes a resource that the run deletes by a step of its own, which is shown."""
        entries = (self._entries.get(key) for key in self.keys(step, effect) if effect.removes)
        return any(entry is not None and self._is_deleted(entry) for entry in entries)

    def _concerned(self, step: Step, effect: SideEffect) -> Iterator[Entry]:
        """Yield the declared resources and orphans that a side effect changes or removes.

        If it removes a whole tree, such as a directory, all resources below are among them.
        """
        yield from (self._entries[key] for key in self.keys(step, effect) if key in self._entries)
        if effect.tree:
            types = self._instances.get(effect.type or step.definition.name, ())
            yield from (entry for entry in self._entries.values() if _is_below(entry, str(effect.name), types))

    def _came_with(self, effect: SideEffect, entries: Sequence[Entry]) -> bool:
        """Return whether a resource may be removed as a side effect of deleting one that is no longer declared.

        It may be removed if the run deletes it in any case, or if it is no entry of the catalog and came with the
        deleted resource, as the group of a user does. The content of a deleted directory (``tree``) always goes with
        the directory. ``entries``: the catalog's entries of the removed resource.
        """
        if effect.dependent and effect.tree:
            return True
        # A declared resource has been judged already.
        orphans = (entry for entry in entries if entry.index in self._plan.prior.orphans)
        return all(map(self._is_deleted, orphans)) if entries else effect.dependent

    def _is_deleted(self, entry: Entry) -> bool:
        """Return whether the run deletes a resource by a step of its own."""
        step = self._steps.get(entry.index)
        return step is not None and step.action is Action.DELETE and not step.error

    def _contradicts(self, step: Step, entry: Entry, effect: SideEffect) -> bool:
        """Return whether an effect of ``step`` leaves ``entry`` otherwise than declared, and no later step mends it.

        A removal contradicts every resource that is declared as present, even if a later step would create it again.
        For a change, the row as it would be after the effect is compared with the declaration.
        """
        planned = self._steps.get(entry.index)
        should = {name: value for name, value in (planned or entry).should.items() if not is_unknown(value)}
        if entry.index == step.entry.index:
            return False
        if effect.removes:
            return exists(should)
        is_, state = (planned.is_ if planned is not None else None) or {}, effect.state or {}
        if planned is not None and entry.index > step.entry.index and _would_restore(planned, state):
            return False
        if not exists(should):
            return "ensure" in state  # it would be present again, and is declared absent
        after = {name: _with_same_change(should.get(name), is_.get(name), value) for name, value in state.items()}
        try:
            differences = compare(entry, {**is_, **after}, should, self._functions(entry.instance))
        except ComparisonError:
            return False
        relevant = state.keys() - set(entry.meta.lifecycle.ignore_changes)
        return any(difference.attribute in relevant for difference in differences)


def _would_restore(step: Step, state: Values) -> bool:
    """Return whether a later step sets one of the attributes that a side effect changes to ``state``."""
    changed = {difference.attribute for difference in step.decision.differences} or {"ensure"}
    return would_change(step) and ("ensure" in changed or not changed.isdisjoint(state))


def _with_same_change(declared: object, before: object, after: object) -> object:
    """Return the value that a declared attribute has after a side effect that turns ``before`` into ``after``.

    A list may be set as declared before the side effect happens: then it loses and gains the same members. An effect
    from ``[a, b]`` to ``[a, b, d]`` makes ``[a, c, d]`` of the declared ``[a, c]``. Any other value is ``after``.
    """
    if not isinstance(declared, list) or not isinstance(after, list):
        return after
    former, present, expected = map(_members, (before if isinstance(before, list) else [], after, declared))
    return [value for value in declared if value in present or value not in former] + [
        value for value in after if value not in former and value not in expected
    ]


def _members(values: list[object]) -> Collection[object]:
    """Return values to be searched: a set, which is fast for a long list, unless one cannot be hashed."""
    try:
        return frozenset(values)
    except TypeError:
        return values


def _is_below(entry: Entry, top: str, instances: Collection[str]) -> bool:
    """Return whether a resource is in the tree below the path ``top``, such as a removed directory.

    The criterion is its name, for the provider ``instances`` of the tree's type and for types of this machine whose
    names are paths. ``a/`` means all in ``a``.
    """
    parts = entry.name if isinstance(entry.name, tuple) else (entry.name,)
    definition, slash = entry.definition, "" if top.endswith("/") else "/"
    # Of a type whose providers take no configuration a path is one of this machine.
    local = top[:1] == "/" and definition.ensurable and not definition.config.attributes
    within = any(f"{part}{slash}".startswith(f"{top}{slash}") for part in parts)
    return within and (local or entry.instance in instances)
