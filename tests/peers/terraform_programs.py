"""Programs of Terraform providers from wheels, each installed into an environment below ``.peers``."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

from tests import command

PEERS: Final = command.ROOT / ".peers"
JAR: Final = Path(__file__).parent / "jar_provider.py"


@cache
def program(name: str) -> Path:
    """Return the program of a provider, installed at first: an official one in Go, ``pyvider``, or ``jar``."""
    if name in {"pyvider", "jar"}:
        return _of_pyvider() if name == "pyvider" else _of_jar()
    environment = PEERS / "terraform"
    programs = list(environment.glob(f"lib/terraform-provider-{name}_v*"))
    if not programs:
        _install(environment, f"terraform-{name}-provider-wrapper")
        programs = list(environment.glob(f"lib/terraform-provider-{name}_v*"))
    return programs[0]


def _of_pyvider() -> Path:
    """Return the program of the package pyvider-components, which insists on its name."""
    installed = PEERS / "pyvider" / "bin"
    path = installed / "terraform-provider-pyvider"
    if not path.exists():
        _install(PEERS / "pyvider", "pyvider==0.8.1", "pyvider-components==0.8.1")
        shutil.copy(installed / "pyvider", path)
    return path


def _of_jar() -> Path:
    """Return a program of the tests that is made with the package tf."""
    installed = PEERS / "tf" / "bin"
    path = installed / "terraform-provider-jar"
    if not list(PEERS.glob("tf/lib/*/site-packages/tf")):
        _install(PEERS / "tf", "tf==1.2.0")
    words = shlex.join([str(installed / "python"), str(JAR)])
    path.write_text(f"#!/bin/sh\nexec {words}\n")
    path.chmod(0o755)
    return path


def _install(environment: Path, *packages: str) -> None:
    """Install packages into an environment of their own."""
    if not (environment / "bin" / "python").exists():
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    pip = [str(environment / "bin" / "pip"), "--disable-pip-version-check", "install", "-q"]
    subprocess.run([*pip, *packages], check=True, capture_output=True)


class Site:
    """A directory with a manifest and an encrypted state."""

    def __init__(self, home: Path) -> None:
        """Keep everything below ``home``."""
        self.home = home
        self.environment = command.environment_of(home, RESOURCE_API_STATE=f"sqlite:{home}/state.db")
        self.environment["RESOURCE_API_KEY"] = f"file:{home}/key"
        assert self.run("new", "key", "key")[0] == 0

    def run(self, *arguments: str) -> tuple[int, str]:
        """Run a command; return its exit code and all output."""
        ended = command.run(arguments, cwd=self.home, env=self.environment, text=True, timeout=60)
        return ended.returncode, ended.stdout + ended.stderr

    def write(self, name: str, resources: str, config: str = "{}", more: str = "") -> None:
        """Write a manifest with a provider and these resources."""
        entry = f'  "{name}": {{path: {program(name)}, config: {config}}}\n'
        (self.home / "site.yaml").write_text(f"providers:\n{entry}resources:\n{resources}{more}")
