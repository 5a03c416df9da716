"""Law F9 for SSH: secrets of hosts, and passwords of sudo, are in nothing but the encrypted stream and two memories."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import zlib
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.fleet.sshd import PASSWORD
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fleet.sshd import Server

pytestmark = pytest.mark.process

ROOT: Final = Path(__file__).resolve().parents[2]
_SECRETS: Final = {"web1": "canary-of-web1-Wq7", "web2": "canary-of-web2-Zk3", "db1": "canary-of-db1-Rt9"}
_TYPE: Final = """
from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="door",
    docs="A file with the digest of a code, which is made when another file is there.",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether it exists.", default="present"),
        "path": Attribute("String", "Where it is.", kind="namevar"),
        "code": Attribute("Sensitive[String]", "The code.", write_only=True),
        "go": Attribute("String", "The other file.", kind="parameter"),
    },
    features={"simple_get_filter"},
)
"""
_PROVIDER: Final = """
import hashlib, os, time
from resource_api import SimpleProvider


class Provider(SimpleProvider):
    def get(self, context, names=None):
        return [{"path": name, "ensure": "present"} for name in names or () if os.path.exists(name)]

    def create(self, context, name, should):
        code = should["code"].reveal()
        context.notice(f"the code is {code}")
        while not os.path.exists(should["go"]):
            time.sleep(0.02)
        with open(name, "w") as file:
            file.write(hashlib.sha256(code.encode()).hexdigest())

    update = create

    def delete(self, context, name):
        os.unlink(name)
"""
_MANIFEST: Final = """
project: secrets
inputs:
  code: {type: "Sensitive[String]"}
resources:
  Door[/hosts/${host.address}/door]: {code: "${inputs.code}", go: GO}
"""


@pytest.mark.parametrize("transport", ["asyncssh", "ssh"])
def test_secrets_are_nowhere_but_in_memory(server: Server, home: Path, transport: str) -> None:
    """Not in arguments, environments, files, archives, reports, states, or on the wire, during a run and after it."""
    site, capture = home.parent / "site", home.parent / "capture"
    _write(site, server, transport)
    since = time.time() - 1
    server.run("touch", "/stamp")
    server.run("rm", "-rf", *(f"/hosts/{address}" for address in _ADDRESSES.values()))
    with _captured(capture, server.port), _applied(site, home) as process:
        doors = [f"/hosts/{address}/door" for address in _ADDRESSES.values()]
        wait_until(lambda: _waiting(site / "out") >= set(_SECRETS))
        running = _processes()
        (home.parent / "go").touch()
        assert process.wait(50) == 0, (site / "out").read_text() + (site / "err").read_text()
        assert [server.path(door).read_text() for door in doors] == [
            sha256(secret.encode()).hexdigest() for secret in _SECRETS.values()
        ]
    entries = {
        "processes": b"".join(running),
        "capture": capture.read_bytes(),
        "report": (site / "out").read_bytes() + (site / "err").read_bytes(),
        "archives": _unpacked(server),
        "files there": _changed(server),
        "files here": _files_since(home.parent, since, without={site / "secrets", site / "password"}),
    }
    connections = [item for item in running if b"RApi-connected" in item and b"%d\0" % server.port in item]
    assert bool(connections) == (transport == "ssh")
    for word, control in (("processes", b"-I"), ("capture", b"SSH-2.0-"), ("report", b"<sensitive>")):
        assert control in entries[word], word
    for word in ("archives", "files there", "files here"):
        assert len(entries[word]) > 10_000, word
    canaries = [value.encode() for value in (*_SECRETS.values(), PASSWORD)]
    assert [(name, canary) for name, data in entries.items() for canary in canaries if canary in data] == []


_ADDRESSES: Final = {"web1": "127.8.0.1", "web2": "127.8.0.2", "db1": "127.8.0.3"}


def _write(site: Path, server: Server, transport: str) -> None:
    """Write a manifest, its modules, and an inventory that names the secrets."""
    for name, text in (("types/door.py", _TYPE), ("providers/door.py", _PROVIDER), ("site.yaml", _MANIFEST)):
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text.replace("GO", str(site.parent / "go")))
    (site / "secrets").mkdir(mode=0o700)
    for name, secret in _SECRETS.items():
        (site / "secrets" / name).write_text(secret)
    (site / "password").write_text(PASSWORD)
    common = {"port": server.port, "identity": str(server.identity), "user": "root", "transport": transport}
    hosts = {
        name: {"address": address, "inputs": {"code": {"file": "secrets/${host.name}"}}}
        for name, address in _ADDRESSES.items()
    }
    sudo = {"user": "deploy", "become": "sudo", "become_password": {"command": "cat password"}}
    inventory = {"defaults": common, "hosts": {**hosts, "db1": {**hosts["db1"], **sudo}}}
    (site / "hosts.yaml").write_text(json.dumps(inventory))


@contextmanager
def _applied(site: Path, home: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start the command with all that it can say, and end it."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(home), "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"}
    environment["RESOURCE_API_FLEET"] = f"{home}/fleet"
    arguments = ["apply", "site.yaml", "--on", "web1,web2,db1", "--json", "-d", "--report", str(site)]
    command = [sys.executable, "-m", "resource_api", *arguments]
    with (site / "out").open("wb") as out, (site / "err").open("wb") as err:
        process = subprocess.Popen(command, cwd=site, env=environment, stdout=out, stderr=err)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def _captured(file: Path, port: int) -> Iterator[None]:
    """Write what passes through the loopback, from and to a port, into a file."""
    command = ["tcpdump", "-i", "lo", "-U", "-Z", "root", "-s", "0", "-B", "65536", "-w", str(file), f"port {port}"]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        try:
            assert process.stderr is not None
            assert b"listening on lo" in process.stderr.readline()
            yield
            time.sleep(0.3)
            process.send_signal(signal.SIGINT)
            _, message = process.communicate(timeout=20)
            assert re.search(rb"\n0 packets dropped by kernel", message), message
        finally:
            process.kill()


def _waiting(out: Path) -> set[str]:
    """Return the hosts whose provider has begun."""
    lines = [json.loads(line) for line in out.read_text().splitlines() if line.endswith("}")]
    return {item["host"] for item in lines if item["type"] == "log" and "the code is" in item["message"]}


def _processes() -> list[bytes]:
    """Return the arguments of every process, here and on the hosts, and their environments."""
    entries = []
    for process in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            with suppress(OSError):
                entries.append((process / name).read_bytes())
    return entries


def _changed(server: Server) -> bytes:
    """Return the content of every file that was written on the hosts, where a run may write at all."""
    paths = ["/hosts", "/var", "/run", "/tmp", "/home"]  # noqa: S108 - looked at
    listed = server.run("find", *paths, "-type", "f", "-newer", "/stamp").stdout.splitlines()
    here = os.fspath(server.log.parents[1])
    return b"".join(server.path(item).read_bytes() for item in listed if not item.startswith(here))


def _unpacked(server: Server) -> bytes:
    """Return what the hosts have of the archives."""
    caches = [*(f"/hosts/{address}/cache" for address in _ADDRESSES.values()), "/var/cache/resource-api"]
    files = [file for cache in caches for file in server.path(cache).rglob("*") if file.is_file()]
    return b"".join(file.read_bytes() for file in files)


def _files_since(directory: Path, since: float, without: set[Path]) -> bytes:
    """Return the content of files that were written here, also unpacked, without those that are the secrets."""
    entries = []
    for file in directory.rglob("*"):
        if not file.is_file() or file.stat().st_mtime < since or without & {file, *file.parents}:
            continue
        data = file.read_bytes()
        entries.append(data)
        with suppress(zlib.error):
            entries.append(zlib.decompress(data))
    return b"".join(entries)
