"""Back up files that are about to be overwritten or removed, list the backups, and restore them.

A backup directory has each content once, under its SHA-256, and an index with the path, the permissions and the time of
each backup. A backup is on disk before its file changes, and only the caller can read it.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import stat
import time
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import accumulate
from typing import TYPE_CHECKING, BinaryIO, Final

from resource_api.model.values.errors import ResourceError
from resource_api.model.values.start_up import NamedTuple, regex
from resource_api.system.filesystem import files, reading
from resource_api.system.filesystem.directories import (
    DIRECTORY_FLAGS,
    Directories,
    make_directory,
    opened,
    state_directory,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from io import FileIO, RawIOBase

DIRECTORY_VARIABLE: Final = "RESOURCE_API_BACKUPS"
#: Limits of a directory: bytes of content, number of backups, age in seconds. The oldest backups are removed.
MAX_SIZE: Final = 1 << 30
MAX_COPIES: Final = 100_000
MAX_AGE: Final = 90 * 86400
#: Greatest depth of a tree that is backed up; a directory of each level is open at the same time.
_DEEPEST: Final = 100
_INDEX: Final = "index"
_CONTENTS: Final = "contents"
_DIGEST: Final = regex(r"[0-9a-f]{64}")


class Backup(NamedTuple):
    """A backup: path, SHA-256, size in bytes and permissions of the file; the time in seconds since 1970."""

    path: str
    sha256: str
    size: int
    mode: int
    uid: int
    gid: int
    time: float


def backup_directory() -> str:
    """Return the absolute path of the default backup directory, for manifests that name none. Raise ``UsageError``."""
    return os.path.abspath(os.environ.get(DIRECTORY_VARIABLE) or f"{state_directory(os.environ)}/backups")


def list_backups(directory: str) -> list[Backup]:
    """Return the backups in a directory, the oldest first; none if it does not exist. Raise ``OSError``."""
    try:
        with open(f"{directory}/{_INDEX}", "rb") as file:
            return list(_decoded(file))
    except FileNotFoundError:
        return []


def _decoded(lines: Iterable[bytes]) -> Iterator[Backup]:
    """Yield the backups of an index, one a line; half a line, which a killed run may have left, is skipped."""
    for line in lines:
        with suppress(ValueError, TypeError):
            path, sha256, *numbers, seconds = json.loads(line)
            size, mode, uid, gid = map(int, numbers)
            if isinstance(path, str) and path.startswith("/") and _DIGEST.fullmatch(sha256):
                yield Backup(path, sha256, size, mode=mode, uid=uid, gid=gid, time=float(seconds))


class BackupStore(AbstractContextManager["BackupStore"]):
    """The backups of a run: ``with BackupStore(directory) as store: store.keep(path); store.flush()``.

    Several processes and threads may use the same directory: one waits while another writes the index.
    """

    def __init__(self, directory: str) -> None:
        """Open or create a backup directory. Raise ``OSError``: EPERM if other users could exchange files in it."""
        make_directory(f"{directory}/{_CONTENTS}")
        self.directory: Final = directory
        self._batch = files.Batch()
        #: The backups that are not in the index yet.
        self._pending: list[Backup] = []
        #: The SHA-256 of the contents that this run has stored, and their total size in bytes.
        self._stored: set[str] = set()
        self._size = 0
        if self._batch.can_others_replace(f"{directory}/{_CONTENTS}/x"):  # any name there
            self._batch.directories.forget()  # closes them: without an object, ``__exit__`` is not called
            raise PermissionError(errno.EPERM, "no copies are kept where other users can write", directory)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Flush, and remove old backups beyond the limits.

        After an exception unflushed backups are discarded instead: their files were not changed, as a change comes
        only after ``flush``.
        """
        if kind is None:
            self.flush()
        self._batch.__exit__(kind)
        if kind is None and self._stored:
            self._expire()

    def keep(self, path: str) -> None:
        """Back up the file at the absolute ``path``, or all files of a directory, except links and special files.

        Nothing is backed up for a missing file. The backups are durable after ``flush``. Raise ``OSError``, and
        ``ResourceError`` above ``MAX_SIZE``.
        """
        with Directories() as directories:
            try:
                directory, name = directories.place(path)
                self._keep(directory.fd, name, path, 0)
            except FileNotFoundError:
                return

    def _keep(self, parent: int, name: str, path: str, depth: int) -> None:
        """Back up a file, or all files beneath a directory, but no links.

        ``name`` is in the open directory ``parent``; ``path``: its whole path, for the index; ``depth``: the number of
        directories above it in the tree. As each of these is held open, raise ``ResourceError`` for a deep tree.
        """
        kind = stat.S_IFMT(os.lstat(name, dir_fd=parent).st_mode)
        if kind == stat.S_IFREG:
            with os.fdopen(os.open(name, reading.READ_FLAGS, dir_fd=parent), "rb", buffering=0) as file:
                self._copy(file, path)
        elif kind == stat.S_IFDIR:
            if depth >= _DEEPEST:
                raise ResourceError(f"no copy is kept of directories more than {_DEEPEST} levels deep: {path}")
            with opened(name, DIRECTORY_FLAGS, parent) as fd:
                for member in sorted(os.listdir(fd)):
                    self._keep(fd, member, f"{path}/{member}", depth + 1)

    def _copy(self, file: FileIO, path: str) -> None:
        """Store a file's content under its digest, unless it is stored already, and queue its line of the index.

        A new content is read twice: for the digest, and to copy it; a change by another process in between is an error.
        Raise as ``keep`` does.
        """
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EAGAIN, "it has been replaced meanwhile", path)
        remaining, digest = MAX_SIZE - self._size, ""
        if status.st_size <= remaining and len(self._stored) < MAX_COPIES:
            digest = reading.sha256_of(reading.parts_of(file), remaining)
        if not digest:
            msg = f"no copy is kept of it: one run keeps at most {MAX_SIZE >> 20} MiB and {MAX_COPIES} files"
            raise ResourceError(msg)
        size = file.tell()
        target = self._content_path(digest)
        if digest not in self._stored and not os.path.exists(target):
            file.seek(0)
            parts = _verified(file, digest, size, f"{path} is being written by another process")
            self._batch.replace(target, parts, mode=0o600)
        self._size += 0 if digest in self._stored else size
        self._stored.add(digest)
        mode = stat.S_IMODE(status.st_mode)
        self._pending.append(
            Backup(path, digest, size, mode=mode, uid=status.st_uid, gid=status.st_gid, time=time.time())
        )

    def discard(self, path: str) -> None:
        """Discard the unflushed backups of ``path`` and of all files beneath it, which were not changed."""
        self._pending = [copy for copy in self._pending if copy.path != path and not copy.path.startswith(f"{path}/")]

    def flush(self) -> None:
        """Write contents and index of all backups to the disk, before any change of their files. Raise ``OSError``."""
        if not self._pending:
            return
        with self._locked():
            for path, error in self._batch.flush():
                error.filename = path
                raise error
            for digest in {backup.sha256 for backup in self._pending}:
                # Another run may have removed an older content as expired: an error is better than a lost backup.
                os.stat(self._content_path(digest))
            self._append(_encoded(self._pending))
            with opened(self.directory, DIRECTORY_FLAGS) as directory:
                os.fsync(directory)
        self._pending = []

    def _append(self, lines: bytes) -> None:
        """Append lines to the index durably, behind half a line that a killed run or a full disk may have left."""
        with open(f"{self.directory}/{_INDEX}", "ab+", opener=_opener) as index:
            if end := index.seek(0, os.SEEK_END):
                index.seek(end - 1)
            torn = end and index.read(1) != b"\n"
            index.write(b"\n" * bool(torn) + lines)
            index.flush()
            os.fsync(index.fileno())

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the backups for the ``with`` block, so that no other run expires contents that this one refers to."""
        # Not the directory, which others may be able to open: they could keep it locked.
        with opened(f"{self.directory}/{_CONTENTS}", DIRECTORY_FLAGS) as contents:
            fcntl.flock(contents, fcntl.LOCK_EX)
            yield

    def restore(self, backup: Backup) -> None:
        """Replace or create the file with its content and permissions from a backup; its present content is backed up.

        Raise ``OSError``, and ``ResourceError`` for a damaged backup.
        """
        self.keep(backup.path)
        self.flush()
        source = self._content_path(backup.sha256)
        with reading.open_source(source) as content:
            parts = _verified(content, backup.sha256, backup.size, f"the copy {source} is damaged")
            files.replace(backup.path, parts, mode=backup.mode, uid=backup.uid, gid=backup.gid)

    def _content_path(self, digest: str) -> str:
        return f"{self.directory}/{_CONTENTS}/{digest}"

    def _expire(self) -> None:
        """Remove the oldest backups beyond the limits, and contents that no backup refers to.

        The index is replaced first: a kill then leaves a content without a backup, which the next run removes, but no
        backup without its content.
        """
        with self._locked():
            backups = list_backups(self.directory)
            remaining = within_bounds(backups, time.time())
            if len(remaining) < len(backups):
                files.replace(f"{self.directory}/{_INDEX}", _encoded(remaining), mode=0o600)
            digests = {backup.sha256 for backup in remaining}
            for name in os.listdir(f"{self.directory}/{_CONTENTS}"):
                if name not in digests and _DIGEST.fullmatch(name):
                    os.unlink(self._content_path(name))


def within_bounds(backups: Sequence[Backup], time_now: float) -> list[Backup]:
    """Return the newest backups within the limits of a directory (size, number, age); the others are to be removed.

    Both lists have the oldest first, whatever their times: a machine may begin in 1970 and set its clock later. A
    backup therefore has at least the time of those before it, and at most ``time_now``.
    """
    contents: set[str] = set()
    size = 0
    newest: list[Backup] = []
    times = list(accumulate((min(backup.time, time_now) for backup in backups), max))  # each the latest so far
    for backup, moment in zip(reversed(backups), reversed(times), strict=True):
        size += 0 if backup.sha256 in contents else backup.size
        contents.add(backup.sha256)
        if size > MAX_SIZE or len(newest) >= MAX_COPIES or time_now - moment > MAX_AGE:
            break
        newest.append(backup)
    return newest[::-1]


def _encoded(backups: Iterable[Backup]) -> bytes:
    """Return the lines of an index, one JSON list for each backup."""
    return b"".join(json.dumps(list(backup)).encode() + b"\n" for backup in backups)


def _opener(path: str, flags: int) -> int:
    """Open a file for ``open``, created for the owner alone; no link is followed."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _verified(stream: BinaryIO | RawIOBase, digest: str, size: int, message: str) -> Iterator[bytes]:
    """Yield the parts of a stream to copy. At its end, raise ``ResourceError`` for another size or SHA-256.

    The error makes the writer discard the copy, which is damaged. ``message``: the text of the error.
    """
    sha256 = hashlib.sha256()
    for part in reading.parts_of(stream):
        size -= len(part)
        if size < 0:
            break
        sha256.update(part)
        yield part
    if size or sha256.hexdigest() != digest:
        raise ResourceError(message)
