"""Assertions about values, files, ports, servers and programs."""

from __future__ import annotations

import socket
import threading
from http.server import BaseHTTPRequestHandler
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import TYPE_CHECKING, Any

import pytest

from resource_api import ManifestError, Runtime, Sensitive
from resource_api.testing import ProviderCompliance
from resource_api.testing.harness import Harness, failures
from tests.http_server import serving
from tests.providers.applied import REGISTRY, reason, run

if TYPE_CHECKING:
    from pathlib import Path

    from resource_api import Resource


class TestAssert(ProviderCompliance):
    """An assertion is due while it does not hold, and then it fails."""

    type_name = "assert"

    @pytest.fixture
    def present(self) -> Resource:
        """Return an assertion that does not hold."""
        return {"name": "ra-test", "value": 1, "equals": 2}

    def test_a_resource_that_has_run_is_not_due_again(self, harness: Harness) -> None:
        """An assertion that is due fails, and stays due: the law in this place is for what can succeed."""
        report = harness.apply(harness.examples.present)
        assert failures(report) == {"Assert[ra-test]": "'1' is not '2'"}
        assert harness.due().run

    @pytest.fixture
    def neighbours(self) -> str:
        """Return why no other user is read."""
        return "it reads the files that the manifest names, and keeps nothing of them"


class Answers(BaseHTTPRequestHandler):
    """Answers with the status that the path names."""

    def do_GET(self) -> None:
        """Answer."""
        self.send_response(int(self.path.strip("/")))
        self.end_headers()

    def log_message(self, *_arguments: Any) -> None:
        """Log nothing."""


def test_urls_are_compared_by_their_status() -> None:
    """Below 400 unless a status is declared; a refused connection and another scheme are clear."""
    with serving(Answers) as url:
        assert reason(run({"Assert[x]": {"url": f"{url}/200"}})[0]) == ""
        assert reason(run({"Assert[x]": {"url": f"{url}/404", "status": 404}})[0]) == ""
        assert reason(run({"Assert[x]": {"url": f"{url}/503"}})[0]) == f"{url}/503 answers 503"
        assert (
            reason(run({"Assert[x]": {"url": f"{url}/200", "status": 201}})[0])
            == f"{url}/200 answers 200 instead of 201"
        )
    assert reason(run({"Assert[x]": {"url": f"{url}/200"}})[0]) == f"{url}/200 does not answer: Connection refused"
    with pytest.raises(ManifestError, match="begins with http:// or https://"):
        run({"Assert[x]": {"url": "file:///etc/passwd"}})


class Mute(StreamRequestHandler):
    """Speaks another protocol than HTTP."""

    def handle(self) -> None:
        """Greet as an SSH server does."""
        self.wfile.write(b"SSH-2.0-Other\r\n")


def test_a_peer_that_speaks_another_protocol_or_has_no_valid_name_fails_the_condition() -> None:
    """It may be there later; the reason has no words of Python."""
    with ThreadingTCPServer(("127.0.0.1", 0), Mute) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/"
        assert reason(run({"Assert[x]": {"url": url}})[0]) == f"{url} does not answer by HTTP: SSH-2.0-Other"
        server.shutdown()
    error = reason(run({"Assert[x]": {"host": "ä..b", "port": 1}})[0])
    assert error.startswith("port 1 of ä..b accepts no connection: ")


def test_ports_files_lines_and_commands_are_looked_at(tmp_path: Path) -> None:
    """Each condition says in words what does not hold; several must hold at once."""
    log = tmp_path / "log"
    log.write_text("starting\nready: 3 workers\n")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        held = {"port": port, "host": "127.0.0.1", "path": str(log), "pattern": r"^ready: \d+", "command": "test -e /"}
        assert reason(run({"Assert[x]": {**held, "missing": str(tmp_path / "lock")}})[0]) == ""
    closed = f"port {port} of 127.0.0.1 accepts no connection: Connection refused"
    cases: dict[str, dict[str, Any]] = {
        closed: {"port": port, "host": "127.0.0.1"},
        f"'{tmp_path}/no' does not exist": {"path": f"{tmp_path}/no"},
        f"'{log}' exists": {"missing": str(log)},
        f"no line of '{log}' contains 'stopped'": {"path": str(log), "pattern": "stopped"},
        f"'{tmp_path}/no' cannot be searched: no such file or directory": {"path": f"{tmp_path}/no", "pattern": "x"},
        "'test -e /no/such' returned 1": {"command": ["test", "-e", "/no/such"]},
        "command 'no-such-program' not found": {"command": "no-such-program"},
    }
    for expected, declared in cases.items():
        result = reason(run({"Assert[x]": declared})[0])
        assert result.startswith(expected), result


VALUES: list[tuple[dict[str, Any], str]] = [
    ({"value": "Debian", "one_of": ["Debian", "Ubuntu"]}, ""),
    ({"value": "Arch", "one_of": ["Debian", "Ubuntu"]}, "'Arch' is not one of Debian, Ubuntu"),
    ({"value": 1, "equals": 1}, ""),
    ({"value": 1, "equals": True}, "'1' is not 'True'"),
    ({"value": "12.4", "matches": r"^12\."}, ""),
    (
        {"value": "11.4", "matches": r"^12\.", "message": "needs Debian 12"},
        r"needs Debian 12 ('11.4' does not match '^12\.')",
    ),
]


@pytest.mark.parametrize(("declared", "expected"), VALUES)
def test_values_are_compared(declared: dict[str, Any], expected: str) -> None:
    """Exactly, with one of several, or with a regular expression; the author's message comes first."""
    assert reason(run({"Assert[x]": declared})[0]) == expected


def test_what_depends_on_a_failed_assertion_is_skipped() -> None:
    """A plan shows what does not hold, and only an apply fails."""
    resources = {"Assert[x]": {"value": 1, "equals": 2}, "Notify[y]": {"require": "Assert[x]"}}
    plan = Runtime(REGISTRY).plan({"project": "p", "resources": resources})
    assert plan.steps[0].reasons == ("does not hold: '1' is not '2'",)
    assert run(resources, noop=True)[0].exit_code == 0
    report, _ = run(resources)
    assert (report.exit_code, report.summary.failed, report.summary.skipped) == (1, 1, 1)


def test_a_secret_value_is_not_shown_when_it_does_not_hold() -> None:
    """The reason names no part of it."""
    report, _ = run({"Assert[x]": {"value": Sensitive("swordfish-42"), "equals": "other-word"}})
    assert reason(report) == "the value is not 'other-word'"


def test_a_value_is_compared_with_secrets() -> None:
    """They are what they hold, and are not shown."""
    secret = Sensitive("swordfish-42")
    for declared in ({"equals": secret}, {"one_of": ["a", secret]}, {"matches": secret}):
        assert reason(run({"Assert[x]": {"value": "swordfish-42", **declared}})[0]) == ""
        assert "<sensitive>" in reason(run({"Assert[x]": {"value": "other", **declared}})[0])


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("wait_for", {}, "declares no condition"),
    ("assert", {}, "declares no condition"),
    ("wait_for", {"pattern": "x"}, "'pattern' belongs to 'path'"),
    ("wait_for", {"port": 1, "status": 200}, "'status' belongs to 'url'"),
    ("wait_for", {"path": "/x", "pattern": "("}, "pattern is no regular expression"),
    ("wait_for", {"command": "'x"}, "command cannot be split into words"),
    ("wait_for", {"command": " "}, "command is empty"),
    ("wait_for", {"url": Sensitive("http://127.0.0.1/?key=swordfish")}, "'url' is a secret"),
    ("wait_for", {"port": 0}, "port"),
    ("assert", {"equals": 1, "port": 1}, "'equals' compares 'value', which is not declared"),
    ("assert", {"value": 1}, "value is compared with nothing"),
    ("assert", {"value": "1", "matches": "["}, "matches is no regular expression"),
]


@pytest.mark.parametrize(("kind", "declared", "expected"), WRONG)
def test_conditions_that_mean_nothing_are_refused(kind: str, declared: dict[str, Any], expected: str) -> None:
    """In the manifest, before anything is done."""
    with pytest.raises(ManifestError, match=expected.replace("(", r"\(")):
        run({f"{kind}[x]": declared})
