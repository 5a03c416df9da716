"""``facts``: what manifests can refer to as ``${facts.NAME}``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from resource_api.cli import options
from resource_api.cli.session import with_session
from resource_api.model.values.errors import ResourceAPIError, hint
from resource_api.model.values.text import escape
from resource_api.model.values.text import show as show_value
from resource_api.render import text
from resource_api.system.facts import Facts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from resource_api.cli.session import Session


@options.command(examples=("resource-api facts", "resource-api facts os.family", "resource-api facts os --json"))
@click.argument("name", required=False, shell_complete=options.complete("facts"))
@options.common
@with_session()
def facts(session: Session, name: str | None, **_settings: Any) -> None:
    """Show the facts about this machine, or the one called NAME, as in ${facts.NAME}."""
    value = _all() if name is None else _find(name)
    if isinstance(value, dict):
        session.show(lambda: value, lambda: _lines(value, name or ""))
    else:
        session.show(lambda: value, lambda: text.output(value, terminal=session.output.stdout.isatty()))


def _all() -> dict[str, Any]:
    known = Facts()
    return {name: known[name] for name in known.names()}


def _find(name: str) -> Any:
    """Return the fact of a dotted name. Raise ``ResourceAPIError``, with the nearest name, for an unknown one."""
    known = Facts()
    root, *keys = name.split(".")
    value: Any = known[root] if root in known.names() else None
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    if value is not None:
        return value
    names = [known for known, _ in _named(_all(), "")]
    msg = f"there is no fact '{name}'{hint(name, names, 'fact')}"
    raise ResourceAPIError(msg)


def _lines(found: dict[str, Any], above: str) -> Iterator[str]:
    """Yield ``os.name: Debian`` for each fact that is no mapping."""
    for name, value in _named(found, above):
        if not isinstance(value, dict):
            yield f"{escape(name)}: {show_value(value)}"


def _named(found: dict[str, Any], above: str) -> Iterator[tuple[str, Any]]:
    """Yield each fact by its dotted name, a mapping before what is in it."""
    for key, value in found.items():
        name = f"{above}.{key}" if above else key
        yield name, value
        if isinstance(value, dict):
            yield from _named(value, name)
