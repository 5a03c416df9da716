"""The identity of this machine."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache

from resource_api.model.values.start_up import blake2b


@cache
def machine_id() -> str:
    """Return a digest of the machine id, or of the host name without one.

    machine-id(5): the id itself is confidential, and state may be in a database of many machines.
    """
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        with suppress(OSError), open(path, encoding="ascii", errors="replace") as file:
            if identifier := file.read(64).strip():
                break
    else:
        identifier = os.uname().nodename
    return blake2b(identifier.encode(), key=b"resource-api", digest_size=16).hexdigest()
