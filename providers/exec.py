"""Run commands: when they are due, as which user, in which directory, and with which exit codes as success."""

from __future__ import annotations

import os
import shlex
import time
from math import inf
from typing import TYPE_CHECKING, Any

from lib import command_lines, executed_code, prerequisites
from lib.imperative import ImperativeProvider
from lib.sensitive import refused_secrets
from resource_api import Command, CommandError, Problem, ResourceError, Sensitive, files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from resource_api import Change, CommandResult, Context

#: Words with a meaning for a shell; in a command without ``shell: true`` they are probably a mistake.
OPERATORS = frozenset(["|", "||", "&", "&&", ";", ">", ">>", "<", "2>", "2>&1"])

#: The lines of stderr that the reason of a failure contains.
TAIL = 5


class Provider(ImperativeProvider):
    """The commands of one transaction."""

    unlisted = "the effects of commands cannot be read"

    def __init__(self) -> None:
        """Start without a declared command: ``due`` keeps each one for ``refresh``, which gets only names."""
        self._declared: dict[str, Mapping[str, Any]] = {}

    def validate(self, _context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Refuse secrets that other users could see, and texts that cannot be split; warn of shell operators."""
        yield from refused_secrets(should, "input", advice="; pass it by 'input'")
        for attribute in ("command", "onlyif", "unless"):
            for command in _commands(should, attribute):
                if isinstance(command, str) and not should["shell"]:
                    yield from _text_problems(attribute, command)

    def due(self, _context: Context, name: str, should: Mapping[str, Any]) -> bool | tuple[bool, str]:
        """Return whether all guards allow the command, and the reason. With ``refreshonly`` a command is never due.

        Raise ``CommandError`` if other users can change its code, so that a plan shows the refusal too.
        """
        self._declared[name] = should
        allowed = not should["refreshonly"] and _allowed(should)
        argv = _argv(*_commands(should, "command"), shell=should["shell"]) if allowed else ()
        if argv:  # an empty command has no code to check
            program = os.path.join(should.get("cwd") or "/", argv[0]) if "/" in argv[0] else argv[0]  # noqa: PTH118 - text
            _check(Command(program), argv, should)
        return allowed

    def preflight(self, _context: Context, changes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Problem]]:
        """Yield the missing prerequisites of a command: its user, its directory, its program."""
        for name, should in changes.items():
            missing = [
                *prerequisites.missing_user("user", should.get("user")),
                *prerequisites.missing_directory("cwd", should.get("cwd")),
                *_missing_program(should),
            ]
            yield from ((name, problem) for problem in missing)

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Run each command that is due, and report its last failure."""
        for name, (_, should) in changes.items():
            with context.updating(name, message="Executing"):
                _execute(context, should)
                context.updated(name, message="Executed successfully")

    def refresh(self, context: Context, names: Sequence[str]) -> None:
        """Run the notified commands whose guards allow it; these are evaluated now, after the changes that notify."""
        for name in names:
            with context.updating(name, message="Executing"):
                if _allowed(self._declared[name]):
                    _execute(context, self._declared[name])
                    context.updated(name, message="Executed successfully")
                else:
                    context.unchanged(name)


def _commands(should: Mapping[str, Any], attribute: str) -> Sequence[Any]:
    """Return the commands in an attribute, each a text or a list of words.

    Without the attribute ``command``, the name is the command; a missing guard has none.
    """
    value = should.get(attribute)
    if attribute == "command":
        return [should["name"] if value is None else value]
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _text_problems(attribute: str, command: str) -> Iterator[Problem]:
    """Yield the problems of a command in one text, and a warning for a shell's operator, as no shell runs it."""
    if wrong := list(command_lines.problems(attribute, command)):
        yield from wrong
    elif operators := sorted(OPERATORS.intersection(shlex.split(command))):
        message = f"passes '{operators[0]}' to the program, as no shell runs it; did you mean 'shell: true'?"
        yield Problem(attribute, message, "warning")


def _allowed(should: Mapping[str, Any]) -> tuple[bool, str] | bool:
    """Return whether `creates`, `onlyif` and `unless` allow a command to run, and if so the reason, for the plan."""
    paths = should.get("creates") or []
    reasons = []
    for path in [paths] if isinstance(paths, str) else paths:
        if os.path.exists(path):  # noqa: PTH110 - text in, text out
            return False
        reasons.append(f"'{path}' does not exist")
    for attribute, expected in (("onlyif", True), ("unless", False)):
        for command in _commands(should, attribute):
            argv = _argv(command, shell=should["shell"])
            succeeded = _run(argv, should).exit_code == 0
            if succeeded is not expected:
                return False
            reasons.append(f"{command_lines.quoted(argv)} {'succeeds' if succeeded else 'fails'}")
    return (True, ", ".join(reasons)) if reasons else True


def _execute(context: Context, should: Mapping[str, Any]) -> None:
    """Run a command until it succeeds, at most ``tries`` times. Raise the last ``CommandError``."""
    argv = _argv(*_commands(should, "command"), shell=should["shell"])
    returns = should["returns"] if isinstance(should["returns"], list) else [should["returns"]]
    log = "notice" if should["logoutput"] == "always" else "debug"
    for remaining in reversed(range(should["tries"])):
        result = _run(argv, should, context.deadline, should.get("input"), log)
        if result.exit_code in returns:
            return
        if should["logoutput"] == "on_failure" and not context.enabled(log):
            # Without the last lines of stderr, which the message of the failure contains.
            for line in [*result.stdout.splitlines(), *_lines(result.stderr)[:-TAIL]]:
                context.notice(line)
        failure = _failure(argv, returns, result)
        if not remaining:
            raise failure
        context.info(f"{failure}; {remaining} more tries")
        _sleep(context, should["try_sleep"])


def _run(
    argv: Sequence[str],
    should: Mapping[str, Any],
    deadline: float | None = None,
    text: Sensitive[str] | None = None,
    log: str = "debug",
) -> CommandResult:
    """Run a program as declared, with ``text`` as its input, and log its output.

    It may run until the ``deadline`` of its resource, or without one, as a guard, for 300 s.
    """
    variables = _variables(should)
    program = _locate(argv[0], _search_path(should), should.get("cwd"))
    command = Command(program, timeout=300.0 if deadline is None else inf)
    _check(command, argv, should)
    user = should.get("user") or None
    return command.attempt(*argv[1:], env=variables, cwd=should.get("cwd"), input=text, user=user, log=log)


def _check(command: Command, argv: Sequence[str], should: Mapping[str, Any]) -> None:
    """Raise ``CommandError`` if other users could change the code that a command executes with our rights."""
    executed_code.check(command, argv, should.get("cwd"), _variables(should), should.get("user") or None)


def _variables(should: Mapping[str, Any]) -> dict[str, str]:
    """Return the declared environment of a command with ``PATH``, for its run and for the check of its code."""
    path, environment = _search_path(should), should.get("environment") or {}
    pairs = environment.items() if isinstance(environment, dict) else (entry.split("=", 1) for entry in environment)
    return {**({} if path is None else {"PATH": path}), **dict(pairs)}


def _search_path(should: Mapping[str, Any]) -> str | None:
    """Return the declared search path of a command as the text of a variable, or None for the default."""
    path = should.get("path") or None
    return ":".join(path) if isinstance(path, list) else path


def _locate(program: str, path: str | None, cwd: str | None) -> str:
    """Return the full path of a program in the declared search path, or relative to ``cwd``, to check and run it.

    A bare name without a declared path stays: ``Command`` finds it in the default path.
    """
    if "/" in program:
        return files.canonical_path(os.path.join(cwd or "/", program))  # noqa: PTH118 - text in, text out
    if path is None:
        return program
    for directory in path.split(":"):
        candidate = os.path.join(directory, program)  # noqa: PTH118 - the same
        if os.access(candidate, os.X_OK) and not os.path.isdir(candidate):  # noqa: PTH112 - the same
            return candidate
    raise ResourceError(f"command '{program}' not found in {path}")


def _missing_program(should: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield a problem if the program of a command does not exist, so that a plan shows it before the change."""
    command = _commands(should, "command")[0]
    # A plan may not know yet how the command is run.
    if "shell" not in should or not (argv := _argv(command, shell=should["shell"])):
        return
    attribute = None if should.get("command") is None else "command"
    try:
        program = _locate(argv[0], _search_path(should), should.get("cwd"))
    except ResourceError as error:
        yield Problem(attribute, str(error))
    else:
        yield from prerequisites.missing_program(attribute, program)


def _argv(command: str | list[str], *, shell: bool) -> list[str]:
    """Return the words of a command: a list as it is, a text split into words, or with ``shell`` a shell's call."""
    if isinstance(command, list):
        return command
    return ["/bin/sh", "-c", command] if shell else shlex.split(command)


def _failure(argv: Sequence[str], returns: Sequence[int], result: CommandResult) -> CommandError:
    """Return the error for an exit code that was not expected, with the last lines of standard error."""
    code = result.exit_code
    outcome = f"returned {code}" if code >= 0 else f"was killed by signal {-code}"
    last = "; ".join(line.strip() for line in _lines(result.stderr)[-TAIL:])
    expected = " or ".join(map(str, returns))
    message = f"{command_lines.quoted(argv)} {outcome} instead of {expected}{last and ': '}{last}"
    return CommandError(message, argv, code, result.stderr)


def _lines(text: str) -> list[str]:
    """Return the lines of a text that are not empty."""
    return [line for line in text.splitlines() if line.strip()]


def _sleep(context: Context, seconds: float) -> None:
    """Wait between two tries, but not beyond the time limit of the resource, or after the run is cancelled."""
    until = min(time.monotonic() + seconds, inf if context.deadline is None else context.deadline)
    while not context.cancelled and (remaining := until - time.monotonic()) > 0:
        time.sleep(min(remaining, 0.1))
