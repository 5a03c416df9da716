"""The options that commands share, in one table: each is declared, documented and parsed once."""

from __future__ import annotations

import os
import re
from functools import partial
from math import isnan
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from resource_api.cli import completion, reporting
from resource_api.cli.help import (
    HOW_TO_RUN,
    MANY_HOSTS,
    OUTPUT,
    OWN,
    STATE,
    WHAT_TO_CHANGE,
    GroupedOption,
    command,
    group,
)
from resource_api.model.options import EXECUTION, RUN_OPTIONS, STRICT, lower_tags
from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import UsageError, suggestion
from resource_api.model.values.reference import STACK_NAME
from resource_api.system import age

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from click.shell_completion import CompletionItem

    from resource_api.cli.reporting import Target
    from resource_api.model.options import RunOption, Settings
    from resource_api.state.encryption.keys import Key

__all__ = ["command", "group"]

F = TypeVar("F", bound="Callable[..., Any]")


def together(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    """Return one decorator for a set of options that commands share, so that a command names the set only.

    The options are in the order in which their decorators would stand above a function.
    """

    def decorate(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


def complete(candidates: str) -> Callable[[click.Context, click.Parameter, str], object]:
    """Return the callback that completes a parameter by a function of ``cli/completion.py``, loaded only then."""
    return lambda context, _parameter, incomplete: getattr(completion, candidates)(context, incomplete)


def checked_name(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    """Return the name of a stack or project. Raise ``BadParameter`` for one that a URN cannot contain."""
    if value is None or STACK_NAME.match(value):
        return value
    msg = f"'{value}' is no name: write 1 to 100 letters, digits, '.', '_' and '-', beginning with one of the first two"
    raise click.BadParameter(msg)


def key(context: click.Context, _option: click.Parameter, value: str | None) -> Key | None:
    """Return the key of ``--key URL``, or None without one; not while a shell completes a line.

    Its passphrase is removed from the environment, where child processes would see it. Raise ``BadParameter``.
    """
    if value is None or context.resilient_parsing:
        return None
    from resource_api.state.encryption.keys import key_from_url

    with errors_as(click.BadParameter, UsageError):
        return key_from_url(value, os.environ)


def _inputs_key(context: click.Context, _option: click.Parameter, value: str | None) -> age.Identities | None:
    """Return the identities of ``--inputs-key age:PATH``, which decrypt files of inputs, or None without the option.

    The file is read only with the first encrypted file. Raise ``BadParameter``.
    """
    if value is None or context.resilient_parsing:
        return None
    scheme, _, path = value.partition(":")
    if scheme != "age" or not path:
        raise click.BadParameter(f"'{value}' is no key of inputs: write age:PATH")
    return age.Identities(path)


class Path(click.ParamType[str]):
    """A path with the checks of ``click.Path``, which is made for a path that may be refused.

    Making one looks for a translation of "path", and for that imports ``locale``: 6 million instructions of each start.
    """

    envvar_list_splitter = os.pathsep

    def __init__(self, *, exists: bool = False, file_okay: bool = True, dir_okay: bool = True) -> None:
        """Take the options of ``click.Path``: whether the path must exist, may be a file, and may be a directory."""
        self.name = "file" if file_okay else "directory"
        if file_okay and dir_okay:
            self.name = "path"
        self._exists = exists
        #: Whether a path is a directory → whether it is accepted.
        self._is_okay = {False: file_okay, True: dir_okay}
        #: Makes click's type, which words the refusal.
        self._click_path = partial(click.Path, exists=exists, file_okay=file_okay, dir_okay=dir_okay)

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the path. Raise ``BadParameter`` if it is refused.

        A path in a directory without permission has its own message: click would report it as missing. Most paths are
        accepted by the first test, without click's slow type.
        """
        if os.access(value, os.R_OK) and self._is_okay[os.path.isdir(value)]:
            return value
        if self._exists:
            try:
                os.stat(value)
            except PermissionError as error:
                self.fail(f"{value}: {error.strerror}", param, ctx)
            except OSError:
                pass
        return os.fsdecode(self._click_path().convert(value, param, ctx))

    def split_envvar_value(self, rv: str) -> list[str]:
        """Return the paths in a variable without empty ones, as after a trailing colon."""
        return [path for path in super().split_envvar_value(rv) if path]

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        """Let the shell complete files or directories."""
        return self._click_path().shell_complete(ctx, param, incomplete)


def output_file(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    """Return the path of a file to write. Raise ``BadParameter`` for ``-``.

    In other programs ``-`` is standard output; here it would become a file with that name.
    """
    if value == "-":
        raise click.BadParameter("'-' is no file; write the name of one (./- for this one)")
    return value


class Number(click.FloatRange):
    """A number within limits; click calls the type of a wrong one a "float range", and accepts "nan"."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number of an option. Raise ``BadParameter`` for one out of the limits.

        ``nan`` is refused here: click accepts it, because no comparison with a limit is true for it.
        """
        number: float = super().convert(value, param, ctx)
        if isnan(number):
            self.fail(f"'{value}' is not a valid number.", param, ctx)
        return number


class Integer(click.IntRange):
    """A whole number within limits."""

    name = "whole number"


class Choice(click.Choice[str]):
    """One of a set of words; the message about another one suggests the nearest."""

    def get_invalid_choice_message(self, value: object, ctx: click.Context | None) -> str:
        """Return click's message about a word that is no choice, with the nearest one."""
        message = super().get_invalid_choice_message(value, ctx).removesuffix(".")
        hint = suggestion(str(value), self.choices)
        return f"{message}; {hint}" if hint else f"{message}."


_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION: Final = re.compile(r"(?:(\d{1,6})([smhd]))+")


class Duration(click.ParamType[float]):
    """A length of time: ``30m``, ``1h30m``, ``90s``; a plain number is seconds."""

    name = "duration"

    def __init__(self, least: int) -> None:
        """Refuse a shorter one than ``least`` seconds."""
        self._least = least

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds of ``1h30m``, or of a float, which click has converted before. Raise ``BadParameter``."""
        if isinstance(value, float):
            return value
        text = f"{value}s" if str(value).isdecimal() else str(value)
        if not _DURATION.fullmatch(text):
            self.fail(f"'{value}' is no length of time: write 90s, 30m, 1h30m or 1d", param, ctx)
        seconds = sum(int(number) * _UNITS[unit] for number, unit in re.findall(r"(\d+)([smhd])", text))
        if seconds < self._least:
            self.fail(f"'{value}' is less than {self._least} s", param, ctx)
        return float(seconds)


def _tags(_context: click.Context, _option: click.Parameter, value: str | None) -> frozenset[str]:
    """Return the tags of ``--tags T,...``, in lower case; an empty set without the option.

    Raise ``BadParameter`` for a list of no tags: an unset variable of the shell must not select everything.
    """
    tags = lower_tags(tag.strip() for tag in (value or "").split(",") if tag.strip())
    if value is not None and not tags:
        raise click.BadParameter("it names no tag")
    return tags


def _targets(kind: str, context: click.Context, option: click.Parameter, value: Any) -> list[Target]:
    """Return the targets of ``--report`` or ``--metrics``, made before the run, so that a wrong one ends the command.

    ``kind``: the function of ``reporting`` that makes a target of a text, ``report`` or ``metrics``. Raise
    ``BadParameter``.
    """
    texts = [value] if isinstance(value, str) else value or []
    for text in texts:
        if not output_file(context, option, text):
            raise click.BadParameter("it is empty")
    with errors_as(click.BadParameter, UsageError):
        return [getattr(reporting, kind)(text) for text in texts]


#: Kind of an option of runs → its settings for click.
_KINDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "flag": {"is_flag": True},
    "number": {"type": Integer(min=1), "default": 1, "metavar": "N"},
    "references": {"multiple": True, "shell_complete": complete("targets"), "metavar": "REF"},
    "tags": {"callback": _tags, "metavar": "T,..."},
    "strict": {"type": Choice(STRICT), "default": STRICT[0]},
}
#: Option of runs → its flags, where they are not made of its name.
_RUN_FLAGS: Final = {
    "noop": ("--noop", "-n", "--dry-run", "--check"),
    "targets": ("--target",),
    "excludes": ("--exclude",),
}
_POSITIVE: Final = Number(min=0, min_open=True)
_CODE: Final = Path(exists=True, file_okay=False)


def _option(group: str, text: str, *flags: str, **settings: object) -> dict[str, object]:
    """Return an option's settings for the table: its group and help, and its ``flags`` unless its name makes them."""
    return {"flags": flags, "group": group, "help": text, **settings}


def _run_option(name: str, option: RunOption) -> dict[str, object]:
    """Return click's settings for an option of ``Runtime``'s methods, such as ``noop``, from its declaration there.

    By this one declaration, the command line and the methods have the same options.
    """
    settings = {"envvar": option.variable, "rare": option.rare, **_KINDS[option.kind]}
    group = WHAT_TO_CHANGE if option.phase in {"selection", "changes"} else HOW_TO_RUN
    if name == "noop":  # the option that is used most: the help shows it among a command's own options
        group, settings["rank"] = OWN, 0
    return _option(group, option.help, *_RUN_FLAGS.get(name, ()), **settings)


def flag(name: str) -> str:
    """Return ``--lock-timeout`` for the parameter ``lock_timeout``."""
    return f"--{name.replace('_', '-')}"


_on_hosts = partial(_option, MANY_HOSTS, rare=True)
_state = partial(_option, STATE)
_output = partial(_option, OUTPUT)

#: Parameter → its settings for click, in the order of the help.
_TABLE: Final[Mapping[str, Mapping[str, Any]]] = {
    "given": _option(
        OWN,
        "An input; NAME=@FILE reads it from a file.",
        "-i",
        multiple=True,
        shell_complete=complete("inputs"),
        metavar="NAME=VALUE",
    ),
    "input_files": _option(
        OWN, "A YAML or JSON file of inputs.", "--inputs", multiple=True, metavar="FILE", type=Path()
    ),
    "inputs_key": _option(
        OWN,
        "The key of encrypted files of inputs, *.age: age:PATH.",
        envvar="RESOURCE_API_INPUTS_KEY",
        metavar="URL",
        callback=_inputs_key,
        rare=True,
    ),
    "on": _option(
        HOW_TO_RUN,
        "Do it on these hosts: 'web[1:50]', group, @FILE, !host; repeatable.",
        multiple=True,
        metavar="WHERE",
        shell_complete=complete("hosts"),
    ),
    **{name: _run_option(name, option) for name, option in RUN_OPTIONS.items()},
    "isolate": _option(
        HOW_TO_RUN,
        "Run every provider in a process of its own.",
        envvar="RESOURCE_API_ISOLATE",
        is_flag=True,
        rare=True,
    ),
    "detailed_exitcodes": _option(HOW_TO_RUN, "2: changed, 4: failures, 6: both.", is_flag=True, rare=True),
    "hosts_file": _on_hosts(
        "The inventory; default: hosts.yaml beside the manifest.",
        "--hosts",
        "--inventory",
        envvar="RESOURCE_API_HOSTS",
        type=Path(dir_okay=False),
        metavar="FILE",
    ),
    "at_once": _on_hosts(
        "Work on up to N hosts side by side, as --parallel does with calls on each; default: 50.",
        type=Integer(min=1),
        default=50,
        metavar="N",
    ),
    "batches": _on_hosts("Sizes of batches, such as 1,10%,100%; the last repeats.", metavar="LIST"),
    "stop_after": _on_hosts(
        "Stop when more hosts than that have failed; default: 0 with --batches, else none.", metavar="N|P%"
    ),
    "unreachable": _on_hosts(
        "Whether an unreachable host counts as a failed one.", type=Choice(["fail", "ignore"]), default="fail"
    ),
    "before": _on_hosts(
        "Run this command here before each batch, with its hosts as JSON on stdin; a failure stops the run.",
        metavar="COMMAND",
    ),
    "between": _on_hosts(
        "Run this command here between batches, with outcomes as JSON on stdin; a failure stops the run.",
        metavar="COMMAND",
    ),
    "pause": _on_hosts("Ask between batches.", is_flag=True),
    "host_timeout": _on_hosts(
        "Seconds after which a host counts as failed; default: 3600.", type=_POSITIVE, metavar="S", default=3600.0
    ),
    "connect_timeout": _on_hosts(
        "Seconds to wait for a connection to a host; default: 10.", type=_POSITIVE, metavar="S"
    ),
    "rerun": _on_hosts("Only the hosts that this run left undone; last: the newest run.", metavar="RUN"),
    "state": _state(
        "State: sqlite:PATH, postgresql://..., or memory: for none.", envvar="RESOURCE_API_STATE", metavar="URL"
    ),
    "stack": _state(
        "The stack; default: default.",
        envvar="RESOURCE_API_STACK",
        default="default",
        callback=checked_name,
        metavar="NAME",
        shell_complete=complete("stacks"),
    ),
    "project": _state(
        "The project; default: the manifest's.",
        callback=checked_name,
        shell_complete=complete("projects"),
        metavar="NAME",
    ),
    "key": _state(
        "The key that encrypts secrets: file:PATH, passphrase:[PATH], or age:PATH.",
        envvar="RESOURCE_API_KEY",
        metavar="URL",
        callback=key,
        rare=True,
    ),
    "lock_timeout": _state(
        "Seconds to wait for the state's lock.",
        envvar="RESOURCE_API_LOCK_TIMEOUT",
        type=Number(min=0),
        default=0.0,
        metavar="S",
        rare=True,
    ),
    "module_path": _state(
        "A directory with types/ and providers/; repeatable, the first match wins.",
        envvar="RESOURCE_API_MODULE_PATH",
        multiple=True,
        type=_CODE,
        metavar="DIR",
    ),
    "trust_path": _state(
        "Execute code below this directory although other users can change it; repeatable.",
        envvar="RESOURCE_API_TRUST_PATH",
        multiple=True,
        type=_CODE,
        metavar="DIR",
        rare=True,
    ),
    "json": _output("Write JSON to stdout.", is_flag=True),
    "verbose": _output("Show progress.", "-v", "--verbose", is_flag=True),
    "debug": _output("Show everything.", "-d", "--debug", is_flag=True),
    "quiet": _output("Log errors only.", "-q", "--quiet", is_flag=True),
    "reports": _output(
        "Write a report, as PATH ends: .json, .xml (JUnit), .html; one a run into a directory, where the last 100 are "
        "kept; or call MODULE:FUNCTION. Repeatable.",
        "--report",
        multiple=True,
        metavar="PATH",
        callback=partial(_targets, "report"),
        rare=True,
    ),
    "metrics": _output(
        "Write counts in Prometheus' text format.", metavar="FILE", callback=partial(_targets, "metrics"), rare=True
    ),
    "diff": _output(
        "Diff of a text that changes: short (40 lines), full, or none (the number of lines).",
        envvar="RESOURCE_API_DIFF",
        type=click.Choice(["short", "full", "none"]),
        default="short",
        rare=True,
    ),
    "log_format": _output(
        "Format of log lines.",
        envvar="RESOURCE_API_LOG_FORMAT",
        type=Choice(["console", "json"]),
        default="console",
        rare=True,
    ),
    "color": _output(
        "Colour the output.",
        envvar="RESOURCE_API_COLOR",
        type=Choice(["auto", "always", "never"]),
        default="auto",
        rare=True,
    ),
}
_RANKS: Final = {name: rank for rank, name in enumerate(_TABLE, 1)}


def shared(*names: str, **changes: object) -> Callable[[F], F]:
    """Return a decorator that adds options of the table to a command, which so have one meaning in all commands.

    ``changes`` replace settings of the table, such as the help, for this command.
    """

    def option(name: str) -> Callable[[F], F]:
        """Return the decorator of one option of the table, with its rank there and the changed settings."""
        settings = {"rank": _RANKS[name], **_TABLE[name], **changes}
        flags = settings.pop("flags") or (flag(name),)
        return click.option(*flags, name, cls=GroupedOption, **settings)

    return together(*map(option, names))


def rare(*flags: str, **settings: object) -> Callable[[F], F]:
    """Return a decorator that adds an option of one command, which ``--help`` leaves out."""
    return click.option(*flags, cls=GroupedOption, rare=True, **settings)


common = shared("module_path", "trust_path", "json", "verbose", "debug", "quiet", "log_format", "color")
state = shared("state", "key", "stack", "project", "lock_timeout")
#: The options of commands about all stacks.
stacks = shared("state", "key", "project", "lock_timeout")
stack_name = click.argument("name", callback=checked_name, shell_complete=complete("stacks"))
manifest = click.argument("manifest", type=Path())
manifest_inputs = shared("given", "input_files", "inputs_key")
inputs_key = shared("inputs_key")
selection = shared(*(name for name, option in RUN_OPTIONS.items() if option.phase == "selection"))
execution = shared("strict", "parallel", "fail_fast", "detailed_exitcodes")
noop = shared("noop")
diff = shared("diff")
reports = shared("reports", "metrics")
explain = click.option(
    "--explain",
    multiple=True,
    metavar="REF",
    help="Show why a step is there: whose each value is, relationships, record; repeatable.",
)
#: The options of commands that call providers, beside the common ones.
provider_calls = together(state, shared("isolate"))
#: The options of ``plan`` and ``apply`` alone.
full_run = together(
    manifest_inputs, selection, shared("replace", "prune", "prune_always"), execution, reports, diff, provider_calls
)
#: The names of the options about hosts that only ``--on`` gives a meaning.
HOSTED: Final = tuple(name for name, settings in _TABLE.items() if settings.get("group") == MANY_HOSTS)
#: The options of a run that changes hosts in batches.
_ROLLOUT: Final = ("batches", "stop_after", "before", "between", "pause")
#: The options of commands that read on many hosts, and of those that may change something there.
hosted_reading = shared("on", *(name for name in HOSTED if name not in {"rerun", *_ROLLOUT}))
hosted = shared("on", *(name for name in HOSTED if name != "rerun"))
#: The options of commands whose run over hosts is recorded, so that another run can do the rest.
hosted_recorded = together(hosted, shared("rerun"))


def is_hosted(settings: Settings) -> bool:
    """Return whether a command is for other hosts: with ``--on`` or ``--rerun``.

    Without these raise ``UsageError`` for an option about hosts: it would be ignored, and the command would act on this
    machine instead.
    """
    if settings.get("on") or settings.get("rerun"):
        return True
    for name in _ROLLOUT:
        if settings.get(name):
            raise UsageError(f"{flag(name)} needs --on")
    context = click.get_current_context(silent=True)
    source = context.get_parameter_source("hosts_file") if context is not None else None
    # The variable of --inventory may be set for all commands, so that it is no mistake here.
    if settings.get("hosts_file") and source is click.core.ParameterSource.COMMANDLINE:
        raise UsageError("--inventory needs --on, which selects hosts of it; for all: --on all")
    return False


def run_options(settings: Settings) -> dict[str, Any]:
    """Return a command's parameters that are options of ``Runtime``'s methods, by name."""
    return {name: settings[name] for name in RUN_OPTIONS if name in settings}


def saved_plan_options(settings: Settings, document: Mapping[str, object]) -> dict[str, object]:
    """Return the options with which a saved plan is applied: those about the execution alone.

    Options that determine the content of a plan, such as inputs, were used when it was made. Raise ``UsageError`` for
    one of them on the command line, where it would have no effect; its variable of the environment is ignored. Raise it
    also for a stack or project that is not the plan's.
    """
    context = click.get_current_context()
    planning = {*RUN_OPTIONS, "given", "input_files"}.difference(EXECUTION)
    for parameter in context.command.params:
        name, source = str(parameter.name), context.get_parameter_source(str(parameter.name))
        if name in planning and source is click.core.ParameterSource.COMMANDLINE:
            msg = f"{parameter.opts[0]} cannot be given with a saved plan, which does what it shows; plan again"
            raise UsageError(msg)
        value = settings.get(name) if source is not click.core.ParameterSource.DEFAULT else None
        if name in {"stack", "project"} and value and value != document.get(name):
            raise UsageError(f"{parameter.opts[0]} {value}: the plan is about the {name} '{document.get(name)}'")
    return {name: settings[name] for name in EXECUTION}
