"""``apply`` and ``plan``."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import click

from resource_api.cli import options
from resource_api.cli.session import Session
from resource_api.render import json as documents
from resource_api.render import text as render
from resource_api.runtime import saved_plan as saved

if TYPE_CHECKING:
    from resource_api.plan.planner import Plan


@click.command()
@click.argument("manifest", type=click.Path())
@options.noop
@options.given_inputs
@options.chosen
@options.changing
@options.running
@options.stacked
@options.isolate
@options.common
def apply(manifest: str, **settings: Any) -> int:
    """Bring the system to what MANIFEST says; never asks. MANIFEST may be a saved plan."""
    session = Session(settings, manifest=manifest, stream=True)

    def begin(plan: Plan) -> None:
        # What a plan is made of stays to the end: the collector, off until here, never looks through it.
        gc.freeze()
        gc.enable()
        if settings["noop"] and not session.json:
            session.print(render.plan(plan, color=session.color))

    def work() -> int:
        if (document := saved.read(manifest)) is not None:
            how = options.of_saved_plan(settings, document)
            report = saved.apply(session.runtime, document, manifest, how, begin)
        else:
            inputs, wishes = options.inputs(settings), options.wishes(settings)
            gc.disable()
            report = session.runtime.apply(manifest, inputs, on_plan=begin, use_cache=session.use_cache, **wishes)
        code = session.exit_code(report, detailed=settings["detailed_exitcodes"])
        if session.json:
            session.emit(documents.line("summary", documents.summary(report.summary, code, report.run)))
        else:
            session.print(render.outputs(dict(report.outputs)))
            session.print(render.report(report))
        return code

    return session.carry(work)
