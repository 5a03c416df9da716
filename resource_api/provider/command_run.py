"""One run of a program for a provider: its time limit, its log lines, its error messages.

Which programs are trusted, and which environment and arguments they get, is in ``program_checks``; how a program is
started, read and stopped in ``process``. ``command`` imports this module when the first program is
started.
"""

from __future__ import annotations

import os
import shlex
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, NoReturn

from resource_api.model.values.errors import CommandError
from resource_api.model.values.masking import Mask
from resource_api.model.values.text import quote_command
from resource_api.system.foreign_lines import LineSplitter, decode
from resource_api.system.process import identity, program_checks
from resource_api.system.process.process import STDOUT, Invocation, Process, describe_exit

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping

    from resource_api.model.values.values import Sensitive
    from resource_api.provider.context import Context

_MAX_STDOUT: Final = 64 * 1024 * 1024  # bytes of stdout that a call keeps
_TAIL: Final = 64 * 1024  # bytes of stderr that are kept, and of a line in the log
_MAX_LINE: Final = 16 * 1024 * 1024  # bytes of one line that lines() accepts
_MAX_SHOWN: Final = 8192  # characters of a command in messages


def invocation(
    name: str,
    arguments: tuple[object, ...],
    variables: Mapping[str, str],
    stdin: str | bytes | Sensitive[Any] | None,
    cwd: str | os.PathLike[str] | None,
    *,
    user: str | None,
) -> Invocation:
    """Return the arguments, environment and input of a run. Raise ``CommandError`` for values that are refused."""
    argv = tuple(program_checks.argument(name, value) for value in arguments)
    account = None if user is None else _account(name, user)
    environment = program_checks.environment(name, {**(account.variables if account else {}), **variables})
    directory, another = "/" if cwd is None else os.fspath(cwd), None if account is None or account.is_own else account
    content = program_checks.stdin(name, stdin)
    return Invocation("", argv, environment, cwd=directory, input=content, identity=another)


def _account(name: str, user: str) -> identity.Identity:
    """Return the account that a program is to run with. Raise ``CommandError`` if there is none."""
    try:
        return identity.find(user)
    except KeyError:
        msg = f"there is no user '{user}' to run it as"
        raise CommandError(msg, (name,)) from None


class ProgramRun:
    """One run of a program."""

    def __init__(
        self, name: str, seconds: float, context: Context | None, invocation: Invocation, level: str | None
    ) -> None:
        """Prepare a run of at most ``seconds`` from ``output`` on, in a call's ``context``; ``level``: of its lines."""
        self.argv = (name, *invocation.arguments)
        self._user = invocation.identity
        text = shlex.join(self.argv)
        self._mask = Mask() if context is None else context.mask
        self.shown = text if len(text) <= _MAX_SHOWN else f"{self._mask(text)[:_MAX_SHOWN]}..."
        #: The command line in messages, shortened and in quotes.
        self.quoted = quote_command(self.shown)
        self.context = context
        self.exit_code = 0
        self._started = 0.0
        self._stderr = b""
        self._stdout_level = level or "debug"
        self._stderr_level = level or (context.stderr_level if context is not None else "warning")
        #: Whether its lines are those of the open logging context, not only of the program.
        self._prefix = level not in {None, "debug"}
        self._seconds = seconds
        self._invocation = invocation

    def stdout(self) -> str:
        """Run the program to its end, log and return its stdout. Raise ``CommandError`` for more than 64 MiB."""
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
            self.fail(describe_exit(self.exit_code), self.exit_code)

    def output(self) -> Generator[bytes, None, None]:
        """Run the program and yield its stdout as it arrives; log stderr, keep its end. Raise ``CommandError``."""
        seconds_left = self._timer()
        self._started = time.monotonic()
        self.log("debug", [f"Executing {self.quoted}{self._as_user}"])
        lines = LineSplitter(self._mask)
        try:
            with self._start() as process:
                for stream, chunk in process.chunks(seconds_left):
                    if stream == STDOUT:
                        yield chunk
                    else:
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
        """The last 64 KiB of stderr, which do not begin within a secret."""
        text = decode(self._stderr)
        start = len(decode(self._stderr[:-_TAIL]))
        return text[self._mask.boundary(text, start) :] if start else text

    def _log_end(self) -> None:
        """Log how it ended."""
        success = f"Successfully executed {self.quoted}"
        text = f"{self.quoted} {describe_exit(self.exit_code)}" if self.exit_code else success
        self.log("debug", [text], exit_code=self.exit_code, seconds=round(time.monotonic() - self._started, 6))

    def log(self, level: str, messages: list[str], **fields: Any) -> None:
        """Log each message, if there is a context."""
        if self.context is not None:
            for message in messages:
                self.context.note(level, message, command=self.shown, **fields)

    def _log_output(self, level: str, lines: list[str]) -> None:
        """Log lines that it has printed; keep the last one that is not shown, for the display of the running call."""
        if self.context is not None and lines:
            self.context.last_printed = "" if self.context.enabled(level) else lines[-1]
            for line in lines:
                self.context.note(level, line, prefix=self._prefix, command=self.shown)

    def fail(self, failure: str, exit_code: int | None = None) -> NoReturn:
        """Raise ``CommandError`` with the ``failure`` of this program and the last lines of its stderr."""
        stderr = self.stderr
        masked = self._mask(stderr)
        last = "; ".join([line.strip() for line in masked.splitlines() if line.strip()][-5:])[-2000:]
        message = f"{self.quoted} {failure}: {last}" if last else f"{self.quoted} {failure}"
        raise CommandError(message, self.argv, exit_code, stderr) from None

    @property
    def _as_user(self) -> str:
        return f" as '{self._user.name}'" if self._user else ""

    def _start(self) -> Process:
        """Start the program. Raise ``CommandError`` if it cannot be started or the run is being stopped."""
        if self.context is not None and self.context.stopping and not self.context.reading:
            self.fail("was not started: the run is being stopped")
        directory = self._invocation.cwd
        if reason := program_checks.directory_error(directory):
            self.fail(f"was not started: directory '{directory}' {reason}")
        try:
            return Process(self._invocation._replace(path=self._locate()))
        except ChildProcessError:  # it was started, and has ended already
            raise
        except OSError as error:
            self._fail_to_start(error)

    def _locate(self) -> str:
        """Return the path of the program, which only root, the caller and the user that it runs as can change."""
        return program_checks.locate(self.argv[0], self._user.uid if self._user else 0)

    def _fail_to_start(self, error: OSError) -> NoReturn:
        """Raise ``CommandError`` with the reason why the program was not started; forget its path, which may be old."""
        program_checks.locate.cache_clear()
        if isinstance(error, FileNotFoundError):
            path = self._locate()  # raises if it is gone; otherwise its interpreter is missing
            self.fail(f"was not started: '{path}' names an interpreter that does not exist")
        self.fail(f"was not started{self._as_user}: {error.strerror}")

    def _timer(self) -> Callable[[], float]:
        """Return a function for the seconds left of its own or its resource's time; without any it raises an error."""
        context, seconds, limit = self.context, self._seconds, ""
        start = time.monotonic()
        if context is not None and context.deadline is not None and context.deadline - start < seconds:
            seconds, limit = max(0.0, context.deadline - start), ", all that was left of its resource's time"
        until = start + seconds

        def seconds_left() -> float:
            remaining = until - time.monotonic()
            if remaining <= 0:
                self.fail(f"timed out after {seconds:.4g} s{limit}")
            return remaining

        return seconds_left
