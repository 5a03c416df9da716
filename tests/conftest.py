"""What holds for every test: the caller's environment steers nothing, and a slow machine is no failure."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from tests import sampling

# Otherwise each process of the tests, and each pytest that a test starts, would compile what it imports, and hypothesis
# would compute its tables of characters again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(Path(__file__).resolve().parent.parent / ".hypothesis")
pytest.register_assert_rewrite("resource_api.testing")

ROOT: Final = Path(__file__).resolve().parent.parent
#: The files that take longest, or long for how few tests they have.
LONG: Final = """
    examples/webserver/tests/test_webserver.py tests/faults/test_bundled_types.py tests/hostile/test_rehearsals.py
    tests/lifecycle/test_machine.py tests/providers/test_agent_unit.py tests/providers/test_debian.py
    tests/providers/test_git_checkout.py tests/providers/test_package.py tests/providers/test_postgresql_database.py
    tests/providers/test_python_package.py tests/providers/test_python_venv.py tests/providers/test_service.py
    tests/providers/test_service_scripts.py tests/providers/test_user_service.py
    tests/scenarios/test_configured_providers.py tests/scenarios/test_rehearse.py
    tests/scenarios/test_rehearse_kills.py tests/scenarios/test_secret_commands.py tests/unit/cli/test_scaffold.py
""".split()  # noqa: SIM905 - shorter


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the files that take longest: no process is left alone with one when all others have ended."""
    if os.environ.get("TESTS_SAMPLED"):
        items[:], left_out = sampling.sample(items)
        config.hook.pytest_deselected(items=left_out)
    sizes, long = Counter(item.path for item in items), {ROOT / name for name in LONG}
    items.sort(key=lambda item: (item.path not in long, -sizes[item.path]))


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
