"""The options that commands share: each is declared, documented and parsed once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from resource_api.model.options import run_option_names
from resource_api.model.values.errors import UsageError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from resource_api.runtime.reporters import Target
    from resource_api.state.encryption.keys import Key

F = TypeVar("F", bound="Callable[..., Any]")


class Command(click.Command):
    """A command whose help shows examples, and its options in groups: ``cli/help_text.py`` has them."""

    def __init__(
        self, *arguments: Any, examples: Sequence[str] = (), rare: Iterable[str] = (), **settings: Any
    ) -> None:
        """Create a command of click; each of ``examples`` is a line for a shell, which a test runs.

        ``rare`` are names of parameters that ``--help`` leaves out, beside those that it leaves out of every command.
        """
        super().__init__(*arguments, **settings)
        self.examples = examples
        self.rare = frozenset(rare)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Return the arguments that are left. Raise ``UsageError``, naming the variable that has a wrong value."""
        try:
            return super().parse_args(ctx, args)
        except click.BadParameter as error:
            option, environment = error.param, click.core.ParameterSource.ENVIRONMENT
            if isinstance(option, click.Option) and ctx.get_parameter_source(str(option.name)) is environment:
                name = next(each for each in option.opts if each.startswith("--"))
                error.param_hint = f"'{name}' from {option.envvar}"
            raise

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what stands below the text of the help."""
        from resource_api.cli import help_text

        help_text.write_options(self, ctx, formatter)


class Group(click.Group):
    """A command with commands of its own, whose help shows examples."""

    command_class = Command

    def __init__(self, *arguments: Any, examples: Sequence[str] = (), **settings: Any) -> None:
        """Create a group of click; ``examples`` as for a command."""
        super().__init__(*arguments, **settings)
        self.examples = examples

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what stands below the text of the help."""
        from resource_api.cli import help_text

        help_text.write_commands(self, ctx, formatter)


def command(name: str | None = None, *, examples: Sequence[str]) -> Callable[[Callable[..., Any]], Command]:
    """Return a decorator that makes a function a command, called like the function unless named."""
    return click.command(name, cls=Command, examples=examples)


def group(*, examples: Sequence[str], **settings: Any) -> Callable[[Callable[..., Any]], Group]:
    """Return a decorator that makes a function a group of commands."""
    return click.group(cls=Group, examples=examples, **settings)


def together(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    """Return a decorator that applies several, the last one first; a help shows their options in this order."""

    def decorate(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


def complete(candidates: str) -> Callable[[click.Context, click.Parameter, str], Any]:
    """Return the callback that completes a parameter: the function ``candidates`` of ``cli/completion.py``."""

    def items(context: click.Context, _parameter: click.Parameter, incomplete: str) -> Any:
        from resource_api.cli import completion

        return getattr(completion, candidates)(context, incomplete)

    return items


def checked_name(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    """Refuse a name of a stack or project that a URN cannot contain."""
    from resource_api.model.values.reference import STACK_NAME

    if value is None or STACK_NAME.match(value):
        return value
    msg = f"'{value}' is no name: write 1 to 100 letters, digits, '.', '_' and '-', beginning with one of the first two"
    raise click.BadParameter(msg)


def key(context: click.Context, _option: click.Parameter, value: str | None) -> Key | None:
    """Return the key of a URL; its passphrase is removed from the environment, where child processes would see it."""
    if value is None or context.resilient_parsing:
        return None
    import os

    from resource_api.state.encryption.keys import key_from_url

    try:
        return key_from_url(value, os.environ)
    except UsageError as error:
        raise click.BadParameter(str(error)) from error


class _Directory(click.Path):
    """An existing directory; empty elements of a variable's list, as after a trailing colon, are ignored."""

    def split_envvar_value(self, rv: str) -> list[str]:
        return [directory for directory in super().split_envvar_value(rv) if directory]


def _directories(name: str, variable: str, purpose: str) -> Callable[[F], F]:
    kind = _Directory(exists=True, file_okay=False)
    return click.option(name, multiple=True, envvar=variable, type=kind, metavar="DIR", help=purpose)


class Choice(click.Choice[str]):
    """One of several words; the nearest is suggested for another one."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """Return click's message and the suggestion."""
        message = super().get_invalid_choice_message(value, ctx).removesuffix(".")
        hint = nearest(str(value), self.choices)
        return f"{message}; {hint}" if hint else f"{message}."


common = together(
    _directories(
        "--module-path",
        "RESOURCE_API_MODULE_PATH",
        "A directory holding types/ and providers/; repeatable, first hit wins.",
    ),
    _directories(
        "--trust-path",
        "RESOURCE_API_TRUST_PATH",
        "Execute code beneath this directory although others can change it; repeatable.",
    ),
    click.option("--json", is_flag=True, help="Write JSON to stdout."),
    click.option("-v", "--verbose", is_flag=True, help="Show progress."),
    click.option("-d", "--debug", is_flag=True, help="Show everything."),
    click.option("-q", "--quiet", is_flag=True, help="Show errors only."),
    click.option(
        "--log-format",
        envvar="RESOURCE_API_LOG_FORMAT",
        type=Choice(["console", "json"]),
        default="console",
        help="How log lines look.",
    ),
    click.option(
        "--color",
        envvar="RESOURCE_API_COLOR",
        type=Choice(["auto", "always", "never"]),
        default="auto",
        help="Colour the output.",
    ),
)

stack = click.option(
    "--stack",
    envvar="RESOURCE_API_STACK",
    default="default",
    callback=checked_name,
    metavar="NAME",
    shell_complete=complete("stacks"),
    help="The stack; default: default.",
)

_url = click.option(
    "--state", envvar="RESOURCE_API_STATE", metavar="URL", help="Where state is kept: sqlite:PATH, or memory: for none."
)
_key = click.option(
    "--key",
    envvar="RESOURCE_API_KEY",
    metavar="URL",
    callback=key,
    help="What secrets are encrypted with: file:PATH, passphrase:[PATH], or age:PATH.",
)
_project = click.option(
    "--project",
    callback=checked_name,
    shell_complete=complete("projects"),
    metavar="NAME",
    help="The project; default: the manifest's.",
)
_lock_timeout = click.option(
    "--lock-timeout",
    envvar="RESOURCE_API_LOCK_TIMEOUT",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="S",
    help="Wait so long for the state's lock.",
)

state = together(_url, _key, stack, _project, _lock_timeout)

#: What commands about several stacks have.
stacks = together(_url, _key, _project, _lock_timeout)

stack_name = click.argument("name", callback=checked_name, shell_complete=complete("stacks"))

manifest = click.argument("manifest", type=click.Path())

manifest_inputs = together(
    click.option(
        "-i",
        "given",
        multiple=True,
        shell_complete=complete("inputs"),
        metavar="NAME=VALUE",
        help="An input; NAME=@FILE reads it from a file.",
    ),
    click.option(
        "--inputs",
        "input_files",
        multiple=True,
        metavar="FILE",
        type=click.Path(),
        help="A YAML or JSON file of inputs.",
    ),
)


def _references(*names: str, purpose: str) -> Callable[[F], F]:
    return click.option(*names, multiple=True, shell_complete=complete("targets"), metavar="REF", help=purpose)


targets = together(
    _references("--target", "targets", purpose="Exactly these resources; * and ? are wild."),
    _references("--exclude", "excludes", purpose="All but these resources."),
)


def _tags(_context: click.Context, _option: click.Parameter, value: str | None) -> frozenset[str]:
    """Return the tags of a list. Refuse one without any: a variable that is not set must not mean everything."""
    found = frozenset(tag.strip().lower() for tag in (value or "").split(",") if tag.strip())
    if value is not None and not found:
        msg = "it names no tag"
        raise click.BadParameter(msg)
    return found


selection = together(
    targets,
    click.option("--with-dependencies", is_flag=True, help="Also what the targets depend on."),
    click.option("--with-dependents", is_flag=True, help="Also what depends on the targets."),
    click.option("--tags", callback=_tags, metavar="T,...", help="Only resources with one of these tags."),
    click.option("--skip-tags", callback=_tags, metavar="T,...", help="No resources with one of these tags."),
)

planning = together(
    _references("--replace", purpose="Replace even if nothing differs."),
    click.option("--prune", is_flag=True, help="Delete what is recorded as ours and no longer declared."),
    click.option("--prune-always", is_flag=True, help="As --prune, even if something declared fails or is skipped."),
)

strict = click.option(
    "--strict",
    envvar="RESOURCE_API_STRICT",
    type=Choice(["error", "warning", "off"]),
    default="error",
    help="What happens when a provider breaks its type's declaration.",
)

detailed_exitcodes = click.option("--detailed-exitcodes", is_flag=True, help="2: changed, 4: failures, 6: both.")

execution = together(
    strict,
    click.option(
        "--parallel",
        envvar="RESOURCE_API_PARALLEL",
        type=click.IntRange(min=1),
        default=1,
        metavar="N",
        help="Run up to N calls side by side.",
    ),
    click.option("--fail-fast", is_flag=True, help="Start nothing after the first failure."),
    detailed_exitcodes,
)

diff = click.option(
    "--diff",
    envvar="RESOURCE_API_DIFF",
    type=click.Choice(["short", "full", "none"]),
    default="short",
    help="How much is shown of a text that changes: 40 lines, all, or how many lines.",
)


def _targets(kind: str) -> Callable[[click.Context, click.Parameter, Any], list[Target]]:
    """Return what click calls with the value of an option, or its values: it makes targets by ``reporters.KIND``."""

    def targets(_context: click.Context, _option: click.Parameter, given: Any) -> list[Target]:
        if not given:
            return []
        from resource_api.runtime import reporters

        try:
            return [getattr(reporters, kind)(value) for value in ([given] if isinstance(given, str) else given)]
        except UsageError as error:
            raise click.BadParameter(str(error)) from error

    return targets


reports = together(
    click.option(
        "--report",
        "reports",
        multiple=True,
        metavar="PATH",
        callback=_targets("report"),
        help="Write a report, as PATH ends: .json, .xml (JUnit), .html; one a run into a directory, where the last 100 "
        "are kept; or call MODULE:FUNCTION. Repeatable.",
    ),
    click.option(
        "--metrics", metavar="FILE", callback=_targets("metrics"), help="Write counts in Prometheus' text format."
    ),
)

explain = click.option(
    "--explain",
    multiple=True,
    metavar="REF",
    help="Show why a step is there: whose each value is, relationships, record; repeatable.",
)

isolate = click.option(
    "--isolate", is_flag=True, envvar="RESOURCE_API_ISOLATE", help="Run every provider in a process of its own."
)

#: What every command has that calls providers.
provider_calls = together(state, isolate, common)

#: What ``plan`` and ``apply`` have, and no other command.
full_run = together(manifest_inputs, selection, planning, execution, reports, diff, provider_calls)

hosts_file = click.option(
    "--hosts",
    "hosts_file",
    envvar="RESOURCE_API_HOSTS",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="The inventory; default: hosts.yaml beside the manifest.",
)

connect_timeout = click.option(
    "--connect-timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="S",
    help="Wait so long for a connection to a host; default: 10.",
)

#: What every command has that can be given to many hosts.
hosted = together(
    click.option(
        "--on",
        multiple=True,
        metavar="WHERE",
        shell_complete=complete("hosts"),
        help="Do it on these hosts: 'web[1:50]', group, @FILE, !host; repeatable.",
    ),
    hosts_file,
    click.option(
        "--at-once",
        type=click.IntRange(min=1),
        default=50,
        metavar="N",
        help="So many hosts side by side; default: 50.",
    ),
    click.option("--batches", metavar="LIST", help="Sizes of batches, such as 1,10%,100%; the last repeats."),
    click.option(
        "--stop-after",
        metavar="N|P%",
        help="Stop when more hosts than that have failed; default: 0 with --batches, else none.",
    ),
    click.option(
        "--unreachable",
        type=Choice(["fail", "ignore"]),
        default="fail",
        help="Whether an unreachable host counts as a failed one.",
    ),
    click.option(
        "--between", metavar="COMMAND", help="Run this here between batches; it stops the run unless it ends with 0."
    ),
    click.option("--pause", is_flag=True, help="Ask between batches."),
    click.option(
        "--host-timeout",
        type=click.FloatRange(min=0, min_open=True),
        default=3600.0,
        metavar="S",
        help="Give up a host after so long; default: 3600.",
    ),
    connect_timeout,
)

#: The parameters beside ``on`` that a command which stays on this machine does not have.
HOSTED: Final = (
    *("hosts_file", "at_once", "batches", "stop_after", "unreachable", "between", "pause"),
    *("host_timeout", "connect_timeout", "rerun"),
)

rerun = click.option("--rerun", metavar="RUN", help="Only the hosts that this run has left; last: the newest run.")

noop = click.option(
    "--noop",
    "-n",
    "--dry-run",
    "--check",
    is_flag=True,
    envvar="RESOURCE_API_NOOP",
    help="Change nothing; show what would be done.",
)


def is_hosted(settings: Mapping[str, Any]) -> bool:
    """Return whether a command is for other hosts.

    Raise ``UsageError`` for an option that is only about them, and for one without a text: a variable that is not set
    must neither turn to this machine nor to all hosts at once.
    """
    for name in ("rerun", "batches", "stop_after", "between"):
        if settings.get(name) == "":
            msg = f"--{name.replace('_', '-')} is empty"
            raise UsageError(msg)
    if settings.get("on") or settings.get("rerun"):
        return True
    for name in ("batches", "stop_after", "between", "pause"):
        if settings.get(name):
            msg = f"--{name.replace('_', '-')} needs --on"
            raise UsageError(msg)
    return False


#: Parameters that select resources, and those that decide what is done with them.
WHAT_TO_CHANGE: Final = (
    *("targets", "excludes", "with_dependencies", "with_dependents", "tags", "skip_tags"),
    *run_option_names("changes"),
)
#: Parameters that decide what a plan contains; they cannot be given with a saved plan.
_PLANNED: Final = frozenset({*WHAT_TO_CHANGE, "strict", "given", "input_files"})
#: Parameters that select the state; with a saved plan they must be those of the plan.
_STATE: Final = frozenset({"stack", "project"})


def run_options(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of ``Runtime``'s methods from a command's parameters."""
    names = ("noop", *WHAT_TO_CHANGE, "strict", "parallel", "fail_fast")
    return {name: settings[name] for name in names if name in settings}


def saved_plan_options(settings: Mapping[str, Any], document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with which a saved plan is applied.

    Raise ``UsageError`` for an option that decides what a plan contains, and for another stack or project.
    """
    context = click.get_current_context()
    for parameter in context.command.params:
        name, source = str(parameter.name), context.get_parameter_source(str(parameter.name))
        if name in _PLANNED and source is click.core.ParameterSource.COMMANDLINE:
            msg = f"{parameter.opts[0]} cannot be given with a saved plan, which does what it shows; plan again"
            raise UsageError(msg)
        given = source is not click.core.ParameterSource.DEFAULT and settings.get(name)
        if name in _STATE and given and given != document.get(name):
            msg = f"{parameter.opts[0]} {given}: the plan is about the {name} '{document.get(name)}'"
            raise UsageError(msg)
    return {name: settings[name] for name in ("noop", "parallel", "fail_fast")}
