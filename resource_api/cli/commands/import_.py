"""``import`` and ``refresh``: state is brought to what is."""

from __future__ import annotations

from typing import Any

import click

from resource_api.cli import options
from resource_api.cli.session import Session
from resource_api.model.values.text import escape
from resource_api.render import json as documents
from resource_api.runtime.import_resource import import_resource


@click.command("import")
@click.argument("manifest", type=click.Path())
@click.argument("reference")
@click.argument("name", required=False)
@options.given_inputs
@options.stacked
@options.isolate
@options.common
def import_(manifest: str, reference: str, name: str | None, **settings: Any) -> int:
    """Take over the existing thing that MANIFEST declares as REFERENCE into state, as ours."""
    session = Session(settings, manifest=manifest)

    def work() -> int:
        done = import_resource(session.runtime, manifest, reference, name, options.inputs(settings))
        if session.json:
            session.print_json({"reference": reference, "summary": documents.summary(done, 0)})
        else:
            session.print(f"{escape(reference)}: {'imported' if done.imported else 'recorded as ours already'}.")
        return 0

    return session.carry(work)
