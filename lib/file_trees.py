"""Directory trees: what is in one, and what is different between two."""

from __future__ import annotations

import os
import re
import stat
from fnmatch import translate
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from resource_api import ResourceError, files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

#: The most directories within each other; each one is held open.
DEEPEST = 100
#: Files of up to so many bytes are read whole to compare them.
WHOLE = 1 << 20
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}


class Member(NamedTuple):
    """What is in a tree; ``kind`` is empty for a socket, FIFO or device, ``target`` for anything but a link."""

    kind: str
    mode: int
    uid: int
    gid: int
    size: int
    target: str


class Tree(NamedTuple):
    """The members of a directory by their path in it, each before what is in it; the directory itself is empty.

    ``with_ignored``: the directories that contain something ignored.
    """

    members: Mapping[str, Member]
    with_ignored: frozenset[str]


def ignored(patterns: str | Sequence[str] | None) -> Callable[[str], bool]:
    """Return a function: whether a path within a tree is left alone."""
    every = [patterns] if isinstance(patterns, str) else list(patterns or ())
    names = re.compile("|".join(translate(each) for each in every if "/" not in each) or "(?!)")
    paths = re.compile("|".join(translate(each.strip("/")) for each in every if "/" in each) or "(?!)")
    return lambda path: bool(names.match(path.rpartition("/")[2]) or paths.match(path))


def read_tree(top: str, is_ignored: Callable[[str], bool], most: int) -> Tree:
    """Return what is in a directory, without following links in it.

    Raise ``OSError``, and ``ResourceError`` for more than ``most`` members, too many levels, or a mount point.
    """
    with files.Directories() as directories:
        directory = directories.reach(top)
        fd = os.open(".", DIRECTORY, dir_fd=directory.fd)
        try:
            members = {"": _member(fd, "", os.fstat(fd))}
            with_ignored: set[str] = set()
            mounted = files.mounts_beneath(directory)
            _visit(fd, "", members, with_ignored, _Limits(top, is_ignored, most, files.mount_id(fd), mounted))
        finally:
            os.close(fd)
    return Tree(members, frozenset(with_ignored))


class _Limits(NamedTuple):
    """Where a tree ends: what is ignored, how many members it has at most, and its only mount."""

    top: str
    is_ignored: Callable[[str], bool]
    most: int
    mount: int
    mounted: set[str]


def _visit(fd: int, path: str, members: dict[str, Member], with_ignored: set[str], limits: _Limits) -> None:
    top, is_ignored, most, mount, mounted = limits
    for name in sorted(os.listdir(fd)):
        inner = f"{path}/{name}" if path else name
        if is_ignored(inner):
            with_ignored.update(_above(inner))
            continue
        seen = os.lstat(name, dir_fd=fd)
        if len(members) > most:
            msg = f"'{top}' has more than {most} files and directories; raise max_files if that is right"
            raise ResourceError(msg)
        members[inner] = _member(fd, name, seen)
        if inner in mounted:
            raise _mounted(top, inner)
        if members[inner].kind == "directory":
            if inner.count("/") >= DEEPEST:
                msg = f"'{top}' has directories more than {DEEPEST} levels deep"
                raise ResourceError(msg)
            below = os.open(name, DIRECTORY, dir_fd=fd)
            try:
                if files.mount_id(below) != mount:
                    raise _mounted(top, inner)
                _visit(below, inner, members, with_ignored, limits)
            finally:
                os.close(below)


def _mounted(top: str, inner: str) -> ResourceError:
    return ResourceError(f"another filesystem is mounted at '{top}/{inner}'; name it in 'ignore'")


def _above(path: str) -> Iterator[str]:
    while path:
        path = path.rpartition("/")[0]
        yield path


def _member(fd: int, name: str, seen: os.stat_result) -> Member:
    kind = KINDS.get(stat.S_IFMT(seen.st_mode), "")
    target = os.readlink(name, dir_fd=fd) if kind == "link" else ""
    return Member(kind, stat.S_IMODE(seen.st_mode), seen.st_uid, seen.st_gid, seen.st_size, target)


def same_bytes(directories: files.Directories, one: str, other: str, size: int) -> bool:
    """Return whether two files of ``size`` bytes have the same content. Raise ``OSError``."""
    if size <= WHOLE:
        contents = [files.stat_and_read(directories, path, WHOLE)[1] for path in (one, other)]
        return contents[0] is not None and contents[0] == contents[1]
    left, right = (files.parts(partial(files.open_source, path)) for path in (one, other))
    return all(first == second for first, second in zip_longest(left, right))


def content(directories: files.Directories, path: str) -> bytes | Iterator[bytes]:
    """Return the content of a file, in parts if it is long. Raise ``OSError``."""
    found = files.stat_and_read(directories, path, WHOLE)[1]
    return files.parts(partial(files.open_source, path)) if found is None else found


def listed(names: Sequence[str]) -> str:
    """Return the first three of some paths, and how many more there are."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""  # noqa: PLR2004 - see above
    return f"{', '.join(name or '.' for name in names[:3])}{more}"
