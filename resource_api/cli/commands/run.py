"""``run``: a command on many hosts; nothing is recorded, and no manifest is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from resource_api.cli import options
from resource_api.cli.commands import run_on_hosts
from resource_api.cli.session import with_session
from resource_api.model.values.errors import UsageError

if TYPE_CHECKING:
    from resource_api.cli.session import Session


@options.command(
    examples=(
        "resource-api run --on 'web[1:50]' -- systemctl is-active nginx",
        "resource-api run --on web --batches 1,100% -- 'df -h / | tail -1'",
    )
)
@click.argument("words", metavar="COMMAND...", nargs=-1, required=True)
@options.common
@options.hosted
@with_session()
def run(session: Session, words: tuple[str, ...], **_settings: object) -> int:
    """Run COMMAND on hosts, and show what it prints, once for all hosts with the same output.

    Several words are executed as they are; a single one is a line for sh. 0: it ended with 0 on every host, else 1.
    """
    if (code := run_on_hosts(session, "run", words=list(words))) is None:
        msg = "run needs --on WHERE: it runs a command on other hosts"
        raise UsageError(msg)
    return code
