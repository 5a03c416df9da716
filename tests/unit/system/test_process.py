"""Running one program: it and all its descendants are ended, unless they end themselves."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from resource_api.system.process import process, process_tree
from resource_api.system.process.process import STDERR, STDOUT, Invocation, Process, stop_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.process

ENV = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
GET_SUBREAPER = 37
#: Whether programs are started as those that only read.
READING = False


class LimitError(Exception):
    """The time limit of a test."""


def patience(seconds: float) -> Callable[[], float]:
    """Return a timeout function that raises ``LimitError`` after ``seconds``."""
    until = time.monotonic() + seconds

    def left() -> float:
        if time.monotonic() > until:
            raise LimitError
        return 0.05

    return left


def program(path: str, *arguments: str) -> Invocation:
    """Return the invocation of a program, which is started in the way that the test is about."""
    return Invocation(path, arguments, ENV, reading=READING)


def shell(script: str, *arguments: str) -> Invocation:
    """Return the invocation of a shell script."""
    return program("/bin/sh", "-c", script, "test", *arguments)


@pytest.fixture(params=[False, True], ids=["by sh", "by fork"])
def _started(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the programs of a test started in either way."""
    monkeypatch.setattr(sys.modules[__name__], "READING", request.param)


#: Marks a law of both ways to start a program.
both = pytest.mark.usefixtures("_started")


def run(invocation: Invocation, seconds: float = 20) -> tuple[int | None, bytes, bytes]:
    """Run a program to its end; return exit code, stdout and stderr."""
    message = {STDOUT: b"", STDERR: b""}
    with Process(invocation) as running:
        for stream, chunk in running.chunks(patience(seconds)):
            message[stream] += chunk
    if running.failure is not None:
        raise running.failure
    return running.exit_code, message[STDOUT], message[STDERR]


def test_a_wait_longer_than_the_system_allows_is_made_of_several() -> None:
    """A time limit of more than 24 days, the most for one wait, is accepted."""
    with Process(program("/bin/echo", "a")) as running:
        assert list(running.chunks(lambda: 86_400.0 * 365)) == [(STDOUT, b"a\n")]


def state(pid: int) -> str:
    """Return the state of a process; ``-`` when there is none."""
    row = process_tree.row(pid)
    return row.state if row else "-"


def pids(directory: Path, count: int) -> list[int]:
    """Wait until ``count`` processes have written their numbers into ``directory``, and return them."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        result = [path.read_text().strip() for path in directory.glob("*.pid")]
        if len(result) == count and all(result):
            return [int(text) for text in result]
        time.sleep(0.01)
    raise AssertionError(f"{count} processes were to start, {len(result)} did")


def gone(numbers: list[int], seconds: float = 3) -> bool:
    """Whether all these processes have ended and been reaped within ``seconds``."""
    until = time.monotonic() + seconds
    while any(state(pid) != "-" for pid in numbers) and time.monotonic() < until:
        time.sleep(0.01)
    return all(state(pid) == "-" for pid in numbers)


#: Daemonizes (fork, setsid, fork) without the pipes of its parent, writes its number, and sleeps.
DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        null = os.open(os.devnull, os.O_RDWR)
        for fd in range(3):
            os.dup2(null, fd)
        with open(sys.argv[1] + ".new", "w") as file:
            file.write(str(os.getpid()))
        os.rename(sys.argv[1] + ".new", sys.argv[1])
        time.sleep(30)
    os._exit(0)
os.wait()
"""


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[str]:
    """Return shell code that starts a daemon; its number is written to ``$1/<name>.pid``."""
    script = tmp_path / "daemon.py"
    script.write_text(DAEMON)
    yield f"{sys.executable} -I {script} $1"
    for path in tmp_path.glob("*.pid"):
        with suppress(ProcessLookupError, ValueError):
            os.kill(int(path.read_text()), signal.SIGKILL)


@both
def test_both_streams_and_the_exit_code_arrive() -> None:
    """Stdout and stderr are read separately, to the last byte."""
    assert run(shell("printf out; printf err >&2; exit 7")) == (7, b"out", b"err")


@both
def test_a_signal_is_a_negative_exit_code() -> None:
    """The number is that of the signal."""
    assert run(shell("kill -TERM $$"))[0] == -signal.SIGTERM


@both
def test_both_pipes_are_drained() -> None:
    """A program that fills stderr before stdout, or the reverse, never blocks."""
    script = "head -c 1000000 /dev/zero >&2; head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2"
    code, out, err = run(shell(script))
    assert (code, len(out), len(err)) == (0, 1000000, 2000000)


@both
def test_every_byte_reaches_the_program() -> None:
    """All 255 byte values of an argument arrive unchanged, with surrogate escapes for bytes."""
    data = bytes(range(1, 256))
    code, out, _ = run(shell('printf %s "$1"', data.decode("utf-8", "surrogateescape")))
    assert (code, out) == (0, data)


@both
def test_a_program_with_a_foreign_name_runs(tmp_path: Path) -> None:
    """A path that is not ASCII, or not text, is executed by its bytes."""
    for name in ("jürgen", os.fsdecode(b"\xff\xfe")):
        script = tmp_path / name
        script.write_text("#!/bin/sh\necho it is\n")
        script.chmod(0o755)
        assert run(program(str(script)))[1] == b"it is\n"


@both
def test_stdin_is_empty_or_the_given_input() -> None:
    """Without input a program reads the end at once; with input of any size it reads all of it."""
    assert run(shell("wc -c"))[1].strip() == b"0"
    assert run(shell("wc -c")._replace(input=b"x" * 20_000_000))[1].strip() == b"20000000"


@both
def test_a_program_sees_three_descriptors_and_no_terminal() -> None:
    """Other descriptors, even inheritable ones, are closed; there is no controlling terminal."""
    fd = os.open("/etc/passwd", os.O_RDONLY)
    os.set_inheritable(fd, True)  # noqa: FBT003 - the standard library's signature
    try:
        _, out, _ = run(shell("ls /proc/$$/fd; (: < /dev/tty) 2>/dev/null || echo no terminal"))
    finally:
        os.close(fd)
    assert out.split(b"\n") == [b"0", b"1", b"2", b"no terminal", b""]


@both
def test_signals_and_umask_are_as_at_login() -> None:
    """Signals that this process ignores or blocks, and its umask, are not inherited."""
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN), os.umask(0o077)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    try:
        _, out, _ = run(program("/bin/grep", "-E", "Sig(Blk|Ign)|Umask", "/proc/self/status"))
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR2})
        signal.signal(signal.SIGUSR1, before[0])
        os.umask(before[1])
    umask, blocked, ignored = out.split()[1::2]
    assert (umask, int(blocked, 16)) == (b"0022", 0)
    # Signals from 32 on belong to the C library and are inherited unchanged.
    assert int(ignored, 16) & 0x7FFFFFFF == 0


@pytest.mark.parametrize("ignore", ["", "trap '' TERM;"], ids=["polite", "deaf"])
def test_a_stopped_program_ends_with_all_descendants(tmp_path: Path, daemon: str, ignore: str) -> None:
    """A time limit ends children, grandchildren, other sessions and daemons, even if they ignore SIGTERM."""
    script = f"""{ignore} {daemon}/daemon.pid
    (setsid sh -c "{ignore} echo \\$\\$ > $1/session.pid; sleep 30; sleep 31" &)
    sh -c '{ignore} echo $$ > $0/child.pid; sleep 30; sleep 31' $1 &
    echo $$ > $1/main.pid; sleep 30; sleep 31"""
    started: list[int] = []
    with pytest.raises(LimitError), Process(shell(script, str(tmp_path))) as running:  # noqa: PT012 - the program runs meanwhile
        started += pids(tmp_path, 4)
        list(running.chunks(patience(0.1)))
    assert running.pid in started
    assert running.exit_code == (-signal.SIGKILL if ignore else -signal.SIGTERM)
    assert gone(started, 0)


@both
def test_a_descendant_started_during_the_stop_ends_too(tmp_path: Path) -> None:
    """A process that SIGTERM makes a program start, in another session and orphaned at once, is ended too."""
    script = """trap 'setsid sh -c "echo \\$\\$ > $1/late.pid; sleep 30" & exit 1' TERM
    echo $$ > $1/main.pid; while :; do sleep 0.05; done"""
    with pytest.raises(LimitError), Process(shell(script, str(tmp_path))) as running:  # noqa: PT012 - the program runs meanwhile
        pids(tmp_path, 1)
        list(running.chunks(patience(0.1)))
    late = [int(path.read_text() or 0) for path in tmp_path.glob("late.pid")]
    assert gone(late, 0)
    assert running.exit_code == 1


@both
def test_a_daemon_survives_its_program(tmp_path: Path, daemon: str) -> None:
    """A service that a program started stays, even while another program is being stopped."""
    with pytest.raises(LimitError), Process(shell("trap '' TERM; sleep 30; sleep 31")) as process:  # noqa: PT012 - the program runs meanwhile
        assert run(shell(f"{daemon}/before.pid", str(tmp_path)))[0] == 0
        stopping = threading.Thread(target=process.stop, args=(0.7,))
        stopping.start()
        time.sleep(0.2)
        assert run(shell(f"{daemon}/during.pid", str(tmp_path)))[0] == 0
        alive = pids(tmp_path, 2)
        stopping.join()
        raise LimitError
    time.sleep(0.1)
    assert process.exit_code == -signal.SIGKILL
    assert [state(pid) for pid in alive] == ["S", "S"]


@both
def test_a_daemon_that_keeps_the_pipes_delays_nothing() -> None:
    """The program's output is read completely; a process that keeps its stdout afterwards is not waited for."""
    start = time.monotonic()
    code, out, _ = run(shell("head -c 60000 /dev/zero; sleep 3 &"))
    assert (code, len(out)) == (0, 60000)
    assert time.monotonic() - start < 1.5


def test_a_daemon_that_floods_the_pipes_does_not_prolong_the_reading() -> None:
    """Reading ends with the program, even if another process goes on writing."""
    start = time.monotonic()
    assert run(shell("yes &"))[0] == 0
    assert time.monotonic() - start < 3


@both
def test_an_interrupt_ends_the_tree(tmp_path: Path) -> None:
    """KeyboardInterrupt during a wait is raised, and no process of the program is left."""
    main = threading.main_thread().ident
    assert main
    threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT)).start()
    with (
        pytest.raises(KeyboardInterrupt),
        Process(shell("echo $$ > $1/main.pid; sleep 30; sleep 31", str(tmp_path))) as running,
    ):
        list(running.chunks(patience(20)))
    assert gone([running.pid, *pids(tmp_path, 1)], 0)


@both
def test_an_interrupt_at_any_moment_of_a_start_ends_the_program() -> None:
    """Also between the fork and the registration, after which the program itself may have started others."""

    def handle(*_: object) -> None:
        stop_all()
        process.interrupt()

    run(shell("true"))
    former, before, main = signal.signal(signal.SIGUSR1, handle), children(), threading.main_thread().ident
    assert main
    try:
        for number in range(50):
            timer = threading.Timer(number * 0.0002, signal.pthread_kill, (main, signal.SIGUSR1))
            with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - the signal comes at any moment
                timer.start()
                with Process(shell("sleep 30; :")):
                    time.sleep(10)
            timer.join()
            assert [item for item in children() if item.state not in "ZX" and item not in before] == []
    finally:
        signal.signal(signal.SIGUSR1, former)


@both
def test_stop_all_ends_the_programs_of_all_threads(tmp_path: Path) -> None:
    """One call ends all trees without a grace period, and each thread is informed."""
    ended = []

    def work(number: int) -> None:
        script = f"trap '' TERM; (setsid sh -c 'echo $$ > $1/{number}.pid; sleep 30' - $1 &) ; sleep 30; sleep 31"
        with Process(shell(script, str(tmp_path))) as running:
            list(running.chunks(patience(20)))
        ended.append((running.exit_code, running.stopped))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    started = pids(tmp_path, 3)
    start = time.monotonic()
    stop_all()
    for thread in threads:
        thread.join()
    assert time.monotonic() - start < 1.5
    assert ended == [(-signal.SIGKILL, True)] * 3
    assert gone(started)


def test_this_process_is_no_subreaper_afterwards() -> None:
    """Stopping a program restores the setting of the embedding process."""
    with pytest.raises(LimitError), Process(shell("sleep 30; sleep 31")) as running:
        list(running.chunks(patience(0.1)))
    answer = ctypes.c_int(-1)
    ctypes.CDLL(None).prctl(GET_SUBREAPER, ctypes.byref(answer), 0, 0, 0)
    assert answer.value == 0


def descriptors() -> int:
    """Count the open descriptors of this process."""
    return len(list(Path("/proc/self/fd").iterdir()))


def children() -> list[process_tree.ProcessRow]:
    """Return the children of this process, including zombies."""
    return [row for row in process_tree.table().values() if row.parent == os.getpid()]


@both
def test_nothing_is_left_behind() -> None:
    """After programs that ended, failed or could not start, no zombie, thread or descriptor is left."""
    run(shell("true"))
    before = descriptors(), len(children())
    for _ in range(100):
        run(shell("exit 3"))
    for path in ("/proc/version", "/etc"):
        for _ in range(20):
            with pytest.raises(OSError, match=r"Errno"):
                run(program(path))
    for _ in range(20):
        with pytest.raises(OSError, match="too long"):
            run(shell("true", "x" * 200_000))
    assert (descriptors(), len(children())) == before
    assert not [thread for thread in threading.enumerate() if " for pid " in thread.name]


@both
def test_the_memory_of_a_program_is_free_at_its_end() -> None:
    """Without a collection: until the next one, each program would be the fork of a larger process."""
    run(shell("true"))
    gc.collect()
    gc.disable()
    try:
        for _ in range(10):
            run(shell("true"))
        assert gc.collect() < 100
    finally:
        gc.enable()


@both
def test_a_fork_that_fails_leaves_no_program_behind() -> None:
    """Without a free process or descriptor, the error says so; only a failed fork of sh leaves 7 descriptors."""
    script = """
import gc, os, resource, sys
from resource_api.system.process.process import Invocation, Process
def run():
    with Process(Invocation("/bin/true", (), {}, reading=sys.argv[1] == "True")) as running:
        list(running.chunks(lambda: 10))
    if running.failure:
        raise running.failure
    return running.exit_code
def attempt():
    try:
        return run()
    except OSError as error:
        return error.errno
run()
before = len(os.listdir("/proc/self/fd"))
limit = resource.getrlimit(resource.RLIMIT_NOFILE)
for spare in range(1, 12):
    resource.setrlimit(resource.RLIMIT_NOFILE, (before - 1 + spare, limit[1]))
    print(attempt(), end=" ")
resource.setrlimit(resource.RLIMIT_NOFILE, limit)
os.setuid(65534)
resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
print(attempt(), gc.isenabled(), len(os.listdir("/proc/self/fd")) - before)
"""
    command = [sys.executable, "-c", script, str(READING)]
    process = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path.cwd())
    *descriptors, forked, collecting, leaked = process.stdout.split()
    assert (forked, collecting, leaked) == ("11", "True", "0" if READING else "7")
    assert set(descriptors) <= {"24", "0"}
    assert "24" in descriptors


def test_a_long_output_streams_in_constant_memory() -> None:
    """256 MiB of stdout are read with less than 20 MB of growth, in seconds."""
    script = """
import resource
from resource_api.provider.command import Command
shell = Command("sh")
list(shell.lines("-c", "echo"))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
count = size = 0
for line in shell.lines("-c", "yes 'a line of some forty characters, more or less' | head -c 256M"):
    count += 1
    size += len(line) + 1
print(size, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=Path.cwd())
    size, growth = map(int, process.stdout.split())
    assert size in (1 << 28, (1 << 28) + 1)
    assert growth < 20_000


@pytest.mark.usefixtures("_unmeasured")
def test_the_import_of_sh_has_no_side_effects() -> None:
    """It waits for the first program, and leaves ``glob.glob``; its log of arguments is silent."""
    script = """
import glob, logging, sys
logging.basicConfig(level=0, stream=sys.stdout)
original = glob.glob
from resource_api.provider.command import Command
echo = Command("echo")
print(sorted({"sh", "asyncio", "subprocess"} & set(sys.modules)))
print(echo("canary").stdout.strip(), glob.glob is original, "sh" in sys.modules)
"""
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=Path.cwd())
    assert process.stdout.splitlines() == ["[]", "canary True True"]
    assert process.stderr == ""


@both
def test_a_caller_without_standard_streams_runs_programs() -> None:
    """With descriptors 0 to 2 closed, programs of several threads get theirs and their output arrives."""
    script = """
import os, threading
os.closerange(0, 3)
from resource_api.provider.command import Command
results = set()
def work():
    for _ in range(40):
        results.add(Command("sh", read_only={reading}).attempt("-c", "cat; echo out; echo err >&2", input="in "))
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
with open("{path}", "w") as file:
    file.write(repr([tuple(result) for result in results]))
"""
    path = Path(f"/tmp/ra-test-streams-{os.getpid()}")  # noqa: S108 - a name of our own, removed below
    try:
        command = [sys.executable, "-c", script.replace("{path}", str(path)).replace("{reading}", str(READING))]
        assert subprocess.run(command, check=False, cwd=Path.cwd()).returncode == 0
        assert path.read_text() == repr([(0, "in out\n", "err\n")])
    finally:
        path.unlink(missing_ok=True)


@both
def test_a_standard_stream_closed_by_another_thread_in_between_is_replaced() -> None:
    """Pipes and input of a program are never at the descriptors 0 to 2, which the child replaces one after another."""
    script = """
import os
from resource_api.system.process.process import Invocation, Process
class LateProcess(Process):
    def _starter(self, invocation):
        starter = super()._starter(invocation)
        os.closerange(0, 3)
        return starter
words = ("-c", "cat; echo out; echo err >&2")
with LateProcess(Invocation("/bin/sh", words, {}, input=b"in ", reading={reading})) as running:
    output = sorted(running.chunks(lambda: 20))
assert output == [(1, b"in "), (1, b"out\\n"), (2, b"err\\n")] or output == [(1, b"in out\\n"), (2, b"err\\n")]
"""
    command = [sys.executable, "-c", script.replace("{reading}", str(READING))]
    assert subprocess.run(command, check=False, cwd=Path.cwd()).returncode == 0


@both
def test_many_threads_run_programs_at_once() -> None:
    """Each of eight threads gets its own output."""
    wrong: list[object] = []

    def work(number: int) -> None:
        for turn in range(5):
            text = f"{number}-{turn}"
            result = run(shell('printf %s "$1"; printf %s "$1" >&2', text))
            if result != (0, text.encode(), text.encode()):
                wrong.append(result)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_program_costs_no_fixed_wait() -> None:
    """Nothing polls: the fastest of some programs takes far less than 0.1 s."""

    def seconds() -> float:
        start = time.monotonic()
        run(shell("true"))
        return time.monotonic() - start

    before = set(process._running)
    # On a busy machine the first runs may be slow.
    assert any(seconds() < 0.05 for _ in range(100))
    assert process._running <= before


#: Starts a program through ``Process`` in the thread that its argument names, and waits.
RUN = """
import os, sys, threading, time
from resource_api.system.process.child import find_identity
from resource_api.system.process.process import Invocation, Process

directory, thread, script, user, reading = sys.argv[1:]
as_user = find_identity(user) if user else None

def start():
    arguments = ("-c", script, "test", directory)
    variables = {"PATH": os.environ["PATH"]}
    process = Process(Invocation("/bin/sh", arguments, variables, identity=as_user, reading=reading == "True"))
    list(process.chunks(lambda: 20))

if thread == "main":
    start()
else:
    threading.Thread(target=start).start()
    time.sleep(30)
"""
LATE = "echo $$ > $1/sh.pid; sleep 1; echo late > $1/late"


@pytest.fixture
def killed(tmp_path: Path) -> Callable[..., None]:
    """Return a function that has a process run a script and is killed once there are some ``*.pid``."""
    tmp_path.chmod(0o777)

    def kill(script: str, thread: str = "main", user: str = "", count: int = 1) -> None:
        words = [sys.executable, "-c", RUN, str(tmp_path), thread, script, user, str(READING)]
        with subprocess.Popen(words) as runtime:
            try:
                pids(tmp_path, count)
            finally:
                runtime.kill()

    return kill


@both
@pytest.mark.parametrize("user", ["", "nobody"])
@pytest.mark.parametrize("thread", ["main", "another"])
def test_a_program_ends_when_this_process_is_killed(
    tmp_path: Path, killed: Callable[..., None], thread: str, user: str
) -> None:
    """Whatever thread has started it, and as whatever user: it does nothing while another run holds the lock."""
    for directory in tmp_path.parents if user else ():
        if directory == Path(tempfile.gettempdir()):
            break
        directory.chmod(0o755)
    killed(LATE, thread, user)
    assert gone(pids(tmp_path, 1))
    time.sleep(1.2)
    assert not (tmp_path / "late").exists()


def test_a_daemon_survives_the_death_of_this_process(tmp_path: Path, killed: Callable[..., None], daemon: str) -> None:
    """A service that a provider has started runs on."""
    killed(f"{daemon}/daemon.pid; echo $$ > $1/sh.pid; exit", "another", count=2)
    time.sleep(0.3)
    assert state(int((tmp_path / "daemon.pid").read_text())) in "SR"


@both
def test_a_program_outlives_the_thread_that_has_started_it() -> None:
    """It may be read in another thread."""
    started: list[Process] = []
    thread = threading.Thread(target=lambda: started.append(Process(shell("sleep 0.5; echo done"))))
    thread.start()
    thread.join()
    with started[0] as running:
        text = b"".join(chunk for _, chunk in running.chunks(patience(20)))
    assert (running.exit_code, text) == (0, b"done\n")


@both
def test_a_thread_runs_programs_after_the_end_of_the_main_thread() -> None:
    """A program that has begun before is not killed, and another one can be started: a thread of a run may be last."""
    script = """
import os, sys, threading
from resource_api.system.process.process import Invocation, Process

def run(words):
    invocation = Invocation("/bin/sh", ("-c", words), {"PATH": os.environ["PATH"]}, reading=sys.argv[1] == "True")
    with Process(invocation) as running:
        started.set()
        text = b"".join(chunk for _, chunk in running.chunks(lambda: 20))
    print(text.decode(), running.exit_code, flush=True)

def work():
    run("sleep 0.5; echo first")
    run("echo second")

started = threading.Event()
threading.Thread(target=work).start()
started.wait()
"""
    command = [sys.executable, "-c", script, str(READING)]
    result = subprocess.run(command, check=False, capture_output=True, text=True, cwd=Path.cwd(), timeout=30)
    assert (result.stdout.split(), result.stderr) == (["first", "0", "second", "0"], "")
