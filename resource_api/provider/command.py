"""What providers run programs with: ``gpg = Command("gpg")`` in the class body, ``self.gpg(...)`` in a method.

It obeys the context: when a program is skipped, and how long it may take. How one is run is ``execution``'s.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.provider.context import calling_context, current
from resource_api.system.process.line_splitter import decode

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    from resource_api.model.values.values import Sensitive
    from resource_api.provider.command_run import Call

    Argument = str | int | os.PathLike[str] | os.PathLike[bytes]


class CommandResult(NamedTuple):
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

    def __call__(self, *arguments: Argument, **options: Unpack[Options]) -> CommandResult:
        """Run the program and give what it said; raises ``CommandError`` for any exit code but 0."""
        call = self._call(arguments, **options)
        result = self._run(call)
        call.check()
        return result

    def attempt(self, *arguments: Argument, **options: Unpack[Options]) -> CommandResult:
        """Run the program and give how it ended, whatever its exit code; what keeps it from ending still raises."""
        return self._run(self._call(arguments, **options))

    def lines(self, *arguments: Argument, **options: Unpack[Options]) -> Iterator[str]:
        """Stream stdout by line, without line ends, in constant memory; asking for the first line starts the program.

        Raises ``CommandError`` at the end for any exit code but 0, and for a line over 16 MiB.
        An iterator that is closed early stops the program.
        """
        call = self._call(arguments, **options)
        return iter(()) if self._skipped(call) else call.lines()

    def _run(self, call: Call) -> CommandResult:
        if self._skipped(call):
            return CommandResult(0, "", "")
        stdout = call.whole()
        return CommandResult(call.exit_code, stdout, decode(call.stderr))

    def _skipped(self, call: Call) -> bool:
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
    ) -> Call:
        from resource_api.provider.command_run import Call, asked  # noqa: PLC0415 - most runs start no program

        invocation = asked(self.program, arguments, {**self.env, **(env or {})}, input, cwd)
        context = calling_context(self.provider) if self.provider is not None else current.get()
        if context is not None:
            context.conceal(input)
        seconds = self.timeout if timeout is None else timeout
        return Call(self.program, seconds, context, invocation)
