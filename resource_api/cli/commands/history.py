"""``history`` and ``report``: the recorded runs, one of them, and the differences between two."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from resource_api.cli import options
from resource_api.cli.recorded import Runs, none_recorded
from resource_api.cli.session import with_session
from resource_api.model.values.errors import UsageError
from resource_api.render import run_text, text
from resource_api.render.html import pages
from resource_api.system.document_schema import find_violations

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from resource_api.cli.session import Session


@options.group(examples=("resource-api history", "resource-api history show"), invoke_without_command=True)
@options.state
@options.common
@click.pass_context
def history(context: click.Context, /, **settings: object) -> int | None:
    """List the finished runs, the oldest first, with their durations, changes and drift."""
    return None if context.invoked_subcommand else with_session()(show_runs)(**settings)


def show_runs(session: Session, **_settings: object) -> None:
    """Print the finished runs of the stacks that a command's options select."""
    runs = [] if none_recorded(session) else Runs(session).all
    session.console.show_list(lambda: runs, lambda: _history_lines(session, runs), "no run is recorded yet")


def _history_lines(session: Session, runs: Sequence[Mapping[str, object]]) -> Iterable[str]:
    """Return a chart for a terminal; elsewhere a line for each run."""
    runs = text.with_projects(runs)
    if not (runs and session.output.stdout.isatty()):
        return map(text.run, runs)
    return run_text.chart(runs, shutil.get_terminal_size().columns)


@history.command("show", examples=("resource-api history show",))
@click.argument("run", required=False)
@options.diff
@options.state
@options.common
@with_session()
def show_run(session: Session, run: str | None, **_settings: object) -> None:
    """Show the outcome of RUN, its failures first; without RUN the last one that changed or failed something."""
    document = Runs(session).document(run)
    session.console.show(lambda: document, lambda: run_text.run(document, session.output.style))


@history.command("diff", examples=("resource-api history diff last-1 last",))
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@options.diff
@options.state
@options.common
@with_session()
def diff(session: Session, first: str, second: str, **_settings: object) -> None:
    """Show the differences between the runs A and B: references, outcomes and attributes."""
    runs = Runs(session)
    differences = run_text.differences(runs.document(first), runs.document(second))
    session.console.show(lambda: differences, lambda: run_text.difference_lines(differences))


_REPORT_FORMS: Final = ("text", "json", "html")


def _rehearsal(path: str, form: str) -> str:
    """Return the page of a rehearsal that was written to a file. Raise ``UsageError`` for any other."""
    if form != "html":
        msg = f"{path}: a rehearsal is shown with --format html"
        raise UsageError(msg)
    try:
        document = json.loads(Path(path).read_bytes())
    except OSError as error:
        msg = f"{path}: {error.strerror}"
        raise UsageError(msg) from error
    except (ValueError, RecursionError) as error:
        msg = f"{path} is not what 'rehearse --json' has written: {error}"
        raise UsageError(msg) from error
    if violations := find_violations("rehearse", document):
        msg = f"{path} is not what 'rehearse --json' has written: {violations[0]}"
        raise UsageError(msg)
    return pages.rehearsal(document).rstrip("\n")


@options.command(examples=("resource-api report", "resource-api report last --format html > run.html"))
@click.argument("run", required=False)
@click.option("--format", "form", type=options.Choice(_REPORT_FORMS), default="text", help="How to write it.")
@options.diff
@options.state
@options.common
@with_session()
def report(session: Session, run: str | None, form: str, **_settings: object) -> None:
    """Print the outcome of RUN; without RUN the last one that changed or failed something.

    RUN may be a file that ``rehearse --json`` has written, with ``--format html``.
    """
    if run is not None and run.endswith(".json"):
        session.output.print(_rehearsal(run, form))
        return
    document = Runs(session).document(run)
    if form == "json" or session.json:
        session.output.print_json(document)
    elif form == "html":
        session.output.print(pages.run(document).rstrip("\n"))
    else:
        session.output.print(run_text.run(document, session.output.style))
