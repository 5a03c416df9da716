"""The side effects of removing directories with their whole content."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from resource_api import SideEffect

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def side_effects(paths: Iterable[str]) -> Iterator[tuple[str, SideEffect]]:
    """Yield (directory, its removal) if the directory has content, for the plan.

    The plan shows that the content is lost, and a conflict if another resource is in the directory.
    """
    for path in paths:
        with suppress(OSError), os.scandir(path) as entries:
            if not os.path.islink(path) and any(entries):  # noqa: PTH114 - a text
                yield path, SideEffect(path, "remove", "file", dependent=True, tree=True)
