"""``report``: a recorded run as text, JSON or one HTML page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from resource_api.cli import options
from resource_api.cli.runs import Runs
from resource_api.cli.session import with_session
from resource_api.render.runs import text as run_text

if TYPE_CHECKING:
    from resource_api.cli.session import Session

_FORMS: Final = ("text", "json", "html")


@options.command(examples=("resource-api report", "resource-api report last --format html > run.html"))
@click.argument("run", required=False)
@click.option("--format", "form", type=options.Choice(_FORMS), default="text", help="How to write it.")
@options.diff
@options.state
@options.common
@with_session()
def report(session: Session, run: str | None, form: str, **_settings: Any) -> None:
    """Print what RUN did; without RUN the last one that changed or failed something."""
    found = Runs(session).document(run)
    if form == "json" or session.json:
        session.output.print_json(found)
    elif form == "html":
        from resource_api.render.html import pages as html  # noqa: PLC0415 - only for a page

        session.output.print(html.run(found).rstrip("\n"))
    else:
        session.output.print(run_text.run(found, session.output.style))
