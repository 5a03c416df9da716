"""``refresh``: record resources as they exist; no resource is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.cli import exit_codes, options
from resource_api.cli.commands import show_document
from resource_api.cli.session import with_session
from resource_api.render import plan as plan_text
from resource_api.runtime import refresh as refreshing
from resource_api.runtime import saved_plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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
def refresh(session: Session, *, detailed_exitcodes: bool, **settings: Any) -> int:
    """Read everything that is recorded for MANIFEST's project again; write state; change nothing else."""

    def lines(document: Mapping[str, Any]) -> Iterable[str]:
        resources, outputs = saved_plan.refreshed(document)
        return plan_text.refresh_lines(resources, outputs, session.output.style, noop=settings["noop"])

    def exit_code(document: Mapping[str, Any]) -> int:
        return exit_codes.of_refresh([*document["changes"], *document["output_changes"]], detailed=detailed_exitcodes)

    return show_document(session, "refresh", refreshing.document, lines, exit_code=exit_code)
