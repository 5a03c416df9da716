"""``python -m benchmarks [COUNT ...]``: measure, write ``results.json``, and make the page of it."""

from __future__ import annotations

import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import workloads
from benchmarks.measure import cost, pairs
from benchmarks.page import page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.measure import Ratio

HERE = Path(__file__).resolve().parent
COUNTS = (100, 1_000, 10_000, 100_000)
FLOOR = (sys.executable, "-I", "-S", str(HERE / "floor.py"))
OURS = str(Path(sys.executable).parent / "resource-api")
#: On memory, so that no disk is in the figures.
PLACE = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - a fresh directory is made in it


def files(count: int, root: Path) -> Iterator[tuple[str, Ratio]]:
    """Measure making ``count`` files, finding them in order, and finding that one in a hundred has drifted."""
    target = root / "files"
    as_json, as_yaml = workloads.write(count, target, root / f"files-{count}")
    times = 9 if count <= 1000 else 5 if count <= 10_000 else 2  # noqa: PLR2004 - what can be waited for

    def fresh() -> None:
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()

    def ours(manifest: Path, state: str = "memory:", *more: str) -> list[str]:
        return [OURS, "apply", str(manifest), "--state", state, *more]

    database = f"sqlite:{root}/state-{count}/state.db"
    check = [*FLOOR, "check", str(as_json)]
    yield "W1 create, JSON", pairs([*FLOOR, "apply", str(as_json)], ours(as_json), times, fresh)
    yield "W2 no change, JSON", pairs(check, ours(as_json), times)
    yield "W2 no change, YAML", pairs(check, ours(as_yaml), times)
    cost(ours(as_json, database))
    yield "W2 no change, JSON, with state", pairs(check, ours(as_json, database), times)
    workloads.drift(count, target)
    yield "W3 --noop, 1 % drifted, JSON", pairs(check, ours(as_json, "memory:", "--noop"), times)


def starts() -> Iterator[tuple[str, Ratio]]:
    """Measure what every call costs, beside importing the library of the command line."""
    click = [sys.executable, "-c", "import click"]
    yield "`--version` beside `import click`", pairs(click, [OURS, "--version"], 15)
    yield "`resource user root` beside `import click`", pairs(click, [OURS, "resource", "user", "root"], 15)


def row(what: str, count: int, measured: Ratio) -> dict[str, Any]:
    """Give a result as JSON, and show it meanwhile."""
    sys.stderr.write(f"{what}, {count}: {measured.ratio:.2f} ({measured.least:.2f} to {measured.greatest:.2f})\n")
    return {"what": what, "count": count, **{key: round(value, 4) for key, value in measured._asdict().items()}}


def measure(counts: tuple[int, ...], root: Path) -> dict[str, Any]:
    """Measure everything; takes some minutes."""
    empty = root / "empty.json"
    empty.write_text('{"project": "bench", "resources": {}}')
    nothing: Callable[[], float] = lambda: cost([OURS, "apply", str(empty), "--state", "memory:"]).seconds  # noqa: E731 - once
    nothing()
    rows = [row(what, 0, measured) for what, measured in starts()]
    start = statistics.median(nothing() for _ in range(9))
    rows += [row(what, count, measured) for count in counts for what, measured in files(count, root)]
    machine = {"system": platform.platform(), "python": platform.python_version(), "processors": os.cpu_count()}
    return {"machine": machine, "empty": round(start, 4), "rows": rows}


def main(arguments: list[str]) -> None:
    """Measure, and write what was found."""
    with tempfile.TemporaryDirectory(prefix="resource-api-bench-", dir=PLACE) as root:
        results = measure(tuple(map(int, arguments)) or COUNTS, Path(root))
    (HERE / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    text = page(results)
    (HERE.parent / "docs" / "performance.md").write_text(text)
    sys.stdout.write(text)


main(sys.argv[1:])
