"""No lock of this program can be held by a neighbour: who can open a file or a directory can lock it."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from resource_api import BackupStore, change_accounts
from resource_api.system.overlay.isolated_run import ProcessLimit
from tests import namespaces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(not namespaces.may_mount(), reason="needs the right to mount, and a neighbour")
NOBODY = 65534


@contextmanager
def locked_by_nobody(directory: str) -> Iterator[None]:
    """Let another user hold the lock of a directory during the block."""
    ready, started = os.pipe()
    if not (neighbour := os.fork()):
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        fcntl.flock(os.open(directory, os.O_RDONLY), fcntl.LOCK_EX)
        os.write(started, b"!")
        signal.pause()
    try:
        os.close(started)
        assert os.read(ready, 1)
        yield
    finally:
        os.close(ready)
        os.kill(neighbour, signal.SIGKILL)
        os.waitpid(neighbour, 0)


def ends_soon(call: Callable[[], object]) -> bool:
    """Return whether a call succeeds within ten seconds, in a process of its own."""
    if not (child := os.fork()):
        with suppress(BaseException):
            call()
            os._exit(0)
        os._exit(1)
    until = time.monotonic() + 10
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status == 0
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


@pytest.fixture
def open_directory(tmp_path: Path) -> Iterator[str]:
    """Return a directory that everybody can open."""
    (tmp_path / "open").mkdir()
    with namespaces.private_mounts():
        namespaces.bind(tmp_path / "open", "/mnt")
        yield "/mnt"


def test_a_neighbour_does_not_keep_accounts_from_being_changed(tmp_path: Path) -> None:
    """Not even the user who is to be deleted."""
    (tmp_path / "etc").mkdir()
    for name in ("passwd", "group"):
        shutil.copy(f"/etc/{name}", tmp_path / "etc" / name)
    with namespaces.private_mounts():
        namespaces.bind(tmp_path / "etc", "/etc")
        with locked_by_nobody("/etc"):
            assert ends_soon(lambda: change_accounts(lambda _prefix: None))


def test_a_neighbour_does_not_keep_files_from_being_backed_up(open_directory: str, tmp_path: Path) -> None:
    """The directory of the copies may be one that exists already, with any mode."""
    (tmp_path / "f").write_text("old")

    def back_up() -> None:
        with BackupStore(open_directory) as store:
            store.keep(f"{tmp_path}/f")

    with locked_by_nobody(open_directory):
        assert ends_soon(back_up)


def test_a_neighbour_does_not_keep_a_rehearsal_from_its_limit(open_directory: str) -> None:
    """Everybody can open the control groups of the machine."""
    limit, parent = ProcessLimit(), os.open(open_directory, os.O_RDONLY)
    with locked_by_nobody(open_directory):
        assert ends_soon(lambda: limit._enter(parent))
    os.close(parent)
