"""Other tools with the same files: their manifests and commands, measured if they are installed.

``make bench-peers`` installs them into separate directories. Each manages no more than ours: content and mode.
"""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks import workloads
from benchmarks.cases import FLOOR, Bench, Row
from benchmarks.measure import Command, cost, pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.workloads import File

#: The directory of the environments of ``make bench-peers``.
INSTALLED = Path(__file__).resolve().parent.parent / ".peers"

#: Replaces ssh, scp and sudo: runs the commands on this machine, without a network.
_SHIM = """#!/bin/sh
while [ $# -gt 0 ]; do case "$1" in
  -o|-p|-i|-l|-F|-S|-O|-P|-c|-u|-g) shift 2;; -*) shift;; *) break;; esac; done
case "${0##*/}" in
  ssh) shift; exec sh -c "$*";;
  scp) exec cp -r "${1#*:}" "${2#*:}";;
  *) exec "$@";;
esac
"""


class Peer(NamedTuple):
    """One other tool: its program, its number of files, its manifest and its commands."""

    program: str
    most: int
    #: Writes a manifest into a directory.
    write: Callable[[Path, list[File]], None]
    #: Returns the command that applies the manifest; with True a dry run.
    command: Callable[[Path, bool], Command]
    version: tuple[str, ...] = ("--version",)
    #: The commands that list users and packages, if it has such.
    lists: tuple[tuple[str, tuple[str, ...]], ...] = ()


def _puppet(base: Path, files: list[File]) -> None:
    text = [f"file {{ '{f.path}': mode => '{f.mode}', content => {json.dumps(f.content)} }}\n" for f in files]
    (base / "site.pp").write_text("".join(text))


def _puppet_command(base: Path, noop: bool) -> Command:  # noqa: FBT001 - the only difference
    options = ("--confdir", f"{base}/conf", "--vardir", f"{base}/var")
    # Without permission to read some facts it applies the manifest and exits with 1.
    return Command(("puppet", "apply", *(("--noop",) if noop else ()), *options, str(base / "site.pp")), codes=(0, 1))


def _salt(base: Path, files: list[File]) -> None:
    (base / "states").mkdir()
    text = [f"{f.path}:\n  file.managed:\n  - mode: '{f.mode}'\n  - contents: {json.dumps(f.content)}\n" for f in files]
    (base / "states" / "site.sls").write_text("".join(text) or "{}\n")
    options = "".join(f"{key}: {base}/{key}\n" for key in ("root_dir", "pki_dir", "cachedir", "sock_dir", "log_file"))
    roots = f"file_roots:\n  base:\n  - {base}/states\n"
    (base / "minion").write_text(f"id: here\nfile_client: local\n{options}{roots}")


def _salt_command(base: Path, noop: bool) -> Command:  # noqa: FBT001 - as above
    call = (f"{INSTALLED}/salt/bin/salt-call", "--local", "-c", str(base), "--log-level=quiet")
    # An empty file of states counts as a failure, and costs the same as a success.
    return Command((*call, "state.apply", "site", *(("test=True",) if noop else ())), codes=(0, 1))


def _ansible(base: Path, files: list[File]) -> None:
    items = [file._asdict() for file in files]
    copy = {"dest": "{{ item.path }}", "content": "{{ item.content }}", "mode": "{{ item.mode }}"}
    task = {"ansible.builtin.copy": copy, "loop": items}
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": [task] if items else []}
    (base / "play.yml").write_text(json.dumps([play]))


def _ansible_command(base: Path, noop: bool) -> Command:  # noqa: FBT001 - as above
    options = ("-e", "ansible_python_interpreter={{ ansible_playbook_python }}")
    words = (f"{INSTALLED}/ansible/bin/ansible-playbook", "-i", "localhost,", *options, *(("--check",) if noop else ()))
    return Command((*words, str(base / "play.yml")), {"ANSIBLE_PIPELINING": "1"})


def _pyinfra(base: Path, files: list[File]) -> None:
    puts = [f"files.put(src=StringIO({f.content!r}), dest={f.path!r}, mode={f.mode!r})\n" for f in files]
    head = "from io import StringIO\nfrom pyinfra.operations import files\n" if puts else ""
    (base / "deploy.py").write_text(head + "".join(puts))


def _pyinfra_command(base: Path, noop: bool) -> Command:  # noqa: FBT001 - as above
    return Command((f"{INSTALLED}/pyinfra/bin/pyinfra", "@local", str(base / "deploy.py"), "--dry" if noop else "-y"))


def _bundlewrap(base: Path, files: list[File]) -> None:
    node = {"n": {"hostname": "localhost", "bundles": ["b"], "os": "debian", "os_version": (12,)}}
    (base / "nodes.py").write_text(f"nodes = {node!r}\n")
    (base / "groups.py").write_text("groups = {}\n")
    (base / "bundles" / "b").mkdir(parents=True)
    items = {f.path: {"content": f.content, "content_type": "text", "mode": f.mode} for f in files}
    (base / "bundles" / "b" / "items.py").write_text(f"files = {items!r}\n")
    (base / "shim").mkdir()
    for name in ("ssh", "scp", "sudo"):
        (base / "shim" / name).write_text(_SHIM)
        (base / "shim" / name).chmod(0o755)


def _bundlewrap_command(base: Path, noop: bool) -> Command:  # noqa: FBT001 - as above
    words = ("verify", "n") if noop else ("apply", "-f", "n")
    path = {"PATH": f"{base}/shim:/usr/sbin:/usr/bin:/sbin:/bin"}
    return Command((f"{INSTALLED}/bundlewrap/bin/bw", "-r", str(base), *words), path, (0, 1))


PEERS = {
    "puppet": Peer(
        "puppet",
        1000,
        _puppet,
        _puppet_command,
        lists=(("users", ("puppet", "resource", "user")), ("packages", ("puppet", "resource", "package"))),
    ),
    "salt": Peer(f"{INSTALLED}/salt/bin/salt-call", 1000, _salt, _salt_command),
    "ansible-core": Peer(f"{INSTALLED}/ansible/bin/ansible-playbook", 10, _ansible, _ansible_command),
    "pyinfra": Peer(f"{INSTALLED}/pyinfra/bin/pyinfra", 100, _pyinfra, _pyinfra_command),
    "bundlewrap": Peer(f"{INSTALLED}/bundlewrap/bin/bw", 100, _bundlewrap, _bundlewrap_command),
}


def installed() -> list[str]:
    """Return the names of the installed peers."""
    return [name for name, peer in PEERS.items() if shutil.which(peer.program)]


def compare(bench: Bench, name: str) -> Iterator[Row]:
    """Yield the rows of one peer compared with the floor: W4, then W1, W2 and W3 with its number of files."""
    peer = PEERS[name]
    click = (*FLOOR[:1], "-c", "import click")
    yield Row(f"{name}: version", 0, "`import click`", pairs(click, (peer.program, *peer.version), 3))
    base = bench.root / "peer"
    base.mkdir()
    peer.write(base, [])
    cost(peer.command(base, False))  # noqa: FBT003 - as above
    yield Row(f"{name}: empty apply", 0, "`import click`", pairs(click, peer.command(base, False), 3))  # noqa: FBT003 - as above
    for what, words in peer.lists:
        # A listing that fails here has no row.
        with suppress(RuntimeError):
            yield Row(f"{name}: {what}", 0, "`import click`", pairs(click, words, 3))
    shutil.rmtree(base)
    yield from _files(bench, name, peer)


def _files(bench: Bench, name: str, peer: Peer) -> Iterator[Row]:
    count, base, target = peer.most, bench.root / "peer", bench.root / "peer-target"
    base.mkdir()
    manifest, _ = workloads.write(count, target, bench.root / "peer-floor")
    peer.write(base, list(workloads.files(count, target)))
    make, check = (*FLOOR, "apply", str(manifest)), (*FLOOR, "check", str(manifest))
    apply, noop = peer.command(base, False), peer.command(base, True)  # noqa: FBT003 - as above
    yield Row(f"{name}: W1 create", count, "floor", pairs(make, apply, 2, bench.fresh(target)))
    workloads.require(count, target)
    yield Row(f"{name}: W2 no change", count, "floor", pairs(check, apply, 2))
    workloads.drift(count, target)
    yield Row(f"{name}: W3 noop, 1 % drifted", count, "floor", pairs(check, noop, 2))
    shutil.rmtree(base)
    shutil.rmtree(target)
