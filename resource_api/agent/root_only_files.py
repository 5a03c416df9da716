"""Checks of unsigned files: only root, the caller and sudo's user may be able to change them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from resource_api.model.values.errors import ResourceAPIError, ResourceError, StateError
from resource_api.system.filesystem import directories
from resource_api.system.filesystem.code_trust import CodeTrust

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Directories outside manifests: repositories of version control systems, and compiled Python.
IGNORED: Final = frozenset((".git", ".hg", ".svn", "__pycache__"))


class Untrusted(ResourceAPIError):  # noqa: N818 - the state of a source
    """A source cannot be verified, or is older than the applied version; nothing of it is applied."""

    exit_code = 65


def check_file(path: str, exempt: Iterable[str] = ()) -> None:
    """Raise ``Untrusted`` if other users can change a file outside the exempt directories; ``OSError``."""
    if reason := CodeTrust(exempt).check_file(os.path.abspath(path)):
        msg = f"{path}: is not used, because others could have changed it: {reason}"
        raise Untrusted(msg)


def check_tree(directory: str, exempt: Iterable[str]) -> None:
    """Raise ``Untrusted`` if other users can change a file in a directory, ``ResourceError`` if it is unreadable.

    Links to directories are not followed: code behind them is checked when it is loaded.
    """
    trust = CodeTrust(exempt)
    try:
        for parent, inner, names in os.walk(directory, onerror=_fail):
            inner[:] = sorted(set(inner) - IGNORED)
            for name in (".", *sorted(names)):
                if reason := trust.check_file(os.path.abspath(f"{parent}/{name}")):
                    msg = f"{directory}: is not used, because others could have changed it: {reason}"
                    raise Untrusted(msg)
    except OSError as error:
        msg = f"{error.filename or directory}: {error.strerror}"
        raise ResourceError(msg) from error


def make_directory(directory: str) -> None:
    """Create the directory of an agent and its parents.

    Raise ``Untrusted`` if other users can write to it, ``StateError`` if it cannot be created.
    """
    try:
        directories.make_directory(directory)
        check_file(directory)
    except OSError as error:
        msg = f"{error.filename or directory}: cannot be made: {error.strerror}"
        raise StateError(msg) from error


def _fail(error: OSError) -> None:
    """Raise the error of a directory that ``os.walk`` cannot read and would otherwise skip."""
    raise error
