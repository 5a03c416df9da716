"""``types``, ``describe``, ``validate``, ``schema`` and ``graph``: what can be seen without touching the system."""

from __future__ import annotations

from typing import Any

import click

from resource_api.cli import options
from resource_api.cli.session import Session, named


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
