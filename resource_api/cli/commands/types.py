"""``types``: list the types and components on the module path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from resource_api.cli import options
from resource_api.cli.session import with_session
from resource_api.render import describe

if TYPE_CHECKING:
    from resource_api.cli.session import Session


@click.command()
@options.common
@with_session()
def types(session: Session, **_settings: Any) -> None:
    """List the types and components on the module path."""
    listed = describe.types_list(session.registry)
    for broken in (each for each in listed if each.error):
        session.log.write("warning", broken.name, broken.error)
    found = [each for each in listed if not each.error]
    width = max((len(each.name) for each in found), default=0)
    session.show(
        lambda: [_document(session, each) for each in found],
        lambda: [f"{each.name:{width}}  {each.summary}".rstrip() for each in found],
    )


def _document(session: Session, each: describe.Listed) -> dict[str, Any]:
    docs = describe.definition_of(session.registry, each.name).docs
    return {"name": each.name, "docs": docs, **({"component": True} if each.component else {})}
