"""State after a fault at one system call: a kill, an error, a full disk, a read-only filesystem.

The calls that change something are counted in one run under strace; then faults are injected at a sample of them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import pytest

from resource_api.model.record import Commit
from resource_api.state.sqlite.store import SqliteStore
from resource_api.state.store import StackName
from resource_api.testing.state_compliance import record
from tests.faults import power
from tests.unit.state import processes

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.process

WEB: Final = StackName("web", "default")

#: One run; each line that it writes reports what must be durable by then.
RUN: Final = """
import os, sys
from resource_api.state.sqlite.store import SqliteStore
from resource_api.state.store import StackName
from resource_api.model.values.errors import StateError
from resource_api.model.record import Commit, Intent, Record
kept = {"ensure": "present", "content": "hi"}
store, name = SqliteStore(sys.argv[1]), StackName("web", "default")
try:
    with store.lock("test", 0):
        store.load(name)
        store.record_intents(name, [Intent("1", "file", "/new", "/new", "create")])
        os.write(1, b"intended\\n")
        new = Record("file", "/new", "/new", kept, kept, kept, owned=True, requires=[])
        store.commit(name, Commit([new], resolved=[("file", "/new")]))
        os.write(1, b"committed\\n")
        store.finish_run(name, {"run": "1"})
    os.write(1, b"over\\n")
except StateError as error:
    os.write(2, str(error).encode())
    sys.exit(74)
"""

CALLS: Final = "pwrite64,write,fsync,fdatasync,rename,unlink,ftruncate,openat,fchmod,flock"
#: How many calls get a fault in each test.
POINTS: Final = 5
FILES: Final = (
    "",
    "-wal",
    "-shm",
    "-journal",
    ".lock",
    ".holder",
    ".marker",
    ".marker.new",
    ".new",
    ".new-wal",
    ".0",
    ".1",
)


@pytest.fixture(params=["first", "second"])
def path(request: pytest.FixtureRequest) -> Iterator[Path]:
    """Yield the path of the state: nothing yet, or one commit; in memory, which suffices without a power cut."""
    with TemporaryDirectory(prefix="ra-test-", dir="/dev/shm") as directory:
        path = Path(directory) / "state" / "state.db"
        if request.param == "second":
            store = SqliteStore(str(path))
            with store.lock("test", 0):
                store.commit(WEB, Commit([record("/old")]))
        yield path


def traced(path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Execute the run under strace, which traces the files of the state."""
    watched = [f"-P{path}{suffix}" for suffix in FILES] + [f"-P{path.parent}"]
    return processes.run(RUN, str(path), before=["strace", "-f", "-qq", f"-etrace={CALLS}", *watched, *options])


def points(path: Path) -> list[tuple[str, int]]:
    """Return every call that changes state, with its number among calls of that name; the state is saved before."""
    saved = path.parent.with_name("saved")
    if path.parent.exists():
        shutil.copytree(path.parent, saved)
    log = path.parent.with_name("log")
    result = traced(path, f"-o{log}")
    assert result.returncode == 0, result.stderr
    shutil.rmtree(path.parent)
    return processes.calls(log)


def reset(path: Path) -> None:
    """Restore the state as it was before the first run."""
    saved = path.parent.with_name("saved")
    shutil.rmtree(path.parent, ignore_errors=True)
    if saved.exists():
        shutil.copytree(saved, path.parent)


def check(path: Path, result: subprocess.CompletedProcess[str]) -> None:
    """Check that everything reported is recorded, nothing is half written, and the next run works."""
    store = SqliteStore(str(path))
    state = store.load(WEB)
    names = [key[1] for key in state.records]
    old = ["/old"] if path.parent.with_name("saved").exists() else []
    assert names in (old, [*old, "/new"])
    assert state.serial == len(names)
    assert store.check()
    if "intended" in result.stdout and names == old:
        assert [intent.name for intent in state.intents.values()] == ["/new"]
    if "committed" in result.stdout:
        assert names == [*old, "/new"]
    if names != old:
        assert not state.intents
    with store.lock("after", 0):
        assert store.commit(WEB, Commit([record("/after")])).serial == len(names) + 1
        store.finish_run(WEB, {"run": "after"})


def sample(result: list[tuple[str, int]], count: int) -> list[tuple[str, int]]:
    """Return at most ``count`` of the points, evenly spread, both ends included."""
    step = max(1, (len(result) - 1) // (count - 1))
    return [*result[::step], result[-1]]


def test_a_kill_at_any_call_leaves_the_old_or_the_new(path: Path) -> None:
    """The state loads, contains everything that was reported, and the next run continues."""
    result = points(path)
    assert len(result) > 30
    for call, number in sample(result, POINTS):
        reset(path)
        outcome = traced(path, "-o/dev/null", f"-einject={call}:signal=KILL:when={number}")
        assert outcome.returncode in {-9, 137}, f"{call}#{number}: {outcome.returncode} {outcome.stderr}"
        try:
            check(path, outcome)
        except Exception as error:
            raise AssertionError(f"killed at {call}#{number}") from error


def test_an_error_of_any_call_loses_nothing(path: Path) -> None:
    """The run succeeds, or ends with exit code 74 and a message; never with a traceback."""
    result = [
        point for point in points(path) if point[0] in {"pwrite64", "write", "fsync", "fdatasync", "rename", "openat"}
    ]
    assert len(result) > 20
    failed = 0
    # Every flush: the effect of a failed one may show only after a power cut.
    flushes = [point for point in result if point[0] == "fdatasync"]
    for index, (call, number) in enumerate(dict.fromkeys([*sample(result, POINTS), *flushes])):
        reset(path)
        errno = "EIO" if call in {"fsync", "fdatasync"} else ("ENOSPC", "EIO", "EROFS")[index % 3]
        outcome = traced(path, "-o/dev/null", f"-einject={call}:error={errno}:when={number}")
        assert outcome.returncode in {0, 74}, f"{call}#{number} {errno}: {outcome.returncode} {outcome.stderr}"
        failed += outcome.returncode == 74
        try:
            check(path, outcome)
        except Exception as error:
            raise AssertionError(f"{errno} at {call}#{number}: {outcome.stderr}") from error
    assert failed


@pytest.mark.parametrize("path", ["second"], indirect=True)
def test_intents_and_commits_are_on_disk_when_they_return(path: Path) -> None:
    """The log is flushed before the call returns, and survives a power cut."""
    log = path.parent.with_name("log")
    strace = ["strace", "-f", "-y", "-qq", "-etrace=write,fsync,fdatasync", f"-o{log}"]
    result = processes.run(RUN, str(path), before=strace)
    assert result.returncode == 0, result.stderr
    text = log.read_text()
    flushed, reported = r"f(?:data)?sync\(\d+<[^>]*state\.db-wal>", r"write\(1<[^>]*>, "
    assert re.search(rf"(?s){flushed}.*{reported}\"intended.*{flushed}.*{reported}\"committed", text), text


@pytest.mark.parametrize("mode", power.MODES)
def test_a_power_cut_loses_nothing_that_was_reported(tmp_path: Path, mode: int) -> None:
    """After the run, and at some of its flushes: everything reported as written is recorded."""
    image, file = power.make_image(tmp_path), tmp_path / "mounted"
    file.mkdir()
    path = file / "state" / "state.db"
    for cut in ("", "fdatasync:signal=KILL:when=2", "fsync:signal=KILL:when=3", "fdatasync:signal=KILL:when=9"):
        with power.copied(image, "before") as disk:
            with power.mounted(disk, file):
                result = traced(path, "-o/dev/null", *([f"-einject={cut}"] if cut else []))
                assert (result.returncode == 0) == (not cut), f"{cut}: {result.returncode} {result.stderr}"
                power.cut(file, mode)
            with power.copied(disk, "after") as after, power.mounted(after, file):
                check(path, result)


def in_private_mounts(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script with mounts of its own."""
    return subprocess.run(
        ["unshare", "-m", "sh", "-euc", script, "sh", *arguments],
        env={**os.environ, "PYTHONPATH": str(processes.ROOT)},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def test_a_full_disk_stops_the_run_without_damage(tmp_path: Path) -> None:
    """Every commit is recorded, and with free space the next run continues without a repair."""
    fill = """
import os, sys
from resource_api.state.sqlite.store import SqliteStore
from resource_api.state.store import StackName
from resource_api.model.values.errors import StateError
from resource_api.model.record import Commit
from resource_api.testing.state_compliance import record
store, name, last = SqliteStore(sys.argv[1] + "/s/state.db"), StackName("web", "default"), 0
try:
    with store.lock("test", 0):
        for number in range(1000):
            last = store.commit(name, Commit([record(f"/{number}", should={"content": "x" * 5000})])).serial
    sys.exit("it was never full")
except StateError as error:
    assert error.exit_code == 74
    assert "full" in str(error), str(error)
assert last > 3
state = store.load(name)
assert state.serial == last and len(state.records) == last, (state.serial, last)
os.unlink(sys.argv[1] + "/filler")
with store.lock("test", 0):
    assert store.commit(name, Commit([record("/after")])).serial == last + 1
    store.finish_run(name, {"run": "x"})
assert store.check()
"""
    script = 'mount -t tmpfs -o size=1500k none "$1"; head -c 800000 /dev/zero > "$1/filler"; "$2" -c "$3" "$1"'
    result = in_private_mounts(script, str(tmp_path), sys.executable, fill)
    assert result.returncode == 0, result.stderr


def test_a_full_disk_is_named_wherever_it_becomes_full(tmp_path: Path) -> None:
    """The first commit on a disk with any number of free pages is complete, or the error names the missing part."""
    attempt = """
import os, shutil, sys
from resource_api.model.record import Commit
from resource_api.state.store import StackName
from resource_api.testing.state_compliance import record
from resource_api.state.sqlite.store import SqliteStore
from resource_api.model.values.errors import StateError
os.umask(0o077)
place, outcomes = sys.argv[1] + "/s", []
for free in range(0, 1500, 4):
    shutil.rmtree(place, ignore_errors=True)
    with open(sys.argv[1] + "/filler", "wb") as filler:
        filler.truncate(0)
        filler.write(bytes((1500 - free) * 1024))
    store = SqliteStore(place + "/state.db")
    try:
        with store.lock("test", 0):
            store.commit(StackName("full", "default"), Commit([record("/a")]))
        outcomes.append("done")
        break
    except StateError as error:
        outcomes.append(str(error).rpartition(": ")[2])
assert outcomes[-1] == "done", outcomes
assert set(outcomes) == {"done", "the disk is full", "No space left on device"}, outcomes
"""
    script = 'mount -t tmpfs -o size=1500k,mode=700 none "$1"; "$2" -c "$3" "$1"'
    result = in_private_mounts(script, str(tmp_path), sys.executable, attempt)
    assert result.returncode == 0, result.stderr


def test_a_read_only_place_can_be_read_and_not_written(tmp_path: Path) -> None:
    """Reading works without a file beside the database; writing fails with a message."""
    store = SqliteStore(str(tmp_path / "s" / "state.db"))
    with store.lock("test", 0):
        store.commit(WEB, Commit([record()]))
    read = """
import sys
from resource_api.state.sqlite.store import SqliteStore
from resource_api.state.store import StackName
from resource_api.model.values.errors import StateError
store = SqliteStore(sys.argv[1] + "/s/state.db")
assert store.load(StackName("web", "default")).serial == 1
assert store.check()
try:
    with store.lock("test", 0):
        sys.exit("locked")
except StateError as error:
    assert error.exit_code == 74 and "Read-only" in str(error), str(error)
"""
    script = 'mount --bind "$1" "$1"; mount -o remount,bind,ro "$1"; "$2" -c "$3" "$1"'
    result = in_private_mounts(script, str(tmp_path), sys.executable, read)
    assert result.returncode == 0, result.stderr
