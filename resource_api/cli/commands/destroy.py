"""``destroy``: show the plan of the empty manifest, ask, and carry it out, or save it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from resource_api.cli import options
from resource_api.cli.commands import asker, run_on_hosts
from resource_api.cli.commands.plan import out_option, show_plan
from resource_api.cli.session import with_session
from resource_api.model.values.errors import UsageError
from resource_api.render.text import destroy_question, nothing_recorded

if TYPE_CHECKING:
    from resource_api.cli.session import Session
    from resource_api.runtime.planning import Plan


class _DeclinedError(Exception):
    """The answer was no."""


@options.command(
    examples=(
        "resource-api destroy site.yaml --noop",
        "resource-api destroy site.yaml -o later.json",
        "resource-api destroy site.yaml --target 'File[/etc/motd]' --yes",
    )
)
@options.manifest
@click.option("--yes", is_flag=True, help="Do not ask.")
@out_option
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
def destroy(session: Session, manifest: str, out: str | None, *, yes: bool, noop: bool, **settings: object) -> int:
    """Delete the resources that state records as ours for the project of MANIFEST and its stack; forget the rest."""
    if out is not None:
        if yes:
            msg = "-o saves the plan, and --yes is for carrying it out; apply does that with a saved plan"
            raise UsageError(msg)
        return show_plan(session, manifest, out, destroy=True)
    confirm = None if yes or noop else asker(session, "destroy", "Nothing is deleted")
    if (code := run_on_hosts(session, "destroy", manifest, confirm=confirm)) is not None:
        return code
    inputs, run_options = session.inputs.values, options.run_options({**settings, "noop": noop})

    def on_plan(planned: Plan) -> None:
        _show(session, planned, noop=noop, asks=not yes)
        if confirm is not None and planned.summary.changed:
            question = destroy_question(planned.summary, *session.runtime.name(planned.catalog))
            if not confirm(question):
                raise _DeclinedError

    try:
        report = session.runtime.destroy(session.source(manifest), inputs, on_plan=on_plan, **run_options)
    except _DeclinedError:
        return 1
    return session.show_report(report)


def _show(session: Session, planned: Plan, *, noop: bool, asks: bool) -> None:
    """Print the plan before the question or under noop; log that nothing is recorded."""
    if noop:
        session.console.show_noop(planned)
    elif not session.json:
        if asks:
            session.output.print(session.console.plan_lines(planned))
        if not (planned.steps or planned.prior.state.records):
            session.log.write("notice", "", nothing_recorded(*session.runtime.name(planned.catalog)))
