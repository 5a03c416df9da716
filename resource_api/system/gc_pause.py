"""Pause Python's cyclic garbage collector while many small values are created.

Its passes over all live objects are the only cost that grows faster than the number of resources.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def gc_paused() -> Iterator[None]:
    """Disable the collector inside the ``with`` block, in which it would examine all new values again and again.

    Its former state, which an embedding program may have set, is restored.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
