"""``types``, ``describe`` and ``schema``: the types and components on the module path."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import click

from resource_api.cli import options
from resource_api.cli.session import command
from resource_api.model.type_definition import TypeDefinition
from resource_api.model.values.text import escape
from resource_api.render import describe as rendering
from resource_api.render.manifest_schema import manifest_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from resource_api.cli.session import Session
    from resource_api.render.describe import Definition, FunctionPage


#: The fewest columns beside the names in which a summary is wrapped.
_NARROWEST: Final = 20

_manifest = click.option(
    "--manifest", type=options.Path(), metavar="FILE", help="Know the types of this manifest's Terraform providers too."
)


@command(examples=("resource-api types",))
@click.option("--all", "notes", is_flag=True, help="Show version, configuration, functions and origin too.")
@_manifest
def types(session: Session, manifest: str | None, *, notes: bool, **_settings: object) -> None:
    """List the types and components on the module path."""
    definitions = session.definitions(manifest)

    def lines() -> Iterator[str]:
        """Yield the list as text, the summaries in one column beside the names."""
        width = max((len(definition.name) for definition in definitions), default=0)
        for definition in definitions:
            summary = _list_summary(session, definition) if notes else rendering.summary(definition)
            yield from _list_lines(session.output.columns, f"{definition.name:{width}}  ", summary)

    session.console.show(lambda: [_list_document(session, definition) for definition in definitions], lines)


def _list_lines(columns: int | None, name: str, text: str) -> list[str]:
    """Return the lines of a type in a list, its text wrapped beside its name to the ``columns`` of the terminal.

    Without a terminal it is one line, for programs that read lines; also on a terminal too narrow for a second column.
    """
    if columns is None or columns < len(name) + _NARROWEST:
        return [name + text]
    return rendering.wrapped(text, columns, " " * len(name), name)


def _list_summary(session: Session, definition: Definition) -> str:
    """Return the summary of a type for ``types --all``, and its facts in brackets: ``… (version 2; config: host)``.

    A component has no version, configuration or functions, and is marked as one.
    """
    providers = session.suitability(definition)
    remark = f" ({'; '.join(rendering.implementations(providers))})" if providers else ""
    notes: list[str] = []
    if isinstance(definition, TypeDefinition):
        if definition.version is not None:
            notes.append(f"version {definition.version}")
        if definition.schema_version != 1:
            notes.append(f"schema version {definition.schema_version}")
        for title, names in (("config", definition.config.attributes), ("functions", definition.functions)):
            if names:
                notes.append(f"{title}: {', '.join(names)}")
    else:
        remark = " (component)"
    notes.append(escape(str(session.registry.origin(definition.name))))
    return f"{rendering.summary(definition)}{remark} ({'; '.join(notes)})"


def _list_document(session: Session, definition: Definition) -> dict[str, object]:
    """Return a type or component as ``types --json`` lists it; only a component has the field ``component``."""
    document: dict[str, object] = {"name": definition.name, "docs": definition.docs}
    document["origin"] = rendering.origin_document(session.registry.origin(definition.name))
    if isinstance(definition, TypeDefinition):
        document |= {"version": definition.version, "schema_version": definition.schema_version}
        document |= {"config": list(definition.config.attributes), "functions": list(definition.functions)}
    else:
        document["component"] = True
    if providers := session.suitability(definition):
        document["providers"] = rendering.provider_documents(providers)
    return document


@command(examples=("resource-api describe file", "resource-api describe std.join"))
@click.argument("type_name", metavar="TYPE[.FUNCTION]", shell_complete=options.complete("types_and_components"))
@click.option("--format", "form", type=options.Choice(["text", "markdown"]), default="text", help="How to write it.")
@click.option("--all", "expressions", is_flag=True, help="Show the regular expressions of values and titles too.")
@_manifest
def describe(
    session: Session, type_name: str, form: str, manifest: str | None, *, expressions: bool, **_settings: object
) -> None:
    """Show the documentation, attributes and features of TYPE, the inputs and outputs of a component, or a FUNCTION."""
    type_name, _, function = type_name.partition(".")
    with session.providers_of(manifest):
        definition = session.find_definition(lambda name: rendering.definition_of(session.registry, name), type_name)
        providers = session.suitability(definition)
        origin = session.registry.origin(definition.name)
    columns = min(session.output.columns or rendering.COLUMNS, rendering.COLUMNS)
    # TYPE.FUNCTION has a page of its own, without the providers of the type.
    page: Definition | FunctionPage = definition
    if function and isinstance(definition, TypeDefinition):
        page, providers = rendering.function_of(definition, function), ()
    session.console.show(
        lambda: rendering.document(page, providers, origin),
        lambda: (
            rendering.markdown(page, providers, origin, expressions=expressions)
            if form == "markdown"
            else rendering.text(page, columns, providers, origin, expressions=expressions)
        ),
    )


@command(examples=("resource-api schema > schema.json",))
@_manifest
def schema(session: Session, manifest: str | None, **_settings: object) -> None:
    """Print a JSON Schema of manifests (draft-07), made from the types on the module path."""
    definitions = session.definitions(manifest)
    # Only the names of providers are in a schema: their code is not loaded for it.
    implementations = {
        definition.name: session.registry.implementations(definition.name, load=False)
        for definition in definitions
        if isinstance(definition, TypeDefinition) and not session.registry.is_in_family(definition.name)
    }
    session.output.print(json.dumps(manifest_schema(definitions, implementations), indent=2))
