"""``destroy``: show the plan of the empty manifest, ask, and carry it out."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from resource_api.cli import given_inputs, options
from resource_api.cli.session import with_session
from resource_api.model.values.errors import UsageError

if TYPE_CHECKING:
    from resource_api.cli.session import Session


@options.command(
    examples=(
        "resource-api destroy site.yaml --noop",
        "resource-api destroy site.yaml --target 'File[/etc/motd]' --yes",
    )
)
@options.manifest
@click.option("--yes", is_flag=True, help="Do not ask.")
@options.noop
@options.manifest_inputs
@options.selection
@options.execution
@options.reports
@options.diff
@options.provider_calls
@options.hosted
@options.rerun
@with_session(runs=True)
def destroy(session: Session, manifest: str, *, yes: bool, noop: bool, **settings: Any) -> int:
    """Delete what state records as ours for the project of MANIFEST and its stack; forget the rest."""
    if not (yes or noop) and (session.json or not sys.stdin.isatty()):
        why = "with --json" if sys.stdin.isatty() else "when standard input is no terminal"
        msg = f"destroy needs --yes {why}"
        raise UsageError(msg)
    confirm = None if yes or noop else partial(_confirmed, session)
    if (code := session.carried("destroy", manifest, confirm=confirm)) is not None:
        return code
    inputs, given = given_inputs.inputs(session.settings), options.run_options({**settings, "noop": noop})
    source = session.source(manifest)
    if noop or not yes:
        planned = session.runtime.plan_destroy(source, inputs, **given)
        if not session.json:
            session.output.print(session.plan_lines(planned))
        if not noop and planned.summary.changed and not _confirmed(session):
            return 1
    return session.show_report(session.runtime.destroy(source, inputs, **given))


def _confirmed(session: Session) -> bool:
    """Ask whether to go on; report that nothing is done if not."""
    if session.output.confirmed("Delete all this?"):
        return True
    session.output.stderr.write("Nothing is deleted.\n")
    return False
