"""``types``, ``describe``, ``validate``, ``schema`` and ``graph``: what can be seen without touching the system."""

from __future__ import annotations

from typing import Any

import click

from resource_api.cli import options
from resource_api.cli.session import Session


@click.command()
@click.argument("manifest", type=click.Path())
@options.given_inputs
@options.common
def validate(manifest: str, **settings: Any) -> int:
    """Check everything in MANIFEST that can be checked without touching the system."""
    session = Session(settings, manifest=manifest)

    def work() -> int:
        catalog = session.runtime.validate(manifest, options.inputs(settings))
        count = len(catalog.entries)
        if session.json:
            session.print_json({"valid": True, "resources": count, "diagnostics": []})
        else:
            session.print(f"{manifest} is valid: {count} resource{'' if count == 1 else 's'}.")
        return 0

    return session.carry(work)
