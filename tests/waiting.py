"""Wait until something holds that another process or thread does."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def wait_until(condition: Callable[[], object], seconds: float = 40) -> None:
    """Return once ``condition`` holds; fail after so many seconds."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it has not come"
        time.sleep(0.02)
