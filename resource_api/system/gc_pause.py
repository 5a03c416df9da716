"""The cyclic collector, kept off while many small values are made: it alone bends the growth curve."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def unhurried() -> Iterator[None]:
    """Collect no cycles; afterwards it is as before."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
