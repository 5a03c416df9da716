"""Python code in a process of its own, which strace may watch: what the tests of faults of the state share."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT: Final = Path(__file__).resolve().parents[3]


def run(code: str, *arguments: str, before: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process; ``before``: the command that starts it."""
    return subprocess.run(
        [*before, sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def calls(log: Path) -> list[tuple[str, int]]:
    """Return every call in a log of strace, with its number among calls of that name."""
    counts: dict[str, int] = {}
    entries = []
    for line in log.read_text(encoding="utf-8").splitlines():
        if call := re.match(r"(?:\d+ +)?(\w+)\(", line):
            counts[call[1]] = counts.get(call[1], 0) + 1
            entries.append((call[1], counts[call[1]]))
    return entries
