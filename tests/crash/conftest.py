"""A machine that dies at any chosen system call: a run is traced once, then killed or refused at each call in turn.

The run that dies is the command in a process of its own, under strace; what comes after it is done with the package's
own runtime, because a fresh interpreter for every step would cost most of the time. The world is a directory.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import re
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

import resource_api
from resource_api import Registry, Runtime
from resource_api.state.sqlite.store import SqliteStore
from resource_api.state.store import StackName
from resource_api.system.log import Log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from resource_api.model.event import LogEvent
    from resource_api.model.record import Record, StackState
    from resource_api.model.report import Report

MODULES: Final = Path(__file__).parent / "modules"

#: Set to anything, every point is swept instead of a sample.
WHOLE: Final = bool(os.environ.get("CRASH_SWEEP_WHOLE"))
#: The order of a sample, so that a failure comes again.
SEED: Final = 20

#: Calls that change a file, a name or a lock. ``openat`` counts only where it may make or truncate.
MUTATING: Final = tuple(
    """
    openat write pwrite64 writev pwritev fsync fdatasync sync_file_range syncfs rename renameat renameat2 unlink
    unlinkat mkdir mkdirat rmdir ftruncate truncate fallocate chmod fchmod fchmodat chown fchown fchownat lchown link
    linkat symlink symlinkat flock utimensat setxattr lsetxattr fsetxattr removexattr fremovexattr copy_file_range
    sendfile
    """.split()  # noqa: SIM905 - forty words read better than forty lines
)
_LINE: Final = re.compile(r"(?P<thread>\d+) +(?P<call>\w+)\((?P<rest>.*)")
_SPOKEN: Final = re.compile(r"[12]<")
#: What may stand in the state's directory; of what was being made when a run was cut, see the test of its own.
_KEPT: Final = re.compile(r"state\.db(\.(lock|marker|converged|[123]|(0|new)(-journal|-wal|-shm)?))?")
_MAKES: Final = re.compile(r"O_CREAT|O_TRUNC")
CUT: Final = "in doubt: the last run did not see"


class Point(NamedTuple):
    """One system call of a run: its name, its ordinal among the calls of that name, and its arguments."""

    call: str
    ordinal: int
    text: str

    def __str__(self) -> str:
        """Return a text by which the point can be found again."""
        return f"{self.call}#{self.ordinal} {self.text[:100]}"


class Case(NamedTuple):
    """A command, its manifest, and the machine before it."""

    #: ``apply`` or ``destroy``.
    command: str
    resources: Mapping[str, Any]
    #: What is applied before, in this order.
    before: Sequence[Mapping[str, Any]] = ()
    #: What was in the world before anything of ours: path → text.
    foreign: Mapping[str, str] = {}
    #: Files of the world that grow with each run and are compared by who looks at them.
    counted: Sequence[str] = ()
    #: How many calls of providers run beside each other.
    parallel: int = 1


class Seen(NamedTuple):
    """The observed machine: its files, its records, and the names in the state directory."""

    tree: Mapping[str, tuple[Any, ...]]
    state: StackState
    kept: frozenset[str]

    @property
    def doubts(self) -> set[str]:
        """The references with an open intent after a kill."""
        return {f"{intent.type.capitalize()}[{intent.title}]" for intent in self.state.intents.values()}

    @property
    def records(self) -> dict[Any, Record]:
        """The records by key, without the times of runs."""
        return {key: record._replace(last_run="") for key, record in self.state.records.items()}


class Bench:
    """One case, its machine in one directory, and its result without a failure."""

    def __init__(self, home: Path, case: Case) -> None:
        """Build the machine as it is before the run, and run once without a failure."""
        self.home = home
        self.case = case
        #: Where a filesystem may be mounted that loses its power.
        self.disk = home / "disk"
        self.place = self.disk / "place"
        self.world = self.place / "world"
        self.state = self.place / "state" / "state.db"
        self.manifest = home / "site.json"
        self.environment = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(home),
            "LC_ALL": "C.UTF-8",
            "PYTHONPATH": str(Path(resource_api.__file__).parent.parent),
            "PYTHONHASHSEED": "0",
            "PYTHONPYCACHEPREFIX": str(home / "bytecode"),
            "RESOURCE_API_STATE": f"sqlite:{self.state}",
            "RESOURCE_API_MODULE_PATH": str(MODULES),
        }
        self._build()
        self.command()  # writes the bytecode that all later runs read
        self.environment["PYTHONDONTWRITEBYTECODE"] = "1"
        self.points = self._enumerate()
        self.whole = self.look()
        self.gone = None
        if case.command == "apply":
            self.carry("destroy")
            self.gone = self.look().tree

    def _build(self) -> None:
        self.world.mkdir(parents=True)
        for name, text in self.case.foreign.items():
            (self.world / name).parent.mkdir(parents=True, exist_ok=True)
            (self.world / name).write_text(text, encoding="utf-8")
        for resources in self.case.before:
            self.write(resources)
            report, _ = self.carry("apply")
            assert report.exit_code == 0, report
        self.write(self.case.resources)
        self.before = self.look()
        shutil.copytree(self.place, self.home / "base", symlinks=True)

    def write(self, resources: Mapping[str, Any]) -> None:
        """Write the manifest; ``@`` at the start of a title or of a reference in it is the world's directory."""
        text = json.dumps({"project": "crash", "resources": resources}).replace("@", str(self.world))
        self.manifest.write_text(text, encoding="utf-8")

    def reset(self) -> None:
        """Restore the machine as it was before the run."""
        if self.place.exists():
            shutil.rmtree(self.place)
        shutil.copytree(self.home / "base", self.place, symlinks=True)

    def command(self, *tracer: str) -> subprocess.CompletedProcess[str]:
        """Run the case's command on the restored machine, alone or under a tracer."""
        self.reset()
        return self.again(*tracer)

    def again(self, *tracer: str) -> subprocess.CompletedProcess[str]:
        """Run the case's command on the machine as it is."""
        words = [sys.executable, "-m", "resource_api", self.case.command, str(self.manifest)]
        if self.case.parallel > 1:
            words += ["--parallel", str(self.case.parallel)]
        if self.case.command == "destroy":
            words.append("--yes")
        return subprocess.run(
            [*tracer, *words],
            cwd=self.home,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def _enumerate(self) -> list[Point]:
        """Return the mutating calls of the run's process, from its first access to the state directory on.

        Calls are counted for each thread, as strace does.
        """
        log = self.home / "trace"
        calls = ",".join(f"?{call}" for call in MUTATING)
        done = self.command("strace", "-f", "-qq", "-y", "-s", "40", "-o", str(log), f"-etrace={calls}")
        assert done.returncode == 0, done.stderr
        points: list[Point] = []
        count: dict[tuple[str, str], int] = {}
        begun = False
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
            found = _LINE.match(line)
            if found is None:
                continue
            call, rest = found["call"], found["rest"]
            ordinal = count[found["thread"], call] = count.get((found["thread"], call), 0) + 1
            begun = begun or str(self.state.parent) in rest
            if begun and not _SPOKEN.match(rest) and (call != "openat" or _MAKES.search(rest)):
                points.append(Point(call, ordinal, rest.replace(str(self.place), "")))
        return points

    def sample(self, seconds: float, least: int) -> Iterator[Point]:
        """Yield the points to try: all, or as many as ``seconds`` allow, always in the same random order."""
        points = list(self.points)
        if not WHOLE:
            random.Random(SEED).shuffle(points)  # noqa: S311 - the same order every time is the purpose
        began = time.monotonic()
        for number, point in enumerate(points):
            if not WHOLE and number >= least and time.monotonic() - began > seconds:
                return
            yield point

    def kill(self, point: Point) -> None:
        """Kill the run at a call, which is not executed; in parallel runs at the first thread that reaches its ordinal.

        In parallel runs it is possible that no thread reaches it.
        """
        self.reset()
        done = self.again(*tracer(point, "signal=SIGKILL"))
        reached = done.returncode == -9 or (self.case.parallel > 1 and done.returncode == 0)
        assert reached, f"{point} was not reached: {done.returncode} {done.stderr}"

    def kill_again(self, point: Point) -> bool:
        """Kill the run after a killed one, if it reaches that call; return whether it did."""
        done = self.again(*tracer(point, "signal=SIGKILL"))
        assert done.returncode in {0, -9}, done.stderr
        return done.returncode == -9

    def refuse(self, point: Point, error: str) -> subprocess.CompletedProcess[str]:
        """Run with one call answered by an error instead of being executed."""
        self.reset()
        return self.again(*tracer(point, f"error={error}"))

    def carry(self, command: str, **wishes: Any) -> tuple[Report, list[LogEvent]]:
        """Apply or destroy with the package's own runtime; return the report and the log lines."""
        said: list[LogEvent] = []
        runtime = Runtime(Registry.from_path(MODULES), state=f"sqlite:{self.state}", log=Log("notice", said.append))
        work: Callable[..., Report] = runtime.apply if command == "apply" else runtime.destroy
        return work(self.manifest, **wishes), said

    def look(self) -> Seen:
        """Return the observed machine."""
        kept = frozenset(os.listdir(self.state.parent)) if self.state.parent.exists() else frozenset()  # noqa: PTH208
        return Seen(self.tree(), SqliteStore(str(self.state)).load(StackName("crash", "default")), kept)

    def tree(self) -> dict[str, tuple[Any, ...]]:
        """Return every name in the world with kind, permissions and content."""
        found: dict[str, tuple[Any, ...]] = {}
        for path in sorted(self.world.rglob("*")):
            seen = path.lstat()
            name = str(path.relative_to(self.world))
            content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None  # noqa: PTH115
            if name not in self.case.counted:
                found[name] = stat.filemode(seen.st_mode), seen.st_uid, seen.st_gid, content
        return found

    def stamps(self) -> dict[str, int]:
        """Return the time of the last change of each name in the world."""
        return {str(path): path.lstat().st_ctime_ns for path in self.world.rglob("*")}

    def holds(self, point: object) -> None:
        """Check every law on the machine after a failure at ``point``; an error names the point."""
        try:
            lock_is_free(self)
            converges(self, nothing_is_unknown(self))
            only_ours_goes(self)
        except BaseException as error:
            error.add_note(f"after {point}")
            raise


def tracer(point: Point, harm: str) -> list[str]:
    """Return the words before a command that inject a failure at one of its system calls.

    Not with ``--seccomp-bpf``, under which strace 6.1 counts and sends no signal.
    """
    inject = f"-einject={point.call}:{harm}:when={point.ordinal}"
    return ["strace", "-f", "-qq", "-o", "/dev/null", f"-etrace={point.call}", inject]


# The laws that hold after any crash; each raises AssertionError.


def lock_is_free(bench: Bench) -> None:
    """Check that the lock of a killed process is free."""
    path = Path(f"{bench.state}.lock")
    if path.exists():
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def nothing_is_unknown(bench: Bench) -> Seen:
    """Check that state is valid, created resources are recorded or in doubt, and recorded ones were created."""
    SqliteStore(str(bench.state)).check()
    seen = bench.look()
    known = {*seen.state.records, *seen.state.intents}
    paths = {f"{bench.world}/{name}" for name in seen.tree.keys() - bench.before.tree.keys()}
    told = {name for _, name in known}
    whole = {name for kind, name in known if kind == "archive"}
    paths -= {path for path in paths for name in whole if path.startswith(f"{name}/") or path == _record(name)}
    strange = {path for path in paths if path not in told and not _auxiliary(path, told)}
    assert not strange, f"made, and neither recorded nor in doubt: {strange}"
    for key, record in seen.state.records.items():
        if record.is_ is not None and key not in seen.state.intents and key not in bench.before.state.records:
            assert record.type == "errand" or os.path.lexists(record.name), f"recorded, not there: {record.reference}"
    return seen


def _record(name: str) -> str:
    """Return the file in which the provider of archives lists unpacked files."""
    return str(Path(name).with_name(f".{Path(name).name}.archive~"))


def _auxiliary(path: str, known: set[str]) -> bool:
    """Return whether a provider keeps a file beside a resource, or has not finished it."""
    return path.endswith(".resource-api~") or str(Path(path).with_suffix("")) in known


def converges(bench: Bench, cut: Seen) -> None:
    """Check that the next run succeeds and names the interrupted resources, and that a second one changes nothing."""
    report, said = bench.carry(bench.case.command)
    assert report.exit_code == 0, [str(line) for line in said]
    told = {line.subject for line in said if CUT in line.text}
    assert told == cut.doubts
    after = bench.look()
    as_if_nothing_had_happened(bench, after)
    stamps = bench.stamps()
    report, said = bench.carry(bench.case.command)
    assert report.exit_code == 0
    assert not report.steps, [str(line) for line in said]
    assert bench.stamps() == stamps
    assert bench.look().state == after.state


def as_if_nothing_had_happened(bench: Bench, seen: Seen) -> None:
    """Check that world and records are those of an uninterrupted run, with nothing owed or in doubt."""
    assert seen.tree == bench.whole.tree
    assert seen.records == bench.whole.records
    assert dict(seen.state.outputs) == dict(bench.whole.state.outputs)
    assert not seen.state.owed
    assert not seen.state.intents
    assert not {name for name in seen.kept if not _KEPT.fullmatch(name)}


def only_ours_goes(bench: Bench) -> None:
    """Check that destroy deletes everything that we created and nothing else."""
    if bench.gone is not None:
        report, said = bench.carry("destroy")
        assert report.exit_code == 0, [str(line) for line in said]
        assert bench.look().tree == bench.gone
        assert not bench.look().state.records


@pytest.fixture
def memory() -> Iterator[Path]:
    """Yield a directory in memory: a sweep does not depend on a disk, and is faster without one."""
    with TemporaryDirectory(prefix="ra-test-", dir="/dev/shm") as directory:
        yield Path(directory)


@pytest.fixture
def bench(memory: Path) -> Callable[..., Bench]:
    """Return a function that builds a bench of a command, the resources of its manifest and the fields of ``Case``."""
    return lambda command, resources, **more: Bench(memory, Case(command, resources, **more))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Allow whole sweeps more time."""
    for item in items:
        if WHOLE and Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(3600))
