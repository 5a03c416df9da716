"""``validate``: check a manifest without touching the system."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.cli import given_inputs, options
from resource_api.cli.session import with_session

if TYPE_CHECKING:
    from resource_api.cli.session import Session


@options.command(examples=("resource-api validate site.yaml",))
@options.manifest
@options.manifest_inputs
@options.state
@options.common
@options.hosted
@with_session()
def validate(session: Session, manifest: str, **_settings: Any) -> int:
    """Check everything in MANIFEST that can be checked without touching the system."""
    if (code := session.carried("validate", manifest)) is not None:
        return code
    catalog = session.runtime.validate(session.source(manifest), given_inputs.inputs(session.settings))
    count, file = len(catalog.entries), catalog.manifest.file
    session.show(
        lambda: {"valid": True, "resources": count, "diagnostics": session.warnings()},
        lambda: f"{file} is valid: {count} resource{'' if count == 1 else 's'}.",
    )
    return 0
