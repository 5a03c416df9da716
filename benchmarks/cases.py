"""What is measured, workload by workload: each beside its floor, in pairs, and checked for being right.

``W1`` makes files, ``W2`` finds them in order, ``W3`` finds a drift under ``--noop``, ``W4`` starts, ``W5`` lists,
``W6`` has nothing but relationships, ``W7`` is the memory of the others, ``W8`` waits for a remote service.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks import workloads
from benchmarks.measure import Ratio, cost, pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

HERE = Path(__file__).resolve().parent
FLOOR = (sys.executable, "-I", "-S", str(HERE / "floor.py"))
INVENTORY = HERE.parent / "examples" / "inventory"
OURS = str(Path(sys.executable).parent / "resource-api")
CLICK = (sys.executable, "-c", "import click")
#: Budgets in seconds were set where `import click` takes so many; elsewhere they are as many times that as there.
SECONDS_OF_CLICK = 0.0355
#: What an empty manifest may take, and each resource that is nothing but related beyond it.
START, RELATED = 0.060, 25e-6
#: From so many resources on the start is not the figure.
MANY = 10_000


class Row(NamedTuple):
    """One result: what was measured, of how many, beside what, and what is aimed at: a ratio of at most so much."""

    what: str
    number: int
    beside: str
    measured: Ratio
    aim: float = 0.0


def _many(what: str, number: int, beside: str, measured: Ratio, aim: float) -> Row:
    """Give a row with an aim for as many as people wait for; with fewer the start is the figure."""
    return Row(what, number, beside, measured, aim if number >= MANY else 0.0)


class Bench:
    """One run of the benchmarks: where it works, how often it repeats, and how long an empty manifest takes."""

    def __init__(self, root: Path, disk: Path, *, patience: int) -> None:
        """Work beneath ``root``, which is on memory, and ``disk``; ``patience``: how many pairs of a short program."""
        self.root = root
        self.disk = disk
        self._patience = patience
        self._trash = 0
        empty = root / "empty.json"
        empty.write_text('{"project": "bench", "resources": {}}')
        self.empty = (OURS, "apply", str(empty), "--state", "memory:")

    def times(self, count: int) -> int:
        """Give how many pairs can be waited for."""
        return max(2, self._patience // (1 if count <= 1000 else 2 if count <= 10_000 else 5))  # noqa: PLR2004

    def fresh(self, directory: Path) -> Callable[[], None]:
        """Give what empties a directory. The old one is moved away: ext4 makes new files slowly where some went."""

        def prepare() -> None:
            if directory.exists():
                self._trash += 1
                directory.rename(directory.with_name(f"trash-{self._trash}"))
            directory.mkdir()

        return prepare


def ours(manifest: Path, state: str = "memory:", *more: str) -> tuple[str, ...]:
    """Give the command that applies a manifest."""
    return (OURS, "apply", str(manifest), "--state", state, *more)


def files(bench: Bench, count: int) -> Iterator[Row]:
    """W1, W2, W3: files on memory, so that no disk is in the figures."""
    root, times = bench.root / f"files-{count}", bench.times(count)
    root.mkdir()
    target, database = root / "target", f"sqlite:{root}/state/state.db"
    as_json, as_yaml = workloads.write(count, target, root / "site")
    make, check = (*FLOOR, "apply", str(as_json)), (*FLOOR, "check", str(as_json))
    yield _many("W1 create, JSON", count, "floor", pairs(make, ours(as_json), times, bench.fresh(target)), 4.0)
    workloads.require(count, target)
    before = _stamps(target)
    yield Row("W2 no change, JSON, no state", count, "floor", pairs(check, ours(as_json), times))
    concluded = root / "state" / "state.db.converged"
    _at_rest(ours(as_json, database))
    yield _many("W2 no change, JSON", count, "floor", pairs(check, ours(as_json, database), times), 3.0)
    first = pairs(check, ours(as_json, database), times, lambda: shutil.rmtree(concluded, ignore_errors=True))
    yield Row("W2 no change, JSON, concluded anew", count, "floor", first)
    _at_rest(ours(as_yaml, database))
    yield _many("W2 no change, YAML", count, "floor", pairs(check, ours(as_yaml, database), times), 4.5)
    _at_rest(ours(as_json, database))
    drifted = workloads.drift(count, target)
    changed = _stamps(target)
    _require({path for path in before if before[path] != changed[path]} == drifted.keys(), "W2 touched files")
    _require(_told(ours(as_json, database, "--noop", "--json")) == drifted, "W3 did not name what drifted")
    noop = ours(as_json, database, "--noop")
    yield _many("W3 noop, 1 % drifted, JSON", count, "own W2 at rest", _drifting(bench, count, noop), 1.2)
    _require(_stamps(target) == changed, "W3 touched files")
    shutil.rmtree(root)


def _drifting(bench: Bench, count: int, noop: tuple[str, ...]) -> Ratio:
    """Run W3 beside W2 of other files, so that neither has to wait for the other's world."""
    root = bench.root / "rest"
    root.mkdir()
    manifest, _ = workloads.write(count, root / "target", root / "site")
    (root / "target").mkdir()
    rest = ours(manifest, f"sqlite:{root}/state/state.db")
    cost(rest)
    _at_rest(rest)
    found = pairs(rest, noop, bench.times(count))
    shutil.rmtree(root)
    return found


def _at_rest(command: tuple[str, ...]) -> None:
    """Run until a run has found that there is nothing to do, and nothing to record."""
    for _ in range(2):
        cost(command)


def _told(command: tuple[str, ...]) -> dict[str, str]:
    """Give the attribute that each step of a run with ``--json`` would change, by the path of its file."""
    lines = subprocess.run(command, capture_output=True, check=True).stdout.splitlines()  # noqa: S603 - our own
    steps = [found for found in map(json.loads, lines) if found["type"] == "step_end"]
    return {step["reference"][len("File[") : -1]: ", ".join(c["attribute"] for c in step["changes"]) for step in steps}


def _stamps(directory: Path) -> Mapping[str, tuple[int, ...]]:
    """Give what would show that a file was touched."""
    found = {}
    with os.scandir(directory) as entries:
        for entry in entries:
            seen = entry.stat(follow_symlinks=False)
            found[entry.path] = (seen.st_ino, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_size, seen.st_mode)
    return found


def _require(truth: object, message: str) -> None:
    if not truth:
        raise RuntimeError(message)


def durable(bench: Bench, count: int) -> Iterator[Row]:
    """W1 on a disk: what it costs that files and state survive a power failure."""
    root = Path(tempfile.mkdtemp(prefix="resource-api-bench-", dir=bench.disk))
    try:
        target = root / "target"
        manifest, _ = workloads.write(count, target, root / "site")
        fresh, more = bench.fresh(target), ("apply", str(manifest), "--state", f"sqlite:{root}/state/state.db")

        def prepare() -> None:
            fresh()
            shutil.rmtree(root / "state", ignore_errors=True)
            os.sync()

        loose = (sys.executable, str(HERE / "undurable.py"), *more)
        found = pairs(loose, (OURS, *more), bench.times(count), prepare)
        yield Row("W1 on a disk, durable", count, "itself, not durable", found, 1.3)
    finally:
        shutil.rmtree(root)


def state(bench: Bench, count: int) -> Iterator[Row]:
    """What journal and state cost, per resource that is changed."""
    manifest = workloads.graph("fresh", "flat", count, bench.root / "state.json")
    module = ("--module-path", str(HERE / "modules"))
    database = bench.root / "fresh"

    def prepare() -> None:
        shutil.rmtree(database, ignore_errors=True)

    recorded = ours(manifest, f"sqlite:{database}/state.db", *module)
    found = pairs(ours(manifest, "memory:", *module), recorded, bench.times(count), prepare)
    yield Row("journal and state of a creation", count, "the same without state", found)


def starts(bench: Bench) -> Iterator[Row]:
    """W4, W5: what every call costs, and lists."""
    kept = (*bench.empty[1:-1], f"sqlite:{bench.root}/empty/state.db")
    for what, words, seconds in (
        ("W4 `--version`", ("--version",), 1.3 * SECONDS_OF_CLICK),
        ("W4 empty apply", bench.empty[1:], START),
        ("W4 empty apply, state kept", kept, START),
        ("W4 `resource user root`", ("resource", "user", "root"), 0.060),
        ("W5 `resource user`", ("resource", "user"), 0.070),
        ("W5 `resource package`", ("resource", "package"), 0.080),
    ):
        found = pairs(CLICK, (OURS, *words), bench.times(0))
        yield Row(what, 0, "`import click`", found, seconds / SECONDS_OF_CLICK)


def graphs(bench: Bench, count: int) -> Iterator[Row]:
    """W6: resources that are nothing but related, beside an empty manifest."""
    module = ("--module-path", str(HERE / "modules"))
    for shape in ("chain", "fan"):
        fresh = workloads.graph("fresh", shape, count, bench.root / "fresh.json")
        there = workloads.graph("there", shape, count, bench.root / "there.json")
        plan = (OURS, "plan", str(fresh), "--state", "memory:", *module)
        for what, command in (
            ("plan", plan),
            ("apply", ours(fresh, "memory:", *module)),
            ("no change", ours(there, "memory:", *module)),
        ):
            found = pairs(bench.empty, command, bench.times(count))
            yield _many(f"W6 {shape}, {what}", count, "empty apply", found, 1 + count * RELATED / START)


def remote(bench: Bench, count: int = 200, calls: int = 20) -> Iterator[Row]:
    """W8: hosts of a service that answers after 50 ms, so many calls at once; by the clock, for it is all waiting."""
    root = bench.root / "remote"
    root.mkdir()
    (root / "token").write_text("token")
    service = Service(root / "token")
    try:
        manifest = workloads.hosts(count, service.url, root / "site.json")
        floor = (sys.executable, str(HERE / "remote_floor.py"), str(manifest), str(root / "token"), str(calls))
        given = ("-i", f"token=@{root / 'token'}", "--module-path", str(INVENTORY), "--parallel", str(calls))
        command = ours(manifest, f"sqlite:{root}/state/state.db", *given)

        def prepare() -> None:
            service.restart()
            shutil.rmtree(root / "state", ignore_errors=True)

        found = pairs(floor, command, bench.times(count), prepare, attrgetter("elapsed"))
        yield Row("W8 remote hosts, 50 ms each, 20 at a time, elapsed", count, "their requests alone", found, 1.3)
    finally:
        service.stop()


class Service:
    """The inventory of ``examples/``, begun anew for each run on one port."""

    def __init__(self, token: Path) -> None:
        """Find a free port and start."""
        self._token = token
        self._port = 0
        self._process: subprocess.Popen[str] | None = None
        self.restart()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self._port}"

    def restart(self) -> None:
        """Begin with no hosts."""
        self.stop()
        words = (str(INVENTORY / "server.py"), "--port", str(self._port), "--latency", "0.05")
        self._process = subprocess.Popen(  # noqa: S603 - our own
            (sys.executable, *words, "--token-file", str(self._token)), stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None  # noqa: S101 - for mypy
        self._port = int(self._process.stdout.readline().rpartition(":")[2])

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()


def row(found: Row) -> dict[str, Any]:
    """Give a result as JSON, and show it meanwhile."""
    measured = found.measured
    spread = f"{measured.ratio:.2f} ({measured.least:.2f} to {measured.greatest:.2f})"
    sys.stderr.write(f"{found.what}, {found.number}: {spread}, {measured.ours:.3f} s, {measured.memory:.0f} MiB\n")
    values = {key: round(value, 4) for key, value in measured._asdict().items()}
    return {"what": found.what, "count": found.number, "beside": found.beside, "aim": round(found.aim, 2), **values}
