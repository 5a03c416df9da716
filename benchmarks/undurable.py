"""The command without durability: no write is flushed to the disk.

Only to measure the cost of durability, compared with the command itself.
"""

from __future__ import annotations

import os
from typing import Any

from resource_api.__main__ import main
from resource_api.state.sqlite import database
from resource_api.system.filesystem import files


def _nothing(_fd: Any) -> Any:
    """Do not flush."""


setattr(os, "fsync", _nothing)  # noqa: B010 - replaced for all callers
setattr(os, "fdatasync", _nothing)  # noqa: B010 - the same
setattr(files, "_syncfs", _nothing)  # noqa: B010 - called only there
setattr(database, "_SETTINGS", ("busy_timeout=5000", "synchronous=OFF"))  # noqa: B010 - a constant elsewhere
main()
