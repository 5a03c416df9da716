"""``types``: list the types and components on the module path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from resource_api.cli import options
from resource_api.cli.session import with_session
from resource_api.model.type_definition import TypeDefinition
from resource_api.model.values.text import escape
from resource_api.render import describe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from resource_api.cli.session import Session
    from resource_api.plugins.implementations import Suitability
    from resource_api.render.describe import Definition

#: The fewest columns beside the names in which a summary is wrapped.
_NARROWEST: Final = 20


@options.command(examples=("resource-api types",))
@click.option("--all", "notes", is_flag=True, help="Show version, configuration, functions and origin too.")
@options.common
@with_session()
def types(session: Session, *, notes: bool, **_settings: Any) -> None:
    """List the types and components on the module path."""
    found = session.definitions()
    providers = {
        each.name: session.suitability(each.name) if isinstance(each, TypeDefinition) else () for each in found
    }
    width = max((len(each.name) for each in found), default=0)
    session.show(
        lambda: [_document(session, each, providers[each.name]) for each in found],
        lambda: [
            line
            for each in found
            for line in _lines(
                session.output.columns,
                f"{each.name:{width}}  ",
                _summary(session, each, providers[each.name]) if notes else describe.summary(each),
            )
        ],
    )


def _lines(columns: int | None, name: str, text: str) -> list[str]:
    """Return the line of a type; on a terminal that is too narrow for it, its parts below each other."""
    if columns is None or columns < len(name) + _NARROWEST:
        return [name + text]
    return describe.wrapped(text, columns, " " * len(name), name)


def _summary(session: Session, each: Definition, providers: Sequence[Suitability]) -> str:
    """Return the summary of a type, and in brackets what else is of interest, its origin last."""
    several = f" ({'; '.join(describe.implementations(providers))})" if providers else ""
    notes: list[str] = []
    if isinstance(each, TypeDefinition):
        notes += [f"version {each.version}"] if each.version is not None else []
        notes += [f"schema version {each.schema_version}"] if each.schema_version != 1 else []
        notes += [f"config: {', '.join(each.config.attributes)}"] if each.config.attributes else []
        notes += [f"functions: {', '.join(each.functions)}"] if each.functions else []
    else:
        several = " (component)"
    notes.append(escape(str(session.registry.origin(each.name))))
    return f"{describe.summary(each)}{several} ({'; '.join(notes)})"


def _document(session: Session, each: Definition, providers: Sequence[Suitability]) -> dict[str, Any]:
    found: dict[str, Any] = {"name": each.name, "docs": each.docs}
    found["origin"] = describe.origin_document(session.registry.origin(each.name))
    if isinstance(each, TypeDefinition):
        found |= {"version": each.version, "schema_version": each.schema_version}
        found |= {"config": list(each.config.attributes), "functions": list(each.functions)}
    else:
        found["component"] = True
    return found | ({"providers": describe.provider_documents(providers)} if providers else {})
