"""``agent``: only what is signed and newer is applied; what was verified last stays in force (laws F7 and F12)."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import ssl
import subprocess
import time
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests import command
from tests.http_server import serving
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.scenarios.conftest import Bench, Outcome

SITE = "project: web\nresources:\n  Widget[a]: {{size: {}}}\n"
GIT = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "PATH": "/usr/bin:/bin"}


class Site:
    """A site on a bench, and an agent for it."""

    def __init__(self, bench: Bench, keys: Path) -> None:
        """Write a site into the bench's directory."""
        self.bench = bench
        self.home = bench.home
        self.source: tuple[str, ...] = ("--from", "site")
        bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state/state.db"
        bench.environment["RESOURCE_API_AGENT"] = f"{bench.home}/agent"
        for file in keys.iterdir():
            (bench.home / file.name).write_bytes(file.read_bytes())
            (bench.home / file.name).chmod(0o600)
        self.write(1)

    def write(self, size: int) -> None:
        """Write the manifest."""
        self.bench.write("site/site.yaml", SITE.format(size))

    def bundle(self, size: int, *options: str, key: str = "alice") -> None:
        """Make and sign a bundle, and let the agent use it."""
        self.write(size)
        self.make_bundle(*options, key=key)

    def make_bundle(self, *options: str, key: str = "alice") -> None:
        """Make and sign a bundle of the site as it is, and let the agent use it."""
        created = self.bench.run("bundle", "make", "site", "-o", "site.bundle", *options, RESOURCE_API_MODULE_PATH="")
        assert created.code == 0, created.err
        assert self.bench.run("bundle", "sign", "site.bundle", "--key", key).code == 0
        self.source = ("--from", "site.bundle", "--signers", "signers")

    def git(self, *words: str, **environment: str) -> None:
        """Run git in the repository ``site``."""
        who = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "gpg.format=ssh"]
        who += ["-c", f"user.signingkey={self.home}/alice"]
        subprocess.run(
            ["git", *who, *words], cwd=self.home / "site", env=GIT | environment, check=True, capture_output=True
        )

    def commit(self, size: int, *options: str) -> None:
        """Commit a manifest, and let the agent use the repository."""
        self.write(size)
        if not (self.home / "site" / ".git").exists():
            self.git("init", "-q", "-b", "main")
        self.git("add", "site.yaml")
        self.git("commit", "-q", "-m", f"size {size}", *options)
        self.source = ("--from", f"git+file://{self.home}/site#main", "--signers", "signers")

    def once(self, *options: str) -> Outcome:
        """Let the agent run once."""
        return self.bench.run("agent", "once", *self.source, "site.yaml", *options)

    def status(self) -> tuple[int, Any]:
        """Return the exit code for monitoring, and the document."""
        result = self.bench.run("agent", "status", "--json")
        return result.code, result.document

    @property
    def size(self) -> int | None:
        """The size that the widget has on the machine."""
        result = self.bench.things("widget").get("a")
        return None if result is None else result["size"]

    @property
    def report(self) -> dict[str, Any]:
        """The last report."""
        document: dict[str, Any] = json.loads(max((self.home / "agent" / "reports").iterdir()).read_text())
        return document


@pytest.fixture
def site(bench: Bench, keys: Path) -> Site:
    """Return a site that is a directory, with keys."""
    return Site(bench, keys)


def test_a_directory_of_a_trusted_owner_is_applied(site: Site) -> None:
    """Each time as it is then; drift is corrected and reported apart."""
    assert site.once().code == 0
    assert site.status() == (0, {"code": 0, "reasons": [], "paused": None, "last": site.status()[1]["last"]})
    site.bench.put("widget", a={**site.bench.things("widget")["a"], "size": 7})
    assert site.once("--metrics", "run.prom").code == 0
    code, result = site.status()
    assert (site.size, code, result["reasons"]) == (1, 2, ["1 had drifted and were corrected"])
    assert site.report["agent"]["trust"] == "directory"
    text = (site.home / "run.prom").read_text()
    samples = {
        sample.name: sample.value for family in text_string_to_metric_families(text) for sample in family.samples
    }
    assert (samples["resource_api_run_corrective"], samples["resource_api_generation"]) == (1, 0)


def test_a_run_shows_what_apply_shows(site: Site) -> None:
    """The summary or the events on stdout, the log on stderr."""
    first, second = site.once(), site.once("--json")
    assert (first.out.startswith("Applied in "), first.err) == (True, "Notice: Widget[a]: Successfully created\n")
    assert (second.events()[-1]["type"], second.events()[-1]["unchanged"], second.err) == ("summary", 1, "")
    site.bench.write("site/site.yaml", "resources: 1\n")
    assert (site.once("--json").events()[-1]["exit_code"], site.once().out) == (65, "")


def test_a_directory_that_others_can_change_is_not_applied(site: Site) -> None:
    """Not even a file that the manifest does not use."""
    site.bench.write("site/types/readme", "").chmod(0o646)
    result = site.once()
    assert (result.code, "could have changed it" in result.err, site.size) == (65, True, None)
    assert site.report["agent"]["trust"] == "untrusted"
    code, outcome = site.status()
    assert (code, "types/readme" in outcome["reasons"][0]) == (4, True)


def test_noop_reports_drift_and_changes_nothing(site: Site) -> None:
    """What would be changed is drift for monitoring."""
    assert site.once("--mode", "noop").code == 0
    assert (site.size, site.status()[0]) == (None, 2)
    assert site.status()[1]["reasons"] == ["1 would be changed"]


def test_a_newer_signed_bundle_is_applied(site: Site) -> None:
    """Its generation and signer are in status, report and metrics, and only its files are kept."""
    site.bundle(1)
    assert site.once().code == 0
    site.bundle(2)
    assert site.once("--metrics", "run.prom").code == 0
    assert (site.size, site.status()[0]) == (2, 0)
    last = site.status()[1]["last"]
    assert (last["generation"], last["signer"], last["trust"]) == (2, "alice@example.org", "verified")
    assert (site.report["generation"], site.report["agent"]["signer"]) == (2, "alice@example.org")
    assert (
        'resource_api_generation{project="web",stack="default",command="apply"} 2'
        in (site.home / "run.prom").read_text().splitlines()
    )
    assert len(list((site.home / "agent" / "versions").iterdir())) == 1


def test_the_versions_of_a_manifest_without_a_project_are_one_manifest(site: Site) -> None:
    """What the next version does not declare any more is pruned; that of another source is not."""
    for size in (1, 2):
        site.bench.write("site/site.yaml", f"resources: {{'Widget[{size}]': {{}}}}\n")
        site.make_bundle()
        assert site.once("--prune").code == 0
    assert set(site.bench.things("widget")) == {"2"}
    (site.home / "site.bundle").rename(site.home / "other.bundle")
    (site.home / "site.bundle.sig").rename(site.home / "other.bundle.sig")
    site.source = ("--from", "other.bundle", "--signers", "signers")
    refused = site.once("--prune")
    assert refused.code == 64
    assert "the state of project 'site' was recorded from " in refused.err


def test_a_bundle_brings_its_module_path(site: Site) -> None:
    """Types beside the manifest, and of further directories."""
    site.bench.probe("""
        def get(self, context, names=None): return list(self._rows().values())
        def set(self, context, changes): self._done(changes)
    """)
    site.bench.modules.rename(site.home / "more")
    site.bench.modules.mkdir()
    site.bundle(1)
    site.bench.write("site/site.yaml", "project: web\nresources: {'Probe[a]': {size: 1}}\n")
    created = site.bench.run("bundle", "make", "site", "-o", "site.bundle", "--module-path", "more")
    assert created.code == 0, created.err
    site.bench.run("bundle", "sign", "site.bundle", "--key", "alice")
    (site.home / "more").rename(site.home / "gone")
    result = site.once()
    assert (result.code, list(site.bench.things("probe"))) == (0, ["a"]), result.err


def _unsigned(site: Site) -> None:
    site.bundle(3)
    (site.home / "site.bundle.sig").unlink()


def _signed_by_another(site: Site) -> None:
    site.bundle(3, key="mallory")


def _older(site: Site) -> None:
    site.bundle(3, "--generation", "1")


def _replaced(site: Site) -> None:
    site.bundle(3, "--generation", "2")


def _of_another_name(site: Site) -> None:
    site.bundle(3, "--name", "other", "--generation", "9")


def _changed(site: Site) -> None:
    site.bundle(3)
    with (site.home / "site.bundle").open("ab") as file:
        file.write(b"\0")


def _expired(site: Site) -> None:
    site.bundle(3)
    who, key = (site.home / "signers").read_text().split(" ", 1)
    (site.home / "signers").write_text(f'{who} valid-before="20200101" {key}')


def _revoked(site: Site) -> None:
    site.bundle(3)
    (site.home / "signers").write_bytes(b"mallory " + (site.home / "mallory.pub").read_bytes())


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (_unsigned, "it is not signed"),
        (_signed_by_another, "no key in"),
        (_older, "generation 1 is older than the newest that was applied, generation 2"),
        (_replaced, "generation 2 is another one than the newest that was applied, generation 2"),
        (_of_another_name, "it is a bundle of 'other', not of 'site'"),
        (_changed, "is not valid"),
        (_expired, "has signed it: {place}/signers:1: key has expired: verify time"),
        (_revoked, "no key in"),
    ],
)
def test_nothing_of_an_untrusted_bundle_is_applied(site: Site, spoil: Callable[[Site], None], reason: str) -> None:
    """The last verified one stays in force, and corrects drift; report, status and exit code say it."""
    site.bundle(1)
    site.bundle(2)
    assert site.once().code == 0
    spoil(site)
    reason = reason.replace("{place}", str(site.home))
    site.bench.put("widget", a={**site.bench.things("widget")["a"], "size": 7})
    result = site.once()
    assert (result.code, site.size) == (65, 2), result.err
    assert reason in result.err
    assert "the last verified version stays in force" in result.err
    assert (site.report["agent"]["trust"], reason in site.report["agent"]["problem"]) == ("untrusted", True)
    code, outcome = site.status()
    assert (code, reason in outcome["reasons"][0]) == (6, True)


def test_the_summary_of_a_run_has_its_exit_code(site: Site) -> None:
    """Also where the run itself succeeds, and what it found was not trusted: no change hides that."""
    site.bundle(1)
    assert site.once().code == 0
    (site.home / "site.bundle.sig").unlink()
    site.bench.put("widget", a={**site.bench.things("widget")["a"], "size": 7})
    result = site.once("--json", "--detailed-exitcodes")
    assert (result.code, result.events()[-1]["exit_code"], result.events()[-1]["updated"]) == (65, 65, 1)
    assert [event["severity"] for event in result.events("diagnostic")] == ["error"]


def test_without_a_verified_version_nothing_is_applied(site: Site) -> None:
    """The first one must be verified too; who writes it anew with a record of older ones does not help either."""
    site.bundle(1, key="mallory")
    result = site.once()
    assert (result.code, site.size, "stays in force" in result.err) == (65, None, False)
    assert site.report["agent"]["trust"] == "untrusted"
    assert site.status()[0] == 4
    site.bench.write("agent/accepted.json", "{")
    assert site.once().code == 74


def test_lost_files_are_fetched_again(site: Site) -> None:
    """An older version is refused all the same."""
    site.bundle(1)
    site.bundle(2)
    assert site.once().code == 0
    subprocess.run(["rm", "-rf", site.home / "agent" / "versions"], check=True)
    assert site.once().code == 0
    subprocess.run(["rm", "-rf", site.home / "agent" / "versions"], check=True)
    site.bundle(3, "--generation", "1")
    assert (site.once().code, site.size) == (65, 2)


def test_a_copy_of_a_repository_that_lost_power_is_made_anew(site: Site) -> None:
    """Whichever of its files is empty; no human is needed."""
    site.commit(1, "-S")
    assert site.once().code == 0
    (copy,) = (site.home / "agent" / "git").iterdir()
    for size, pattern in enumerate(("HEAD", "config", "refs/agent/fetched", "objects/*/*", "objects/*/*.idx"), 2):
        files = [path for path in copy.glob(pattern) if path.is_file()]
        assert files, pattern
        for file in files:
            file.chmod(0o600)
            file.write_bytes(b"")
        site.commit(size, "-S")
        result = site.once()
        assert (result.code, site.size) == (0, size), (pattern, result.err)


def test_a_signed_commit_is_applied(site: Site) -> None:
    """The next one too, and its generation is the number of commits."""
    site.commit(1, "-S")
    assert site.once().code == 0
    site.commit(2, "-S")
    assert site.once().code == 0
    last = site.status()[1]["last"]
    assert (site.size, last["generation"], last["signer"]) == (2, 2, "alice@example.org")


def _unsigned_commit(site: Site) -> None:
    site.commit(3)


def _older_commit(site: Site) -> None:
    site.git("reset", "-q", "--hard", "HEAD~")


def _rewritten(site: Site) -> None:
    site.commit(3, "-S", "--amend")


def _backdated_commit_of_an_expired_signer(site: Site) -> None:
    _commit_of_an_expired_signer(site)
    site.git("commit", "-q", "-S", "--allow-empty", "-m", "x", GIT_COMMITTER_DATE="2019-05-05T00:00:00Z")


def _commit_of_an_expired_signer(site: Site) -> None:
    site.commit(3, "-S")
    who, key = (site.home / "signers").read_text().split(" ", 1)
    (site.home / "signers").write_text(f'{who} valid-before="20200101" {key}')


def _commit_of_another(site: Site) -> None:
    (site.home / "alice").write_bytes((site.home / "mallory").read_bytes())
    (site.home / "alice.pub").write_bytes((site.home / "mallory.pub").read_bytes())
    site.commit(3, "-S")


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (_unsigned_commit, "is not signed by any key in"),
        (_commit_of_another, "is not signed by any key in"),
        (_commit_of_an_expired_signer, "is not signed by any key in"),
        (_backdated_commit_of_an_expired_signer, "whose key is not valid any more"),
        (_older_commit, "does not follow"),
        (_rewritten, "does not follow"),
    ],
)
def test_nothing_of_an_untrusted_commit_is_applied(site: Site, spoil: Callable[[Site], None], reason: str) -> None:
    """Unsigned, signed by another, older, rewritten: the last verified one stays in force."""
    site.commit(1, "-S")
    site.commit(2, "-S")
    assert site.once().code == 0
    spoil(site)
    site.bench.put("widget", a={**site.bench.things("widget")["a"], "size": 7})
    result = site.once()
    assert (result.code, site.size, reason in result.err) == (65, 2, True), result.err
    assert site.report["agent"]["trust"] == "untrusted"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of a key and a certificate for 127.0.0.1 that nobody has signed."""
    home = tmp_path_factory.mktemp("tls")
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    words += ["-subj", "/CN=ra-test", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "both", "-out", "crt"]
    subprocess.run(words, cwd=home, check=True, capture_output=True)
    (home / "both").write_text((home / "both").read_text() + (home / "crt").read_text())
    return home / "both"


class _Server(SimpleHTTPRequestHandler):
    """Serves the files of a directory; its file ``way`` says what becomes of ``site.bundle``."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer, well or badly."""
        self.close_connection = True
        way = Path(self.directory, "way").read_text() if self.path == "/site.bundle" else ""
        if way == "a loop":
            self._answer(302, Location=self.path)
        elif way == "a file of this machine":
            self._answer(302, Location=f"file://{self.directory}/moved.bundle")
        elif way == "another place":
            self._answer(302, Location="/moved.bundle")
        elif way == "too large":
            self._answer(200, **{"Content-Length": str(1 << 40)})
        elif way == "cut":
            raw = Path(self.directory, "moved.bundle").read_bytes()
            self._answer(200, **{"Content-Length": str(len(raw))})
            self.wfile.write(raw[:-1])
        elif way == "no answer":
            self.connection.shutdown(socket.SHUT_RDWR)
        elif way.isdecimal():
            self.send_error(int(way))
        else:
            super().do_GET()

    def _answer(self, status: int, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def https(site: Site, certificate: Path) -> Iterator[Site]:
    """Return a site whose bundle is on a web server, which behaves as the file ``way`` says."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    site.bench.write("way", "")
    site.bundle(1)
    with serving(partial(_Server, directory=str(site.home)), context) as url:
        site.source = ("--from", f"{url}/site.bundle", "--signers", "signers")
        site.bench.environment["SSL_CERT_FILE"] = str(certificate)
        yield site


def test_a_bundle_is_fetched_over_https(https: Site) -> None:
    """From a server whose certificate is trusted; without its signature nothing is applied."""
    trusted = https.bench.environment.pop("SSL_CERT_FILE")
    unknown = https.once()
    assert (unknown.code, https.size, "certificate is not valid: " in unknown.err) == (1, None, True)
    assert https.report["agent"]["trust"] == "unreachable"
    https.bench.environment["SSL_CERT_FILE"] = trusted
    assert (https.once().code, https.size) == (0, 1)
    (https.home / "site.bundle.sig").unlink()
    unsigned = https.once()
    assert (unsigned.code, "it is not signed: there is no https://" in unsigned.err) == (65, True), unsigned.err


def test_a_certificate_of_another_name_is_refused(https: Site) -> None:
    """It is trusted, but is not that of the server that was asked."""
    https.source = (*https.source[:1], https.source[1].replace("127.0.0.1", "localhost"), *https.source[2:])
    result = https.once()
    assert (result.code, https.size, "certificate is not valid for 'localhost'" in result.err) == (1, None, True), (
        result.err
    )


#: What a server may do with a bundle, and what the report says of it.
UNREACHABLE = {
    "404": "HTTP Error 404: Not Found",
    "500": "HTTP Error 500",
    "cut": "broke off after",
    "too large": "is larger than 103 MiB",
    "a loop": "infinite loop",
    "a file of this machine": "is not allowed",
    "no answer": "cannot be fetched: ",
}


def test_whatever_a_server_does_the_last_version_stays_in_force(https: Site) -> None:
    """It is missing, cut, too large, elsewhere: drift is corrected, and monitoring is told of both."""
    assert https.once().code == 0
    https.write(2)
    for way, reason in UNREACHABLE.items():
        https.bench.write("way", way)
        (https.home / "moved.bundle").write_bytes((https.home / "site.bundle").read_bytes())
        https.bench.put("widget", a={**https.bench.things("widget")["a"], "size": 7})
        result = https.once()
        assert (result.code, https.size, reason in result.err) == (1, 1, True), (way, result.err)
        assert (https.report["agent"]["trust"], reason in https.report["agent"]["problem"]) == ("unreachable", True), (
            way
        )
    assert https.status()[0] == 6


def test_a_bundle_may_move_to_another_place(https: Site) -> None:
    """A redirection is followed: what counts is who has signed it."""
    (https.home / "moved.bundle").write_bytes((https.home / "site.bundle").read_bytes())
    https.bench.write("way", "another place")
    assert (https.once().code, https.size) == (0, 1)


def test_a_source_that_cannot_be_reached_leaves_the_last_version_in_force(site: Site) -> None:
    """It is no reason to stop correcting drift, but a failure."""
    site.commit(1, "-S")
    assert site.once().code == 0
    (site.home / "site" / ".git").rename(site.home / "away")
    site.bench.put("widget", a={**site.bench.things("widget")["a"], "size": 7})
    result = site.once()
    assert (result.code, site.size, site.status()[0]) == (1, 1, 6), result.err
    assert site.report["agent"]["trust"] == "unreachable"


def test_a_bundle_that_cannot_be_read_is_named_once(site: Site) -> None:
    """Whether it is missing or no file; so is a server that cannot be reached."""
    site.bundle(1)
    bundle = site.home / "site.bundle"
    bundle.unlink()
    assert site.once("--from", str(bundle)).err == f"Error: {bundle}: No such file or directory\n"
    os.mkfifo(bundle)
    assert site.once("--from", str(bundle)).err == f"Error: {bundle}: not a regular file\n"
    url = "https://127.0.0.1:1/site.bundle"
    assert site.once("--from", url).err == f"Error: {url} cannot be fetched: connection refused\n"


def test_monitoring_is_told_where_a_manifest_is_wrong(site: Site) -> None:
    """By the place in the source, wherever that is kept."""
    (site.home / "site" / "site.yaml").write_text("project: web\nresorces: {}\n")
    assert site.once().code == 65
    assert site.status()[1]["reasons"][0].startswith("site.yaml:2:1: ")


def test_a_paused_agent_does_nothing(site: Site) -> None:
    """Until it is resumed; monitoring is told why."""
    assert site.bench.run("agent", "status").code == 1
    assert site.bench.run("agent", "pause", "disk change", "--json").document == {"message": "Paused: disk change"}
    result = site.once()
    assert (result.code, site.size, "paused: disk change" in result.err) == (0, None, True)
    assert site.bench.run("agent", "resume").out == "Resumed.\n"
    assert site.bench.run("agent", "resume").out == "The agent was not paused.\n"
    assert site.once().code == 0
    site.bench.run("agent", "pause", "disk change")
    code, outcome = site.status()
    assert (code, outcome["reasons"], outcome["paused"]["reason"]) == (1, ["it is paused: disk change"], "disk change")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--from", "ftp://x/y", "site.yaml"), "write a directory"),
        (("--from", "site.bundle", "site.yaml"), "needs --signers FILE"),
        (("--from", "site", "--signers", "signers", "site.yaml"), "a directory has no signature"),
        (("--from", "site", "../site.yaml"), "MANIFEST is a path in the source"),
        (("--from", "site", "/site.yaml"), "MANIFEST is a path in the source"),
        (("--from", "site", "-"), "MANIFEST is a path in the source"),
        (("--from", "git+https://u:p@x/y", "site.yaml"), "a password cannot stand in a URL"),
        (("--from", "https://u:p@x/y", "site.yaml"), "a user or password cannot stand in a URL"),
        (("--from", "git+ssh://x/y#-x", "site.yaml"), "can be no name of a branch"),
        (("--from", "site", "--every", "soon", "site.yaml"), "no length of time"),
        (("--from", "site", "--every", "0s", "site.yaml"), "is less than 1 s"),
        (("statsu",), "did you mean 'status'?"),
        (("pause", " "), "REASON is empty"),
        (("site.yaml", "--every", "1h"), "Missing option '--from'"),
    ],
)
def test_wrong_usage_is_told_at_once(site: Site, arguments: tuple[str, ...], reason: str) -> None:
    """Not after the first wait; nothing is made."""
    result = site.bench.run("agent", *arguments)
    assert (result.code, reason in result.err) == (64, True), result.err
    assert not (site.home / "agent").exists()


def test_the_directory_of_an_agent_is_its_owners(site: Site) -> None:
    """Who could write there could put another version in force."""
    (site.home / "agent").mkdir()
    (site.home / "agent").chmod(0o777)
    result = site.once()
    assert (result.code, "could have changed it" in result.err) == (65, True), result.err


def test_what_an_agent_tells_has_no_control_characters(site: Site) -> None:
    """A reason may hold any: they are escaped."""
    assert site.once().code == 0
    assert site.bench.run("agent", "pause", "disk\x1b[2J").out == "Paused: disk\\x1b[2J\n"
    assert "- it is paused: disk\\x1b[2J\n" in site.bench.run("agent", "status").out


def test_a_variable_that_forbids_changes_holds_for_an_agent(site: Site) -> None:
    """Unless its mode is given."""
    site.bench.environment["RESOURCE_API_NOOP"] = "1"
    assert (site.once().code, site.size, site.status()[0]) == (0, None, 2)
    assert (site.once("--mode", "apply").code, site.size) == (0, 1)
    site.bench.environment["RESOURCE_API_NOOP"] = "maybe"
    assert "Invalid value for '--mode' from RESOURCE_API_NOOP: 'maybe'" in site.once().err


def test_what_is_damaged_names_its_file(site: Site) -> None:
    """And what to do; it is told as a failure, not as a bug."""
    site.bench.write("agent/status.json", "{")
    assert (site.bench.run("agent", "status").code, site.once().code, site.status()[0]) == (74, 0, 0)
    site.bench.write("agent/status.json", '{"format": 1, "ended": "yesterday"}')
    result = site.bench.run("agent", "status")
    assert (result.code, "status.json: is damaged; remove it" in result.err) == (74, True), result.err
    assert site.once().code == 0
    site.bench.write("agent/paused.json", '{"format": 1}')
    result = site.once()
    assert (result.code, "paused.json: is damaged; remove it" in result.err) == (74, True), result.err
    site.bench.write("agent/paused.json", "[]")
    result = site.once()
    assert (result.code, "paused.json: was written by another version" in result.err) == (74, True), result.err
    (site.home / "agent" / "paused.json").unlink()
    (site.home / "agent" / "paused.json").mkdir()
    assert site.once().code == 74
    (site.home / "file").write_text("")
    result = site.bench.run("agent", "pause", "x", "--directory", "file/agent")
    assert (result.code, "file/agent: cannot be made" in result.err) == (74, True), result.err


def test_a_list_of_signers_that_others_can_change_is_not_used(site: Site) -> None:
    """What was verified before stays in force."""
    site.bundle(1)
    assert site.once().code == 0
    (site.home / "signers").chmod(0o646)
    result = site.once()
    assert (result.code, "signers: is not used" in result.err, site.status()[0]) == (65, True, 4)
    (site.home / "signers").unlink()
    assert (site.once().code, site.size) == (1, 1)


def test_an_agent_runs_every_period_until_a_signal_comes(site: Site) -> None:
    """It ends with the exit code of the signal, and nothing of it is left."""
    reports = site.home / "agent" / "reports"
    arguments = ["agent", *site.source, "--every", "1s", "--splay", "0", "site.yaml"]
    with (site.home / "err").open("w+") as err, Path(os.devnull).open("r+") as nothing:
        streams = [nothing.fileno(), nothing.fileno(), err.fileno()]
        with command.start(arguments, cwd=site.home, env=site.bench.environment, streams=streams) as agent:
            wait_until(lambda: reports.is_dir() and len(list(reports.iterdir())) >= 2)
            assert site.size == 1
            os.kill(agent.pid, signal.SIGTERM)
            assert agent.wait() == 143
        text = (site.home / "err").read_text()
    assert text.count("The next run is at ") >= 1
    assert site.status()[1]["last"]["exit_code"] in {0, 143}


def test_a_full_log_does_not_end_an_agent(site: Site) -> None:
    """Its runs go on where stderr takes no line, and a signal ends it with its own exit code."""
    reports = site.home / "agent" / "reports"
    arguments = ["agent", *site.source, "--every", "1s", "--splay", "0", "site.yaml"]
    with Path("/dev/full").open("w") as full, Path(os.devnull).open("r+") as nothing:
        streams = [nothing.fileno(), nothing.fileno(), full.fileno()]
        with command.start(arguments, cwd=site.home, env=site.bench.environment, streams=streams) as agent:
            wait_until(lambda: reports.is_dir() and len(list(reports.iterdir())) >= 2)
            os.kill(agent.pid, signal.SIGTERM)
            assert agent.wait() == 143
    assert site.size == 1


@pytest.fixture
def slow(site: Site) -> Site:
    """Return a site whose only change ends when the file ``end`` is there."""
    site.bench.probe("""
        def get(self, context, names=None): return list(self._rows().values())
        def set(self, context, changes):
            Path(os.environ["BENCH"], "began").touch()
            while not Path(os.environ["BENCH"], "end").exists(): __import__("time").sleep(0.02)
            self._done(changes)
    """)
    site.bench.write("site/site.yaml", "project: web\nresources: {'Probe[a]': {size: 1}, 'Widget[a]': {size: 1}}\n")
    return site


@contextmanager
def running(site: Site, *words: str) -> Iterator[command.Running]:
    """Let an agent run beside the test, until its first change has begun."""
    with Path(os.devnull).open("r+") as nothing:
        arguments = ["agent", *words, *site.source, "site.yaml"]
        streams = [nothing.fileno()] * 3
        with command.start(arguments, cwd=site.home, env=site.bench.environment, streams=streams) as started:
            wait_until((site.bench.things_of / "began").exists)
            yield started


def test_one_run_at_a_time(slow: Site) -> None:
    """The second says who runs."""
    with running(slow, "once") as first:
        result = slow.once()
        assert (result.code, f"the agent is running: pid {first.pid}" in result.err) == (75, True), result.err
        (slow.bench.things_of / "end").touch()
        assert first.wait() == 0


def test_a_signal_lets_the_running_step_end(slow: Site) -> None:
    """It comes to the agent, goes on to its run, and nothing is started after that step; the next run does the rest."""
    with running(slow, "run", "--splay", "0") as agent:
        os.kill(agent.pid, signal.SIGTERM)
        time.sleep(0.2)
        (slow.bench.things_of / "end").touch()
        assert agent.wait() == 143
    assert (list(slow.bench.things("probe")), slow.bench.things("widget")) == (["a"], {})
    assert (slow.status()[0], slow.status()[1]["last"]["exit_code"]) == (4, 143)
    assert (slow.once().code, slow.size) == (0, 1)


def test_a_killed_run_is_recorded_as_failed_with_its_signal(slow: Site) -> None:
    """As the kernel does it where memory is short; the next run does what is left."""
    with running(slow, "run", "--splay", "0", "--metrics", f"{slow.home}/run.prom") as agent:
        children = Path(f"/proc/{agent.pid}/task/{agent.pid}/children")
        os.kill(int(children.read_text().split()[0]), signal.SIGKILL)
        wait_until((slow.home / "run.prom").exists)
        written = (slow.home / "run.prom").read_text()
        assert 'resource_api_run_exit_code{project="",stack="default",command="apply"} 137' in written.splitlines()
        code, document = slow.status()
        assert (code, document["last"]["exit_code"]) == (4, 137)
        reason = r"the run was ended by signal 9 \(SIGKILL\), with \d+ MiB of memory in use"
        assert [bool(re.fullmatch(reason, text)) for text in document["reasons"]] == [True]
        os.kill(agent.pid, signal.SIGTERM)
        assert agent.wait() == 143
    (slow.bench.things_of / "end").touch()
    assert (slow.once().code, slow.size, slow.status()[0]) == (0, 1, 0)


def test_a_killed_agent_leaves_a_run_that_ends_by_itself(slow: Site) -> None:
    """Another agent makes none beside it."""
    with running(slow, "run", "--splay", "0") as agent:
        os.kill(agent.pid, signal.SIGKILL)
        assert agent.wait() == -signal.SIGKILL
        assert slow.once().code == 75
        (slow.bench.things_of / "end").touch()
        wait_until((slow.home / "agent" / "status.json").exists)
    assert (slow.once().code, slow.size, slow.status()[0]) == (0, 1, 0)
