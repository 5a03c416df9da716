"""The side effect of removing a directory with its whole content."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from resource_api import SideEffect

if TYPE_CHECKING:
    from collections.abc import Iterator


def side_effects(path: str) -> Iterator[SideEffect]:
    """Yield the removal of the content of a directory, unless it is empty, cannot be read, or does not exist."""
    try:
        with os.scandir(path) as entries:
            filled = not os.path.islink(path) and any(entries)  # noqa: PTH114 - a text
    except OSError:
        return
    if filled:
        yield SideEffect(path, "remove", "file", dependent=True, tree=True)
