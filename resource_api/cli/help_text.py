"""Help of one command: its examples and its options in groups, the rare ones only where all are asked for."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Final

import click

from resource_api.cli.options import HOSTED, WHAT_TO_CHANGE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from resource_api.cli.options import Command, Group

#: Group → its options by parameter name. What is in no group belongs to the first one: a command's own options.
_GROUPS: Final = {
    "Options": ("given", "input_files"),
    "What to change": WHAT_TO_CHANGE,
    "How to run": ("on", "parallel", "fail_fast", "strict", "isolate", "detailed_exitcodes"),
    "On many hosts": HOSTED,
    "State, types and providers": (
        *("state", "stack", "project", "key", "lock_timeout"),
        *("module_path", "trust_path"),
    ),
    "Output": ("json", "verbose", "debug", "quiet", "reports", "metrics", "diff", "log_format", "color"),
}

#: Options that are only shown where all are asked for.
_RARE: Final = frozenset(
    {"with_dependencies", "with_dependents", "skip_tags", "prune_always", "strict", "isolate", "detailed_exitcodes"}
    | {"key", "lock_timeout", "trust_path", "reports", "metrics", "diff", "log_format", "color"}
    | {"keep", "size", "shell", "destroy", *HOSTED}
)

#: The entry of a context's ``meta`` that is True where all options are to be shown.
ALL: Final = "resource_api.help_all"


def groups(command: click.Command, context: click.Context) -> dict[str, list[click.Option]]:
    """Return the title of each group of options that a command has, in the order of the help, and its options."""
    ask = command.get_help_option(context)
    options = {
        str(each.name): each
        for each in command.get_params(context)
        if isinstance(each, click.Option) and not each.hidden and each is not ask
    }
    grouped = {name for names in _GROUPS.values() for name in names}
    own = [name for name in options if name not in grouped]
    found = {}
    for title, names in _GROUPS.items():
        found[title] = [options[name] for name in (*own, *names) if name in options]
        own = []
    return {title: members for title, members in found.items() if members}


def summary(command: click.Command) -> str:
    """Return the first sentence of a command's help, without its period."""
    text = " ".join(inspect.cleandoc(command.help or "").split("\n\n")[0].split())
    return text.partition("; ")[0].partition(". ")[0].removesuffix(".")


def write_options(command: Command, context: click.Context, formatter: click.HelpFormatter) -> None:
    """Write the examples and the groups of options of a command, and how to see the options that are left out."""
    _write_examples(command.examples, formatter)
    _write_groups(command, context, formatter)


def _write_groups(command: click.Command, context: click.Context, formatter: click.HelpFormatter) -> None:
    everything = bool(context.meta.get(ALL))
    rare = _RARE | getattr(command, "rare", frozenset())
    found = groups(command, context)
    for title, members in found.items():
        if shown := [each for each in members if everything or each.name not in rare]:
            with formatter.section(title):
                formatter.write_dl(list(_records(shown, context, everything=everything)))
    if not everything and any(each.name in rare for members in found.values() for each in members):
        _write_line(f"All options: resource-api help {_name(context)} --all", formatter)


def _records(options: Sequence[click.Option], context: click.Context, *, everything: bool) -> Iterator[tuple[str, str]]:
    for option in options:
        short, text = option.get_help_record(context) or ("", "")
        yield short, f"{text}  [{option.envvar}]" if everything and option.envvar else text


def write_commands(group: Group, context: click.Context, formatter: click.HelpFormatter) -> None:
    """Write the examples of a group of commands, and its commands, each with what it does."""
    _write_examples(group.examples, formatter)
    with formatter.section("Commands"):
        formatter.write_dl([(name, f"{summary(each)}.") for name, each in sorted(group.commands.items())])
    if group.params:
        _write_groups(group, context, formatter)
    _write_line(f"Options of a command: resource-api help {_name(context)} COMMAND", formatter)


def _write_examples(examples: Sequence[str], formatter: click.HelpFormatter) -> None:
    if examples:
        with formatter.section("Examples" if len(examples) > 1 else "Example"):
            for example in examples:
                _write_line(example, formatter, paragraph=False)


def _write_line(text: str, formatter: click.HelpFormatter, *, paragraph: bool = True) -> None:
    """Write a line that is not wrapped, because it is to be copied."""
    if paragraph:
        formatter.write_paragraph()
    formatter.write(f"{'':>{formatter.current_indent}}{text}\n")


def _name(context: click.Context) -> str:
    """Return the name of a command without that of the program, as ``help`` takes it."""
    return context.command_path.partition(" ")[2]
