"""Start a program with ``sh``, which forks and sets up the child; the only module that uses ``sh``.

Side effects of ``sh`` on the process that imports it, and what it leaves behind after a failure, are undone here.
A program that only reads is started by ``fork`` instead: most runs start no others, and need not import ``sh``.
Waiting, reading and killing must not enter here.
"""

from __future__ import annotations

import codecs
import errno
import gc
import os
import signal
import sys
import threading
from contextlib import suppress
from functools import cache, partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from resource_api.system.process import child, fork

if TYPE_CHECKING:
    from collections.abc import Callable

    from resource_api.system.process.child import Invocation

_CODEC: Final = "resource_api_argv"


def starter(*, reading: bool = False) -> Callable[[Invocation, int, int, int], Any]:
    """Return a function that starts a program with descriptors for its stdout, its stderr, and the child's report.

    The function returns an object with ``pid`` and ``wait()``, and raises ``OSError`` when the program cannot be
    started. A child that executes the program itself writes the number of that error into its report instead: one that
    only reads, and one with an ``identity``, whose user may delay the start, and this process must not wait for it
    without a limit.
    Call this before creating the descriptors: the import of ``sh`` may open some.
    """
    start = fork.start if reading else partial(_spawn, _sh())
    return lambda *arguments: _in_lasting_thread(partial(start, *arguments))


def _in_lasting_thread(start: Callable[[], Any]) -> Any:
    """Return what ``start`` returns, called in a thread that lasts as long as this process.

    The kernel kills a program when the thread that has started it ends (``process_tree.end_with``), and threads of
    providers and of ``--parallel`` may end before the program.
    """
    if threading.current_thread() is threading.main_thread():
        return start()
    answers: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
    try:
        _lasting_thread(os.getpid()).put((start, answers))
    except RuntimeError:  # no more threads
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from None
    started, error = answers.get()
    if error is not None:
        raise error
    return started


@cache
def _lasting_thread(_pid: int) -> SimpleQueue[Any]:
    """Return the queue of the thread that starts programs in a process; a forked process has a thread of its own."""
    tasks: SimpleQueue[Any] = SimpleQueue()
    threading.Thread(target=_start_programs, args=(tasks,), daemon=True, name="programs").start()
    return tasks


def _start_programs(tasks: SimpleQueue[Any]) -> None:
    while True:
        start, answers = tasks.get()
        try:
            answers.put((start(), None))
        except BaseException as error:  # noqa: BLE001 - raised again where the program was asked for
            answers.put((None, error))
        del start, answers


@cache
def _sh() -> Any:
    """Import ``sh`` without its side effects: it replaces ``glob.glob``, and logs arguments."""
    import glob
    import logging

    original, first = glob.glob, "sh" not in sys.modules
    import sh

    if first:
        glob.glob = original
    logging.getLogger("sh").setLevel(logging.CRITICAL + 1)
    codecs.register(_codec)
    return sh


def _open_standard_streams() -> None:
    """Open descriptors 0 to 2 that the caller has closed: the child moves its own there, and no pipe of ``sh`` may be.

    Right before ``sh`` opens its pipes: what another thread has open there for a moment would hide a closed one.
    """
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _codec(name: str) -> codecs.CodecInfo | None:
    """Return a codec that encodes surrogate escapes as bytes; ``sh`` always encodes with strict errors."""

    def encode(text: str, _errors: str = "strict") -> tuple[bytes, int]:
        return text.encode("utf-8", "surrogateescape"), len(text)

    return codecs.CodecInfo(encode, codecs.utf_8_decode, name=name) if name == _CODEC else None


def _spawn(sh: Any, invocation: Invocation, out: int, err: int, report: int) -> Any:
    child.prepare(invocation)
    _open_standard_streams()
    cwd = invocation.cwd
    parent, handled = os.getpid(), child.handled_signals()
    enter: Callable[[], Any] = partial(child.enter, parent, handled)
    if invocation.identity is not None:
        cwd, enter = "/", partial(child.execute, invocation, report, parent, handled)
    stdin = child.stdin(invocation)
    options = {"in": stdin, "out": out, "err": err, "env": dict(invocation.env), "cwd": cwd}
    options |= {"bg": 1, "bg_exc": False, "new_session": True, "preexec_fn": enter, "encoding": _CODEC}
    try:
        command = sh.Command(invocation.path)
        return _process(command(*invocation.arguments, **{f"_{name}": value for name, value in options.items()}))
    except sh.CommandNotFound:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)) from None
    except BaseException as error:
        _clean_up(error)
        number = 0
        if isinstance(error, sh.ForkException):  # its text is the child's traceback
            number = int(str(error).rpartition("[Errno ")[2].partition("]")[0] or errno.EINVAL)
        elif isinstance(error, RuntimeError):  # no thread for the reaper
            number = errno.EAGAIN
        if number:
            raise OSError(number, os.strerror(number)) from None
        raise
    finally:
        os.close(stdin)


def _process(running: Any) -> Any:
    """Return the process of what ``sh`` has started, without their references to each other.

    With that cycle their memory would be free only after some thousands of programs, each a fork of a larger process.
    """
    process, running.process = running.process, None
    return process


def _clean_up(error: BaseException) -> None:
    """Undo what ``sh`` leaves after a failure: open descriptors, the child, a disabled garbage collector."""
    trace = error.__traceback__
    while trace and type(trace.tb_frame.f_locals.get("self")).__name__ != "OProc":
        trace = trace.tb_next
    if trace is None:
        return
    local = trace.tb_frame.f_locals
    started, pid = local["self"], getattr(local["self"], "pid", None)
    left: list[int | None] = []
    if pid is not None:
        kill(pid)
        if type(error).__name__ == "ForkException":
            left = [local["session_pipe_read"], local["session_pipe_write"]]
    elif isinstance(error, OSError):
        left = [local.get(f"{name}_pipe_{end}") for name in ("session", "exc") for end in ("read", "write")]
        left += [getattr(started, f"_{name}_child_fd", None) for name in ("stdin", "stdout", "stderr")]
        if local.get("gc_enabled"):
            gc.enable()
    for fd in filter(None, left):
        os.close(fd)


def kill(pid: int) -> None:
    """Kill a child that is not registered yet, with its process group, and reap it."""
    for call, argument in ((os.killpg, signal.SIGKILL), (os.kill, signal.SIGKILL), (os.waitpid, 0)):
        with suppress(OSError):
            call(pid, argument)
