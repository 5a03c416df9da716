"""Check that only trusted users can change the code and the programs that are executed. Linux only.

Trusted with code are root, the user of this process, and the user who called ``sudo`` (``SUDO_UID``). A path is checked
from the root downwards: no other user can replace a name in a directory that only trusted users can write to, so its
next name still is what has been checked. A file is opened before its own status is read. What the code does must not
enter here.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import UntrustedCode
from resource_api.system.filesystem.directories import MAX_LINKS, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW


class _Place(NamedTuple):
    """Where a path leads: without links, and why others can change what it leads to, empty when they cannot."""

    path: str
    why: str


class CodeTrust:
    """Opens files of code, and refuses those that others can change. Each directory is looked at once."""

    def __init__(
        self,
        exempt: Iterable[str | os.PathLike[str]] = (),
        ways: Mapping[str, str] | None = None,
        users: Iterable[int] | None = None,
    ) -> None:
        """Accept everything beneath the ``exempt`` directories.

        ``ways``: a directory without links in its path → the path with links by which it was named. ``users``: who is
        trusted; by default those who are trusted with code.
        """
        self._exempt = frozenset(os.path.realpath(directory).rstrip("/") + "/" for directory in exempt)
        self._ways = dict(ways or {})
        self._users = {*ROOT, os.geteuid(), *_sudo_user()} if users is None else set(users)
        #: Path of a directory or link → its status.
        self._seen: dict[str, os.stat_result] = {}
        #: Path → why others can change it; empty: they cannot. For a directory as the one that holds a file, and as
        #: one above it, which may be sticky.
        self._judged: dict[tuple[str, bool], str] = {}

    def open(self, path: str) -> int:
        """Open a file of code for reading and return its descriptor, which the caller closes.

        Raise ``UntrustedCode`` with the path, owner and mode of what others can change, and ``OSError``.
        """
        place = self._follow(path, holds_code=True)
        descriptor = os.open(place.path, _FLAGS)
        why = "it cannot be checked"
        try:
            why = place.why or self._why_file(place.path, os.fstat(descriptor)) or self._why_way(place.path)
        finally:
            if why:
                os.close(descriptor)
        if why:
            msg = f"{path}: is not executed, because others could have changed it: {why}; {_ADVICE}"
            raise UntrustedCode(msg)
        return descriptor

    def read(self, path: str) -> tuple[bytes, os.stat_result]:
        """Return the bytes of a file of code, and its status. Raise as ``open`` does."""
        with os.fdopen(self.open(path), "rb") as file:
            return file.read(), os.fstat(file.fileno())

    def who_can_change(self, path: str) -> str:
        """Return why others can change a file or tree of data; empty when they cannot, or it is not there any more."""
        try:
            why = self.why_not_tree(path, holds_code=False)
        except OSError:
            return ""
        return f"{why}; {_ADVICE}" if why else ""

    def why_not(self, path: str, *, holds_code: bool = True) -> str:
        """Return why others can change a program, or a file of data unless ``holds_code``; empty when they cannot.

        Raise ``OSError`` when it cannot be found.
        """
        place = self._follow(path, holds_code=holds_code)
        return place.why or self._why_file(place.path, os.lstat(place.path))

    def why_not_place(self, directory: str) -> str:
        """Return why others can add something to a directory, or make it; empty when they cannot. Raise ``OSError``."""
        while not os.path.lexists(directory or "."):
            directory = os.path.dirname(directory)
        return self.why_not(directory or ".", holds_code=False)

    def why_not_tree(self, path: str, *, holds_code: bool = True) -> str:
        """Return why others can change a file or a directory with all that is in it; empty when they cannot.

        A link counts with what it leads to. Where nothing is at ``path``, others must not be able to put it there. What
        the system itself has installed is not looked at. ``holds_code``: the directory that ``path`` is in must not be
        sticky. Raise ``OSError``: EFBIG for a tree of a million names.
        """
        if not os.path.lexists(path):
            return self.why_not_place(os.path.dirname(path))
        todo, visited = [path], set[str]()
        while todo:
            with suppress(FileNotFoundError):  # a link that leads nowhere
                place = self._follow(todo.pop(), holds_code=holds_code or bool(visited))
                found = os.lstat(place.path)
                if place.path in visited or self._is_exempt(place.path):
                    continue
                if why := place.why or self._why_file(place.path, found):
                    return why
                visited.add(place.path)
                if stat.S_ISDIR(found.st_mode) and not f"{place.path}/".startswith(_INSTALLED):
                    todo += [f"{place.path.rstrip('/')}/{name}" for name in os.listdir(place.path)]
            if len(visited) + len(todo) > _MOST_NAMES:
                raise OSError(errno.EFBIG, f"more than {_MOST_NAMES} files", path)
        return ""

    def _follow(self, path: str, *, holds_code: bool = False) -> _Place:
        """Follow ``path`` from the root and check every directory and link on the way, but not what is at its end.

        ``holds_code``: the last directory holds the file itself, and must not be sticky.
        """
        here, why, links = "/", "", 0
        todo = _names(path if path.startswith("/") else f"{os.getcwd()}/{path}")
        while todo:
            name = todo.pop()
            if name == "..":
                here = here.rpartition("/")[0] or "/"
                continue
            why = why or self._why_directory(here, holds_code=holds_code and not todo)
            at = f"{here.rstrip('/')}/{name}"
            if not stat.S_ISLNK(self._status(at, last=not todo).st_mode):
                here = at
                continue
            why = why or self._why_link(at)
            links += 1
            if links > MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            target = os.readlink(at)
            here = "/" if target.startswith("/") else here
            todo += _names(target)
        return _Place(here, "" if self._is_exempt(here) else why)

    def _why_way(self, path: str) -> str:
        """Return why others can change the way by which the module directory above ``path`` was named."""
        for directory, named in list(self._ways.items()):
            if not path.startswith(f"{directory}/"):
                continue
            place = self._follow(named)
            if directory not in {place.path, place.path.rpartition("/")[0]}:
                return f"'{named}' led to '{directory}', and now leads to '{place.path}'"
            if place.why:
                return place.why
            del self._ways[directory]
        return ""

    def _is_exempt(self, path: str) -> bool:
        return any(f"{path}/".startswith(each) for each in self._exempt)

    def _status(self, path: str, *, last: bool = False) -> os.stat_result:
        """Return the status of a directory or link; that of the ``last`` name of a path may be a file, and is new."""
        if (found := self._seen.get(path)) is None:
            found = os.lstat(path)
            if not last:
                self._seen[path] = found
        return found

    def _why_directory(self, path: str, *, holds_code: bool) -> str:
        """Return why others can change what a directory holds.

        In a sticky directory they cannot rename or remove what is ours. But they may add to it, also a second link to
        a file of ours, so the directory that ``holds_code`` must not be one.
        """
        key = path, holds_code
        if key not in self._judged:
            found = self._status(path)
            judge = self._why_owner if found.st_mode & stat.S_ISVTX and not holds_code else self._why
            self._judged[key] = "" if self._is_exempt(path) else judge(path, found)
        return self._judged[key]

    def _why_link(self, path: str) -> str:
        return "" if self._is_exempt(path) else self._why_owner(path, self._status(path))

    def _why_file(self, path: str, found: os.stat_result) -> str:
        return "" if self._is_exempt(path) else self._why(path, found)

    def _why(self, path: str, found: os.stat_result) -> str:
        """Return why others can write to a file or directory of this status; empty when they cannot."""
        if why := self._why_owner(path, found):
            return why
        mode, shown = found.st_mode, _describe(path, found)
        if mode & stat.S_IWOTH:
            todo = _MOVE if mode & stat.S_ISVTX else f"run: chmod o-w {path}"
            return f"{shown}, so everybody can write to it; {todo}"
        if mode & stat.S_IWGRP:
            if not self._is_private_group(found.st_gid):
                todo = _MOVE if mode & stat.S_ISVTX else f"run: chmod g-w {path}"
                return f"{shown}, so the group {_group_name(found.st_gid)} can write to it; {todo}"
            if _has_acl(path):
                return f"{shown} and an ACL that may let others write to it; run: setfacl -b {path}"
        return ""

    def _why_owner(self, path: str, found: os.stat_result) -> str:
        if found.st_uid in self._users:
            return ""
        todo = _MOVE if stat.S_ISDIR(found.st_mode) else f"look at it and run: chown -h root {path}"
        return f"{_describe(path, found)}; {_user_name(found.st_uid)} is neither root nor you; {todo}"

    def _is_private_group(self, gid: int) -> bool:
        """Return whether a group has members, and each is a trusted user."""
        import grp
        import pwd

        try:
            names = set(grp.getgrgid(gid).gr_mem)
        except KeyError:
            return False
        users = pwd.getpwall()
        members = {user.pw_uid for user in users if user.pw_gid == gid or user.pw_name in names}
        unknown = names - {user.pw_name for user in users}
        return bool(members) and not unknown and members <= self._users


#: A shared directory, such as /tmp or the home of a user, must keep its owner and mode.
_MOVE: Final = "move the code to a directory that only root and you can write to"
_ADVICE: Final = "or, if you trust everybody who can write there, give --trust-path DIR"
#: Most names of a tree: that of a large application, which are looked at in a few seconds.
_MOST_NAMES: Final = 1_000_000
#: Where the system's own programs and libraries are, and no files.
_INSTALLED: Final = ("/bin/", "/dev/", "/lib/", "/lib64/", "/proc/", "/sbin/", "/sys/", "/usr/")
#: The number of digits of the greatest user id.
_LONGEST_ID: Final = 10


def _names(path: str) -> list[str]:
    """Return the names of a path, the last one first."""
    return [name for name in path.split("/")[::-1] if name not in {"", "."}]


def _sudo_user() -> Iterable[int]:
    """Return the user who called ``sudo``, if this process runs under it."""
    text = os.environ.get("SUDO_UID", "")
    return [int(text)] if text.isascii() and text.isdecimal() and len(text) <= _LONGEST_ID else []


def _describe(path: str, found: os.stat_result) -> str:
    return f"'{path}' belongs to {_user_name(found.st_uid)} and has mode {stat.S_IMODE(found.st_mode):04o}"


def _user_name(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _group_name(gid: int) -> str:
    import grp

    try:
        return f"'{grp.getgrgid(gid).gr_name}'"
    except KeyError:
        return str(gid)


def _has_acl(path: str) -> bool:
    """Return whether a file or directory has an ACL: the group's bits of its mode are then only a limit."""
    from resource_api.system.filesystem import permissions

    return permissions.ACL in permissions.attributes(path)
