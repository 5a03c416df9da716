"""``report``: a recorded run as text or JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from resource_api.cli import options
from resource_api.cli.runs import Runs
from resource_api.cli.session import with_session
from resource_api.render import run_text

if TYPE_CHECKING:
    from resource_api.cli.session import Session


@options.command(examples=("resource-api report", "resource-api report last --format json"))
@click.argument("run", required=False)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="How to write it.")
@options.state
@options.common
@with_session()
def report(session: Session, run: str | None, form: str, **_settings: Any) -> None:
    """Print what RUN did; without RUN the last one that changed or failed something."""
    found = Runs(session).document(run)
    if form == "json" or session.json:
        session.output.print_json(found)
    else:
        session.output.print(run_text.run(found, session.output.style))
