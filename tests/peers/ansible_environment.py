"""Ansible with its collections, installed into an environment of its own below ``.peers``."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from typing import TYPE_CHECKING, Final

from tests import command

if TYPE_CHECKING:
    from pathlib import Path

ENVIRONMENT: Final = command.ROOT / ".peers" / "ansible"


@cache
def program(name: str) -> Path:
    """Return the path of a program of the environment, which is made at first: ``python``, ``ansible-playbook``."""
    if not list(ENVIRONMENT.glob("lib/python*/site-packages/ansible_collections/community/general")):
        subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True)
        pip = [str(ENVIRONMENT / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "-q"]
        subprocess.run([*pip, "ansible"], check=True, capture_output=True)
    return ENVIRONMENT / "bin" / name
