"""``describe``: show the documentation of one type or component."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from resource_api.cli import options
from resource_api.cli.session import with_session
from resource_api.render import describe as rendering

if TYPE_CHECKING:
    from resource_api.cli.session import Session


@options.command(examples=("resource-api describe file",))
@click.argument("type_name", metavar="TYPE", shell_complete=options.complete("types_and_components"))
@click.option("--format", "form", type=options.Choice(["text", "markdown"]), default="text", help="How to write it.")
@click.option("--all", "expressions", is_flag=True, help="Show the regular expressions of values and titles too.")
@options.common
@with_session()
def describe(session: Session, type_name: str, form: str, *, expressions: bool, **_settings: Any) -> None:
    """Show the documentation, attributes and features of TYPE, or the inputs and outputs of a component."""
    found = session.find_definition(lambda name: rendering.definition_of(session.registry, name), type_name)
    component = session.registry.component(found.name) is not None
    providers = () if component else session.suitability(found.name)
    origin = session.registry.origin(found.name)
    columns = min(session.output.columns or rendering.COLUMNS, rendering.COLUMNS)
    session.show(
        lambda: rendering.document(found, providers, origin),
        lambda: (
            rendering.markdown(found, providers, origin, expressions=expressions)
            if form == "markdown"
            else rendering.text(found, columns, providers, origin, expressions=expressions)
        ),
    )
