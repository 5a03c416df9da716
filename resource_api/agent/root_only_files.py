"""What root may read and execute without a signature: files that only root, the caller and sudo's user can change."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from resource_api.model.values.errors import ResourceAPIError, StateError
from resource_api.system.filesystem import directories
from resource_api.system.filesystem.code_trust import CodeTrust

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Directories that are no part of a manifest: a repository of a version control system, and compiled Python.
IGNORED: Final = frozenset((".git", ".hg", ".svn", "__pycache__"))


class Untrusted(ResourceAPIError):  # noqa: N818 - reads as what it says
    """A source that cannot be verified, or is older than what was applied: nothing of it is applied."""

    exit_code = 65


def check_file(path: str, exempt: Iterable[str] = ()) -> None:
    """Raise ``Untrusted`` for a file that others can change, unless it is beneath an exempt directory; ``OSError``."""
    if why := CodeTrust(exempt).why_not(os.path.abspath(path)):
        msg = f"{path}: is not used, because others could have changed it: {why}"
        raise Untrusted(msg)


def check_tree(directory: str, exempt: Iterable[str]) -> None:
    """Raise ``Untrusted`` for a directory with a file that others can change, and ``OSError``.

    A link to a directory is not followed: what it leads to is checked where it is code.
    """
    trust = CodeTrust(exempt)
    for place, inner, names in os.walk(directory, onerror=_fail):
        inner[:] = sorted(set(inner) - IGNORED)
        for name in (".", *sorted(names)):
            if why := trust.why_not(os.path.abspath(f"{place}/{name}")):
                msg = f"{directory}: is not used, because others could have changed it: {why}"
                raise Untrusted(msg)


def make_directory(directory: str) -> None:
    """Make the directory of an agent, and those above it.

    Raise ``Untrusted`` for one that others can write to, ``StateError`` for one that cannot be made.
    """
    try:
        directories.make_directory(directory)
        check_file(directory)
    except OSError as error:
        msg = f"{error.filename or directory}: cannot be made: {error.strerror}"
        raise StateError(msg) from error


def _fail(error: OSError) -> None:
    raise error
