"""Computations of providers that may take long: they end with the time limit of the call, and with an interrupt.

They run in a forked child, which can be ended at any time. In this process that is impossible: a regular expression,
for example, holds the interpreter's lock until it has matched, and no other thread or signal handler runs.
"""

from __future__ import annotations

import os
import pickle
import resource
import select
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from resource_api.model.values.errors import ResourceError
from resource_api.provider.context import current
from resource_api.system.process import child, process_tree

if TYPE_CHECKING:
    from collections.abc import Callable

Value = TypeVar("Value")

#: Seconds that a computation may take where no time limit is declared.
LIMIT: Final = 30.0
#: Bytes of memory that a computation may use.
MEMORY: Final = 2 << 30
#: Seconds between two calls of ``go_on``.
_TICK: Final = 0.1
_CHUNK: Final = 1 << 16


def compute(what: str, function: Callable[[], Value], *, seconds: float | None = None) -> Value:
    """Return ``function()``, computed in a process of its own, because with untrusted data it may never end.

    The function must change nothing, and its result is copied. ``what`` names the computation in errors. It is ended
    after ``seconds`` (None: 30), with the time limit of the resource, and at the first interrupt. Raise
    ``ResourceError`` then, and the exceptions of ``function``.
    """
    context = current.get()
    until = time.monotonic() + (LIMIT if seconds is None else seconds)
    if context is not None and context.deadline is not None:
        until = min(until, context.deadline)
    limit = max(0.0, until - time.monotonic())

    def go_on() -> None:
        """Raise ``ResourceError`` once the time is over or the run is being stopped."""
        if time.monotonic() >= until:
            raise ResourceError(f"{what} takes more than {limit:.3g} s, and was ended")
        if context is not None and context.cancelled:
            raise ResourceError(f"{what} was ended: the run is being stopped")

    try:
        return _compute_in_child(function, go_on)  # type: ignore[no-any-return] # it is what the function returns
    except MemoryError:
        raise ResourceError(f"{what} needs more than {MEMORY >> 30} GiB of memory") from None
    except OSError as error:
        raise ResourceError(f"{what} failed: {error.strerror or error}") from error


def _compute_in_child(function: Callable[[], object], go_on: Callable[[], None]) -> Any:
    """Return a copy of the result of ``function``, or raise a copy of its exception.

    The function runs in a child process, which can be killed at any time. ``go_on`` is called ten times a second, and
    ends the computation by raising. Raise ``OSError`` if no child can be started, ``ChildProcessError`` if it dies.
    """
    pid, reading = _fork(function)
    try:
        answer = _read(reading, go_on)
    finally:
        os.close(reading)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)
    try:
        failed, value = pickle.loads(answer)  # noqa: S301 - of our own child
    except (EOFError, pickle.UnpicklingError):  # it ended before or while it wrote
        raise ChildProcessError("the computation has died, perhaps for want of memory") from None
    if failed:
        raise value
    return value


def _fork(function: Callable[[], object]) -> tuple[int, int]:
    """Fork a child that computes ``function``; return its process id, and the pipe from which its answer is read."""
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
    return pid, reading


def _answer(function: Callable[[], object], writing: int, parent: int) -> NoReturn:
    """Compute in the forked child, send ``(failed, result or exception)`` to the parent by pickle, and end the child.

    ``writing`` is the end of the pipe for the answer. Memory is limited, as the data is untrusted.
    """
    try:
        process_tree.end_with(parent)
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        limit = MEMORY if hard == resource.RLIM_INFINITY else min(MEMORY, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
        try:
            answer = pickle.dumps((False, function()))
        except Exception as error:  # noqa: BLE001 - raised again in the parent
            answer = _packed(error)
        with open(writing, "wb", closefd=False) as pipe:
            pipe.write(answer)
    finally:
        os._exit(0)


def _packed(error: Exception) -> bytes:
    """Return an exception in pickle's form, by which the parent process raises it again.

    An exception of a class that pickle cannot restore becomes a ``ResourceError`` with its text.
    """
    try:
        packed = pickle.dumps((True, error))
        pickle.loads(packed)  # noqa: S301 - see above
    except Exception:  # noqa: BLE001 - classes decide how they are copied
        return pickle.dumps((True, ResourceError(str(error))))
    return packed


def _read(reading: int, go_on: Callable[[], None]) -> bytes:
    """Return all bytes that the computing process sends until its end; ``go_on`` raises to end the wait before."""
    chunks: list[bytes] = []
    while True:
        go_on()
        if select.select([reading], [], [], _TICK)[0]:
            chunk = os.read(reading, _CHUNK)
            if not chunk:
                return b"".join(chunks)
            chunks.append(chunk)
