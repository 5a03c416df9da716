"""What a plan must know of the world, read in one batch per type, and how the planner asks for it.

Of what is selected, of what that refers to, and of what would be replaced: nothing else is read.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from resource_api.catalog.functions import invoke
from resource_api.model.planner_queries import PlannerQueries
from resource_api.plugins.functions import call_function
from resource_api.snapshot.configure_providers import DeferredInstances

if TYPE_CHECKING:
    from collections.abc import Callable

    from resource_api.catalog.compile import Catalog
    from resource_api.model.type_definition import TypeDefinition
    from resource_api.model.values.expression import Path
    from resource_api.prior.match import Prior
    from resource_api.snapshot.snapshot import Snapshot


def observe(catalog: Catalog, prior: Prior, selected: set[int] | None, snapshot: Snapshot) -> PlannerQueries:
    """Read what a plan of the ``selected`` entries (None: all) needs, and give the planner's view of it."""
    wanted = _wanted(catalog, prior, selected)
    awaiting = DeferredInstances(catalog.instances, prior.instances, snapshot.providers)
    later = {pair[0].instance: pair for pair in wanted if awaiting.waits(pair[0].instance)}
    snapshot.read_all([pair for pair in wanted if pair[0].instance not in later])

    def awaited(name: str, resolve: Callable[[Path], Any]) -> tuple[str, bool]:
        """Configure a provider as soon as its configuration is known, and read what is wanted of it."""
        why, may_change, _ = awaiting.configure(name, resolve)
        if not why and name in later:
            snapshot.read_all([later.pop(name)])
        return why, may_change

    providers = snapshot.providers
    return PlannerQueries(
        lambda entry: snapshot.observation(entry.instance, entry.name),
        snapshot.due,
        providers.functions,
        lambda call, given: invoke(call, given, partial(call_function, providers)),
        awaited,
    )


def _wanted(catalog: Catalog, prior: Prior, selected: set[int] | None) -> list[tuple[TypeDefinition, list[Any]]]:
    indexes = range(len(catalog.entries)) if selected is None else _with_referred(catalog, selected)
    names: dict[TypeDefinition, dict[Any, None]] = {}
    for index in indexes:
        entry = catalog.entries[index]
        wanted = names.get(entry.definition)
        if wanted is None:
            wanted = names[entry.definition] = {}
        wanted[entry.name] = None
    for index, record in prior.predecessors.items():
        definition = catalog.entries[index].definition
        if record.instance == definition.instance:
            names.setdefault(definition, {})[record.name] = None
    by_instance = {definition.instance: wanted for definition, wanted in names.items()}
    for instance, name in prior.moved_keys:
        if instance in by_instance:
            by_instance[instance][name] = None
    return [(definition, list(wanted)) for definition, wanted in names.items()]


def _with_referred(catalog: Catalog, selected: set[int]) -> list[int]:
    referred = {
        before
        for index in selected
        if catalog.entries[index].pending or catalog.entries[index].instance in catalog.instances
        for before in catalog.requires.get(index, ())
    }
    return sorted(selected | referred)
