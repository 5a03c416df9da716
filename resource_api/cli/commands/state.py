"""``state``, ``stack``, ``output``, ``refresh``: show, verify and edit the records; no resource is changed."""

from __future__ import annotations

from contextlib import suppress
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import click

from resource_api.cli import exit_codes, options
from resource_api.cli.command_inputs import read_text
from resource_api.cli.commands import run_on_hosts, show_document
from resource_api.cli.session import command, subcommand
from resource_api.manifest.python_positions import literal_section
from resource_api.manifest.read import read
from resource_api.manifest.sections import project_name
from resource_api.model.values.errors import UsageError
from resource_api.model.values.text import counted, escape
from resource_api.render import fleet, text
from resource_api.render import plan as plan_text
from resource_api.render.table import table
from resource_api.render.text import time_of
from resource_api.runtime import commands, recorded_stack, saved_plan, state_refresh
from resource_api.runtime.recorded_stack import RecordedStack, find_record, selected
from resource_api.state import export as state_export
from resource_api.state.open_store import open_store
from resource_api.state.store import MEMORY, StackName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from resource_api.cli.session import Decorator, Session
    from resource_api.runtime.recorded_stack import CopiedStack
    from resource_api.state.encryption.keys import Key
    from resource_api.state.store import Store


@options.group(examples=("resource-api state list", "resource-api state show 'File[/etc/motd]'"))
def state() -> None:
    """Show and edit the recorded state."""


def _command(name: str, *examples: str, hidden: bool = False) -> Decorator:
    """Return a decorator that makes a function a subcommand with examples and the options about one stack."""
    return lambda function: subcommand(state, name, examples=examples, hidden=hidden)(options.state(function))


@_command("list", "resource-api state list")
@options.hosted_reading
@options.inputs_key
def list_(session: Session, **_settings: object) -> int:
    """List the recorded resources, one reference a line."""

    def empty() -> str:
        """Return the notice for a list without lines: nothing is recorded at all, or not of this stack."""
        store, settings = session.runtime.store, session.settings
        if recorded_stack.none_recorded(store, settings):
            return "nothing is recorded yet"
        return f"no resource is recorded of {recorded_stack.selected(store, settings)}"

    def lines(rows: Sequence[Mapping[str, Any]]) -> Iterable[str]:
        return (escape(row["reference"]) for row in rows)

    return show_document(session, "state", commands.state_list, lines, empty=empty, subcommand="list")


@_command("show", "resource-api state show 'File[/etc/motd]'")
@click.argument("ref", metavar="REF", shell_complete=options.complete("references"))
@click.option("--private", "shows_private", is_flag=True, help="Show the provider's private data too.")
@options.hosted_reading
def show(session: Session, ref: str, *, shows_private: bool, **_settings: object) -> int:
    """Show everything that is recorded of one resource."""
    code = run_on_hosts(session, "state", subcommand="show", ref=ref, shows_private=shows_private)
    if code is not None:
        return code
    state = RecordedStack(session.runtime, session.settings).state
    record = find_record(state, ref)
    if not shows_private:
        record = record._replace(private=None)
    session.console.show(
        lambda: state_export.record_document(state, record),
        lambda: text.record(state_export.record_urn(state, record), record),
    )
    return 0


@_command("history", "resource-api history", hidden=True)
@options.hosted_reading
@options.inputs_key
def history(session: Session, **_settings: object) -> int:
    """List the finished runs, the oldest first: another name of the command 'resource-api history'."""
    from resource_api.cli.commands.history import show_runs

    return show_runs(session, "state", subcommand="history")


@_command("check", "resource-api state check")
@options.hosted_reading
@options.inputs_key
def check(session: Session, **_settings: object) -> int:
    """Verify the whole state, of all stacks."""
    make, lines = commands.state_check, lambda document: map(escape, document["found"])
    return show_document(session, "state", make, lines, subcommand="check")


@_command("recover", "resource-api state recover", "resource-api state recover --on web7")
@options.hosted
def recover(session: Session, **_settings: object) -> int:
    """Replace a damaged database by its newest intact generation; report the losses."""

    def lines(document: Mapping[str, Any]) -> Iterable[str]:
        return map(escape, document["done"])

    return show_document(session, "state", commands.state_recover, lines, subcommand="recover")


@_command("export", "resource-api state export > web.json")
def export(session: Session, **_settings: object) -> None:
    """Print the whole of one stack as JSON; keep it as you keep the state itself."""
    state, key = RecordedStack(session.runtime, session.settings).state, session.runtime.key
    if not state.serial:
        raise UsageError(f"nothing is recorded of project {state.project}, stack {state.stack}")
    session.output.print_json(state_export.to_document(state, key if state.encrypted else None))


@_command("import", "resource-api state import web.json")
@click.argument("file", type=options.Path(dir_okay=False))
@click.option("--force", is_flag=True, help="Accept another lineage, or an older state than the recorded one.")
def import_(session: Session, file: str, *, force: bool, project: str | None, stack: str, **_settings: object) -> None:
    """Put the stack that FILE holds in place of the recorded one; verified before anything is written."""
    new = state_export.from_document(read_text(file), file, session.runtime.key)
    name = StackName(project or new.project, stack if _is_stack_named() else new.stack)
    recorded = RecordedStack(session.runtime, session.settings, name)
    # The check compares with the recorded stack under the lock, so that no run changes it meanwhile.
    with recorded.changing("state import"):
        new = new._replace(project=name.project, stack=name.stack)
        new = state_export.check_replacement(recorded.state, new, file, force=force)
        recorded.store.overwrite(name, new)
    count = f"{counted(len(new.records), 'resource')}, serial {new.serial}"
    session.console.show(
        lambda: {"project": name.project, "stack": name.stack, "serial": new.serial},
        lambda: f"imported into project {name.project}, stack {name.stack}: {count}",
    )


@subcommand(state, "copy", examples=("resource-api state copy sqlite:state.db postgresql://?service=team",))
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@options.shared("key", "stack", "project", "lock_timeout")
def copy(session: Session, source: str, target: str, *, project: str | None, stack: str, **settings: Any) -> None:
    """Copy the stacks in the store at the URL FROM into the one at TO; both are verified, and FROM stays.

    Without --project and --stack: all. Never over another stack of that name, or a newer state.
    """
    if source in MEMORY or target in MEMORY:
        raise UsageError("in memory: nothing is kept between runs")
    origin, destination = open_store(source, settings["key"]), open_store(target, settings["key"])
    # Two URLs may name one file.
    if getattr(origin, "path", source) == getattr(destination, "path", target):  # a store on a server has no path
        raise UsageError("FROM and TO are the same store")
    stack_name = stack if _is_stack_named() else None
    names = [n for n in origin.stacks() if project in {None, n.project} and stack_name in {None, n.stack}]
    if not names:
        msg = f"{source}: nothing is recorded" + (" of this project or stack" if project or stack_name else "")
        raise UsageError(msg)
    copied = recorded_stack.copy_stacks(origin, destination, names, target, settings["lock_timeout"] or 0.0)
    session.console.show(lambda: [stack._asdict() for stack in copied], lambda: map(_copied_line, copied))


def _copied_line(stack: CopiedStack) -> str:
    """Return the line of ``state copy`` for a stack: ``project web, stack default: copied, 3 resources, serial 7``."""
    outcome = "copied" if stack.status == "copied" else "there already"
    count = counted(stack.resources, "resource")
    return f"project {stack.project}, stack {stack.stack}: {outcome}, {count}, serial {stack.serial}"


def _is_stack_named() -> bool:
    """Return whether the user has named a stack, by ``--stack`` or its variable.

    If not, the default value of ``--stack`` does not count: ``import`` uses the stack in the file, and ``copy`` copies
    all stacks.
    """
    return click.get_current_context().get_parameter_source("stack") is not click.core.ParameterSource.DEFAULT


def _edit(session: Session, command: str, edit: Callable[[commands.Call], Mapping[str, Any]], **arguments: Any) -> int:
    """Run a command that edits the state, here or on hosts, and show the changed records; return the exit code."""
    return show_document(session, "state", edit, fleet.state_edit_lines, subcommand=command, **arguments)


@_command("rm", "resource-api state rm 'File[/etc/motd]'")
@click.argument("refs", metavar="REF...", nargs=-1, required=True, shell_complete=options.complete("references"))
@options.hosted
def rm(session: Session, refs: tuple[str, ...], **_settings: object) -> int:
    """Forget resources, of a component all that it has made; on the system nothing is changed."""
    return _edit(session, "rm", commands.state_rm, refs=list(refs))


@_command("mv", "resource-api state mv 'File[/etc/motd]' 'File[motd]'", "resource-api state mv --project website")
@click.argument("source", metavar="[FROM]", required=False, shell_complete=options.complete("references"))
@click.argument("target", metavar="[TO]", required=False)
@options.hosted
def mv(session: Session, source: str | None, target: str | None, **_settings: object) -> int:
    """Record a resource under another title, everywhere.

    Without TO: record the project FROM, or the only one, with its stacks under the name of --project.
    """
    return _edit(session, "mv", commands.state_mv, source=source, target=target)


@_command("taint", "resource-api state taint 'File[/etc/motd]'")
@click.argument("ref", metavar="REF", shell_complete=options.complete("references"))
@options.hosted
def taint(session: Session, ref: str, **_settings: object) -> int:
    """Have a resource replaced by the next apply."""
    return _edit(session, "taint", commands.state_taint, ref=ref)


@_command("untaint", "resource-api state untaint 'File[/etc/motd]'")
@click.argument("ref", metavar="REF", shell_complete=options.complete("references"))
@options.hosted
def untaint(session: Session, ref: str, **_settings: object) -> int:
    """Take a resource as it is: one that is tainted, partial or unconfirmed is ready again."""
    return _edit(session, "untaint", commands.state_untaint, ref=ref)


@_command("rekey", "resource-api state rekey --to file:state.key")
@click.option("--to", metavar="URL", callback=options.key, help="The key from now on; else the one of --key.")
@click.option("--decrypt", is_flag=True, help="Keep no secrets any more, only their digests.")
@click.option("--drop-generations", is_flag=True, help="Remove the older copies of the database, made with older keys.")
def rekey(session: Session, *, to: Key | None, decrypt: bool, drop_generations: bool, **_settings: object) -> None:
    """Encrypt a stack that is not, give it a new data key, or another key."""
    if decrypt and to is not None:
        raise UsageError("--to and --decrypt do not go together")
    # The stack is read with --key, and written with --to; without --to it gets a new data key under the same key.
    key = None if decrypt else to or session.runtime.key
    if key is None and not decrypt:
        raise UsageError("name the key with --key or RESOURCE_API_KEY; 'resource-api new key PATH' makes one")
    stack = RecordedStack(session.runtime, session.settings)
    with stack.changing("state rekey"):
        after = stack.store.rekey(stack.name, key, drop_generations=drop_generations)
    how = f"encrypted with {key.url}" if key is not None else "not encrypted any more"
    session.console.show(
        lambda: {"serial": after.serial, "encrypted": after.encrypted},
        lambda: f"project {stack.name.project}, stack {stack.name.stack}: {how}, serial {after.serial}",
    )


@options.group(examples=("resource-api stack list", "resource-api stack rename default production"))
def stack() -> None:
    """List, rename or forget stacks."""


@subcommand(stack, "list", examples=("resource-api stack list",))
@options.stacks
def list_stacks(session: Session, project: str | None, **_settings: object) -> None:
    """List the recorded stacks: serial, resources, last run."""
    store = session.runtime.store
    stacks = [_stack_summary(store, name) for name in store.stacks() if project in {None, name.project}]
    session.console.show(
        lambda: stacks,
        lambda: table([{**stack, "last_run": time_of(stack["last_run"])} for stack in stacks], None),
        "no stack is recorded" + ("" if project is None else f" of project {project}"),
    )


def _stack_summary(store: Store, name: StackName) -> dict[str, object]:
    """Return a stack as ``stack list --json`` shows it; without serial and resources where no key opens it."""
    serial, count, runs = None, None, store.history(name)
    with suppress(UsageError):  # it is encrypted, and this command was given no key
        state = store.load(name)
        serial, count = state.serial, len(state.records)
    return {**name._asdict(), "serial": serial, "resources": count, "last_run": runs[-1]["ended"] if runs else None}


@subcommand(stack, "rename", examples=("resource-api stack rename default production",))
@options.stacks
@options.stack_name
@click.argument("new", callback=options.checked_name)
def rename_stack(session: Session, name: str, new: str, project: str | None, **_settings: object) -> None:
    """Record the stack NAME under another name, with all its resources and runs."""
    store = session.runtime.store
    old = selected(store, {"stack": name, "project": project}, advice="")
    to = StackName(old.project, new)
    # ``changing`` locks the new name and records this command in its history; ``claim`` locks the old name too.
    with RecordedStack(session.runtime, session.settings, to).changing("stack rename"):
        session.runtime.claim(old)
        store.rename(old, to)
    session.console.show(lambda: {**to._asdict(), "former": old.stack}, lambda: f"{old} is now stack {to.stack}")


def _dependent_stacks(store: Store, name: StackName) -> list[str]:
    """Return, as ``PROJECT/STACK``, the stacks whose last apply has used an output of the stack ``name``.

    Their next apply needs that output, so ``stack rm`` refuses to forget the stack ``name``.
    """
    dependents: list[str] = []
    for stack in store.stacks():
        applies = [run for run in store.history(stack) if run["command"] == "apply"]
        if applies and "/".join(name) in applies[-1].get("stacks", ()):
            dependents.append("/".join(stack))
    return dependents


@subcommand(stack, "rm", examples=("resource-api stack rm default --force",))
@options.stacks
@options.stack_name
@click.option(
    "--force", is_flag=True, help="Also if it has resources, which are not deleted, or others use its outputs."
)
def rm_stack(session: Session, name: str, project: str | None, *, force: bool, **_settings: object) -> None:
    """Forget the stack NAME with its runs; on the system nothing is changed."""
    store = session.runtime.store
    stack_name = selected(store, {"stack": name, "project": project}, advice="")
    # Without ``changing``: there is no history left to which the command could be added.
    with session.runtime.lock("stack rm"):
        session.runtime.claim(stack_name)
        count = len(store.load(stack_name).records)
        if not force and (users := _dependent_stacks(store, stack_name)):
            raise UsageError(f"outputs of {stack_name} are used by {', '.join(users)}; --force forgets it all the same")
        if count and not force:
            advice = "destroy deletes them, --force forgets them and leaves them as they are"
            raise UsageError(f"{stack_name} has {counted(count, 'resource')}; {advice}")
        store.remove(stack_name)
    session.console.show(
        lambda: {**stack_name._asdict(), "forgotten": count},
        lambda: f"{stack_name}: forgotten, with {counted(count, 'resource')}",
    )


#: The suffixes of a manifest, which no name of an output is taken for.
_MANIFESTS: Final = (".yaml", ".yml", ".json", ".py")


@command(examples=("resource-api output", "resource-api output site.yaml checksum --json"))
@click.argument("words", metavar="[MANIFEST] [NAME]", nargs=-1)
@click.option("--reveal", is_flag=True, help="Show sensitive ones too.")
@options.state
@options.hosted_reading
@options.inputs_key
def output(session: Session, words: tuple[str, ...], *, reveal: bool, **_settings: object) -> int:
    """Show the outputs of a stack, or the one called NAME, as they are recorded.

    MANIFEST names the project; it ends in .yaml, .yml, .json or .py.
    """
    manifest, name = _manifest_and_name(words)
    if manifest is not None and not session.settings["project"]:
        session.settings = {**session.settings, "project": _project(manifest)}

    def line(value: object) -> str:
        return text.output(value, terminal=session.output.stdout.isatty())

    lines, empty = (text.outputs, "no output is recorded") if name is None else (line, "")
    return show_document(session, "output", commands.output, lines, empty=empty, name=name, reveal=reveal)


def _manifest_and_name(words: Sequence[str]) -> tuple[str | None, str | None]:
    """Return the manifest and the name of the output in the arguments ``[MANIFEST] [NAME]``, each None if not given.

    As both are optional, a first argument with the suffix of a manifest is the manifest, and any other is the name.
    Raise ``UsageError`` for further arguments.
    """
    manifest = words[0] if words[:1] and words[0].endswith(_MANIFESTS) else None
    rest = words if manifest is None else words[1:]
    if len(rest) > 1:
        raise UsageError(f"'{rest[1]}' is one argument too many; write output [MANIFEST] [NAME]")
    return manifest, rest[0] if rest else None


def _project(manifest: str) -> str:
    """Return the project of a manifest, without executing a Python one. Raise ``ManifestError``."""
    return project_name(read(manifest, lambda raw, file: literal_section(raw, file, "PROJECT")))


@command(examples=("resource-api refresh site.yaml", "resource-api refresh site.yaml --noop --target File"))
@options.manifest
@options.noop
@options.shared("targets", "excludes", "strict")
@options.shared("detailed_exitcodes", help="2: state has changed.")
@options.manifest_inputs
@options.reports
@options.provider_calls
@options.hosted_recorded
def refresh(session: Session, *, detailed_exitcodes: bool, **settings: Any) -> int:
    """Read everything that is recorded for MANIFEST's project again; write state; change nothing else."""

    def lines(document: Mapping[str, Any]) -> Iterable[str]:
        resources, outputs = saved_plan.refreshed(document)
        return plan_text.refresh_lines(resources, outputs, session.output.style, noop=settings["noop"])

    def make(call: commands.Call) -> dict[str, Any]:
        document = state_refresh.document(call)
        changes = [*document["changes"], *document["output_changes"]]
        return {**document, "exit_code": exit_codes.of_refresh(changes, detailed=detailed_exitcodes)}

    return show_document(session, "refresh", make, lines, exit_code=itemgetter("exit_code"))
