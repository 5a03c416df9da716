"""Replace, create and remove files, directories and links: atomic, durable, safe against other users.

A file is replaced by renaming a complete one over it, after its content is on disk. Permissions are changed on open
descriptors, never by name, and at no instant grant more than the old or the new ones.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Final

from resource_api.model.values.start_up import NamedTuple, regex
from resource_api.system import c_library
from resource_api.system.filesystem import in_place, trees
from resource_api.system.filesystem.directories import (
    DIRECTORY_FLAGS,
    OTHERS_WRITE,
    ROOT,
    Directories,
    canonical_path,
    opened,
    write_all,
)
from resource_api.system.filesystem.permissions import (
    DIRECTORY_MODE,
    Permissions,
    change_link_owner,
    change_permissions,
    gives_away,
    read_attributes,
    set_directory_permissions,
    set_new_permissions,
    write_attributes,
)
from resource_api.system.filesystem.reading import READ_FLAGS, opened_for_attributes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from resource_api.system.filesystem.directories import Directory
    from resource_api.system.filesystem.in_place import Content

#: Ignored by daemons that load a whole directory, by run-parts(8) and by dpkg(1); the name starts with a dot too.
TEMPORARY_SUFFIX: Final = ".resource-api~"
_NAME: Final = regex(rf"\..*\.([1-9][0-9]*)\.[0-9a-f]+{re.escape(TEMPORARY_SUFFIX)}", re.DOTALL)
#: Characters of the final name in a temporary one: with four bytes each, it stays below 255 bytes.
_PREFIX: Final = 40
_CREATE_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class TemporaryNames:
    """Names for one batch. The first name in a directory removes the temporary files of crashed batches there."""

    def __init__(self) -> None:
        """Choose the part that all names of this batch have in common: the process id and a random number."""
        self._token = f"{os.getpid()}.{os.urandom(4).hex()}"
        self._count = 0
        #: Paths of directories whose temporary files of crashed batches have been removed.
        self._swept: set[str] = set()

    def name(self, directory: Directory, name: str) -> str:
        """Return an unused temporary name for a new content of the file ``name``.

        The name contains the number of this process, so that a later process can detect its end and remove the file:
        the first call for a directory removes such files there.
        """
        if directory.path not in self._swept:
            self._swept.add(directory.path)
            sweep(directory)
        self._count += 1
        return f".{name[:_PREFIX]}.{self._token}{self._count:x}{TEMPORARY_SUFFIX}"


def discard(fd: int, name: str) -> None:
    """Remove a temporary file or directory from the open directory ``fd``, after an error or a crash.

    A temporary directory is one of ``make_directory``: it is empty, or has the new directory in it, which has the same
    name and is empty. A failure is ignored, as the next batch that uses ``fd`` tries again.
    """
    with suppress(OSError):
        try:
            os.unlink(name, dir_fd=fd)
        except IsADirectoryError:
            with opened(name, DIRECTORY_FLAGS, fd) as inner, suppress(FileNotFoundError):
                os.rmdir(name, dir_fd=inner)
            os.rmdir(name, dir_fd=fd)


def sweep(directory: Directory) -> None:
    """Remove the temporary files that killed processes have left in a directory.

    A file with another owner is removed only where no other user can add files: elsewhere, as in ``/tmp``, another user
    may have given it this kind of name.
    """
    with opened(".", DIRECTORY_FLAGS, directory.fd) as fd:
        private = not os.fstat(fd).st_mode & OTHERS_WRITE
        for name in [name for name in os.listdir(fd) if name.endswith(TEMPORARY_SUFFIX)]:
            match = _NAME.fullmatch(name)
            with suppress(FileNotFoundError):
                if match and not _is_alive(int(match[1])) and _is_own(os.lstat(name, dir_fd=fd), private=private):
                    discard(fd, name)


def _is_own(status: os.stat_result, *, private: bool) -> bool:
    """Return whether a temporary file can only be ours: of a kind that we make, and ours or in a ``private`` place."""
    kinds = {stat.S_IFREG, stat.S_IFLNK, stat.S_IFDIR}
    return (private or status.st_uid == os.geteuid()) and stat.S_IFMT(status.st_mode) in kinds


def _is_alive(pid: int) -> bool:
    """Return whether a process of any user exists: its temporary files must stay."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # a process of another user
        return True
    return True


_NOREPLACE: Final = 1
#: Errors of a system or filesystem that has no renameat2(2).
_UNSUPPORTED: Final = {errno.ENOSYS, errno.EINVAL}


def rename_new(source: int, name: str, directory: int, new_name: str) -> None:
    """Move ``name`` in the open directory ``source`` to ``new_name`` in the open ``directory``, replacing nothing.

    Raise ``OSError``: ``FileExistsError`` if the name exists. Some filesystems cannot refuse an existing name in the
    same call. There the name is looked up before the renaming, which then replaces a file, or for a directory an empty
    directory, that another process creates in between.
    """
    with suppress(AttributeError):  # a C library without renameat2(2)
        try:
            c_library.call(
                "renameat2", source, os.fsencode(name), directory, os.fsencode(new_name), _NOREPLACE, path=new_name
            )
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
        else:
            return
    try:
        os.lstat(new_name, dir_fd=directory)
    except FileNotFoundError:
        os.rename(name, new_name, src_dir_fd=source, dst_dir_fd=directory)
    else:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new_name)


#: Up to this number, changes are flushed one by one; a flush of the whole filesystem is faster for more.
FEW: Final = 8


class PendingFlush:
    """Changes that are not on disk yet. Every method raises ``OSError`` if the disk cannot store them."""

    def __init__(self, directories: Directories) -> None:
        """Start without changes; ``directories`` opens the directories whose entries have changed."""
        self._directories = directories
        #: The number of files since the last ``flush_files``.
        self._files = 0
        #: Device of a filesystem with unflushed files → a descriptor of a directory on it, by which it is flushed.
        self._filesystems: dict[int, int] = {}
        #: Paths of directories with changed entries.
        self._changed: dict[str, None] = {}

    def file(self, fd: int, directory: Directory) -> None:
        """Flush the open file ``fd`` in ``directory`` now; after the first ``FEW`` files, ``flush_files`` does so.

        For many files one flush of their whole filesystem is faster than one for each.
        """
        self._files += 1
        if self._files <= FEW:
            os.fsync(fd)
        elif directory.device not in self._filesystems:
            self._filesystems[directory.device] = os.open(".", DIRECTORY_FLAGS, dir_fd=directory.fd)

    def entries(self, path: str) -> None:
        """Record a change of an entry of the directory at ``path``."""
        self._changed[path] = None

    def flush_files(self) -> None:
        """Make the files durable that ``file`` has left to this: flush each of their filesystems once."""
        filesystems, self._filesystems, self._files = self._filesystems, {}, 0
        try:
            for fd in filesystems.values():
                _syncfs(fd)
        finally:
            for fd in filesystems.values():
                os.close(fd)

    def flush_directories(self) -> None:
        """Flush the changed directories, so that new names and removals are durable.

        For more than ``FEW`` directories each filesystem is flushed once instead, which is faster.
        """
        changed, self._changed = self._changed, {}
        flushed: set[int] = set()
        for path in changed:
            with suppress(FileNotFoundError, NotADirectoryError):  # removed meanwhile
                directory = self._directories.reach(path)
                if directory.device in flushed:
                    continue
                with opened(".", DIRECTORY_FLAGS, directory.fd) as fd:
                    if len(changed) > FEW:
                        _syncfs(fd)
                        flushed.add(directory.device)
                    else:
                        os.fsync(fd)


def _syncfs(fd: int) -> None:
    """Call syncfs(2), which reports write errors since ``fd`` was opened (Linux 5.8)."""
    c_library.call("syncfs", fd)


def describe_error(error: Exception, path: str) -> str:
    """Return the message for users about a failed operation on ``path``, without the number of the error.

    Messages begin with ``path`` anyway, so the error's own path is added only if it is another one. EPERM, which gives
    no reason, is explained where an attribute of chattr(1) is the cause.
    """
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    if (fault := _encryption_fault(error)) is not None:
        return fault
    text = error.strerror[:1].lower() + error.strerror[1:]
    name = error.filename
    whole = isinstance(name, str) and name.startswith("/")
    if error.errno == errno.EPERM and (locked := in_place.locked_path(name if whole else path, removed=True)):
        return f"'{locked}' is immutable, by an attribute of chattr(1)"
    return f"{text}: {name}" if whole and name != path else text


def _encryption_fault(error: OSError) -> str | None:
    """Return the fault of an encrypted connection as a text, or None for another error.

    The library's own text has numbers and lines of its source: ``[SSL: …] … (_ssl.c:1006)``.
    """
    if message := getattr(error, "verify_message", ""):
        return f"its certificate is not valid: {message}"
    if isinstance(reason := getattr(error, "reason", None), str) and hasattr(error, "library"):
        return f"TLS failed: {reason.lower().replace('_', ' ')}"
    return None


def replace(
    path: str, content: Content, *, mode: int | None = None, uid: int | None = None, gid: int | None = None
) -> None:
    """Replace one file as ``Batch.replace`` does; it is durable on return. Raise ``OSError``."""
    with Batch() as batch:
        batch.replace(path, content, mode=mode, uid=uid, gid=gid)


def write_output(path: str, content: bytes, mode: int = 0o600) -> None:
    """Write an output file that the user has chosen: a new file of the caller with exactly ``mode``, atomically.

    A pipe or terminal of the caller, such as /dev/stdout, gets the content instead. An existing link is followed unless
    another user could have put it there. Raise ``OSError`` with the path.
    """
    try:
        _write_output(os.path.abspath(path), content, mode)
    except OSError as error:
        if not os.path.isabs(error.filename or ""):  # the name in an open directory
            error.filename = path
        raise


def _write_output(target: str, content: bytes, mode: int) -> None:
    """Write the content to the pipe or terminal ``target`` of root or the caller, or replace the file.

    The opened pipe is compared with the examined one, as another user could exchange it in between. ``OSError`` may
    lack the path.
    """
    with suppress(FileNotFoundError):
        status = os.stat(target)
        if (stat.S_ISFIFO(status.st_mode) or stat.S_ISCHR(status.st_mode)) and status.st_uid in {*ROOT, os.geteuid()}:
            with opened(target, os.O_WRONLY | os.O_CLOEXEC | os.O_NOCTTY) as stream:
                if os.path.samestat(os.fstat(stream), status):
                    write_all(stream, content)
                    return
    with Directories() as directories:
        directory, name = directories.follow(canonical_path(target))
        target = directory.beneath(name)
    replace(target, content, mode=mode, uid=os.geteuid(), gid=os.getegid())


def write_new(path: str, content: bytes, mode: int | None = None) -> None:
    """Write a new file durably, such as a template that the user asked for. An existing file is never replaced.

    ``mode``: its mode exactly; None: 0666 without the bits of the umask. Raise ``OSError``: ``FileExistsError`` for an
    existing file.
    """
    with Directories() as directories:
        directory, name = directories.place(canonical_path(os.path.abspath(path)))
        with opened(name, _CREATE_FLAGS, directory.fd, 0o666 if mode is None else mode) as file:
            try:
                if mode is not None:
                    os.fchmod(file, mode)
                write_all(file, content)
                os.fsync(file)
            except BaseException:
                os.unlink(name, dir_fd=directory.fd)
                raise
        with opened(".", DIRECTORY_FLAGS, directory.fd) as parent:
            os.fsync(parent)


class _Staged(NamedTuple):
    """A complete file under a temporary name, to be renamed by ``flush``, or a content that overwrites a file."""

    path: str
    directory: str
    temporary: str
    name: str
    old: os.stat_result | None
    should: Permissions
    #: The content to overwrite the old file with, in a directory without write access; then ``temporary`` is "".
    content: bytes | None = None


class Batch(AbstractContextManager["Batch"]):
    """Changes that become durable together: ``with Batch() as batch: batch.replace(...)``.

    Replaced files appear under their names in ``flush``, all other changes at once. Everything is durable after
    ``flush``, which the end of the ``with`` block calls; an exception in the block discards files that have not
    appeared. A method that raises ``OSError`` has changed nothing.
    """

    def __init__(self) -> None:
        """Start without changes: no file is to be renamed, and nothing to be flushed."""
        self.directories: Final = Directories()
        self._staged: list[_Staged] = []
        self._pending = PendingFlush(self.directories)
        self._temporary_names = TemporaryNames()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Flush, and raise the first failure; after an exception, discard the replacements of files.

        Replacements appear only when they are flushed. All other changes of the batch have been made already, so they
        are made durable even after an exception.
        """
        try:
            if kind is not None:
                self._discard(self._staged)
                self._staged = []
                with suppress(OSError):
                    self.flush()
            elif failed := self.flush():
                raise failed[0][1]
        finally:
            self.directories.forget()

    def can_others_replace(self, path: str) -> bool:
        """Return whether other users can put another file to ``path``. Raise ``OSError``."""
        return not self.directories.place(path)[0].trusted

    def replace(
        self,
        path: str,
        content: Content,
        *,
        mode: int | None = None,
        uid: int | None = None,
        gid: int | None = None,
        check: Callable[[str], object] | None = None,
    ) -> None:
        """Create the file at ``path`` or replace it; readers see the whole old or the whole new content.

        ``check`` is called with the path of the complete new file, and may refuse it by raising.

        A symbolic link at ``path`` is replaced itself, other hard links keep the old content. Mode, owner and group of
        None are those of the old file (without set-id bits, which were granted to the old content); a new file gets
        0644 and the caller's. ACL and extended attributes are kept, and ``mode`` becomes the mode exactly; they are
        removed if the owner changes, or if ``mode`` and ``uid`` are set. The same holds for the ACL that a new file
        gets from the default ACL of its directory, which must belong to root, the caller or ``uid``.
        A file that cannot be replaced, such as a mount point, is overwritten in place, see ``in_place``.
        Raise ``OSError``: EISDIR or EEXIST unless it is a regular file or a link.
        """
        directory, name = self.directories.place(path)
        old = _replaceable(directory, name, path)
        should = Permissions(mode, uid, gid)
        temporary = self._temporary_names.name(directory, name)
        try:
            fd = os.open(temporary, _CREATE_FLAGS, 0o600, dir_fd=directory.fd)
        except OSError as error:
            if error.errno not in in_place.UNWRITABLE or not in_place.can_overwrite(directory, name, old):
                raise
            whole = in_place.checked_content(content, check)
            self._staged.append(_Staged(path, directory.path, "", name=name, old=old, should=should, content=whole))
            return
        try:
            try:
                for part in (content,) if isinstance(content, bytes) else content:
                    write_all(fd, part)
                set_new_permissions(fd, old, should, directory.fd, name)
                self._pending.file(fd, directory)
            finally:
                os.close(fd)
            if check is not None:
                check(directory.beneath(temporary))
        except BaseException:
            discard(directory.fd, temporary)
            raise
        self._staged.append(_Staged(path, directory.path, temporary, name=name, old=old, should=should))

    def make_directory(
        self, path: str, *, mode: int | None = None, uid: int | None = None, gid: int | None = None
    ) -> None:
        """Create a directory. Without ``mode`` it is 0755, with set-group-ID if the parent passes that on.

        Where other users can write, it gets its permissions in a private directory and is then moved to its name.
        Otherwise another user could exchange it for another directory, which would get the permissions. The parent's
        default ACL is inherited as by ``replace``. Raise ``OSError``: ``FileExistsError`` if the name exists.
        """
        directory, name = self.directories.place(path)
        should = Permissions(mode, uid, gid)
        if directory.trusted:
            self._create_directory(directory, directory.fd, name, should)
        else:
            temporary = self._temporary_names.name(directory, name)  # also removes leftovers of a crash
            with suppress(FileNotFoundError):
                os.lstat(name, dir_fd=directory.fd)
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            self._create_directory_aside(directory, name, temporary, should)
        self._pending.entries(directory.path)

    def _create_directory_aside(self, directory: Directory, name: str, temporary: str, should: Permissions) -> None:
        """Create a directory with its final rights in a private one, then move it to its name. Raise ``OSError``.

        Other users, who can write to ``directory``, cannot exchange it before it has its rights.
        """
        os.mkdir(temporary, 0o700, dir_fd=directory.fd)
        try:
            with opened(temporary, DIRECTORY_FLAGS, directory.fd) as aside:
                status = os.fstat(aside)
                if status.st_uid != os.geteuid() or status.st_mode & 0o077:
                    raise PermissionError(errno.EPERM, "another user has put another directory there", name)
                self._create_directory(directory, aside, temporary, should)
                rename_new(aside, temporary, directory.fd, name)
        finally:
            discard(directory.fd, temporary)

    def _create_directory(self, directory: Directory, parent: int, name: str, should: Permissions) -> None:
        """Create a directory with its permissions in the open directory ``parent``, in which no other user can write.

        ``directory`` is its final place, whose default ACL and group count. After an error it is removed again.
        """
        # Only for its owner until the permissions are set. If none are declared, it has the usual mode at once: after a
        # crash here no later run would correct it.
        os.mkdir(name, DIRECTORY_MODE if should == Permissions() else 0o700, dir_fd=parent)
        try:
            with opened(name, DIRECTORY_FLAGS, parent) as fd:
                set_directory_permissions(fd, should, directory.fd)
                self._pending.file(fd, directory)
        except BaseException:
            with suppress(OSError):
                os.rmdir(name, dir_fd=parent)
            raise

    def make_link(self, path: str, target: str, *, uid: int | None = None, gid: int | None = None) -> None:
        """Create a symbolic link, or replace a file or link by one, atomically. Raise as ``replace`` does.

        The link is made under a temporary name and renamed, so that a reader never misses the file.
        """
        directory, name = self.directories.place(path)
        _replaceable(directory, name, path)
        temporary = self._temporary_names.name(directory, name)
        os.symlink(target, temporary, dir_fd=directory.fd)
        try:
            if (uid, gid) != (None, None):
                change_link_owner(directory.fd, temporary, Permissions(None, uid, gid))
            with _naming_a_mount_point(path):
                os.rename(temporary, name, src_dir_fd=directory.fd, dst_dir_fd=directory.fd)
        except BaseException:
            discard(directory.fd, temporary)
            raise
        self._pending.entries(directory.path)
        # An open directory may have been reached by the link that was replaced.
        self.directories.forget()

    def set_mode_owner(
        self,
        path: str,
        *,
        mode: int | None = None,
        uid: int | None = None,
        gid: int | None = None,
        former_uid: int | None = None,
    ) -> None:
        """Change mode, owner and group of a file or directory, or the owner of a link; None keeps the present value.

        ACLs, users' attributes and file capabilities are removed as by ``replace``. In a directory that other users can
        write to, they may have linked or moved another file to the path, to get rights for it. There a file with other
        hard links, and rights that ``gives_away`` refuses, raise EPERM. EAGAIN is raised if the file is replaced
        meanwhile, or does not belong to ``former_uid``, unless that is None. Raise other ``OSError`` too.
        """
        directory, name = self.directories.place(path)
        status = os.lstat(name, dir_fd=directory.fd)
        if former_uid not in {None, status.st_uid}:
            raise OSError(errno.EAGAIN, "it has been replaced meanwhile", path)
        if stat.S_ISLNK(status.st_mode):
            change_link_owner(directory.fd, name, Permissions(None, uid, gid))
            self._pending.entries(directory.path)
            return
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            raise OSError(errno.EINVAL, "neither a file nor a directory", path)
        with opened(name, READ_FLAGS, directory.fd) as fd:
            present = os.fstat(fd)
            if not os.path.samestat(status, present):
                raise OSError(errno.EAGAIN, "it has been replaced meanwhile", path)
            should = Permissions(mode, uid, gid)
            if not directory.trusted:
                _check_not_planted(present, should, path)
            change_permissions(fd, present, should, clear=should.drop_attributes(present.st_uid))
            self._pending.file(fd, directory)

    def edit_attributes(
        self, path: str, change: Callable[[os.stat_result, Mapping[str, bytes]], Mapping[str, bytes | None]]
    ) -> None:
        """Change extended attributes of a file of any kind but a link, such as its ACL.

        ``change`` is called with the status and the present attributes, and returns new values; None removes one. In a
        directory that other users can write to, they may have moved a file there to get access to it: EPERM is raised
        there for a file of root or the caller, and for one with other hard links. Raise ``OSError``, also ELOOP for a
        symbolic link and ENOTSUP if the filesystem does not support the attributes.
        """
        directory, name = self.directories.place(path)
        with opened_for_attributes(directory, name, path) as fd:
            status = os.fstat(fd)
            new = change(status, read_attributes(fd))
            if new and not directory.trusted:
                _check_not_moved(status, path)
            try:
                write_attributes(fd, new)
            except OSError as error:
                error.filename = path
                raise
            if new:
                self._flush_attributes(fd, status, directory)

    def _flush_attributes(self, fd: int, status: os.stat_result, directory: Directory) -> None:
        """Make extended attributes durable: flush the file, or its directory if the file cannot be opened.

        ``fd`` cannot be flushed, as it only names the file (O_PATH), so the file is opened again. Devices and files
        that the caller may not read are not opened.
        """
        with suppress(PermissionError):  # of a file that the caller may not read
            if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
                with opened(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC) as file:
                    self._pending.file(file, directory)
                return
        self._pending.entries(directory.path)

    def remove(self, path: str, *, recursive: bool = False) -> None:
        """Remove the file, link or directory at ``path``; a directory that is not empty only if ``recursive``.

        Temporary files of killed processes do not count as contents. Raise ``OSError``: EPERM for
        ``PROTECTED_DIRECTORIES``, EBUSY for a mount point or a directory above one.
        """
        directory, name = self.directories.place(path)
        status = os.lstat(name, dir_fd=directory.fd)
        trees.check_removable(directory.beneath(name))
        if not stat.S_ISDIR(status.st_mode):
            with _naming_a_mount_point(path):
                os.unlink(name, dir_fd=directory.fd)
        elif recursive:
            trees.remove(directory, name)
        else:
            sweep(self.directories.reach(path))
            os.rmdir(name, dir_fd=directory.fd)
        self._pending.entries(directory.path)
        # A link or directory may be on the path of an open one.
        if not stat.S_ISREG(status.st_mode):
            self.directories.forget()

    def flush(self) -> list[tuple[str, OSError]]:
        """Rename the replaced files into place and make all changes durable.

        The contents are stored on the disk before any renaming, so that a crash never leaves an empty file under the
        name. Return path and error of each file that could not be renamed. Raise ``OSError`` if the disk cannot store
        the contents: then no replaced file has appeared.
        """
        ready, self._staged = self._staged, []
        try:
            self._pending.flush_files()
        except OSError:
            self._discard(ready)
            raise
        failed = []
        for staged in ready:
            try:
                self._appear(staged)
            except OSError as error:
                self._discard([staged])
                # The call had names in open directories.
                error.filename, error.filename2 = staged.path, None
                failed.append((staged.path, error))
        self._pending.flush_directories()
        return failed

    def _appear(self, staged: _Staged) -> None:
        """Rename a complete file to its name, or overwrite the old file where that is impossible. Raise ``OSError``.

        ``replace`` has left a content instead of a temporary file if the directory cannot be written to. That the old
        file is a mount point is detected only here, by the failure of the renaming.
        """
        directory = self.directories.reach(staged.directory)
        content = staged.content
        if content is None:
            try:
                os.rename(staged.temporary, staged.name, src_dir_fd=directory.fd, dst_dir_fd=directory.fd)
            except OSError as error:
                if error.errno != errno.EBUSY or staged.old is None:
                    raise
                # A mount point: its file gets the content of the temporary one.
                with os.fdopen(os.open(staged.temporary, READ_FLAGS, dir_fd=directory.fd), "rb") as file:
                    content = file.read()
            else:
                self._pending.entries(staged.directory)
                return
        if staged.old is not None:
            in_place.overwrite(directory, staged.name, staged.old, content, staged.should)
        self._discard([staged])

    def _discard(self, files: Iterable[_Staged]) -> None:
        """Remove the temporary files of replacements that do not take place; a failure leaves them to a later batch."""
        for staged in files:
            if not staged.temporary:
                continue
            with suppress(OSError):
                discard(self.directories.reach(staged.directory).fd, staged.temporary)


def _check_not_planted(status: os.stat_result, should: Permissions, path: str) -> None:
    """Raise ``PermissionError`` if other users may have put another file at ``path`` to get permissions for it.

    In a directory that they can write to, they can link or move a file of root there, to read or change it with the new
    permissions. ``status``: that of the file at ``path``; ``should``: its new permissions.
    """
    reason = ""
    if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
        reason = "it has other hard links, and other users can write to its directory"
    elif gives_away(should, status):
        kind, remedy = ("directory", "remove it") if stat.S_ISDIR(status.st_mode) else ("file", "declare its content")
        reason = (
            f"other users can write to a directory on its path and may have moved another {kind} here, so its rights "
            f"are not given to others; {remedy} (a new {kind} gets them), change its rights yourself, or let only root "
            "write to the directories on its path"
        )
    if reason:
        raise PermissionError(errno.EPERM, reason, path)


def _check_not_moved(status: os.stat_result, path: str) -> None:
    """Raise ``PermissionError`` if other users may have put the file at ``path`` to get access by its new attributes.

    They may have moved a file of root or the caller there, which they cannot read, or have given it a further link.
    """
    if (stat.S_ISREG(status.st_mode) and status.st_nlink > 1) or status.st_uid in {*ROOT, os.geteuid()}:
        reason = "other users can write to a directory on its path and may have moved another file here"
        raise PermissionError(errno.EPERM, reason, path)


@contextmanager
def _naming_a_mount_point(path: str) -> Iterator[None]:
    """Name the whole path in an ``OSError``, and explain EBUSY, as "device or resource busy" gives no reason."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.EBUSY:
            error.filename, error.filename2 = path, None
            raise
        raise OSError(errno.EBUSY, "it is a mount point, and can be neither removed nor replaced", path) from None


def _replaceable(directory: Directory, name: str, path: str) -> os.stat_result | None:
    """Return the status of the regular file to replace, whose permissions may be kept, or None for a link or no file.

    Raise ``OSError`` for another kind, which is not replaced.
    """
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
