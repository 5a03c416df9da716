"""Directories held open, reached without following a link that somebody else could have put there.

A path is a chain of names, and whoever may write to a directory on the way decides where the rest of it leads. So a
symbolic link is followed only in a directory that nobody but root and the caller can write to; what comes after is
done relative to the open directory, which no swap can move. What is done in it does not enter here. Linux only.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, Final, Self

from resource_api.model.values._namedtuple import NamedTuple

if TYPE_CHECKING:
    from types import TracebackType

#: So many are held open at most, by the rule of thumb that a process may open 1024 files.
HELD: Final = 128
#: As in the kernel (path_resolution(7)).
LINKS: Final = 40

#: How a directory is opened to be listed or flushed, without following a link.
LISTING: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PATH: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


class Directory(NamedTuple):
    """An open directory: ``fd`` is a place for ``dir_fd=``, ``path`` has no link in it, ``device`` is its filesystem's.

    ``trusted``: only root and the caller can write to it.
    """

    fd: int
    path: str
    device: int
    trusted: bool

    def beneath(self, name: str) -> str:
        """Give the path of a name in it."""
        return f"{self.path.rstrip('/')}/{name}"


class Directories:
    """Opens directories by path, each once; a context manager that closes them."""

    def __init__(self) -> None:
        """Hold nothing yet."""
        self._known: dict[str, Directory] = {}

    def __enter__(self) -> Self:
        """Give itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Close what is held."""
        self.forget()

    def reach(self, path: str) -> Directory:
        """Give the directory at an absolute ``path``; good until the next call of ``reach`` or ``forget``.

        Raises ``OSError`` with the path: ELOOP for a link that others could have put there, else what the system says.
        """
        found = self._known.get(path)
        if found is None:
            if len(self._known) >= HELD:
                self.forget()
            try:
                found = self._known[path] = self._walk(path)
            except OSError as error:
                error.filename = path
                raise
        return found

    def place(self, path: str) -> tuple[Directory, str]:
        """Give the directory that ``path`` is in, and its name there; ``.`` for the root."""
        parent, _, name = path.rpartition("/")
        return self.reach(parent), name or "."

    def target(self, path: str) -> str:
        """Give the text of the symbolic link at ``path``."""
        directory, name = self.place(path)
        return os.readlink(name, dir_fd=directory.fd)

    def follow(self, path: str) -> tuple[Directory, str]:
        """Give the place that ``path`` leads to, links at its end followed where they can be trusted."""
        for _ in range(LINKS):
            directory, name = self.place(path)
            try:
                target = os.readlink(name, dir_fd=directory.fd)
            except OSError as error:
                if error.errno in {errno.EINVAL, errno.ENOENT}:
                    return directory, name
                raise
            if not directory.trusted:
                break
            path = target if target.startswith("/") else directory.beneath(target)
        raise _untrusted(path)

    def forget(self) -> None:
        """Close everything: names may mean something else from here on."""
        for fd in {directory.fd for directory in self._known.values()}:
            os.close(fd)
        self._known.clear()

    def _walk(self, path: str) -> Directory:
        here, links = self._root(), 0
        todo = path.split("/")[::-1]
        while todo:
            name = todo.pop()
            if name in {"", "."}:
                continue
            if name == "..":
                todo += here.path.rpartition("/")[0].split("/")[::-1]
                here = self._root()
                continue
            link = None
            try:
                here = self._enter(here, name)
            except NotADirectoryError:
                link = _link(here, name)
            if link is not None:
                links += 1
                if links > LINKS or not here.trusted:
                    raise _untrusted(here.beneath(name))
                todo += link.split("/")[::-1]
                here = self._root() if link.startswith("/") else here
        return here

    def _root(self) -> Directory:
        root = self._known.get("/")
        if root is None:
            root = self._known["/"] = _held(os.open("/", _PATH), "/")
        return root

    def _enter(self, here: Directory, name: str) -> Directory:
        path = here.beneath(name)
        found = self._known.get(path)
        if found is None or found.path != path:
            found = self._known[path] = _held(os.open(name, _PATH, dir_fd=here.fd), path)
        return found


def _held(fd: int, path: str) -> Directory:
    seen = os.fstat(fd)
    trusted = not seen.st_mode & _OTHERS_WRITE and seen.st_uid in {0, os.geteuid()}
    return Directory(fd, path, seen.st_dev, trusted)


def _link(here: Directory, name: str) -> str:
    """Give the text of a link; what is none, and no directory either, ends the way."""
    try:
        return os.readlink(name, dir_fd=here.fd)
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None
        raise


def _untrusted(path: str) -> OSError:
    return OSError(errno.ELOOP, "a symbolic link on the way, where others could have put it, is not followed", path)
