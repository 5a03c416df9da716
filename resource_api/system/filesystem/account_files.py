"""Change the files of users and groups together: edit private copies, then install them in a safe order.

useradd(8) and similar tools replace six files one after the other. A run that is killed between two of them would leave
a user without a password entry, or a deleted user's group, and no later run would complete the change.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from resource_api.model.values.errors import ResourceError
from resource_api.system.filesystem.directories import opened
from resource_api.system.filesystem.files import TEMPORARY_SUFFIX, replace
from resource_api.system.filesystem.in_place import lock_soon

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: In the order of installation: an entry in ``passwd`` makes a user exist, one in ``group`` a group.
_FILES: Final = ("subuid", "subgid", "gshadow", "shadow", "group", "passwd")
#: Further files that the tools read, also in a prefix.
_SETTINGS: Final = ("login.defs", "default/useradd")
_STAGE: Final = Path(f"/etc/.accounts{TEMPORARY_SUFFIX}")
#: Only root can open it, and could keep it locked; the locks of fcntl(2), of the tools, and of flock(2) are apart.
_LOCK: Final = "/etc/.pwd.lock"
_LOCK_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
#: Threads wait outside: to close the file in one of them would release the tools' lock, which a process has as a whole.
_thread_lock: Final = threading.Lock()
_TRIES: Final = 5


def change_accounts(edit: Callable[[Path], object]) -> None:
    """Let ``edit`` change copies of the account files, then install the changed files in a safe order.

    ``edit`` is called with a directory that has the copies in ``etc``, for tools such as ``useradd --prefix``: these
    replace one file after the other, so a kill could leave half a user. It is called again if another program changes
    the real files meanwhile. Raise ``ResourceError`` if they keep changing or stay locked, ``OSError``.
    """
    with _thread_lock, opened(_LOCK, _LOCK_FLAGS, mode=0o600) as lock:
        _acquire(lock, fcntl.flock)
        for _ in range(_TRIES):
            with _staged() as before:
                edit(_STAGE)
                after = {name: _read(_STAGE / "etc" / name) for name in _FILES}
            if _install(lock, before, after):
                return
    raise ResourceError("the account files are changed by other programs all the time")


@contextmanager
def _staged() -> Iterator[dict[str, bytes | None]]:
    """Copy the account files to a private directory for the ``with`` block, which edits the copies there.

    Yield the unedited contents, with which ``_install`` detects changes by other programs. The copies of a killed run
    are removed first.
    """
    if _STAGE.exists():
        shutil.rmtree(_STAGE)
    _STAGE.mkdir(mode=0o700)
    try:
        (_STAGE / "etc" / "default").mkdir(parents=True)
        for name in (*_FILES, *_SETTINGS):
            with suppress(FileNotFoundError):
                shutil.copy2(f"/etc/{name}", _STAGE / "etc" / name)
        yield {name: _read(_STAGE / "etc" / name) for name in _FILES}
    finally:
        shutil.rmtree(_STAGE)


def _install(lock: int, before: dict[str, bytes | None], after: dict[str, bytes | None]) -> bool:
    """Install the changed files under the lock of the account tools.

    ``group`` and ``passwd``, which make a group or user exist, are last: a kill before them leaves no half user. Return
    False, and change nothing, if the real files are not as ``before`` any more. ``lock``: the open file of the lock;
    ``before`` and ``after``: name of each of ``_FILES`` → content, None for a missing file.
    """
    _acquire(lock, fcntl.lockf)
    try:
        if any(_read(Path("/etc", name)) != before[name] for name in _FILES):
            return False
        for name in _FILES:
            content = after[name]
            if content is not None and content != before[name]:
                replace(f"/etc/{name}", content)  # a failure leaves the later, deciding files unchanged
    finally:
        fcntl.lockf(lock, fcntl.LOCK_UN)
    return True


def _acquire(lock: int, function: Callable[[int, int], object]) -> None:
    """Lock the open file by ``function``, flock or lockf. Raise ``ResourceError`` if another program keeps it."""
    if not lock_soon(lock, function):
        raise ResourceError("the account files are locked by another program")


def _read(path: Path) -> bytes | None:
    """Return the content of a file, or None if it is missing, as some systems have no ``gshadow``."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
