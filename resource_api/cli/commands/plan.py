"""``plan``, ``show`` and ``destroy``: make a plan and save it, show a saved plan or a run, delete what is recorded."""

from __future__ import annotations

import gc
import os
import re
import time
from typing import TYPE_CHECKING, Final

import click

from resource_api.cli import exit_codes, options
from resource_api.cli.commands import DeclinedError, asker, run_on_hosts
from resource_api.cli.session import with_session
from resource_api.model.options import run_option_names
from resource_api.model.values.errors import UsageError
from resource_api.render.plan import document_lines
from resource_api.render.text import destroy_question, nothing_recorded
from resource_api.runtime import saved_plan
from resource_api.runtime.plan_notices import report_findings

if TYPE_CHECKING:
    from resource_api.cli.session import Session
    from resource_api.model.options import Settings
    from resource_api.runtime.planning import Plan


def _check_out(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    """Return the file of ``-o``. Raise ``BadParameter`` for Terraform's ``-out=FILE``, which is ``-o ut=FILE`` here."""
    if value and (value == "ut" or value.startswith("ut=")):
        file = value[3:] or "FILE"
        msg = f"write -o {file} or --out {file}"
        raise click.BadParameter(msg)
    return value


_out = click.option(
    "-o",
    "--out",
    type=options.Path(),
    callback=_check_out,
    help="Save the plan, to be applied later; with --on into a directory.",
)


@options.command(examples=("resource-api plan site.yaml -o later.json", "resource-api plan site.yaml --destroy"))
@options.manifest
@_out
@options.rare("--destroy", is_flag=True, help="Show what destroy would do.")
@options.explain
@options.full_run
@options.hosted_reading
@with_session()
def plan(session: Session, manifest: str, out: str | None, *, destroy: bool, **_settings: object) -> int:
    """Show the changes that apply would make with MANIFEST; change nothing."""
    return show_plan(session, manifest, out, destroy=destroy)


def show_plan(session: Session, manifest: str, out: str | None, *, destroy: bool) -> int:
    """Show a plan, or with ``destroy`` the plan of the empty manifest; save it in the file ``out``, unless None."""
    settings = session.settings
    if destroy:
        _refuse_changes(settings)
    if (code := run_on_hosts(session, "plan", manifest, out=out, empty=destroy)) is not None:
        return code
    gc.disable()  # until the end: the values of a plan live that long
    plan = _make_plan(session, manifest, destroy=destroy)
    if out is not None:
        sources = (document.file for document in plan.catalog.manifest.documents)
        saved_plan.check_target(out, (*sources, *settings["input_files"]))
    if session.reporting is not None:
        run = {"kind": "plan", "command": "plan", "ended": time.time()}
        session.set_document(session.log.mask.document({**run, **plan.to_dict()}))
    session.console.show(plan.to_dict, lambda: session.console.plan_lines(plan))
    if out is not None:
        saved_plan.write(plan, out, session.runtime.key)
    report_findings(plan, session.log, session.runtime.store)
    session.console.log_plan_errors(plan)
    for problem in plan.problems:
        session.console.show_problem(problem)
    return exit_codes.of_plan(plan, detailed=settings["detailed_exitcodes"])


def _make_plan(session: Session, manifest: str, *, destroy: bool) -> Plan:
    """Return the plan of an apply, or of a destroy; one that is kept needs all resources, so without the cache."""
    settings = session.settings
    inputs, source, run_options = session.inputs.values, session.source(manifest), options.run_options(settings)
    if destroy:
        for name in run_option_names("changes"):
            run_options.pop(name, None)
        return session.runtime.plan_destroy(source, inputs, **run_options)
    # A plan that is saved, explained or reported must have all resources.
    whole = settings.get("out") is not None or bool(settings.get("explain")) or session.reporting is not None
    return session.runtime.plan(source, inputs, use_cache=session.use_cache and not whole, **run_options)


def _refuse_changes(settings: Settings) -> None:
    """Raise ``UsageError`` for an option about declared resources: for ``destroy`` none is declared."""
    if name := next((name for name in run_option_names("changes") if settings.get(name)), ""):
        msg = f"--{name.replace('_', '-')} does not go with --destroy, which deletes all that is recorded as ours"
        raise UsageError(msg)


@options.command(
    examples=(
        "resource-api destroy site.yaml --noop",
        "resource-api destroy site.yaml -o later.json",
        "resource-api destroy site.yaml --target 'File[/etc/motd]' --yes",
    )
)
@options.manifest
@click.option("--yes", is_flag=True, help="Do not ask.")
@_out
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
        """Show the plan and ask. Raise ``DeclinedError`` for no, before anything is destroyed."""
        _show_destruction(session, planned, noop=noop, asks=not yes)
        question = destroy_question(planned.summary, *session.runtime.name(planned.catalog))
        if confirm is not None and planned.summary.changed and not confirm(question):
            raise DeclinedError

    try:
        report = session.runtime.destroy(session.source(manifest), inputs, on_plan=on_plan, **run_options)
    except DeclinedError:
        return 1
    return session.show_report(report)


def _show_destruction(session: Session, planned: Plan, *, noop: bool, asks: bool) -> None:
    """Print the plan before the question or under noop; log that nothing is recorded."""
    if noop:
        session.console.show_noop(planned)
    elif not session.json:
        if asks:
            session.output.print(session.console.plan_lines(planned))
        if not (planned.steps or planned.prior.state.records):
            session.log.write("notice", "", nothing_recorded(*session.runtime.name(planned.catalog)))


#: A file, rather than the id of a run.
_FILE_NAME: Final = re.compile(r"-|.*[./].*", re.DOTALL)


@options.command(examples=("resource-api show later.json", "resource-api show last"))
@click.argument("name", type=options.Path(), metavar="PLAN.json|RUN")
@options.diff
@options.state
@options.common
@with_session()
def show(session: Session, name: str, **_settings: object) -> int:
    """Show a saved plan as it was planned, or a run: its id, last, or last-1; nothing of the machine is read.

    A warning says if state has changed since the plan, so that apply would refuse it.
    """
    is_file = os.path.exists(name)
    if name.endswith("]") and not is_file:
        msg = f"{name} is neither a saved plan nor a run; 'resource-api state show REF' shows the record of a resource"
        raise UsageError(msg)
    if is_file or _FILE_NAME.fullmatch(name):
        _show_saved(session, name)
        return 0
    from resource_api.cli.commands.history import show_recorded

    return show_recorded(session, name)


def _show_saved(session: Session, plan: str) -> None:
    """Show a saved plan, and warn where the state has changed since."""
    document = saved_plan.load(plan)
    shown_plan = saved_plan.show(document, plan, session.registry, verbose=session.settings.get("verbose", False))
    session.console.show(
        lambda: {name: value for name, value in document.items() if name != "manifest"},
        lambda: document_lines(shown_plan, session.output.style),
    )
    if reason := saved_plan.find_stale(document, session.runtime.store):
        session.log.write("warning", "", f"{plan}: the plan is stale: {reason}; plan again")
