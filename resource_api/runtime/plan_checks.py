"""Checks of a plan beyond the planner: the users' policies, and the prerequisites of its changes (``preflight``).

A policy warns of, or forbids, declared resources and plans: its error fails the step that it names, or every step. A
finding of ``preflight`` is only a warning, dropped where an earlier step provides the missing thing.
"""

from __future__ import annotations

from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from resource_api.catalog.graph import descendants, reverse
from resource_api.model.action import CREATING, Action
from resource_api.model.change import exists
from resource_api.model.report import Diagnosed, Event
from resource_api.model.step import Policy, PolicyPlan, PolicyResource, PolicyStep, Step
from resource_api.model.values import reference
from resource_api.model.values.errors import Problem, ResourceError, reason
from resource_api.model.values.values import copy_resource, is_unknown
from resource_api.plan.planner import ExecutionPlan, would_change
from resource_api.plan.targets import tags
from resource_api.plugins import loader
from resource_api.provider.base import named_answers
from resource_api.provider.context import Context
from resource_api.provider.outcomes import Subject
from resource_api.system import process_guard
from resource_api.system.process_guard import read_only

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from resource_api.catalog.compile import Catalog
    from resource_api.model.declaration import Manifest
    from resource_api.model.entry import Entry
    from resource_api.model.type_definition import Name
    from resource_api.plugins.provider_pool import ProviderPool
    from resource_api.prior.match import Prior
    from resource_api.transaction.side_effects import Refusal


class PolicyEvaluator:
    """Evaluates the policies of one run; ``notify`` receives each warning once."""

    def __init__(self, policies: Sequence[Policy], notify: Callable[[Event], None]) -> None:
        """Evaluate ``policies``; ``check_catalog`` is called first, and sets the stack and the manifest."""
        self._policies = policies
        #: Returns an entry's URN, which contains the name of the stack.
        self._urn: Callable[[Entry], str]
        #: The manifest, which has the positions of the declarations.
        self._manifest: Manifest
        self._notify = notify
        #: The warnings sent so far. A resource is checked in the plan and again before its step, and warns once.
        self._sent: set[Problem] = set()

    def check_catalog(self, catalog: Catalog, prior: Prior, selected: set[int] | None) -> Prior:
        """Check every selected resource (None: all) whose values are known by the policies.

        Return ``prior`` with the errors, by which the planner fails the steps of forbidden resources. A resource with
        unknown values is checked during the run, when they are known. The stack and the manifest are stored for the
        other checks.
        """
        self._urn = prior.urn
        self._manifest = catalog.manifest
        errors = dict(prior.errors)
        for entry in catalog.entries:
            chosen = (selected is None or entry.index in selected) and entry.index not in prior.orphans
            if chosen and not entry.pending and (error := self.check_resource(entry, entry.should)):
                errors.setdefault(entry.index, error)
        return prior._replace(errors=errors)

    def check_resource(self, entry: Entry, should: Mapping[str, object]) -> str:
        """Check the requested values of one resource by the policies; return the errors in one text, "" if allowed.

        Warnings of the policies are sent.
        """
        lifecycle, values = entry.meta.lifecycle, MappingProxyType(copy_resource(should))
        identity = _identity(entry, self._urn(entry))
        declared = PolicyResource(*identity, should=values, protect=bool(lifecycle.protect), noop=bool(entry.meta.noop))
        errors = []
        for policy in self._policies:
            if policy.resource is not None:
                problems = list(_evaluated(policy, policy.resource, declared))
                errors += [problem.message for problem in problems if problem.severity == "error"]
                self._warn(_at_declaration(problem, entry, self._manifest) for problem in problems)
        return "; ".join(errors)

    def check_plan(self, planned: ExecutionPlan) -> ExecutionPlan:
        """Check a plan by the policies; return it with the forbidden steps failed.

        Raise ``ResourceError`` for a plan that is forbidden as a whole and has no acting step to fail.
        """
        state = planned.prior.state
        policy_plan = PolicyPlan(state.project, state.stack, tuple(map(_policy_step, planned.steps)), planned.complete)
        problems = [
            problem
            for policy in self._policies
            if policy.plan is not None
            for problem in _of_steps(policy, policy_plan, _evaluated(policy, policy.plan, policy_plan))
        ]
        self._warn(problems)
        errors = [problem for problem in problems if problem.severity == "error"]
        return _with_failures(planned, errors) if errors else planned

    def _warn(self, problems: Iterable[Problem]) -> None:
        """Send each warning to ``notify``, unless it was sent before; errors are not sent, as they fail steps."""
        for problem in problems:
            if problem.severity != "error" and problem not in self._sent:
                self._sent.add(problem)
                self._notify(Diagnosed(problem))


def _evaluated(policy: Policy, check: Callable[[Any], Any], value: object) -> Iterator[Problem]:
    """Yield the problems that a policy returns for a resource or a plan.

    An exception of the policy becomes an error as well, because a broken policy must allow nothing.
    """
    try:
        with read_only("a policy"):
            answer = process_guard.call_contained(check, value)
            is_single = isinstance(answer, (str, Problem))
            answers = [answer] if is_single else process_guard.call_contained(list, answer or ())
        for problem in map(_policy_problem, answers):
            yield problem._replace(message=f"policy '{policy.name}': {problem.message}", code="policy")
    except Exception as error:  # noqa: BLE001 - a broken policy allows nothing
        first_line = getattr(getattr(check, "__code__", None), "co_firstlineno", 1)
        position = f"{policy.file}:{loader.line_of(error, policy.file, first_line)}"
        message = f"policy '{policy.name}' failed at {position}: {reason(error, with_origin=False)}"
        yield Problem(None, message, code="policy")


def _policy_problem(answer: object) -> Problem:
    """Return a policy's answer, a text or a ``Problem``, as a checked ``Problem``.

    Raise ``TypeError`` or ``ValueError`` for anything else, so that a wrong policy is reported.
    """
    if not isinstance(answer, (str, Problem)):
        raise TypeError(f"a policy returns strings and Problems, not {type(answer).__name__}")
    problem = answer.checked() if isinstance(answer, Problem) else Problem(None, answer)
    if not problem.message:
        raise ValueError("a policy returns None, not an empty text, where nothing is wrong")
    return problem


def _of_steps(policy: Policy, policy_plan: PolicyPlan, problems: Iterator[Problem]) -> Iterator[Problem]:
    """Yield the problems of a policy about a plan, each about one of its steps or about the whole plan.

    A problem with the reference of a resource that has no step becomes one about the whole plan, which then fails all
    steps: otherwise the policy's typing error would allow everything.
    """
    references = {step.reference for step in policy_plan.steps}
    for problem in problems:
        if problem.reference and problem.reference not in references:
            message = f"policy '{policy.name}' names {problem.reference}, which is not in the plan: {problem.message}"
            yield problem._replace(message=message, reference="")
        else:
            yield problem


def _with_failures(planned: ExecutionPlan, errors: Sequence[Problem]) -> ExecutionPlan:
    """Return a plan in which the steps that policies forbid have failed, so that they are not carried out.

    An error without a reference, about the whole plan, fails all steps that would change something. Raise
    ``ResourceError`` if there are none: a forbidden plan must not pass unnoticed.
    """
    by_reference: dict[str, list[str]] = {}
    for error in errors:
        by_reference.setdefault(error.reference or "", []).append(error.message)
    whole = by_reference.pop("", [])
    if whole and not any(map(would_change, planned.steps)):
        raise ResourceError("; ".join(whole))
    failed: dict[int, Step] = {}
    for step in planned.steps:
        if messages := [*by_reference.get(str(step.reference), []), *(whole if would_change(step) else [])]:
            earlier = [step.decision.error] if step.decision.error else []
            decision = step.decision._replace(error="; ".join([*earlier, *messages]))
            failed[step.entry.index] = step._replace(decision=decision)
    return planned.with_steps(failed)


def _identity(entry: Entry, urn: str) -> tuple[str, str, str, str, Name, str, frozenset[str]]:
    """Return the fields with which a ``PolicyResource`` and a ``PolicyStep`` begin."""
    name: Name = entry.name
    return str(entry.reference), urn, entry.type, entry.title, name, entry.parent, frozenset(tags(entry))


def _policy_step(step: Step) -> PolicyStep:
    """Return a step for policies, with copies of its values, so that a policy cannot change the plan."""
    return PolicyStep(
        *_identity(step.entry, step.urn),
        action=str(step.action),
        is_=None if step.is_ is None else MappingProxyType(copy_resource(step.is_)),
        should=MappingProxyType(copy_resource(step.should)),
        changes=tuple(difference.attribute for difference in step.decision.differences),
        noop=step.noop,
        error=step.decision.error,
    )


#: The actions with a check of the machine: create, replace, update and run.
_CHECKED_ACTIONS: Final = CREATING | {Action.UPDATE, Action.RUN}


def preflight_warnings(plan: ExecutionPlan, providers: ProviderPool) -> list[Problem]:
    """Return the missing prerequisites of a plan's steps, as warnings with the positions of the declarations.

    An error of a provider's ``preflight`` is dropped if an earlier step of the plan may provide the missing thing. A
    warning of the provider is always returned.
    """
    manifest, acting = plan.catalog.manifest, _acting(plan)
    by_instance: dict[str, dict[Name, Step]] = {}
    for step in acting.values():
        if _is_checked(step):
            by_instance.setdefault(step.definition.instance, {})[step.name] = step
    earlier = _EarlierSteps(plan, acting)
    findings = [
        _at_declaration(problem, step.entry, manifest)._replace(severity="warning", code="preflight")
        for steps in by_instance.values()
        for step, problem in _findings(steps, providers)
        if problem.severity == "warning" or not earlier.provides(step, problem)
    ]
    return sorted(findings, key=lambda problem: (problem.file, problem.line, problem.column))


def refusal_warnings(
    plan: ExecutionPlan, refusals: Sequence[Refusal], warnings: Sequence[Problem]
) -> Iterator[Problem]:
    """Yield a warning for each of ``refusals``: changes that failed in the simulation of their program, as by apt.

    A change gets no warning if an earlier step may make it possible, or if one of its steps has a warning of
    ``preflight`` already (``warnings``).
    """
    earlier = _EarlierSteps(plan, _acting(plan))
    warned = {problem.reference for problem in warnings}
    for refusal in refusals:
        first, *others = refusal.steps
        together = f" together with {', '.join(str(step.reference) for step in others)}" if others else ""
        problem = Problem(None, f"would fail now{together}: {refusal.reason}")
        is_reported = any(str(step.reference) in warned for step in refusal.steps)
        if not is_reported and not earlier.provides(refusal.first, problem):
            placed = _at_declaration(problem, first.entry, plan.catalog.manifest)
            yield placed._replace(severity="warning", code="preflight")


def _acting(plan: ExecutionPlan) -> dict[int, Step]:
    """Return entry's index → step, of the steps that would change something."""
    noop = plan.options.noop
    return {step.entry.index: step for step in plan.steps if would_change(step) and not step.is_noop(noop_run=noop)}


def _is_checked(step: Step) -> bool:
    """Return whether ``preflight`` can check a step: its values are known, and its type checks the step's action.

    A type with the feature ``preflight`` checks all actions except deletions, for these ``preflight_of_removals``.
    """
    features = step.definition.features
    actions = _CHECKED_ACTIONS | {Action.DELETE} if "preflight_of_removals" in features else _CHECKED_ACTIONS
    return "preflight" in features and step.action in actions and not step.deferred


class _EarlierSteps:
    """The resources that the steps before a step provide, for which ``preflight`` must not warn that they are missing.

    Beyond an exact ``needs``, two kinds of steps that would change something count as providing it: one that is
    explicitly required, which is declared there for a reason, and an earlier one of a type in ``brought_by``.
    """

    def __init__(self, plan: ExecutionPlan, acting: Mapping[int, Step]) -> None:
        """Index the ``acting`` steps of a plan (entry's index → step), those that would change something, by type."""
        self._plan = plan
        self._acting = acting
        self._indices = sorted(acting)
        #: Type → the indices of its acting steps, ascending.
        self._by_type: dict[str, list[int]] = {}
        for index in self._indices:
            self._by_type.setdefault(acting[index].definition.name, []).append(index)

    def provides(self, step: Step, problem: Problem) -> bool:
        """Return whether a step before ``step`` may meet the requirement of a problem, so that no warning is needed.

        Such a step creates the resource ``needs``, has a type in ``brought_by``, or is an explicit requirement of the
        step. For a problem without ``needs`` any earlier step may be the one.
        """
        index = step.entry.index
        if problem.needs is None:
            return self._is_one_before(self._indices, index)
        entry = self._plan.catalog.find(reference.parse(problem.needs))
        if entry is not None and entry.index in self._present and self._is_one_before([entry.index], index):
            return True
        if index in self._after_acting:
            return True
        return any(self._is_one_before(self._by_type.get(name, ()), index) for name in problem.brought_by)

    @cached_property
    def _present(self) -> set[int]:
        """The indices of the entries whose resources will exist after the run, as they may be prerequisites of others.

        Steps that have an error already, or are only simulated, create nothing.
        """
        noop = self._plan.options.noop
        return {
            step.entry.index
            for step in self._plan.steps
            if not step.error and not step.is_noop(noop_run=noop) and exists(step.should)
        }

    def _is_one_before(self, indices: Sequence[int], index: int) -> bool:
        """Return whether one of ``indices`` (ascending) is carried out before ``index``.

        In a sequential run steps are carried out in the order of their indices. In a parallel run only the requirements
        of a step are certain to be before it.
        """
        if self._plan.options.parallel > 1:
            return not (descendants([index], self._plan.catalog.requires) - {index}).isdisjoint(indices)
        return bool(indices) and indices[0] < index

    @cached_property
    def _after_acting(self) -> set[int]:
        """The indices of the entries that require an acting step, directly or not, by a relationship that was declared.

        The author of such a relationship may know that the step brings what the entry needs.
        """
        automatic = self._plan.catalog.automatic
        explicit = {
            then: [first for first in before if (first, then) not in automatic]
            for then, before in self._plan.catalog.requires.items()
        }
        after = reverse(explicit)
        return descendants((then for index in self._acting for then in after.get(index, ())), after)


def _findings(steps: Mapping[Name, Step], providers: ProviderPool) -> Iterator[tuple[Step, Problem]]:
    """Yield the findings of one provider's ``preflight`` as pairs of step and problem.

    Unknown values of the steps are omitted. A failure of ``preflight`` itself becomes a finding about the first step,
    since it concerns no single one and must not end the plan.
    """
    first = next(iter(steps.values()))
    context = Context(
        first.definition,
        providers.run,
        subjects={name: Subject(step.entry.title, parent=step.entry.parent) for name, step in steps.items()},
        answering=True,
    )
    changes = {
        name: copy_resource({attribute: value for attribute, value in step.should.items() if not is_unknown(value)})
        for name, step in steps.items()
    }
    try:
        provider = providers.instance(first.definition.instance)
        with providers.run.provider_call(), process_guard.contained(), context.activate(provider):
            pairs = named_answers("it", Problem, provider.preflight(context, changes), steps)
            answers = [(steps[name], _checked(problem)) for name, problem in pairs]
    except Exception as error:  # noqa: BLE001 - contained: a plan is as true without its warnings
        context.log_traceback(error)
        yield first, Problem(None, f"preflight of its provider failed: {reason(error)}")
    else:
        yield from answers


def _checked(problem: Problem) -> Problem:
    """Return a problem of ``preflight`` unless its fields are wrong, so that the provider's mistake is reported.

    Raise ``ProviderError`` for a wrong field, ``ValueError`` if ``needs`` is no reference.
    """
    if (needs := problem.checked().needs) is not None:
        reference.parse(needs)
    return problem.checked()


def _at_declaration(problem: Problem, entry: Entry, manifest: Manifest) -> Problem:
    """Return a problem of a resource with its reference and the position of its declaration."""
    position = manifest.place(entry.declaration, problem.attribute)
    return problem._replace(reference=str(entry.reference), **position._asdict())
