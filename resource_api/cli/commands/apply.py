"""``apply``: bring the system to the state of a manifest, or apply a saved plan."""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING

from resource_api.cli import options
from resource_api.cli.commands import run_on_hosts
from resource_api.cli.session import command
from resource_api.model.values.errors import UsageError
from resource_api.render import text
from resource_api.runtime import saved_plan
from resource_api.runtime.environment import read_saved_plan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api.cli.session import Session
    from resource_api.runtime.planning import Plan


@command(examples=("resource-api apply site.yaml --noop", "resource-api apply site.yaml -i port=8080"), runs=True)
@options.manifest
@options.noop
@options.explain
@options.full_run
@options.hosted_recorded
def apply(session: Session, manifest: str, **settings: object) -> int:
    """Bring the system to the state that MANIFEST declares; never ask. MANIFEST may be a saved plan."""
    if settings["explain"] and not settings["noop"]:
        raise UsageError("--explain needs --noop: it shows a plan")
    if (code := run_on_hosts(session, "apply", manifest)) is not None:
        return code

    def on_plan(plan: Plan) -> None:
        """Show the plan of a noop run before it is carried out; end the pause of the garbage collector.

        The collector pauses during planning for speed: a search would free nothing, because the values stay in use.
        """
        # The plan's values live until the end of the run: freeze exempts them from each later collection.
        gc.freeze()
        gc.enable()
        if settings["noop"]:
            session.console.show_noop(plan)

    source = session.source(manifest)
    if isinstance(source, str) and (document := read_saved_plan(source)) is not None:
        execution = options.saved_plan_options(settings, document)
        report = session.runtime.apply_saved(_saved_plan(session, document, source), execution, on_plan)
    else:
        inputs, run_options = session.inputs.values, options.run_options(settings)
        use_cache = session.use_cache and not settings["explain"]
        gc.disable()  # until on_plan: the values of a plan live that long, so that searching them frees nothing
        report = session.runtime.apply(source, inputs, on_plan=on_plan, use_cache=use_cache, **run_options)
    if not (session.json or session.run.plan_is_shown):
        session.output.print(text.outputs(report.outputs))
    return session.show_report(report)


def _saved_plan(session: Session, document: Mapping[str, object], file: str) -> saved_plan.SavedPlan:
    """Return the plan that was saved in a file, to be applied.

    The types beside its manifest are registered again: the file of the plan may be in another directory.
    """
    # A problem quotes a line of the manifest only if that file has not changed since the plan was saved.
    session.console.source_time = os.stat(file).st_mtime
    plan = saved_plan.SavedPlan(document, file, session.runtime.key)
    if plan.manifest.path:  # standard input has none
        session.registry.add_manifest(plan.manifest.path)
    return plan
