"""Keep copies of files that are about to be overwritten or removed, list them, and restore one.

A directory has each content once, under its SHA-256, and an index: which file had it, with which permissions, until
when. A copy is on disk before its file changes, and only the caller can read it. Which files are kept must not be
decided here. Linux only.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import stat
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO, Final, Self

from resource_api.model.values._lazy_regex import regex
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import ResourceError
from resource_api.system.filesystem import files
from resource_api.system.filesystem.directories import (
    DIRECTORY_FLAGS,
    Directories,
    make_directory,
    opened,
    state_directory,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from io import FileIO
    from types import TracebackType

DIRECTORY_VARIABLE: Final = "RESOURCE_API_BACKUPS"
#: What a directory holds at most, in bytes of content, copies and seconds; the oldest copies give way.
MAX_SIZE: Final = 1 << 30
MAX_COPIES: Final = 100_000
MAX_AGE: Final = 90 * 86400
#: The most directories within each other of a tree that is kept; each one is held open.
_DEEPEST: Final = 100
_INDEX: Final = "index"
_CONTENTS: Final = "contents"
_DIGEST: Final = regex(r"[0-9a-f]{64}")


class Backup(NamedTuple):
    """A copy: the absolute path, size in bytes, SHA-256 and permissions of a file; the time, in seconds since 1970."""

    path: str
    sha256: str
    size: int
    mode: int
    uid: int
    gid: int
    time: float


def backup_directory() -> str:
    """Return the directory of copies that is used unless a manifest names another. Raise ``UsageError``."""
    return os.environ.get(DIRECTORY_VARIABLE) or f"{state_directory(os.environ)}/backups"


def list_backups(directory: str) -> list[Backup]:
    """Return the copies in a directory, the oldest first; none if it does not exist. Raise ``OSError``."""
    try:
        with open(f"{directory}/{_INDEX}", "rb") as file:
            return list(_decoded(file))
    except FileNotFoundError:
        return []


def _decoded(lines: Iterable[bytes]) -> Iterator[Backup]:
    """Yield what is in the lines of an index; a run that was killed may have left half a line."""
    for line in lines:
        with suppress(ValueError, TypeError):
            path, sha256, *numbers, when = json.loads(line)
            size, mode, uid, gid = map(int, numbers)
            if isinstance(path, str) and path.startswith("/") and _DIGEST.fullmatch(sha256):
                yield Backup(path, sha256, size, mode, uid, gid, float(when))


class BackupStore:
    """The copies of a run: ``with BackupStore(directory) as store: store.keep(path); store.flush()``.

    Several processes and threads may use the same directory: one waits while another writes the index.
    """

    def __init__(self, directory: str) -> None:
        """Open a directory, which is made if it does not exist. Raise ``OSError``: EPERM if others can write to it."""
        for each in (directory, f"{directory}/{_CONTENTS}"):
            make_directory(each)
        self.directory: Final = directory
        self._batch = files.Batch()
        self._pending: list[Backup] = []
        #: The contents that this run has kept, and their size in bytes.
        self._kept: set[str] = set()
        self._size = 0
        if self._batch.can_others_replace(f"{directory}/{_CONTENTS}/x"):
            self._batch.directories.forget()
            raise PermissionError(errno.EPERM, "no copies are kept where other users can write", directory)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Flush, and remove what is too old or too much; after an exception, what is not flushed is discarded."""
        if kind is None:
            self.flush()
        self._batch.__exit__(kind, error, _)
        if kind is None and self._kept:
            self._expire()

    def keep(self, path: str) -> None:
        """Copy the file at the absolute ``path``, or all files of a directory; links and special files are not copied.

        The copies are durable after ``flush``. Raise ``OSError``, and ``ResourceError`` above ``MAX_SIZE``.
        """
        with Directories() as directories:
            try:
                directory, name = directories.place(path)
                self._keep(directory.fd, name, path, 0)
            except FileNotFoundError:
                return

    def _keep(self, parent: int, name: str, path: str, depth: int) -> None:
        kind = stat.S_IFMT(os.lstat(name, dir_fd=parent).st_mode)
        if kind == stat.S_IFREG:
            with os.fdopen(os.open(name, files.READ_FLAGS, dir_fd=parent), "rb", buffering=0) as file:
                self._copy(file, path)
        elif kind == stat.S_IFDIR:
            if depth >= _DEEPEST:
                msg = f"no copy is kept of directories more than {_DEEPEST} levels deep: {path}"
                raise ResourceError(msg)
            with opened(name, DIRECTORY_FLAGS, parent) as fd:
                for each in sorted(os.listdir(fd)):
                    self._keep(fd, each, f"{path}/{each}", depth + 1)

    def _copy(self, file: FileIO, path: str) -> None:
        seen = os.fstat(file.fileno())
        if not stat.S_ISREG(seen.st_mode):
            raise OSError(errno.EAGAIN, "it has been replaced meanwhile", path)
        if self._size + seen.st_size > MAX_SIZE or len(self._kept) >= MAX_COPIES:
            msg = f"no copy is kept of it: one run keeps at most {MAX_SIZE >> 20} MiB and {MAX_COPIES} files"
            raise ResourceError(msg)
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        size = file.tell()
        place = self._place(digest)
        if digest not in self._kept and not os.path.exists(place):
            file.seek(0)
            parts = _verified(file, digest, f"{path} is being written by another process")
            self._batch.replace(place, parts, mode=0o600)
        self._size += 0 if digest in self._kept else size
        self._kept.add(digest)
        mode = stat.S_IMODE(seen.st_mode)
        self._pending.append(Backup(path, digest, size, mode, seen.st_uid, seen.st_gid, time.time()))

    def discard(self, path: str) -> None:
        """Forget the copies of ``path``, and of all beneath it, that are not flushed: the file was not changed."""
        self._pending = [each for each in self._pending if each.path != path and not each.path.startswith(f"{path}/")]

    def flush(self) -> None:
        """Make all copies durable; only now may their files be changed. Raise ``OSError``."""
        if not self._pending:
            return
        with self._locked() as directory:
            for path, error in self._batch.flush():
                error.filename = path
                raise error
            for digest in {each.sha256 for each in self._pending}:
                os.stat(self._place(digest))
            self._append(_encoded(self._pending))
            os.fsync(directory)
        self._pending = []

    def _append(self, lines: bytes) -> None:
        with open(f"{self.directory}/{_INDEX}", "ab+", opener=_opener) as index:
            if end := index.seek(0, os.SEEK_END):
                index.seek(end - 1)
            # A run that was killed, or a full disk, may have left half a line.
            torn = end and index.read(1) != b"\n"
            index.write(b"\n" * bool(torn) + lines)
            index.flush()
            os.fsync(index.fileno())

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """Wait until no other process or thread writes the index; yield the open directory."""
        with opened(self.directory, DIRECTORY_FLAGS) as directory:
            fcntl.flock(directory, fcntl.LOCK_EX)
            yield directory

    def restore(self, backup: Backup) -> None:
        """Replace or create the file of a copy with its content and permissions; what it has now is kept before.

        Raise ``OSError``, and ``ResourceError`` for a copy that is damaged.
        """
        self.keep(backup.path)
        self.flush()
        with files.open_source(self._place(backup.sha256)) as content:
            parts = _verified(content, backup.sha256, f"the copy {self._place(backup.sha256)} is damaged")
            files.replace(backup.path, parts, mode=backup.mode, uid=backup.uid, gid=backup.gid)

    def _place(self, digest: str) -> str:
        return f"{self.directory}/{_CONTENTS}/{digest}"

    def _expire(self) -> None:
        """Remove the oldest copies beyond what the directory may hold, and contents that no copy needs."""
        with self._locked():
            found = list_backups(self.directory)
            kept = within_bounds(found, time.time())
            if len(kept) < len(found):
                files.replace(f"{self.directory}/{_INDEX}", _encoded(kept), mode=0o600)
            wanted = {each.sha256 for each in kept}
            for name in os.listdir(f"{self.directory}/{_CONTENTS}"):
                if name not in wanted and _DIGEST.fullmatch(name):
                    os.unlink(self._place(name))


def within_bounds(backups: Sequence[Backup], now: float) -> list[Backup]:
    """Return the newest of the copies, given and returned the oldest first, that a directory may hold at a time."""
    contents: set[str] = set()
    size = 0
    kept: list[Backup] = []
    for backup in reversed(backups):
        size += 0 if backup.sha256 in contents else backup.size
        contents.add(backup.sha256)
        if size > MAX_SIZE or len(kept) >= MAX_COPIES or now - backup.time > MAX_AGE:
            break
        kept.append(backup)
    return kept[::-1]


def _encoded(backups: Iterable[Backup]) -> bytes:
    return b"".join(json.dumps(list(each)).encode() + b"\n" for each in backups)


def _opener(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _verified(stream: BinaryIO, digest: str, otherwise: str) -> Iterator[bytes]:
    """Yield the parts of a stream. Raise ``ResourceError`` at its end if its SHA-256 is not ``digest``."""
    seen = hashlib.sha256()
    while part := stream.read(1 << 18):
        seen.update(part)
        yield part
    if seen.hexdigest() != digest:
        raise ResourceError(otherwise)
