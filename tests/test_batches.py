"""All tests are run, each once, and a failure is shown."""

from __future__ import annotations

import subprocess
import sys
from itertools import chain
from typing import TYPE_CHECKING

import pytest

from tests import batches, command

if TYPE_CHECKING:
    from pathlib import Path


def test_each_file_is_in_one_batch() -> None:
    """What takes long stands alone, and exists."""
    names = batches.files(["tests", "examples"])
    assert sorted(chain(*batches.batches(names))) == names
    assert set(batches.LONG) <= set(names)


@pytest.mark.process
@pytest.mark.parametrize(
    ("law", "code", "counts"), [("x = 1", 0, "1 passed, 0 failed"), ("1 / 0", 1, "0 passed, 1 failed")]
)
def test_a_failure_is_shown_and_decides_the_exit_code(tmp_path: Path, law: str, code: int, counts: str) -> None:
    """The last line counts the tests of all batches."""
    (tmp_path / "test_one.py").write_text(f"def test_one():\n    {law}\n")
    (tmp_path / "test_none.py").write_text("")
    words = [sys.executable, "-m", "tests.batches", str(tmp_path), "--", "-o", "addopts="]
    done = subprocess.run(words, cwd=command.ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (code, f"{counts}, 0 skipped"), done.stdout + done.stderr
    assert ("ZeroDivisionError" in done.stdout) == bool(code)
