"""The sandbox refuses changes of the system and allows reading."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import subprocess
import tempfile
import threading
from typing import TYPE_CHECKING, Any

import pytest

from resource_api.system.process_guard import protected, read_only

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TOUCHES: dict[str, Callable[[Path], Any]] = {
    "open": lambda value: value.write_text("x"),
    "append": lambda value: value.open("a"),
    "create": lambda value: os.open(value, os.O_CREAT | os.O_WRONLY),
    "mkdir": lambda value: value.mkdir(),
    "remove": lambda value: value.with_name("there").unlink(),
    "rename": lambda value: value.with_name("there").rename(value),
    "chmod": lambda value: value.with_name("there").chmod(0o600),
    "link": lambda value: value.symlink_to("there"),
    "tree": lambda value: shutil.rmtree(value.parent),
    "run": lambda _: subprocess.run(["true"], check=False),
    "shell": lambda _: os.system("true"),  # noqa: S605 - never started
    "fork": lambda _: os.fork(),
    "variable": lambda _: os.putenv("STILL", "1"),
    "temporary": lambda _: tempfile.mkdtemp(),
    "database": sqlite3.connect,
    "connect": lambda _: socket.create_connection(("127.0.0.1", 9)),
}


@pytest.mark.parametrize("touch", TOUCHES.values(), ids=TOUCHES)
def test_changes_of_the_system_are_refused(touch: Callable[[Path], Any], tmp_path: Path) -> None:
    """They are refused before they have any effect."""
    (tmp_path / "there").write_text("here")
    with pytest.raises(PermissionError, match="a component must not change the system"), read_only("a component"):
        touch(tmp_path / "new")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("there", "here")]


def test_reading_is_allowed(tmp_path: Path) -> None:
    """A text beside the file is read; so is a module of the standard library."""
    (tmp_path / "there").write_text("here")
    with read_only("a component"):
        assert (tmp_path / "there").read_text() == "here"
        assert sorted(tmp_path.iterdir()) == [tmp_path / "there"]
        __import__("colorsys")


def test_the_sandbox_is_limited_to_its_block_and_thread(tmp_path: Path) -> None:
    """Other threads may write; after a nested block the outer one is restored."""
    with read_only("a policy"):
        thread = threading.Thread(target=(tmp_path / "thread").write_text, args=("x",))
        thread.start()
        thread.join()
        with read_only("a component"):
            pass
        with pytest.raises(PermissionError, match="a policy must not change the system"):
            (tmp_path / "x").write_text("x")
    (tmp_path / "after").write_text("x")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["after", "thread"]


def test_a_provider_may_remove_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing to return to, and the call has not failed."""
    directory = tmp_path / "here"
    directory.mkdir()
    monkeypatch.chdir(directory)
    with protected():
        directory.rmdir()
    assert not directory.exists()
