"""Jobs of a crontab of their own, and a list of a server that fails at first: purged, tried again, answered."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

import pytest

from tests import command
from tests.http_server import serving
from tests.namespaces import private_mounts

if TYPE_CHECKING:
    from collections.abc import Iterator

SITE: Final = Path(__file__).resolve().parents[1] / "site.yaml"
SPOOL: Final = Path("/var/spool/cron/crontabs")
JOBS: Final = ("certbot renew", "old backup")

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("crontab") is None or shutil.which("curl") is None,
    reason="only root has a crontab of its own, and it needs cron and curl",
)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """Yield a directory for the list; root's crontab holds two jobs that only this test sees."""
    spool = tmp_path / "crontabs"
    spool.mkdir()
    status = SPOOL.stat()
    os.chown(spool, status.st_uid, status.st_gid)
    spool.chmod(status.st_mode & 0o7777)
    with private_mounts():
        subprocess.run(["mount", "--bind", spool, SPOOL], check=True)
        table = "".join(f"# resource-api: {name}\n@daily /bin/true\n" for name in JOBS)
        subprocess.run(["crontab", "-"], input=table, text=True, check=True)
        yield tmp_path


class List(BaseHTTPRequestHandler):
    """A list that cannot be had at first."""

    #: One member for each request that fails.
    failures: ClassVar[list[bool]] = []
    #: Where it is served.
    address: ClassVar[str]

    def do_GET(self) -> None:
        """Send the list, or a failure."""
        self.send_response(503 if self.failures else 200)
        self.end_headers()
        self.wfile.write(b"" if self.failures else b"192.0.2.7\n")
        del self.failures[:1]

    def log_message(self, *_arguments: object) -> None:
        """Write nothing."""


@pytest.fixture(scope="module", autouse=True)
def _address() -> Iterator[None]:
    """Serve the list at one address, which a job names."""
    with serving(List) as address:
        List.address = address
        yield


def run(home: Path, *words: str, failures: int, code: int = 0) -> str:
    """Run the command, for which the server fails so many times; return its output."""
    List.failures[:] = [True] * failures
    environment = command.environment_of(home, RESOURCE_API_STATE=f"sqlite:{home / 'state.db'}")
    inputs = (f"source={List.address}/blocked.txt", f"directory={home / 'list'}", "delay=0")
    options = [word for text in inputs for word in ("-i", text)]
    result = command.run([*words, str(SITE), *options], cwd=home, env=environment, text=True)
    assert result.returncode == code, result.stdout + result.stderr
    return result.stdout + result.stderr


def jobs() -> list[str]:
    """Return the names in root's crontab."""
    table = subprocess.run(["crontab", "-l"], capture_output=True, text=True, check=True).stdout
    return re.findall("^# resource-api: (.*)$", table, re.MULTILINE)


def test_the_plan_shows_the_purged_job_and_the_answer_to_a_failure(home: Path) -> None:
    """The job of certbot is in no step."""
    output = run(home, "plan", failures=0)
    assert "- Cron[old backup] (purged)\n" in output
    assert "? Exec[continue with an empty list] (only if Exec[fetch the list] fails)" in output
    assert "certbot" not in output


def test_a_server_that_fails_twice_is_asked_a_third_time(home: Path) -> None:
    """Then undeclared jobs are deleted, and a second run does nothing."""
    output = run(home, "apply", failures=2)
    assert "try 1 of 3" in output
    assert "try 2 of 3" in output
    assert (home / "list/blocked.txt").read_text() == "192.0.2.7\n"
    assert sorted(jobs()) == ["certbot renew", "forget old lists", "refresh the list"]
    assert re.search(r"^Applied in .* s: 4 unchanged\.$", run(home, "apply", failures=3), re.MULTILINE)


def test_a_failure_is_answered_and_purges_nothing(home: Path) -> None:
    """The run fails, with an empty list."""
    output = run(home, "apply", failures=3, code=1)
    assert "1 failed" in output
    assert (home / "list/blocked.txt").read_bytes() == b""
    assert {"old backup", "certbot renew"} <= {*jobs()}
