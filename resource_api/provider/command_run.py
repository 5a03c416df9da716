"""One run of a program for a provider: its time, its log lines, its words for what went wrong.

Which program is trusted and what it is given is ``program``'s; how it is started, read and stopped, ``process``'s.
Apart from ``command``, since most runs start no program, and those that do load all of these.
"""

from __future__ import annotations

import os
import shlex
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, NoReturn

from resource_api.model.values.errors import CommandError
from resource_api.system.process import trusted_path as program
from resource_api.system.process.line_splitter import LineSplitter, decode
from resource_api.system.process.process import STDOUT, Invocation, Process, describe_exit

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping

    from resource_api.model.values.values import Sensitive
    from resource_api.provider.context import Context

_KEPT: Final = 64 * 1024 * 1024  # bytes of stdout that a call keeps
_TAIL: Final = 64 * 1024  # bytes of stderr that are kept, and of a line in the log
_LINE: Final = 16 * 1024 * 1024  # bytes of one line that lines() accepts
_SHOWN: Final = 8192  # characters of a command in messages


def asked(
    name: str,
    arguments: tuple[Any, ...],
    variables: Mapping[str, str],
    given: str | bytes | Sensitive[Any] | None,
    cwd: str | os.PathLike[str] | None,
) -> Invocation:
    """Give what a program is to be run with; raises ``CommandError`` for what it must not be given."""
    argv = tuple(program.argument(name, value) for value in arguments)
    environment = program.environment(name, variables)
    return Invocation("", argv, environment, "/" if cwd is None else os.fspath(cwd), program.stdin(name, given))


class Call:
    """One run of a program: its time, its log lines, its words for what went wrong."""

    def __init__(self, name: str, seconds: float, context: Context | None, invocation: Invocation) -> None:
        """Prepare; the clock starts with ``output``."""
        self.argv = (name, *invocation.arguments)
        shown = shlex.join(self.argv)
        self.shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
        self.context = context
        self.exit_code = 0
        self.stderr = b""
        self._stderr_level = context.stderr_level if context is not None else "warning"
        self._seconds = seconds
        self._invocation = invocation

    def whole(self) -> str:
        """Run the program to its end and give its stdout."""
        kept, size, spoken = [], 0, LineSplitter()
        with closing(self.output()) as output:
            for stdout in output:
                kept.append(stdout)
                size += len(stdout)
                if size > _KEPT:
                    self.fail(f"said more than {_KEPT >> 20} MiB; read it with lines()")
                self.log("debug", spoken.feed(stdout, _TAIL))
        self.log("debug", spoken.rest())
        self.conclude()
        return decode(b"".join(kept))

    def lines(self) -> Iterator[str]:
        """Run the program and yield its stdout by line; raises ``CommandError`` at the end as ``check`` does."""
        whole = LineSplitter()
        with closing(self.output()) as output:
            for stdout in output:
                yield from whole.feed(stdout)
                if whole.size > _LINE:
                    self.fail(f"wrote a line of more than {_LINE >> 20} MiB")
        yield from whole.rest()
        self.conclude()
        self.check()

    def check(self) -> None:
        """Raise ``CommandError`` for any exit code but 0."""
        if self.exit_code:
            self.fail(describe_exit(self.exit_code), self.exit_code)

    def output(self) -> Generator[bytes, None, None]:
        """Run the program and yield its stdout as it arrives; stderr is logged, its end kept."""
        patience = self._clock()
        self.log("debug", [f"Executing '{self.shown}'"])
        lines = LineSplitter()
        try:
            with self._start() as process:
                for stream, chunk in process.chunks(patience):
                    if stream == STDOUT:
                        yield chunk
                    else:
                        self.stderr = (self.stderr + chunk)[-_TAIL:]
                        self.log(self._stderr_level, lines.feed(chunk, _TAIL))
        except ChildProcessError:
            self.fail("has ended, but something else in this process took its exit code")
        finally:
            self.log(self._stderr_level, lines.rest())
        if process.stopped:
            self.fail("was stopped")
        self.exit_code = process.exit_code or 0

    def conclude(self) -> None:
        """Log how it ended."""
        done = f"Successfully executed '{self.shown}'"
        self.log("debug", [f"'{self.shown}' {describe_exit(self.exit_code)}" if self.exit_code else done])

    def log(self, level: str, messages: list[str]) -> None:
        """Say each message, where there is a context to say it in."""
        if self.context is not None:
            for message in messages:
                self.context.note(level, message)

    def fail(self, what: str, exit_code: int | None = None) -> NoReturn:
        """Raise the error that says ``what`` this program did, and what it said last."""
        said = decode(self.stderr)
        last = "; ".join([line.strip() for line in said.splitlines() if line.strip()][-5:])[-2000:]
        message = f"'{self.shown}' {what}: {last}" if last else f"'{self.shown}' {what}"
        raise CommandError(message, self.argv, exit_code, said) from None

    def _start(self) -> Process:
        if self.context is not None and self.context.stopping and not self.context.reading:
            self.fail("was not started: the run is being stopped")
        path, where = program.locate(self.argv[0]), self._invocation.cwd
        if reason := program.directory_error(where):
            self.fail(f"was not started: directory '{where}' {reason}")
        try:
            return Process(self._invocation._replace(path=path))
        except OSError as error:
            program.locate.cache_clear()
            if isinstance(error, FileNotFoundError):
                program.locate(self.argv[0])  # it has gone meanwhile, or else what its first line names is missing
                self.fail(f"was not started: '{path}' names an interpreter that does not exist")
            self.fail(f"was not started: {error.strerror}")

    def _clock(self) -> Callable[[], float]:
        context, seconds, why = self.context, self._seconds, ""
        now = time.monotonic()
        if context is not None and context.deadline is not None and context.deadline - now < seconds:
            seconds, why = max(0.0, context.deadline - now), ", all that was left of its resource's time"
        until = now + seconds

        def patience() -> float:
            left = until - time.monotonic()
            if left <= 0:
                self.fail(f"timed out after {seconds:.4g} s{why}")
            return left

        return patience
