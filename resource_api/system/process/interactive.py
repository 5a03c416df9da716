"""Run a program that the user has named, as the user would: a pager, an editor, a line for the shell.

It gets the user's own environment and search path. Programs that manage resources are run by ``process``.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def page(text: str, command: str, stdout: int) -> bool:
    """Show ``text`` with the pager ``command`` on the descriptor ``stdout``; return whether the pager could be started.

    A pager that ends before it has read everything is no error.
    """
    environment = {"LESS": "FRX", "LV": "-c", **os.environ}
    try:
        pager = subprocess.Popen(shlex.split(command), stdin=subprocess.PIPE, stdout=stdout, env=environment)  # noqa: S603 - the user's own choice
    except (OSError, ValueError):
        return False
    with _left_to_the_program(), suppress(BrokenPipeError):
        pager.communicate(text.encode(errors="backslashreplace"))
    return True


def edit(path: str, command: str, stdout: int) -> int:
    """Edit a file with the editor ``command``, wait until it has ended, and return its exit code.

    Raise ``OSError`` where it cannot be started, ``ValueError`` for a command whose quotes are not closed.
    """
    editor = subprocess.Popen([*shlex.split(command), path], stdout=stdout)  # noqa: S603 - the user's own choice
    with _left_to_the_program():
        return editor.wait()


def shell(command: str, text: str = "") -> int:
    """Run a line for the shell with a text as its input; return its exit code, 128 + N after signal N.

    It need not read the text.
    """
    code = subprocess.run(["/bin/sh", "-c", command], input=text.encode(), check=False).returncode  # noqa: S603 - see above
    return code if code >= 0 else 128 - code


def output(words: Sequence[str], directory: str) -> bytes:
    """Return what a program prints; its errors go where ours go, and it has no input.

    Raise ``OSError`` where it cannot be started, ``ValueError`` with its exit code where it fails.
    """
    if not words:
        msg = "no program is named"
        raise ValueError(msg)
    done = subprocess.run(words, cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)  # noqa: S603 - see above
    if done.returncode:
        code = done.returncode
        msg = f"{words[0]} has failed with exit code {code}" if code > 0 else f"{words[0]} was ended by signal {-code}"
        raise ValueError(msg)
    return done.stdout


@contextmanager
def _left_to_the_program() -> Iterator[None]:
    """Ignore Ctrl-C: it is meant for the program, which has started and has the terminal."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
