"""The command without a promise for power failures: what is written reaches the disk when the kernel likes.

Only to measure what that promise costs, beside the command itself.
"""

from __future__ import annotations

import os
from typing import Any

from resource_api.__main__ import main
from resource_api.state.sqlite import database
from resource_api.system.filesystem import fsync


def _nothing(_fd: Any) -> Any:
    """Flush nothing."""


setattr(os, "fsync", _nothing)  # noqa: B010 - it is replaced for whoever calls it
setattr(os, "fdatasync", _nothing)  # noqa: B010 - the same
setattr(fsync, "_syncfs", _nothing)  # noqa: B010 - the one place where it is called
setattr(database, "_SETTINGS", ("busy_timeout=5000", "synchronous=OFF"))  # noqa: B010 - a constant, here alone
main()
