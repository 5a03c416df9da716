"""Runs of a part of the resources: dependents that are left out with a missing one, or would lose one. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from resource_api.catalog.graph import descendants, reverse
from resource_api.model.action import Action
from resource_api.model.change import exists
from resource_api.model.values.errors import UsageError
from resource_api.model.values.start_up import NamedTuple
from resource_api.plan.replacement import fail
from resource_api.prior.match import Prior, recorded_dependents

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from resource_api.catalog.compile import Catalog
    from resource_api.model.entry import Entry
    from resource_api.model.provider_functions import PlannerQueries
    from resource_api.model.step import Step

#: The number of resources that the warning about them names.
_NAMED: Final = 50


class IncompleteRun(NamedTuple):
    """Resources that a run leaves out because excluded ones that they need are missing."""

    entries: Collection[Entry]
    missing: Collection[Entry]

    def __str__(self) -> str:
        """Return the warning about it."""
        verb, them = ("is", "it") if len(self.missing) == 1 else ("are", "them")
        left_out = f"what needs {them} is left out too: {_names(self.entries)}"
        return f"--exclude: {_names(self.missing)} {verb} not there, and {left_out}"


def needed(catalog: Catalog, excluded: Collection[int], selected: Collection[int]) -> set[int]:
    """Return the ``excluded`` entries that should exist and that a ``selected`` one needs, to be read only."""
    # The effect of an imperative resource cannot be read back.
    readable = [index for index in excluded if "imperative" not in catalog.entries[index].definition.features]
    missable = {index for index in readable if exists(catalog.entries[index].should)}
    return missable & descendants(selected, catalog.requires) if missable else missable


def leave_out(
    catalog: Catalog, prior: Prior, needed: Collection[int], selected: Collection[int], queries: PlannerQueries
) -> IncompleteRun | None:
    """Return the ``selected`` entries that need a missing one of the ``needed`` entries, with these, or None."""
    missing = [index for index in sorted(needed) if not _is_there(catalog, prior, catalog.entries[index], queries)]
    if not missing:
        return None
    dependents = descendants(missing, reverse(catalog.requires)).intersection(selected)
    entries = [catalog.entries[index] for index in sorted(dependents.difference(prior.orphans))]
    entries = [entry for entry in entries if exists(entry.should)]
    return IncompleteRun(entries, [catalog.entries[index] for index in missing]) if entries else None


def _is_there(catalog: Catalog, prior: Prior, entry: Entry, queries: PlannerQueries) -> bool:
    """Return whether an excluded resource exists, or is recorded as existing if it cannot be read now."""
    row, failure = queries.observation(entry)
    instance = catalog.instances.get(entry.instance)
    unread = entry.instance in catalog.missing or (instance is not None and instance.pending)
    record = prior.records.get(entry.index)
    return exists(row) or (bool(failure or unread) and record is not None and exists(record.is_))


def _names(entries: Collection[Entry]) -> str:
    """Return the references of entries as one text, of many only the first."""
    names = [str(entry.reference) for entry in entries]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def check_untargeted_dependents(
    catalog: Catalog, prior: Prior, steps: Mapping[int, Step], selected: Collection[int]
) -> None:
    """Refuse to delete undeclared resources with recorded dependents that are not ``selected``.

    Raises ``UsageError``, which names all dependents, direct or not.
    """
    deleted = [
        index
        for index in steps.keys() & prior.orphans.keys()
        if steps[index].decision.action is Action.DELETE and not steps[index].decision.error
    ]
    dependents = recorded_dependents(catalog, prior) if deleted else {}
    for index in sorted(deleted):
        if remaining := sorted(descendants([index], dependents) - set(selected)):
            name = catalog.entries[index].reference
            names = ", ".join(str(catalog.entries[dependent].reference) for dependent in remaining)
            msg = (
                f"deleting {name} would leave {names} without what they need;"
                f" add them with --with-dependents, or leave out {name} too"
            )
            raise UsageError(msg)


def fail_with_untargeted_dependents(steps: Iterable[Step], dependents: Mapping[int, str]) -> list[Step]:
    """Fail the steps of ``dependents``: entry's index → a resource outside of the targets that cannot stay then."""
    errors = {
        index: f"would take {dependent} along, which is not among the targets; --with-dependents adds it"
        for index, dependent in dependents.items()
    }
    return [fail(step, errors[step.entry.index]) if step.entry.index in errors else step for step in steps]
