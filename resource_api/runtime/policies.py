"""Policies: what people forbid or advise against, beyond what types check. They judge and change nothing.

A resource is judged as it should be, checked and canonical, before it is compared with what is; again when values of it
become known. A plan is judged whole. An error fails the step that it is about, or, when it is about none, all of them.
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
from resource_api.system.sandbox import read_only

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


class Judge:
    """The policies of one run; ``tell`` hears of warnings, each once."""

    def __init__(self, policies: Sequence[Policy], tell: Callable[[Event], None]) -> None:
        """Judge by ``policies``, of whichever stack is brought."""
        self._policies = policies
        self._urn: Callable[[Entry], str] = lambda _entry: ""
        self._manifest: Manifest | None = None
        self._tell = tell
        self._told: set[Problem] = set()

    def judge(self, catalog: Catalog, prior: Prior, selected: set[int] | None) -> Prior:
        """Judge what is declared and known; what is forbidden cannot be planned, whatever there is."""
        self._urn = prior.urn
        self._manifest = catalog.manifest
        broken = dict(prior.errors)
        for entry in catalog.entries:
            chosen = (selected is None or entry.index in selected) and entry.index not in prior.orphans
            if chosen and not entry.pending and (error := self.resource(entry, entry.should)):
                broken.setdefault(entry.index, error)
        return prior._replace(errors=broken)

    def resource(self, entry: Entry, should: Mapping[str, Any]) -> str:
        """Judge one resource as it should be; gives what forbids it, empty when nothing does."""
        declared = self._declared(entry, should)
        errors = []
        for policy in self._policies:
            if policy.resource is not None:
                problems = list(_asked(policy, policy.resource, declared))
                errors += [problem.message for problem in problems if problem.severity == "error"]
                self._warn(self._placed(problem, entry) for problem in problems)
        return "; ".join(errors)

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

    def plan(self, planned: Plan) -> Plan:
        """Judge a plan; gives it with what is forbidden as failed. Raises ``ResourceError`` when none of it acts."""
        shown = _shown(planned)
        problems = [
            problem
            for policy in self._policies
            if policy.plan is not None
            for problem in _known(policy, shown, _asked(policy, policy.plan, shown))
        ]
        self._warn(problems)
        errors = [problem for problem in problems if problem.severity == "error"]
        return _forbidden(planned, errors) if errors else planned

    def _placed(self, problem: Problem, entry: Entry) -> Problem:
        """Give a problem the resource that it is about, and where that is declared."""
        place = self._manifest.place(entry.declaration, problem.attribute) if self._manifest else Place("")
        return problem._replace(reference=str(entry.reference), file=place.file, line=place.line, column=place.column)

    def _warn(self, problems: Iterator[Problem] | Sequence[Problem]) -> None:
        for problem in problems:
            if problem.severity != "error" and problem not in self._told:
                self._told.add(problem)
                self._tell(Diagnosed(problem))


def _asked(policy: Policy, question: Callable[[Any], Any], what: Any) -> Iterator[Problem]:
    """Give what a policy says; one that raises has said that it cannot judge, which is an error."""
    try:
        with read_only("a policy"):
            answer = process_guard.call_contained(question, what)
            answers = (
                [answer] if isinstance(answer, (str, Problem)) else process_guard.call_contained(list, answer or ())
            )
        for said in answers:
            if not isinstance(said, (str, Problem)):
                msg = f"a policy gives strings and Problems, not {type(said).__name__}"
                raise TypeError(msg)  # noqa: TRY301 - as wrong as an exception of its own
            problem = said if isinstance(said, Problem) else Problem(None, said)
            yield problem._replace(message=f"policy '{policy.name}': {problem.message}", code="policy")
    except Exception as error:  # noqa: BLE001 - a policy that cannot judge lets nothing pass
        place = f"{policy.file}:{loader.line_of(error, policy.file)}"
        yield Problem(None, f"policy '{policy.name}' failed at {place}: {reason(error)}", code="policy")


def _known(policy: Policy, shown: PolicyPlan, problems: Iterator[Problem]) -> Iterator[Problem]:
    """Give problems about steps that there are; one about any other is about the whole plan."""
    references = {step.reference for step in shown.steps}
    for problem in problems:
        if problem.reference and problem.reference not in references:
            message = (
                f"policy '{policy.name}' speaks of {problem.reference}, which is not in the plan: {problem.message}"
            )
            yield problem._replace(message=message, reference="")
        else:
            yield problem


def _forbidden(planned: Plan, errors: Sequence[Problem]) -> Plan:
    """Fail the steps that errors are about; one about no step is about all that act."""
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
            said = [step.decision.error] if step.decision.error else []
            decision = step.decision._replace(error="; ".join([*said, *messages]))
            failed[step.entry.index] = step._replace(decision=decision)
    return planned._replace(
        steps=[failed.get(step.entry.index, step) for step in planned.steps],
        operations=[
            operation._replace(step=failed.get(operation.step.entry.index, operation.step))
            for operation in planned.operations
        ],
    )


def _shown(planned: Plan) -> PolicyPlan:
    state = planned.prior.state
    steps = tuple(map(_step, planned.steps))
    return PolicyPlan(state.project, state.stack, steps, planned.complete)


def _step(step: Step) -> PolicyStep:
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
