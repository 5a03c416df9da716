"""``output``: show the recorded outputs of a stack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from resource_api.cli import options
from resource_api.cli.session import with_session
from resource_api.cli.stack import Stack, none_recorded
from resource_api.model.codec import plain
from resource_api.render import text
from resource_api.runtime.queries import recorded_stack

if TYPE_CHECKING:
    from resource_api.cli.session import Session


@options.command(examples=("resource-api output", "resource-api output checksum --json"))
@click.argument("name", required=False)
@click.option("--reveal", is_flag=True, help="Show sensitive ones too.")
@options.state
@options.common
@options.hosted
@with_session()
def output(session: Session, name: str | None, *, reveal: bool, **_settings: Any) -> int:
    """Show the outputs of a stack, or the one called NAME, as they are recorded."""
    if (code := session.carried("output", name=name, reveal=reveal)) is not None:
        return code
    outputs = {} if none_recorded(session) else dict(Stack(session).state.outputs)
    if name is None:
        shown = recorded_stack.revealed(outputs) if reveal else outputs
        session.show_list(lambda: shown, lambda: text.outputs(shown), "no output is recorded")
        return 0
    value = recorded_stack.output(outputs, name, reveal=reveal)
    session.show(lambda: value, lambda: text.output(plain(value), terminal=session.output.stdout.isatty()))
    return 0
