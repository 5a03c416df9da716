"""``plan`` and ``show``: a plan, to be saved, and a saved plan."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, Any

import click

from resource_api.cli import exit_codes, given_inputs, options
from resource_api.cli.session import with_session
from resource_api.model.values.errors import UsageError
from resource_api.runtime import saved_plan, shown_plan
from resource_api.runtime.plan_notices import report_findings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api.cli.session import Session


def _check_out(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    """Refuse Terraform's ``-out=FILE``, which would be a file called ``ut=FILE``."""
    if value and value.startswith("ut="):
        msg = f"write -o {value[3:]} or --out {value[3:]}"
        raise click.BadParameter(msg)
    return value


#: The option that saves a plan, which ``destroy`` has too.
out_option = click.option(
    "-o",
    "--out",
    type=click.Path(),
    callback=_check_out,
    help="Save the plan, to be applied later; with --on into a directory.",
)


@options.command(examples=("resource-api plan site.yaml -o later.json", "resource-api plan site.yaml --destroy"))
@options.manifest
@out_option
@click.option("--destroy", is_flag=True, help="Show what destroy would do.")
@options.explain
@options.full_run
@options.hosted
@with_session()
def plan(session: Session, manifest: str, out: str | None, *, destroy: bool, **_settings: Any) -> int:
    """Show what apply would do with MANIFEST; change nothing."""
    return show_plan(session, manifest, out, destroy=destroy)


def show_plan(session: Session, manifest: str, out: str | None, *, destroy: bool) -> int:
    """Show a plan and save it in the file ``out``, None for none; ``destroy``: that of the empty manifest."""
    settings = session.settings
    if destroy:
        _refuse_declared(settings)
    if (code := session.carried("plan", manifest, out=out, empty=destroy)) is not None:
        return code
    gc.disable()
    whole = out is not None or bool(settings.get("explain")) or session.has_reporters
    inputs, source = given_inputs.inputs(settings), session.source(manifest)
    given = options.run_options(settings)
    if destroy:
        about = {name: value for name, value in given.items() if name not in options.ABOUT_DECLARED}
        planned = session.runtime.plan_destroy(source, inputs, **about)
    else:
        planned = session.runtime.plan(source, inputs, use_cache=session.use_cache and not whole, **given)
    if out is not None:
        sources = (document.file for document in planned.catalog.manifest.documents)
        saved_plan.check_target(out, (*sources, *settings["input_files"]))
    if session.has_reporters:
        run = {"kind": "plan", "command": "plan", "ended": time.time()}
        session.reported(session.log.mask.document({**run, **planned.to_dict()}))
    session.show(planned.to_dict, lambda: session.plan_lines(planned))
    if out is not None:
        saved_plan.write(planned, out, session.runtime.key)
    report_findings(planned, session.log, session.runtime.store)
    session.log_plan_errors(planned)
    for problem in planned.problems:
        session.report_problem(problem)
    return exit_codes.of_plan(planned, detailed=settings["detailed_exitcodes"])


def _refuse_declared(settings: Mapping[str, Any]) -> None:
    """Raise ``UsageError`` for an option about what the manifest declares: for ``destroy`` that is nothing."""
    if name := next((name for name in options.ABOUT_DECLARED if settings.get(name)), ""):
        msg = f"--{name.replace('_', '-')} does not go with --destroy, which deletes all that is recorded as ours"
        raise UsageError(msg)


@options.command(examples=("resource-api plan site.yaml -o later.json", "resource-api show later.json"))
@click.argument("plan", type=click.Path(), metavar="PLAN.json")
@options.diff
@options.state
@options.common
@with_session()
def show(session: Session, plan: str, **_settings: Any) -> None:
    """Show a saved plan as it was planned; nothing of the machine is read.

    A warning says if state has changed since, so that apply would refuse the plan.
    """
    document = saved_plan.load(plan)
    shown = shown_plan.from_document(document, plan, session.registry)
    session.show(
        lambda: {name: value for name, value in document.items() if name != "manifest"},
        lambda: session.plan_lines(shown),
    )
    if why := shown_plan.find_stale(document, session.runtime.store):
        session.log.write("warning", "", f"{plan}: the plan is stale: {why}; plan again")
