"""``hosts``: which hosts an inventory has, whose keys are trusted, and what is sent to hosts without Python."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from resource_api.cli import options
from resource_api.cli.help import CommandGroup
from resource_api.cli.session import with_session
from resource_api.fleet import inventory, python_runtimes
from resource_api.fleet.carriers.carrier import LIBRARY
from resource_api.fleet.python_runtimes import Runtimes
from resource_api.fleet.selection import Selection
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import ResourceError, UsageError
from resource_api.model.values.text import escape

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from resource_api.cli.session import Session
    from resource_api.fleet.carriers.asyncssh_transport import HostKey
    from resource_api.fleet.carriers.carrier import Host
    from resource_api.fleet.python_runtimes import Runtime


@options.group(
    examples=(
        "resource-api hosts list",
        "resource-api hosts list 'web[1:2],!web1'",
        "resource-api hosts runtime list",
    )
)
def hosts() -> None:
    """List hosts, trust their keys, and keep a Python for those that have none."""


@hosts.command("list", examples=("resource-api hosts list", "resource-api hosts list 'web[1:2],!web1' --json"))
@click.argument("where", nargs=-1, shell_complete=options.complete("hosts"))
@options.hosts_file
@options.common
@with_session()
def list_(session: Session, where: Sequence[str], **settings: Any) -> None:
    """List the hosts of the inventory, or those that WHERE selects, and how each is reached."""
    found = _select(session, where, settings["hosts_file"])
    session.console.show(lambda: [_document(host) for host in found], lambda: _table(found, session.output.columns))


@hosts.command(
    "trust",
    examples=(
        "resource-api hosts trust 'web[1:2]'",
        "resource-api hosts trust web1 --yes --fingerprint SHA256:zq0mB4ZX9AzzOUXMxe4c1VHKTeZRYXTWCYWgW",
    ),
)
@click.argument("where", nargs=-1, required=True, shell_complete=options.complete("hosts"))
@click.option("--yes", is_flag=True, help="Do not ask; needs --fingerprint.")
@click.option(
    "--fingerprint",
    "fingerprints",
    multiple=True,
    metavar="SHA256:…",
    help="A key that is right; another is not trusted. Repeatable.",
)
@options.hosts_file
@options.connect_timeout
@options.common
@with_session()
def trust(session: Session, where: Sequence[str], *, yes: bool, fingerprints: Sequence[str], **settings: Any) -> int:
    """Show the keys of the hosts that WHERE selects, ask, and record them in ~/.ssh/known_hosts."""
    if yes and not fingerprints:
        msg = "--yes needs --fingerprint: a key that nobody has compared proves nothing"
        raise UsageError(msg)
    if not yes and not sys.stdin.isatty():
        msg = "trust needs --yes and --fingerprint when standard input is no terminal"
        raise UsageError(msg)
    found = _select(session, where, settings["hosts_file"])
    if settings["connect_timeout"]:
        found = [host._replace(connect_timeout=settings["connect_timeout"]) for host in found]
    shown = _keys(found, fingerprints)
    if not session.json:
        session.output.print(map(_key_line, shown))
    wanted = [each for each in shown if each.status == "unknown"]
    what = "this key" if len(wanted) == 1 else f"these {len(wanted)} keys"
    recorded = bool(wanted) and (yes or session.output.confirmed(f"Trust {what}?"))
    if recorded:
        _record([each.key for each in wanted if each.key is not None])
        shown = [each._replace(status="recorded") if each.status == "unknown" else each for each in shown]
    session.console.show(
        lambda: [each.document() for each in shown],
        lambda: [f"Recorded {len(wanted)} key{'s' if len(wanted) != 1 else ''}."] if recorded else [],
    )
    return int(any(each.status not in {"known", "recorded"} for each in shown))


@hosts.group("runtime", cls=CommandGroup, examples=("resource-api hosts runtime list",))
def runtime() -> None:
    """Keep Python interpreters that are sent to hosts without Python 3.11 or later."""


@runtime.command("add", examples=("resource-api hosts runtime add cpython-3.12-x86_64-linux-gnu.tar.gz",))
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@options.common
@with_session()
def add(session: Session, file: str, **_settings: Any) -> None:
    """Add the interpreter of FILE: a tar (gz, xz) or zip with bin/python3, such as python-build-standalone makes.

    It is sent to hosts whose machine and C library it fits, once to each.
    """
    try:
        added = _runtimes().add(file)
    except OSError as error:
        msg = f"{error.filename or file}: {error.strerror}"
        raise ResourceError(msg) from error
    session.console.show(added.document, lambda: _runtime_line(added))


@runtime.command("list", examples=("resource-api hosts runtime list",))
@options.common
@with_session()
def list_runtimes(session: Session, **_settings: Any) -> None:
    """List the interpreters that were added, the newest first."""
    found = _runtimes().all()
    session.console.show(lambda: [each.document() for each in found], lambda: map(_runtime_line, found))


class _Key(NamedTuple):
    """A host, and its key or why there is none."""

    host: Host
    key: HostKey | None
    #: ``known``, ``unknown``, ``recorded``, ``refused`` or ``unreachable``.
    status: str
    error: str | None

    def document(self) -> dict[str, Any]:
        """Return it as JSON data."""
        key = self.key
        shown = {} if key is None else {"algorithm": key.algorithm, "fingerprint": key.fingerprint}
        place = {} if key is None else {"address": key.place.address, "port": key.place.port}
        return {"host": self.host.name, "status": self.status, "error": self.error, **place, **shown}


def _select(session: Session, where: Sequence[str], file: str | None) -> list[Host]:
    """Return the hosts of a selection. Raise ``UsageError``, ``ManifestError``."""
    default = file or (inventory.FILE if os.path.lexists(inventory.FILE) else None)
    if not where and default is None:
        msg = f"there is no {inventory.FILE} here; name an inventory with --hosts, or name hosts"
        raise UsageError(msg)
    try:
        found = Selection(default, session.registry.trust).find(where)
        return [of.host(name) for name, of in found.items()]
    except UsageError as error:
        raise UsageError(str(error).removeprefix("--on").lstrip(": ")) from error
    except ValueError as error:
        raise UsageError(str(error)) from error


def _document(host: Host) -> dict[str, Any]:
    password = host.become_password
    source = None if password is None else password.document()
    return {**host._asdict(), "groups": list(host.groups), "become_password": source}


def _table(found: Sequence[Host], columns: int | None) -> Iterator[str]:
    """Yield the lines of a table; what all hosts have as it is without a setting has no column."""
    from resource_api.render import table

    rows = [
        {
            "host": host.name,
            "address": _reached(host),
            "groups": ", ".join(host.groups) or None,
            "become": host.become if host.become != "none" else None,
            "via": host.via if host.via != "none" else None,
            "transport": host.transport if host.transport != LIBRARY else None,
        }
        for host in found
    ]
    return table.table(rows, columns)


def _reached(host: Host) -> str:
    """Return ``deploy@10.0.0.9:22``, as far as the inventory has it."""
    user = f"{host.user}@" if host.user else ""
    address = host.address or host.name
    port = f":{host.port}" if host.port else ""
    return f"{user}{f'[{address}]' if port and ':' in address else address}{port}"


def _keys(found: Sequence[Host], fingerprints: Sequence[str]) -> list[_Key]:
    """Ask hosts for their keys. Raise ``ResourceError`` where the library for SSH is not installed."""
    from resource_api.fleet import trust_host_keys
    from resource_api.fleet.carriers import asyncssh_transport
    from resource_api.fleet.carriers.transport import Unreachable

    shown = []
    for host, key in zip(found, asyncssh_transport.host_keys(found, os.environ), strict=True):
        if isinstance(key, Unreachable):
            shown.append(_Key(host, None, "unreachable", str(key)))
            continue
        why = trust_host_keys.refusal(key, fingerprints)
        shown.append(_Key(host, key, "refused" if why else key.trust, why or None))
    return shown


def _key_line(each: _Key) -> str:
    if each.key is None:
        return escape(f"{each.host.name}: unreachable: {each.error}")
    if each.error is not None:
        return escape(f"{each.host.name}: not trusted: {each.error}")
    known = " (known)" if each.status == "known" else ""
    key = each.key
    return escape(f"{each.host.name}: {key.place.shown} {key.algorithm} {key.fingerprint}{known}")


def _record(keys: Sequence[HostKey]) -> None:
    from resource_api.fleet import trust_host_keys
    from resource_api.fleet.carriers import asyncssh_transport

    file = asyncssh_transport.known_hosts_file(os.environ)
    try:
        trust_host_keys.record(file, keys)
    except OSError as error:
        msg = f"{file}: cannot be written: {error.strerror}"
        raise ResourceError(msg) from error


def _runtimes() -> Runtimes:
    return Runtimes(python_runtimes.directory(os.environ))


def _runtime_line(each: Runtime) -> str:
    return f"{each.digest[:12]}  Python {each.python} for {each.machine}, {each.size / 1e6:.1f} MB"
