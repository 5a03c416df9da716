"""Edit a file: read it, compute the new content, and replace the file unless another process has changed it meanwhile.

Files of other users are read and edited safely too, see ``directories``. What the content means must not enter here.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import ResourceError
from resource_api.system.filesystem import files
from resource_api.system.filesystem.directories import Directories

if TYPE_CHECKING:
    from collections.abc import Callable

_TRIES: Final = 5
#: Largest file in bytes: a file of another user must not fill the memory.
_LARGEST: Final = 16 * 1024 * 1024


class _Version(NamedTuple):
    """The state of a file; two are equal when the file was neither written nor replaced between them.

    ``path`` is the one after following links; ``content`` and ``identity`` are None if the file is missing.
    """

    path: str
    content: bytes | None = None
    identity: tuple[int, ...] | None = None


class _ChangedError(Exception):
    """The file was written or replaced during the edit."""


def read_content(path: str) -> bytes | None:
    """Return the content of the file of up to 16 MiB at the absolute ``path``; None if it does not exist.

    Raise ``OSError`` for anything but a regular file, and for a link that another user could have put there.
    """
    try:
        return _read_version(path).content
    except (FileNotFoundError, NotADirectoryError):
        return None


def edit(
    path: str,
    change: Callable[[bytes], bytes],
    *,
    mode: int,
    uid: int | None = None,
    gid: int | None = None,
    check: Callable[[str], object] | None = None,
) -> None:
    """Call ``change`` with the content of the file at the absolute ``path``; replace the file if it returns another.

    An existing file keeps its mode and owner; a new one, whose content was empty, gets the given ones. When another
    process writes the file meanwhile, ``change`` is called again with the new content: it must not depend on earlier
    calls. The new file is durable on return. ``check`` is called with the path at which the new content is complete,
    and may refuse it by raising. Raise ``OSError``, and ``ResourceError`` when the file keeps changing, or where other
    users could replace the new file between the check and its renaming.
    """
    for _ in range(_TRIES):
        before = _read_version(path)
        content = change(before.content or b"")
        if content == (before.content or b""):
            return
        try:
            with files.Batch() as batch:
                if check is not None and batch.can_others_replace(before.path):
                    msg = "its new content cannot be checked where other users can write to a directory on its path"
                    raise ResourceError(msg)
                if before.content is None:
                    batch.replace(before.path, content, mode=mode, uid=uid, gid=gid, check=check)
                else:
                    batch.replace(before.path, content, check=check)
                # The new file is complete: only its renaming follows this check.
                if _read_version(path) != before:
                    raise _ChangedError  # noqa: TRY301 - leaving the batch with an error discards the new file
        except _ChangedError:
            continue
        except OSError as error:
            if error.errno == errno.EAGAIN:  # as of a file that is overwritten in place
                continue
            if error.filename is not None and not os.path.isabs(error.filename):
                error.filename = before.path  # not the temporary file in its directory
            raise
        return
    msg = f"{path} was changed by others {_TRIES} times while it was being edited"
    raise ResourceError(msg)


def _read_version(path: str) -> _Version:
    with Directories() as directories:
        directory, name = directories.follow(path)
        path = directory.beneath(name)
        try:
            status, content = files.stat_and_read(directories, path, _LARGEST)
        except FileNotFoundError:
            return _Version(path)
    if content is None:
        raise files.not_read(status, path, _LARGEST)
    identity = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return _Version(path, content, identity)
