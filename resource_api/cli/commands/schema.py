"""``schema``: print a JSON Schema of manifests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from resource_api.cli import options
from resource_api.cli.session import with_session
from resource_api.model.type_definition import TypeDefinition
from resource_api.model.values.errors import DefinitionError
from resource_api.render.describe import definition_of
from resource_api.render.manifest_schema import manifest_schema

if TYPE_CHECKING:
    from resource_api.cli.session import Session
    from resource_api.model.component import ComponentDefinition


@options.command(examples=("resource-api schema > schema.json",))
@options.common
@with_session()
def schema(session: Session, **_settings: Any) -> None:
    """Print a JSON Schema of manifests (draft-07), made from the types on the module path."""
    definitions = _definitions(session)
    implementations = {
        each.name: session.registry.implementations(each.name, load=False)
        for each in definitions
        if isinstance(each, TypeDefinition)
    }
    session.output.print(json.dumps(manifest_schema(definitions, implementations), indent=2))


def _definitions(session: Session) -> list[TypeDefinition | ComponentDefinition]:
    """Return every type and component; one whose file is broken is left out, with a warning."""
    found = []
    for name in (*session.registry.names(), *session.registry.component_names()):
        try:
            found.append(definition_of(session.registry, name))
        except DefinitionError as error:
            session.log.write("warning", name, str(error), name)
    return found
