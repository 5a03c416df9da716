"""``history``: what the recorded runs did, and what was different between two of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from resource_api.cli import options
from resource_api.cli.runs import Runs
from resource_api.cli.session import with_session
from resource_api.cli.stack import none_recorded
from resource_api.render import text
from resource_api.render.runs import history as rendering
from resource_api.render.runs import text as run_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from resource_api.cli.session import Session


@options.group(examples=("resource-api history", "resource-api history show"), invoke_without_command=True)
@options.state
@options.common
@click.pass_context
def history(context: click.Context, /, **settings: Any) -> int | None:
    """List the finished runs, the oldest first, with their durations, changes and drift."""
    return None if context.invoked_subcommand else with_session()(show_runs)(**settings)


def show_runs(session: Session, **_settings: Any) -> None:
    """Print the finished runs of the stacks that a command's options select."""
    runs = [] if none_recorded(session) else Runs(session).all
    session.show_list(lambda: runs, lambda: _lines(session, runs), "no run is recorded yet")


def _lines(session: Session, runs: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    """Return a chart for a terminal; elsewhere a line for each run."""
    runs = text.with_projects(runs)
    if not (runs and session.output.stdout.isatty()):
        return map(text.run, runs)
    import shutil

    return rendering.chart(runs, shutil.get_terminal_size().columns)


@history.command("show", examples=("resource-api history show",))
@click.argument("run", required=False)
@options.diff
@options.state
@options.common
@with_session()
def show(session: Session, run: str | None, **_settings: Any) -> None:
    """Show what RUN did, its failures first; without RUN the last one that changed or failed something."""
    found = Runs(session).document(run)
    session.show(lambda: found, lambda: run_text.run(found, session.output.style))


@history.command("diff", examples=("resource-api history diff last-1 last",))
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@options.diff
@options.state
@options.common
@with_session()
def diff(session: Session, first: str, second: str, **_settings: Any) -> None:
    """Show what was different between the runs A and B: references, outcomes and attributes."""
    runs = Runs(session)
    found = rendering.differences(runs.document(first), runs.document(second))
    session.show(lambda: found, lambda: rendering.difference_lines(found))
