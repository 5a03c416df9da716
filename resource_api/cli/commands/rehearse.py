"""``rehearse``: apply a manifest on an overlay of this machine, and report its effects."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Any

import click

from resource_api.cli import options
from resource_api.cli.session import command
from resource_api.model.values.errors import UsageError
from resource_api.rehearse import rehearsal
from resource_api.render import text
from resource_api.system.overlay.isolated_run import Isolation

if TYPE_CHECKING:
    from resource_api.cli.session import Session
    from resource_api.model.report import RunReport


def _size(_context: click.Context, _option: click.Parameter, value: str) -> str:
    """Return the value of ``--size``. Raise ``BadParameter`` for one that a tmpfs does not accept."""
    if re.fullmatch(r"[1-9][0-9]*[kmgKMG%]?", value):
        return value
    raise click.BadParameter(f"'{value}' is no size: write bytes, with K, M or G, or a percentage of the memory")


def _terminal() -> int:
    """Return a copy of the terminal's descriptor, for the shell of ``--shell``. Raise ``UsageError`` without one."""
    if not sys.stdin.isatty():
        raise UsageError("--shell needs a terminal as standard input")
    # A copy, because in the overlay descriptor 0 of each process is another file.
    return os.dup(sys.stdin.fileno())


@command(
    examples=(
        "resource-api rehearse site.yaml",
        "resource-api rehearse site.yaml --destroy --test 'test -s /etc/motd'",
    ),
    rare=("targets", "excludes", "tags", "state", "stack", "project", "module_path"),
)
@options.manifest
@options.rare("--destroy", is_flag=True, help="Destroy afterwards, and report the remains.")
@click.option(
    "--orders",
    type=options.Integer(min=0),
    default=0,
    metavar="N",
    help="Apply in N other orders too, and name the relationships that are missing.",
)
@click.option(
    "--kills",
    type=options.Integer(min=0),
    default=0,
    metavar="N",
    help="Kill the run in N places; the next one must mend it.",
)
@click.option(
    "--damage", is_flag=True, help="Damage the results, and report the damage that the next run does not mend."
)
@click.option(
    "--test", "tests", multiple=True, metavar="COMMAND", help="Run inside afterwards, by the shell; repeatable."
)
@options.rare("--shell", is_flag=True, help="Open a shell inside after the runs; needs a terminal.")
@options.rare("--keep", metavar="DIR", help="Keep the written files, without those of --orders, --kills, --damage.")
@click.option(
    "--network",
    type=options.Choice(["none", "host"]),
    default="none",
    help="host: with the network of this machine; effects over it are real.",
)
@options.rare(
    "--size",
    default="25%",
    metavar="SIZE",
    callback=_size,
    help="How much may be written, such as 2G; default: 25% of the memory.",
)
@options.manifest_inputs
@options.selection
@options.shared("strict", "diff")
@options.provider_calls
def rehearse(session: Session, manifest: str, *, network: str, size: str, **settings: Any) -> int:
    """Apply MANIFEST for real on an overlay of this machine, report its effects, and discard everything.

    Exit codes: 0 all well; 1 the run failed; 2 it works, but another verdict is bad.
    """

    def show(report: RunReport) -> None:
        """Show the outcome of the first run, before further ones and the verdicts, which take long."""
        if is_text:
            session.output.print(text.outputs(report.outputs))
            session.output.print(str(report))
        session.output.flush()

    # The run in the overlay keeps the descriptors of this command's output open.
    isolation = Isolation(size.lower(), network == "host", session.output.descriptors)
    is_text = not session.json
    if isolation.network and is_text:
        session.output.print("Network: that of this machine; what is done over it is real.")
        session.output.flush()
    request = rehearsal.Request(
        session.source(manifest),
        session.inputs.values,
        options.run_options(settings),
        isolation=isolation,
        tests=settings["tests"],
        destroy=settings["destroy"],
        orders=settings["orders"],
        damage=settings["damage"],
        kills=settings["kills"],
        terminal=_terminal() if settings["shell"] else None,
        keep=settings["keep"] or "",
    )
    result = rehearsal.rehearse(session.runtime, request, show)
    session.console.show(result.to_dict, lambda: result.lines(session.output.columns))
    # The first verdict is that of the run: without a network a download may have failed.
    has_failed = bool(result.verdicts) and not result.verdicts[0].ok
    if has_failed and not isolation.network and is_text:
        session.output.print("Network: none; --network host gives the rehearsal that of this machine.")
    return result.exit_code
