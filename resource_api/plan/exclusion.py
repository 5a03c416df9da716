"""Exclusions: what needs an excluded resource that does not exist is left out of a run too. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from resource_api.catalog.graph import descendants, reverse
from resource_api.model.change import exists
from resource_api.model.values._namedtuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection

    from resource_api.catalog.compile import Catalog
    from resource_api.model.entry import Entry
    from resource_api.model.planner_queries import PlannerQueries
    from resource_api.prior.match import Prior

#: How many resources the warning about them names.
_NAMED: Final = 50


class LeftOut(NamedTuple):
    """What a run leaves out although it is not excluded itself, and the excluded resources that are missing for it."""

    entries: Collection[Entry]
    missing: Collection[Entry]

    def __str__(self) -> str:
        """Return the warning about it."""
        verb, them = ("is", "it") if len(self.missing) == 1 else ("are", "them")
        left_out = f"what needs {them} is left out too: {_names(self.entries)}"
        return f"--exclude: {_names(self.missing)} {verb} not there, and {left_out}"


def needed(catalog: Catalog, excluded: Collection[int], selected: Collection[int]) -> set[int]:
    """Return the ``excluded`` entries that should exist and that a ``selected`` one needs, directly or not."""
    wanted = {index for index in excluded if _is_to_exist(catalog.entries[index])}
    return wanted & descendants(selected, catalog.requires) if wanted else wanted


def leave_out(
    catalog: Catalog, prior: Prior, needed: Collection[int], selected: Collection[int], queries: PlannerQueries
) -> LeftOut | None:
    """Return what of the ``selected`` entries needs one of those that are ``needed`` and missing; None for nothing."""
    missing = [index for index in sorted(needed) if not _is_there(catalog, prior, catalog.entries[index], queries)]
    if not missing:
        return None
    found = descendants(missing, reverse(catalog.requires)).intersection(selected)
    entries = [catalog.entries[index] for index in sorted(found.difference(prior.orphans))]
    entries = [each for each in entries if exists(each.should)]
    return LeftOut(entries, [catalog.entries[index] for index in missing]) if entries else None


def _is_to_exist(entry: Entry) -> bool:
    """Return whether a resource is declared as existing; what an imperative one does cannot be read back."""
    return "imperative" not in entry.definition.features and exists(entry.should)


def _is_there(catalog: Catalog, prior: Prior, entry: Entry, queries: PlannerQueries) -> bool:
    """Return whether an excluded resource exists; of one that cannot be read now, whether that is recorded."""
    row, failure = queries.observation(entry)
    instance = catalog.instances.get(entry.instance)
    unread = entry.instance in catalog.missing or (instance is not None and instance.pending)
    record = prior.records.get(entry.index)
    return exists(row) or (bool(failure or unread) and record is not None and exists(record.is_))


def _names(entries: Collection[Entry]) -> str:
    names = [str(entry.reference) for entry in entries]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
