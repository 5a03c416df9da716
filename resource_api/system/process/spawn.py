"""Start a program with ``sh``, which forks and reaps; the only module that uses ``sh``.

The child executes the program itself (``child.execute``), because it changes its identity, dies with its parent and
reports errors by number. A program that only reads is started by fork(2) instead: most runs start no other kind, and
avoid the import of ``sh``, which takes 80 ms.
"""

from __future__ import annotations

import errno
import gc
import glob
import os
import signal
import sys
import threading
from contextlib import suppress
from functools import cache, partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from resource_api.system.process import child

if TYPE_CHECKING:
    from collections.abc import Callable

    from resource_api.system.process.child import Invocation

#: The largest number of descriptors that a start opens.
_DESCRIPTORS: Final = 12
#: Exit codes, also of signals, for which ``sh`` raises no exception.
_ANY_EXIT_CODE: Final = range(-64, 256)


class Child:
    """A forked child process."""

    def __init__(self, pid: int) -> None:
        """Take over the child ``pid``."""
        self.pid = pid
        self._exit_code: int | None = None
        #: The thread that reads its output and another that stops it may wait at the same time.
        self._wait_lock = threading.Lock()

    def wait(self) -> int:
        """Wait for its end, and return its exit code, negative after a signal.

        Raise ``ChildProcessError`` if other code in this process has reaped it.
        """
        with self._wait_lock:
            if self._exit_code is None:
                _, status = os.waitpid(self.pid, 0)
                self._exit_code = os.waitstatus_to_exitcode(status)
            return self._exit_code


def _start_reading(invocation: Invocation, out: int, err: int, report: int) -> Child:
    """Start a program by fork(2), without ``sh``; see ``starter``.

    Raise ``OSError`` if no child can be forked.
    """
    child.prepare()
    parent, handled, stdin = os.getpid(), child.handled_signals(), child.open_stdin(invocation)
    # No handler of this process may run in the child.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, child.signals())
    try:
        pid = os.fork()
        if pid == 0:
            child.execute(invocation, report, parent, handled, (stdin, out, err))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(stdin)
    return Child(pid)


def starter(*, reading: bool = False) -> Callable[[Invocation, int, int, int], object]:
    """Return a function that starts a program with descriptors for its stdout, its stderr, and the child's report.

    The function returns an object with ``pid`` and ``wait()``, and raises ``OSError`` if no child can be started. A
    child that cannot execute the program writes the number of the error into its report: the program's user may delay
    the start, and this process must not wait for that without a limit. Call this before creating the descriptors: the
    import of ``sh`` may open some.
    """
    start = _start_reading if reading else partial(_spawn, _sh())
    return lambda *arguments: _in_lasting_thread(partial(start, *arguments))


def _in_lasting_thread(start: Callable[[], object]) -> object:
    """Return the result of ``start``, called in a thread that lasts as long as this process.

    The kernel kills a program when the thread that has started it ends (``process_tree.end_with``), and threads of
    providers and of ``--parallel`` may end before the program. Raise ``OSError``, also if there is no thread.
    """
    if threading.current_thread() is threading.main_thread():
        return start()
    answers: SimpleQueue[tuple[object, BaseException | None]] = SimpleQueue()
    try:
        _lasting_thread(os.getpid()).put((start, answers))
    except RuntimeError:  # no more threads
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from None
    started, error = answers.get()
    if error is not None:
        raise error
    return started


@cache
def _lasting_thread(_pid: int) -> SimpleQueue[object]:
    """Return the queue of the thread that starts programs in a process; a forked process has a thread of its own.

    It is a daemon: the thread of a ``ThreadPoolExecutor`` ends with the main thread, and an embedding program may still
    run in another one.
    """
    tasks: SimpleQueue[object] = SimpleQueue()
    threading.Thread(target=_start_programs, args=(tasks,), daemon=True, name="programs").start()
    return tasks


def _start_programs(tasks: SimpleQueue[Any]) -> None:
    """Call the functions of a queue; put the result of each, or its error, into the queue that came with it."""
    while True:
        start, answers = tasks.get()
        try:
            answers.put((start(), None))
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that asked for the program
            answers.put((None, error))
        del start, answers


@cache
def _sh() -> object:
    """Import ``sh`` without its side effects: it replaces ``glob.glob``, and logs commands."""
    import logging

    original, first = glob.glob, "sh" not in sys.modules
    import sh

    if first:
        glob.glob = original
    logging.getLogger("sh").setLevel(logging.CRITICAL + 1)
    return sh


def _open_standard_streams() -> None:
    """Open standard descriptors that the caller has closed: pipes of ``sh`` would get their numbers.

    Call this right before ``sh`` opens its pipes: a file that another thread opens meanwhile would hide a closed one.
    """
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _check_descriptors() -> None:
    """Raise ``OSError`` unless enough descriptors are free: after a failed start ``sh`` leaves its descriptors open."""
    probes: list[int] = []
    try:
        # Not a list of its own: after a failure, ``probes`` holds those that were opened.
        probes.extend(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC) for _ in range(_DESCRIPTORS))
    finally:
        for fd in probes:
            os.close(fd)


def _spawn(sh: Any, invocation: Invocation, out: int, err: int, report: int) -> object:
    """Start a program, whose child waits until ``sh`` returns; if ``sh`` fails, the child exits without running it.

    A failed fork, at the limit of processes, leaks the descriptors that ``sh`` has opened before. Raise ``OSError``.
    """
    _check_descriptors()
    child.prepare()
    _open_standard_streams()
    stdin, collects = child.open_stdin(invocation), gc.isenabled()
    go, release = map(child.above_standard_streams, os.pipe2(os.O_CLOEXEC))
    handled = (*child.handled_signals(), signal.SIGHUP)  # ``sh`` ignores that in the background
    execute = partial(child.execute, invocation, report, os.getpid(), handled, go=go)
    options: dict[str, object] = {"_in": stdin, "_out": out, "_err": err, "_bg": True, "_bg_exc": False}
    options |= {"_new_session": True, "_preexec_fn": execute, "_ok_code": _ANY_EXIT_CODE}
    try:
        running = sh.Command(invocation.path)(**options)
        os.write(release, b"!")
    except sh.CommandNotFound:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)) from None
    except RuntimeError:  # no thread for the reaper of ``sh``
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from None
    else:
        # Without the references of the two to each other, their memory is free at the end of the program.
        process, running.process = running.process, None
        return process
    finally:
        for fd in (stdin, go, release):
            os.close(fd)
        if collects:  # ``sh`` leaves it disabled after a failure
            gc.enable()


def kill(pid: int) -> None:
    """Kill an unregistered child with its process group, and reap it."""
    with suppress(OSError):
        os.killpg(pid, signal.SIGKILL)
    with suppress(OSError):  # it may not have made its group yet
        os.kill(pid, signal.SIGKILL)
    with suppress(OSError):
        os.waitpid(pid, 0)
