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
    """Give a copy of the package and its configuration that a test may spoil."""
    shutil.copytree(ROOT / "resource_api", tmp_path / "resource_api", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "setup.cfg", tmp_path)
    return tmp_path


def test_every_import_points_downwards() -> None:
    """The source keeps every contract."""
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("nouns/values.py", "from resource_api.stages import manifest", "Every package imports only what is below it"),
        ("nouns/errors.py", "from resource_api.nouns import values", "Nouns: errors at the bottom"),
        ("nouns/reference.py", "import time", "Nouns, compile and plan know no clock"),
        ("nouns/reference.py", "def f():\n    import os", "Nouns, compile and plan know no clock"),
        ("stages/manifest.py", "import sh", "Programs are run in one place"),
        ("stages/manifest.py", "import structlog", "One module owns the log"),
        ("hands/misplaced.py", "", "Hands: each touches one part of the world"),
    ],
)
def test_a_wrong_import_is_refused(checkout: Path, module: str, line: str, contract: str) -> None:
    """One wrong line, or a module that no layer lists, breaks the contract that forbids it."""
    (checkout / "resource_api" / "stages" / "manifest.py").touch()
    with (checkout / "resource_api" / module).open("a", encoding="utf-8") as file:
        file.write(f"\n{line}\n")
    done = lint(checkout)
    assert done.returncode == 1, done.stdout + done.stderr
    broken = done.stdout.partition("Broken contracts")[2]
    assert contract in broken
