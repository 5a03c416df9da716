"""Manual pages of the command, made from its help: ``python -m resource_api.cli.man_pages DIRECTORY``.

One page for each command, also for those beneath a group. The date is that of ``SOURCE_DATE_EPOCH`` if it is set, so
that a package can be built again with the same content.
"""

from __future__ import annotations

import inspect
import os
import sys
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from resource_api.cli import help as command_help
from resource_api.cli import main as cli
from resource_api.cli.exit_codes import MEANINGS
from resource_api.cli.help import CommandGroup, GroupedCommand
from resource_api.model.values.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROGRAM: Final = "resource-api"
#: How the formatter is told to show a character as it is.
_SPECIAL: Final = {"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti"}

_VARIABLES: Final = {
    "RESOURCE_API_INPUT_NAME": "The input NAME of a manifest, unless -i or --inputs gives it.",
    "RESOURCE_API_PASSPHRASE": "The passphrase of --key passphrase:.",
    "NO_COLOR": "If it is not empty, no colour unless --color always is given.",
}
_FILES: Final = {
    "/var/lib/resource-api/state.db": "The state of root.",
    "/var/lib/resource-api/backups": "Copies of files that were overwritten or removed.",
    "~/.local/state/resource-api/state.db": "The state of another user, unless XDG_STATE_HOME is set.",
}


def pages() -> Iterator[tuple[str, str]]:
    """Yield the name of each page, such as ``resource-api-state-mv``, and its text."""
    top = click.Context(cli.cli, info_name=_PROGRAM, **cli.cli.context_settings)
    yield _PROGRAM, _page(_main_page(), _PROGRAM)
    for context in _contexts(cli.cli, top):
        name = context.command_path.replace(" ", "-")
        yield name, _page(_command_page(context), name)


def _contexts(group: click.Group, above: click.Context) -> Iterator[click.Context]:
    for name in group.list_commands(above):
        command = group.get_command(above, name)
        if command is not None:
            context = click.Context(command, parent=above, info_name=name)
            yield context
            if isinstance(command, click.Group):
                yield from _contexts(command, context)


def _page(body: Iterator[str], name: str) -> str:
    date = time.strftime("%Y-%m-%d", time.gmtime(float(os.environ.get("SOURCE_DATE_EPOCH") or time.time())))
    title = f'.TH {name.upper()} 1 {date} "{_PROGRAM} {__version__}" "User Commands"'
    return "\n".join([title, *body]) + "\n"


def _main_page() -> Iterator[str]:
    yield from (".SH NAME", f"{_escape(_PROGRAM)} \\-", *_text("describe machines, see what would change, change it"))
    yield from (".SH SYNOPSIS", f".B {_PROGRAM}", "[\\fIOPTIONS\\fR] \\fICOMMAND\\fR [\\fIARGUMENTS\\fR]")
    yield from (".SH DESCRIPTION", "Each command has a page of its own, such as")
    yield f".BR {_PROGRAM}\\-apply (1)."
    yield ".SH COMMANDS"
    for title, commands in cli.COMMAND_GROUPS.items():
        yield f".SS {title}"
        for name, summary in commands.items():
            yield from _term(f"\\fB{_escape(name)}\\fR", summary)
    yield ".SH ENVIRONMENT"
    yield from _text("The page of a command has the variables of its options. Beside these:")
    for variable, text in _VARIABLES.items():
        yield from _term(f"\\fB{_escape(variable)}\\fR", text)
    yield ".SH FILES"
    for path, text in _FILES.items():
        yield from _term(f"\\fI{_escape(path)}\\fR", text)
    yield ".SH EXIT STATUS"
    for code, text in MEANINGS.items():
        yield from _term(code, text)


def _command_page(context: click.Context) -> Iterator[str]:
    command = context.command
    examples = command.examples if isinstance(command, GroupedCommand | CommandGroup) else ()
    summary = command_help.summary(command)
    name = context.command_path.replace(" ", "-")
    yield from (".SH NAME", f"{_escape(name)} \\-", *_text(summary[:1].lower() + summary[1:]))
    yield from (".SH SYNOPSIS", f".B {_escape(context.command_path)}")
    yield _escape(" ".join(command.collect_usage_pieces(context)))
    yield ".SH DESCRIPTION"
    for number, paragraph in enumerate(inspect.cleandoc(command.help or "").split("\n\n")):
        yield from ([".PP"] if number else []) + _text(paragraph)
    if isinstance(command, CommandGroup):
        yield ".SH COMMANDS"
        for member, inner in sorted(command.commands.items()):
            yield from _term(f"\\fB{_escape(member)}\\fR", f"{command_help.summary(inner)}.")
    yield from _options(command, context)
    yield from (".SH EXAMPLES", ".EX", *map(_escape, examples), ".EE")
    yield from (".SH SEE ALSO", f".BR {_escape(_PROGRAM)} (1)")


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    """Yield the options in the groups of the help, and the variables that some of them have."""
    grouped = command_help.option_groups(command, context)
    if grouped:
        yield ".SH OPTIONS"
    for title, options in grouped.items():
        if title != "Options":
            yield f".SS {title}"
        for option in options:
            short, text = option.get_help_record(context) or ("", "")
            yield from _term(f"\\fB{_escape(short)}\\fR", text)
    variables = {option.envvar: option.opts[-1] for options in grouped.values() for option in options if option.envvar}
    if variables:
        yield ".SH ENVIRONMENT"
        for variable, name in variables.items():
            yield from _term(f"\\fB{variable}\\fR", f"The value of {name}, unless it is given.")


def _term(term: str, text: str) -> list[str]:
    return [".TP", term, *_text(text)]


def _text(text: str) -> list[str]:
    """Return the lines of a paragraph."""
    lines = textwrap.wrap(_escape(" ".join(text.split())), 78, break_long_words=False, break_on_hyphens=False)
    return [f"\\&{line}" if line.startswith(".") else line for line in lines]


def _escape(text: str) -> str:
    """Return a line for the formatter that shows ``text`` as it is; a hyphen stays one that can be copied."""
    return "".join(
        _SPECIAL.get(character, character if character.isascii() else f"\\[u{ord(character):04X}]")
        for character in text
    )


def write(directory: Path) -> list[Path]:
    """Write every page to ``directory``, and return their paths."""
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in pages():
        path = directory / f"{name}.1"
        path.write_text(text, encoding="ascii")
        written.append(path)
    return written


if __name__ == "__main__":
    write(Path(sys.argv[1]))
