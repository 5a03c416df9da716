"""``python -m tests.cost [PATH ...]``: print the processor time of the tests, by file and by law.

Options of ``tests.batches`` are taken too: ``python -m tests.cost --sampled`` measures ``make test``. A test counts
with its fixtures, the programs that it starts and its runs of the command.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests import command

if TYPE_CHECKING:
    from collections.abc import Iterable

#: How many files and laws are printed.
_ROWS: Final = 40


def totals(lines: Iterable[str]) -> dict[str, Counter[str]]:
    """Return the seconds by file and by law, from lines of seconds and a test's name."""
    tables: dict[str, Counter[str]] = {"file": Counter(), "law": Counter()}
    for line in lines:
        seconds, test = line.rstrip("\n").split(" ", 1)
        tables["file"][test.partition("::")[0]] += float(seconds)  # type: ignore[assignment] # seconds, not a count
        tables["law"][test.partition("[")[0]] += float(seconds)  # type: ignore[assignment]
    return tables


def main() -> int:
    """Run the tests and print their costs; return the exit code of the tests."""
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as file:
        words = [sys.executable, "-m", "tests.batches", "--costs", file.name, *sys.argv[1:]]
        code = subprocess.run(words, cwd=command.ROOT, check=False).returncode
        tables = totals(Path(file.name).read_text(encoding="utf-8").splitlines())
    for kind, table in tables.items():
        print(f"\nSeconds by {kind}, {sum(table.values()):.0f} in total:")  # noqa: T201 - a command
        for name, seconds in table.most_common(_ROWS):
            print(f"{seconds:8.1f}  {name}")  # noqa: T201 - a command
    return code


if __name__ == "__main__":
    sys.exit(main())
