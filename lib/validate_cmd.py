"""A check of a file's new content by a program, before the file gets its name: ``visudo -cf %``."""

from __future__ import annotations

import shlex
from functools import partial
from typing import TYPE_CHECKING, Any

from lib import command_lines, executed_code
from lib.sensitive import refused_secrets
from resource_api import Command, Problem, ResourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from resource_api import Change, files

#: Replaced by the path of the new file.
PLACEHOLDER = "%"
#: Lines of the output in the reason of a failure.
TAIL = 5


def words(command: str | Sequence[str]) -> list[str]:
    """Return the words of a command: a text is split as by a shell. Raise ``ValueError`` for open quotes."""
    return shlex.split(command) if isinstance(command, str) else list(command)


def problems(attribute: str, command: Any) -> Iterator[Problem]:
    """Yield the mistakes in a declared ``validate_cmd``, for the validation of a manifest.

    A command with a part that is not known yet is not checked, except for secrets.
    """
    yield from refused_secrets({attribute: command})
    if not (isinstance(command, str) or (isinstance(command, list) and all(isinstance(word, str) for word in command))):
        return
    if isinstance(command, str) and (wrong := list(command_lines.problems(attribute, command))):
        yield from wrong
    elif not any(PLACEHOLDER in word for word in words(command)[1:]):
        yield Problem(attribute, f"{attribute} must contain '%', which becomes the path of the new file")


def checkers(changes: Mapping[Any, Change]) -> dict[str, Callable[[str], None]]:
    """Return path → the check of a file's new content by each ``validate_cmd`` that its resources declare.

    The functions that write a file call the check before the file gets its name. Names of ``changes`` begin with the
    path. A command that several resources of a file declare runs once.
    """
    commands: dict[str, list[str | Sequence[str]]] = {}
    for name, change in changes.items():
        command = change.should.get("validate_cmd")
        if command is not None and command not in commands.setdefault(name[0], []):
            commands[name[0]].append(command)
    return {path: partial(_check_all, argvs, path) for path, argvs in commands.items()}


def _check_all(commands: Sequence[str | Sequence[str]], path: str, new: str) -> None:
    """Check the new content of a file by all commands. Raise ``ResourceError`` of the first that fails."""
    for command in commands:
        check(command, path, new)


def of_new_content(batch: files.Batch, path: str, command: str | Sequence[str]) -> Callable[[str], None]:
    """Return the function by which ``batch`` checks the new content of a file before it gets the name ``path``.

    Raise ``ResourceError`` where other users could replace the file between its check and its renaming.
    """
    if batch.can_others_replace(path):
        msg = "its content is not checked by validate_cmd where other users can write to a directory on its path"
        raise ResourceError(msg)
    return partial(check, command, path)


def check(command: str | Sequence[str], path: str, new: str) -> None:
    """Run a command that checks the new content of ``path``, which is in the file ``new`` until then.

    Raise ``ResourceError`` with the end of its output if it fails, and with the name ``path`` in the place of ``new``.
    """
    argv = [word.replace(PLACEHOLDER, new) for word in words(command)]
    program = Command(argv[0])
    executed_code.check(program, argv)
    # At level debug, as many programs also write on stderr that the content is right; a refusal quotes it below.
    result = program.attempt(*argv[1:], log="debug")
    if result.exit_code:
        lines = [line.strip() for line in (result.stderr or result.stdout).splitlines() if line.strip()][-TAIL:]
        how = "; ".join(lines) or f"exit code {result.exit_code}"
        msg = f"the new content is refused by {command_lines.quoted(words(command))}, and not written: {how}"
        raise ResourceError(msg.replace(new, path))
