"""The wheel and the source archive of a commit: the same bytes from every build with the same tools."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import tarfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from release.source import Source


def build(source: Source, directory: Path) -> list[Path]:
    """Build the wheel and the source archive of a commit into a directory; return their paths."""
    old_mask = os.umask(0o022)
    try:
        command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(directory), str(source.directory)]
        subprocess.run(command, check=True, env=source.environment, capture_output=True)
    finally:
        os.umask(old_mask)
    (archive,) = directory.glob("*.tar.gz")
    _normalize(archive, source.epoch)
    return [*directory.glob("*.whl"), archive]


def _normalize(archive: Path, epoch: int) -> None:
    """Rewrite a source archive with sorted members that have one time, no owner and usual modes."""
    new = archive.with_suffix(".new")
    with (
        tarfile.open(archive) as old,
        new.open("wb") as file,
        gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=epoch) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            content = old.extractfile(member)
            member.mtime, member.uid, member.gid, member.uname, member.gname = epoch, 0, 0, "", ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            tar.addfile(member, content)
    new.replace(archive)
