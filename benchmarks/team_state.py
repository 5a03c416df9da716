"""``python -m benchmarks.team_state``: measure state on a PostgreSQL server beside SQLite, both durable on one disk.

The server is a new one of this machine, so that its figures have no network in them; each journey to a server that is
farther away is added to a commit once, and to the intents before it.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import workloads
from benchmarks.cases import HERE, ours
from benchmarks.measure import Ratio, pairs
from resource_api.model.record import Commit, Intent
from resource_api.state.postgresql.store import PostgresqlStore
from resource_api.state.sqlite.store import SqliteStore
from resource_api.testing.state_compliance import WEB, record
from tests.postgresql_server import Server

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from resource_api.state.store import Store

#: The numbers of records of one segment, and of resources that are applied.
SEGMENTS = (1, 10, 100, 1_000)
RESOURCES = 1_000
#: The number of pairs of segments, and of whole runs.
SEGMENT_PAIRS = 40
RUN_PAIRS = 5


def segment(store: Store, names: Sequence[str]) -> float:
    """Return the seconds of the intents and the commit of one segment."""
    began = time.perf_counter()
    store.record_intents(WEB, [Intent("run", "file", name, name, "update") for name in names])
    put = [record(name) for name in names]
    store.commit(WEB, Commit(put, resolved=[row.key for row in put]))
    return time.perf_counter() - began


def segments(sqlite: Store, postgresql: Store) -> Iterator[str]:
    """Yield a line for each size of a segment: both stores took turns."""
    with sqlite.lock("bench", 0), postgresql.lock("bench", 0):
        for count in SEGMENTS:
            names = [f"/srv/site/{number}" for number in range(count)]
            times = [(segment(sqlite, names), segment(postgresql, names)) for _ in range(SEGMENT_PAIRS)]
            columns = [1000 * statistics.median(column) for column in zip(*times, strict=True)]
            ratio = statistics.median(on_server / on_disk for on_disk, on_server in times)
            label = f"intents and commit of {count} record{'s' if count > 1 else ''}"
            yield f"| {label} | {columns[0]:.1f} ms | {columns[1]:.1f} ms | {ratio:.2f} |"


def runs(root: Path, server: Server) -> Iterator[str]:
    """Yield a line for a run that creates resources: elapsed, whole processes."""
    manifest, database = workloads.graph("fresh", "flat", RESOURCES, root / "site.json"), root / "runs"
    module = ("--module-path", str(HERE / "modules"))
    url = f"postgresql://postgres@127.0.0.1:{server.port}/postgres"

    def empty() -> None:
        shutil.rmtree(database, ignore_errors=True)
        server.sql("DROP SCHEMA IF EXISTS resource_api CASCADE")

    def line(label: str, measured: Ratio) -> str:
        return f"| {label} | {measured.floor:.2f} s | {measured.ours:.2f} s | {measured.ratio:.2f} |"

    commands = [ours(manifest, state, *module) for state in (f"sqlite:{database}/state.db", url)]
    created = pairs(commands[0], commands[1], RUN_PAIRS, empty, attrgetter("elapsed"))
    yield line(f"`apply` that creates {RESOURCES:,} resources", created)


def main() -> None:
    """Measure, and print a table."""
    disk = tempfile.gettempdir()
    root = Path(tempfile.mkdtemp(prefix="resource-api-bench-", dir=disk))
    server = Server("fsync=on", "full_page_writes=on", "synchronous_commit=on", directory=disk)
    try:
        sys.stdout.write("| | SQLite | PostgreSQL | ratio |\n| --- | --: | --: | --: |\n")
        with server.database() as url:
            stores = SqliteStore(f"{root}/segments/state.db"), PostgresqlStore(url)
            for line in segments(*stores):
                sys.stdout.write(f"{line}\n")
        for line in runs(root, server):
            sys.stdout.write(f"{line}\n")
    finally:
        server.remove()
        shutil.rmtree(root)


main()
