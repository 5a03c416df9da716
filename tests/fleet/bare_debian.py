"""A bare Debian as a host: the least that boots, with Python and its standard library, and nothing of this machine.

``.ci/bare-debian`` makes its tree, once. What is started there has it as its root, with processes, a name and a network
of its own; whatever it writes disappears with it, but for its state and its cache.
"""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from resource_api.fleet import job as jobs
from resource_api.fleet import job_inputs
from resource_api.fleet.archives import Archives, package_archive
from resource_api.fleet.connections import Host
from resource_api.fleet.job import HostJob, with_id
from resource_api.system.filesystem.code_trust import CodeTrust
from tests.fleet.pipe_connections import PipeConnections
from tests.fleet.sent_documents import sent_documents

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT: Final = Path(__file__).resolve().parents[2]
#: The releases of Debian, and the Python of each.
SUITES: Final = {"bookworm": "3.11", "trixie": "3.13"}
#: Where the directory ``kept`` of a host is there.
STATE: Final = "/var/lib/resource-api"
#: Arguments: the tree, an empty directory for mounts, one that is kept, a version of Python of which only the modules
#: in Debian's python3-minimal are there, or nothing, whether there are the libraries that some types need; then those
#: of the interpreter.
_ENTER: Final = f"""
set -e
tree=$1; base=$2; kept=$3; minimal=$4; libraries=$5; shift 5
mount -t tmpfs tmpfs "$base"
mkdir "$base/up" "$base/work" "$base/root"
mount -t overlay overlay -o "lowerdir=$tree,upperdir=$base/up,workdir=$base/work" "$base/root"
cd "$base/root"
if [ "$minimal" ]; then
    mv "usr/lib/python$minimal" all
    for each in $(chroot . dpkg -L "libpython$minimal-minimal" | grep "^/usr/lib/python$minimal/"); do
        moved="all${{each#/usr/lib/python$minimal}}"
        if [ -d "$moved" ]; then mkdir -p ".$each"; else mkdir -p "$(dirname ".$each")"; mv "$moved" ".$each"; fi
    done
fi
if [ "$libraries" ]; then
    for each in srv/libraries/*.deb; do dpkg-deb --extract "$each" .; done
fi
mount -t proc proc proc
mount -t tmpfs -o mode=755 tmpfs dev
for node in null zero full random urandom tty; do touch dev/$node; mount --bind /dev/$node dev/$node; done
mkdir -p -m 700 "$kept/state" "$kept/cache" .{STATE} var/cache/resource-api
mount --bind "$kept/state" .{STATE}
mount --bind "$kept/cache" var/cache/resource-api
exec chroot . /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin /usr/bin/python3 "$@"
"""
_NAMESPACES: Final = "--mount --pid --fork --uts --ipc --net --kill-child --propagation private"


def tree(suite: str) -> Path:
    """Return the tree of a Debian; where it is not there yet it is made, which takes a minute."""
    path = ROOT / ".venv" / "debian" / suite
    if not path.exists():
        subprocess.run([ROOT / ".ci" / "bare-debian", suite, path], check=True)
    return path


class Bare:
    """A host, reached by pipes; ``suite`` is its release, ``state`` the directory of its state."""

    def __init__(self, suite: str, directory: Path) -> None:
        """Keep everything that is not in the tree beneath ``directory``."""
        self.suite, self._directory = suite, directory
        self._runs = 0
        for name in ("mounts", "kept", "kept/state", "kept/cache"):
            (directory / name).mkdir(mode=0o700)
        self.state = directory / "kept" / "state"

    def events(
        self,
        command: str,
        manifest: str | None = None,
        *,
        minimal: bool = False,
        libraries: bool = False,
        needed: Sequence[str] = (),
        **options: Any,
    ) -> list[Mapping[str, Any]]:
        """Return what the host sends for a command, its end last.

        ``minimal``: with Debian's python3-minimal alone. ``libraries``: with what some types need of its packages.
        ``needed``: the libraries that are sent along, as a command does for the types of its manifest.
        """
        archive = package_archive(str(self._directory / "made"), needed)
        python = self._interpreter(SUITES[self.suite] if minimal else "", "yes" if libraries else "")
        connections = PipeConnections(Archives(archive), python=python)
        read = []
        if manifest is not None:
            (self._directory / "site.yaml").write_text(manifest)
            read = job_inputs.read_documents(str(self._directory / "site.yaml"))
        self._runs += 1
        job = HostJob(
            command,
            str(self._runs),
            payload=archive.digest,
            documents=[jobs.document_fields(item) for item in read],
            files=job_inputs.file_contents(read, {}, CodeTrust()),
            host={"name": "bare", "groups": [], "address": "192.0.2.1"},
            options=options,
        )
        return sent_documents(connections, Host("bare"), with_id(job))

    def _interpreter(self, *text: str) -> str:
        """Return the path of a program that starts Python there."""
        paths = map(str, (tree(self.suite), self._directory / "mounts", self._directory / "kept"))
        words = shlex.join([*paths, *text])
        program = self._directory / "python"
        program.write_text(f'#!/bin/sh\nexec unshare {_NAMESPACES} sh -c {shlex.quote(_ENTER)} sh {words} "$@"\n')
        program.chmod(0o755)
        return str(program)
