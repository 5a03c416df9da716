"""The command with hosts of the real sshd: an inventory beside a manifest, and a state of each host there."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from tests import json_schemas
from tests.command import environment_of
from tests.scenarios.conftest import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tests.fleet.sshd import Server


class SshFleet:
    """A directory with a manifest, whose hosts root logs in to."""

    def __init__(self, site: Path, home: Path, server: Server, addresses: Mapping[str, str]) -> None:
        """Write an inventory of hosts with these addresses of 127.0.0.0/8, which no other test uses."""
        self.site = site
        self.server = server
        site.mkdir(exist_ok=True)
        defaults = {"port": server.port, "identity": str(server.identity), "user": "root"}
        hosts = {name: {"address": address} for name, address in addresses.items()}
        (site / "hosts.yaml").write_text(json.dumps({"defaults": defaults, "hosts": hosts}))
        self.environment = environment_of(home, RESOURCE_API_FLEET=f"{home}/fleet")

    def write(self, text: str, name: str = "site.yaml") -> None:
        """Write a file of the manifest."""
        (self.site / name).parent.mkdir(parents=True, exist_ok=True)
        (self.site / name).write_text(text)

    def run(self, *words: str, program: Sequence[str] = ("-m", "resource_api"), **environment: Any) -> Outcome:
        """Give a command, and compare its JSON with its schema; ``program``: the arguments of Python before it."""
        process = subprocess.run(
            [sys.executable, *program, *words],
            cwd=self.site,
            env=self.environment | environment,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert "Traceback" not in process.stderr, process.stderr
        json_schemas.check(words, process.stdout, process.returncode)
        return Outcome(process.returncode, process.stdout, process.stderr)
