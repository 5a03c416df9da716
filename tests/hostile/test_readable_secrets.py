"""A file of inputs with a secret that everybody can read is a warning, and no other is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

MANIFEST: Final = """
inputs: {secret: {type: 'Sensitive[String]'}, plain: {type: String, default: plain text}}
resources: {'Notify[a]': {message: '${inputs.plain}'}}
"""
WARNING: Final = "Warning: everybody can read these inputs, and there is a secret in them; run: chmod o-r "


@pytest.fixture
def directory() -> Iterator[Path]:
    """Return a directory that everybody can enter, with a manifest."""
    with TemporaryDirectory(prefix="resource-api-", dir="/opt") as name:
        path = Path(name)
        path.chmod(0o755)
        (path / "site.yaml").write_text(MANIFEST)
        (path / "stacks").mkdir(mode=0o755)
        yield path


def warned(path: Path, *arguments: str) -> list[str]:
    """Validate the manifest, and return the files that a warning names."""
    command = [sys.executable, "-P", "-m", "resource_api", "validate", "site.yaml", *arguments]
    process = subprocess.run(command, cwd=path, capture_output=True, text=True, check=True)
    return [line.partition(WARNING)[2] for line in process.stderr.splitlines() if WARNING in line]


@pytest.mark.parametrize(
    ("file", "arguments"),
    [("stacks/default.yaml", ()), ("given.yaml", ("--inputs", "given.yaml")), ("value", ("-i", "secret=@value"))],
)
def test_inputs_with_a_secret_that_everybody_can_read_are_a_warning(
    directory: Path, file: str, arguments: tuple[str, ...]
) -> None:
    """Those of the stack, of a file, and a single one; without the right to read them there is none."""
    path = directory / file
    path.write_text("the-secret-itself" if file == "value" else "secret: the-secret-itself\n")
    path.chmod(0o644)
    assert warned(directory, *arguments) == [file]
    path.chmod(0o640)
    assert warned(directory, *arguments) == []
    path.chmod(0o644)
    directory.chmod(0o750)
    assert warned(directory, *arguments) == []


def test_inputs_without_a_secret_may_be_read_by_everybody(directory: Path) -> None:
    """What counts is whether the secret is in the file."""
    (directory / "plain.yaml").write_text("plain: another text\n")
    (directory / "plain.yaml").chmod(0o644)
    (directory / "secret").write_text("the-secret-itself")
    (directory / "secret").chmod(0o600)
    assert warned(directory, "--inputs", "plain.yaml", "-i", "secret=@secret") == []
