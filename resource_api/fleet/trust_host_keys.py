"""Record the keys of hosts in a file of known hosts (sshd(8)), and decide which of them are right."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from resource_api.system.filesystem.directories import Directories, canonical_path

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from resource_api.fleet.carriers.asyncssh_transport import HostKey


def refusal(key: HostKey, fingerprints: Collection[str]) -> str:
    """Return why a key is not trusted; empty: it is. ``fingerprints`` are those that are right, none: all may be."""
    if key.trust == "changed":
        remove = f"ssh-keygen -R '{key.place.pattern}'"
        return f"its key {key.fingerprint} is not the known one; if that is right, remove the known one: {remove}"
    if key.trust == "revoked":
        return f"its key {key.fingerprint} is revoked: a line @revoked in a file of known hosts has it"
    if fingerprints and key.trust == "unknown" and key.fingerprint not in fingerprints:
        return f"its key {key.fingerprint} is not among the given fingerprints"
    return ""


def record(file: Path, keys: Iterable[HostKey]) -> None:
    """Append keys to a file, which is made, as its directory is, where it is missing. Raise ``OSError``.

    What the file has stays as it is; all lines are written at once.
    """
    lines = dict.fromkeys(f"{key.place.pattern} {key.line}\n" for key in keys)
    path = canonical_path(os.path.abspath(file))
    with Directories() as directories:
        directories.make(os.path.dirname(path))
        directory, name = directories.follow(path)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(name, flags, 0o600, dir_fd=directory.fd)
    with os.fdopen(descriptor, "rb+", buffering=0) as opened:
        size = opened.seek(0, os.SEEK_END)
        opened.seek(max(0, size - 1))
        begin = "" if opened.read(1) in {b"", b"\n"} else "\n"
        opened.write((begin + "".join(lines)).encode("ascii"))
        os.fsync(opened.fileno())
