"""Run the command in a process of its own that is forked from one that has imported it.

The interpreter's start and the imports are most of the time of a short command, and thousands of tests run one.
Each run is still a process: its own arguments, environment, directory, standard streams, signals and exit code, in the
namespaces of the thread that asks for it. Not for tests of what is imported when, nor for what happens to the
interpreter itself: these start ``python -m resource_api``.
"""

from __future__ import annotations

import atexit
import compileall
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT: Final = Path(__file__).resolve().parent.parent

#: What only changes an interpreter as it starts; a run with any other variable of its own is started anew.
_FORKABLE: Final = {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"}
#: The kinds of namespaces that a run enters; of the last one only the children of a process become members.
_NAMESPACES: Final = ("user", "ipc", "uts", "net", "cgroup", "mnt", "pid")
_PARENT_DEATH_SIGNAL: Final = 1
#: Stands for the process id of a server that other processes than the one that started it use.
_SHARED: Final = 0
#: Imported once: what the command loads when it needs it.
_LIBRARIES: Final = ("jsonschema", "structlog", "yaml", "sqlite3", "sh", "difflib", "uuid", "ssl")


class _Server:
    """The process that forks; one for each process that runs tests, started with the first command."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "PYTHONPATH": str(ROOT)}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", f"from tests.command import serve; serve({theirs.fileno()})"],
            env=environment,
            cwd=ROOT,
            pass_fds=[theirs.fileno()],
        )
        theirs.close()
        self._socket = ours
        atexit.register(self.close)

    def close(self) -> None:
        """End the server: it stops at the end of its input."""
        self._socket.close()
        self._process.wait()

    def start(self, request: Mapping[str, Any], streams: Sequence[int], within: int | None = None) -> socket.socket:
        """Start a run with these standard streams; return the socket that yields its process id and its exit code.

        It runs in the namespaces of the process ``within``, or else in those of this thread.
        """
        ours, theirs = socket.socketpair()
        with theirs, tempfile.TemporaryFile() as file:
            file.write(json.dumps({**request, "namespaces": self._foreign_namespaces(within)}).encode())
            file.seek(0)
            socket.send_fds(self._socket, [b"!"], [file.fileno(), theirs.fileno(), *streams])
        return ours

    def _foreign_namespaces(self, within: int | None) -> list[str]:
        """Return the paths of the namespaces of a process, or of this thread, that are not those of the server."""
        there = Path(f"/proc/{within}" if within else f"/proc/{os.getpid()}/task/{threading.get_native_id()}", "ns")
        here = Path(f"/proc/{self._process.pid}/ns")
        return [str(there / kind) for kind in _NAMESPACES if not (there / kind).samefile(here / kind)]


_servers: dict[int, _Server] = {}
#: Seconds of processor time of the runs that this process waited for; they are no children of its own.
used: Final[list[float]] = []


def _server() -> _Server:
    """Return the server of this process, or the one that it shares."""
    return _servers.get(_SHARED) or _servers.get(os.getpid()) or _servers.setdefault(os.getpid(), _Server())


def stop_ignoring_signals() -> None:
    """Handle SIGINT and SIGQUIT again, which a shell ignores in the background of a script, and SIGHUP, as nohup does.

    Every program under test would inherit that.
    """
    handlers = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGQUIT: signal.SIG_DFL,
        signal.SIGHUP: signal.SIG_DFL,
    }
    for number, handler in handlers.items():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


def share() -> None:
    """Start a server for all processes that will be forked from this one."""
    _servers[_SHARED] = _Server()


def environment_of(home: Path, **more: str) -> dict[str, str]:
    """Return the variables of a run: those of a user at ``home``, those that a measured run needs, and ``more``."""
    measured = {name: value for name, value in os.environ.items() if name.startswith("COVERAGE_")}
    user = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(home), "LC_ALL": "C.UTF-8"}
    return {**measured, **user, "PYTHONPATH": str(ROOT), **more}


def run(
    arguments: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout: float = 200,
    stdin: int = subprocess.DEVNULL,
    stdout: int = subprocess.PIPE,
    stderr: int = subprocess.PIPE,
    text: bool = False,
    processor_seconds: int | None = None,
    within: int | None = None,
) -> subprocess.CompletedProcess[Any]:
    """Return how ``resource-api ARGUMENTS`` ended, as ``subprocess.run`` would.

    A measured run, and one whose interpreter must start in another way, is started anew. A run that needs more than
    ``processor_seconds`` is killed: other than ``timeout``, this bound does not depend on what else the machine does.
    ``within`` is the process whose namespaces it has, if not those of this thread.
    """
    words = [sys.executable, "-P", "-m", "resource_api", *arguments]
    strange = {name for name in env if name.startswith(("PYTHON", "COVERAGE_"))} - _FORKABLE
    customized = any(Path(path, "sitecustomize.py").exists() for path in env.get("PYTHONPATH", "").split(os.pathsep))
    if strange or customized or stdin == subprocess.PIPE:
        limited = [] if processor_seconds is None else ["prlimit", f"--cpu={processor_seconds}"]
        inside = [] if within is None else ["nsenter", f"--target={within}", "--all", "env", f"--chdir={cwd}"]
        return subprocess.run(
            [*limited, *inside, *words],
            cwd=cwd if within is None else None,
            env=dict(env),
            timeout=timeout,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            text=text,
            check=False,
        )
    request = {"arguments": list(arguments), "cwd": str(cwd), "env": dict(env), "processor_seconds": processor_seconds}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, Path(os.devnull).open() as nothing:
        streams = [
            nothing.fileno() if stdin == subprocess.DEVNULL else stdin,
            out.fileno() if stdout == subprocess.PIPE else stdout,
            err.fileno() if stderr == subprocess.PIPE else stderr,
        ]
        code = _wait(_server().start(request, streams, within), words, timeout)
        written: list[Any] = []
        for file in (out, err):
            file.seek(0)
            written.append(file.read().decode().replace("\r\n", "\n") if text else file.read())
    return subprocess.CompletedProcess(words, code, *written)


def _wait(answers: socket.socket, words: Sequence[str], timeout: float) -> int:
    """Return the exit code of a run; kill it after ``timeout`` seconds and raise ``TimeoutExpired``."""
    with Running(answers) as started:
        try:
            return started.wait(timeout)
        except TimeoutError:
            raise subprocess.TimeoutExpired(list(words), timeout) from None


class Running:
    """A run that goes on, with its process id; leaving its ``with`` block kills it, unless it has ended."""

    def __init__(self, answers: socket.socket) -> None:
        """Take the socket that ``_Server.start`` has returned."""
        self._answers = answers
        self._lines = answers.makefile("r")
        self.pid = int(self._lines.readline())
        self._ended = False

    def wait(self, timeout: float | None = 50) -> int:
        """Return its exit code. Raise ``TimeoutError`` where it goes on."""
        self._answers.settimeout(timeout)
        code, seconds = self._lines.readline().split()
        self._ended = True
        used.append(float(seconds))
        return int(code)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        with self._answers, self._lines:
            if not self._ended:
                os.kill(self.pid, signal.SIGKILL)


def start(arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], streams: Sequence[int]) -> Running:
    """Start ``resource-api ARGUMENTS`` with three standard streams."""
    request = {"arguments": list(arguments), "cwd": str(cwd), "env": dict(env)}
    return Running(_server().start(request, streams))


#: What stands for the command in a shell: it has a run forked, gives it its own streams, and ends as that does. Only
#: built-in modules, as any other takes longer to import than all of this.
_CLIENT: Final = """\
import _socket, posix, sys
ours = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
ours.connect({path!r})
rights = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
words = [b"\\0".join(word.encode("utf-8", "surrogateescape") for word in sys.argv[1:]), posix.getcwdb()]
words.append(b"\\0".join(name + b"=" + value for name, value in posix.environ.items()))
data = b"\\1".join(words)
sent = ours.sendmsg([data], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
ours.sendall(data[sent:])
ours.shutdown(_socket.SHUT_WR)
code = int(ours.recv(16))
code >= 0 or posix.kill(posix.getpid(), -code)
posix._exit(code)
"""


@contextmanager
def offered(path: Path) -> Iterator[list[str]]:
    """Yield the words that run ``resource-api`` from a shell as ``run`` does, through a socket at ``path``."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        thread = threading.Thread(target=_serve_clients, args=(listening,))
        thread.start()
        try:
            yield [sys.executable, "-I", "-S", "-c", _CLIENT.format(path=str(path))]
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


def _serve_clients(listening: socket.socket) -> None:
    """Start a run for each client, until the socket is shut down."""
    with suppress(OSError):
        while True:
            client, _ = listening.accept()
            threading.Thread(target=_serve_client, args=(client,)).start()


def _serve_client(client: socket.socket) -> None:
    """Start the run of a client, and answer with its exit code."""
    with client:
        data, streams, _, _ = socket.recv_fds(client, 1 << 20, 3)
        while more := client.recv(1 << 20):
            data += more
        arguments, directory, variables = os.fsdecode(data).split("\1")
        env = dict(word.partition("=")[::2] for word in variables.split("\0"))
        words = arguments.split("\0") if arguments else []
        with start(words, cwd=Path(directory), env=env, streams=streams) as running:
            for stream in streams:
                os.close(stream)
            code = running.wait(None)
        with suppress(BrokenPipeError):
            client.sendall(b"%d" % code)


def compile_code(*directories: Path) -> None:
    """Write the bytecode of the package, the bundled types and of ``directories``: no run of a test writes any."""
    import resource_api
    from resource_api.plugins.module_path import BUNDLED

    bundled = [Path(BUNDLED, kind) for kind in ("types", "providers", "lib")]
    for directory in (Path(resource_api.__file__).parent, *bundled, *directories):
        compileall.compile_dir(directory, quiet=2)


def preload() -> None:
    """Import what the command may load, for all the processes that are forked from this one."""
    import resource_api

    for package in pkgutil.iter_modules(resource_api.__path__, "resource_api."):
        if package.name not in {"resource_api.testing", "resource_api.__main__"}:
            paths = getattr(importlib.import_module(package.name), "__path__", ())
            for module in pkgutil.walk_packages(paths, f"{package.name}."):
                importlib.import_module(module.name)
    for library in _LIBRARIES:
        with suppress(ImportError):
            importlib.import_module(library)
    _compile_patterns()
    # What stays is not looked at again by a forked process, which would copy all of it.
    gc.collect()
    gc.freeze()


def _compile_patterns() -> None:
    """Compile the regular expressions that a run would compile at their first use."""
    from resource_api.model.values.start_up import regex

    lazy = type(regex(""))
    for name, module in list(sys.modules.items()):
        if name.startswith("resource_api."):
            for value in vars(module).values():
                if isinstance(value, lazy):
                    value.match  # noqa: B018 - compiles it


def serve(number: int) -> None:
    """Fork a process for each request on the socket ``number``, until its other end is closed."""
    requests, running, ready = socket.socket(fileno=number), dict[int, tuple[int, int]](), select.poll()
    ready.register(requests, select.POLLIN)
    ready.poll()
    if not requests.recv(1, socket.MSG_PEEK):
        return  # no run was asked for
    preload()
    while True:
        for descriptor, _ in ready.poll():
            if descriptor in running:
                ready.unregister(descriptor)
                _answer_end(descriptor, *running.pop(descriptor))
                continue
            message, descriptors, _, _ = socket.recv_fds(requests, 1, 5)
            if not message:
                return
            request, answers, *streams = descriptors
            if (pid := os.fork()) == 0:
                requests.close()
                for value in (answers, *running, *(answers for _, answers in running.values())):
                    os.close(value)
                _become_run(request, streams)
            for item in (request, *streams):
                os.close(item)
            os.write(answers, b"%d\n" % pid)
            process = os.pidfd_open(pid)
            running[process] = pid, answers
            ready.register(process, select.POLLIN)


def _answer_end(process: int, pid: int, answers: int) -> None:
    """Answer with the exit code of a run that has ended, and with the seconds of processor time that it used."""
    _, status, times = os.wait4(pid, 0)
    with suppress(BrokenPipeError):
        os.write(answers, b"%d %.3f\n" % (os.waitstatus_to_exitcode(status), times.ru_utime + times.ru_stime))
    os.close(answers)
    os.close(process)


def _become_run(request: int, streams: Sequence[int]) -> NoReturn:
    """Become the run that is asked for, in a process that was forked for it."""
    with open(request, "rb") as file:
        become(json.load(file), streams)
    from resource_api.__main__ import main

    try:
        main()
    except SystemExit as ended:
        _end(ended)
    raise SystemExit


def _end(ended: SystemExit) -> NoReturn:
    """End this process as the interpreter does, but do not free what was imported: that takes 40 ms."""
    threading._shutdown()  # type: ignore[attr-defined] # as in a child of multiprocessing, which needs it too
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        raise ended from None
    if not isinstance(ended.code, int):
        raise ended
    os._exit(ended.code & 0xFF)


def _enter(namespaces: Sequence[str]) -> None:
    """Enter namespaces; of processes, by a child that does the rest, and whose end becomes that of this process."""
    libc, descriptors = ctypes.CDLL(None, use_errno=True), [os.open(path, os.O_RDONLY) for path in namespaces]
    for descriptor in descriptors:
        if libc.setns(descriptor, 0):
            raise OSError(ctypes.get_errno(), f"setns: {namespaces}")
        os.close(descriptor)
    if namespaces and namespaces[-1].endswith("/pid"):
        if child := os.fork():
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            if code < 0:
                os.kill(os.getpid(), -code)
            os._exit(code)
        libc.prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def become(request: Mapping[str, Any], streams: Sequence[int]) -> None:
    """Make this process what a freshly started interpreter would be."""
    for index, descriptor in enumerate(streams):
        os.dup2(descriptor, index)
        if descriptor > 2:
            os.close(descriptor)
    sys.stdin, sys.stdout, sys.stderr = (
        open(location, mode, encoding="utf-8", errors=errors, buffering=buffering, closefd=False)  # noqa: SIM115
        for location, mode, errors, buffering in (
            (0, "r", "surrogateescape", -1),
            (1, "w", "surrogateescape", -1),
            (2, "w", "backslashreplace", 1),
        )
    )
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    if seconds := request.get("processor_seconds"):
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    _enter(request.get("namespaces", ()))
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    tempfile.tempdir = None  # otherwise temporary files of a command that is killed would stay in /tmp
    sys.path[:0] = [path for path in os.environ.get("PYTHONPATH", "").split(":") if path and path not in sys.path]
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    sys.argv = ["resource-api", *request["arguments"]]
