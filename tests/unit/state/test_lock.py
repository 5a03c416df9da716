"""The laws of the lock: one holder, released at once when it ends, never broken, and the holder is named."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from resource_api.model.values.errors import StateError, StateLocked
from resource_api.state.lock import Lock

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[3]

HOLD = """
import sys, time
from resource_api.state.lock import Lock
lock = Lock(sys.argv[1])
with lock.held(0):
    lock.write_holder("hold it")
    print("held", flush=True)
    time.sleep(60)
"""

FORK = """
import os, sys, time
from resource_api.state.lock import Lock
with Lock(sys.argv[1]).held(0):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, b"x")
        time.sleep(60)
        os._exit(0)
    os.read(reading, 1)
    if sys.argv[2] == "killed":
        print(child, flush=True)
        time.sleep(60)
print(child, flush=True)
"""

#: Appends one byte each time the lock is held; meanwhile no other process may have written.
ALTERNATE = """
import os, sys
from resource_api.state.lock import Lock
lock = Lock(sys.argv[1])
fd = os.open(sys.argv[2], os.O_RDWR | os.O_CREAT, 0o600)
for _ in range(25):
    with lock.held(30):
        size = os.fstat(fd).st_size
        os.sched_yield()
        os.pwrite(fd, sys.argv[3].encode(), size)
        assert os.fstat(fd).st_size == size + 1
"""


def start(code: str, *arguments: str) -> subprocess.Popen[str]:
    """Start Python code in another process."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )


@contextmanager
def holder(path: str) -> Iterator[subprocess.Popen[str]]:
    """Yield another process that holds the lock."""
    process = start(HOLD, path)
    assert process.stdout is not None
    with process:
        try:
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return the path of the protected file."""
    return str(tmp_path / "state.db")


def test_eight_processes_alternate(path: str, tmp_path: Path) -> None:
    """Each waits for the others, no two hold it together, and all get it."""
    log = tmp_path / "log"
    processes = [start(ALTERNATE, path, str(log), str(number)) for number in range(8)]
    for process in processes:
        with process:
            assert process.wait(50) == 0
    written = log.read_text()
    assert sorted(written) == sorted("01234567" * 25)


def test_the_holder_is_named(path: str) -> None:
    """With its pid, user, command and start time, and the option to wait."""
    with holder(path) as process, pytest.raises(StateLocked) as caught, Lock(path).held(0):
        pass
    text = str(caught.value)
    assert f"pid {process.pid} (" in text
    assert "has been running 'hold it' since 20" in text
    assert "--lock-timeout" in text


def test_a_killed_holder_frees_it_at_once(path: str) -> None:
    """Nothing must be removed, and the next process does not wait."""
    for _ in range(5):
        with holder(path) as process:
            process.kill()
            killed = time.monotonic()
            with Lock(path).held(1):
                assert time.monotonic() - killed < 0.1


def test_waiting_ends_with_the_release_or_the_timeout(path: str) -> None:
    """The lock is taken soon after its release; at the timeout the error names the holder."""
    with holder(path) as process:
        began = time.monotonic()
        with pytest.raises(StateLocked), Lock(path).held(0.2):
            pass
        assert 0.2 <= time.monotonic() - began < 1
        os.kill(process.pid, signal.SIGSTOP)
        killer = subprocess.Popen(["sh", "-c", f"sleep 0.2; kill -9 {process.pid}"])
        with killer, Lock(path).held(10):
            assert time.monotonic() - began < 5


def test_waiting_can_be_interrupted(path: str) -> None:
    """An exception of a signal handler ends it."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with holder(path):
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            began = time.monotonic()
            with pytest.raises(KeyboardInterrupt), Lock(path).held(30):
                pass
            assert time.monotonic() - began < 2
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_forked_child_does_not_keep_it(path: str) -> None:
    """A process that a provider left running does not block the next run, however its parent ended."""
    for how in ("ended", "killed"):
        process = start(FORK, path, how)
        assert process.stdout is not None
        with process:
            child = int(process.stdout.readline())
            process.kill()
            process.wait()
            try:
                with Lock(path).held(0):
                    os.kill(child, 0)
            finally:
                os.kill(child, signal.SIGKILL)


def test_a_forked_child_cannot_release_it(path: str) -> None:
    """A child that leaves the block does not release the lock of its parent."""
    lock = Lock(path)
    with lock.held(0):
        child = os.fork()
        if child == 0:
            lock._release()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        with pytest.raises(StateLocked), Lock(path).held(0):
            pass


def test_the_file_is_never_changed(path: str) -> None:
    """It is never unlinked or truncated: two files of one name would be two locks."""
    file = Path(f"{path}.lock")
    file.write_text("mine")
    inode = file.stat().st_ino
    for _ in range(3):
        with Lock(path).held(0):
            assert file.stat().st_ino == inode
    assert file.read_text() == "mine"


def test_a_replaced_file_is_not_the_lock(path: str) -> None:
    """The holder of the old file does not block the new one, and the new one is the lock."""
    with Lock(path).held(0):
        Path(f"{path}.lock").unlink()
        with Lock(path).held(0), pytest.raises(StateLocked), Lock(path).held(0):
            pass


def test_a_link_in_its_place_is_refused(path: str, tmp_path: Path) -> None:
    """Nothing is created at its target."""
    Path(f"{path}.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateError, match="cannot be opened"), Lock(path).held(0):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_its_files_are_private_whatever_the_umask(path: str) -> None:
    """From their creation on."""
    for mask in (0, 0o777):
        before = os.umask(mask)
        try:
            lock = Lock(f"{path}{mask}")
            with lock.held(0):
                lock.write_holder("x")
                for suffix in ("lock", "holder"):
                    assert Path(f"{path}{mask}.{suffix}").stat().st_mode & 0o777 == 0o600
        finally:
            os.umask(before)


@pytest.mark.parametrize("note", ["", "{}", "[", '{"pid": 1}', "null"])
def test_an_unreadable_note_is_ignored(path: str, note: str) -> None:
    """The lock does not depend on the note."""
    with holder(path):
        Path(f"{path}.holder").write_text(note)
        with pytest.raises(StateLocked, match="another process holds the lock"), Lock(path).held(0):
            pass
    with Lock(path).held(0):
        pass


def test_the_note_of_an_ended_process_is_ignored(path: str) -> None:
    """Also if another process has its pid: start time or boot differ."""
    with holder(path) as process:
        file = Path(f"{path}.holder")
        noted = json.loads(file.read_text())
        assert noted["pid"] == process.pid
        for change in ({"started": "1"}, {"boot": "another"}, {"pid": 2**22 + 1}):
            file.write_text(json.dumps({**noted, **change}))
            with pytest.raises(StateLocked, match="another process holds the lock"), Lock(path).held(0):
                pass
