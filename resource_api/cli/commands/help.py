"""``help``: show the help of a command, with ``--all`` of all its options."""

from __future__ import annotations

import click

from resource_api.cli import options
from resource_api.cli.help import ALL
from resource_api.cli.main import echo


@options.command(examples=("resource-api help apply --all", "resource-api help state mv"))
@click.argument("names", metavar="[COMMAND]...", nargs=-1, shell_complete=options.complete("commands"))
@click.option("--all", "everything", is_flag=True, help="Show all options, each with its environment variable.")
@click.pass_context
def help(context: click.Context, names: tuple[str, ...], *, everything: bool) -> None:  # noqa: A001 - the command's name
    """Show the purpose, most used options and examples of COMMAND; without COMMAND, list the commands."""
    target = context.find_root()
    target.meta[ALL] = everything
    for name in names:
        group = target.command
        if not isinstance(group, click.Group):
            raise click.UsageError(f"{target.command_path} has no commands", context)
        _, command, _ = group.resolve_command(target, [name])
        if command is not None:
            target = click.Context(command, parent=target, info_name=name)
    echo(target.get_help())
