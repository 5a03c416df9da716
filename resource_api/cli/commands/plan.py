"""``plan``: show what ``apply`` would do, and save it."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, Any

import click

from resource_api.cli import exit_codes, given_inputs, options
from resource_api.cli.session import with_session
from resource_api.runtime import saved_plan
from resource_api.runtime.plan_notices import report_findings

if TYPE_CHECKING:
    from resource_api.cli.session import Session


def _file(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    """Refuse Terraform's ``-out=FILE``, which would be a file called ``ut=FILE``."""
    if value and value.startswith("ut="):
        msg = f"write -o {value[3:]} or --out {value[3:]}"
        raise click.BadParameter(msg)
    return value


@options.command(examples=("resource-api plan site.yaml", "resource-api plan site.yaml -o later.json"))
@options.manifest
@click.option(
    "-o",
    "--out",
    type=click.Path(),
    callback=_file,
    help="Save the plan, to be applied later; with --on into a directory.",
)
@options.explain
@options.full_run
@options.hosted
@with_session()
def plan(session: Session, manifest: str, out: str | None, **settings: Any) -> int:
    """Show what apply would do with MANIFEST; change nothing."""
    if (code := session.carried("plan", manifest, out=out)) is not None:
        return code
    gc.disable()
    whole = out is not None or settings["explain"] or session.has_reporters
    inputs, source = given_inputs.inputs(session.settings), session.source(manifest)
    use_cache = session.use_cache and not whole
    planned = session.runtime.plan(source, inputs, use_cache=use_cache, **options.run_options(settings))
    if out is not None:
        sources = (document.file for document in planned.catalog.manifest.documents)
        saved_plan.check_target(out, (*sources, *settings["input_files"]))
    if session.has_reporters:
        about = {"kind": "plan", "command": "plan", "ended": time.time()}
        session.reported(session.log.mask.document({**about, **planned.to_dict()}))
    session.show(planned.to_dict, lambda: session.plan_lines(planned))
    if out is not None:
        saved_plan.write(planned, out, session.runtime.key)
    report_findings(planned, session.log, session.runtime.store.holder)
    for step in planned.steps:
        # Where people see both streams, the plan has said so.
        if step.decision.error and (session.json or not session.output.on_one_terminal):
            reference, name = str(step.reference), step.definition.name
            session.log.write("err", reference, step.decision.error, name, step.log_fields, status="failed")
    for problem in planned.problems:
        session.report_problem(problem)
    return exit_codes.of_plan(planned, detailed=settings["detailed_exitcodes"])
