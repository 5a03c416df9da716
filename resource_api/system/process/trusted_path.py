"""Find programs that only root and the caller can change.

A program runs with the rights of this process, often root.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from resource_api.model.values.errors import CommandError
from resource_api.system.filesystem.code_trust import CodeTrust
from resource_api.system.filesystem.directories import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: The two ways to execute code that other users can change.
_WAYS: Final = (
    "declare the 'user' as whom it runs; or, if you trust everybody who can write there, give --trust-path DIR"
)
SECURE_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@cache
def locate(name: str, user: int = 0) -> str:
    """Return the path of a program that only root, the caller and ``user`` can change; cached for the process.

    ``name`` is a full path, or a bare name on ``SECURE_PATH``. Raise ``CommandError`` for a program that is missing,
    not executable, or that another user could change.
    """
    if "/" in name and not name.startswith("/"):
        raise refused(name, "is a relative path; give a full path or a bare name")
    paths = [Path(name)] if name.startswith("/") else [Path(directory, name) for directory in SECURE_PATH.split(":")]
    programs = [path for path in paths if path.is_file()]
    usable = next((path for path in programs if os.access(path, os.X_OK, effective_ids=True)), None)
    if usable is None and programs:
        raise refused(name, f"is not executable: {programs[0]}")
    if usable is None:
        hint = "; its arguments are given in each call" if " " in name and _exists(name.partition(" ")[0]) else ""
        raise refused(name, ("not found" if name.startswith("/") else f"not found in {SECURE_PATH}") + hint)
    if reason := CodeTrust(users={*ROOT, os.geteuid(), user}).check_file(str(usable)):
        raise refused(name, f"is refused: {reason}")
    return str(usable)


def check_code(name: str, trees: Iterable[str], directories: Iterable[str], trusted: Iterable[str]) -> None:
    """Raise ``CommandError`` if other users can change code that a program executes besides itself.

    No other user may change the files and ``trees``, nor add a file to one of the ``directories``. Files beneath the
    ``trusted`` directories are not checked.
    """
    trust = CodeTrust(trusted)
    checks: list[tuple[str, Callable[[str], str]]] = [(path, trust.check_directory) for path in directories]
    checks += [(path, trust.check_tree) for path in trees]
    for path, risk in checks:
        try:
            reason = risk(path)
        except OSError as error:
            reason = f"'{error.filename or path}' cannot be checked: {error.strerror}"
        if reason:
            msg = f"is refused: it executes what is in '{path}', and others could have changed it: {reason}; or {_WAYS}"
            raise refused(name, msg)


def _exists(name: str) -> bool:
    return any(Path(directory, name).is_file() for directory in SECURE_PATH.split(":"))


def refused(name: str, reason: str) -> CommandError:
    """Return the error of a program that is not executed."""
    return CommandError(f"command '{name}' {reason}", (name,))
