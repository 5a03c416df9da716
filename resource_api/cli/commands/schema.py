"""``schema``: print a JSON Schema of manifests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from resource_api.cli import options
from resource_api.cli.session import with_session
from resource_api.model.type_definition import TypeDefinition
from resource_api.render.manifest_schema import manifest_schema

if TYPE_CHECKING:
    from resource_api.cli.session import Session


@options.command(examples=("resource-api schema > schema.json",))
@options.common
@with_session()
def schema(session: Session, **_settings: Any) -> None:
    """Print a JSON Schema of manifests (draft-07), made from the types on the module path."""
    definitions = session.definitions()
    implementations = {
        each.name: session.registry.implementations(each.name, load=False)
        for each in definitions
        if isinstance(each, TypeDefinition)
    }
    session.output.print(json.dumps(manifest_schema(definitions, implementations), indent=2))
