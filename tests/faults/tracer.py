"""Run the command as a forked process under ptrace, with one fault at one system call of it or of its programs.

A point is found again by the name of the program, the name of the call and its ordinal among these: in one run after
another a program makes the same calls, and only the order of programs that run at the same time differs. A killed run
loses all its processes in the same moment, as with the kill of a cgroup or the end of the machine.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tests import command
from tests.faults.syscalls import CALLS, MAKES, install_filter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

_TRACEME, _CONT, _GETREGS, _SETREGS, _SETOPTIONS, _GETEVENTMSG = 0, 7, 12, 13, 0x4200, 0x4201
#: Follow fork, vfork and clone, report execve and seccomp, and let no process outlive the tracer.
_OPTIONS: Final = 0x2 | 0x4 | 0x8 | 0x10 | 0x80 | 0x100000
_SECCOMP: Final = 7
_BORN: Final = {1, 2, 3}
_WALL: Final = 0x40000000
#: Indices in user_regs_struct of x86-64: the result, the number of the call, and the arguments.
_RESULT, _NUMBER, _ARGUMENTS = 10, 15, (14, 13, 12, 7, 9, 8)
_MASK: Final = (1 << 64) - 1
_PAGE: Final = 4096
_SUBREAPER: Final = 36
KILL: Final = "KILL"
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_LIBC.ptrace.restype = ctypes.c_long
_LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


class Point(NamedTuple):
    """One system call of a run: its program, its name, its ordinal among the calls of both, and its files."""

    program: str
    call: str
    ordinal: int
    text: str = ""

    def __str__(self) -> str:
        """Return a text by which the point can be found again."""
        return f"{self.program} {self.call}#{self.ordinal} {self.text[:100]}"


class Outcome(NamedTuple):
    """How a traced run ended."""

    #: The exit code, or minus the signal that killed it.
    returncode: int
    stdout: str
    stderr: str
    #: The points of the run in their order.
    points: list[Point]
    #: Whether the point of the fault was reached.
    reached: bool


def run(
    arguments: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    watched: Sequence[str] = (),
    point: Point | None = None,
    fault: str | Callable[[], None] = KILL,
    timeout: int = 50,
) -> Outcome:
    """Run ``resource-api ARGUMENTS``; at ``point`` kill it, refuse the call with the error named, or call a function.

    ``watched``: the files and directories whose calls are points. Raise ``TimeoutExpired`` after ``timeout`` seconds.
    """
    assert platform.machine() == "x86_64", "the numbers of the system calls are those of x86-64"
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as answer:
        tracer = os.fork()
        if tracer == 0:
            trace, streams = _Trace(watched, point, fault), [out.fileno(), err.fileno()]
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(timeout)
            _leave(lambda: _supervise(lambda: _execute(arguments, cwd, env, streams), trace, answer.fileno()))
        _, status = os.waitpid(tracer, 0)
        texts = []
        for file in (out, err, answer):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    if not texts[2]:
        raise subprocess.TimeoutExpired([*arguments], timeout, texts[0], f"{texts[1]} {status}")
    code, points, reached = json.loads(texts[2])
    return Outcome(code, texts[0], texts[1], [Point(*item) for item in points], reached)


def _leave(work: Callable[[], None]) -> None:
    """Do the work of a forked process and end it: nothing of the process that it was forked from may run here."""
    code = 1
    try:
        work()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:  # noqa: BLE001 - the last place that can report it
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _supervise(work: Callable[[], None], trace: _Trace, answer: int) -> None:
    """Start the run, trace it and write how it ended; orphans are reaped, so that no dead program looks alive."""
    _LIBC.prctl(_SUBREAPER, 1, 0, 0, 0)
    run = os.fork()
    if run == 0:
        _leave(work)
    code = trace.follow(run)
    os.write(answer, json.dumps([code, trace.points, trace.reached]).encode())


def _execute(arguments: Sequence[str], cwd: Path, env: Mapping[str, str], streams: Sequence[int]) -> None:
    """Become the command, traced by the parent."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    command.become({"arguments": arguments, "cwd": str(cwd), "env": dict(env)}, [nothing, *streams])
    _ptrace(_TRACEME, 0)
    os.kill(os.getpid(), signal.SIGSTOP)
    install_filter()
    from resource_api.__main__ import main

    main()


class _Trace:
    """The tracer's loop: counts the points of a run and injects the fault."""

    def __init__(self, watched: Sequence[str], point: Point | None, fault: str | Callable[[], None]) -> None:
        self._watched = tuple(watched)
        self._point = point and point[:3]
        self._fault = fault
        self._count: Counter[tuple[str, str]] = Counter()
        self._alive: set[int] = set()
        self._killed = False
        self.points: list[Point] = []
        self.reached = False

    def follow(self, run: int) -> int:
        """Follow a run and all its processes to their end; return the exit code of the run."""
        os.waitpid(run, 0)
        _ptrace(_SETOPTIONS, run, _OPTIONS)
        self._alive.add(run)
        code = 1
        _ptrace(_CONT, run)
        while True:
            try:
                task, status = os.waitpid(-1, _WALL)
            except ChildProcessError:
                return code
            if not os.WIFSTOPPED(status):
                self._alive.discard(task)
                if task == run:
                    code = os.waitstatus_to_exitcode(status)
            else:
                self._stopped(task, status)

    def _stopped(self, task: int, status: int) -> None:
        """Handle one stop of a process or thread, and continue it."""
        event, number, delivered = status >> 16, os.WSTOPSIG(status), 0
        if event == _SECCOMP:
            self._call(task)
        elif event in _BORN:
            born = ctypes.c_ulong()
            _ptrace(_GETEVENTMSG, task, ctypes.byref(born))
        elif not event and (number != signal.SIGSTOP or task in self._alive):
            delivered = number
        self._alive.add(task)
        if self._killed:
            self._kill()
        with suppress(ProcessLookupError):
            _ptrace(_CONT, task, delivered)

    def _kill(self) -> None:
        self._killed = True
        for task in self._alive:
            with suppress(ProcessLookupError):
                os.kill(task, signal.SIGKILL)

    def _call(self, task: int) -> None:
        """Count a call if it changes something that is watched, and inject the fault if it is the point."""
        registers = (ctypes.c_ulong * 27)()
        _ptrace(_GETREGS, task, ctypes.byref(registers))
        call, kinds = CALLS[registers[_NUMBER]]
        try:
            paths = list(_paths(task, kinds, [registers[argument] for argument in _ARGUMENTS]))
        except ProcessLookupError:
            return
        if not any(path == root or path.startswith(f"{root}/") for path in paths for root in self._watched):
            return
        program = os.path.basename(os.readlink(f"/proc/{task}/exe"))  # noqa: PTH115, PTH119 - quick
        self._count[program, call] += 1
        self.points.append(Point(program, call, self._count[program, call], " ".join(paths)))
        if self.points[-1][:3] == self._point:
            self.reached = True
            self._inject(task, registers)

    def _inject(self, task: int, registers: Any) -> None:
        if callable(self._fault):
            self._fault()
        elif self._fault == KILL:
            self._kill()
        else:
            registers[_NUMBER] = _MASK  # no call is made
            registers[_RESULT] = -getattr(errno, self._fault) & _MASK
            _ptrace(_SETREGS, task, ctypes.byref(registers))


def _paths(task: int, kinds: str, arguments: Sequence[int]) -> Iterator[str]:
    """Yield the paths that a call names, from its arguments; none for an open that makes nothing."""
    for index, kind in enumerate(kinds):
        if kind in "oh":
            flags = arguments[index] if kind == "o" else int.from_bytes(_memory(task, arguments[index], 8), "little")
            if not flags & MAKES:
                return
    base = "cwd"
    for kind, argument in zip(kinds, arguments, strict=False):
        if kind in "fd":
            number = ctypes.c_int(argument & 0xFFFFFFFF).value
            base = "cwd" if number == -100 else f"fd/{number}"
            if kind == "f":
                yield _link(task, base)
        elif kind == "p":
            path = _text(task, argument)
            yield path if path.startswith("/") else f"{_link(task, base)}/{path}".rstrip("/")


def _link(task: int, name: str) -> str:
    """Return what a descriptor or the working directory of a process is: ``socket:`` for any socket, empty for none."""
    try:
        result = os.readlink(f"/proc/{task}/{name}")  # noqa: PTH115 - text in, text out
        return "socket:" if result.startswith("socket:") else result
    except FileNotFoundError:
        return ""


def _memory(task: int, address: int, length: int) -> bytes:
    """Return bytes of a process's memory; fewer where it ends."""
    fd = os.open(f"/proc/{task}/mem", os.O_RDONLY)
    try:
        return os.pread(fd, length, address)
    except OSError:
        return b""
    finally:
        os.close(fd)


def _text(task: int, address: int) -> str:
    """Return a text in a process's memory up to its NUL; empty for a null pointer."""
    data = b""
    while address and b"\0" not in data and len(data) <= _PAGE:
        more = _memory(task, address + len(data), _PAGE - (address + len(data)) % _PAGE)
        if not more:
            break
        data += more
    return os.fsdecode(data.partition(b"\0")[0])


def _ptrace(request: int, task: int, data: Any = None) -> None:
    if _LIBC.ptrace(request, task, None, data) == -1:
        raise OSError(ctypes.get_errno(), f"ptrace {request}")
