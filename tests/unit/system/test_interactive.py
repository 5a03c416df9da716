"""The output of a program that the user has named: within limits, and with the reason where there is none."""

from __future__ import annotations

import os
import pty
import time
from pathlib import Path

import pytest

from resource_api.system.process import interactive
from tests.waiting import wait_until

pytestmark = pytest.mark.process


def test_a_program_that_has_not_ended_in_time_is_ended(tmp_path: Path) -> None:
    """Also one that has closed its output; it may end by itself what it has started."""
    for script in ("echo part; sleep 60", "exec >&-; sleep 60"):
        ended = tmp_path / "ended"
        words = ["sh", "-c", f"trap 'kill $!; touch {ended}; exit' TERM; ({script}) & wait"]
        begin = time.monotonic()
        with pytest.raises(ValueError, match=r"^it has not ended within 0\.5 s$"):
            interactive.output(words, ".", 100, 0.5)
        assert ended.exists()
        assert time.monotonic() - begin < interactive.GRACE
        ended.unlink()


def test_a_program_that_ignores_the_signal_is_killed(tmp_path: Path) -> None:
    """After the seconds that it has to end by itself."""
    note = tmp_path / "pid"
    with pytest.raises(ValueError, match=r"^it has not ended within 0\.2 s$"):
        interactive.output(["sh", "-c", f"trap '' TERM; echo $$ >{note}; while :; do sleep 0.1; done"], ".", 100, 0.2)
    wait_until(lambda: not Path(f"/proc/{int(note.read_text())}").exists())


def test_a_program_that_prints_too_much_is_ended() -> None:
    """It is not read to its end, which it may not have."""
    with pytest.raises(ValueError, match=r"^it has printed more than 2 MB$"):
        interactive.output(["yes"], ".", 2_000_000)


def test_what_a_program_prints_is_returned_whole(tmp_path: Path) -> None:
    """It has no input and runs in the given directory."""
    assert interactive.output(["sh", "-c", "pwd; cat"], os.fspath(tmp_path), 1000) == f"{tmp_path}\n".encode()


def test_a_shell_ends_with_the_terminal_of_its_user(tmp_path: Path) -> None:
    """Where the user's terminal is closed, nothing is left to wait for."""
    users, terminal = pty.openpty()
    if not (shell_user := os.fork()):
        os.close(users)
        os.environ["SHELL"] = "/bin/sh"
        try:
            interactive.run_shell(terminal, "hello", lambda: False)
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:  # it has no child any more
            (tmp_path / "ended").touch()
        finally:
            os._exit(0)
    os.close(terminal)
    assert os.read(users, 100).startswith(b"hello")
    os.close(users)
    os.waitpid(shell_user, 0)
    assert (tmp_path / "ended").exists()
