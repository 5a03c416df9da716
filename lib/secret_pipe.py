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
    """Yield the path of a pipe from which one user can read ``text``, any number of times; it is never on a disk."""
    import tempfile

    directory = tempfile.mkdtemp(prefix="resource-api-pipe-", dir="/run" if os.geteuid() == 0 else None)
    pipe, stopped = f"{directory}/pipe", threading.Event()
    try:
        os.mkfifo(pipe, 0o600)
        if user is not None:
            os.chown(pipe, files.user_id(user), -1)
            os.chmod(directory, 0o711)  # noqa: PTH101, S103 - its name cannot be guessed, and the pipe has one reader
        server = threading.Thread(target=_serve, args=(pipe, text, stopped), daemon=True)
        server.start()
        try:
            yield pipe
        finally:
            stopped.set()
            with suppress(OSError):
                last = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
                server.join()
                os.close(last)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(pipe)  # noqa: PTH108 - text in
        os.rmdir(directory)  # noqa: PTH106 - text in


def _serve(pipe: str, text: bytes, stopped: threading.Event) -> None:
    """Write ``text`` for each reader until ``stopped``; opening a pipe waits for a reader."""
    while not stopped.is_set():
        # It may have been removed meanwhile, or its reader may end before it has read all.
        # Never made here: it would be a file with the secret in it.
        with suppress(FileNotFoundError, BrokenPipeError), os.fdopen(_opened(pipe), "wb", buffering=0) as stream:
            if not stopped.is_set():
                stream.write(text)


def _opened(pipe: str) -> int:
    return os.open(pipe, os.O_WRONLY | os.O_CLOEXEC)
