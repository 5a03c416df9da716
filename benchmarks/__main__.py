"""``python -m benchmarks [--only W] [--peers] [COUNT ...]``: measure, write ``results.json``, generate the page."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import cases, peers, results
from benchmarks.cases import Bench, Row
from benchmarks.measure import cost, pairs

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNTS = (100, 1_000, 10_000, 100_000)
#: A file system in memory, so that the figures do not depend on a disk; the temporary directory counts as a disk.
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - a new directory is created in it


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure, compared with the necessary work."
    )
    parser.add_argument("counts", nargs="*", type=int, metavar="COUNT", help="numbers of resources")
    parser.add_argument(
        "--only", default="", help="measure only what begins with this: W2, W6, puppet; other results stay"
    )
    parser.add_argument(
        "--pairs", type=int, default=9, help="the number of pairs of short programs; long ones run fewer"
    )
    parser.add_argument("--peers", action="store_true", help="measure other installed tools too")
    parser.add_argument("--examples", action="store_true", help="rehearse examples too, as root and with a network")
    return parser.parse_args()


def groups(bench: Bench, arguments: argparse.Namespace) -> Iterator[tuple[str, Iterator[Row]]]:
    """Yield the groups of measurements, each with the words that its rows begin with."""
    counts, root = tuple(arguments.counts) or COUNTS, os.geteuid() == 0
    yield "W4 W5", cases.starts(bench)
    for count in counts:
        yield "W1 W2 W3", cases.files(bench, count)
    for count in counts:
        yield "W6", cases.graphs(bench, count)
    yield "W1 durable", cases.durable(bench, min(10_000, max(counts)))
    for count in counts:
        yield "journal", cases.state(bench, count)
    yield "W8", cases.remote(bench)
    for count in counts:
        yield "W10", cases.hosts(bench, count)
    yield "log", cases.long_secret(bench)
    yield "programs", cases.programs(bench)
    if root:
        yield "W9", cases.rehearsal_of_nothing(bench)
    for count in counts if root else ():
        yield "W9", cases.rehearsals(bench, count)
    if arguments.examples:
        yield "examples", cases.examples(bench)
    for name in peers.installed() if arguments.peers else ():
        yield name, peers.compare(bench, name)


def measure(arguments: argparse.Namespace, root: Path) -> dict[str, Any]:
    """Measure the selected groups; all of them take a quarter of an hour."""
    bench = Bench(root, Path(tempfile.gettempdir()), most_pairs=arguments.pairs)
    cost(bench.empty)
    start = pairs(cases.CLICK, bench.empty, arguments.pairs)
    rows: list[dict[str, Any]] = []
    for words, group in groups(bench, arguments):
        if any(word.startswith(arguments.only) for word in words.split()):
            rows += map(cases.row, group)
    machine = {"system": platform.platform(), "python": platform.python_version(), "processors": os.cpu_count()}
    return {"machine": machine, "empty": round(start.ours, 4), "click": round(start.floor, 4), "rows": rows}


def merged(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """Return the earlier results with the rows that were measured now replaced."""
    rows = {(row["what"], row["count"]): row for row in before.get("rows", ())}
    rows |= {(row["what"], row["count"]): row for row in now["rows"]}
    return {**now, "rows": list(rows.values())}


def main() -> None:
    """Measure, and write the results and the page."""
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory(prefix="resource-api-bench-", dir=MEMORY) as root:
        document = measure(arguments, Path(root))
    before = results.read()
    if arguments.only or arguments.counts:
        document = merged(before, document)
    # The whole machine is measured by itself.
    other_tables = {key: before[key] for key in ("webserver",) if key in before}
    sys.stdout.write(results.write({**other_tables, **document}))


main()
