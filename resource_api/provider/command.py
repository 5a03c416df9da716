"""Programs that providers run: ``gpg = Command("gpg")`` in the class body, ``self.gpg(...)`` in a method.

By the context of the provider's call a program is skipped or has a time limit. ``program_checks`` has the trusted
programs, their environment and arguments; ``process``, loaded with the first program, starts, reads and stops it.
"""

from __future__ import annotations

import copy
import os
import shlex
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, NoReturn

from resource_api.model.values.errors import PLUGIN_FILE, CommandError
from resource_api.model.values.masking import Mask
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.text import filled_lines, quote_command
from resource_api.provider.context import calling_context, current
from resource_api.system.log import LineSplitter, decode
from resource_api.system.process import child, program_checks
from resource_api.system.process import process as processes

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
    from types import FrameType
    from typing import Self, TypedDict, Unpack

    from resource_api.model.values.values import Sensitive
    from resource_api.provider.context import Context
    from resource_api.system.process.process import Invocation, Process

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


_MAX_STDOUT: Final = 64 * 1024 * 1024  # bytes of stdout that a call keeps
_TAIL: Final = 64 * 1024  # bytes of stderr that are kept, and of a line in the log
_MAX_LINE: Final = 16 * 1024 * 1024  # bytes of one line that lines() accepts
_LONGEST: Final = 8192  # characters of a command in messages


class CommandResult(NamedTuple):
    """The exit code of a program (negative after a signal), its stdout, and the last 64 KiB of its stderr."""

    exit_code: int
    stdout: str
    stderr: str


def _no_attribute(_result: CommandResult, name: str) -> Any:
    """Raise ``AttributeError``: elsewhere a program that is run returns its output as text."""
    hint = f"; write .stdout.{name}" if hasattr(str, name) else ""
    raise AttributeError(f"a result has exit_code, stdout and stderr, and no '{name}'{hint}")


def _no_member(_result: CommandResult, _part: object) -> bool:
    """Raise ``TypeError``: whether something is one of the fields is never meant."""
    raise TypeError("a result is no text: search its .stdout")


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
    is ``read_only`` runs with noop as well. ``timeout`` is in seconds, ``env`` holds variables by name.
    Every failure is a ``CommandError``.
    """

    def __init__(
        self, program: str, *, read_only: bool = False, timeout: float = 300.0, env: Mapping[str, str] | None = None
    ) -> None:
        """Describe the program, located at its first use: an earlier resource may install it. Raise ``TypeError``."""
        if not isinstance(program, str):
            raise TypeError(f"a program is text such as 'git', not {program!r:.80}")
        self.program = program
        self.read_only = read_only
        self.timeout = timeout
        self.env = dict(env or {})
        self.provider: object = None

    def __get__(self, instance: object, owner: type | None = None) -> Self:
        """Return a copy bound to the provider for ``self.gpg``.

        A thread that the provider has started has no current context: there the copy finds the context of the
        provider's call, which contains the noop mode and the log.
        """
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
        """Return the full path of the program without running it, for a provider that passes the path on.

        Raise ``CommandError`` for one that is missing, not executable, or that another user could change.
        """
        return program_checks.locate(self.program)

    def check_code(self, *paths: str, places: Sequence[str] = (), user: str | None = None) -> None:
        """Raise ``CommandError`` if other users can change files or trees with code that the program executes.

        Examples are the hooks of a repository for git, and the packages of an environment for its Python; ``places``
        are directories to which other users must not be able to add files. Nothing is checked for a program that runs
        as another ``user``, because the code gets only that user's rights; nor beneath a ``--trust-path``.
        """
        if user is None or child.is_own_user(user):
            context = self._context
            trusted = () if context is None else context.trusted_directories
            program_checks.check_code(self.program, paths, places, trusted)

    def lines(self, *arguments: Argument, **options: Unpack[CallOptions]) -> Generator[str, None, None]:
        """Yield stdout by line, without line ends, in constant memory; the program starts with the first line.

        Raise ``CommandError`` at the end for any exit code but 0, and for a line over 16 MiB.
        Closing the iterator early stops the program. A discarded iterator from which no line was requested has not run
        the program: the resources of the open logging context then fail, or without one the provider's call.
        """
        run = self._prepare(arguments, **options)
        lines = iter(()) if self._skip(run) else run.lines()
        if run.context is None:
            return _started(lines, None)
        return _started(lines, _Discarded(run, run.context, _source_line(sys._getframe(1))))  # noqa: SLF001 - the documented way to the caller's line

    @property
    def _context(self) -> Context | None:
        """The context of the provider's present call; None outside of any."""
        return calling_context(self.provider) if self.provider is not None else current.get()

    def _result(self, run: ProgramRun) -> CommandResult:
        """Run the program to its end and return its result.

        If noop skips the program, the result is exit code 0 without output, so that the provider goes on.
        """
        if self._skip(run):
            return CommandResult(0, "", "")
        stdout = run.stdout()
        return CommandResult(run.exit_code, stdout, run.stderr)

    def _skip(self, run: ProgramRun) -> bool:
        """Return whether noop forbids to run the program, and log then that it is skipped.

        Programs that only read are run nevertheless: ``read_only`` ones, and all in a call that only reads.
        """
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
        """Return a run of the program, not started; mask its secret input. Raise ``CommandError`` for bad arguments.

        The options are those of ``CallOptions``, and take precedence over the program's own ``env`` and ``timeout``.
        """
        invoked = _invocation(self.program, arguments, {**self.env, **(env or {})}, input, cwd, user=user)
        context = self._context
        if self.read_only or (context is not None and context.reading):
            # A program that only reads is started in a quicker way.
            invoked = invoked._replace(reading=True)
        if context is not None:
            context.conceal(input)
        seconds = self.timeout if timeout is None else timeout
        if not isinstance(seconds, (int, float)):
            raise program_checks.refused(self.program, f"cannot be given the timeout {seconds!r:.80}; it takes seconds")
        return ProgramRun(self.program, seconds, context, invoked, log)


class _Discarded:
    """Belongs to an iterator of ``lines``; goes with it, and reports to its context if nothing was iterated."""

    def __init__(self, run: ProgramRun, context: Context, source_line: str) -> None:
        """Report to ``context`` that ``run`` was never started, with the ``source_line`` that made its iterator."""
        self.started = False
        self._run, self._context, self._source_line = run, context, source_line

    def __del__(self) -> None:
        """Report a call of ``lines`` whose iterator was never used, so that the program did not run.

        The author's mistake is added to the context, by which the provider's call fails: an exception in ``__del__``
        would be ignored by Python.
        """
        if not self.started:
            text = f"{self._run.quoted} was not run: nothing iterates over what lines() returned ({self._source_line})"
            self._context.mistakes.append(CommandError(text, self._run.argv))


def _started(lines: Iterator[str], discarded: _Discarded | None) -> Generator[str, None, None]:
    """Yield ``lines``, and first mark ``discarded`` as started: its program does run.

    The mark is set in a generator, as its body runs only when the first line is requested.
    """
    if discarded is not None:
        discarded.started = True
    yield from lines


def _source_line(frame: FrameType) -> str:
    """Return the line that is executed: ``providers/dns.py:41 in get``."""
    code = frame.f_code
    return f"{frame.f_globals.get(PLUGIN_FILE, code.co_filename)}:{frame.f_lineno} in {code.co_name}"


def _invocation(
    name: str,
    arguments: tuple[object, ...],
    variables: Mapping[str, str],
    stdin: str | bytes | Sensitive[Any] | None,
    cwd: str | os.PathLike[str] | None,
    *,
    user: str | None,
) -> Invocation:
    """Return the invocation of a run; ``variables`` override the user's. Raise ``CommandError`` for wrong values.

    ``name``: the program, for messages. The invocation has no path yet, as the program is located when it is started;
    and it has an identity only if ``user`` is not the user of this process.
    """
    argv = tuple(program_checks.argument(name, value) for value in arguments)
    account = None if user is None else _account(name, user)
    environment = program_checks.environment(name, {**(account.variables if account else {}), **variables})
    directory = "/" if cwd is None else os.fspath(cwd)
    identity = None if account is None or account.is_own else account
    content = program_checks.stdin(name, stdin)
    return processes.Invocation("", argv, environment, cwd=directory, input=content, identity=identity)


def _account(name: str, user: str) -> child.Identity:
    """Return the account of ``user``, to run the program ``name``. Raise ``CommandError`` if there is none."""
    try:
        return child.find_identity(user)
    except (KeyError, ValueError):  # the latter for a character that no name has, such as NUL
        raise CommandError(f"there is no user '{user}' to run it as", (name,)) from None


class ProgramRun:
    """One run of a program: its output, its log lines and its errors; ``Command`` makes a new one for each call."""

    def __init__(
        self, name: str, seconds: float, context: Context | None, invocation: Invocation, level: str | None
    ) -> None:
        """Prepare a run that ``output`` starts, in the ``context`` of a provider's call, or None outside of one.

        ``seconds``: its time limit. ``level``: the log level of its output; None: the default of each stream.
        """
        self.argv = (name, *invocation.arguments)
        self._user = invocation.identity
        text = shlex.join(self.argv)
        self._mask = Mask() if context is None else context.mask
        self.command_line = text if len(text) <= _LONGEST else f"{self._mask(text)[:_LONGEST]}..."
        #: The command line in messages, shortened and in quotes.
        self.quoted = quote_command(self.command_line)
        self.context = context
        self.exit_code = 0
        self._started = 0.0
        self._stderr = b""
        self._stdout_level = level or "debug"
        self._stderr_level = level or (context.stderr_level if context is not None else "warning")
        #: Whether the message of the open logging context is put before its lines: the user sees them at this level.
        self._prefix = level not in {None, "debug"}
        self._seconds = seconds
        self._invocation = invocation

    def stdout(self) -> str:
        """Run the program to its end, log its stdout by lines, and return it.

        Raise ``CommandError`` above 64 MiB, as the output is in memory.
        """
        chunks, size, logged = [], 0, LineSplitter(self._mask)
        with closing(self.output()) as output:
            for stdout in output:
                chunks.append(stdout)
                size += len(stdout)
                if size > _MAX_STDOUT:
                    self.fail(f"wrote more than {_MAX_STDOUT >> 20} MiB; read it with lines()")
                self._log_output(self._stdout_level, logged.feed(stdout, _TAIL))
        self._log_output(self._stdout_level, logged.rest())
        self._log_end()
        return decode(b"".join(chunks))

    def lines(self) -> Iterator[str]:
        """Run the program and yield its stdout by line. Raise ``CommandError`` at the end as ``check`` does."""
        splitter = LineSplitter()
        with closing(self.output()) as output:
            for stdout in output:
                yield from splitter.feed(stdout)
                if splitter.size > _MAX_LINE:
                    self.fail(f"wrote a line of more than {_MAX_LINE >> 20} MiB")
        yield from splitter.rest()
        self._log_end()
        self.check()

    def check(self) -> None:
        """Raise ``CommandError`` for any exit code but 0."""
        if self.exit_code:
            self.fail(processes.describe_exit(self.exit_code), self.exit_code)

    def output(self) -> Generator[bytes, None, None]:
        """Run the program and yield its stdout as it arrives; log its stderr, and keep the end of it for errors.

        Raise ``CommandError`` if it cannot be started, takes too long, or is stopped.
        """
        seconds_left = self._timer()
        self._started = time.monotonic()
        self.log("debug", [f"Executing {self.quoted}{self._as_user}"])
        lines = LineSplitter(self._mask)
        try:
            with self._start() as process:
                for stream, chunk in process.chunks(seconds_left):
                    if stream == processes.STDOUT:
                        yield chunk
                    else:
                        # Longer than the tail by one secret, for the search in ``stderr`` for a secret at the cut.
                        self._stderr = (self._stderr + chunk)[-_TAIL - self._mask.longest :]
                        self._log_output(self._stderr_level, lines.feed(chunk, _TAIL))
        except ChildProcessError:
            self.fail("has ended, but something else in this process took its exit code")
        finally:
            self._log_output(self._stderr_level, lines.rest())
        if process.stopped:
            self.fail("was stopped")
        if process.failure is not None:
            self._fail_to_start(process.failure)
        self.exit_code = process.exit_code or 0

    @property
    def stderr(self) -> str:
        """The last 64 KiB of stderr for errors, cut so that the text does not begin within a secret.

        The rest of such a secret could not be recognized and masked.
        """
        text = decode(self._stderr)
        start = len(decode(self._stderr[:-_TAIL]))
        return text[self._mask.boundary(text, start) :] if start else text

    def _log_end(self) -> None:
        """Log the end of the program with its exit code and duration, at debug."""
        success = f"Successfully executed {self.quoted}"
        text = f"{self.quoted} {processes.describe_exit(self.exit_code)}" if self.exit_code else success
        self.log("debug", [text], exit_code=self.exit_code, seconds=round(time.monotonic() - self._started, 6))

    def log(self, level: str, messages: list[str], **fields: Any) -> None:
        """Log each message with the command line as a field; nothing outside of a provider's call (no context)."""
        if self.context is not None:
            for message in messages:
                self.context.note(level, message, command=self.command_line, **fields)

    def _log_output(self, level: str, lines: list[str]) -> None:
        """Log lines of the program's output.

        If the log level hides them, the last one is stored for the progress display, where it shows that work goes on.
        """
        if self.context is not None and lines:
            self.context.last_printed = "" if self.context.enabled(level) else lines[-1]
            for line in lines:
                self.context.note(level, line, prefix=self._prefix, command=self.command_line)

    def fail(self, failure: str, exit_code: int | None = None) -> NoReturn:
        """Raise ``CommandError`` with the ``failure`` of this program and the last lines of its stderr, its reason."""
        stderr = self.stderr
        masked = self._mask(stderr)
        last = "; ".join(filled_lines(masked)[-5:])[-2000:]
        message = f"{self.quoted} {failure}: {last}" if last else f"{self.quoted} {failure}"
        raise CommandError(message, self.argv, exit_code, stderr) from None

    @property
    def _as_user(self) -> str:
        return f" as '{self._user.name}'" if self._user else ""

    def _start(self) -> Process:
        """Start the program, unless it may change something while the run is being stopped. Raise ``CommandError``."""
        if self.context is not None and self.context.stopping and not self.context.reading:
            self.fail("was not started: the run is being stopped")
        directory = self._invocation.cwd
        if reason := program_checks.directory_error(directory):
            self.fail(f"was not started: directory '{directory}' {reason}")
        try:
            return processes.Process(self._invocation._replace(path=self._locate()))
        except ChildProcessError:  # it was started, and has ended already
            raise
        except OSError as error:
            self._fail_to_start(error)

    def _locate(self) -> str:
        """Return the path of the program, which only root, the caller and the user that it runs as can change."""
        return program_checks.locate(self.argv[0], self._user.uid if self._user else 0)

    def _fail_to_start(self, error: OSError) -> NoReturn:
        """Raise ``CommandError`` with the reason why the program was not started.

        The cached paths of programs are cleared, since the program may have been moved.
        """
        program_checks.locate.cache_clear()
        if isinstance(error, FileNotFoundError):
            path = self._locate()  # raises if it is gone; otherwise its interpreter is missing
            self.fail(f"was not started: '{path}' names an interpreter that does not exist")
        self.fail(f"was not started{self._as_user}: {error.strerror}")

    def _timer(self) -> Callable[[], float]:
        """Return a function that returns the seconds left to the program, or raises ``CommandError`` if none are left.

        The time limit of the resource also limits its programs, if it ends earlier.
        """
        context, seconds, limit = self.context, self._seconds, ""
        start = time.monotonic()
        if context is not None and context.deadline is not None and context.deadline - start < seconds:
            seconds, limit = max(0.0, context.deadline - start), ", all that was left of its resource's time"
        until = start + seconds

        def seconds_left() -> float:
            """Return the seconds left; raise ``CommandError`` when there are none."""
            remaining = until - time.monotonic()
            if remaining <= 0:
                self.fail(f"timed out after {seconds:.4g} s{limit}")
            return remaining

        return seconds_left
