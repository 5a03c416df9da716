"""Start a program with ``sh``, which forks and sets up the child; the only module that uses ``sh``.

Side effects of ``sh`` on the process that imports it, and what it leaves behind after a failure, are undone here.
A program of another user is executed by the child that ``sh`` has forked, after it has changed its identity.
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
from typing import TYPE_CHECKING, Any, Final, NoReturn

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.system.process import core_dumps, identity, process_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_CODEC: Final = "resource_api_argv"


class Invocation(NamedTuple):
    """A program to run: its absolute path, arguments (surrogate escapes for bytes), and whole environment.

    ``identity`` is the user as whom it is run; None is that of this process. ``stdin`` is the descriptor that it reads
    from; None: ``input``.
    """

    path: str
    arguments: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str = "/"
    input: bytes | None = None
    identity: identity.Identity | None = None
    stdin: int | None = None


def starter() -> Callable[[Invocation, int, int, int], Any]:
    """Return a function that starts a program with descriptors for its stdout, its stderr, and the child's report.

    The function returns an object with ``pid`` and ``wait()``, and raises ``OSError`` when the program cannot be
    started. A child with an ``identity`` writes the number of that error into its report instead: it starts the program
    as a user who may delay that, and this process must not wait for it without a limit.
    Call this before creating the descriptors: the import of ``sh`` may open some.
    """
    sh = _sh()
    return lambda *arguments: _in_lasting_thread(partial(_spawn, sh, *arguments))


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
    import glob  # noqa: PLC0415 - as sh, with the first program
    import logging  # noqa: PLC0415

    original, first = glob.glob, "sh" not in sys.modules
    import sh  # noqa: PLC0415

    if first:
        glob.glob = original
    logging.getLogger("sh").setLevel(logging.CRITICAL + 1)
    codecs.register(_codec)
    for fd in range(3):  # sh moves descriptors to 0-2; no pipe may get such a number that the caller has closed
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    return sh


def _codec(name: str) -> codecs.CodecInfo | None:
    """Return a codec that encodes surrogate escapes as bytes; ``sh`` always encodes with strict errors."""

    def encode(text: str, _errors: str = "strict") -> tuple[bytes, int]:
        return text.encode("utf-8", "surrogateescape"), len(text)

    return codecs.CodecInfo(encode, codecs.utf_8_decode, name=name) if name == _CODEC else None


def _spawn(sh: Any, invocation: Invocation, out: int, err: int, report: int) -> Any:
    process_tree.prepare()
    cwd = invocation.cwd
    enter: Callable[[], Any] = partial(_enter, os.getpid())
    if invocation.identity is not None:
        identity.prepare()
        cwd, enter = "/", partial(_execute_as, invocation.identity, invocation, report, os.getpid())
    stdin = _stdin(invocation.input) if invocation.stdin is None else os.dup(invocation.stdin)
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


def _stdin(data: bytes | None) -> int:
    if data is None:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    fd = os.memfd_create("input", os.MFD_CLOEXEC)
    with open(fd, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _enter(parent: int) -> None:
    """Prepare the child: end it with ``parent``, make it a subreaper, reset signals, their mask and the umask."""
    process_tree.end_with(parent)
    process_tree.adopt_orphans()
    os.umask(0o022)
    core_dumps.restore_limit()
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _execute_as(user: identity.Identity, invocation: Invocation, report: int, parent: int) -> NoReturn:
    """Execute the program in the child, as another user; never return.

    Before the change of identity all descriptors of this process are closed, except the child's report: also the one
    that ``sh`` would wait for. The directory is entered with the user's rights only.
    """
    _close_all_but({0, 1, 2, report})
    try:
        identity.assume(user)
        os.chdir(invocation.cwd)
        # Only now: a change of identity would undo it.
        _enter(parent)
        words = [_encoded(word) for word in (invocation.path, *invocation.arguments)]
        variables = {_encoded(name): _encoded(value) for name, value in invocation.env.items()}
        os.execve(words[0], words, variables)  # noqa: S606 - as the module does with sh
    except BaseException as error:  # noqa: BLE001 - a forked child must not continue as its parent
        number = error.errno if isinstance(error, OSError) else None
        os.write(report, str(number or errno.EINVAL).encode())
    finally:
        os._exit(255)


def _close_all_but(kept: set[int]) -> None:
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - bare names
        if int(name) not in kept:
            with suppress(OSError):  # that of the listing is closed already
                os.close(int(name))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _clean_up(error: BaseException) -> None:
    """Undo what ``sh`` leaves after a failure: open descriptors, the child, a disabled garbage collector."""
    trace = error.__traceback__
    while trace and type(trace.tb_frame.f_locals.get("self")).__name__ != "OProc":
        trace = trace.tb_next
    if trace is None:
        return
    local = trace.tb_frame.f_locals
    child, pid = local["self"], getattr(local["self"], "pid", None)
    left: list[int | None] = []
    if pid is not None:
        kill(pid)
        if type(error).__name__ == "ForkException":
            left = [local["session_pipe_read"], local["session_pipe_write"]]
    elif isinstance(error, OSError):
        left = [local.get(f"{name}_pipe_{end}") for name in ("session", "exc") for end in ("read", "write")]
        left += [getattr(child, f"_{name}_child_fd", None) for name in ("stdin", "stdout", "stderr")]
        if local.get("gc_enabled"):
            gc.enable()
    for fd in filter(None, left):
        os.close(fd)


def kill(pid: int) -> None:
    """Kill a child that is not registered yet, with its process group, and reap it."""
    for call, argument in ((os.killpg, signal.SIGKILL), (os.kill, signal.SIGKILL), (os.waitpid, 0)):
        with suppress(OSError):
            call(pid, argument)
