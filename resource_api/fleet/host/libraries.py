"""The libraries that a host has by itself, for types that need some: found after all that was sent, never instead.

The first program runs without ``site``, so that nothing of the host is executed unasked. This adds the directories
alone: no file in them that ``site`` would execute is.
"""

from __future__ import annotations

import os
import site
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from resource_api.system.filesystem.code_trust import CodeTrust

if TYPE_CHECKING:
    from collections.abc import Iterator


def use() -> None:
    """Let types import what is installed for this interpreter, where nobody but root and this user can change it."""
    sys.path += _directories()


def _directories() -> Iterator[str]:
    environment = os.path.dirname(os.path.dirname(sys.executable))
    prefixes = [environment] if os.path.exists(f"{environment}/pyvenv.cfg") else None
    trust = CodeTrust()
    for directory in site.getsitepackages(prefixes):
        with suppress(OSError):
            if os.path.isdir(directory) and not trust.why_not_tree(directory):
                yield directory
