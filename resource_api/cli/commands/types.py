"""``types``: list the types and components on the module path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from resource_api.cli import options
from resource_api.cli.session import with_session
from resource_api.render import describe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from resource_api.cli.session import Session
    from resource_api.plugins.implementations import Suitability


@click.command()
@options.common
@with_session()
def types(session: Session, **_settings: Any) -> None:
    """List the types and components on the module path."""
    listed = describe.types_list(session.registry)
    for broken in (each for each in listed if each.error):
        session.log.write("warning", broken.name, broken.error, broken.name)
    found = [each for each in listed if not each.error]
    providers = {each.name: () if each.component else session.suitability(each.name) for each in found}
    width = max((len(each.name) for each in found), default=0)
    session.show(
        lambda: [_document(session, each, providers[each.name]) for each in found],
        lambda: [_line(each, width, providers[each.name]) for each in found],
    )


def _line(each: describe.Listed, width: int, providers: Sequence[Suitability]) -> str:
    several = f" ({'; '.join(describe.implementations(providers))})" if providers else ""
    return f"{each.name:{width}}  {each.summary}{several}".rstrip()


def _document(session: Session, each: describe.Listed, providers: Sequence[Suitability]) -> dict[str, Any]:
    docs = describe.definition_of(session.registry, each.name).docs
    found = {"name": each.name, "docs": docs, **({"component": True} if each.component else {})}
    return found | ({"providers": describe.provider_documents(providers)} if providers else {})
