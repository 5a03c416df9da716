"""``destroy``: the plan of the empty manifest, shown and asked for before it is carried out."""

from __future__ import annotations

import sys
from typing import Any

import click

from resource_api.cli import options
from resource_api.cli.session import Session
from resource_api.model.values.errors import UsageError
from resource_api.render import json as documents
from resource_api.render import text as render


@click.command()
@click.argument("manifest", type=click.Path())
@click.option("--yes", is_flag=True, help="Do not ask.")
@options.noop
@options.given_inputs
@options.chosen
@options.running
@options.stacked
@options.isolate
@options.common
def destroy(manifest: str, **settings: Any) -> int:
    """Delete what state records as ours for the project of MANIFEST and its stack; forget the rest."""
    session = Session(settings, manifest=manifest, stream=True)

    def work() -> int:
        if not (settings["yes"] or settings["noop"] or sys.stdin.isatty()):
            msg = "destroy needs --yes where nobody can be asked"
            raise UsageError(msg)
        inputs, wishes = options.inputs(settings), options.wishes(settings)
        if not (settings["yes"] or session.json) or settings["noop"]:
            planned = session.runtime.plan_destroy(manifest, inputs, **wishes)
            if not session.json:
                session.print(render.plan(planned, color=session.color))
            if not settings["noop"] and planned.summary.changed and not _confirmed(session):
                return 1
        report = session.runtime.destroy(manifest, inputs, **wishes)
        code = session.exit_code(report, detailed=settings["detailed_exitcodes"])
        if session.json:
            session.emit(documents.line("summary", documents.summary(report.summary, code, report.run)))
        else:
            session.print(render.report(report))
        return code

    return session.carry(work)


def _confirmed(session: Session) -> bool:
    """Ask on the terminal; anything but yes is no, the end of what is typed too."""
    session.err.write("Delete all this? Only 'yes' is accepted [no]: ")
    session.flush()
    answer = b""
    try:
        # click would tell an interrupt from the end no more; and bytes that are no text are no yes.
        answer = sys.stdin.buffer.readline()
    finally:
        if not answer.endswith(b"\n"):
            session.err.write("\n")
    return answer.strip() == b"yes"
