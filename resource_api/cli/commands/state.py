"""``state`` and ``output``: what is recorded, looked at, verified, recovered, and carried elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from resource_api.cli import options
from resource_api.cli.session import Session
from resource_api.cli.stack import Recorded, all_of, find, parsed
from resource_api.model.record import Commit
from resource_api.model.values import document
from resource_api.model.values.errors import UsageError
from resource_api.model.values.reference import split_component
from resource_api.model.values.text import escape
from resource_api.render import text as render
from resource_api.state.store import StackName

if TYPE_CHECKING:
    from collections.abc import Callable

    from resource_api.model.record import Record, StackState
    from resource_api.state.encryption.keys import Key


@click.group()
def state() -> None:
    """Look at and mend what is recorded."""


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
            session.print(render.record(known, found))
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
            session.print([render.run(run) for run in runs])
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


@_command("rm")
@click.argument("refs", metavar="REF...", nargs=-1, required=True)
def rm(refs: tuple[str, ...], **settings: Any) -> int:
    """Forget resources, of a component all that it has made; on the system nothing is changed."""

    def change(known: StackState) -> Commit:
        return Commit(drop=list(dict.fromkeys(record.key for ref in refs for record in all_of(known, ref))))

    return _mend("state rm", settings, change)


@_command("mv")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
def mv(source: str, target: str, **settings: Any) -> int:
    """Record a resource under another title, everywhere."""

    def change(known: StackState) -> Commit:
        found = find(known, source)
        wanted = parsed(target)
        if flaw := document.character_problem(wanted.title, key=True, what="a title"):
            raise UsageError(flaw)
        parent, own = split_component(wanted, found.type)
        if own.type != found.type:
            msg = f"{found.reference} cannot become {wanted}: a resource keeps its type"
            raise UsageError(msg)
        if any(record.reference == wanted for record in known.records.values()):
            msg = f"{wanted} is recorded already"
            raise UsageError(msg)
        old, new = str(found.reference), str(wanted)
        renamed = [(each, _referring(each, old, new)) for each in known.records.values()]
        put = [after for before, after in renamed if after != before and before.key != found.key]
        owed = {key: _renamed(sources, old, new) for key, sources in known.owed.items() if old in sources}
        moved = _referring(found, old, new)._replace(title=own.title, parent=parent)
        return Commit([*put, moved], owed=owed, paid=list(owed))

    return _mend("state mv", settings, change)


def _referring(record: Record, old: str, new: str) -> Record:
    """Give a record that refers to ``new`` wherever it referred to ``old``."""
    lifecycle = record.lifecycle
    return record._replace(
        requires=_renamed(record.requires, old, new),
        value_requires={name: _renamed(sources, old, new) for name, sources in record.value_requires.items()},
        lifecycle=lifecycle._replace(deleted_with=new) if lifecycle.deleted_with == old else lifecycle,
    )


def _renamed(references: Any, old: str, new: str) -> list[str]:
    return [new if each == old else each for each in references]


@_command("taint")
@click.argument("ref", metavar="REF")
def taint(ref: str, **settings: Any) -> int:
    """Have a resource replaced by the next apply."""

    def change(known: StackState) -> Commit:
        found = find(known, ref)
        return Commit() if found.status == "tainted" else Commit([found._replace(status="tainted")])

    return _mend("state taint", settings, change)


@_command("untaint")
@click.argument("ref", metavar="REF")
def untaint(ref: str, **settings: Any) -> int:
    """Take back ``taint``."""

    def change(known: StackState) -> Commit:
        found = find(known, ref)
        if found.status != "tainted":
            msg = f"{found.reference} is not tainted: its status is {found.status}"
            raise UsageError(msg)
        return Commit([found._replace(status="ready")])

    return _mend("state untaint", settings, change)


@_command("rekey")
@click.option("--to", metavar="URL", callback=options.key, help="The key from now on; else the one of --key.")
@click.option("--decrypt", is_flag=True, help="Keep no secrets any more, only their digests.")
@click.option("--drop-generations", is_flag=True, help="Remove the older copies of the database, made with older keys.")
def rekey(*, to: Key | None, decrypt: bool, drop_generations: bool, **settings: Any) -> int:
    """Encrypt a stack that is not, give it a new data key, or another key."""
    session = Session(settings)

    def work() -> int:
        if decrypt and to is not None:
            msg = "--to and --decrypt do not go together"
            raise UsageError(msg)
        key = None if decrypt else to or session.runtime.key
        if key is None and not decrypt:
            msg = "name the key with --key or RESOURCE_API_KEY; 'resource-api new key PATH' makes one"
            raise UsageError(msg)
        recorded = Recorded(session)
        with recorded.running("state rekey"):
            after = recorded.store.rekey(recorded.name, key, drop_generations=drop_generations)
        how = f"encrypted with {key.url}" if key is not None else "not encrypted any more"
        if session.json:
            session.print_json({"serial": after.serial, "encrypted": after.encrypted})
        else:
            session.print(f"project {recorded.name.project}, stack {recorded.name.stack}: {how}, serial {after.serial}")
        return 0

    return session.carry(work)


def _mend(command: str, settings: Any, change: Callable[[StackState], Commit]) -> int:
    """Write what ``change`` gives for what is known, and say which resources it was about."""
    session = Session(settings)

    def work() -> int:
        recorded = Recorded(session)
        with recorded.changing(command) as known:
            commit = change(known)
            after = recorded.store.commit(recorded.name, commit)
        gone = [str(known.records[key].reference) for key in commit.drop]
        written = [str(record.reference) for record in commit.put]
        if session.json:
            session.print_json({"serial": after.serial, "forgotten": gone, "written": written})
        else:
            lines = [*(f"forgotten: {each}" for each in gone), *(f"written: {each}" for each in written)]
            session.print(map(escape, lines))
        return 0

    return session.carry(work)
