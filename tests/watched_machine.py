"""A machine of which every change is seen: namespaces of its own, and an overlay of this machine as its root.

``python -m tests.watched_machine [--but PATH ...] COMMAND ...`` runs a command there as root and prints what is
different afterwards: files, mounts, processes, sockets, inter-process communication, control groups, keys and
settings of the kernel. The exit code is that of the command, or 1 if anything is different. No daemon runs there, so
all of it comes from the command; ``--but``: files beneath this path may differ.

Whatever the command writes is seen, also what it puts back, because the overlay keeps it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from resource_api.system.overlay import namespaces, overlay
from resource_api.system.process import process_tree

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from resource_api.system.overlay.overlay import Written

_SETTINGS: Final = "/proc/sys"
#: Settings that count or are drawn by lot; the last ones show how they were read.
_VOLATILE: Final = ("fs/dentry-state", "fs/file-nr", "fs/inode-nr", "fs/inode-state", "fs/quota", "kernel/random")
_VOLATILE_TOO: Final = ("kernel/ns_last_pid", "kernel/pty/nr", "kernel/perf_event_max_sample_rate", "vm/stat_refresh")
_TABLES: Final = ("net/unix", "net/tcp", "net/tcp6", "net/udp", "net/udp6", "sysvipc/msg", "sysvipc/sem", "sysvipc/shm")
#: Seconds in which processes that are ending must have ended.
_PATIENCE: Final = 20


def main(arguments: Sequence[str]) -> int:
    """Run a command on a watched machine; return its exit code, or 1 if it has left anything."""
    parser = argparse.ArgumentParser(description="Run a command where every change of the machine is seen.")
    parser.add_argument("--but", action="append", default=[], metavar="PATH", help="files beneath it may differ")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args(arguments)
    flags = namespaces.NEW_MOUNTS | namespaces.NEW_PROCESSES | namespaces.NEW_IPC | namespaces.NEW_HOST_NAME
    namespaces.unshare(flags | namespaces.NEW_NETWORK)
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    process_tree.end_with(0)
    return _first(options.command, options.but)


def _first(command: Sequence[str], but: Sequence[str]) -> int:
    """Be the first process of the machine: build it, run the command, and print what is different."""
    directory = Path.cwd()
    namespaces.make_mounts_private()
    written = overlay.build(overlay.mounts(), "50%")
    os.chdir(directory)
    _let_settings_be_changed()
    namespaces.start_loopback()
    before = _state(written, but)
    code = subprocess.run(command, check=False).returncode
    _wait_for_all()
    after = _state(written, but)
    differences = list(_differences(before, after))
    for line in differences:
        sys.stdout.write(f"{line}\n")
    return code or bool(differences)


def _let_settings_be_changed() -> None:
    """Make writable what is read-only in a rehearsal: what the command changes is to be seen, not to be refused."""
    subprocess.run(["umount", "--recursive", "/proc"], check=True)
    namespaces.mount("proc", "/proc")
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        path = line.split()[4]
        if path.startswith("/sys"):
            subprocess.run(["mount", "-o", "remount,bind,rw", path], check=True)


def _wait_for_all() -> None:
    """Wait for orphans that are ending."""
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        try:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.01)
        except ChildProcessError:
            return


def _state(written: int, but: Sequence[str]) -> Mapping[str, str]:
    """Return what the machine has now: what it is → its content."""
    entries = {f"mount {line}": "" for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()}
    entries |= {f"process {entry.name}": _text(entry / "cmdline") for entry in Path("/proc").glob("[0-9]*")}
    entries |= {f"file {path}": str(details) for path, details in _files(written, but)}
    for table in _TABLES:
        entries |= {f"{table} {line}": "" for line in _text(Path("/proc", table)).splitlines()}
    # Those with processes belong to rehearsals elsewhere: here, all have ended.
    groups = Path("/sys/fs/cgroup").rglob("resource-api*/pids.current")
    entries |= {f"control group {group.parent}": "" for group in groups if _text(group).strip() == "0"}
    # What is behind the permissions: the user, the group, the kind and the name. Keyrings come and go with processes.
    keys = (line.split(maxsplit=5)[-1] for line in _text(Path("/proc/keys")).splitlines())
    # The manager of services of the machine itself, or of another namespace, gives each service a key of this name.
    entries |= {f"key {key}": "" for key in keys if " keyring " not in key and " invocation_id:" not in key}
    entries["names"] = str(os.uname())
    return entries | dict(_settings())


def _files(written: int, but: Sequence[str]) -> Iterator[tuple[str, Written]]:
    """Yield what is written; a directory in which something is written is there for that alone."""
    text = overlay.read(written)
    above = {path.rpartition("/")[0] for path in text}
    for path, details in text.items():
        expected = "/__pycache__" in path or any(path == item or path.startswith(f"{item}/") for item in but)
        if path not in above and not expected:
            yield path, details


def _settings() -> Iterator[tuple[str, str]]:
    for directory, _, names in os.walk(_SETTINGS):
        for name in names:
            path = f"{directory}/{name}"
            if not path.removeprefix(f"{_SETTINGS}/").startswith((*_VOLATILE, *_VOLATILE_TOO)):
                yield f"setting {path}", _text(Path(path))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _differences(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    for key in sorted(before.keys() | after.keys()):
        if key not in after:
            yield f"gone: {key}"
        elif before.get(key) != after[key]:
            yield f"{'changed' if key in before else 'new'}: {key}: {after[key]}".rstrip(": ")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
