"""The files that a plan is made of, with what tells that one has changed: found as they are opened, polled later.

Recording uses an audit hook, which stays until the process ends: for a process that makes one plan. Polling needs no
library and no descriptors, and notices on every file system what editors replace, what vanishes and what comes back.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from resource_api.plugins.module_path import BUNDLED, OWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    #: Path → time of the last change, size and inode, as JSON has them; None: there is no such file.
    Signatures = dict[str, list[int] | None]

#: What is not the user's: the program, the interpreter with its libraries, and the kernel's own file systems.
_FOREIGN: Final = tuple(f"{each}/" for each in ("/proc", "/sys", "/dev", sys.prefix, sys.base_prefix, *OWN))
_EVENTS: Final = frozenset(("open", "os.listdir", "os.scandir"))
_KINDS: Final = ("types", "providers", "components", "policies", "lib")
#: Seconds between two looks at the files, and after a change until they are seen to be complete.
_INTERVAL: Final = 0.5
_PAUSE: Final = 0.05


def record(relevant: Callable[[], bool], base: str) -> Signatures:
    """Return a mapping that receives every file that this process opens for reading from now on while ``relevant()``.

    Each signature is that of the moment before the file is opened first. ``base`` is the working directory.
    """
    found: Signatures = {}

    def note(event: str, arguments: Any) -> None:
        if event not in _EVENTS or not isinstance(arguments[0], (str, bytes)):
            return
        if (event != "open" or arguments[2] & os.O_ACCMODE == os.O_RDONLY) and relevant():
            path = os.path.join(base, os.fsdecode(arguments[0]))
            if path not in found and not path.startswith(_FOREIGN) and not path.endswith(".pyc"):
                found[path] = signature(path)

    sys.addaudithook(note)
    return found


def directories(files: Iterable[str], module_path: Iterable[str]) -> Signatures:
    """Return the directories where a missing file may appear: those of ``files``, and those of types and components."""
    places = {os.path.dirname(path) for path in files}
    roots = [os.path.abspath(root) for root in module_path if root != BUNDLED]
    return {path: signature(path) for path in (*places, *(f"{root}/{kind}" for root in roots for kind in _KINDS))}


def signature(path: str) -> list[int] | None:
    """Return what differs after a change of a file, or of the entries of a directory; None: there is none."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return [found.st_mtime_ns, found.st_size, found.st_ino]


def wait_for_change(known: Mapping[str, Any]) -> None:
    """Return when a file has another signature than the ``known`` one, and is not being written any more."""
    while (before := {path: signature(path) for path in known}) == known:
        time.sleep(_INTERVAL)
    while (now := {path: signature(path) for path in known}) != before:
        before = now
        time.sleep(_PAUSE)
