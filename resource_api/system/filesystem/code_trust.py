"""Check that only trusted users can change code and programs before they are executed.

Trusted are root, the user of this process, and the user who called ``sudo`` (``SUDO_UID``). A path is checked from the
root downwards: in a directory that only trusted users can write to, no other user can replace the next name after its
check. A file is opened before its own status is read.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from resource_api.model.values.errors import UntrustedCode
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.text import shell_word
from resource_api.system.filesystem.directories import MAX_LINKS, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ACL: Final = "system.posix_acl_access"
_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW


class _Target(NamedTuple):
    """The target of a path, without links, and the reason why other users can change or replace it, or ""."""

    path: str
    reason: str


class CodeTrust:
    """Opens files of code, and refuses those that other users can change. Each directory is checked once.

    Methods that check a path return the reason why other users can change it, as a text for users, or "".
    """

    def __init__(
        self,
        exempt: Iterable[str | os.PathLike[str]] = (),
        aliases: Mapping[str, str] | None = None,
        users: Iterable[int] | None = None,
    ) -> None:
        """Trust all files beneath the ``exempt`` directories without a check, for ``--trust-path``.

        ``aliases``: the real path of a directory → the path that the user has written. Files are opened by the real
        path, but a link in the user's path could have been changed by another user, so it is checked too.
        ``users``: those who may change files; None: root, the caller, and the user of sudo.
        """
        self._exempt = frozenset(os.path.realpath(directory).rstrip("/") + "/" for directory in exempt)
        self._aliases = dict(aliases or {})
        self._users = {*ROOT, os.geteuid(), *_sudo_user()} if users is None else set(users)
        #: Path of a directory or link → its status.
        self._statuses: dict[str, os.stat_result] = {}
        #: Directory, and whether it contains the code itself (then it must not be sticky) → reason.
        self._reasons: dict[tuple[str, bool], str] = {}

    def open(self, path: str) -> int:
        """Open a file of code for reading and return its descriptor, which the caller closes.

        The descriptor is that of the checked file, even if its path leads elsewhere later. Raise ``UntrustedCode`` with
        the path, owner and mode of a file or directory that other users can change, and ``OSError``.
        """
        target = self._follow(path, holds_code=True)
        descriptor = os.open(target.path, _FLAGS)
        reason = "it cannot be checked"
        try:
            reason = target.reason or self._check(target.path, os.fstat(descriptor)) or self._check_alias(target.path)
        finally:
            if reason:
                os.close(descriptor)
        if reason:
            raise UntrustedCode(f"{path}: is not executed, because others could have changed it: {reason}; {_ADVICE}")
        return descriptor

    def read(self, path: str) -> tuple[bytes, os.stat_result]:
        """Return the bytes of a file of code, and its status. Raise as ``open`` does."""
        with os.fdopen(self.open(path), "rb") as file:
            return file.read(), os.fstat(file.fileno())

    def who_can_change(self, path: str) -> str:
        """Return why other users can change a file or tree of data, for a warning, or "".

        An unreadable one needs no warning: its use fails.
        """
        try:
            reason = self.check_tree(path, holds_code=False)
        except OSError:
            return ""
        return f"{reason}; {_ADVICE}" if reason else ""

    def check_file(self, path: str, *, holds_code: bool = True) -> str:
        """Return why other users can change a program, or without ``holds_code`` data, or "". Raise ``OSError``."""
        target = self._follow(path, holds_code=holds_code)
        return target.reason or self._check(target.path, os.lstat(target.path))

    def check_links(self, path: str, descriptor: int) -> str:
        """Return why other users can change a link over which ``path`` was opened as ``descriptor``, or "".

        By such a link they could have root publish a file that only root can read. A path without links is not checked.
        If ``path`` leads to another file by now, this is a reason too. Raise ``OSError``.
        """
        opened = os.readlink(f"/proc/self/fd/{descriptor}")
        if opened == os.path.abspath(path):
            return ""
        target = self._follow(path)
        reason = target.reason or ("" if target.path == opened else f"'{path}' led to '{opened}' before")
        return f"{reason}; {_ADVICE}" if reason else ""

    def check_directory(self, directory: str) -> str:
        """Return why others can add a file to a directory in which a program looks for code, or "". Raise ``OSError``.

        If it is missing, the nearest directory above is checked, in which they could create it.
        """
        while not os.path.lexists(directory or "."):
            directory = os.path.dirname(directory)
        return self.check_file(directory or ".", holds_code=False)

    def check_tree(self, path: str, *, holds_code: bool = True) -> str:
        """Return why other users can change a file or anything in a directory, or create a missing one, or "".

        Links are followed; directories of the system itself, such as ``/usr``, are not searched. In a sticky directory
        everybody can add files, so none beneath ``path`` may be sticky, nor the one that contains ``path`` if this is
        code (``holds_code``). Raise ``OSError``: EFBIG for a tree of a million names.
        """
        if not os.path.lexists(path):
            return self.check_directory(os.path.dirname(path))
        todo, visited = [path], set[str]()
        while todo:
            with suppress(FileNotFoundError):  # a broken link
                target = self._follow(todo.pop(), holds_code=holds_code or bool(visited))
                status = os.lstat(target.path)
                if target.path in visited or self._is_exempt(target.path):
                    continue
                if reason := target.reason or self._check(target.path, status):
                    return reason
                visited.add(target.path)
                if stat.S_ISDIR(status.st_mode) and not f"{target.path}/".startswith(_INSTALLED):
                    todo += [f"{target.path.rstrip('/')}/{name}" for name in os.listdir(target.path)]
            if len(visited) + len(todo) > _MOST_NAMES:
                raise OSError(errno.EFBIG, f"more than {_MOST_NAMES} files", path)
        return ""

    def _follow(self, path: str, *, holds_code: bool = False) -> _Target:
        """Follow ``path`` from the root; return its target and the first reason why others can change the way to it.

        As the kernel does, the path is followed name by name along links, because each directory and link may belong to
        another user. The target itself is left to the caller. A target in an exempt directory has no reason.
        ``holds_code``: the last directory contains the code itself, and must not be sticky. Raise ``OSError``.
        """
        here, reason, links = "/", "", 0
        todo = _names(path if path.startswith("/") else f"{os.getcwd()}/{path}")
        while todo:
            name = todo.pop()
            if name == "..":
                here = here.rpartition("/")[0] or "/"
                continue
            reason = reason or self._check_directory(here, holds_code=holds_code and not todo)
            at = f"{here.rstrip('/')}/{name}"
            if not stat.S_ISLNK(self._status(at, last=not todo).st_mode):
                here = at
                continue
            if not self._is_exempt(at):
                reason = reason or self._check_owner(at, self._status(at))
            links += 1
            if links > MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            target = os.readlink(at)
            here = "/" if target.startswith("/") else here
            todo += _names(target)
        return _Target(here, "" if self._is_exempt(here) else reason)

    def _check_alias(self, path: str) -> str:
        """Return why the user's own path (alias) to a directory above ``path`` may lead elsewhere, or "".

        The real ``path`` was computed earlier from the alias; if another user could change a link in it, the code may
        be another user's. An alias without a reason is checked once, and then removed.
        """
        for directory, alias in list(self._aliases.items()):
            if not path.startswith(f"{directory}/"):
                continue
            target = self._follow(alias)
            # The alias of a manifest's directory is the manifest.
            if directory not in {target.path, target.path.rpartition("/")[0]}:
                return f"'{alias}' led to '{directory}', and now leads to '{target.path}'"
            if target.reason:
                return target.reason
            del self._aliases[directory]
        return ""

    def _is_exempt(self, path: str) -> bool:
        return any(f"{path}/".startswith(directory) for directory in self._exempt)

    def _status(self, path: str, *, last: bool = False) -> os.stat_result:
        """Return the status of a name on a path, cached for directories and links, which many paths share.

        ``last``: the name is the last of the path, perhaps a file, and is not cached.
        """
        if (status := self._statuses.get(path)) is None:
            status = os.lstat(path)
            if not last:
                self._statuses[path] = status
        return status

    def _check_directory(self, path: str, *, holds_code: bool) -> str:
        """Return why other users can change a directory on the way to a file, or "".

        In a sticky directory such as ``/tmp``, other users cannot rename or remove files of trusted users, so that it
        may be on the way. But they can add files to it, also hard links to old files of trusted users, so the
        directory that ``holds_code`` must not be writable for them even if it is sticky.
        """
        key = path, holds_code
        if key not in self._reasons:
            status = self._status(path)
            check = self._check_owner if status.st_mode & stat.S_ISVTX and not holds_code else self._check
            self._reasons[key] = "" if self._is_exempt(path) else check(path, status)
        return self._reasons[key]

    def _check(self, path: str, status: os.stat_result) -> str:
        """Return why others can change a file or directory, by its owner, mode and ACL, with a remedy, or ""."""
        if self._is_exempt(path):
            return ""
        if reason := self._check_owner(path, status):
            return reason
        mode, description = status.st_mode, _describe(path, status)
        if mode & stat.S_IWOTH:
            todo = _MOVE_ELSEWHERE if mode & stat.S_ISVTX else f"run: chmod o-w {shell_word(path)}"
            return f"{description}, so everybody can write to it; {todo}"
        if mode & stat.S_IWGRP:
            if not self._is_private_group(status.st_gid):
                todo = _MOVE_ELSEWHERE if mode & stat.S_ISVTX else f"run: chmod g-w {shell_word(path)}"
                return f"{description}, so the group {_group_name(status.st_gid)} can write to it; {todo}"
            if _has_acl(path):
                return f"{description} and an ACL that may let others write to it; run: setfacl -b {shell_word(path)}"
        return ""

    def _check_owner(self, path: str, status: os.stat_result) -> str:
        """Return "" if a file, directory or link belongs to a trusted user, otherwise the reason."""
        if status.st_uid in self._users:
            return ""
        todo = (
            _MOVE_ELSEWHERE if stat.S_ISDIR(status.st_mode) else f"look at it and run: chown -h root {shell_word(path)}"
        )
        return f"{_describe(path, status)}; {_user_name(status.st_uid)} is neither root nor you; {todo}"

    def _is_private_group(self, gid: int) -> bool:
        """Return whether all members of a group are trusted users with an account, so that its rights do no harm.

        Many systems have such a group for each user.
        """
        try:
            names = set(grp.getgrgid(gid).gr_mem)
        except KeyError:
            return False
        users = pwd.getpwall()
        members = {user.pw_uid for user in users if user.pw_gid == gid or user.pw_name in names}
        unknown = names - {user.pw_name for user in users}
        return bool(members) and not unknown and members <= self._users


#: A shared directory, such as /tmp or the home of a user, must keep its owner and mode.
_MOVE_ELSEWHERE: Final = "move it to a directory that only root and you can write to"
_ADVICE: Final = "or, if you trust everybody who can write there, give --trust-path DIR"
#: Most names of a tree: those of a large application, which are checked in a few seconds.
_MOST_NAMES: Final = 1_000_000
#: Directories of the system's programs and libraries.
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


def _describe(path: str, status: os.stat_result) -> str:
    """Return owner and mode as a text, to which the reason is added."""
    return f"'{path}' belongs to {_user_name(status.st_uid)} and has mode {stat.S_IMODE(status.st_mode):04o}"


def _user_name(uid: int) -> str:
    """Return the name of a user for a message, or its number without an account."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _group_name(gid: int) -> str:
    """Return the name of a group for a message, in quotes, or its number without one."""
    try:
        return f"'{grp.getgrgid(gid).gr_name}'"
    except KeyError:
        return str(gid)


def _has_acl(path: str) -> bool:
    """Return whether a file or directory has an ACL, by which a user outside of its group may be able to write.

    With an ACL the group's bits of the mode are only the upper limit of such rights.
    """
    with suppress(OSError):
        return ACL in os.listxattr(path)
    return False
