"""The identity of this machine."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache


@cache
def machine_id() -> str:
    """Return the machine id (machine-id(5)), or the host name without one."""
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        with suppress(OSError), open(path, encoding="ascii", errors="replace") as file:
            if identifier := file.read(64).strip():
                return identifier
    return os.uname().nodename
