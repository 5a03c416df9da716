"""``history`` and ``report``: the recorded runs, one of them, and the differences between two."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from resource_api.cli import hosted_display, options
from resource_api.cli.commands import run_on_hosts, show_document
from resource_api.cli.session import command, subcommand, with_session
from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import UsageError
from resource_api.render import run_text, text
from resource_api.render.html import pages
from resource_api.runtime import commands
from resource_api.runtime.recorded_stack import Runs, all_selected
from resource_api.system.document_schema import find_violations

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from resource_api.cli.session import Session
    from resource_api.model.json_documents import OverviewJson, RunJson
    from resource_api.runtime.commands import Call


@options.group(examples=("resource-api history", "resource-api history show"), invoke_without_command=True)
@options.state
@options.common
@options.hosted_reading
@click.pass_context
def history(context: click.Context, /, **settings: object) -> int | None:
    """List the finished runs, the oldest first, with their durations, changes and drift."""
    if context.invoked_subcommand is None:
        return with_session(show_runs)(**settings)
    # An option before the subcommand is the group's, and the subcommand would not get it.
    for option in context.command.params:
        if context.get_parameter_source(str(option.name)) is click.core.ParameterSource.COMMANDLINE:
            msg = f"{option.opts[-1]} has no effect here; write it behind 'history {context.invoked_subcommand}'"
            raise click.UsageError(msg, context)
    return None


def show_runs(session: Session, command: str = "history", **arguments: Any) -> int:
    """Print the finished runs of the stacks that a command's options select."""
    lines, empty = partial(_history_lines, session), "no run is recorded yet"
    return show_document(session, command, commands.history, lines, empty=empty, **arguments)


def _history_lines(session: Session, runs: Sequence[Mapping[str, object]]) -> Iterable[str]:
    """Return the lines of finished runs: a table with bars for a terminal, else a plain line for each, for scripts."""
    runs = text.with_projects(runs)  # a list of runs of several projects shows these too
    if not (runs and session.output.stdout.isatty()):
        return map(text.run, runs)
    return run_text.chart(runs, session.output.columns)


@subcommand(history, "show", examples=("resource-api history show",))
@click.argument("run", required=False)
@options.diff
@options.state
@options.hosted_reading
def show_run(session: Session, run: str | None, **_settings: object) -> int:
    """Show the outcome of RUN, its failures first; without RUN the last one that changed or failed something."""
    return show_recorded(session, run)


def show_recorded(session: Session, run: str | None) -> int:
    """Print the outcome of a run as text or JSON: the one with an id, or the last one for None."""
    return show_document(session, "report", commands.run, partial(run_text.run, style=session.output.style), run=run)


@subcommand(history, "diff", examples=("resource-api history diff last-1 last",))
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@options.diff
@options.state
def diff(session: Session, first: str, second: str, **_settings: object) -> None:
    """Show the differences between the runs A and B: references, outcomes and attributes."""
    store = session.runtime.store
    runs = Runs(store, all_selected(store, session.settings))
    differences = run_text.differences(runs.document(first), runs.document(second))
    session.console.show(lambda: differences, lambda: run_text.difference_lines(differences))


def _rehearsal_page(path: str, form: str, on: Sequence[str]) -> str:
    """Return the HTML page of a rehearsal from a file of ``rehearse --json``.

    ``form`` and ``on``: the options ``--format`` and ``--on`` of ``report``. Raise ``UsageError`` for any form but
    HTML, for hosts, and for a file that ``rehearse`` has not written.
    """
    if form != "html" or on:
        raise UsageError(f"{path}: a rehearsal is shown with --format html" + (", and without --on" if on else ""))
    with errors_as(UsageError, OSError, f"{path}: "):
        content = Path(path).read_bytes()
    with errors_as(UsageError, (ValueError, RecursionError), f"{path} is not what 'rehearse --json' has written: "):
        document = json.loads(content)
        if violations := find_violations("rehearse", document):
            raise ValueError(violations[0])
    return pages.rehearsal(document).rstrip("\n")


@command(
    examples=(
        "resource-api report",
        "resource-api report last --format html > run.html",
        "resource-api report --on all --since 24h --format html > hosts.html",
    )
)
@click.argument("run", required=False)
@click.option(
    "--format", "form", type=options.Choice(["text", "json", "html"]), default="text", help="How to write it."
)
@click.option(
    "--since",
    type=options.Duration(1),
    metavar="DURATION",
    help="Instead of one run, an overview of those since then: status, failures, drift, changes, slow calls.",
)
@options.diff
@options.state
@options.hosted_reading
def report(session: Session, run: str | None, form: str, since: float | None, **_settings: object) -> int:
    """Write the outcome of RUN as a page or a document; as text it is that of 'history show'.

    Without RUN it is the last one that changed or failed something. RUN may be a file that ``rehearse --json`` has
    written, with ``--format html``. ``--since 24h`` is about all runs of a day instead, with ``--on`` those of all
    hosts on one page.
    """
    if since is not None:
        return _report_since(session, run, form, since)
    if run is not None and run.endswith(".json"):
        session.output.print(_rehearsal_page(run, form, session.settings["on"]))
        return 0
    if form != "text" and session.settings["on"]:
        msg = f"--format {form} is for one machine; with --on the outcomes are text, or with --json documents"
        raise UsageError(f"{msg}; --since 24h makes one page of all" if form == "html" else msg)

    def lines(document: RunJson) -> str | Iterable[str]:
        return pages.run(document).rstrip("\n") if form == "html" else run_text.run(document, session.output.style)

    return show_document(session, "report", partial(_run_document, session, form), lines, run=run)


def _run_document(session: Session, form: str, call: Call) -> RunJson | OverviewJson:
    """Return the document of a run, or of the runs of a period; from then on ``--format json`` means ``--json``.

    An error while the document is read is still shown as text: with ``--format json``, stdout has only documents of
    runs, but with ``--json`` errors are documents too.
    """
    document = commands.run(call)
    session.output.json = session.json or form == "json"
    return document


def _report_since(session: Session, run: str | None, form: str, seconds: float) -> int:
    """Write an overview of the runs of the last ``seconds``, of this machine or of hosts; return the exit code."""
    if run is not None:
        raise UsageError("RUN and --since exclude each other")
    if form == "json" and session.settings["on"]:
        raise UsageError("--format json is for one machine; with --on the documents are those of --json")
    if options.is_hosted(session.settings):
        answers = hosted_display.Overviews(session, seconds, form)
        return run_on_hosts(session, "report", answers=answers, since=seconds) or 0

    def lines(document: OverviewJson) -> str | Iterable[str]:
        """Return the overview as text, or as the page of hosts with this machine alone."""
        if form != "html":
            return run_text.overview_lines(document)
        host = run_text.HostOverview(os.uname().nodename, document["status"], overview=document)
        return hosted_display.overviews_page([host], seconds)

    return show_document(session, "report", partial(_run_document, session, form), lines, since=seconds)
