"""``hosts`` and ``run``: list hosts, trust their keys, keep a Python for those without one, run a command on them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from resource_api.cli import hosted_work, options
from resource_api.cli.commands import asker, run_on_hosts
from resource_api.cli.session import command, subcommand
from resource_api.fleet import asyncssh_transport, inventory, runtime_archives
from resource_api.fleet.connections import LIBRARY
from resource_api.fleet.inventory import Selection
from resource_api.fleet.runtime_archives import PythonRuntimes
from resource_api.fleet.transport import HostUnreachable
from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import ResourceError, UsageError
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.text import counted, escape
from resource_api.render import table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from resource_api.cli.session import Session
    from resource_api.fleet.asyncssh_transport import HostKey
    from resource_api.fleet.connections import Host
    from resource_api.fleet.runtime_archives import PythonRuntime


@options.group(
    examples=("resource-api hosts list", "resource-api hosts list 'web[1:2],!web1'", "resource-api hosts runtime list")
)
def hosts() -> None:
    """List hosts, trust their keys, and keep a Python for those that have none."""


@subcommand(hosts, "list", examples=("resource-api hosts list", "resource-api hosts list 'web[1:2],!web1' --json"))
@click.argument("patterns", metavar="[WHERE]...", nargs=-1, shell_complete=options.complete("hosts"))
@options.shared("hosts_file", "inputs_key")
def list_(session: Session, patterns: Sequence[str], **settings: Any) -> None:
    """List the hosts of the inventory, or those that WHERE selects, and how each is reached."""
    selected = _select(session, patterns, settings["hosts_file"])
    session.console.show(
        lambda: [_document(host) for host in selected], lambda: _table(selected, session.output.columns)
    )


@subcommand(
    hosts,
    "trust",
    examples=(
        "resource-api hosts trust 'web[1:2]'",
        "resource-api hosts trust web1 --yes --fingerprint SHA256:zq0mB4ZX9AzzOUXMxe4c1VHKTeZRYXTWCYWgW",
    ),
)
@click.argument("patterns", metavar="WHERE...", nargs=-1, required=True, shell_complete=options.complete("hosts"))
@click.option("--yes", is_flag=True, help="Do not ask; needs --fingerprint.")
@click.option(
    "--fingerprint",
    "fingerprints",
    multiple=True,
    metavar="SHA256:…",
    help="A key that is right; another is not trusted. Repeatable.",
)
@options.shared("hosts_file", "inputs_key", "connect_timeout")
def trust(session: Session, patterns: Sequence[str], *, yes: bool, fingerprints: Sequence[str], **settings: Any) -> int:
    """Show the keys of the hosts that WHERE selects, ask, and record them in ~/.ssh/known_hosts."""
    if yes and not fingerprints:
        raise UsageError("--yes needs --fingerprint: a key that nobody has compared proves nothing")
    confirm = None if yes else asker(session, "trust", "No key is recorded", "--yes and --fingerprint")
    selected = _select(session, patterns, settings["hosts_file"])
    if settings["connect_timeout"]:
        selected = [host._replace(connect_timeout=settings["connect_timeout"]) for host in selected]
    rows = _fetch_keys(selected, fingerprints)
    # The user compares the keys before the question.
    if not session.json:
        session.output.print(map(_key_line, rows))
    rows = _record_unknown(rows, confirm)
    count = sum(row.status == "recorded" for row in rows)
    session.console.show(
        lambda: [row.document() for row in rows], lambda: f"Recorded {counted(count, 'key')}." if count else ""
    )
    return int(any(row.status not in {"known", "recorded"} for row in rows))


@hosts.group("runtime", examples=("resource-api hosts runtime list",))
def runtime() -> None:
    """Keep Python interpreters that are sent to hosts without Python 3.11 or later."""


@subcommand(runtime, "add", examples=("resource-api hosts runtime add cpython-3.12-x86_64-linux-gnu.tar.gz",))
@click.argument("file", type=options.Path(exists=True, dir_okay=False))
def add(session: Session, file: str, **_settings: object) -> None:
    """Add the interpreter of FILE: a tar (gz, xz) or zip with bin/python3, such as python-build-standalone makes.

    It is sent to hosts whose machine and C library it fits, once to each.
    """
    with errors_as(ResourceError, OSError, f"{file}: ", names_file=True):
        added = _runtimes().add(file)
    session.console.show(added.document, lambda: _runtime_line(added))


@subcommand(runtime, "list", examples=("resource-api hosts runtime list",))
def list_runtimes(session: Session, **_settings: object) -> None:
    """List the interpreters that were added, the newest first."""
    runtimes = _runtimes().all()
    session.console.show(lambda: [runtime_.document() for runtime_ in runtimes], lambda: map(_runtime_line, runtimes))


class _Key(NamedTuple):
    """The result of ``hosts trust`` for a host: its key, or the reason that there is none to trust."""

    host: Host
    key: HostKey | None
    #: ``known``, ``unknown``, ``recorded``, ``refused`` or ``unreachable``.
    status: str
    error: str | None

    def document(self) -> dict[str, object]:
        """Return the host, the status and the key, if there is one, as ``hosts trust --json`` shows them."""
        fields: dict[str, object] = {"host": self.host.name, "status": self.status, "error": self.error}
        if (key := self.key) is not None:
            fields |= {"address": key.endpoint.address, "port": key.endpoint.port}
            fields |= {"algorithm": key.algorithm, "fingerprint": key.fingerprint}
        return fields


def _select(session: Session, patterns: Sequence[str], file: str | None) -> list[Host]:
    """Return the hosts that WHERE selects in the inventory ``file``, or all; None: that of the working directory.

    Warn of an unused ``&NAME`` in WHERE and refuse an unused ``!NAME``, which are likely mistyped. Raise ``UsageError``
    or ``ManifestError``.
    """
    default = file or inventory.beside(None)
    if not patterns and default is None:
        raise UsageError(f"there is no {inventory.FILE} here; name an inventory with --hosts, or name hosts")
    with errors_as(UsageError):
        selection = Selection(default, session.registry.trust, session.inputs.reader)
        inventories = selection.find(patterns, option="")  # here WHERE is an argument
        hosted_work.check_unused(session, selection, patterns, "")
        return [inventory_.host(name) for name, inventory_ in inventories.items()]


def _document(host: Host) -> dict[str, object]:
    """Return a host as ``hosts list --json`` shows it, without secrets.

    Instead of a password it has the password's source, such as a file. Jump hosts are only names, in ``via``.
    """
    password = host.become_password
    source = None if password is None else password.document()
    fields = {name: value for name, value in host._asdict().items() if name != "jump_hosts"}
    return {**fields, "groups": list(host.groups), "become_password": source}


def _table(selected: Sequence[Host], columns: int | None) -> Iterator[str]:
    """Yield the lines of the table of ``hosts list``.

    A default value is None, so that a column of which no host has another value is left out.
    """
    rows = [
        {
            "host": host.name,
            "address": _address(host),
            "groups": ", ".join(host.groups) or None,
            "become": host.become if host.become != "none" else None,
            "via": host.via if host.via != "none" else None,
            "transport": host.transport if host.transport != LIBRARY else None,
        }
        for host in selected
    ]
    return table.table(rows, columns)


def _address(host: Host) -> str:
    """Return the address of a host, ``deploy@10.0.0.9:22``, as far as the inventory has it; IPv6 in brackets."""
    user = f"{host.user}@" if host.user else ""
    address = host.address or host.name
    port = f":{host.port}" if host.port else ""
    if port and ":" in address:
        address = f"[{address}]"
    return f"{user}{address}{port}"


def _fetch_keys(selected: Sequence[Host], fingerprints: Sequence[str]) -> list[_Key]:
    """Return the present SSH key of each host, or the reason that it cannot be fetched, for the user to compare.

    Refused are keys that ``known_hosts`` contradicts or revokes, and, with ``fingerprints``, unknown keys that have
    none of them. Raise ``ResourceError``.
    """
    keys = []
    for host, key in zip(selected, asyncssh_transport.host_keys(selected, os.environ), strict=True):
        if isinstance(key, HostUnreachable):
            keys.append(_Key(host, None, "unreachable", str(key)))
            continue
        reason = asyncssh_transport.distrust_reason(key, fingerprints)
        keys.append(_Key(host, key, "refused" if reason else key.trust, reason or None))
    return keys


def _key_line(row: _Key) -> str:
    """Return the line of a host: its key, for the user to compare, or the reason that there is none to trust."""
    if (key := row.key) is None:
        return escape(f"{row.host.name}: unreachable: {row.error}")
    if row.error is not None:
        return escape(f"{row.host.name}: not trusted: {row.error}")
    mark = " (known)" if row.status == "known" else ""
    return escape(f"{row.host.name}: {key.endpoint.text} {key.algorithm} {key.fingerprint}{mark}")


def _record_unknown(rows: list[_Key], confirm: Callable[[str], bool] | None) -> list[_Key]:
    """Append the unknown keys to ``known_hosts``, unless ``confirm`` answers no; return all rows.

    The status of the keys that were appended is then ``recorded``.
    """
    unknown = [row.key for row in rows if row.key is not None and row.status == "unknown"]
    these_keys = "this key" if len(unknown) == 1 else f"these {len(unknown)} keys"
    if not unknown or (confirm is not None and not confirm(f"Trust {these_keys}?")):
        return rows
    file = asyncssh_transport.known_hosts_file(os.environ)
    with errors_as(ResourceError, OSError, f"{file}: cannot be written: "):
        asyncssh_transport.record_host_keys(file, unknown)
    return [row._replace(status="recorded") if row.status == "unknown" else row for row in rows]


def _runtimes() -> PythonRuntimes:
    """Return the interpreters that are kept for hosts without Python."""
    return PythonRuntimes(runtime_archives.directory(os.environ))


def _runtime_line(interpreter: PythonRuntime) -> str:
    """Return ``1dead9bdf5e0  Python 3.12.4 for linux-x86_64-gnu, 21.4 MB``."""
    size = f"{interpreter.size / 1e6:.1f} MB"
    return f"{interpreter.digest[:12]}  Python {interpreter.python} for {interpreter.platform}, {size}"


@command(
    examples=(
        "resource-api run --on 'web[1:50]' -- systemctl is-active nginx",
        "resource-api run --on web --batches 1,100% -- 'df -h / | tail -1'",
    )
)
@click.argument("words", metavar="COMMAND...", nargs=-1, required=True)
@options.hosted
def run(session: Session, words: tuple[str, ...], **_settings: object) -> int:
    """Run COMMAND on hosts, and show its output, once for all hosts where it is the same.

    Several words are executed as they are; a single one is a line for sh. 0: it ended with 0 on every host, else 1.
    """
    if (code := run_on_hosts(session, "run", words=list(words))) is None:
        raise UsageError("run needs --on WHERE: it runs a command on other hosts")
    return code
