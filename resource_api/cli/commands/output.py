"""``state`` and ``output``: what is recorded, looked at, verified, recovered, and carried elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from resource_api.cli import options
from resource_api.cli.session import Session
from resource_api.cli.stack import Recorded
from resource_api.model.values.errors import ResourceAPIError, nearest
from resource_api.render import text as render

if TYPE_CHECKING:
    from collections.abc import Mapping


@click.command()
@click.argument("name", required=False)
@click.option("--reveal", is_flag=True, help="Show sensitive ones too.")
@options.stacked
@options.common
def output(name: str | None, *, reveal: bool, **settings: Any) -> int:
    """Show the outputs of a stack, or the one called NAME, as they are recorded."""
    session = Session(settings)

    def work() -> int:
        if not settings["project"] and not session.runtime.store.stacks():
            outputs: dict[str, Any] = {}
        else:
            outputs = dict(Recorded(session).state.outputs)
        if name is not None and name not in outputs:
            hint = nearest(name, outputs)
            msg = f"there is no output '{name}'"
            raise ResourceAPIError(f"{msg}; {hint}" if hint else msg)
        chosen = outputs if name is None else {name: outputs[name]}
        chosen = _revealed(chosen) if reveal else chosen
        if session.json:
            session.print_json(chosen if name is None else chosen[name])
        elif name is None:
            session.print(render.outputs(chosen))
        else:
            session.print(render.output(chosen[name], terminal=session.out.isatty()))
        return 0

    return session.carry(work)


def _revealed(outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Give outputs in clear. Raises ``ResourceAPIError`` for those of which only a digest is known."""
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
