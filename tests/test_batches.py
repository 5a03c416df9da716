"""All tests are run, each once, and a failure is shown."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import batches, command, namespaces, sampling


def test_each_file_is_in_one_batch() -> None:
    """What takes long stands alone, and exists."""
    names = batches.files(["tests", "examples"])
    assert sorted(chain(*batches.batches(names))) == names
    assert set(batches.LONG) <= set(names)


def test_each_part_of_a_divided_file_has_whole_benches_and_all_have_each_case() -> None:
    """A bench is built once."""
    cases: list[Any] = [
        SimpleNamespace(name=None),
        *(SimpleNamespace(callspec=SimpleNamespace(params={"bench": letter})) for letter in "abcdeabcde"),
    ]
    parts = [batches.divide(cases, number, 3)[0] for number in range(3)]
    assert sorted(map(id, chain(*parts))) == sorted(map(id, cases))
    letters: list[set[str]] = [
        {case.callspec.params["bench"] for case in part if hasattr(case, "callspec")} for part in parts
    ]
    assert sum(map(len, letters)) == len(set().union(*letters)) == 5
    file, number = batches.DIVIDED
    assert batches.batches([file], sampled=False) == [[file, f"--part={part}/{number}"] for part in range(number)]


def test_each_sampled_file_exists_and_is_on_the_page_of_tiers() -> None:
    """The page says one in how many of its laws ``make test`` tries (``python -m tests.tiers``)."""
    page = (command.ROOT / "docs/internals/testing-tiers.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([^`]+)` .* \| one \w+ in (\d+)", page, re.MULTILINE))
    assert rows == {path: str(turns) for path, turns in sampling.TURNS.items()}
    assert all((command.ROOT / path).exists() for path in rows)


@pytest.mark.process
@pytest.mark.parametrize(
    ("law", "code", "counts"), [("x = 1", 0, "1 passed, 0 failed"), ("1 / 0", 1, "0 passed, 1 failed")]
)
def test_a_failure_is_shown_and_decides_the_exit_code(tmp_path: Path, law: str, code: int, counts: str) -> None:
    """The last line counts the tests of all batches."""
    (tmp_path / "test_one.py").write_text(f"def test_one():\n    {law}\n")
    (tmp_path / "test_none.py").write_text("")
    words = [sys.executable, "-m", "tests.batches", str(tmp_path), "--", "-o", "addopts="]
    process = subprocess.run(words, cwd=command.ROOT, capture_output=True, text=True, check=False)
    assert (process.returncode, process.stdout.splitlines()[-1]) == (code, f"{counts}, 0 skipped"), (
        process.stdout + process.stderr
    )
    assert ("ZeroDivisionError" in process.stdout) == bool(code)


@pytest.mark.process
def test_the_tests_can_run_in_the_background_of_a_script() -> None:
    """A shell starts them with interrupts ignored there, which the programs under test must not inherit."""
    law = "tests/scenarios/test_set_failure.py::test_a_signal_ends_the_running_call_and_skips_the_rest"
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", law]
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process = subprocess.run(words, cwd=command.ROOT, capture_output=True, text=True, check=False)
    finally:
        signal.signal(signal.SIGINT, before)
    assert process.returncode == 0, process.stdout + process.stderr


@pytest.mark.process
def test_nothing_is_left_of_files_in_memory(tmp_path: Path) -> None:
    """They are in a file system of the run, where the user may mount one; elsewhere they are removed."""
    here, path = Path(tempfile.gettempdir()).stat().st_dev, tmp_path / "place"
    (tmp_path / "test_one.py").write_text(
        f"def test_one(tmp_path):\n"
        f"    open({str(path)!r}, 'w').write(str(tmp_path))\n"
        f"    assert (tmp_path.stat().st_dev != {here}) == {namespaces.may_mount()}\n"
    )
    words = [sys.executable, "-m", "tests.batches", str(tmp_path), "--", "-o", "addopts="]
    process = subprocess.run(words, cwd=command.ROOT, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout + process.stderr
    written = Path(path.read_text())
    assert not any(item.exists() for item in (written, *written.parents[:3]))


@pytest.mark.process
def test_a_sample_tries_each_law_and_all_samples_try_all_cases(tmp_path: Path) -> None:
    """Of a law with three cases one is tried, another one by the next sample; what takes long is left out."""
    ran = tmp_path / "ran"
    (tmp_path / "test_one.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('case', 'abc')\n"
        f"def test_law(case): open({str(ran)!r}, 'a').write(case)\n"
        "@pytest.mark.whole\n"
        f"def test_long(): open({str(ran)!r}, 'a').write('long')\n"
    )
    for seed in "012":
        words = [sys.executable, "-m", "tests.batches", "--sampled", str(tmp_path), "--", "-o", "addopts="]
        environment = {**os.environ, "SAMPLE": seed}
        process = subprocess.run(words, cwd=command.ROOT, capture_output=True, text=True, check=False, env=environment)
        assert process.stdout.splitlines()[0] == f"The sample is that of SAMPLE={seed}."
        assert process.stdout.splitlines()[-1] == "1 passed, 0 failed, 0 skipped", process.stdout + process.stderr
    assert sorted(ran.read_text()) == ["a", "b", "c"]


@pytest.mark.process
def test_a_quick_sample_has_one_case_of_each_law() -> None:
    """Also of a law that needs no process, each of whose cases another sample has."""
    file = "tests/unit/model/test_suggestions.py"
    laws = (command.ROOT / file).read_text(encoding="utf-8").count("\ndef test_")
    passed = {}
    for option in ("--quick", "--sampled"):
        words = [sys.executable, "-m", "tests.batches", option, file]
        process = subprocess.run(words, cwd=command.ROOT, capture_output=True, text=True, check=False)
        passed[option] = int(process.stdout.splitlines()[-1].split()[0])
    assert passed["--quick"] == laws < passed["--sampled"]
