"""Compute a value in a forked child, which can be ended at any time: a computation of this process could not be.

A regular expression, for one, holds the lock of the interpreter until it has matched: no other thread runs, and no
handler of a signal. Why a computation is ended must not be decided here.
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
#: Seconds between two questions whether to go on.
_TICK: Final = 0.1
_CHUNK: Final = 1 << 16


def compute(function: Callable[[], Any], go_on: Callable[[], None]) -> Any:
    """Return ``function()``, which must change nothing outside; what it returns or raises is copied.

    Beyond 2 GiB of memory it gets ``MemoryError``.

    ``go_on`` is called ten times a second, and ends the computation by raising. Raise ``OSError`` where there can be no
    child, ``ChildProcessError`` for one that has died.
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


def _answer(function: Callable[[], Any], writing: int, parent: int) -> NoReturn:
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
    """Return an error for the parent; one of a class that only its module knows as its text."""
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
