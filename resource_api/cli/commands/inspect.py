"""``types``, ``describe``, ``validate``, ``schema`` and ``graph``: what can be seen without touching the system."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from resource_api.cli import options
from resource_api.cli.session import Session, named
from resource_api.model.values.errors import DefinitionError

if TYPE_CHECKING:
    from resource_api.model.component import ComponentDefinition
    from resource_api.model.type_definition import TypeDefinition
    from resource_api.render.graph import Form


@click.command()
@options.common
def types(**settings: Any) -> int:
    """List the types and components on the module path."""
    session = Session(settings)

    def work() -> int:
        from resource_api.render import describe as describing  # noqa: PLC0415 - only for this command

        listed = describing.types_list(session.registry)
        for broken in (each for each in listed if each.error):
            session.log.write("warning", broken.name, broken.error)
        found = [each for each in listed if not each.error]
        if session.json:
            docs = {each: describing.definition_of(session.registry, each.name).docs for each in found}
            more = {True: {"component": True}, False: {}}
            session.print_json([{"name": each.name, "docs": docs[each], **more[each.component]} for each in found])
        else:
            width = max((len(each.name) for each in found), default=0)
            session.print([f"{each.name:{width}}  {each.summary}".rstrip() for each in found])
        return 0

    return session.carry(work)


@click.command()
@click.argument("type_name", metavar="TYPE")
@click.option("--format", "form", type=click.Choice(["text", "markdown"]), default="text", help="How to write it.")
@options.common
def describe(type_name: str, form: str, **settings: Any) -> int:
    """Show the documentation, attributes and features of TYPE, or the inputs and outputs of a component."""
    session = Session(settings)

    def work() -> int:
        from resource_api.render import describe as describing  # noqa: PLC0415 - only for this command

        found = named(lambda name: describing.definition_of(session.registry, name), type_name)
        if session.json:
            session.print_json(describing.document(found))
        else:
            session.print(describing.markdown(found) if form == "markdown" else describing.text(found))
        return 0

    return session.carry(work)


@click.command()
@click.argument("manifest", type=click.Path())
@options.given_inputs
@options.common
def validate(manifest: str, **settings: Any) -> int:
    """Check everything in MANIFEST that can be checked without touching the system."""
    session = Session(settings, manifest=manifest)

    def work() -> int:
        catalog = session.runtime.validate(manifest, options.inputs(settings))
        count = len(catalog.entries)
        if session.json:
            session.print_json({"valid": True, "resources": count, "diagnostics": []})
        else:
            session.print(f"{manifest} is valid: {count} resource{'' if count == 1 else 's'}.")
        return 0

    return session.carry(work)


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


@click.command()
@click.argument("manifest", type=click.Path())
@click.option("--format", "form", type=click.Choice(["dot", "mermaid", "json"]), default="dot", help="How to write it.")
@options.given_inputs
@options.common
def graph(manifest: str, form: Form, **settings: Any) -> int:
    """Print the relationships in MANIFEST."""
    session = Session(settings, manifest=manifest)

    def work() -> int:
        from resource_api.render import graph as drawing  # noqa: PLC0415 - only for this command

        catalog = session.runtime.compile(manifest, options.inputs(settings))
        session.print(drawing.render(catalog, "json" if session.json else form).rstrip("\n"))
        return 0

    return session.carry(work)
