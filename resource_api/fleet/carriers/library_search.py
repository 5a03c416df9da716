"""Look for shared libraries in the cache of the dynamic linker, instead of by programs."""

from __future__ import annotations

import ctypes.util
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_CACHE: Final = Path("/etc/ld.so.cache")


@contextmanager
def linker_cache() -> Iterator[None]:
    """Have ``ctypes`` start no program to look for a library that the cache of the dynamic linker does not name.

    It would start ``ldconfig``, ``gcc`` and ``ld``, one after the other. Without such a cache, and where
    ``LD_LIBRARY_PATH`` names further directories, it looks as it always does.
    """
    find = ctypes.util.find_library
    try:
        known = _CACHE.read_bytes()
    except OSError:
        known = b""
    if known and not os.environ.get("LD_LIBRARY_PATH"):
        ctypes.util.find_library = lambda name: find(name) if f"lib{name}.so".encode() in known else None
    try:
        yield
    finally:
        ctypes.util.find_library = find
