"""``types``, ``describe``, ``validate``, ``schema`` and ``graph``: what can be seen without touching the system."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from resource_api.cli import options
from resource_api.cli.session import Session

if TYPE_CHECKING:
    from resource_api.render.graph import Form


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
