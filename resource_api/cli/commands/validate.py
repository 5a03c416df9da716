"""``validate``: check a manifest without touching the system."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from resource_api.cli import options
from resource_api.cli.session import with_session

if TYPE_CHECKING:
    from resource_api.cli.session import Session


@options.command(examples=("resource-api validate site.yaml",))
@click.argument("manifest", type=click.Path())
@options.manifest_inputs
@options.common
@with_session()
def validate(session: Session, manifest: str, **settings: Any) -> None:
    """Check everything in MANIFEST that can be checked without touching the system."""
    count = len(session.runtime.validate(manifest, options.inputs(settings)).entries)
    session.show(
        lambda: {"valid": True, "resources": count, "diagnostics": []},
        lambda: f"{manifest} is valid: {count} resource{'' if count == 1 else 's'}.",
    )
