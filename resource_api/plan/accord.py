"""Steps brought into accord once each is decided: what vanishes with another is spared, what would leave one is held.

Pure; what each step would do on its own is decided in ``decision``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from resource_api.model.change import Action
from resource_api.model.step import Decision

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from resource_api.model.step import Step


def spare(steps: Mapping[int, Step], *, noop: bool) -> Mapping[int, Step]:
    """Delete nothing that goes with something else that is deleted (``deleted_with``), through a chain too.

    What is not to be touched does not go; in a run that is ``noop`` as a whole, which others would not be.
    """
    going = {
        str(step.reference): index
        for index, step in steps.items()
        if step.decision.action is Action.DELETE and not (step.decision.error or step.is_noop(noop_run=noop))
    }
    hosts = {
        index: going[with_]
        for index in going.values()
        if (with_ := steps[index].entry.meta.lifecycle.deleted_with) in going
    }
    if not hosts:
        return steps
    found = dict(steps)
    for index in hosts:
        host, seen = index, {index}
        while host in hosts and hosts[host] not in seen:
            host = hosts[host]
            seen.add(host)
        if host not in hosts:
            why = f"deleted with {steps[index].entry.meta.lifecycle.deleted_with}"
            found[index] = steps[index]._replace(decision=Decision(Action.FORGET, reasons=(why,)))
    return found


def hold(steps: Iterable[Step], left_behind: Mapping[int, str]) -> list[Step]:
    """Replace nothing that something is made from which is not among the targets; ``left_behind``: by entry, that."""
    return [_held(step, left_behind.get(step.entry.index, "")) for step in steps]


def _held(step: Step, other: str) -> Step:
    if not other:
        return step
    why = f"would take {other} along, which is not among the targets; --with-dependents adds it"
    return step._replace(decision=step.decision._replace(error=why))
