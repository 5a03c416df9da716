"""The pages of ``docs/reference``, generated from the program: ``python -m tests.reference`` writes them."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from resource_api import Registry
from resource_api.cli import help as command_help
from resource_api.cli import main as cli
from resource_api.cli.help import CommandGroup, GroupedCommand
from resource_api.plugins.module_path import BUNDLED, ModulePath
from resource_api.render import describe

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DIRECTORY: Final = Path(__file__).resolve().parent.parent / "docs" / "reference"
#: The types that come with the package, whatever else is installed.
REGISTRY: Final = Registry(ModulePath([BUNDLED], distributions=False))
_OVERVIEW: Final = """\
# Types and options

Generated from the program: the [options of every command](commands.md), and a page for each type, which
`resource-api describe TYPE` shows too. For types of your own: `resource-api describe TYPE --format markdown`.
"""
_READING: Final = """\
## How to read a page

- An attribute without the word *mandatory* may be left out. What is not declared stays as it is.
- Values are named in words, or by [data types](../write-a-type.md#data-types): `Integer[1]` is an integer from 1.
  `describe TYPE --all` shows the regular expressions too.
- `ensure` declares whether the resource exists: `present` (the default) or `absent`.
- *Automatic relationships* apply to resources in the same manifest. `$name` is the value of an attribute, `...` values
  that the type computes, such as the directories above a path.
- *Titles*: the attributes that a title of this form gives.

| kind of attribute | meaning |
| --- | --- |
"""
_COMMANDS: Final = """\
# Options of every command

What `resource-api help COMMAND --all` shows, on one page. [Commands](../commands.md) explains them with examples.
"""


def pages() -> Mapping[str, str]:
    """Return name → text: a page for each type, one for the commands, and ``README.md``, which lists the types."""
    definitions = [REGISTRY.type(name) for name in REGISTRY.names()]
    lines = [
        f"- [{definition.name}]({definition.name}.md): {describe.summary(definition)}" for definition in definitions
    ]
    terms = [f"| {kind} | {meaning} |" for kind, meaning in describe.KINDS.items()]
    terms += ["\n| feature | meaning |\n| --- | --- |"]
    terms += [f"| `{feature}` | {meaning} |" for feature, meaning in describe.FEATURES.items()]
    overview = "\n".join([_OVERVIEW, *lines, "", f"{_READING}{chr(10).join(terms)}"])
    entries = {"README.md": overview, "commands.md": "\n".join([_COMMANDS, *_commands()])}
    entries |= {f"{item.name}.md": describe.markdown(item, explained=False) for item in definitions}
    return {name: f"{page.strip()}\n" for name, page in entries.items()}


def _commands() -> Iterator[str]:
    top = click.Context(cli.cli, info_name="resource-api", **cli.cli.context_settings)
    for title, names in cli.COMMAND_GROUPS.items():
        yield f"## {title}\n"
        for name in names:
            yield from _command(click.Context(_member(cli.cli, top, name), parent=top, info_name=name))


def _member(group: click.Group, context: click.Context, name: str) -> click.Command:
    command = group.get_command(context, name)
    assert command is not None
    return command


def _command(context: click.Context) -> Iterator[str]:
    command = context.command
    yield f"### {context.command_path.partition(' ')[2]}\n"
    yield f"{inspect.cleandoc(command.help or '')}\n"
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    examples = command.examples if isinstance(command, GroupedCommand | CommandGroup) else ()
    yield "\n".join(["```", usage, *(["", *examples] if examples else []), "```\n"])
    for title, options in command_help.option_groups(command, context).items():
        yield "\n".join([f"| {title} | |", "| --- | --- |", *(_row(option, context) for option in options), ""])
    if isinstance(command, click.Group):
        for name in sorted(command.commands):
            yield from _command(click.Context(_member(command, context, name), parent=context, info_name=name))


def _row(option: click.Option, context: click.Context) -> str:
    """Return the line of a table for an option, with the variable of the environment that gives it."""
    short, text = option.get_help_record(context) or ("", "")
    words = re.sub(r"[*<_]", r"\\\g<0>", " ".join(text.split()))
    variable = f" Also `{option.envvar}`." if option.envvar else ""
    return "| `{}` | {}{} |".format(*(item.replace("|", "\\|") for item in (short, words, variable)))


def write(directory: Path) -> None:
    """Write the pages into ``directory``, and remove pages of types that no longer exist."""
    result = pages()
    for stale in directory.glob("*.md"):
        if stale.name not in result:
            stale.unlink()
    for name, page in result.items():
        (directory / name).write_text(page, encoding="utf-8")


if __name__ == "__main__":
    write(DIRECTORY)
