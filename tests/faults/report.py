"""Count the points of each sweep of a bundled type, and write the table of ``docs/internals/crash-safety.md``.

``python -m tests.faults.report DIRECTORY`` writes it after a run of all points with ``FAULTS_ALL_POINTS=DIRECTORY``.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tests.faults.bench import Bench
    from tests.faults.tracer import Point

PAGE: Final = Path(__file__).resolve().parents[2] / "docs/internals/crash-safety.md"
SWEEPS: Final = ("kill", "errno", "power")
BEGIN, END = "<!-- table: python -m tests.faults.report -->", "<!-- end of the table -->"


@contextmanager
def sweep(bench: Bench, kind: str) -> Iterator[Callable[[Iterable[Point]], Iterator[Point]]]:
    """Give a function that counts the points that were tried; none is an error. A whole sweep writes its count."""
    tried = 0

    def count(points: Iterable[Point]) -> Iterator[Point]:
        nonlocal tried
        for point in points:
            yield point
            tried += 1

    yield count
    assert tried, "no point was tried"
    directory = os.environ.get("FAULTS_ALL_POINTS", "")
    if Path(directory).is_dir() and directory:
        (Path(directory) / f"{bench.name}.{kind}.json").write_text(json.dumps(tried), encoding="utf-8")


def table(directory: Path) -> str:
    """Return the table of the counts in a directory, as Markdown; a dash where no whole sweep has been made."""
    counts = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in directory.glob("*.json")}
    rows = {f"`{name}`": [counts.get(f"{name}.{kind}.json") for kind in SWEEPS] for name in sorted(_types(counts))}
    rows["all"] = [sum(count or 0 for count in column) for column in zip(*rows.values(), strict=True)]
    lines = [f"| {name} | {' | '.join(str(count or '-') for count in row)} | 0 |" for name, row in rows.items()]
    head = ["| type | killed | refused a call | without power | lost |", "| --- | --: | --: | --: | --: |"]
    return "\n".join([*head, *lines])


def _types(names: Iterable[str]) -> set[str]:
    return {name.partition(".")[0] for name in names}


def write(directory: Path) -> None:
    """Replace the table in the page."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table(directory)}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
