"""``types``, ``describe``, ``validate``, ``schema`` and ``graph``: what can be seen without touching the system."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from resource_api.cli import options
from resource_api.cli.session import Session
from resource_api.model.values.errors import DefinitionError

if TYPE_CHECKING:
    from resource_api.model.component import ComponentDefinition
    from resource_api.model.type_definition import TypeDefinition


def _definitions(session: Session) -> list[TypeDefinition | ComponentDefinition]:
    """Give every type and component that works; a broken file disables itself only, and is told."""
    from resource_api.render.describe import definition_of  # noqa: PLC0415 - only for this command

    found = []
    for name in (*session.registry.names(), *session.registry.component_names()):
        try:
            found.append(definition_of(session.registry, name))
        except DefinitionError as error:
            session.log.write("warning", name, str(error))
    return found


@click.command()
@options.common
def schema(**settings: Any) -> int:
    """Print a JSON Schema of manifests (draft-07), made from the types on the module path."""
    session = Session(settings)

    def work() -> int:
        from resource_api.render import manifest_schema as describing  # noqa: PLC0415 - only for this command

        found = _definitions(session)
        session.print(json.dumps(describing.manifest_schema(found), indent=2))
        return 0

    return session.carry(work)
