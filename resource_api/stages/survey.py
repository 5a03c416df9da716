"""What a plan must know of the world, read in one batch per type, and how the planner asks for it.

Of what is selected, of what that refers to, and of what would be replaced: nothing else is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.stages.plan import World
from resource_api.stages.snapshot import observe

if TYPE_CHECKING:
    from resource_api.nouns.definition import TypeDefinition
    from resource_api.stages.catalog import Catalog
    from resource_api.stages.prior import Prior
    from resource_api.stages.snapshot import Snapshot


def survey(catalog: Catalog, prior: Prior, selected: set[int] | None, snapshot: Snapshot) -> World:
    """Read what a plan of the ``selected`` entries (None: all) needs, and give the planner's view of it."""
    observe(snapshot, _wanted(catalog, prior, selected))
    return World(lambda entry: snapshot.seen(entry.instance, entry.name), snapshot.due, snapshot.providers.tools)


def _wanted(catalog: Catalog, prior: Prior, selected: set[int] | None) -> list[tuple[TypeDefinition, list[Any]]]:
    indexes = range(len(catalog.entries)) if selected is None else _with_referred(catalog, selected)
    names: dict[TypeDefinition, dict[Any, None]] = {}
    for index in indexes:
        entry = catalog.entries[index]
        wanted = names.get(entry.definition)
        if wanted is None:
            wanted = names[entry.definition] = {}
        wanted[entry.name] = None
    for index, record in prior.successors.items():
        definition = catalog.entries[index].definition
        if record.instance == definition.instance:
            names.setdefault(definition, {})[record.name] = None
    by_instance = {definition.instance: wanted for definition, wanted in names.items()}
    for instance, name in prior.superseded:
        if instance in by_instance:
            by_instance[instance][name] = None
    return [(definition, list(wanted)) for definition, wanted in names.items()]


def _with_referred(catalog: Catalog, selected: set[int]) -> list[int]:
    referred = {
        before for index in selected if catalog.entries[index].pending for before in catalog.requires.get(index, ())
    }
    return sorted(selected | referred)
