"""What a change of a file, a job or a process needs of this machine: the problems that ``preflight`` returns."""

from __future__ import annotations

import grp
import os
import pwd
from typing import TYPE_CHECKING, Any

from resource_api import Command, CommandError, Problem, files

if TYPE_CHECKING:
    from collections.abc import Iterator


def missing_user(attribute: str, user: Any) -> Iterator[Problem]:
    """Yield a problem if there is no user of this name; None and numbers need none."""
    if user is not None and files.owner_number(user) is None:
        try:
            pwd.getpwnam(user)
        except KeyError:
            yield Problem(attribute, f"there is no user '{user}'", needs=f"User[{user}]")


def missing_group(attribute: str, group: Any) -> Iterator[Problem]:
    """Yield a problem if there is no group of this name; None and numbers need none."""
    if group is not None and files.owner_number(group) is None:
        try:
            grp.getgrnam(group)
        except KeyError:
            yield Problem(attribute, f"there is no group '{group}'", needs=f"Group[{group}]")


def missing_parent(attribute: str | None, path: str) -> Iterator[Problem]:
    """Yield a problem if the directory that a path is in does not exist."""
    yield from missing_directory(attribute, os.path.dirname(path))  # noqa: PTH120 - text in, text out


def missing_directory(attribute: str | None, path: Any) -> Iterator[Problem]:
    """Yield a problem if a path is declared and is no directory."""
    if path is not None and not os.path.isdir(path):  # noqa: PTH112 - text in, text out
        there = os.path.lexists(path)
        what = f"'{path}' is not a directory" if there else f"the directory '{path}' does not exist"
        yield Problem(attribute, what, needs=f"File[{path}]")


def missing_file(attribute: str, path: Any) -> Iterator[Problem]:
    """Yield a problem if a path is declared, as text, and does not exist."""
    if isinstance(path, str) and not os.path.lexists(path):
        yield Problem(attribute, f"'{path}' does not exist", needs=f"File[{path}]")


def missing_program(attribute: str | None, program: str, needs: str | None = None) -> Iterator[Problem]:
    """Yield a problem if a program, a full path or a bare name, cannot be found; ``needs`` as of ``Problem``."""
    try:
        Command(program).locate()
    except CommandError as error:
        yield Problem(attribute, str(error), needs=needs or (f"File[{program}]" if program[:1] == "/" else None))
