"""``stack`` and ``output``: list, rename and forget recorded stacks, and show their outputs; no resource is changed."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import click

from resource_api.cli import options
from resource_api.cli.commands import show_document
from resource_api.cli.session import with_session
from resource_api.manifest.python_positions import literal_section
from resource_api.manifest.read import read
from resource_api.manifest.sections import project_name
from resource_api.model.values.errors import UsageError
from resource_api.render import text
from resource_api.render.table import table
from resource_api.render.text import time_of
from resource_api.runtime import commands
from resource_api.runtime.recorded_stack import RecordedStack, selected
from resource_api.state.store import StackName

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from resource_api.cli.session import Session
    from resource_api.state.store import Store


@options.group(examples=("resource-api stack list", "resource-api stack rename default production"))
def stack() -> None:
    """List, rename or forget stacks."""


def _command(name: str, *examples: str) -> Callable[[Callable[..., None]], click.Command]:
    """Return a decorator that makes a function a subcommand with examples and the options that all of them share."""

    def decorate(function: Callable[..., None]) -> click.Command:
        return stack.command(name, examples=examples)(options.stacks(options.common(with_session()(function))))

    return decorate


@_command("list", "resource-api stack list")
def list_(session: Session, project: str | None, **_settings: object) -> None:
    """List the recorded stacks: serial, resources, last run."""
    store = session.runtime.store
    stacks = [_summary(store, name) for name in store.stacks() if project in {None, name.project}]
    session.console.show(
        lambda: stacks,
        lambda: table([{**stack, "last_run": time_of(stack["last_run"])} for stack in stacks], None),
        "no stack is recorded" + ("" if project is None else f" of project {project}"),
    )


def _summary(store: Store, name: StackName) -> dict[str, object]:
    """Return a stack as ``stack list --json`` shows it; without serial and resources where no key opens it."""
    serial, count, runs = None, None, store.history(name)
    with suppress(UsageError):  # it is encrypted, and this command was given no key
        state = store.load(name)
        serial, count = state.serial, len(state.records)
    last = runs[-1]["ended"] if runs else None
    return {**name._asdict(), "serial": serial, "resources": count, "last_run": last}


@_command("rename", "resource-api stack rename default production")
@options.stack_name
@click.argument("new", callback=options.checked_name)
def rename(session: Session, name: str, new: str, project: str | None, **_settings: object) -> None:
    """Record the stack NAME under another name, with all its resources and runs."""
    store = session.runtime.store
    old = selected(store, {"stack": name, "project": project})
    to = StackName(old.project, new)
    with RecordedStack(session.runtime, session.settings, to).changing("stack rename"):
        session.runtime.claim(old)
        store.rename(old, to)
    session.console.show(lambda: {**to._asdict(), "former": old.stack}, lambda: f"{old} is now stack {to.stack}")


def _dependent_stacks(store: Store, name: StackName) -> list[str]:
    """Return the stacks whose last apply has used an output of a stack."""
    applied = {stack: [run for run in store.history(stack) if run["command"] == "apply"] for stack in store.stacks()}
    name_text = "/".join(name)
    return ["/".join(stack) for stack, runs in applied.items() if runs and name_text in runs[-1].get("stacks", ())]


@_command("rm", "resource-api stack rm default --force")
@options.stack_name
@click.option(
    "--force", is_flag=True, help="Also if it has resources, which are not deleted, or others use its outputs."
)
def rm(session: Session, name: str, project: str | None, *, force: bool, **_settings: object) -> None:
    """Forget the stack NAME with its runs; on the system nothing is changed."""
    store = session.runtime.store
    stack_name = selected(store, {"stack": name, "project": project})
    with session.runtime.lock("stack rm"):
        session.runtime.claim(stack_name)
        count = len(store.load(stack_name).records)
        if not force and (users := _dependent_stacks(store, stack_name)):
            msg = f"outputs of {stack_name} are used by {', '.join(users)}; --force forgets it all the same"
            raise UsageError(msg)
        if count and not force:
            advice = "destroy deletes them, --force forgets them and leaves them as they are"
            msg = f"{stack_name} has {count} resources; {advice}"
            raise UsageError(msg)
        store.remove(stack_name)
    session.console.show(
        lambda: {**stack_name._asdict(), "forgotten": count}, lambda: f"{stack_name}: forgotten, with {count} resources"
    )


#: The suffixes of a manifest, which no name of an output is taken for.
_MANIFESTS: Final = (".yaml", ".yml", ".json", ".py")


@options.command(examples=("resource-api output", "resource-api output site.yaml checksum --json"))
@click.argument("words", metavar="[MANIFEST] [NAME]", nargs=-1)
@click.option("--reveal", is_flag=True, help="Show sensitive ones too.")
@options.state
@options.common
@options.hosted_reading
@options.inputs_key
@with_session()
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
    """Return the manifest and the name among the arguments of ``output``. Raise ``UsageError`` for others."""
    manifest = words[0] if words[:1] and words[0].endswith(_MANIFESTS) else None
    rest = words if manifest is None else words[1:]
    if len(rest) > 1:
        msg = f"'{rest[1]}' is one argument too many; write output [MANIFEST] [NAME]"
        raise UsageError(msg)
    return manifest, rest[0] if rest else None


def _project(manifest: str) -> str:
    """Return the project of a manifest, which is not executed. Raise ``ManifestError``."""
    return project_name(read(manifest, lambda raw, file: literal_section(raw, file, "PROJECT")))
