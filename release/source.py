"""The source of a release: the tracked files of one commit, with its date as the time of each file."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent


class Source(NamedTuple):
    """An exported commit: ``epoch`` is its date, in seconds."""

    directory: Path
    commit: str
    epoch: int

    @property
    def environment(self) -> dict[str, str]:
        """The environment of build tools that makes their output reproducible (reproducible-builds.org)."""
        return {**os.environ, "SOURCE_DATE_EPOCH": str(self.epoch), "PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C"}


def export(directory: Path) -> Source:
    """Write the files of the current commit into a new directory. Raise ``SystemExit`` if tracked files differ."""
    if changed := _git("status", "--porcelain", "--untracked-files=no").decode():
        raise SystemExit(f"a release has exactly one commit; commit these changes first:\n{changed}")
    commit, epoch = _git("log", "-1", "--format=%H %ct").decode().split()
    archive = _git("-c", "tar.umask=0022", "archive", "--format=tar", commit)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(directory, filter="tar")
    return Source(directory, commit, int(epoch))


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
