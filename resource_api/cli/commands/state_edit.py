"""``state rm``, ``mv``, ``taint``, ``untaint``, ``rekey``: what is recorded is corrected; the system is not touched."""

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

if TYPE_CHECKING:
    from collections.abc import Callable

    from resource_api.model.record import Record, StackState
    from resource_api.state.encryption.keys import Key


@click.command("rm")
@click.argument("refs", metavar="REF...", nargs=-1, required=True)
@options.stacked
@options.common
def rm(refs: tuple[str, ...], **settings: Any) -> int:
    """Forget resources, of a component all that it has made; on the system nothing is changed."""

    def change(known: StackState) -> Commit:
        return Commit(drop=list(dict.fromkeys(record.key for ref in refs for record in all_of(known, ref))))

    return _mend("state rm", settings, change)


@click.command("mv")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@options.stacked
@options.common
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


@click.command("taint")
@click.argument("ref", metavar="REF")
@options.stacked
@options.common
def taint(ref: str, **settings: Any) -> int:
    """Have a resource replaced by the next apply."""

    def change(known: StackState) -> Commit:
        found = find(known, ref)
        return Commit() if found.status == "tainted" else Commit([found._replace(status="tainted")])

    return _mend("state taint", settings, change)


@click.command("untaint")
@click.argument("ref", metavar="REF")
@options.stacked
@options.common
def untaint(ref: str, **settings: Any) -> int:
    """Take back ``taint``."""

    def change(known: StackState) -> Commit:
        found = find(known, ref)
        if found.status != "tainted":
            msg = f"{found.reference} is not tainted: its status is {found.status}"
            raise UsageError(msg)
        return Commit([found._replace(status="ready")])

    return _mend("state untaint", settings, change)


@click.command("rekey")
@click.option("--to", metavar="URL", callback=options.key, help="The key from now on; else the one of --key.")
@click.option("--decrypt", is_flag=True, help="Keep no secrets any more, only their digests.")
@click.option("--drop-generations", is_flag=True, help="Remove the older copies of the database, made with older keys.")
@options.stacked
@options.common
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
