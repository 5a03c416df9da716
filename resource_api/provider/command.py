"""Programs that providers run: ``gpg = Command("gpg")`` in the class body, ``self.gpg(...)`` in a method.

The context of the provider's call decides whether a program is skipped, and how long it may take. How a program is run
is in ``command_run``, which most runs need not import.
"""

from __future__ import annotations

import copy
import sys
from typing import TYPE_CHECKING

from resource_api.model.values.errors import PLUGIN_FILE, CommandError
from resource_api.model.values.start_up import NamedTuple
from resource_api.provider.context import calling_context, current
from resource_api.system.process import identity, program_checks

if TYPE_CHECKING:
    import os
    from collections.abc import Generator, Iterator, Mapping, Sequence
    from types import FrameType
    from typing import Any, Self, TypedDict, Unpack

    from resource_api.model.values.values import Sensitive
    from resource_api.provider.command_run import ProgramRun
    from resource_api.provider.context import Context

    Argument = str | int | os.PathLike[str] | os.PathLike[bytes]

    class CallOptions(TypedDict, total=False):
        """Options of one call: variables, text for stdin, a limit in seconds, another directory, a user, a log level.

        ``log`` is the level at which the lines of stdout and of stderr are logged as they arrive, with the message of
        the open logging context unless it is debug; by default stdout is debug and stderr a warning.

        The program of a ``user`` runs with all that user's groups and variables, and without capabilities. Nothing
        that is meant for it, ``env`` included, reaches a program with other rights.
        """

        env: Mapping[str, str] | None
        input: str | bytes | Sensitive[Any] | None
        timeout: float | None
        cwd: str | os.PathLike[str] | None
        user: str | None
        log: str | None


class CommandResult(NamedTuple):
    """The exit code of a program (negative after a signal), its stdout, and the last 64 KiB of its stderr."""

    exit_code: int
    stdout: str
    stderr: str


def _no_attribute(_result: CommandResult, name: str) -> Any:
    """Raise ``AttributeError``: elsewhere a program that is run returns its output as text."""
    hint = f"; write .stdout.{name}" if hasattr(str, name) else ""
    msg = f"a result has exit_code, stdout and stderr, and no '{name}'{hint}"
    raise AttributeError(msg)


def _no_member(_result: CommandResult, _part: object) -> bool:
    """Raise ``TypeError``: whether something is one of the fields is never meant."""
    msg = "a result is no text: search its .stdout"
    raise TypeError(msg)


if not TYPE_CHECKING:  # a type checker is to find these mistakes itself
    CommandResult.__getattr__ = _no_attribute
    CommandResult.__contains__ = _no_member


class Command:
    r"""A program that a provider runs, without a shell, terminal or inherited environment, for a limited time.

    >>> from resource_api import Command
    >>> printf = Command("printf", read_only=True)
    >>> printf("one\n").stdout
    'one\n'
    >>> list(printf.lines("one\ntwo\n"))
    ['one', 'two']
    >>> Command("false").attempt().exit_code
    1
    >>> Command("false")()
    Traceback (most recent call last):
    resource_api.model.values.errors.CommandError: 'false' returned 1

    ``program`` is a full path, or a name that is searched on ``program_checks.SECURE_PATH`` at its first use. One that
    is ``read_only`` runs with noop as well. ``timeout`` is in seconds. Every failure is a ``CommandError``.
    """

    def __init__(
        self, program: str, *, read_only: bool = False, timeout: float = 300.0, env: Mapping[str, str] | None = None
    ) -> None:
        """Describe the program; it is not searched yet."""
        self.program = program
        self.read_only = read_only
        self.timeout = timeout
        self.env = dict(env or {})
        self.provider: object = None

    def __get__(self, instance: object, owner: type | None = None) -> Self:
        """Return a copy bound to the provider for ``self.gpg``, so that noop holds in the provider's threads too."""
        bound = copy.copy(self)
        bound.provider = instance
        return bound

    def __call__(self, *arguments: Argument, **options: Unpack[CallOptions]) -> CommandResult:
        """Run the program and return its output. Raise ``CommandError`` for any exit code but 0."""
        run = self._prepare(arguments, **options)
        result = self._result(run)
        run.check()
        return result

    def attempt(self, *arguments: Argument, **options: Unpack[CallOptions]) -> CommandResult:
        """Run the program and return its result with any exit code. Raise ``CommandError`` if it cannot end."""
        return self._result(self._prepare(arguments, **options))

    def locate(self) -> str:
        """Return the full path of the program, and run nothing.

        Raise ``CommandError`` for one that is missing, not executable, or that another user could change.
        """
        return program_checks.locate(self.program)

    def check_code(self, *paths: str, places: Sequence[str] = (), user: str | None = None) -> None:
        """Raise ``CommandError`` if other users can change files or trees with code that the program executes.

        Such are the hooks of a repository for git, and the packages of an environment for its Python; ``places`` are
        directories to which other users must not be able to add files. A program of another ``user`` executes them with
        that user's rights, and nothing is checked; nor is anything beneath a ``--trust-path``.
        """
        if user is None or identity.is_own(user):
            context = self._context
            trusted = () if context is None else context.trusted_directories
            program_checks.check_code(self.program, paths, places, trusted)

    def lines(self, *arguments: Argument, **options: Unpack[CallOptions]) -> Generator[str, None, None]:
        """Yield stdout by line, without line ends, in constant memory; the program starts with the first line.

        Raise ``CommandError`` at the end for any exit code but 0, and for a line over 16 MiB.
        Closing the iterator early stops the program. One that is discarded before its first line has run nothing:
        that is an error of the resources whose logging context is open, otherwise of the provider's call.
        """
        run = self._prepare(arguments, **options)
        lines = iter(()) if self._skip(run) else run.lines()
        if run.context is None:
            return _started(lines, None)
        return _started(lines, _Discarded(run, run.context, _place(sys._getframe(1))))  # noqa: SLF001 - the documented way to the caller's line

    @property
    def _context(self) -> Context | None:
        """The context of the provider's present call; None outside of any."""
        return calling_context(self.provider) if self.provider is not None else current.get()

    def _result(self, run: ProgramRun) -> CommandResult:
        """Run the program to its end and return its result; an empty one if it is skipped."""
        if self._skip(run):
            return CommandResult(0, "", "")
        stdout = run.stdout()
        return CommandResult(run.exit_code, stdout, run.stderr)

    def _skip(self, run: ProgramRun) -> bool:
        """Return whether the program is not run because of noop, and log it."""
        context = run.context
        if context is None or not context.noop or context.reading or self.read_only:
            return False
        run.log("notice", [f"Skipping {run.quoted} (noop)"])
        return True

    def _prepare(
        self,
        arguments: tuple[object, ...],
        *,
        env: Mapping[str, str] | None = None,
        input: str | bytes | Sensitive[Any] | None = None,  # noqa: A002 - the name for authors
        timeout: float | None = None,
        cwd: str | os.PathLike[str] | None = None,
        user: str | None = None,
        log: str | None = None,
    ) -> ProgramRun:
        """Return a run of the program, not started; mask its secret input. Raise ``CommandError`` for bad arguments."""
        from resource_api.provider.command_run import ProgramRun, invocation

        invoked = invocation(self.program, arguments, {**self.env, **(env or {})}, input, cwd, user=user)
        context = self._context
        if self.read_only or (context is not None and context.reading):
            invoked = invoked._replace(reading=True)
        if context is not None:
            context.conceal(input)
        seconds = self.timeout if timeout is None else timeout
        return ProgramRun(self.program, seconds, context, invoked, log)


class _Discarded:
    """Belongs to an iterator of ``lines``; goes with it, and reports to its context if nothing was iterated."""

    def __init__(self, run: ProgramRun, context: Context, place: str) -> None:
        self.started = False
        self._run, self._context, self._place = run, context, place

    def __del__(self) -> None:
        """Report a program that was not run: the call, or the open logging context, fails for it when it ends."""
        if not self.started:
            text = f"{self._run.quoted} was not run: nothing iterates over what lines() returned ({self._place})"
            self._context.mistakes.append(CommandError(text, self._run.argv))


def _started(lines: Iterator[str], discarded: _Discarded | None) -> Generator[str, None, None]:
    """Yield ``lines``, and note that this has begun: nothing of a generator runs before its first item is requested."""
    if discarded is not None:
        discarded.started = True
    yield from lines


def _place(frame: FrameType) -> str:
    """Return the line that is executed: ``providers/dns.py:41 in get``."""
    code = frame.f_code
    return f"{frame.f_globals.get(PLUGIN_FILE, code.co_filename)}:{frame.f_lineno} in {code.co_name}"
