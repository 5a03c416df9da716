"""The directory in which this program keeps what it needs between runs: for root that of the machine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from resource_api.model.values.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping


def state_directory(environment: Mapping[str, str]) -> str:
    """Return the path of the directory; it need not exist.

    A relative ``XDG_STATE_HOME`` is ignored (XDG Base Directory Specification 0.8). Raise ``UsageError`` when there is
    no home directory.
    """
    if os.geteuid() == 0:
        return "/var/lib/resource-api"
    home = environment.get("XDG_STATE_HOME", "")
    if not home.startswith("/"):
        home = os.path.expanduser("~/.local/state")
    if not home.startswith("/"):
        msg = "there is no home directory for the state; name a place with --state sqlite:PATH"
        raise UsageError(msg)
    return f"{home}/resource-api"
