"""The commands of ``resource-api``, each in the module of its name or with its kin; and their way to other hosts."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from resource_api.cli import options
from resource_api.model.values.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from resource_api.cli.session import Session


def run_on_hosts(session: Session, command: str, manifest: str | None = None, **arguments: Any) -> int | None:
    """Run a command on the hosts that its options select; return the exit code, or None without such options.

    ``arguments`` are those that only this command has, as ``hosted_run.run`` takes them.
    """
    if not options.is_hosted(session.settings):
        return None
    from resource_api.cli import hosted_run

    return hosted_run.run(session, command, manifest, **arguments)


def asker(session: Session, command: str, declined: str) -> Callable[[str], bool]:
    """Return a function that asks whether to go on, and writes ``declined`` if not.

    Raise ``UsageError`` where nobody could answer.
    """
    if session.json or not sys.stdin.isatty():
        reason = "with --json" if sys.stdin.isatty() else "when standard input is no terminal"
        msg = f"{command} needs --yes {reason}"
        raise UsageError(msg)

    def confirmed(question: str) -> bool:
        if session.output.confirmed(question):
            return True
        session.output.stderr.write(f"{declined}.\n")
        return False

    return confirmed
