"""Evaluating policies: users' own checks of declared resources and of plans, which warn or forbid.

A resource is checked when its values are canonical, before it is compared with what is, and again when unknown values
of it become known. A plan is checked as a whole. An error fails the step that it names, or every step when it names
none. Policies change nothing.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from resource_api.catalog.targets import tags
from resource_api.model.declaration import Place
from resource_api.model.event import Diagnosed
from resource_api.model.policy import PolicyPlan, PolicyResource, PolicyStep
from resource_api.model.values.errors import Problem, ResourceError, reason
from resource_api.model.values.values import copy_resource
from resource_api.plan.planner import would_change
from resource_api.plugins import loader
from resource_api.system import process_guard
from resource_api.system.pure_code_guard import read_only

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from resource_api.catalog.compile import Catalog
    from resource_api.model.declaration import Manifest
    from resource_api.model.entry import Entry
    from resource_api.model.event import Event
    from resource_api.model.policy import Policy
    from resource_api.model.step import Step
    from resource_api.plan.planner import Plan
    from resource_api.prior.match import Prior


class PolicyEvaluator:
    """Evaluates the policies of one run; ``notify`` receives each warning once."""

    def __init__(self, policies: Sequence[Policy], notify: Callable[[Event], None]) -> None:
        """Evaluate ``policies``; ``check_catalog`` sets which stack they are about."""
        self._policies = policies
        self._urn: Callable[[Entry], str] = lambda _entry: ""
        self._manifest: Manifest | None = None
        self._notify = notify
        self._sent: set[Problem] = set()

    def check_catalog(self, catalog: Catalog, prior: Prior, selected: set[int] | None) -> Prior:
        """Check every selected resource whose values are known; return ``prior`` with the errors of forbidden ones."""
        self._urn = prior.urn
        self._manifest = catalog.manifest
        errors = dict(prior.errors)
        for entry in catalog.entries:
            chosen = (selected is None or entry.index in selected) and entry.index not in prior.orphans
            if chosen and not entry.pending and (error := self.check_resource(entry, entry.should)):
                errors.setdefault(entry.index, error)
        return prior._replace(errors=errors)

    def check_resource(self, entry: Entry, should: Mapping[str, Any]) -> str:
        """Check one resource as it should be; return the errors in one text, empty when it is allowed."""
        declared = self._declared(entry, should)
        errors = []
        for policy in self._policies:
            if policy.resource is not None:
                problems = list(_evaluated(policy, policy.resource, declared))
                errors += [problem.message for problem in problems if problem.severity == "error"]
                self._warn(self._placed(problem, entry) for problem in problems)
        return "; ".join(errors)

    def check_plan(self, planned: Plan) -> Plan:
        """Check a plan; return it with the forbidden steps failed. Raise ``ResourceError`` when no step would act."""
        shown = _policy_plan(planned)
        problems = [
            problem
            for policy in self._policies
            if policy.plan is not None
            for problem in _about_steps(policy, shown, _evaluated(policy, policy.plan, shown))
        ]
        self._warn(problems)
        errors = [problem for problem in problems if problem.severity == "error"]
        return _with_failures(planned, errors) if errors else planned

    def _declared(self, entry: Entry, should: Mapping[str, Any]) -> PolicyResource:
        return PolicyResource(
            str(entry.reference),
            self._urn(entry),
            entry.type,
            entry.title,
            entry.name,
            entry.parent,
            frozenset(tags(entry)),
            MappingProxyType(copy_resource(should)),
            bool(entry.meta.lifecycle.protect),
            bool(entry.meta.noop),
        )

    def _placed(self, problem: Problem, entry: Entry) -> Problem:
        """Return a problem with its resource and the place of the declaration."""
        place = self._manifest.place(entry.declaration, problem.attribute) if self._manifest else Place("")
        return problem._replace(reference=str(entry.reference), file=place.file, line=place.line, column=place.column)

    def _warn(self, problems: Iterator[Problem] | Sequence[Problem]) -> None:
        for problem in problems:
            if problem.severity != "error" and problem not in self._sent:
                self._sent.add(problem)
                self._notify(Diagnosed(problem))


def _evaluated(policy: Policy, check: Callable[[Any], Any], value: Any) -> Iterator[Problem]:
    """Yield the problems that a policy finds; an exception of the policy is an error too."""
    try:
        with read_only("a policy"):
            answer = process_guard.call_contained(check, value)
            answers = (
                [answer] if isinstance(answer, (str, Problem)) else process_guard.call_contained(list, answer or ())
            )
        for each in answers:
            if not isinstance(each, (str, Problem)):
                msg = f"a policy returns strings and Problems, not {type(each).__name__}"
                raise TypeError(msg)  # noqa: TRY301 - as wrong as an exception of its own
            problem = each.checked() if isinstance(each, Problem) else Problem(None, each)
            yield problem._replace(message=f"policy '{policy.name}': {problem.message}", code="policy")
    except Exception as error:  # noqa: BLE001 - a broken policy allows nothing
        place = f"{policy.file}:{loader.line_of(error, policy.file)}"
        yield Problem(
            None, f"policy '{policy.name}' failed at {place}: {reason(error, with_origin=False)}", code="policy"
        )


def _about_steps(policy: Policy, shown: PolicyPlan, problems: Iterator[Problem]) -> Iterator[Problem]:
    """Yield the problems; one that names no step of the plan becomes a problem of the whole plan."""
    references = {step.reference for step in shown.steps}
    for problem in problems:
        if problem.reference and problem.reference not in references:
            message = f"policy '{policy.name}' names {problem.reference}, which is not in the plan: {problem.message}"
            yield problem._replace(message=message, reference="")
        else:
            yield problem


def _with_failures(planned: Plan, errors: Sequence[Problem]) -> Plan:
    """Return a plan with the named steps failed; an error without a step fails every step that would act."""
    by_reference: dict[str, list[str]] = {}
    for error in errors:
        by_reference.setdefault(error.reference or "", []).append(error.message)
    whole = by_reference.pop("", [])
    if whole and not any(map(would_change, planned.steps)):
        raise ResourceError("; ".join(whole))
    failed: dict[int, Step] = {}
    for step in planned.steps:
        own = by_reference.get(str(step.reference), [])
        if messages := [*own, *(whole if would_change(step) else [])]:
            earlier = [step.decision.error] if step.decision.error else []
            decision = step.decision._replace(error="; ".join([*earlier, *messages]))
            failed[step.entry.index] = step._replace(decision=decision)
    return planned.with_steps(failed)


def _policy_plan(planned: Plan) -> PolicyPlan:
    state = planned.prior.state
    steps = tuple(map(_policy_step, planned.steps))
    return PolicyPlan(state.project, state.stack, steps, planned.complete)


def _policy_step(step: Step) -> PolicyStep:
    entry = step.entry
    return PolicyStep(
        str(entry.reference),
        step.urn,
        entry.type,
        entry.title,
        entry.name,
        entry.parent,
        frozenset(tags(entry)),
        str(step.action),
        None if step.is_ is None else MappingProxyType(copy_resource(step.is_)),
        MappingProxyType(copy_resource(step.should)),
        tuple(difference.attribute for difference in step.decision.differences),
        step.noop,
        step.decision.error,
    )
