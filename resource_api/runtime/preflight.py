"""What the changes of a plan need and this machine lacks, found by providers with the feature ``preflight``.

Each finding is a warning, unless a step before provides what is missing. One that a provider calls a warning itself
says what the change does, and no other step alters that. Steps and exit codes stay as they are.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from resource_api.catalog.graph import descendants
from resource_api.model.change import CREATING, Action, exists
from resource_api.model.values import reference
from resource_api.model.values.errors import Problem, ProviderError, reason
from resource_api.model.values.values import copy_resource, is_unknown
from resource_api.plan.planner import would_change
from resource_api.provider.context import Context
from resource_api.provider.outcomes import Subject
from resource_api.system import process_guard

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from resource_api.model.step import Step
    from resource_api.model.type_definition import Name
    from resource_api.plan.planner import Plan
    from resource_api.plugins.provider_pool import ProviderPool

#: The actions for which a machine must be ready.
_CHECKED: Final = CREATING | {Action.UPDATE, Action.RUN}


def warnings(plan: Plan, providers: ProviderPool) -> list[Problem]:
    """Return what is missing for the steps of a plan, as warnings with the place of the declaration."""
    acting = {step.entry.index: step for step in plan.steps if _acts(step, noop=plan.options.noop)}
    by_instance: dict[str, dict[Name, Step]] = {}
    for step in acting.values():
        if "preflight" in step.definition.features and step.action in _CHECKED and not step.deferred:
            by_instance.setdefault(step.definition.instance, {})[step.name] = step
    earlier = _EarlierSteps(plan, acting)
    found = [
        _placed(plan, step, problem)
        for steps in by_instance.values()
        for step, problem in _findings(steps, providers)
        if problem.severity == "warning" or not earlier.provides(step, problem.needs)
    ]
    return sorted(found, key=lambda problem: (problem.file, problem.line, problem.column))


def _acts(step: Step, *, noop: bool) -> bool:
    return would_change(step) and not step.is_noop(noop_run=noop)


class _EarlierSteps:
    """What the steps before a step provide.

    Beyond an exact ``needs``, a resource that is explicitly required and would change counts as providing it: it is
    declared there for a reason, such as a package that brings a user.
    """

    def __init__(self, plan: Plan, acting: Mapping[int, Step]) -> None:
        self._plan = plan
        self._acting = acting

    def provides(self, step: Step, needs: str | None) -> bool:
        """Return whether an earlier step provides ``needs``, the text of a reference; None: whether any may."""
        before = self._before(step.entry.index)
        if needs is None:
            return any(index in before for index in self._acting)
        entry = self._plan.catalog.find(reference.parse(needs))
        if entry is not None and entry.index in before and self._will_be_present(entry.index):
            return True
        return any(index in self._acting for index in self._required(step.entry.index))

    def _will_be_present(self, index: int) -> bool:
        noop = self._plan.options.noop
        steps = (step for step in self._plan.steps if step.entry.index == index)
        return any(not step.error and not step.is_noop(noop_run=noop) and exists(step.should) for step in steps)

    def _before(self, index: int) -> range | set[int]:
        """Return the indices of the entries that come first: in parallel runs only those that must."""
        if self._plan.options.parallel > 1:
            return descendants([index], self._plan.catalog.requires) - {index}
        return range(index)

    def _required(self, index: int) -> set[int]:
        return descendants([index], self._explicit) - {index}

    @cached_property
    def _explicit(self) -> Mapping[int, Sequence[int]]:
        automatic = self._plan.catalog.automatic
        return {
            then: [first for first in before if (first, then) not in automatic]
            for then, before in self._plan.catalog.requires.items()
        }


def _findings(steps: Mapping[Name, Step], providers: ProviderPool) -> Iterator[tuple[Step, Problem]]:
    """Yield what a provider reports for its steps; that it fails is a finding about the first."""
    first = next(iter(steps.values()))
    context = Context(
        first.definition,
        providers.run,
        subjects={name: Subject(step.entry.title, parent=step.entry.parent) for name, step in steps.items()},
        answering=True,
    )
    changes = {name: _known(step) for name, step in steps.items()}
    try:
        provider = providers.instance(first.definition.instance)
        with providers.run.provider_call(), process_guard.contained(), context.activate(provider):
            answers = [_checked(each, steps) for each in _pairs(provider.preflight(context, changes))]
    except Exception as error:  # noqa: BLE001 - contained: a plan is as true without its warnings
        context.log_traceback(error)
        yield first, Problem(None, f"preflight of its provider failed: {reason(error)}")
    else:
        yield from answers


def _pairs(answer: Any) -> Iterable[Any]:
    """Return the answer of ``preflight``; None is empty. Raise ``ProviderError`` for what is no iterable."""
    if answer is None or hasattr(answer, "__iter__"):
        return answer or ()
    msg = f"it must return pairs of a name and a Problem, not {answer!r:.80}"
    raise ProviderError(msg)


def _known(step: Step) -> dict[str, Any]:
    return copy_resource({name: value for name, value in step.should.items() if not is_unknown(value)})


def _checked(answer: Any, steps: Mapping[Name, Step]) -> tuple[Step, Problem]:
    """Return one answer with its step. Raise ``ProviderError`` for anything else than a pair of the documented form."""
    if not (isinstance(answer, (tuple, list)) and len(answer) == 2 and isinstance(answer[1], Problem)):  # noqa: PLR2004 - a pair
        msg = f"it must return pairs of a name and a Problem, not {answer!r:.80}"
        raise ProviderError(msg)
    name = tuple(answer[0]) if isinstance(answer[0], list) else answer[0]
    if name not in steps:
        msg = f"it reports {name!r:.80}, which is not among the changes"
        raise ProviderError(msg)
    if answer[1].needs is not None:
        reference.parse(answer[1].needs)
    return steps[name], answer[1]


def _placed(plan: Plan, step: Step, problem: Problem) -> Problem:
    place = plan.catalog.manifest.place(step.entry.declaration, problem.attribute)
    return problem._replace(severity="warning", reference=str(step.reference), code="preflight", **place._asdict())
