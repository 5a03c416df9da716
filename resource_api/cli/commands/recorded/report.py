"""``report``: a recorded run as text, JSON or one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from resource_api.cli import options
from resource_api.cli.runs import Runs
from resource_api.cli.session import with_session
from resource_api.model.values.errors import UsageError
from resource_api.render.runs import text as run_text

if TYPE_CHECKING:
    from resource_api.cli.session import Session

_FORMS: Final = ("text", "json", "html")


def _rehearsal(path: str, form: str) -> str:
    """Return the page of a rehearsal that was written to a file. Raise ``UsageError`` for any other."""
    if form != "html":
        msg = f"{path}: a rehearsal is shown with --format html"
        raise UsageError(msg)
    import json

    from resource_api.render.html import rehearsal

    try:
        with Path(path).open(encoding="utf-8") as file:
            return rehearsal.page(json.load(file)).rstrip("\n")
    except OSError as error:
        msg = f"{path}: {error.strerror}"
        raise UsageError(msg) from error
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        msg = f"{path} is not what 'rehearse --json' has written"
        raise UsageError(msg) from error


@options.command(examples=("resource-api report", "resource-api report last --format html > run.html"))
@click.argument("run", required=False)
@click.option("--format", "form", type=options.Choice(_FORMS), default="text", help="How to write it.")
@options.diff
@options.state
@options.common
@with_session()
def report(session: Session, run: str | None, form: str, **_settings: Any) -> None:
    """Print what RUN did; without RUN the last one that changed or failed something.

    RUN may be a file that ``rehearse --json`` has written, with ``--format html``.
    """
    if run is not None and run.endswith(".json"):
        session.output.print(_rehearsal(run, form))
        return
    found = Runs(session).document(run)
    if form == "json" or session.json:
        session.output.print_json(found)
    elif form == "html":
        from resource_api.render.html import pages as html

        session.output.print(html.run(found).rstrip("\n"))
    else:
        session.output.print(run_text.run(found, session.output.style))
