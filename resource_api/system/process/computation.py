"""Compute a value in a forked child, which can be ended at any time.

In this process that is impossible: a regular expression, for example, holds the interpreter's lock until it has
matched, and no other thread or signal handler runs.
"""

from __future__ import annotations

import os
import pickle
import resource
import select
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NoReturn

from resource_api.model.values.errors import ResourceError
from resource_api.system.process import child, process_tree

if TYPE_CHECKING:
    from collections.abc import Callable

#: Bytes of memory that a computation may use.
MEMORY: Final = 2 << 30
#: Seconds between two calls of ``go_on``.
_TICK: Final = 0.1
_CHUNK: Final = 1 << 16


def compute(function: Callable[[], object], go_on: Callable[[], None]) -> Any:
    """Return a copy of the result of ``function``, or raise a copy of its exception; it must have no side effects.

    It gets ``MemoryError`` beyond 2 GiB. ``go_on`` is called ten times a second and ends the computation by raising.
    Raise ``OSError`` if no child can be started, ``ChildProcessError`` if it dies.
    """
    process_tree.prepare()
    numbers, parent = child.signals(), os.getpid()
    reading, writing = os.pipe2(os.O_CLOEXEC)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)  # no handler of this process may run in the child
    try:
        pid = os.fork()
        if pid == 0:
            _answer(function, writing, parent)
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    try:
        answer = _read(reading, go_on)
    finally:
        os.close(reading)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)
    if not answer:
        msg = "the computation has died, perhaps for want of memory"
        raise ChildProcessError(msg)
    error, value = pickle.loads(answer)  # noqa: S301 - of our own child
    if error:
        raise value
    return value


def _answer(function: Callable[[], object], writing: int, parent: int) -> NoReturn:
    """Compute in the child, write the answer, and never return."""
    try:
        process_tree.end_with(parent)
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(
            resource.RLIMIT_DATA, (MEMORY if hard == resource.RLIM_INFINITY else min(MEMORY, hard), hard)
        )
        try:
            answer = pickle.dumps((False, function()))
        except Exception as error:  # noqa: BLE001 - raised again in the parent
            answer = _packed(error)
        with open(writing, "wb", closefd=False) as pipe:
            pipe.write(answer)
    finally:
        os._exit(0)


def _packed(error: Exception) -> bytes:
    """Return an error for the parent; one that cannot be pickled as a ``ResourceError`` with its text."""
    try:
        packed = pickle.dumps((True, error))
        pickle.loads(packed)  # noqa: S301 - see above
    except Exception:  # noqa: BLE001 - classes decide how they are copied
        return pickle.dumps((True, ResourceError(str(error))))
    return packed


def _read(reading: int, go_on: Callable[[], None]) -> bytes:
    chunks: list[bytes] = []
    while True:
        go_on()
        if select.select([reading], [], [], _TICK)[0]:
            chunk = os.read(reading, _CHUNK)
            if not chunk:
                return b"".join(chunks)
            chunks.append(chunk)
