"""The programs that a command starts, as the kernel sees them."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path


class Run(NamedTuple):
    """What a command prints, and the paths of the programs that it has started, in order."""

    stdout: str
    programs: list[str]


def traced(trace: Path, *arguments: str | Path) -> Run:
    """Run ``resource-api``, which must succeed; ``trace`` is a new file."""
    strace = ("strace", "-f", "-qq", "-z", "-e", "trace=execve,execveat", "-o", trace)
    process = subprocess.run(
        [*strace, sys.executable, "-m", "resource_api", *arguments], check=False, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stdout + process.stderr
    itself, *programs = re.findall(r'^\d+ +execve(?:at)?\((?:\w+, )?"(.*?)"', trace.read_text(), re.MULTILINE)
    assert itself == sys.executable
    return Run(process.stdout, programs)
