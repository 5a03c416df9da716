"""``show``: a saved plan, as ``plan`` showed it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from resource_api.cli import options
from resource_api.cli.session import with_session
from resource_api.runtime import saved_plan, shown_plan

if TYPE_CHECKING:
    from resource_api.cli.session import Session


@options.command(examples=("resource-api plan site.yaml -o later.json", "resource-api show later.json"))
@click.argument("plan", type=click.Path(), metavar="PLAN.json")
@options.diff
@options.state
@options.common
@with_session()
def show(session: Session, plan: str, **_settings: Any) -> None:
    """Show a saved plan as it was planned; nothing of the machine is read.

    A warning says if state has changed since, so that apply would refuse the plan.
    """
    document = saved_plan.load(plan)
    shown = shown_plan.from_document(document, plan, session.registry)
    session.show(
        lambda: {name: value for name, value in document.items() if name != "manifest"},
        lambda: session.plan_lines(shown),
    )
    if why := shown_plan.find_stale(document, session.runtime.store):
        session.log.write("warning", "", f"{plan}: the plan is stale: {why}; plan again")
