"""A machine whose account files are a copy, for the tests of whatever changes them."""

from __future__ import annotations

import ctypes
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

NEW_MOUNTS = 0x20000


@pytest.fixture(scope="module")
def private_etc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Put a copy over /etc and nothing over /home, which only this thread and what it starts can see."""
    copy, here = tmp_path_factory.mktemp("accounts") / "etc", Path.cwd()
    subprocess.run(["cp", "-a", "/etc", copy], check=True)
    libc, before = ctypes.CDLL(None, use_errno=True), os.open("/proc/thread-self/ns/mnt", os.O_RDONLY)
    assert libc.unshare(NEW_MOUNTS) == 0, os.strerror(ctypes.get_errno())
    try:
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        subprocess.run(["mount", "--bind", copy, "/etc"], check=True)
        for place in ("/home", "/var/mail"):
            subprocess.run(["mount", "-t", "tmpfs", "none", place], check=True)
        yield
    finally:
        libc.setns(before, NEW_MOUNTS)
        os.close(before)
        os.chdir(here)
