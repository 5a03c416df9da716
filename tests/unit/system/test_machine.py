"""The identity of a machine in state."""

from __future__ import annotations

import os
import re
import subprocess

from resource_api.system.facts import machine_id


def test_the_identity_of_a_machine_shows_neither_its_id_nor_its_name() -> None:
    """The id is confidential; the same machine has the same identity."""
    command = ["cat", "/etc/machine-id", "/var/lib/dbus/machine-id"]
    ids = subprocess.run(command, check=False, capture_output=True).stdout
    assert re.fullmatch("[0-9a-f]{32}", machine_id())
    assert machine_id() not in {*ids.decode().split(), os.uname().nodename}
    machine_id.cache_clear()
    first = machine_id()
    machine_id.cache_clear()
    assert machine_id() == first
