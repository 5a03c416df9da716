"""Secrets that programs read from a named pipe."""

from __future__ import annotations

import os
import stat
import subprocess
import time
from pathlib import Path

import pytest

from lib.secret_pipe import served
from resource_api import ResourceError
from tests.namespaces import private_mounts


@pytest.mark.parametrize("user", [None, "nobody"])
def test_each_reader_gets_the_text_once(user: str | None) -> None:
    """A reader that is slow to see the end does not get it a second time, and the next one gets all of it."""
    with served(b"password=hunter2\n", user) as pipe:
        for _ in range(3):
            with Path(pipe).open("rb", buffering=0) as reader:
                text = reader.read(4096)
                time.sleep(0.1)  # long enough for a second writing
                text += reader.read(4096)
            assert text == b"password=hunter2\n"
        words = ["cat", pipe] if user is None else ["setpriv", "--reuid", user, "--clear-groups", "cat", pipe]
        stdouts = [subprocess.run(words, check=True, capture_output=True, timeout=10).stdout for _ in range(3)]
        assert stdouts == [b"password=hunter2\n"] * 3


def test_a_pipe_that_was_removed_is_not_made_as_a_file() -> None:
    """What cleans directories may remove it: nothing is written to a disk, and nothing is left."""
    with served(b"password=hunter2\n", None) as pipe:
        Path(pipe).unlink()
        time.sleep(0.1)
        assert not Path(pipe).exists()
    assert not Path(pipe).parent.exists()


def test_a_user_that_does_not_exist_leaves_nothing() -> None:
    """The directory of the pipe is made for a user that was found; other processes have theirs in /run."""
    with private_mounts():
        subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)
        with pytest.raises(ResourceError, match="there is no user 'nosuch'"), served(b"x", "nosuch"):
            pass
        assert os.listdir("/run") == []  # noqa: PTH208 - the mounts are those of this thread


def test_no_other_user_can_read_the_pipe() -> None:
    """It belongs to its reader, with mode 0600, before and after it was read."""
    with served(b"x", "nobody") as pipe:
        for _ in range(2):
            status = os.stat(pipe)  # noqa: PTH116 - a pipe, not read
            assert (stat.S_IMODE(status.st_mode), stat.S_ISFIFO(status.st_mode)) == (0o600, True)
            assert status.st_uid == 65534
            assert Path(pipe).read_bytes() == b"x"
