"""``state`` and ``output``: what is recorded, looked at, verified, recovered, and carried elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from resource_api.cli import options
from resource_api.cli.commands import state_edit as mend
from resource_api.cli.session import Session
from resource_api.cli.stack import Recorded, find
from resource_api.model.values.errors import ResourceAPIError, UsageError, nearest
from resource_api.model.values.text import escape
from resource_api.render import state as state_text
from resource_api.state.store import StackName

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@click.group()
def state() -> None:
    """Look at and mend what is recorded."""


for _each in (mend.rm, mend.mv, mend.taint, mend.untaint, mend.rekey):
    state.add_command(_each)


def _command(name: str) -> Callable[[Callable[..., int]], click.Command]:
    """Make a subcommand with the options that all of them share."""

    def decorate(function: Callable[..., int]) -> click.Command:
        return state.command(name)(options.stacked(options.common(function)))

    return decorate


@_command("list")
def list_(**settings: Any) -> int:
    """List what is recorded, one reference a line."""
    session = Session(settings)

    def work() -> int:
        if not settings["project"] and not session.runtime.store.stacks():
            if session.json:
                session.print_json([])
            return 0
        known = Recorded(session).state
        records = list(known.records.values())
        if session.json:
            from resource_api.state import export as state_export  # noqa: PLC0415 - only for JSON

            session.print_json(
                [
                    {
                        "reference": str(each.reference),
                        "urn": state_export.record_urn(known, each),
                        "parent": each.parent or None,
                        "type": each.type,
                        "name": each.name,
                        "owned": each.owned,
                        "status": each.status,
                    }
                    for each in records
                ]
            )
        else:
            session.print(escape(str(each.reference)) for each in records)
        return 0

    return session.carry(work)


@_command("show")
@click.argument("ref", metavar="REF")
def show(ref: str, **settings: Any) -> int:
    """Show everything that is recorded of one resource."""
    session = Session(settings)

    def work() -> int:
        known = Recorded(session).state
        found = find(known, ref)
        if session.json:
            from resource_api.state import export as state_export  # noqa: PLC0415 - only for JSON

            session.print_json(state_export.record_document(known, found))
        else:
            session.print(state_text.record(known, found))
        return 0

    return session.carry(work)


@_command("history")
def history(**settings: Any) -> int:
    """List the finished runs, the oldest first."""
    session = Session(settings)

    def work() -> int:
        recorded = Recorded(session)
        runs = recorded.store.history(recorded.name)
        if session.json:
            session.print_json(list(runs))
        else:
            session.print([state_text.run(run) for run in runs])
        return 0

    return session.carry(work)


@_command("check")
def check(**settings: Any) -> int:
    """Verify everything that is kept, of all stacks."""
    session = Session(settings)
    return session.carry(lambda: _lines(session, "found", session.runtime.store.check()))


@_command("recover")
def recover(**settings: Any) -> int:
    """Put the newest whole generation in place of what is damaged; say what is lost."""
    session = Session(settings)
    timeout = settings["lock_timeout"]
    return session.carry(lambda: _lines(session, "done", session.runtime.store.recover(timeout)))


def _lines(session: Session, word: str, lines: Any) -> int:
    if session.json:
        session.print_json({word: list(lines)})
    else:
        session.print(map(escape, lines))
    return 0


@_command("export")
def export(**settings: Any) -> int:
    """Print the whole of one stack as JSON; keep it as you keep the state itself."""
    session = Session(settings)

    def work() -> int:
        from resource_api.state import export as state_export  # noqa: PLC0415 - only for this command

        known, key = Recorded(session).state, session.runtime.key
        if not known.serial:
            msg = f"nothing is recorded of project {known.project}, stack {known.stack}"
            raise UsageError(msg)
        session.print_json(state_export.to_document(known, key if known.encrypted else None))
        return 0

    return session.carry(work)


@_command("import")
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--force", is_flag=True, help="Also another lineage, or what is older than what is recorded.")
def import_(file: str, *, force: bool, **settings: Any) -> int:
    """Put the stack that FILE holds in place of what is recorded; verified before anything is written."""
    session = Session(settings)
    given = click.get_current_context().get_parameter_source("stack") is not click.core.ParameterSource.DEFAULT

    def work() -> int:
        from resource_api.state import export as state_export  # noqa: PLC0415 - only for this command

        new = state_export.from_document(_read(file), file, session.runtime.key)
        name = StackName(settings["project"] or new.project, settings["stack"] if given else new.stack)
        recorded = Recorded(session, everything=True)
        recorded.name = name
        with recorded.changing("state import") as known:
            new = state_export.check_replacement(
                known, new._replace(project=name.project, stack=name.stack), file, force=force
            )
            recorded.store.overwrite(name, new)
        if session.json:
            session.print_json({"project": name.project, "stack": name.stack, "serial": new.serial})
        else:
            count = f"{len(new.records)} resources, serial {new.serial}"
            session.print(f"imported into project {name.project}, stack {name.stack}: {count}")
        return 0

    return session.carry(work)


def _read(file: str) -> str:
    try:
        with open(file, encoding="utf-8") as stream:  # noqa: PTH123 - pathlib costs more than the file
            return stream.read()
    except (OSError, UnicodeDecodeError) as error:
        msg = f"cannot read {file}: {error}"
        raise UsageError(msg) from error


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
            from resource_api.render import text as render  # noqa: PLC0415 - only for text

            session.print(render.outputs(chosen))
        else:
            session.print(state_text.output(chosen[name], terminal=session.out.isatty()))
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
