"""Protect this process from side effects of foreign code, the system from pure code, and the run from endless code.

After provider code has returned, the working directory, umask, environment, import path, recursion limit, signal
handlers, standard streams and their descriptors are restored; a forked child that returns from the code exits at once.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import threading
import time
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values.errors import ProviderError, ResourceError, reason
from resource_api.model.values.start_up import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD, signal.SIGALRM)
_STANDARD_DESCRIPTORS: Final = (0, 1, 2)
#: Exit code of a forked child that returns from provider code (EX_SOFTWARE in sysexits.h).
_CHILD_RETURNED: Final = 70

#: The environment of this process, name → value: a copy costs a hundredth of one of ``os.environ``, which decodes it.
_ENVIRONMENT: Final[dict[bytes, bytes]] = vars(os.environ)["_data"]
#: Standard descriptor → its lasting replacement, also for provider code that is running now.
_replacements: Final[dict[int, int]] = {}
#: Functions to call before the next provider code.
_before_code: Final[list[Callable[[], None]]] = []
#: Copies of the standard descriptors while provider code runs in several threads; otherwise empty.
_shared_copies: Final[list[tuple[int, int]]] = []


class _ProcessState(NamedTuple):
    """The state of this process that provider code must not change."""

    #: None if it was removed.
    directory: str | None
    umask: int
    environment: dict[bytes, bytes]
    path: list[str]
    recursion: int
    streams: tuple[object, ...]
    handlers: tuple[Any, ...]


def before_provider_code(function: Callable[[], None]) -> None:
    """Call a function once, right before provider code runs next."""
    _before_code.append(function)


@contextmanager
def protected() -> Iterator[None]:
    """Run provider code in the ``with`` block, and restore this process afterwards: directory, umask, environment, ….

    Inside ``shared`` only the standard descriptors are restored, as another thread may use the rest. A child that the
    code has forked must not continue the run: it exits when it leaves the block.
    """
    while _before_code:
        _before_code.pop()()  # functions that another module wants called once, see ``before_provider_code``
    pid = os.getpid()
    before, copies = (None, _shared_copies) if _shared_copies else (_process_state(), _copy_descriptors())
    try:
        yield
    finally:
        if os.getpid() != pid:
            os._exit(_CHILD_RETURNED)
        if before is not None:
            _restore(before)
        _restore_descriptors(copies)
        if copies is not _shared_copies:
            _close(copies)


@contextmanager
def shared() -> Iterator[None]:
    """Allow provider code in several threads inside the block; restore this process at its end.

    ``protected`` cannot restore everything after each call, as a call in another thread may use it. It restores only
    the standard descriptors, so that no log line ends up in a provider's file.
    """
    with protected():
        _shared_copies.extend(_copy_descriptors())  # from now on, ``protected`` restores nothing else
        try:
            yield
        finally:
            _close(_shared_copies)
            _shared_copies.clear()


def call_contained(function: Callable[..., object], *arguments: object) -> Any:
    """Call a provider's function; raise ``ProviderError`` for an exit and any other ``BaseException``.

    So ``sys.exit()`` in a provider cannot end the run; ``Exception`` and ``KeyboardInterrupt`` pass through. It is for
    pure functions, called often: unlike ``contained``, it does not restore this process after each call.
    """
    try:
        return function(*arguments)
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise ProviderError(reason(error)) from error


@contextmanager
def contained() -> Iterator[None]:
    """Run provider code in the ``with`` block, within ``protected``.

    An exit or another ``BaseException`` becomes ``ProviderError``, as it must not end the run; an interrupt passes.
    """
    with protected():
        try:
            yield
        except (Exception, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise ProviderError(reason(error)) from error


def _process_state() -> _ProcessState:
    """Return the state of this process, to restore it after accidental changes by provider code."""
    try:
        directory = os.getcwd()
    except OSError:
        directory = None
    return _ProcessState(
        directory,
        _umask(),
        _ENVIRONMENT.copy(),
        path=list(sys.path),
        recursion=sys.getrecursionlimit(),
        streams=(sys.stdin, sys.stdout, sys.stderr),
        handlers=tuple(map(signal.getsignal, _SIGNALS)),
    )


def _umask() -> int:
    """Return the umask, to restore it after provider code; the system reports it only while another one is set."""
    mask = os.umask(0o077)  # narrow: another thread may create a file now
    os.umask(mask)
    return mask


def _restore(before: _ProcessState) -> None:
    """Restore the state ``before`` provider code, so that the run and later providers do not depend on its changes.

    Usually nothing has changed.
    """
    sys.setrecursionlimit(before.recursion)  # first: a low one would break the rest
    after = _process_state()
    if after == before:
        return
    if before.directory and after.directory != before.directory:
        with suppress(FileNotFoundError):  # the code may have removed it, as was its task
            os.chdir(before.directory)
    os.umask(before.umask)
    if after.environment != before.environment:
        os.environb.clear()
        os.environb.update(before.environment)
    sys.path[:] = before.path
    sys.stdin, sys.stdout, sys.stderr = before.streams
    for number, handler in zip(_SIGNALS, before.handlers, strict=True):
        if signal.getsignal(number) != handler and handler is not None:
            signal.signal(number, handler)


def _copy_descriptors() -> list[tuple[int, int]]:
    """Return (number, copy) for each open standard descriptor, to restore one that provider code closes or replaces."""
    copies = []
    for number in _STANDARD_DESCRIPTORS:
        with suppress(OSError):
            copies.append((number, fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 3)))
    return copies


def replace_descriptor(number: int, descriptor: int) -> None:
    """Make a standard descriptor a copy of another one, which stays open until the process ends."""
    _replacements[number] = descriptor
    os.dup2(descriptor, number)


def _restore_descriptors(copies: list[tuple[int, int]]) -> None:
    """Open the standard descriptors again that provider code has closed or replaced.

    A lasting replacement (``replace_descriptor``), as by the filter of the output, stays.
    """
    for number, copy in copies:
        source = _replacements.get(number, copy)
        if _file_identity(number) != _file_identity(source):
            os.dup2(source, number)


def _close(copies: list[tuple[int, int]]) -> None:
    for _, copy in copies:
        os.close(copy)


def _file_identity(descriptor: int) -> tuple[int, int] | None:
    """Return device and inode of an open file, by which two descriptors are compared; None for a closed one."""
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino


_WRITE_FLAGS: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
#: Audit events (Python reference, "Audit events table") that change something outside this process.
_CHANGES: Final = frozenset(
    {
        *(f"os.{verb}" for verb in ("chmod", "chown", "exec", "fork", "forkpty", "kill", "killpg", "link", "lockf")),
        *(f"os.{verb}" for verb in ("mkdir", "posix_spawn", "putenv", "remove", "removexattr", "rename", "rmdir")),
        *(f"os.{verb}" for verb in ("setxattr", "spawn", "symlink", "system", "truncate", "unsetenv", "utime")),
        *(f"shutil.{verb}" for verb in ("copyfile", "move", "rmtree", "make_archive", "unpack_archive")),
        *(f"socket.{verb}" for verb in ("bind", "connect", "sendmsg", "sendto")),
        *("subprocess.Popen", "pty.spawn", "sqlite3.connect", "tempfile.mkdtemp", "tempfile.mkstemp", "urllib.Request"),
    }
)


class _Sandbox(threading.local):
    """The name of the pure code that runs in this thread, for messages, or ""."""

    code = ""


_sandbox: Final = _Sandbox()


@cache
def _install_hook() -> None:
    """Install the audit hook once: it cannot be removed, and is shared by all threads."""
    sys.addaudithook(_audit)


@contextmanager
def read_only(code: str) -> Iterator[None]:
    """Refuse changes to the system by pure code, such as a component or policy, inside the ``with`` block.

    An attempt to write, remove, run or connect raises ``PermissionError``, which names the ``code``, at the line that
    makes it. Reading is allowed. This catches mistakes and is no protection against malicious code.
    """
    _install_hook()
    before, _sandbox.code = _sandbox.code, code
    try:
        yield
    finally:
        _sandbox.code = before


def _audit(event: str, arguments: tuple[object, ...]) -> None:
    """Raise ``PermissionError`` for a change of the system by pure code; called for each audit event of Python."""
    if not _sandbox.code:
        return
    # The arguments of ``open`` are path, mode and flags.
    writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITE_FLAGS
    if writes or event in _CHANGES:
        first = f" {arguments[0]!r}" if writes else ""
        msg = f"{_sandbox.code} must not change the system; refused: {event}{first}{' for writing' if writes else ''}"
        raise PermissionError(msg)


#: Seconds that a call has to end itself, with a better message; its programs are killed after two.
_GRACE: Final = 4.0


def time_limit(deadline: float, declared: float) -> AbstractContextManager[None]:
    """Return a context that raises ``ResourceError`` inside, four seconds after ``deadline`` of ``time.monotonic``.

    It ends provider code that runs without end; the message names the ``declared`` limit in seconds. Programs and
    workers have limits of their own, which end within the four seconds with a better message. In the main thread an
    alarm also ends a long call of C code, such as a regular expression, unless the embedding program uses the alarm
    itself. In other threads only Python code can be ended.
    """
    seconds, message = max(0.0, deadline - time.monotonic()), f"timed out after {declared:g} s"
    is_main = threading.current_thread() is threading.main_thread()
    return _alarm(seconds, message) if is_main else _asynchronous(seconds, message)


@contextmanager
def _alarm(seconds: float, message: str) -> Iterator[None]:
    """Raise ``ResourceError`` after some seconds in the main thread, also in C code.

    Do nothing if the embedding program uses the alarm itself.
    """
    if signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL or signal.getitimer(signal.ITIMER_REAL)[0]:
        yield
        return
    is_running = True

    def end(_number: int, _frame: object) -> None:
        if is_running:
            raise ResourceError(message)

    signal.signal(signal.SIGALRM, end)
    try:
        # Repeatedly, because code in the block may catch the first exception.
        signal.setitimer(signal.ITIMER_REAL, seconds + _GRACE, _GRACE)
        yield
    finally:
        is_running = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


@contextmanager
def _asynchronous(seconds: float, message: str) -> Iterator[None]:
    """Raise ``ResourceError`` after some seconds, in a thread other than the main one, which alone can handle alarms.

    A timer has the interpreter raise it between two Python instructions, so a call of C code is not ended.
    """
    import ctypes

    class TimedOutError(ResourceError):
        """A class, because the interpreter makes the instance itself."""

        def __init__(self) -> None:
            super().__init__(message)

    thread, lock, is_running = ctypes.c_ulong(threading.get_ident()), threading.Lock(), True
    set_exception = ctypes.pythonapi.PyThreadState_SetAsyncExc

    def end() -> None:
        with lock:
            if is_running:
                set_exception(thread, ctypes.py_object(TimedOutError))

    timer = threading.Timer(seconds + _GRACE, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        with lock:
            is_running = False
            set_exception(thread, None)  # one that was set and not yet raised
        timer.cancel()
