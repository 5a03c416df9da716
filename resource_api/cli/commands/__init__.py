"""The commands of ``resource-api``, each in the module of its name or with its kin; and their way to other hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.cli import options

if TYPE_CHECKING:
    from resource_api.cli.session import Session


def run_on_hosts(session: Session, command: str, manifest: str | None = None, **arguments: Any) -> int | None:
    """Run a command on the hosts that its options select; return the exit code, or None without such options.

    ``arguments`` are those that only this command has, as ``hosted_run.run`` takes them.
    """
    if not options.is_hosted(session.settings):
        return None
    from resource_api.cli import hosted_run

    return hosted_run.run(session, command, manifest, **arguments)
