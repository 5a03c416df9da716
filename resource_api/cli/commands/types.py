"""``types``, ``describe``, ``validate``, ``schema`` and ``graph``: what can be seen without touching the system."""

from __future__ import annotations

from typing import Any

import click

from resource_api.cli import options
from resource_api.cli.session import Session


@click.command()
@options.common
def types(**settings: Any) -> int:
    """List the types and components on the module path."""
    session = Session(settings)

    def work() -> int:
        from resource_api.render import describe as describing  # noqa: PLC0415 - only for this command

        listed = describing.types_list(session.registry)
        for broken in (each for each in listed if each.error):
            session.log.write("warning", broken.name, broken.error)
        found = [each for each in listed if not each.error]
        if session.json:
            docs = {each: describing.definition_of(session.registry, each.name).docs for each in found}
            more = {True: {"component": True}, False: {}}
            session.print_json([{"name": each.name, "docs": docs[each], **more[each.component]} for each in found])
        else:
            width = max((len(each.name) for each in found), default=0)
            session.print([f"{each.name:{width}}  {each.summary}".rstrip() for each in found])
        return 0

    return session.carry(work)
