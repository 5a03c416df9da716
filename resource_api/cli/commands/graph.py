"""``graph``: print the relationships in a manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from resource_api.cli import given_inputs, options
from resource_api.cli.session import with_session
from resource_api.render import graph as rendering

if TYPE_CHECKING:
    from resource_api.cli.session import Session
    from resource_api.render.graph import Form

_FORMS: Final = ("dot", "mermaid", "json", "html")


@options.command(
    examples=(
        "resource-api graph site.yaml --format dot > site.dot",
        "resource-api graph site.yaml --format html > site.html",
    )
)
@options.manifest
@click.option("--format", "form", type=options.Choice(_FORMS), default="dot", help="How to write it.")
@options.manifest_inputs
@options.state
@options.common
@with_session()
def graph(session: Session, manifest: str, form: Form, **_settings: Any) -> None:
    """Print the relationships in MANIFEST."""
    catalog = session.runtime.compile(session.source(manifest), given_inputs.inputs(session.settings))
    session.output.print(rendering.render(catalog, "json" if session.json else form).rstrip("\n"))
