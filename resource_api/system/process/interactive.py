"""Run a program that the user has chosen, with the user's environment and search path: a pager, an editor, a shell.

Programs that manage resources are run by ``process``.
"""

from __future__ import annotations

import errno
import os
import pty
import select
import shlex
import shutil
import signal
import subprocess
import tempfile
import termios
import time
import tty
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, NoReturn

from resource_api.system.filesystem import trees
from resource_api.system.filesystem.directories import write_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

#: Time limit in seconds of a program whose output is read; as long as a provider's, for it may prompt the user.
TIMEOUT: Final = 300.0
#: Seconds from SIGTERM to SIGKILL.
GRACE: Final = 2.0
_CHUNK: Final = 65536


def page(text: str, command: str, stdout: int) -> bool:
    """Show ``text`` with the pager ``command`` on the descriptor ``stdout``; return whether the pager could be started.

    If not, the caller prints the text itself. A pager that ends before it has read everything is no error.
    """
    # As git sets them: colors are shown, and a text of one screen needs no key.
    environment = {"LESS": "FRX", "LV": "-c", **os.environ}
    try:
        pager = subprocess.Popen(shlex.split(command), stdin=subprocess.PIPE, stdout=stdout, env=environment)  # noqa: S603 - the user's own choice
    except (OSError, ValueError):
        return False
    with _interrupts_ignored(), suppress(BrokenPipeError):
        pager.communicate(text.encode(errors="backslashreplace"))
    return True


def edit(path: str, command: str, stdout: int) -> int:
    """Edit a file with the editor ``command``, wait for its end, and return its exit code.

    The editor creates its temporary files in the directory of the file: for a file with secrets this is in memory, so
    that none of them reaches the disk. ``stdout``: the descriptor of the terminal. Raise ``OSError`` if the editor
    cannot be started, ``ValueError`` for a command with an unclosed quote.
    """
    environment = {**os.environ, "TMPDIR": os.path.dirname(path)}
    editor = subprocess.Popen([*shlex.split(command), path], stdout=stdout, env=environment)  # noqa: S603 - the user's own choice
    with _interrupts_ignored():
        try:
            return editor.wait()
        except BaseException:
            _end(editor)
            raise


#: Removes a directory at the end of its input: it has a session of its own, and outlives this process by that.
_REMOVER: Final = ("/bin/sh", "-c", 'trap "" HUP INT TERM; cat >/dev/null; rm -rf -- "$1"', "sh")


@contextmanager
def memory_directory() -> Iterator[str]:
    """Yield a private directory in memory (tmpfs) for secrets, removed at the end, also when this process is killed.

    A small program removes it as soon as this process has gone. Raise ``OSError`` if no file system in memory can be
    written to.
    """
    path = tempfile.mkdtemp(prefix="resource-api-", dir=_memory())
    silent = subprocess.DEVNULL
    with subprocess.Popen(  # noqa: S603 - constant
        [*_REMOVER, path], stdin=subprocess.PIPE, stdout=silent, stderr=silent, start_new_session=True
    ):
        try:
            yield path
        finally:
            shutil.rmtree(path)


def _memory() -> str:
    """Return a writable directory of a file system in memory, where no secret reaches a disk. Raise ``OSError``."""
    devices = {mount.device for mount in trees.mounts() if mount.kind in {"tmpfs", "ramfs"}}
    for path in (os.environ.get("XDG_RUNTIME_DIR", ""), "/dev/shm", "/run"):  # noqa: S108 - a new directory beneath
        if os.access(path, os.W_OK | os.X_OK):
            number = os.stat(path).st_dev
            if f"{os.major(number)}:{os.minor(number)}" in devices:
                return path
    raise OSError(errno.ENODEV, "no file system in memory (tmpfs) can be written to, such as /dev/shm")


def shell(command: str, text: str = "") -> int:
    """Run a command line of the user's, such as a hook, with ``text`` as input; return its exit code, 128 + signal."""
    code = subprocess.run(["/bin/sh", "-c", command], input=text.encode(), check=False).returncode  # noqa: S603 - see above
    return code if code >= 0 else 128 - code


def output(words: Sequence[str], directory: str, limit: int, seconds: float = TIMEOUT, *, quiet: bool = False) -> bytes:
    """Return the standard output of a program that the user has declared, such as a source of inputs; it has no input.

    It runs in ``directory``, and shares standard error with this process, unless it is ``quiet``: then its messages are
    discarded. Raise ``OSError`` if it cannot be started, ``ValueError`` with the reason if it fails. It is ended and
    fails if it prints more than ``limit`` bytes or runs longer than ``seconds``.
    """
    if not words:
        raise ValueError("no program is named")
    end = time.monotonic() + seconds
    stderr = subprocess.DEVNULL if quiet else None
    with subprocess.Popen(  # noqa: S603 - see above
        words, cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr
    ) as program:
        try:
            printed = _printed(program, limit, end)
            code = program.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            _end(program)
            raise ValueError(f"it has not ended within {seconds:g} s") from None
        except BaseException:
            _end(program)
            raise
    if code:
        raise ValueError(f"it has failed with exit code {code}" if code > 0 else f"it was ended by signal {-code}")
    return printed


def _printed(program: subprocess.Popen[bytes], limit: int, end: float) -> bytes:
    """Return the whole output of a program. Raise ``ValueError`` above ``limit`` bytes, and ``TimeoutExpired``."""
    assert program.stdout is not None  # noqa: S101 - it is a pipe
    poller, printed = select.poll(), bytearray()
    poller.register(program.stdout, select.POLLIN)
    while poller.poll(1000 * max(0.0, end - time.monotonic())):
        if not (data := os.read(program.stdout.fileno(), _CHUNK)):
            return bytes(printed)
        printed += data
        if len(printed) > limit:
            raise ValueError(f"it has printed more than {limit // 1_000_000} MB")
    raise subprocess.TimeoutExpired(program.args, 0)


def _end(program: subprocess.Popen[bytes]) -> None:
    """End a program that takes too long, and kill it after a grace period. Its children get no signal from here."""
    program.terminate()
    try:
        program.wait(GRACE)
    except subprocess.TimeoutExpired:
        program.kill()


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Ignore Ctrl-C inside the block: it is meant for the program, which has the terminal."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


#: Seconds between two checks of the terminal's size and of ``stopped``.
_CHECK_SECONDS: Final = 0.5


def run_shell(terminal: int, greeting: str, stopped: Callable[[], bool]) -> None:
    """Run the user's shell until it ends, on a new terminal that is connected to the descriptor ``terminal``.

    A rehearsal lets the user examine its results so. The shell needs a terminal of its own, because ``terminal``
    belongs to another session, in which it would have no job control. ``terminal`` is raw meanwhile, so that the shell
    gets all keys, also Ctrl-C. The shell is killed when ``stopped`` returns True.
    """
    before = termios.tcgetattr(terminal)
    child, inner = pty.fork()
    if not child:
        _become_shell()
    try:
        tty.setraw(terminal, termios.TCSADRAIN)
        with suppress(OSError):  # of a terminal that was closed, the inner one by its last process
            os.write(terminal, f"{greeting}\r\n".encode())
            _pass_on(terminal, inner, stopped)
    finally:
        with suppress(termios.error):
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)
        os.close(inner)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL if stopped() else signal.SIGHUP)
        os.waitpid(child, 0)


def _become_shell() -> NoReturn:
    """Execute the user's shell, or ``/bin/sh`` if that is impossible, in the forked process; never return."""
    for shell in (os.environ.get("SHELL") or "/bin/sh", "/bin/sh"):
        with suppress(OSError):
            os.execv(shell, [shell])  # noqa: S606 - the user's own shell
    os._exit(127)


def _pass_on(terminal: int, inner: int, stopped: Callable[[], bool]) -> None:
    """Copy between ``terminal`` and the shell's terminal ``inner`` in both directions, until the end of input.

    The size of ``terminal`` is compared in each round and passed on, because the signal of its change (SIGWINCH) is not
    sent to this session. Raise ``OSError`` when one of the two is closed.
    """
    size = os.terminal_size((0, 0))
    while not stopped():
        if size != (new_size := os.get_terminal_size(terminal)):
            size = new_size
            termios.tcsetwinsize(inner, (size.lines, size.columns))
        ready, _, _ = select.select([terminal, inner], [], [], _CHECK_SECONDS)
        for source, target in ((inner, terminal), (terminal, inner)):
            if source in ready and not _copy(source, target):
                return


def _copy(source: int, target: int) -> bool:
    """Copy the available data from one terminal to the other; return False at its end. Raise ``OSError``."""
    data = os.read(source, _CHUNK)
    if data:
        write_all(target, data)
    return bool(data)
