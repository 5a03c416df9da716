"""``python -m tests.tiers``: write the table of ``docs/internals/testing-tiers.md``: which tier runs which laws."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from typing import TYPE_CHECKING, Final

import pytest

from tests import command, sampling

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_PAGE: Final = command.ROOT / "docs/internals/testing-tiers.md"
_TABLE: Final = re.compile(r"(?<=<!-- tiers: begin -->\n).*(?=<!-- tiers: end -->)", re.DOTALL)


class Collected:
    """A plugin that keeps the collected tests and runs none of them."""

    def __init__(self) -> None:
        """Begin without tests."""
        self.items: list[pytest.Item] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Take all tests out of the run."""
        self.items += items
        items.clear()


def row_of(item: pytest.Item) -> str:
    """Return the path of the row of a test: its file if that has its own number of turns, or else its directory."""
    file = item.nodeid.partition("::")[0]
    if file in sampling.TURNS or item.get_closest_marker("whole"):
        return file
    directory = "/".join(file.split("/")[:2]) if file.count("/") > 1 else file.partition("/")[0]
    return f"{directory}/"


def table(items: Sequence[pytest.Item]) -> str:
    """Return the table: one row for each directory, and for each file that differs from its directory."""
    rows: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        rows[row_of(item)].append(item)
    lines = [
        "| path | laws | cases | `make quick` | `make test` | `make test-all` |",
        "| --- | --: | --: | --: | --- | --- |",
    ]
    lines += [_line(path, rows[path]) for path in sorted(rows)]
    return "\n".join(lines) + "\n"


def _line(path: str, items: Sequence[pytest.Item]) -> str:
    """Return the row of a path."""
    fast = [item for item in items if not {"process", "whole"} & {mark.name for mark in item.iter_markers()}]
    quick = f"{len(fast) // sampling.turns(path)} cases" if fast and path.startswith(sampling.IN_PROCESS) else ""
    return f"| `{path}` | {_laws(items)} | {len(items)} | {quick} | {_sample(path, items)} | all |"


def _laws(items: Iterable[pytest.Item]) -> int:
    """Return the number of laws of tests."""
    return len({item.nodeid.partition("[")[0] for item in items})


def _sample(path: str, items: Sequence[pytest.Item]) -> str:
    """Return in words which part of the tests of a path a sample has."""
    whole = [item for item in items if item.get_closest_marker("whole")]
    if len(whole) == len(items):
        return ""
    unit = "case" if path.startswith(sampling.IN_PROCESS) else "law"
    turns = sampling.turns(path)
    part = f"each {unit}" if turns == 1 else f"one {unit} in {turns}"
    return f"{part}, without {_laws(whole)} long laws" if whole else part


def main() -> int:
    """Write the table into the page; return the exit code of the collection."""
    collected = Collected()
    options = ["-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    code = pytest.main([*options, "tests", "examples"], plugins=[collected])
    if code in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
        rows = table(collected.items)
        _PAGE.write_text(_TABLE.sub(lambda _: rows, _PAGE.read_text(encoding="utf-8")), encoding="utf-8")
        return 0
    return code


if __name__ == "__main__":
    sys.exit(main())
