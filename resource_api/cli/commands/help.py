"""``help``: show the help of a command, of all its options where asked for."""

from __future__ import annotations

import click

from resource_api.cli import help_text, options


@options.command(examples=("resource-api help apply --all", "resource-api help state mv"))
@click.argument("names", metavar="[COMMAND]...", nargs=-1, shell_complete=options.complete("commands"))
@click.option("--all", "everything", is_flag=True, help="Show all options, each with its environment variable.")
@click.pass_context
def help(context: click.Context, names: tuple[str, ...], *, everything: bool) -> None:  # noqa: A001 - the command's name
    """Show what COMMAND does, its most used options and examples; without COMMAND, list the commands."""
    shown = context.find_root()
    shown.meta[help_text.ALL] = everything
    for name in names:
        group = shown.command
        if not isinstance(group, click.Group):
            msg = f"{shown.command_path} has no commands"
            raise click.UsageError(msg, context)
        _, command, _ = group.resolve_command(shown, [name])
        if command is not None:
            shown = click.Context(command, parent=shown, info_name=name)
    click.echo(shown.get_help(), color=context.color)
