"""The command ``resource-api``: finds the subcommand and returns the exit code.

Importing this module imports click and nothing else: the module of a subcommand is imported when it is called.
"""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from functools import cached_property
from importlib import import_module
from keyword import iskeyword
from typing import TYPE_CHECKING, Final

import click

from resource_api.model.values.version import COMMIT, __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from click.shell_completion import CompletionItem

#: Group → command → its summary. ``--help`` prints these without importing any command.
COMMAND_GROUPS: Final = {
    "First steps": {
        "resource": "List, show or change resources without a manifest.",
        "types": "List the types on the module path.",
        "describe": "Show a type's documentation, attributes and features.",
        "facts": "Show the facts about this machine.",
        "help": "Show the help of a command, with all its options by --all.",
    },
    "With a manifest": {
        "validate": "Check a manifest without touching the system.",
        "inputs": "Show a manifest's inputs and their sources; edit encrypted files.",
        "eval": "Show the value of an expression.",
        "plan": "Show what apply would do; change nothing.",
        "watch": "Plan again whenever a file of a manifest changes.",
        "show": "Show a saved plan, or a run.",
        "apply": "Bring the system to the state that a manifest declares.",
        "destroy": "Delete the resources that state records as ours.",
        "rehearse": "Apply on an overlay of this machine, and discard it.",
        "graph": "Print the relationships in a manifest.",
    },
    "Many machines": {
        "run": "Run a command on many hosts.",
        "hosts": "List hosts, trust their keys, keep a Python for them.",
        "agent": "Apply a signed manifest periodically (agent mode).",
        "bundle": "Pack a manifest and its modules, sign the bundle, verify it.",
    },
    "What is recorded": {
        "state": "Show and edit the recorded state.",
        "output": "Show a stack's outputs.",
        "stack": "List, rename or forget stacks.",
        "history": "List the runs; show one, or the differences between two.",
        "report": "Write a page of a run: HTML, JSON or text.",
        "import": "Take over existing resources into state.",
        "backup": "List and restore copies of overwritten files.",
        "refresh": "Read everything again into state; change nothing else.",
    },
    "For authors and shells": {
        "convert": "Print the manifest of a playbook of Ansible.",
        "new": "Write a new type or a new key, ready to use.",
        "schema": "Print a JSON Schema of manifests, for editors.",
        "providers": "List, lock and describe a manifest's Terraform providers.",
        "completion": "Let a shell complete commands, options and names.",
    },
}
#: Module of ``cli/commands/`` → the commands that it defines beside, or instead of, the one of its own name.
_MODULES: Final = {
    "history": ("report",),
    "hosts": ("run",),
    "import_resources": ("import",),
    "manifest": ("validate", "eval", "facts", "graph"),
    "plan": ("show", "destroy", "watch"),
    "state": ("output", "refresh", "stack"),
    "types": ("describe", "schema"),
}
COMMANDS: Final = {name: text for group in COMMAND_GROUPS.values() for name, text in group.items()}


#: The variable with which the scripts of ``completion`` request candidates.
_COMPLETE: Final = "_RESOURCE_API_COMPLETE"


class _Commands(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of all commands, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - see above
        """Import the module of one command and return the command, or None for an unknown name.

        A command whose name is a keyword of Python, ``import``, is the function ``import_``.
        """
        if cmd_name not in COMMANDS:
            return None
        module = next((module for module, names in _MODULES.items() if cmd_name in names), cmd_name)
        function = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name
        command: click.Command = getattr(import_module(f"resource_api.cli.commands.{module}"), function)
        return command

    @cached_property
    def _help(self) -> click.Option:
        """The option ``--help`` that all commands share, for a faster start: click would make one for each command."""
        text = "Show this message and exit."
        return click.Option(
            ["-h", "--help"], is_flag=True, is_eager=True, expose_value=False, callback=_show_help, help=text
        )

    def get_help_option(self, ctx: click.Context) -> click.Option:  # noqa: ARG002 - click's signature
        """Return the option, for which click would look for a translation, and import ``locale``: 4 % of a start."""
        return self._help

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Return the commands and options that begin with ``incomplete``, from the table of commands.

        No command is imported, as click would do, because the shell waits for the answer.
        """
        from click.shell_completion import CompletionItem

        items = [CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - see above
        """Write the commands by group with their summaries, from the table: importing all commands would be slow."""
        width = max(map(len, COMMANDS))
        for title, commands in COMMAND_GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:{width}}", text) for name, text in commands.items()])


def echo(text: str) -> None:
    """Write text, such as help, to stdout before there is a session; a closed pipe is no error. Raise ``OSError``."""
    try:
        click.echo(text)
    except BrokenPipeError:
        _discard(1)


def _discard(descriptor: int) -> None:
    """Put /dev/null in place of a failed stream, where the interpreter, at its end, would fail to write its buffer."""
    with suppress(OSError):  # there may be no descriptor left
        os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def _show_help(ctx: click.Context, _option: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's callback
    """Print the help and end the command, if ``--help`` was given.

    While a shell completes a line that has ``--help`` (``resilient_parsing``), nothing may be printed.
    """
    if value and not ctx.resilient_parsing:
        echo(ctx.get_help())
        ctx.exit()


def _show_version(ctx: click.Context, _option: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's callback
    """Print the version and end the command, if ``--version`` was given; not while a shell completes a line."""
    if value and not ctx.resilient_parsing:
        # In a checkout, ``COMMIT`` is still the placeholder ``$Format...$`` that an archive of Git replaces.
        commit, _, date = (_commit_of_checkout() if COMMIT[0] == "$" else COMMIT).partition(" ")
        origin = f" (commit {commit[:10]}, {date})" if date else ""
        echo(f"resource-api, version {__version__}{origin}")
        ctx.exit()


def _commit_of_checkout() -> str:
    """Return the commit and date of the checkout that this program runs from, for ``--version``; or "".

    Outside of a checkout, without Git, and for a user to whom the checkout does not belong, there is no answer. Git is
    started without ``subprocess``, whose import would slow down each start.
    """
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    if not os.path.exists(f"{root}/.git"):
        return ""
    reader, writer = os.pipe()
    silent = os.open(os.devnull, os.O_RDWR)
    try:
        command = ["git", "-C", root, "-c", "log.showSignature=false", "log", "-1", "--format=%H %cs"]
        streams = [
            (os.POSIX_SPAWN_DUP2, descriptor, number) for number, descriptor in enumerate((silent, writer, silent))
        ]
        process = os.posix_spawnp("git", command, os.environ, file_actions=streams)
    except OSError:
        return ""
    finally:
        os.close(writer)
        os.close(silent)
    with open(reader, encoding="utf-8") as answer:
        text = answer.read()
    os.waitpid(process, 0)
    return text.strip()


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_show_version,
    help="Show the version, with its commit and date, and exit.",
)
def cli() -> None:
    """Describe machines and services, see what would change, change it.

    Begin with 'resource-api resource user root' and 'resource-api help apply'.
    """


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command line, by default the process's, and return its exit code; 64 for wrong usage.

    If the variable ``_COMPLETE`` is set, a shell asks for candidates, which click answers by the registered classes.
    """
    if _COMPLETE in os.environ:
        from resource_api.cli import completion

        completion.register()
    try:
        code: object = cli.main(args=arguments, prog_name="resource-api", complete_var=_COMPLETE, standalone_mode=False)
    except click.ClickException as error:
        return _report_usage(error, sys.argv[1:] if arguments is None else arguments)
    except (click.Abort, KeyboardInterrupt):
        return 130
    except OSError as error:
        if error.errno == errno.ENOMEM:  # of an import, before there is a session
            raise MemoryError from error
        return _report_unwritten(error)
    return code if isinstance(code, int) else 0


def _report_usage(error: click.ClickException, arguments: Sequence[str]) -> int:
    """Report that a command line cannot be parsed, with advice on stderr, and with ``--json`` also in JSON on stdout.

    Return the exit code. There is no session yet, which otherwise reports errors.
    """
    from resource_api.cli.help import with_advice, write_json
    from resource_api.cli.output import open_closed_streams
    from resource_api.model.values.text import escape_lines

    open_closed_streams()  # without stderr click would write to stdout
    error = with_advice(error, arguments)
    text = escape_lines(error.format_message())  # the message quotes arguments, which may control the terminal
    printed = error if text == error.format_message() else click.UsageError(text, getattr(error, "ctx", None))
    try:
        printed.show()
    except OSError:
        _discard(2)
    try:
        write_json(error, arguments, 64)
    except OSError as unwritten:
        _report_unwritten(unwritten)
    return 64


def _report_unwritten(error: OSError) -> int:
    """Report that help, the version or a usage error cannot be written, as on a full disk; return the exit code.

    There is no session yet, which otherwise reports errors.
    """
    _discard(1)
    # An error without a file is that of a write; ENOENT then means that the working directory was removed.
    cause = error.filename or ("the working directory" if error.errno == errno.ENOENT else "cannot write")
    try:
        sys.stderr.write(f"resource-api: {cause}: {error.strerror}\n")
    except OSError:
        _discard(2)
    return 1
