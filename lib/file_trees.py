"""Directory trees: their members, and the differences between two."""

from __future__ import annotations

import os
import re
import stat
from contextlib import contextmanager
from fnmatch import translate
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from resource_api import ResourceError, files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

#: The most directories within each other; each one is held open.
DEEPEST = 100
#: Files of up to this number of bytes are read whole to compare them.
WHOLE = 1 << 20
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}


class Member(NamedTuple):
    """A member of a tree; ``kind`` is empty for a socket, FIFO or device, ``target`` for all but links."""

    kind: str
    mode: int
    uid: int
    gid: int
    size: int
    target: str


class Tree(NamedTuple):
    """The members of a directory by their path in it, each directory before its members; its own path is empty.

    ``with_ignored``: the directories that contain an ignored member, and so are not removed by a purge.
    """

    members: Mapping[str, Member]
    with_ignored: frozenset[str]


def ignored(patterns: str | Sequence[str] | None) -> Callable[[str], bool]:
    """Return a predicate for the glob patterns of `ignore`: whether a path within a tree is neither read nor changed.

    A pattern without a slash matches names at any depth, a pattern with a slash matches paths from the top of the tree.
    """
    # Without patterns, (?!) matches nothing.
    globs = [patterns] if isinstance(patterns, str) else list(patterns or ())
    names = re.compile("|".join(translate(pattern) for pattern in globs if "/" not in pattern) or "(?!)")
    paths = re.compile("|".join(translate(pattern.strip("/")) for pattern in globs if "/" in pattern) or "(?!)")
    return lambda path: bool(names.match(path.rpartition("/")[2]) or paths.match(path))


@contextmanager
def opened(fd: int, name: str = ".") -> Iterator[int]:
    """Yield a descriptor of the directory ``name`` within the open directory ``fd``. Raise ``OSError``.

    A link is not followed. If each level of a tree is opened in this way, another user who exchanges a directory for a
    link cannot lead the reader to files outside of the tree.
    """
    directory = os.open(name, DIRECTORY, dir_fd=fd)
    try:
        yield directory
    finally:
        os.close(directory)


def read_tree(top: str, is_ignored: Callable[[str], bool], most: int) -> Tree:
    """Return the tree of a directory, without following links in it, to compare it with another or to change it.

    Raise ``OSError``, and ``ResourceError`` for more than ``most`` members, too many levels, or a mount point.
    """
    with_ignored: set[str] = set()
    with files.Directories() as directories:
        directory = directories.reach(top)
        with opened(directory.fd) as fd:
            members = {"": _member(fd, "", os.fstat(fd))}
            limits = _Limits(top, is_ignored, most, files.mount_id(fd), files.mounts_beneath(directory))
            _visit(fd, "", members, with_ignored, limits)
    return Tree(members, frozenset(with_ignored))


class _Limits(NamedTuple):
    """The limits of a tree: ignored paths, the largest number of members, and its only mount."""

    top: str
    is_ignored: Callable[[str], bool]
    most: int
    mount: int
    mounted: set[str]


def _visit(fd: int, path: str, members: dict[str, Member], with_ignored: set[str], limits: _Limits) -> None:
    """Add the members of an open directory to ``members``, and the directories above ignored ones to ``with_ignored``.

    A purge keeps the directories in ``with_ignored``, because it leaves ignored members alone. ``path`` is the path of
    the open directory in the tree, empty for the top. Raise ``ResourceError`` beyond the limits and at a mount point.
    """
    for name in sorted(os.listdir(fd)):
        inner = f"{path}/{name}" if path else name
        if limits.is_ignored(inner):
            with_ignored.update(_above(inner))
            continue
        member = _member(fd, name, os.lstat(name, dir_fd=fd))
        if len(members) > limits.most:
            msg = f"'{limits.top}' has more than {limits.most} files and directories; raise max_files if that is right"
            raise ResourceError(msg)
        members[inner] = member
        if inner in limits.mounted:
            raise _mounted(limits.top, inner)
        if member.kind == "directory":
            if inner.count("/") >= DEEPEST:
                raise ResourceError(f"'{limits.top}' has directories more than {DEEPEST} levels deep")
            with opened(fd, name) as below:
                if files.mount_id(below) != limits.mount:
                    raise _mounted(limits.top, inner)
                _visit(below, inner, members, with_ignored, limits)


def _mounted(top: str, inner: str) -> ResourceError:
    """Return the error for a tree with another filesystem in it."""
    return ResourceError(f"another filesystem is mounted at '{top}/{inner}'; name it in 'ignore'")


def _above(path: str) -> Iterator[str]:
    """Yield the directories that contain a path within a tree: ``a/b``, ``a`` and "", its top, for ``a/b/c``.

    Each of them cannot be removed if the path is ignored.
    """
    while path:
        path = path.rpartition("/")[0]
        yield path


def _member(fd: int, name: str, status: os.stat_result) -> Member:
    """Return the kind, mode, owner and size of a directory's entry, and a link's target, to compare trees by them."""
    kind = KINDS.get(stat.S_IFMT(status.st_mode), "")
    target = os.readlink(name, dir_fd=fd) if kind == "link" else ""
    return Member(kind, stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid, status.st_size, target)


def member_path(top: str, name: str) -> str:
    """Return the path of a member of a tree; the empty name is the top itself."""
    return f"{top}/{name}" if name else top


def same_bytes(directories: files.Directories, first: str, second: str, size: int) -> bool:
    """Return whether two files of ``size`` bytes, such as a copy and its source, are equal. Raise ``OSError``.

    Long ones are compared in parts, to save memory.
    """
    if size <= WHOLE:
        contents = [files.stat_and_read(directories, path, WHOLE)[1] for path in (first, second)]
        # Not read (None): it has become another kind of file, or longer.
        return contents[0] is not None and contents[0] == contents[1]
    parts_of_first, parts_of_second = (files.parts(partial(files.open_source, path)) for path in (first, second))
    return all(one == another for one, another in zip_longest(parts_of_first, parts_of_second))


def content(directories: files.Directories, path: str) -> bytes | Iterator[bytes]:
    """Return the content of a file, in parts if it is long. Raise ``OSError``."""
    whole = files.stat_and_read(directories, path, WHOLE)[1]
    return files.parts(partial(files.open_source, path)) if whole is None else whole


def listed(names: Sequence[str]) -> str:
    """Return the first three of some paths, and the number of further ones."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""  # noqa: PLR2004 - see above
    return f"{', '.join(name or '.' for name in names[:3])}{more}"
