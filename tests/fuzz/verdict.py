"""Decide about one input in a process of its own: print the finding, which may also be that the process ends."""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path
from typing import Final

import tests.fuzz.targets  # noqa: F401 - registers the targets
from tests.fuzz.target import TARGETS, judge

#: Seconds for making an input smaller.
_SHRINK: Final = 10.0


def main(name: str, path: str, smaller: str) -> None:
    """Print the finding as JSON, ``null`` for none, and write the smallest input that shows the same one."""
    warnings.simplefilter("ignore")
    target, data = TARGETS[name], Path(path).read_bytes()
    judge(target, b"", 60)
    if (result := judge(target, data)) is not None and result.key != "slow":
        data = _shrunk(name, data, result.key)
        result = judge(target, data)
    Path(smaller).write_bytes(data)
    print(json.dumps(result))


def _shrunk(name: str, data: bytes, key: str) -> bytes:
    """Return the input without each part that is not needed for the finding."""
    target, end, size = TARGETS[name], time.monotonic() + _SHRINK, len(data) // 2
    while size:
        at = 0
        while at < len(data) and time.monotonic() < end:
            shorter = data[:at] + data[at + size :]
            again = judge(target, shorter)
            if again is not None and again.key == key:
                data = shorter
            else:
                at += size
        size //= 2
    return data


if __name__ == "__main__":
    main(*sys.argv[1:])
