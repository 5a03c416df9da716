"""Open directories by path without following a symbolic link that another user could have put there.

A user who can write to a directory on a path can make the rest of the path lead elsewhere. Therefore a link is
followed only in a directory that only root and the caller can write to. Later operations are relative to the open
directory (``dir_fd``), which renaming cannot redirect.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Final

from resource_api.model.values.errors import UsageError
from resource_api.model.values.start_up import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: The user ids of root's files: inside another user's overlay they belong to an unknown user instead.
ROOT: Final = {0}
#: Most directories held open; a process may usually open 1024 files.
MAX_OPEN: Final = 128
#: Most links followed in one path, as in the kernel (path_resolution(7)).
MAX_LINKS: Final = 40

#: Flags to open a directory for listing or fsync(2) without following a link.
DIRECTORY_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PATH: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: The bits of a mode that allow other users than the owner to write.
OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


def everybody_can_read(path: str) -> bool:
    """Return whether everybody can read a file, to warn of secrets in it: its mode and those of all directories above.

    False if a mode cannot be read.
    """
    try:
        path = os.path.realpath(path)
        if not os.stat(path).st_mode & stat.S_IROTH:
            return False
        while path != "/":
            path = os.path.dirname(path)
            if not os.stat(path).st_mode & stat.S_IXOTH:
                return False
    except OSError:
        return False
    return True


@contextmanager
def opened(name: str, flags: int, directory: int | None = None, mode: int = 0o777) -> Iterator[int]:
    """Open ``name``, relative to ``directory`` unless None; yield its descriptor, and close it. Raise ``OSError``."""
    fd = os.open(name, flags, mode, dir_fd=directory)
    try:
        yield fd
    finally:
        os.close(fd)


def write_all(fd: int, content: bytes) -> None:
    """Write all of ``content`` to a descriptor; one write(2) may take less. Raise ``OSError``."""
    offset = os.write(fd, content)
    while offset < len(content):
        offset += os.write(fd, memoryview(content)[offset:])


@contextmanager
def in_memory(content: bytes) -> Iterator[str]:
    """Yield the path of a file in memory with ``content``, for a program that reads its input from a file by path.

    Only this user can read it, and a kill leaves no temporary file behind.
    """
    with open(os.memfd_create("content"), "wb", buffering=0) as file:
        os.fchmod(file.fileno(), 0o600)
        write_all(file.fileno(), content)
        yield f"/proc/{os.getpid()}/fd/{file.fileno()}"


def canonical_path(path: str) -> str:
    """Return the absolute ``path`` without empty parts and ``.``; a ``..`` is kept."""
    return "/" + "/".join(part for part in path.split("/") if part not in {"", "."})


def make_directory(path: str, mode: int = 0o700) -> None:
    """Make a missing directory and its parents, without following links of other users. Raise ``OSError``."""
    with Directories() as directories:
        directories.make(canonical_path(os.path.abspath(path)), mode)


class Directory(NamedTuple):
    """An open directory.

    ``fd`` is for ``dir_fd=``; ``path`` contains no link; ``device`` is the number of its filesystem; ``trusted`` means
    that only root and the caller can write to it, and that others can rename no directory on its path. ``sticky`` means
    that others can write to it, but cannot rename files of root or the caller.
    """

    fd: int
    path: str
    device: int
    trusted: bool
    sticky: bool

    def beneath(self, name: str) -> str:
        """Return the path of ``name`` in it."""
        return f"{self.path.rstrip('/')}/{name}"


class Directories(AbstractContextManager["Directories"]):
    """Open directories by absolute path, each once; a context manager that closes them."""

    def __init__(self) -> None:
        """Start without an open directory."""
        #: By the path that was asked for, which may contain links: two paths may have one directory.
        self._open: dict[str, Directory] = {}

    def __exit__(self, *_: object) -> None:
        """Close all of them."""
        self.forget()

    def reach(self, path: str) -> Directory:
        """Return the directory at an absolute ``path``; valid until the next call of ``reach`` or ``forget``.

        It stays open, so that several paths in it need one walk, but may be closed when there are too many. Raise
        ``OSError`` with the path: ELOOP for a link that another user could have put there.
        """
        directory = self._open.get(path)
        if directory is None:
            if len(self._open) >= MAX_OPEN:
                self.forget()
            try:
                directory = self._open[path] = self._walk(path)
            except OSError as error:
                error.filename = path
                raise
        return directory

    def make(self, path: str, mode: int = 0o700) -> Directory:
        """Return the directory at an absolute path; it and its parents are made with ``mode`` if they are missing.

        Another process may make one at the same moment, which is in order. Raise ``OSError`` as ``reach`` does.
        """
        try:
            return self.reach(path)
        except FileNotFoundError:
            parent, _, name = path.rstrip("/").rpartition("/")
            above = self.make(parent, mode)
            try:
                with suppress(FileExistsError):
                    os.mkdir(name, mode, dir_fd=above.fd)
            except OSError as error:
                error.filename = path
                raise
            return self.reach(path)

    def place(self, path: str) -> tuple[Directory, str]:
        """Return the parent directory of ``path``, and the name in it; ``.`` for the root."""
        parent, _, name = path.rpartition("/")
        return self.reach(parent), name or "."

    def target(self, path: str) -> str:
        """Return the text of the symbolic link at ``path``. Raise ``OSError``."""
        directory, name = self.place(path)
        return os.readlink(name, dir_fd=directory.fd)

    def follow(self, path: str) -> tuple[Directory, str]:
        """Return the parent directory and the name of the file at ``path``, after following links at its end.

        It is for functions that read or edit the file behind a link instead of replacing the link. No file need exist
        under the name. Raise ``OSError`` as ``reach`` does, also for a last link of another user.
        """
        for _ in range(MAX_LINKS):
            directory, name = self.place(path)
            try:
                target = os.readlink(name, dir_fd=directory.fd)
            except OSError as error:
                if error.errno in {errno.EINVAL, errno.ENOENT}:
                    return directory, name
                error.filename = path
                raise
            if not directory.trusted or not _is_own_link(directory, name):
                raise _untrusted(path)
            path = target if target.startswith("/") else directory.beneath(target)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)

    def forget(self) -> None:
        """Close all directories; call this after a link or directory was changed, by which a path may lead elsewhere.

        An open directory would otherwise still stand for the path.
        """
        for fd in {directory.fd for directory in self._open.values()}:
            os.close(fd)
        self._open.clear()

    def _walk(self, path: str) -> Directory:
        """Return the directory at an absolute path, entered component by component without following links blindly.

        A link is followed only if no other user could have made it; otherwise raise ``OSError``. For ``..`` the path of
        the parent is walked anew from the root: that of the open directory may be another one, after a move.
        """
        here, links = self._root(), 0
        todo = path.split("/")[::-1]  # the next name is the last one
        while todo:
            name = todo.pop()
            if name in {"", "."}:
                continue
            if name == "..":
                todo += here.path.rpartition("/")[0].split("/")[::-1]
                here = self._root()
                continue
            try:
                here = self._enter(here, name)
            except NotADirectoryError:
                link = _link(here, name)
            else:
                continue
            links += 1
            if not here.trusted or not _is_own_link(here, name):
                raise _untrusted(here.beneath(name))
            if links > MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            todo += link.split("/")[::-1]
            here = self._root() if link.startswith("/") else here
        return here

    def _root(self) -> Directory:
        """Return the root directory, at which a walk begins, and again behind an absolute link; opened once."""
        root = self._open.get("/")
        if root is None:
            root = self._open["/"] = _directory(os.open("/", _PATH), "/", None)
        return root

    def _enter(self, here: Directory, name: str) -> Directory:
        """Return the directory ``name`` in the open ``here``. Raise ``NotADirectoryError`` for a link (``_walk``)."""
        path = here.beneath(name)
        directory = self._open.get(path)
        # Another path: ``reach`` has stored it under this one after following a link, which ``_walk`` checks again.
        if directory is None or directory.path != path:
            directory = self._open[path] = _directory(os.open(name, _PATH, dir_fd=here.fd), path, here)
        return directory


def _directory(fd: int, path: str, parent: Directory | None) -> Directory:
    """Return an open directory with the answer whether other users can exchange its entries, see ``Directory``.

    By this answer later steps decide whether a link in it may be followed. It depends on owner and mode of the
    directory, and on its ``parent``, None for the root.
    """
    status = os.fstat(fd)
    is_ours = status.st_uid in {*ROOT, os.geteuid()}
    trusted = is_ours and not status.st_mode & OTHERS_WRITE
    if trusted and parent is not None and not parent.trusted:
        # In a trusted user's sticky directory such as /tmp, other users cannot rename trusted users' files.
        trusted = parent.sticky
    # It protects entries only if others cannot rename the directory itself.
    sticky = is_ours and bool(status.st_mode & stat.S_ISVTX) and (parent is None or parent.trusted or parent.sticky)
    return Directory(fd, path, status.st_dev, trusted, sticky)


def _link(here: Directory, name: str) -> str:
    """Return the target of a link on the way to a directory. Raise ``NotADirectoryError`` for another file."""
    try:
        return os.readlink(name, dir_fd=here.fd)
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None
        raise


def _is_own_link(here: Directory, name: str) -> bool:
    """Return whether a link belongs to root or the caller: the directory may have been another user's before."""
    return os.lstat(name, dir_fd=here.fd).st_uid in {*ROOT, os.geteuid()}


def _untrusted(path: str) -> OSError:
    return OSError(
        errno.ELOOP, "a symbolic link on the path is not followed: other users can write to its directory", path
    )


def state_directory(environment: Mapping[str, str]) -> str:
    """Return the path of the directory for the default state and files beside it; it need not exist.

    A relative ``XDG_STATE_HOME`` is ignored (XDG Base Directory Specification 0.8). Raise ``UsageError`` when there is
    no home directory.
    """
    if os.geteuid() == 0:
        return "/var/lib/resource-api"
    home = environment.get("XDG_STATE_HOME", "")
    if not home.startswith("/"):
        home = os.path.expanduser("~/.local/state")
    if not home.startswith("/"):
        raise UsageError("there is no home directory for the state; name a place with --state sqlite:PATH")
    return f"{home}/resource-api"
