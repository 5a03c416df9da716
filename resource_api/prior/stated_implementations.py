"""Which of several providers of a type manages a resource, as far as the manifest or a record decides that.

A declared resource has the implementation that it states; one that is to be deleted has the one that made it. Pure:
which provider suits the machine is decided in ``plugins.implementations``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from resource_api.catalog.compile import Catalog
    from resource_api.model.type_definition import Name
    from resource_api.prior.match import Prior


def stated_implementations(catalog: Catalog, prior: Prior | None, instance: str) -> dict[Name, str]:
    """Return, by name, the implementation of each resource of an instance that states or has recorded one.

    ``prior`` None: nothing is known of records.
    """
    found: dict[Name, str] = {}
    for record in prior.predecessors.values() if prior else ():
        if record.instance == instance and record.implementation:
            found[record.name] = record.implementation
    for entry in catalog.entries:
        if entry.instance != instance:
            continue
        stated = entry.meta.implementation
        if not stated and prior and entry.absent and (before := prior.records.get(entry.index)):
            stated = before.implementation
        if stated:
            found[entry.name] = stated
    return found
