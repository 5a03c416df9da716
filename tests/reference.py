"""The pages of ``docs/reference``, generated from the program: ``python -m tests.reference`` writes them."""

from __future__ import annotations

import inspect
import re
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from resource_api import Registry
from resource_api.cli import help as command_help
from resource_api.cli import main as cli
from resource_api.cli.help import CommandGroup, GroupedCommand
from resource_api.plugins.module_path import BUNDLED, ModulePath
from resource_api.render import describe

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

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
- Values are named in words, or by [data types](../type-reference.md#data-types): `Integer[1]` is an integer from 1.
  `describe TYPE --all` shows the regular expressions too.
- `ensure` declares whether the resource exists: `present` (the default) or `absent`. Resources of a type without it
  are configured, never created or deleted.
- *Automatic relationships* apply to resources in the same manifest. `$name` is the value of an attribute, `...` values
  that the type computes, such as the directories above a path.
- *Titles*: the attributes that a title of this form gives.

| kind of attribute | meaning |
| --- | --- |
"""
_COMMANDS: Final = """\
# Options of every command

[Commands](../commands.md) explains them with examples; `resource-api help COMMAND --all` shows those of one command.

## Common options

The lists of the commands below name the options that they take. Every command except {} takes {}.
"""
#: An option of more commands than this is described once.
_FEW: Final = 2


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
    entries = {"README.md": overview, "commands.md": "\n".join(CommandPage().lines())}
    entries |= {f"{item.name}.md": describe.markdown(item, explained=False) for item in definitions}
    return {name: f"{page.strip()}\n" for name, page in entries.items()}


class Row(NamedTuple):
    """An option as it is described: its group in the help, its short name, its line of a table."""

    group: str
    name: str
    line: str


class CommandPage:
    """The page of the commands: the options of several commands once, then each command with its own."""

    def __init__(self) -> None:
        """Collect the commands in the order of the help."""
        top = click.Context(cli.cli, info_name="resource-api", **cli.cli.context_settings)
        #: Title of a group of commands → their contexts, subcommands behind their group.
        self.groups = {
            title: [context for name in names for context in _contexts(cli.cli, top, name)]
            for title, names in cli.COMMAND_GROUPS.items()
        }

    @cached_property
    def common(self) -> dict[Row, list[str]]:
        """Option → the commands that take it, of options that more than a few commands take."""
        commands: dict[Row, list[str]] = {}
        for contexts in self.groups.values():
            for context in contexts:
                for row in _rows(context):
                    commands.setdefault(row, []).append(_name(context))
        return {row: names for row, names in commands.items() if len(names) > _FEW}

    @cached_property
    def universal(self) -> set[Row]:
        """The options that the most commands take."""
        most = max(map(len, self.common.values()))
        return {row for row, names in self.common.items() if len(names) == most}

    def lines(self) -> Iterator[str]:
        """Yield the parts of the page."""
        with_options = {_name(context) for contexts in self.groups.values() for context in contexts if _rows(context)}
        lacking = sorted(with_options - set(self.common[next(iter(self.universal))]))
        yield _COMMANDS.format(_quoted(lacking), _quoted(row.name for row in self.common if row in self.universal))
        for title in command_help.GROUPS:
            rows = [row for row in self.common if row.group == title]
            yield "\n".join([f"| {title} | |", "| --- | --- |", *(row.line for row in rows), ""])
        for title, contexts in self.groups.items():
            yield f"## {title}\n"
            for context in contexts:
                yield from self._command(context)

    def _command(self, context: click.Context) -> Iterator[str]:
        command = context.command
        yield f"### {_name(context)}\n"
        yield f"{inspect.cleandoc(command.help or '')}\n"
        usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
        examples = command.examples if isinstance(command, GroupedCommand | CommandGroup) else ()
        yield "\n".join(["```", usage, *(["", *examples] if examples else []), "```\n"])
        rows = _rows(context)
        if own := [row.line for row in rows if row not in self.common]:
            yield "\n".join(["| Option | |", "| --- | --- |", *own, ""])
        if common := [row.name for row in rows if row in self.common and row not in self.universal]:
            yield f"Common options: {_quoted(common)}.\n"


def _contexts(group: click.Group, parent: click.Context, name: str) -> Iterator[click.Context]:
    """Yield the context of a command, then those of its subcommands."""
    command = group.get_command(parent, name)
    assert command is not None
    context = click.Context(command, parent=parent, info_name=name)
    yield context
    if isinstance(command, click.Group):
        for inner in sorted(command.commands):
            yield from _contexts(command, context, inner)


def _name(context: click.Context) -> str:
    return context.command_path.partition(" ")[2]


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _rows(context: click.Context) -> list[Row]:
    """Return the options of a command, each with the variable of the environment that gives it."""
    rows = []
    for title, options in command_help.option_groups(context.command, context).items():
        for option in options:
            flags, text = option.get_help_record(context) or ("", "")
            words = re.sub(r"[*<_]", r"\\\g<0>", " ".join(text.split()))
            variable = f" Also `{option.envvar}`." if option.envvar else ""
            name = next((flag for flag in option.opts if flag.startswith("--")), option.opts[0])
            cells = [cell.replace("|", "\\|") for cell in (flags, words, variable)]
            rows.append(Row(title, name, "| `{}` | {}{} |".format(*cells)))
    return rows


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
