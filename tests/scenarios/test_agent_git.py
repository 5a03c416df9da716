"""``agent`` with a repository on a real server: by SSH with a deploy key, by HTTPS with an authority of one's own."""

from __future__ import annotations

import os
import ssl
import subprocess
from functools import partial
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING

import pytest

from tests.fleet.sshd import started_server
from tests.http_server import serving
from tests.namespaces import bind, private_mounts
from tests.scenarios.test_agent import Site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fleet.sshd import Server
    from tests.scenarios.conftest import Bench

pytestmark = pytest.mark.process


@pytest.fixture
def site(bench: Bench, keys: Path) -> Site:
    """Return a site with one signed commit, and keys."""
    result = Site(bench, keys)
    result.commit(1, "-S")
    return result


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A real sshd that sees the same files."""
    with started_server(tmp_path_factory.mktemp("sshd"), tmp_path_factory.getbasetemp()) as result:
        yield result


@pytest.fixture
def by_ssh(site: Site, server: Server) -> Iterator[Path]:
    """The directory with the configuration of ssh of this machine, in which nothing is; the site is on the server."""
    directory = site.home / "ssh"
    directory.mkdir()
    url = f"git+ssh://root@127.8.0.1:{server.port}{site.home}/site#main"
    site.source = ("--from", url, "--signers", "signers")
    with private_mounts():
        bind(directory, "/etc/ssh")
        yield directory


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts")
def test_a_repository_is_fetched_by_ssh_with_a_deploy_key(site: Site, by_ssh: Path, server: Server) -> None:
    """An unknown host key and a key that the server does not know are refused, each with what ssh says."""
    unknown = site.once()
    assert (unknown.code, "git fetch: Host key verification failed" in unknown.err) == (1, True), unknown.err
    assert site.report["agent"]["trust"] == "unreachable"
    server.known_hosts(by_ssh / "ssh_known_hosts")
    (by_ssh / "ssh_config").write_text(f"Host 127.8.*\n  IdentitiesOnly yes\n  IdentityFile {server.keys}/stranger\n")
    denied = site.once()
    # The banner of the server stands before it.
    assert (denied.code, "root@127.8.0.1: Permission denied (publickey" in denied.err) == (1, True), denied.err
    assert site.size is None
    (by_ssh / "ssh_config").write_text(f"Host 127.8.*\n  IdentitiesOnly yes\n  IdentityFile {server.identity}\n")
    assert (site.once().code, site.size) == (0, 1)
    site.write(2)
    site.git("commit", "-q", "-a", "-S", "-m", "size 2")
    assert (site.once().code, site.size) == (0, 2)


class _Backend(BaseHTTPRequestHandler):
    """Serves the repositories of a directory by ``git http-backend``."""

    protocol_version = "HTTP/1.1"

    def __init__(self, root: str, *arguments: object) -> None:
        """Answer with what is beneath ``root``."""
        self._root = root
        super().__init__(*arguments)  # type: ignore[arg-type] # those of a handler

    def do_GET(self) -> None:
        """Answer a request."""
        path, _, query = self.path.partition("?")
        length = int(self.headers.get("Content-Length") or 0)
        environment = {
            "PATH": "/usr/bin:/bin",
            "GIT_PROJECT_ROOT": self._root,
            "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type") or "",
            "CONTENT_LENGTH": str(length),
            "HTTP_GIT_PROTOCOL": self.headers.get("Git-Protocol") or "",
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding") or "",
        }
        body = self.rfile.read(length)
        process = subprocess.run(["git", "http-backend"], env=environment, input=body, check=True, capture_output=True)
        head, _, content = process.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.send_response(int(fields.pop("Status", "200 OK").split()[0]))
        for name, value in {**fields, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET  # noqa: N815 - the base class calls it so

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def _openssl(directory: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=directory, check=True, capture_output=True)


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with two authorities, ``own`` and ``other``; of the first a certificate for 127.0.0.1."""
    home = tmp_path_factory.mktemp("authorities")
    new = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    for name in ("own", "other"):
        _openssl(home, *new, "-x509", "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem")
    _openssl(home, *new, "-subj", "/CN=server", "-keyout", "server.key", "-out", "server.csr")
    (home / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    signed = ("x509", "-req", "-in", "server.csr", "-CA", "own.pem", "-CAkey", "own.key", "-CAcreateserial")
    _openssl(home, *signed, "-extfile", "names", "-out", "server.pem")
    return home


def test_a_repository_is_fetched_by_https_with_an_own_authority(site: Site, authorities: Path) -> None:
    """A server whose authority is not the named one is refused, and why is told."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authorities / "server.pem", authorities / "server.key")
    with serving(partial(_Backend, str(site.home)), context) as url:
        site.source = ("--from", f"git+{url}/site/.git#main", "--signers", "signers")
        for arguments in (None, "other.pem"):
            if arguments:
                site.bench.environment["SSL_CERT_FILE"] = str(authorities / arguments)
            refused = site.once()
            assert (refused.code, site.size, "certificate" in refused.err) == (1, None, True), refused.err
            assert refused.err.count("git fetch: unable to access 'https://127.0.0.1:") == 1, refused.err
        assert site.report["agent"]["trust"] == "unreachable"
        site.bench.environment["SSL_CERT_FILE"] = str(authorities / "own.pem")
        result = site.once()
        assert (result.code, site.size) == (0, 1), result.err
