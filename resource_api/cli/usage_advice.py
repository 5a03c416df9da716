"""Advice on a command line that cannot be parsed: the nearest option or command, and the error as JSON.

An option that deletes or replaces something, or shows a secret, is never suggested.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import click

from resource_api.manifest.read import manifest_names
from resource_api.model.report import Summary
from resource_api.model.values.errors import Problem, suggestion
from resource_api.render import json as documents

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
        names = group.list_commands(error.ctx) if error.ctx and isinstance(group, click.Group) else []
        group_name = str(error.ctx.info_name) if error.ctx and error.ctx.parent else ""
        hint = suggestion(error.command_name, names, "command", group_name)
        return _usage_error(f"No such command '{error.command_name}'", hint, error.ctx)
    if isinstance(error, click.MissingParameter) and error.param and error.param.name == "manifest":
        return _usage_error("Missing argument 'MANIFEST'", _advice_on_manifest(error.ctx), error.ctx)
    if type(error) is click.UsageError:
        hint = next(filter(None, (suggestion(word, (), "argument") for word in arguments)), "")
        return _usage_error(error.message, hint, error.ctx) if hint else error
    return error


def write_json(error: click.ClickException, arguments: Sequence[str], exit_code: int) -> None:
    """Write the error as JSON to stdout if ``--json`` is among the ``arguments``. Raise ``OSError``."""
    if "--json" not in arguments:
        return
    problem = documents.problem(Problem(None, error.format_message(), code="usage"))
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is not None and context.info_name in _STREAMING:
        last = documents.line("summary", documents.summary(Summary(), exit_code))
        click.echo("\n".join(json.dumps(line) for line in (documents.line("diagnostic", problem), last)))
    else:
        click.echo(json.dumps({"diagnostics": [problem], "exit_code": exit_code}, indent=2))


def _as_written(name: str, arguments: Sequence[str]) -> str:
    """Return the option as the user wrote it; click splits ``-var`` into ``-v``, ``-a`` and ``-r``."""
    written = [word.partition("=")[0] for word in arguments if word.startswith("-")]
    if name in written or name.startswith("--"):
        return name
    return next((word for word in written if not word.startswith("--") and name[1:] in word), name)


def _advice_on_option(name: str, context: click.Context | None) -> str:
    """Return the advice on an unknown option: the nearest one of the command, or ""."""
    command = context.command if context else None
    flags = [flag for parameter in command.params for flag in parameter.opts] if command else []
    if context:
        flags += context.help_option_names
    flags = [flag for flag in flags if flag.startswith("-")]
    # Of "-target" the flag is "--target".
    if f"-{name}" in flags and f"-{name}" not in NEVER_SUGGESTED:
        return f"did you mean '-{name}'?"
    hint = suggestion(name, flags, "option", _command_name(context))
    if any(f"'{flag}'" in hint for flag in NEVER_SUGGESTED):
        return ""
    return hint or ("write options behind the command" if isinstance(command, click.Group) else "")


def _advice_on_manifest(context: click.Context | None) -> str:
    """Return the manifests of the working directory; those of the agent are in its source."""
    if _command_name(context).startswith("agent"):
        return ""
    try:
        names = manifest_names(".")
    except OSError:
        return ""
    return f"in this directory: {', '.join(names)}" if names else "this directory holds none"


def _command_name(context: click.Context | None) -> str:
    """Return the name of the command as users write it behind the program's, such as ``agent run``."""
    names: list[str] = []
    while context is not None and context.parent is not None:
        names.insert(0, str(context.command.name))
        context = context.parent
    return " ".join(names)


def _usage_error(message: str, hint: str, context: click.Context | None) -> click.UsageError:
    """Return an error of usage whose message ends in the hint, unless it is empty."""
    return click.UsageError(f"{message}; {hint}" if hint else f"{message}.", context)
