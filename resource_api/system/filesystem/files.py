"""Files, directories and links, read and changed so that nobody can get between and no crash leaves half of it.

A file is replaced by renaming a complete one over it, on disk before it is seen; rights are changed on what is open,
never on a name. Nobody gains a right for a moment that neither the old nor the final state grants. How a directory is
reached safely is ``directories``', what a resource should be is a provider's; both do not enter here. Linux only.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO, Final, Self

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.system.filesystem import permissions as rights
from resource_api.system.filesystem import remove_tree as trees
from resource_api.system.filesystem import temporary_names as temporaries
from resource_api.system.filesystem.directories import LISTING, Directories
from resource_api.system.filesystem.fsync import Durability
from resource_api.system.filesystem.permissions import DIRECTORY_MODE, Rights
from resource_api.system.filesystem.temporary_names import Temporaries

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from resource_api.system.filesystem.directories import Directory

    #: The whole of it, or its parts in order.
    Content = bytes | Iterable[bytes]

_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def look(held: Directories, path: str, limit: int) -> tuple[os.stat_result, bytes | None]:
    """Give what stands at ``path`` and, of a regular file of at most ``limit`` bytes, its content.

    Nothing but regular files is opened, no link is followed, nothing blocks. Raises ``OSError``.
    """
    parent, _, name = path.rpartition("/")
    fd = held.reach(parent).fd
    seen = os.lstat(name or ".", dir_fd=fd)
    size = seen.st_size
    if size > limit or not stat.S_ISREG(seen.st_mode):
        return seen, None
    file = os.open(name, _READ, dir_fd=fd)
    try:
        content: bytes | None = os.read(file, size + 1)
        if content is not None and len(content) != size:  # it is being written, or is one of proc(5)
            content = _whole(file, limit)
    finally:
        os.close(file)
    return seen, content


def read(path: str, limit: int) -> bytes:
    """Give the content of a regular file; raises ``OSError`` for anything else, and EFBIG beyond ``limit`` bytes."""
    with Directories() as held:
        seen, content = look(held, path, limit)
    if content is None:
        number = errno.EFBIG if stat.S_ISREG(seen.st_mode) else errno.EINVAL
        raise OSError(number, f"no regular file of at most {limit} bytes", path)
    return content


def source(path: str) -> BinaryIO:
    """Open a regular file to copy from; links are followed where others could not have put them."""
    try:
        with Directories() as held:
            directory, name = held.follow(path)
            file = os.open(name, _READ, dir_fd=directory.fd)
    except OSError as error:
        error.filename = path
        raise
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return os.fdopen(file, "rb", buffering=0)


def replace(
    path: str, content: Content, *, mode: int | None = None, uid: int | None = None, gid: int | None = None
) -> None:
    """Do ``Batch.replace`` for one file, durable on return."""
    with Batch() as batch:
        batch.replace(path, content, mode=mode, uid=uid, gid=gid)


class _Staged(NamedTuple):
    """A complete file under a temporary name, waiting for its own."""

    path: str
    directory: str
    temporary: str
    name: str


class Batch:
    """Changes that become durable together: ``with Batch() as batch: batch.replace(...)``.

    Files appear under their names when the batch is flushed, everything else at once; all of it is durable after
    ``flush``, which leaving the ``with`` statement does. An exception in it takes back files that have not appeared.
    Every method raises ``OSError`` and leaves what it was to change as it was.
    """

    def __init__(self) -> None:
        """Begin with nothing changed."""
        self.held: Final = Directories()
        self._staged: list[_Staged] = []
        self._durability = Durability(self.held)
        self._temporaries = Temporaries()

    def __enter__(self) -> Self:
        """Give itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Flush; raise the first failure that ``flush`` gives."""
        try:
            if kind is not None:
                self._drop(self._staged)
                self._staged = []
                with suppress(OSError):
                    self.flush()
            elif failed := self.flush():
                raise failed[0][1]
        finally:
            self.held.forget()

    def replace(
        self, path: str, content: Content, *, mode: int | None = None, uid: int | None = None, gid: int | None = None
    ) -> None:
        """Give the file at ``path`` this content, or make it; a link there is replaced itself, hard links are left.

        What is None is kept: mode (without set-id bits, which vouch for the old content), owner, group; of a new file
        0644 and the caller's. ACL and extended attributes are kept; a given mode is the mode exactly.
        """
        directory, name = self.held.place(path)
        old = _replaceable(directory, name, path)
        temporary = self._temporaries.name(directory, name)
        fd = os.open(temporary, _WRITE, 0o600, dir_fd=directory.fd)
        try:
            try:
                for part in (content,) if isinstance(content, bytes) else content:
                    _write(fd, part)
                rights.dress(fd, old, Rights(mode, uid, gid), directory.fd, name)
                self._durability.file(fd, directory)
            finally:
                os.close(fd)
        except BaseException:
            temporaries.discard(directory.fd, temporary)
            raise
        self._staged.append(_Staged(path, directory.path, temporary, name))

    def make_directory(
        self, path: str, *, mode: int | None = None, uid: int | None = None, gid: int | None = None
    ) -> None:
        """Make a directory: without ``mode`` 0755, with set-group-ID where the parent hands it down."""
        directory, name = self.held.place(path)
        # Nobody would ever mend the mode of a directory that a crash has left narrow, if none is declared.
        os.mkdir(name, DIRECTORY_MODE if mode is uid is gid is None else 0o700, dir_fd=directory.fd)
        try:
            fd = os.open(name, LISTING, dir_fd=directory.fd)
            try:
                made = os.fstat(fd)
                if made.st_uid != os.geteuid():
                    raise PermissionError(errno.EPERM, "somebody else has put another directory there", path)
                wanted = DIRECTORY_MODE | made.st_mode & stat.S_ISGID if mode is None else mode
                rights.change(fd, made, Rights(wanted, uid, gid))
                self._durability.file(fd, directory)
            finally:
                os.close(fd)
        except BaseException:
            with suppress(OSError):
                os.rmdir(name, dir_fd=directory.fd)
            raise
        self._durability.names(directory.path)

    def make_link(self, path: str, target: str, *, uid: int | None = None, gid: int | None = None) -> None:
        """Make ``path`` a symbolic link to ``target``, in place of a file or a link, never of anything else."""
        directory, name = self.held.place(path)
        _replaceable(directory, name, path)
        temporary = self._temporaries.name(directory, name)
        os.symlink(target, temporary, dir_fd=directory.fd)
        try:
            if (uid, gid) != (None, None):
                os.chown(temporary, *Rights(None, uid, gid).ids, dir_fd=directory.fd, follow_symlinks=False)
            os.rename(temporary, name, src_dir_fd=directory.fd, dst_dir_fd=directory.fd)
        except BaseException:
            temporaries.discard(directory.fd, temporary)
            raise
        self._durability.names(directory.path)
        self.held.forget()

    def set_mode_owner(
        self, path: str, *, mode: int | None = None, uid: int | None = None, gid: int | None = None
    ) -> None:
        """Change the rights on a file or directory that stays, the owner of a link; what is None is kept.

        Refused (EPERM) for a file with other hard links where others can write: it may be somebody else's file.
        """
        directory, name = self.held.place(path)
        seen = os.lstat(name, dir_fd=directory.fd)
        if stat.S_ISLNK(seen.st_mode):
            os.chown(name, *Rights(None, uid, gid).ids, dir_fd=directory.fd, follow_symlinks=False)
            self._durability.names(directory.path)
            return
        if not (stat.S_ISREG(seen.st_mode) or stat.S_ISDIR(seen.st_mode)):
            raise OSError(errno.EINVAL, "neither a file nor a directory", path)
        fd = os.open(name, _READ, dir_fd=directory.fd)
        try:
            now = os.fstat(fd)
            if not os.path.samestat(seen, now):
                raise OSError(errno.EAGAIN, "it has been replaced meanwhile", path)
            if stat.S_ISREG(now.st_mode) and now.st_nlink > 1 and not directory.trusted:
                raise PermissionError(errno.EPERM, "it has other hard links, and others can write where it is", path)
            rights.change(fd, now, Rights(mode, uid, gid))
            self._durability.file(fd, directory)
        finally:
            os.close(fd)

    def remove(self, path: str, *, recursive: bool = False) -> None:
        """Remove what is at ``path``; a directory that is not empty only if ``recursive``.

        Directories of the system and what is mounted, or has something mounted beneath, are refused (EPERM, EBUSY).
        """
        directory, name = self.held.place(path)
        seen = os.lstat(name, dir_fd=directory.fd)
        trees.guard(directory.beneath(name))
        if not stat.S_ISDIR(seen.st_mode):
            os.unlink(name, dir_fd=directory.fd)
        elif recursive:
            trees.remove(directory, name)
        else:
            temporaries.sweep(self.held.reach(path))
            os.rmdir(name, dir_fd=directory.fd)
        self._durability.names(directory.path)
        if not stat.S_ISREG(seen.st_mode):
            self.held.forget()

    def flush(self) -> list[tuple[str, OSError]]:
        """Make everything appear and durable; give the files that could not appear, by path, and why.

        Raises ``OSError`` when the disk does not take what was written: then no file that was waiting has appeared.
        """
        ready, self._staged = self._staged, []
        try:
            self._durability.flush_files()
        except OSError:
            self._drop(ready)
            raise
        failed = []
        for staged in ready:
            try:
                fd = self.held.reach(staged.directory).fd
                os.rename(staged.temporary, staged.name, src_dir_fd=fd, dst_dir_fd=fd)
            except OSError as error:
                self._drop([staged])
                failed.append((staged.path, error))
            else:
                self._durability.names(staged.directory)
        self._durability.flush_names()
        return failed

    def _drop(self, unfit: Iterable[_Staged]) -> None:
        for staged in unfit:
            with suppress(OSError):
                temporaries.discard(self.held.reach(staged.directory).fd, staged.temporary)


def _whole(file: int, limit: int) -> bytes | None:
    """Read to the end, from the beginning; None beyond ``limit``."""
    with os.fdopen(file, "rb", closefd=False) as stream:
        stream.seek(0)
        content = stream.read(limit + 1)
    return content if len(content) <= limit else None


def _write(fd: int, content: bytes) -> None:
    """Write all of it, in as many steps as the system wants."""
    done = os.write(fd, content)
    while done < len(content):
        done += os.write(fd, memoryview(content)[done:])


def _replaceable(directory: Directory, name: str, path: str) -> os.stat_result | None:
    """Give the regular file that is there; None for nothing, or a link. Anything else can be replaced by nothing."""
    try:
        old = os.lstat(name, dir_fd=directory.fd)
    except FileNotFoundError:
        return None
    if stat.S_ISREG(old.st_mode):
        return old
    if stat.S_ISLNK(old.st_mode):
        return None
    number = errno.EISDIR if stat.S_ISDIR(old.st_mode) else errno.EEXIST
    raise OSError(number, "neither a file nor a link, so it cannot be replaced", path)
