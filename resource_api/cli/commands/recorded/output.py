"""``output``: show the recorded outputs of a stack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from resource_api.cli import options
from resource_api.cli.session import with_session
from resource_api.cli.stack import Stack, none_recorded
from resource_api.model.values.errors import ResourceAPIError, nearest
from resource_api.render import text

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    if options.is_hosted(session.settings):
        from resource_api.cli import fleet  # noqa: PLC0415 - only with --on

        return fleet.carry(session, "output", name=name, reveal=reveal)
    outputs = {} if none_recorded(session) else dict(Stack(session).state.outputs)
    if name is None:
        shown = _revealed(outputs) if reveal else outputs
        session.show(lambda: shown, lambda: text.outputs(shown))
        return 0
    if name not in outputs:
        hint = nearest(name, outputs)
        msg = f"there is no output '{name}'"
        raise ResourceAPIError(f"{msg}; {hint}" if hint else msg)
    value = _revealed({name: outputs[name]})[name] if reveal else outputs[name]
    session.show(lambda: value, lambda: text.output(value, terminal=session.output.stdout.isatty()))
    return 0


def _revealed(outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return outputs without masking. Raise ``ResourceAPIError`` for those of which only a digest is recorded."""
    from resource_api.model import codec  # noqa: PLC0415 - only for secrets
    from resource_api.model.values import values  # noqa: PLC0415 - only for secrets

    found = {name: values.reveal(codec.open_sealed(value)) for name, value in outputs.items()}
    if hidden := [name for name, value in found.items() if codec.has_sealed(value)]:
        msg = (
            f"of sensitive outputs only a digest is recorded without a key, so that they cannot be revealed:"
            f" {', '.join(hidden)}"
        )
        raise ResourceAPIError(msg)
    return found
