"""What providers run programs with: ``gpg = Command("gpg")`` in the class body, ``self.gpg(...)`` in a method.

It obeys the context and logs into it: when a program is skipped, when it has to end, what is said about it. Which
program is trusted and what it is given is ``program``'s; how it is started, read and stopped, ``process``'s.
"""

from __future__ import annotations

import copy
import os
import shlex
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, TypedDict, Unpack

from resource_api.hands import program
from resource_api.hands.context import current, lent_to
from resource_api.hands.process import STDOUT, Invocation, Process, ending, stop_all
from resource_api.nouns.errors import CommandError
from resource_api.nouns.named import NamedTuple
from resource_api.nouns.output import Lines, text

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping

    from resource_api.hands.context import Context
    from resource_api.nouns.values import Sensitive

    Argument = str | int | os.PathLike[str] | os.PathLike[bytes]

__all__ = ["Command", "Options", "Result", "stop_all"]

_KEPT: Final = 64 * 1024 * 1024  # bytes of stdout that a call keeps
_TAIL: Final = 64 * 1024  # bytes of stderr that are kept, and of a line in the log
_LINE: Final = 16 * 1024 * 1024  # bytes of one line that lines() accepts
_SHOWN: Final = 8192  # characters of a command in messages


class Result(NamedTuple):
    """How a program ended (``exit_code`` is negative after a signal), and what it said; stderr's last 64 KiB."""

    exit_code: int
    stdout: str
    stderr: str


class Options(TypedDict, total=False):
    """What a single call may add: variables, text for stdin, seconds until it is stopped, another directory than /."""

    env: Mapping[str, str] | None
    input: str | bytes | Sensitive[Any] | None
    timeout: float | None
    cwd: str | os.PathLike[str] | None


class Command:
    """A program that a provider runs, without a shell, terminal or inherited environment, for a limited time.

    ``program`` is a full path, or a name that is looked for on ``program.SECURE_PATH`` at its first use. One that is
    ``read_only`` runs under noop as well. ``timeout`` is in seconds. Every failure is a ``CommandError``.
    """

    def __init__(
        self, program: str, *, read_only: bool = False, timeout: float = 300.0, env: Mapping[str, str] | None = None
    ) -> None:
        """Describe the program; nothing is looked for yet."""
        self.program = program
        self.read_only = read_only
        self.timeout = timeout
        self.env = dict(env or {})
        self.provider: object = None

    def __get__(self, instance: object, owner: type | None = None) -> Self:
        """Give the command as ``self.gpg``; knowing its provider, it is under noop in the provider's threads too."""
        bound = copy.copy(self)
        bound.provider = instance
        return bound

    def __call__(self, *arguments: Argument, **options: Unpack[Options]) -> Result:
        """Run the program and give what it said; raises ``CommandError`` for any exit code but 0."""
        call = self._call(arguments, **options)
        result = self._run(call)
        if result.exit_code:
            call.fail(ending(call.exit_code), call.exit_code)
        return result

    def attempt(self, *arguments: Argument, **options: Unpack[Options]) -> Result:
        """Run the program and give how it ended, whatever its exit code; what keeps it from ending still raises."""
        return self._run(self._call(arguments, **options))

    def lines(self, *arguments: Argument, **options: Unpack[Options]) -> Iterator[str]:
        """Stream stdout by line, without line ends, in constant memory; asking for the first line starts the program.

        Raises ``CommandError`` at the end for any exit code but 0, and for a line over 16 MiB.
        An iterator that is closed early stops the program.
        """
        call = self._call(arguments, **options)
        return iter(()) if self._skipped(call) else self._stream(call)

    def _run(self, call: _Call) -> Result:
        if self._skipped(call):
            return Result(0, "", "")
        kept, size, spoken = [], 0, Lines()
        with closing(call.output()) as output:
            for stdout in output:
                kept.append(stdout)
                size += len(stdout)
                if size > _KEPT:
                    call.fail(f"said more than {_KEPT >> 20} MiB; read it with lines()")
                call.log("debug", spoken.feed(stdout, _TAIL))
        call.log("debug", spoken.rest())
        call.conclude()
        return Result(call.exit_code, text(b"".join(kept)), text(call.stderr))

    def _stream(self, call: _Call) -> Iterator[str]:
        whole = Lines()
        with closing(call.output()) as output:
            for stdout in output:
                yield from whole.feed(stdout)
                if whole.size > _LINE:
                    call.fail(f"wrote a line of more than {_LINE >> 20} MiB")
        yield from whole.rest()
        call.conclude()
        if call.exit_code:
            call.fail(ending(call.exit_code), call.exit_code)

    def _skipped(self, call: _Call) -> bool:
        context = call.context
        if context is None or not context.noop or context.reading or self.read_only:
            return False
        call.log("debug", [f"Skipping '{call.shown}' (noop)"])
        return True

    def _call(
        self,
        arguments: tuple[Any, ...],
        *,
        env: Mapping[str, str] | None = None,
        input: str | bytes | Sensitive[Any] | None = None,  # noqa: A002 - what it is called for authors
        timeout: float | None = None,
        cwd: str | os.PathLike[str] | None = None,
    ) -> _Call:
        argv = (self.program, *(program.argument(self.program, value) for value in arguments))
        variables = program.environment(self.program, {**self.env, **(env or {})})
        given = program.stdin(self.program, input)
        context = lent_to(self.provider) if self.provider is not None else current.get()
        if context is not None:
            context.conceal(input)
        seconds = self.timeout if timeout is None else timeout
        where = "/" if cwd is None else os.fspath(cwd)
        return _Call(argv, seconds, context, Invocation("", argv[1:], variables, where, given))


class _Call:
    """One run of a program: its time, its log lines, its words for what went wrong."""

    def __init__(self, argv: tuple[str, ...], seconds: float, context: Context | None, invocation: Invocation) -> None:
        """Prepare; the clock starts with ``output``."""
        shown = shlex.join(argv)
        self.argv = argv
        self.shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
        self.context = context
        self.exit_code = 0
        self.stderr = b""
        self._stderr_level = context.stderr_level if context is not None else "warning"
        self._seconds = seconds
        self._invocation = invocation

    def output(self) -> Generator[bytes, None, None]:
        """Run the program and yield its stdout as it arrives; stderr is logged, its end kept."""
        patience = self._clock()
        self.log("debug", [f"Executing '{self.shown}'"])
        lines = Lines()
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
        self.log("debug", [f"'{self.shown}' {ending(self.exit_code)}" if self.exit_code else done])

    def log(self, level: str, messages: list[str]) -> None:
        """Say each message, where there is a context to say it in."""
        if self.context is not None:
            for message in messages:
                self.context.note(level, message)

    def fail(self, what: str, exit_code: int | None = None) -> NoReturn:
        """Raise the error that says ``what`` this program did, and what it said last."""
        said = text(self.stderr)
        last = "; ".join([line.strip() for line in said.splitlines() if line.strip()][-5:])[-2000:]
        message = f"'{self.shown}' {what}: {last}" if last else f"'{self.shown}' {what}"
        raise CommandError(message, self.argv, exit_code, said) from None

    def _start(self) -> Process:
        if self.context is not None and self.context.stopping and not self.context.reading:
            self.fail("was not started: the run is being stopped")
        path, where = program.locate(self.argv[0]), self._invocation.cwd
        if reason := program.unusable(where):
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
