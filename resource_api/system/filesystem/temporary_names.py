"""Name temporary files, move them to free names, and remove those of crashed processes."""

from __future__ import annotations

import errno
import os
import re
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from resource_api.model.values._lazy_regex import regex
from resource_api.system import c_library
from resource_api.system.filesystem.directories import DIRECTORY_FLAGS, OTHERS_WRITE, opened

if TYPE_CHECKING:
    from resource_api.system.filesystem.directories import Directory

#: Ignored by daemons that load a whole directory, by run-parts(8) and by dpkg(1); the name starts with a dot too.
SUFFIX: Final = ".resource-api~"
_NAME: Final = regex(rf"\..*\.([1-9][0-9]*)\.[0-9a-f]+{re.escape(SUFFIX)}", re.DOTALL)
#: Characters of the final name in a temporary one: with four bytes each, it stays below 255 bytes.
_PREFIX: Final = 40


class TemporaryNames:
    """Names for one batch. The first name in a directory removes the temporary files of crashed batches there."""

    def __init__(self) -> None:
        """Start a batch."""
        self._token = f"{os.getpid()}.{os.urandom(4).hex()}"
        self._count = 0
        self._swept: set[str] = set()

    def name(self, directory: Directory, name: str) -> str:
        """Return an unused temporary name in ``directory`` for a file with the final name ``name``."""
        if directory.path not in self._swept:
            self._swept.add(directory.path)
            sweep(directory)
        self._count += 1
        return f".{name[:_PREFIX]}.{self._token}{self._count:x}{SUFFIX}"


def discard(fd: int, name: str) -> None:
    """Remove a temporary file from the open directory ``fd``; a failure leaves it to the next batch.

    A temporary directory is removed with the new directory in it, which has the same name and is empty.
    """
    try:
        os.unlink(name, dir_fd=fd)
    except IsADirectoryError:
        with suppress(OSError):
            _discard_directory(fd, name)
    except OSError:
        return


def _discard_directory(fd: int, name: str) -> None:
    with opened(name, DIRECTORY_FLAGS, fd) as inner, suppress(FileNotFoundError):
        os.rmdir(name, dir_fd=inner)
    os.rmdir(name, dir_fd=fd)


def sweep(directory: Directory) -> None:
    """Remove the temporary files of dead processes from a directory.

    Files with another owner are removed only where no other user can add a name.
    """
    with opened(".", DIRECTORY_FLAGS, directory.fd) as fd:
        private = not os.fstat(fd).st_mode & OTHERS_WRITE
        for name in [name for name in os.listdir(fd) if name.endswith(SUFFIX)]:
            match = _NAME.fullmatch(name)
            with suppress(FileNotFoundError):
                if match and not _is_alive(int(match[1])) and _is_own(os.lstat(name, dir_fd=fd), private=private):
                    discard(fd, name)


def _is_own(status: os.stat_result, *, private: bool) -> bool:
    kinds = {stat.S_IFREG, stat.S_IFLNK, stat.S_IFDIR}
    return (private or status.st_uid == os.geteuid()) and stat.S_IFMT(status.st_mode) in kinds


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


_NOREPLACE: Final = 1
#: Errors of a system or filesystem that has no renameat2(2).
_UNSUPPORTED: Final = {errno.ENOSYS, errno.EINVAL}


def rename_new(source: int, name: str, directory: int, new_name: str) -> None:
    """Move ``name`` in the open directory ``source`` to ``new_name`` in the open ``directory``.

    Raise ``OSError``: ``FileExistsError`` if the name exists. If the filesystem has no support for
    that, an empty directory that appears at that moment is replaced by a directory.
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
