"""What holds for every test: the caller's environment steers nothing, and a slow machine is no failure."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests import command, sampling  # noqa: F401 - how many random examples are tried

# Otherwise each process of the tests, and each pytest that a test starts, would compile what it imports, and hypothesis
# would compute its tables of characters again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(Path(__file__).resolve().parent.parent / ".hypothesis")
pytest.register_assert_rewrite("resource_api.testing", "tests.fleet.carrier_compliance")
command.stop_ignoring_signals()


@pytest.fixture
def _unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the measuring of coverage out of child processes, whose own imports are counted."""
    for name in ("COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def _neutral_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away what would choose a state, a module path or colours for the program under test."""
    for name in os.environ:
        if name.startswith("RESOURCE_API_") or name in {"NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE"}:
            monkeypatch.delenv(name)
