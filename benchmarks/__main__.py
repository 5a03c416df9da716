"""``python -m benchmarks [--only W] [--peers] [COUNT ...]``: measure, write ``results.json``, make the page of it."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import cases, peers
from benchmarks.cases import HERE, Bench, Row
from benchmarks.measure import cost, pairs
from benchmarks.page import page

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNTS = (100, 1_000, 10_000, 100_000)
RESULTS = HERE / "results.json"
#: On memory, so that no disk is in the figures; the temporary directory is taken for a disk.
PLACE = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - a fresh directory is made in it


def wanted() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure beside what must be done anyway."
    )
    parser.add_argument("counts", nargs="*", type=int, metavar="COUNT", help="of how many resources")
    parser.add_argument("--only", default="", help="what begins so: W2, W6, puppet; the rest stays as it was measured")
    parser.add_argument("--pairs", type=int, default=9, help="so many pairs of a short program, fewer of a long one")
    parser.add_argument("--peers", action="store_true", help="other tools too, those that are installed")
    return parser.parse_args()


def groups(bench: Bench, counts: tuple[int, ...], *, others: bool) -> Iterator[tuple[str, Iterator[Row]]]:
    """Give what can be measured, each with what its rows begin with."""
    yield "W4 W5", cases.starts(bench)
    for count in counts:
        yield "W1 W2 W3", cases.files(bench, count)
    for count in counts:
        yield "W6", cases.graphs(bench, count)
    yield "W1 durable", cases.durable(bench, min(10_000, max(counts)))
    for count in counts:
        yield "journal", cases.state(bench, count)
    yield "W8", cases.remote(bench)
    for name in peers.installed() if others else ():
        yield name, peers.compare(bench, name)


def measure(arguments: argparse.Namespace, root: Path) -> dict[str, Any]:
    """Measure what is wanted; everything takes a quarter of an hour."""
    bench = Bench(root, Path(tempfile.gettempdir()), patience=arguments.pairs)
    cost(bench.empty)
    start = pairs(cases.CLICK, bench.empty, arguments.pairs)
    found = []
    for words, rows in groups(bench, tuple(arguments.counts) or COUNTS, others=arguments.peers):
        if any(word.startswith(arguments.only) for word in words.split()):
            found += [cases.row(each) for each in rows]
    machine = {"system": platform.platform(), "python": platform.python_version(), "processors": os.cpu_count()}
    return {"machine": machine, "empty": round(start.ours, 4), "click": round(start.floor, 4), "rows": found}


def merged(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """Put what was measured now in place of what was measured before; what was not stays."""
    rows = {(row["what"], row["count"]): row for row in before.get("rows", ())}
    rows |= {(row["what"], row["count"]): row for row in now["rows"]}
    return {**now, "rows": list(rows.values())}


def main() -> None:
    """Measure, and write what was found."""
    arguments = wanted()
    with tempfile.TemporaryDirectory(prefix="resource-api-bench-", dir=PLACE) as root:
        results = measure(arguments, Path(root))
    if (arguments.only or arguments.counts) and RESULTS.exists():
        results = merged(json.loads(RESULTS.read_text()), results)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    text = page(results)
    (HERE.parent / "docs" / "performance.md").write_text(text)
    sys.stdout.write(text)


main()
