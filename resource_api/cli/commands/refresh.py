"""``import`` and ``refresh``: state is brought to what is."""

from __future__ import annotations

from typing import Any

import click

from resource_api.cli import options
from resource_api.cli.session import Session
from resource_api.model.values.text import escape
from resource_api.runtime import refresh as refreshing


@click.command()
@click.argument("manifest", type=click.Path())
@click.option("--detailed-exitcodes", is_flag=True, help="2: state has changed.")
@options.given_inputs
@options.stacked
@options.isolate
@options.common
def refresh(manifest: str, **settings: Any) -> int:
    """Read everything that is recorded for MANIFEST's project again; write state; change nothing else."""
    session = Session(settings, manifest=manifest)

    def work() -> int:
        moved = refreshing.refresh(session.runtime, manifest, options.inputs(settings))
        if session.json:
            session.print_json({"refreshed": moved, "exit_code": 0})
        else:
            session.print([*(f"<= {escape(reference)}" for reference in moved), f"{len(moved)} refreshed."])
        return 2 if settings["detailed_exitcodes"] and moved else 0

    return session.carry(work)
