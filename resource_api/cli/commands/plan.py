"""``apply`` and ``plan``."""

from __future__ import annotations

import gc
from typing import Any

import click

from resource_api.cli import options
from resource_api.cli.session import Session
from resource_api.render import json as documents
from resource_api.render import text as render
from resource_api.runtime import saved_plan as saved
from resource_api.runtime.plan_notices import report_findings


@click.command()
@click.argument("manifest", type=click.Path())
@click.option("-o", "--out", type=click.Path(dir_okay=False), help="Save the plan, to be applied later.")
@options.given_inputs
@options.chosen
@options.changing
@options.running
@options.stacked
@options.isolate
@options.common
def plan(manifest: str, out: str | None, **settings: Any) -> int:
    """Show what apply would do with MANIFEST; change nothing."""
    session = Session(settings, manifest=manifest)

    def work() -> int:
        gc.disable()
        inputs, use_cache = options.inputs(settings), session.use_cache and out is None
        planned = session.runtime.plan(manifest, inputs, use_cache=use_cache, **options.wishes(settings))
        if out is not None:
            saved.spare(out, (*(each.file for each in planned.catalog.manifest.documents), *settings["input_files"]))
        if session.json:
            session.print_json(documents.plan(planned))
        else:
            session.print(render.plan(planned, color=session.color))
        if out is not None:
            saved.write(planned, out, session.runtime.key)
        report_findings(planned, session.log)
        for step in planned.steps:
            if step.decision.error:
                session.log.write("err", str(step.reference), step.decision.error)
        if planned.summary.failed:
            return 1
        return 2 if settings["detailed_exitcodes"] and planned.summary.changed else 0

    return session.carry(work)
