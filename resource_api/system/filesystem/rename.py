"""Move a file to a name only if nothing has that name. Which file is moved must not be decided here. Linux only."""

from __future__ import annotations

import errno
import os
from functools import cache
from typing import Any, Final

_NOREPLACE: Final = 1
#: Errors of a system or filesystem that has no renameat2(2).
_UNSUPPORTED: Final = {errno.ENOSYS, errno.EINVAL}


def rename_new(source: int, name: str, directory: int, new_name: str) -> None:
    """Move ``name`` in the open directory ``source`` to ``new_name`` in the open ``directory``.

    Raise ``OSError``: ``FileExistsError`` when the name exists. Without support by the filesystem, only an empty
    directory that appears at that moment is replaced, and only by a directory.
    """
    import ctypes

    call = _renameat2()
    number = errno.ENOSYS
    if call is not None:
        if call(source, os.fsencode(name), directory, os.fsencode(new_name), _NOREPLACE) == 0:
            return
        number = ctypes.get_errno()
    if number not in _UNSUPPORTED:
        raise OSError(number, os.strerror(number), new_name)
    try:
        os.lstat(new_name, dir_fd=directory)
    except FileNotFoundError:
        os.rename(name, new_name, src_dir_fd=source, dst_dir_fd=directory)
    else:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new_name)


@cache
def _renameat2() -> Any:
    import ctypes

    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is not None:
        call.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    return call
