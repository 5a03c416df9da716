"""The least that applying a manifest of files costs in Python: the JSON parser, and the system calls.

Run as a program, without the site module: ``floor.py check|apply MANIFEST``. It has no safety, no validation, and no
report except the number of differing files.
"""

from __future__ import annotations

import json
import os
import sys


def converge(path: str, content: bytes, mode: int, *, write: bool) -> bool:
    """Compare one file with its declaration, write it if requested, and return whether it differed."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        status = None
    if status is not None and status.st_mode == 0o100000 | mode and status.st_size == len(content):
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        data = os.read(file, status.st_size + 1)
        os.close(file)
        if data == content:
            return False
    if write:
        temporary = f"{path}.new"
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.write(file, content)
        os.fchmod(file, mode)
        os.close(file)
        os.rename(temporary, path)  # noqa: PTH104 - pathlib costs time
    return True


def run(word: str, manifest: str) -> None:
    """Check or apply a manifest of files as ``workloads`` writes it, and print the number of differing files."""
    with open(manifest, "rb") as file:  # noqa: PTH123 - the same
        resources = json.loads(file.read())["resources"]
    differing = 0
    for reference, declared in resources.items():
        path = reference[len("File[") : -1]
        differing += converge(path, declared["content"].encode(), int(declared["mode"], 8), write=word == "apply")
    sys.stdout.write(f"{differing}\n")


run(*sys.argv[1:])
