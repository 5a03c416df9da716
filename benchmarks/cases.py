"""The workloads: each is measured in pairs with its floor, and its result is checked.

``W1`` creates files, ``W2`` finds them in sync, ``W3`` finds drift under ``--noop``, ``W4`` starts, ``W5`` lists,
``W6`` has resources with relationships only, ``W7`` is the memory of the others, ``W8`` waits for a remote service,
``W9`` rehearses, ``W10`` goes over simulated hosts.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from base64 import b64encode
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks import workloads
from benchmarks.measure import Command, Ratio, cost, pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

HERE = Path(__file__).resolve().parent
FLOOR = (sys.executable, "-I", "-S", str(HERE / "floor.py"))
INVENTORY = HERE.parent / "examples" / "inventory"
OURS = str(Path(sys.executable).parent / "resource-api")
REHEARSE = (OURS, "rehearse", "--state", "memory:")
CLICK = (sys.executable, "-c", "import click")
#: The seconds of `import click` on the machine where the budgets were set; on others budgets are scaled by it.
SECONDS_OF_CLICK = 0.0355
#: The budgets in seconds of an empty manifest, and of each further resource with relationships only.
START, RELATED = 0.060, 25e-6
#: The budget in seconds of the rehearsal of an empty manifest.
REHEARSED = 0.3
#: The seconds of the import of structlog by a run that shows events; the floor creates so many files meanwhile.
LOG, LOG_IN_FILES = 0.055, 3000
#: From this number of resources on the start is a small part of the figure.
MANY = 10_000


class Row(NamedTuple):
    """One result: workload, number of resources, the program it is compared with, and the largest ratio aimed at."""

    what: str
    number: int
    beside: str
    measured: Ratio
    aim: float = 0.0


def _many(what: str, number: int, beside: str, measured: Ratio, aim: float) -> Row:
    """Return a row whose aim counts only for many resources; with fewer the start dominates."""
    return Row(what, number, beside, measured, aim if number >= MANY else 0.0)


class Bench:
    """One run of the benchmarks: its directories, its number of pairs, and the command of an empty manifest."""

    def __init__(self, root: Path, disk: Path, *, most_pairs: int) -> None:
        """Use ``root``, in memory, and ``disk``; ``most_pairs`` is the number of pairs of a short program."""
        self.root = root
        self.disk = disk
        self._most_pairs = most_pairs
        self._trash = 0
        empty = root / "empty.json"
        empty.write_text('{"project": "bench", "resources": {}}')
        self.empty = (OURS, "apply", str(empty), "--state", "memory:")

    def times(self, count: int) -> int:
        """Return the number of pairs for ``count`` resources."""
        return max(2, self._most_pairs // (1 if count <= 1000 else 2 if count <= 10_000 else 5))  # noqa: PLR2004

    def fresh(self, directory: Path) -> Callable[[], None]:
        """Return a function that replaces a directory by an empty one; ext4 creates files slowly after removals."""

        def prepare() -> None:
            if directory.exists():
                self._trash += 1
                directory.rename(directory.with_name(f"trash-{self._trash}"))
            directory.mkdir()

        return prepare


def ours(manifest: Path, state: str = "memory:", *more: str) -> tuple[str, ...]:
    """Return the command that applies a manifest."""
    return (OURS, "apply", str(manifest), "--state", state, *more)


def files(bench: Bench, count: int) -> Iterator[Row]:
    """Measure W1, W2, W3: files in memory, so that the figures do not depend on a disk."""
    root, times = bench.root / f"files-{count}", bench.times(count)
    root.mkdir()
    target, database = root / "target", f"sqlite:{root}/state/state.db"
    as_json, as_yaml = workloads.write(count, target, root / "site")
    make, check = (*FLOOR, "apply", str(as_json)), (*FLOOR, "check", str(as_json))
    aim = 4.2 + LOG_IN_FILES / count
    yield _many("W1 create, JSON", count, "floor", pairs(make, ours(as_json), times, bench.fresh(target)), aim)
    workloads.require(count, target)
    before = _stamps(target)
    yield Row("W2 no change, JSON, no state", count, "floor", pairs(check, ours(as_json), times))
    cached = root / "state" / "state.db.converged"
    _converge(ours(as_json, database))
    yield _many("W2 no change, JSON", count, "floor", pairs(check, ours(as_json, database), times), 3.0)
    first = pairs(check, ours(as_json, database), times, lambda: shutil.rmtree(cached, ignore_errors=True))
    yield _many("W2 no change, JSON, without a cached conclusion", count, "floor", first, 6.5)
    _converge(ours(as_yaml, database))
    yield _many("W2 no change, YAML", count, "floor", pairs(check, ours(as_yaml, database), times), 4.5)
    _converge(ours(as_json, database))
    drifted = workloads.drift(count, target)
    changed = _stamps(target)
    _require({path for path in before if before[path] != changed[path]} == drifted.keys(), "W2 changed files")
    _require(_changed_attributes(ours(as_json, database, "--noop", "--json")) == drifted, "W3 did not report the drift")
    noop = ours(as_json, database, "--noop")
    yield _many("W3 noop, 1 % drifted, JSON", count, "W2, no drift", _drifting(bench, count, noop), 1.2)
    _require(_stamps(target) == changed, "W3 changed files")
    shutil.rmtree(root)


def _drifting(bench: Bench, count: int, noop: tuple[str, ...]) -> Ratio:
    """Compare W3 with W2 of other files, so that no state is shared between them."""
    root = bench.root / "rest"
    root.mkdir()
    manifest, _ = workloads.write(count, root / "target", root / "site")
    (root / "target").mkdir()
    rest = ours(manifest, f"sqlite:{root}/state/state.db")
    cost(rest)
    _converge(rest)
    measured = pairs(rest, noop, bench.times(count))
    shutil.rmtree(root)
    return measured


def _converge(command: tuple[str, ...]) -> None:
    """Run until a run has found nothing to do and nothing to record, and has cached its conclusion."""
    for _ in range(2):
        cost(command)


def _changed_attributes(command: tuple[str, ...]) -> dict[str, str]:
    """Return the attributes that each step of a run with ``--json`` would change, by the path of its file."""
    lines = subprocess.run(command, capture_output=True, check=True).stdout.splitlines()  # noqa: S603 - our own
    steps = [document for document in map(json.loads, lines) if document["type"] == "step_end"]
    return {step["reference"][len("File[") : -1]: ", ".join(c["attribute"] for c in step["changes"]) for step in steps}


def _stamps(directory: Path) -> Mapping[str, tuple[int, ...]]:
    """Return for each file the values that show whether it was changed."""
    stamps = {}
    with os.scandir(directory) as entries:
        for entry in entries:
            status = entry.stat(follow_symlinks=False)
            stamps[entry.path] = (status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_mode)
    return stamps


def _require(truth: object, message: str) -> None:
    if not truth:
        raise RuntimeError(message)


def durable(bench: Bench, count: int) -> Iterator[Row]:
    """Measure W1 on a disk: the cost of files and state that survive a power failure."""
    root = Path(tempfile.mkdtemp(prefix="resource-api-bench-", dir=bench.disk))
    try:
        target = root / "target"
        manifest, _ = workloads.write(count, target, root / "site")
        fresh, more = bench.fresh(target), ("apply", str(manifest), "--state", f"sqlite:{root}/state/state.db")

        def prepare() -> None:
            fresh()
            shutil.rmtree(root / "state", ignore_errors=True)
            os.sync()

        not_durable = (sys.executable, str(HERE / "undurable.py"), *more)
        measured = pairs(not_durable, (OURS, *more), bench.times(count), prepare)
        yield Row("W1 on a disk, durable", count, "itself, not durable", measured, 1.3)
    finally:
        shutil.rmtree(root)


def state(bench: Bench, count: int) -> Iterator[Row]:
    """Measure the cost of journal and state for each changed resource."""
    manifest = workloads.graph("fresh", "flat", count, bench.root / "state.json")
    module = ("--module-path", str(HERE / "modules"))
    database = bench.root / "fresh"

    def prepare() -> None:
        shutil.rmtree(database, ignore_errors=True)

    recorded = ours(manifest, f"sqlite:{database}/state.db", *module)
    measured = pairs(ours(manifest, "memory:", *module), recorded, bench.times(count), prepare)
    yield Row("journal and state of a creation", count, "the same without state", measured)


def long_secret(bench: Bench, lines: int = 10_000) -> Iterator[Row]:
    """Measure the masking of what a provider logs beside a secret of 64 KiB, compared with plain text."""
    text = bench.root / "text"
    text.write_bytes(b64encode(random.Random(1).randbytes(48 << 10)))  # noqa: S311 - no secret, the same every time
    plain, secret = (
        ours(
            workloads.talker(
                bench.root / f"{name}.json", {"lines": lines, "text": "${inputs.text}"}, {"text": data_type}
            ),
            *("memory:", "--module-path", str(HERE / "modules"), "-i", f"text=@{text}"),
        )
        for name, data_type in (("plain", "String"), ("secret", "Sensitive[String]"))
    )
    measured = pairs(plain, secret, bench.times(lines))
    yield Row("log lines beside a secret of 64 KiB", lines, "a text that is not secret", measured, 1.2)


def programs(bench: Bench, count: int = 1_000) -> Iterator[Row]:
    """Measure the programs that a provider runs, compared with the library that starts them."""
    manifest = workloads.talker(bench.root / "programs.json", {"programs": count})
    floor = (sys.executable, str(HERE / "programs_floor.py"), str(count))
    measured = pairs(
        floor, ours(manifest, "memory:", "--module-path", str(HERE / "modules")), max(2, bench.times(count) // 3)
    )
    yield Row("programs of a provider", count, "`sh` alone", measured, 1.5)


def starts(bench: Bench) -> Iterator[Row]:
    """Measure W4 and W5: the start of the program, and listings."""
    with_state = (*bench.empty[1:-1], f"sqlite:{bench.root}/empty/state.db")
    for what, words, aim in (
        ("W4 `--version`", ("--version",), 1.3),
        ("W4 empty apply", bench.empty[1:], START / SECONDS_OF_CLICK),
        ("W4 empty apply, state kept", with_state, 1.8),
        ("W4 `resource user root`", ("resource", "user", "root"), 1.6),
        ("W5 `resource user`", ("resource", "user"), 0.070 / SECONDS_OF_CLICK),
        ("W5 `resource package`", ("resource", "package"), 0.080 / SECONDS_OF_CLICK),
    ):
        measured = pairs(CLICK, (OURS, *words), bench.times(0))
        yield Row(what, 0, "`import click`", measured, aim)


def graphs(bench: Bench, count: int) -> Iterator[Row]:
    """Measure W6: resources with relationships only, compared with an empty manifest."""
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
            measured = pairs(bench.empty, command, bench.times(count))
            log = LOG if what == "apply" else 0.0
            yield _many(f"W6 {shape}, {what}", count, "empty apply", measured, 1 + (count * RELATED + log) / START)


def remote(bench: Bench, count: int = 200, calls: int = 20) -> Iterator[Row]:
    """Measure W8: hosts of a service that answers after 50 ms, ``calls`` at once. The cost is elapsed time."""
    root = bench.root / "remote"
    root.mkdir()
    (root / "token").write_text("token")
    service = Service(root / "token")
    try:
        manifest = workloads.hosts(count, service.url, root / "site.json")
        floor = (sys.executable, str(HERE / "remote_floor.py"), str(manifest), str(root / "token"), str(calls))
        options = ("-i", f"token=@{root / 'token'}", "--module-path", str(INVENTORY), "--parallel", str(calls))
        command = ours(manifest, f"sqlite:{root}/state/state.db", *options)

        def prepare() -> None:
            service.restart()
            shutil.rmtree(root / "state", ignore_errors=True)

        measured = pairs(floor, command, bench.times(count), prepare, attrgetter("elapsed"))
        yield Row("W8 remote hosts, 50 ms each, 20 at a time, elapsed", count, "their requests alone", measured, 1.3)
    finally:
        service.stop()


def hosts(bench: Bench, count: int) -> Iterator[Row]:
    """Measure W10: a run over simulated hosts, compared with one host."""
    directory = bench.root / "hosts"
    directory.mkdir(exist_ok=True)
    one, many = (
        Command((sys.executable, str(HERE / "simulated_hosts.py"), str(number), str(directory)), codes=(0, 1))
        for number in (1, count)
    )
    yield Row("W10 simulated hosts, 1 in 1,000 fails", count, "one host", pairs(one, many, bench.times(count)))


def rehearsal_of_nothing(bench: Bench) -> Iterator[Row]:
    """Measure W9: what a rehearsal costs without anything to do, elapsed."""
    root = Path(tempfile.mkdtemp(prefix="resource-api-bench-", dir=bench.disk))
    try:
        empty = root / "empty.json"
        empty.write_text('{"project": "bench", "resources": {}}')
        measured = pairs(CLICK, (*REHEARSE, str(empty)), bench.times(0), of=attrgetter("elapsed"))
        yield Row("W9 rehearse nothing, elapsed", 0, "`import click`", measured, REHEARSED / SECONDS_OF_CLICK)
    finally:
        shutil.rmtree(root)


def rehearsals(bench: Bench, count: int) -> Iterator[Row]:
    """Measure W9: a rehearsal, which runs twice, beside two runs outside. On a disk, because ``/dev`` is not in it."""
    root = Path(tempfile.mkdtemp(prefix="resource-api-bench-", dir=bench.disk))
    try:
        target = root / "target"
        manifest, _ = workloads.write(count, target, root / "site")
        twice = ("sh", "-c", '"$@" && "$@"', "sh", *ours(manifest))
        measured = pairs(twice, (*REHEARSE, str(manifest)), bench.times(count), bench.fresh(target))
        yield Row("W9 rehearse, JSON", count, "apply, twice", measured, 1.5)
    finally:
        shutil.rmtree(root)


def examples(bench: Bench) -> Iterator[Row]:
    """Measure rehearsals of examples with packages and everything that can be asked for, elapsed: with a network."""
    more = ("--orders", "5", "--kills", "5", "--damage", "--destroy")
    for name in ("server", "website"):
        once = (*REHEARSE, str(INVENTORY.parent / f"{name}.yaml"), "--network", "host")
        measured = pairs(once, (*once, *more), min(3, bench.times(0)), of=attrgetter("elapsed"))
        yield Row(f"rehearse {name}.yaml {' '.join(more)}, elapsed", 0, "without these options", measured)


class Service:
    """The inventory service of ``examples/``, restarted for each run on the same port."""

    def __init__(self, token: Path) -> None:
        """Start on a free port."""
        self._token = token
        self._port = 0
        self._process: subprocess.Popen[str] | None = None
        self.restart()

    @property
    def url(self) -> str:
        """The address of the service."""
        return f"http://127.0.0.1:{self._port}"

    def restart(self) -> None:
        """Start again with no hosts."""
        self.stop()
        words = (str(INVENTORY / "server.py"), "--port", str(self._port), "--latency", "0.05")
        self._process = subprocess.Popen(  # noqa: S603 - our own
            (sys.executable, *words, "--token-file", str(self._token)), stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None  # noqa: S101 - for mypy
        self._port = int(self._process.stdout.readline().rpartition(":")[2])

    def stop(self) -> None:
        """Stop the service."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()


def row(case: Row) -> dict[str, Any]:
    """Return a result for JSON, and show it on stderr."""
    measured = case.measured
    spread = f"{measured.ratio:.2f} ({measured.least:.2f} to {measured.greatest:.2f})"
    sys.stderr.write(f"{case.what}, {case.number}: {spread}, {measured.ours:.3f} s, {measured.memory:.0f} MiB\n")
    values = {key: round(value, 4) for key, value in measured._asdict().items()}
    return {"what": case.what, "count": case.number, "beside": case.beside, "aim": round(case.aim, 2), **values}
