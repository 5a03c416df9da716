"""What is reported of a command line that cannot be parsed: the option or command that is meant, and its JSON.

An option that deletes or replaces something, or shows a secret, is never suggested.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from resource_api.model.values.errors import Problem, nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Options that delete, replace, or show a secret.
NEVER_SUGGESTED: Final = frozenset(
    {"--yes", "--force", "--replace", "--prune", "--prune-always", "--reveal", "--decrypt", "--drop-generations"}
)


#: The commands that write one object a line with ``--json``, the last of them a summary.
_STREAMING: Final = frozenset({"apply", "destroy"})


def with_advice(error: click.ClickException, arguments: Sequence[str]) -> click.ClickException:
    """Return the error for a command line, with advice where there is some."""
    if isinstance(error, click.NoSuchOption):
        name = _as_written(error.option_name, arguments)
        return _usage_error(f"No such option '{name}'", _advice_on_option(name, error.ctx), error.ctx)
    if isinstance(error, click.NoSuchCommand):
        group = error.ctx.command if error.ctx else None
        known = group.list_commands(error.ctx) if error.ctx and isinstance(group, click.Group) else []
        about = str(error.ctx.info_name) if error.ctx and error.ctx.parent else ""
        hint = nearest(error.command_name, known, "command", about)
        return _usage_error(f"No such command '{error.command_name}'", hint, error.ctx)
    if type(error) is click.UsageError:
        hint = next(filter(None, (nearest(each, (), "argument") for each in arguments)), "")
        return _usage_error(error.message, hint, error.ctx) if hint else error
    return error


def write_json(error: click.ClickException, arguments: Sequence[str], exit_code: int) -> None:
    """Write to stdout what a command with ``--json`` among its ``arguments`` writes of any error; raise ``OSError``."""
    if "--json" not in arguments:
        return
    import json

    from resource_api.model.report import Summary
    from resource_api.render import json as documents

    problem = documents.problem(Problem(None, error.format_message(), code="usage"))
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is not None and context.info_name in _STREAMING:
        last = documents.line("summary", documents.summary(Summary(), exit_code))
        click.echo("\n".join(json.dumps(each) for each in (documents.line("diagnostic", problem), last)))
    else:
        click.echo(json.dumps({"diagnostics": [problem], "exit_code": exit_code}, indent=2))


def _as_written(name: str, arguments: Sequence[str]) -> str:
    """Return the option as the user wrote it; click splits ``-var`` into ``-v``, ``-a`` and ``-r``."""
    words = [each.partition("=")[0] for each in arguments if each.startswith("-")]
    if name in words or name.startswith("--"):
        return name
    return next((each for each in words if not each.startswith("--") and name[1:] in each), name)


def _advice_on_option(name: str, context: click.Context | None) -> str:
    command = context.command if context else None
    known = [option for each in command.params for option in each.opts] if command else []
    if context:
        known += context.help_option_names
    known = [each for each in known if each.startswith("-")]
    if f"-{name}" in known and f"-{name}" not in NEVER_SUGGESTED:
        return f"did you mean '-{name}'?"
    hint = nearest(name, known, "option", str(command.name) if command else "")
    if any(f"'{each}'" in hint for each in NEVER_SUGGESTED):
        return ""
    return hint or ("write options behind the command" if isinstance(command, click.Group) else "")


def _usage_error(message: str, hint: str, context: click.Context | None) -> click.UsageError:
    return click.UsageError(f"{message}; {hint}" if hint else f"{message}.", context)
