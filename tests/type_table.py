"""Write the table of ``docs/types.md`` from the laws that each bundled type has passed.

``python -m tests.type_table [TYPE ...]`` runs the laws of these types, or of all, against the real thing.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from functools import cache
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from junitparser import Error, Failure, JUnitXml, Skipped

from tests.bundled import laws_of, types_with_resources
from tests.faults.bundled import CASES
from tests.providers.odd_files import ODD_FILES, kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "types.md"
BEGIN, END = "<!-- table: python -m tests.type_table -->", "<!-- end of the table -->"
#: The variable that names the directory in which tests on a machine of their own leave their report.
DIRECTORY: Final = "LAWS_REPORTS"
TYPES: Final = types_with_resources()
#: Column → the laws of which one must have been passed.
COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "create, then no change": ("test_create_makes_what_is_declared", "test_a_resource_that_has_run_is_not_due_again"),
    "drift repaired": ("test_update_changes_only_what_differs",),
    "delete": ("test_delete_leaves_nothing",),
    "list → manifest": ("test_a_listing_is_a_manifest_without_changes",),
    "many at once": ("test_one_call_needs_no_second_attempt",),
    "parallel": ("test_calls_side_by_side_lose_nothing",),
    "side effects": ("test_side_effects_are_reported_without_a_change",),
    "hostile names": ("test_a_hostile_name_is_refused_or_is_the_name",),
    "hostile neighbour": ("test_neighbours_change_nothing_for_others",),
}
#: The laws of which every type must have passed one; the page says so, without a column.
NOOP: Final = ("test_noop_changes_nothing", "test_noop_runs_nothing")
PASSED, NOT_PASSED = "yes", "-"


def passed_laws(reports: Iterator[Path]) -> Mapping[str, set[str]]:
    """Return type → the laws that it has passed, from reports of pytest. Raise ``ValueError`` for one that failed."""
    entries: dict[str, set[str]] = {name: set() for name in TYPES}
    for report in reports:
        for suite in JUnitXml.fromfile(str(report)):
            for case in suite:
                module, _, name = case.classname.rpartition(".")
                if any(isinstance(item, (Error, Failure)) for item in case.result):
                    raise ValueError(f"{case.classname}.{case.name} has failed")
                if name.startswith("Test") and not any(isinstance(value, Skipped) for value in case.result):
                    tested = getattr(getattr(importlib.import_module(module), name), "type_name", "")
                    entries.get(tested, set()).add(case.name.partition("[")[0])
    return entries


def cells(name: str, laws: set[str]) -> dict[str, str]:
    """Return the row of a type: column → whether one of its laws is among those that were passed."""
    entries = {column: bool(laws.intersection(expected)) for column, expected in COLUMNS.items()}
    facts = {"odd machine": name in odd_types(), "whole directory": _checks_directory(name)}
    every = {**entries, **facts, "killed anywhere": name in CASES}
    return {column: PASSED if item else NOT_PASSED for column, item in every.items()}


@cache
def odd_types() -> frozenset[str]:
    """Return the types that list, and edit where something can be declared, a file of the corpus of odd files."""
    return frozenset(map(kind, ODD_FILES))


def _checks_directory(name: str) -> bool:
    """Return whether a provider of a type imports what checks the directory of its files as a whole."""
    code = [*ROOT.glob(f"providers/{name}.py"), *ROOT.glob(f"providers/{name}/*.py")]
    return any("whole_directory" in path.read_text(encoding="utf-8") for path in code)


def table(mapping: Mapping[str, Mapping[str, str]]) -> str:
    """Return the rows as Markdown."""
    head = ["type", *cells("", set())]
    lines = [f"| {' | '.join(head)} |", f"| --- |{' --- |' * (len(head) - 1)}"]
    for name, row in sorted(mapping.items()):
        lines.append(f"| [{name}](reference/{name}.md) | {' | '.join(row.values())} |")
    return "\n".join(lines)


def rows(page: str) -> Mapping[str, Mapping[str, str]]:
    """Return type → column → cell of the table in a page."""
    _, _, rest = page.partition(BEGIN)
    lines = [line.strip("| ").split(" | ") for line in rest.partition(END)[0].strip().splitlines()]
    head = lines[0]
    return {line[0].partition("]")[0].strip("["): dict(zip(head[1:], line[1:], strict=True)) for line in lines[2:]}


def _laws(row: Mapping[str, str]) -> Mapping[str, str]:
    """Return the cells of a row that only a run of the laws can tell."""
    return {column: cell for column, cell in row.items() if column in COLUMNS}


def main(names: Sequence[str]) -> None:
    """Run the laws of some types, and replace their rows in the page; those of types that are gone disappear."""
    with TemporaryDirectory() as directory:
        report = Path(directory, "laws.xml")
        words = (sys.executable, "-m", "pytest", "-q", f"--junitxml={report}")
        tests = [str(laws_of(name)) for name in names]
        laws = " or ".join(chain(*COLUMNS.values(), NOOP, ["test_the_laws_hold_on_the_machine"]))
        subprocess.run([*words, "-k", laws, *tests], check=True, cwd=ROOT, env={**os.environ, DIRECTORY: directory})
        passed = passed_laws(Path(directory).glob("*.xml"))
    if failed := [name for name in names if not passed[name].intersection(NOOP)]:
        raise ValueError(f"changes something under noop: {', '.join(failed)}")
    page = PAGE.read_text(encoding="utf-8")
    stored = {name: {**cells(name, set()), **_laws(row)} for name, row in rows(page).items() if name in TYPES}
    text = table({**stored, **{name: cells(name, passed[name]) for name in names}})
    before, _, rest = page.partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:] or TYPES)
