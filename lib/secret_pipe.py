"""Pass a secret to a program that reads files only: a pipe with a name, so that it is never on a disk."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from resource_api import files

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def served(text: bytes, user: str | None) -> Iterator[str]:
    """Yield the path of a pipe from which one user (None: the superuser) can read ``text``, any number of times.

    So a password is neither in an argument, which all users see, nor on a disk. A thread writes the text at each
    opening; at the end it is stopped and the pipe removed.
    """
    import tempfile  # slow to import, and needed for passwords only

    uid = None if user is None else files.user_id(user)
    directory = tempfile.mkdtemp(prefix="resource-api-pipe-", dir="/run" if os.geteuid() == 0 else None)
    pipe, stopped = f"{directory}/pipe", threading.Event()
    try:
        _make(pipe, uid)
        if uid is not None:
            os.chmod(directory, 0o711)  # noqa: PTH101, S103 - its name cannot be guessed, and the pipe has one reader
        server = threading.Thread(target=_serve, args=(pipe, uid, text, stopped), daemon=True)
        server.start()
        try:
            yield pipe
        finally:
            stopped.set()
            with suppress(OSError):
                # The server waits for a reader: this one lets it see that it is stopped.
                last = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
                server.join()
                os.close(last)
    finally:
        for path in (pipe, _next(pipe)):
            with suppress(FileNotFoundError):
                os.unlink(path)  # noqa: PTH108 - text in
        os.rmdir(directory)  # noqa: PTH106 - text in


def _serve(pipe: str, uid: int | None, text: bytes, stopped: threading.Event) -> None:
    """Write ``text`` once for each reader until ``stopped`` or until the pipe is removed.

    Opening a pipe for writing waits until a reader opens it. A second opening could meet the same reader, which would
    get the text twice. So before each text is written, a new pipe takes the name, for the next reader.
    """
    while not stopped.is_set():
        try:
            # Never made here: it would be a file with the secret in it.
            descriptor = os.open(pipe, os.O_WRONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        # A reader may end before it has read all.
        with suppress(BrokenPipeError), os.fdopen(descriptor, "wb", buffering=0) as stream:
            if not stopped.is_set():
                _make(_next(pipe), uid)
                os.rename(_next(pipe), pipe)  # noqa: PTH104 - text in
                stream.write(text)


def _make(pipe: str, uid: int | None) -> None:
    """Make a named pipe that one user can read: ``uid``, or this process's user for None."""
    os.mkfifo(pipe, 0o600)
    if uid is not None:
        os.chown(pipe, uid, -1)


def _next(pipe: str) -> str:
    """Return the path of the pipe that gets the name of ``pipe`` after the present reader."""
    return f"{pipe}.next"
