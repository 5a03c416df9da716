"""``refresh``: read every recorded resource again and record what has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from resource_api.cli import exit_codes, given_inputs, options
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
@click.option("--detailed-exitcodes", is_flag=True, help="2: state has changed.")
@options.manifest_inputs
@options.reports
@options.provider_calls
@options.hosted
@options.rerun
@with_session()
def refresh(session: Session, manifest: str, *, detailed_exitcodes: bool, **settings: Any) -> int:
    """Read everything that is recorded for MANIFEST's project again; write state; change nothing else."""
    if (code := session.carried("refresh", manifest)) is not None:
        return code
    selection = {name: settings[name] for name in ("targets", "excludes", "noop")}
    given = given_inputs.inputs(session.settings)
    found = refreshing.read_again(session.runtime, session.source(manifest), given, **selection)
    session.show(
        lambda: documents.refresh(found.resources, found.outputs),
        lambda: plan_text.refresh_lines(found.resources, found.outputs, session.output.style, noop=settings["noop"]),
    )
    return exit_codes.of_refresh([*found.resources, *found.outputs], detailed=detailed_exitcodes)
