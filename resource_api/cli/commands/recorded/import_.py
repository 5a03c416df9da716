"""``import``: take over an existing resource into state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from resource_api.cli import given_inputs, options
from resource_api.cli.session import with_session
from resource_api.model.values.text import escape
from resource_api.render import json as documents
from resource_api.runtime.import_resource import import_resource

if TYPE_CHECKING:
    from resource_api.cli.session import Session


@options.command("import", examples=("resource-api import site.yaml 'File[/etc/motd]'",))
@options.manifest
@click.argument("reference", shell_complete=options.complete("declared_references"))
@click.argument("name", required=False)
@options.manifest_inputs
@options.provider_calls
@with_session()
def import_(session: Session, manifest: str, reference: str, name: str | None, **_settings: Any) -> None:
    """Take over the existing resource that MANIFEST declares as REFERENCE into state, as ours."""
    summary = import_resource(
        session.runtime, session.source(manifest), reference, name, given_inputs.inputs(session.settings)
    )
    session.show(
        lambda: {"reference": reference, "summary": documents.summary(summary, 0)},
        lambda: f"{escape(reference)}: {'imported' if summary.imported else 'recorded as ours already'}.",
    )
