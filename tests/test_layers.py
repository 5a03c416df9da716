"""The layers that ``setup.cfg`` draws, judged by import-linter; and that its contracts do refuse what they forbid."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parent.parent
LINT: Final = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"


def lint(directory: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter's command on the checkout in ``directory``, by that directory's own ``setup.cfg``."""
    return subprocess.run(
        [sys.executable, "-P", "-c", LINT, "--no-cache"],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(directory), "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a copy of the package and its configuration that a test may change."""
    shutil.copytree(ROOT / "resource_api", tmp_path / "resource_api", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "setup.cfg", tmp_path)
    return tmp_path


def test_every_import_points_downwards() -> None:
    """The source keeps every contract."""
    result = lint(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        (
            "model/values/values.py",
            "from resource_api.manifest import read",
            "Every package imports only what is below",
        ),
        ("model/values/reference.py", "import time", "Model, compile, prior and plan know no clock"),
        ("model/values/reference.py", "def f():\n    import os", "Model, compile, prior and plan know no clock"),
        ("manifest/read.py", "import sh", "Programs are run in one place"),
        ("manifest/read.py", "import structlog", "One module owns the log"),
        ("state/store.py", "import psycopg", "One package owns connections to PostgreSQL"),
        ("http/messages.py", "import http.client", "One module owns connections of HTTP"),
        ("misplaced/__init__.py", "", "Every package imports only what is below it"),
    ],
)
def test_a_wrong_import_is_refused(checkout: Path, module: str, line: str, contract: str) -> None:
    """One wrong line, or a module that no layer lists, breaks the contract that forbids it."""
    path = checkout / "resource_api" / module
    path.parent.mkdir(exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(f"\n{line}\n")
    result = lint(checkout)
    assert result.returncode == 1, result.stdout + result.stderr
    broken = result.stdout.partition("Broken contracts")[2]
    assert contract in broken
