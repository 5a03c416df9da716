"""Asks providers what their changes do besides, for the plan and again right before each ``set``.

What is forbidden then fails before anything is touched. Of a saved plan nothing is done that it does not show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.action import CREATING, Action
from resource_api.model.change import SideEffect, describe_side_effects
from resource_api.model.values.errors import ProviderError, ResourceAPIError, reason
from resource_api.model.values.values import is_unknown
from resource_api.plan.planner import would_change
from resource_api.plan.side_effects import SideEffectRule
from resource_api.provider.context import Context
from resource_api.provider.outcomes import Subject
from resource_api.system import process_guard
from resource_api.transaction.operation_run import OperationRun
from resource_api.transaction.segments import in_order

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from resource_api.model.change import Change
    from resource_api.model.record import RecordKey
    from resource_api.model.step import Operation, Step
    from resource_api.model.type_definition import Name
    from resource_api.plan.planner import Plan
    from resource_api.plugins.provider_pool import ProviderPool
    from resource_api.transaction.transaction import Parts


#: How often a provider is asked about one call whose parts fail: each may be a program that runs for a second.
_MOST_ASKED: Final = 16
#: The actions for which ``set`` is called.
_CALLED: Final = CREATING | {Action.UPDATE, Action.DELETE, Action.IMPORT, Action.RUN}


def ask(
    runs: Sequence[OperationRun], changes: Mapping[Name, Change], providers: ProviderPool
) -> dict[Name, list[SideEffect]]:
    """Return the side effects of one ``set`` of these operations of a type, by the name that causes them.

    Raise what the provider raises, and ``ProviderError`` for an answer of another form.
    """
    definition = runs[0].definition
    subjects = {run.name: Subject(run.step.entry.title, parent=run.step.entry.parent) for run in runs}
    context = Context(definition, providers.run, subjects=subjects, answering=True)
    provider = providers.instance(definition.instance)
    with providers.run.provider_call(), process_guard.contained(), context.activate(provider):
        answers = provider.side_effects(context, changes)
        return _by_cause(answers, changes)


def _by_cause(answers: Any, changes: Mapping[Name, Change]) -> dict[Name, list[SideEffect]]:
    """Return the answers by name; what happens to the changed resources themselves is none."""
    found: dict[Name, list[SideEffect]] = {name: [] for name in changes}
    seen: set[tuple[Name, str, Name, str]] = set()
    for pair in answers or ():
        if not (isinstance(pair, (tuple, list)) and len(pair) == 2 and isinstance(pair[1], SideEffect)):  # noqa: PLR2004 - a pair
            msg = f"side_effects must return pairs of a name and a SideEffect, not {pair!r:.80}"
            raise ProviderError(msg)
        name, effect = tuple(pair[0]) if isinstance(pair[0], list) else pair[0], pair[1].checked()
        if name not in changes:
            msg = f"side_effects reports {name!r:.80}, which is not among the changes"
            raise ProviderError(msg)
        names = (effect.name, *effect.aliases)
        besides = effect.type or effect.tree or changes.keys().isdisjoint(names)
        known = (name, effect.type, effect.name, effect.action)
        if besides and known not in seen:
            seen.add(known)
            found[name].append(effect)
    return found


class SideEffectCheck:
    """Asks right before each ``set`` of a run, and fails the operations whose side effects are forbidden."""

    def __init__(self, parts: Parts) -> None:
        """Take what the stages of the transaction share."""
        self._providers = parts.snapshot.providers
        self._results = parts.results
        self._events = parts.events
        self._bound = parts.plan.options.bound
        self._rule = SideEffectRule(parts.plan, self._providers.functions)

    def allowed(self, runs: Sequence[OperationRun], changes: Mapping[Name, Change]) -> Mapping[Name, Change]:
        """Return the changes that may be made; the operations of the others have failed.

        Raise as ``ask`` does.
        """
        asked = {name: change for name, change in changes.items() if runs[0].definition.asks_side_effects(*change)}
        refused = asked.keys() - self._judge(runs, asked)
        return {name: change for name, change in changes.items() if name not in refused} if refused else changes

    def _judge(self, runs: Sequence[OperationRun], changes: Mapping[Name, Change]) -> Collection[Name]:
        """Ask about changes until none is refused; return the names of those that may be made."""
        while changes:
            asked = [run for run in runs if run.name in changes]
            effects = ask(asked, changes, self._providers)
            refusals = {run.name: why for run in asked if (why := self._refusal(run, effects[run.name]))}
            for run in asked:
                if run.side_effects != (besides := _besides(effects[run.name])):
                    run.side_effects = besides
                    for line in () if run.name in refusals else describe_side_effects(run.side_effects):
                        self._events.log("notice", run, line)
                if run.name in refusals:
                    self._results.fail(run, refusals[run.name])
            if not refusals:
                break
            changes = {name: change for name, change in changes.items() if name not in refusals}
        return changes.keys()

    def _refusal(self, run: OperationRun, effects: Sequence[SideEffect]) -> str:
        """Return why an operation with these side effects must not be carried out; empty: it may be."""
        return next(filter(None, (self._refusal_of(run, effect) for effect in effects)), "")

    def _refusal_of(self, run: OperationRun, effect: SideEffect) -> str:
        if why := self._rule.refusal(run.step, effect):
            return why
        planned = run.step.side_effects if run.step.asks_side_effects else None
        shown = not effect.removes if planned is None else any(each[:3] == effect[:3] for each in planned)
        if not self._bound or shown or effect.asked or self._rule.goes_anyway(run.step, effect):
            return ""
        return f"would also {effect.action} {effect}, which was not planned; plan again"


def with_side_effects(plan: Plan, providers: ProviderPool) -> Plan:
    """Return a plan whose steps have their side effects; those with forbidden ones have failed.

    Each call that the run would make is asked about as a whole. What is not known before the turn of a step is None.
    """
    rule, blocked = SideEffectRule(plan, providers.functions), plan.blocked
    steps: dict[int, Step] = {}
    gone: set[RecordKey] = set()
    for operations in in_order(plan):
        acting = [each for each in operations if _acts(plan, each) and each.step.entry.index not in blocked]
        asked = [run for run in map(OperationRun, acting) if run.asks_side_effects]
        runs = [run for run in asked if not _is_uncertain(run.step)]
        effects = _effects(runs, providers) if runs else {}
        for run in asked:
            step = steps.get(run.step.entry.index, run.step)
            if (found := effects.get(run.name)) is not None:
                found = [each for each in found if not (each.removes and rule.keys(run.step, each) & gone)]
            steps[run.step.entry.index] = _with_effects(step, found, rule)
        gone.update(run.key for run in map(OperationRun, acting) if run.requested().get("ensure") == "absent")
    return plan.with_steps(steps) if steps else plan


def _besides(effects: Sequence[SideEffect]) -> list[SideEffect]:
    """Return what was not asked for."""
    return [effect for effect in effects if not effect.asked]


def _acts(plan: Plan, operation: Operation) -> bool:
    """Return whether ``set`` would be called for an operation."""
    step = operation.step
    forgets = operation.removal and step.action is Action.REPLACE and step.entry.meta.lifecycle.retain
    return (
        step.action in _CALLED
        and would_change(step)
        and not (forgets or step.is_noop(noop_run=plan.options.noop))
        and bool(step.decision.differences or step.action is not Action.IMPORT)
    )


def _is_uncertain(step: Step) -> bool:
    """Return whether only its turn shows what a step sets."""
    return bool(step.deferred or step.decision.conditional) or any(map(is_unknown, step.should.values()))


def _effects(runs: Sequence[OperationRun], providers: ProviderPool) -> Mapping[Name, Sequence[SideEffect]]:
    """Return the side effects of one call by name; nothing for what its provider cannot tell yet.

    Where a call fails, its halves are asked about, as the run would try its resources one by one.
    """
    found: dict[Name, Sequence[SideEffect]] = {}
    waiting, asked = [runs], 0
    while waiting:
        some, asked = waiting.pop(0), asked + 1
        try:
            found |= ask(some, {run.name: run.change() for run in some}, providers)
        except Exception as error:  # noqa: BLE001 - contained: it is asked again at the turn, and what it raises then counts
            middle = len(some) // 2 if asked + len(waiting) + 2 <= _MOST_ASKED else 0
            if middle:
                waiting += [some[:middle], some[middle:]]
            else:
                _log_unknown(some, error, providers)
    return found


def _log_unknown(runs: Sequence[OperationRun], error: Exception, providers: ProviderPool) -> None:
    definition, level = runs[0].definition, "info" if isinstance(error, ResourceAPIError) else "warning"
    text = f"cannot tell yet what else its changes do: {reason(error)}"
    providers.run.log.write(level, definition.name, text, definition.name)


def _with_effects(step: Step, effects: Sequence[SideEffect] | None, rule: SideEffectRule) -> Step:
    """Return a step with its side effects, beside those of its other operation; None: they are not known yet."""
    if effects is None or step.side_effects is None:
        return step._replace(side_effects=None)
    step = step._replace(side_effects=(*step.side_effects, *_besides(effects)))
    why = next(filter(None, (rule.refusal(step, effect) for effect in effects)), "")
    return step._replace(decision=step.decision._replace(error=why)) if why and not step.error else step
