"""``refresh``: record resources as they exist; no resource is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.cli import exit_codes, options
from resource_api.cli.commands import run_on_hosts
from resource_api.cli.session import with_session
from resource_api.render import json as documents
from resource_api.render import plan as plan_text
from resource_api.runtime import refresh as refreshing

if TYPE_CHECKING:
    from resource_api.cli.session import Session


@options.command(examples=("resource-api refresh site.yaml", "resource-api refresh site.yaml --noop --target File"))
@options.manifest
@options.noop
@options.targets
@options.shared("detailed_exitcodes", help="2: state has changed.")
@options.manifest_inputs
@options.reports
@options.provider_calls
@options.hosted
@options.rerun
@with_session()
def refresh(session: Session, manifest: str, *, detailed_exitcodes: bool, **settings: Any) -> int:
    """Read everything that is recorded for MANIFEST's project again; write state; change nothing else."""
    if (code := run_on_hosts(session, "refresh", manifest)) is not None:
        return code
    selection = {name: settings[name] for name in ("targets", "excludes", "noop")}
    inputs = session.inputs.values
    refreshed = refreshing.read_again(session.runtime, session.source(manifest), inputs, **selection)
    session.console.show(
        lambda: documents.refresh(refreshed.resources, refreshed.outputs),
        lambda: plan_text.refresh_lines(
            refreshed.resources, refreshed.outputs, session.output.style, noop=settings["noop"]
        ),
    )
    return exit_codes.of_refresh([*refreshed.resources, *refreshed.outputs], detailed=detailed_exitcodes)
