"""Prerequisites of a change on this machine: the problems that ``preflight`` returns for files, jobs and processes."""

from __future__ import annotations

import grp
import os
import pwd
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, TypeVar

from lib import validate_cmd
from resource_api import Command, CommandError, Problem, ResourceError, files

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

Name = TypeVar("Name", bound="Hashable")

#: The types whose changes bring more than they declare: directories, programs, users.
BRINGING: Final = ("ansible_module", "archive", "exec", "git_checkout", "package")


class MissingModuleError(ResourceError):
    """A Python module is not installed here."""


@contextmanager
def needing(module: str, source: str) -> Iterator[None]:
    """Raise ``MissingModuleError`` if a Python module that the ``with`` block imports is missing.

    ``source`` names its package, or the command that installs it, for the message.
    """
    try:
        # Imported before the block: a module of ours that the block imports, and that needs this one, would fail with
        # an error that does not name the missing package.
        import_module(module)
        yield
    except ImportError as error:
        raise MissingModuleError(f"needs the Python module {module} ({source}): {error}") from None


def missing_user(attribute: str, user: Any) -> Iterator[Problem]:
    """Yield a problem if there is no user of this name; None and numbers need none."""
    yield from _missing_account(attribute, user, "user", pwd.getpwnam)


def missing_group(attribute: str, group: Any) -> Iterator[Problem]:
    """Yield a problem if there is no group of this name; None and numbers need none."""
    yield from _missing_account(attribute, group, "group", grp.getgrnam)


def _missing_account(attribute: str, name: Any, kind: str, find: Callable[[str], object]) -> Iterator[Problem]:
    """Yield a problem if there is no user or group with a declared name; a number needs no account."""
    if name is not None and files.owner_number(name) is None:
        try:
            find(name)
        except KeyError:
            message, needs = f"there is no {kind} '{name}'", f"{kind.capitalize()}[{name}]"
            yield Problem(attribute, message, needs=needs, brought_by=BRINGING)


def written_in_place(paths: Mapping[Name, str], *, follow: bool = True) -> Iterator[tuple[Name, Problem]]:
    """Yield a warning for each file that cannot be replaced atomically, but only overwritten in its place.

    An example is a mount point: while it is overwritten, other programs may read only a part of the new content. A file
    that cannot be written at all is an error. ``follow``: follow a link at the end of a path, as functions that edit
    files do.
    """
    reasons = files.why_not_replaced(paths.values(), follow=follow)
    read_only = cache(_is_read_only)
    for name, path in paths.items():
        target = os.path.realpath(path) if follow else path
        yield from ((name, problem) for problem in locked(target))
        if read_only(target if os.path.lexists(target) else os.path.dirname(target)):  # noqa: PTH120 - text in, text out
            yield name, Problem(None, f"'{path}' is on a read-only file system", brought_by=("exec", "mount"))
        elif path in reasons and _can_others_replace(path):
            message = f"{reasons[path]}, and other users can write to a directory on its path, so it is not overwritten"
            yield name, Problem(None, message, brought_by=("exec",))
        elif path in reasons:
            message = f"{reasons[path]}, so it is overwritten where it is, which is not atomic"
            yield name, Problem(None, message, severity="warning")


def edited(paths: Mapping[Name, str]) -> Iterator[tuple[Name, Problem]]:
    """Yield the problems of editing or making files: missing directories, and files that cannot be replaced."""
    yield from ((name, problem) for name, path in paths.items() for problem in missing_parent(path))
    yield from written_in_place(paths)


def _is_read_only(path: str) -> bool:
    """Return whether a file or directory is on a file system that is mounted read-only, so that no write can succeed.

    A missing path is not: ``missing_parent`` reports a missing directory.
    """
    with suppress(OSError):
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    return False


def _can_others_replace(path: str) -> bool:
    """Return whether other users can put another file in the place of one."""
    with files.Batch() as batch:
        return batch.can_others_replace(path)


def locked(path: str, *, removed: bool = False) -> Iterator[Problem]:
    """Yield a problem if a file to write, or with ``removed`` to remove, is made immutable by chattr(1)."""
    if attributed := files.locked_path(path, removed=removed):
        message = f"'{attributed}' is immutable: remove the attribute before, with chattr -i or -a"
        yield Problem(None, message, brought_by=("exec",))


def present(changes: Mapping[Name, Mapping[str, Any]]) -> dict[Name, Mapping[str, Any]]:
    """Return the changes without removals, which need nothing that a machine may lack."""
    return {name: should for name, should in changes.items() if should.get("ensure") != "absent"}


def kept_by_mounts(
    changes: Mapping[Name, Mapping[str, Any]], path_of: Callable[[Name], str] = str
) -> Iterator[tuple[Name, Problem]]:
    """Yield a problem for each path to be removed that is or contains a mount point, as the kernel refuses it."""
    paths = {name: path_of(name) for name, should in changes.items() if should.get("ensure") == "absent"}
    mounted = sorted(files.mount_points()) if any(map(os.path.lexists, paths.values())) else []
    for name, path in paths.items():
        yield from ((name, problem) for problem in locked(path, removed=True))
        # A link at the end of the path is removed itself: only the directories above it are resolved.
        directory, _, last = path.rpartition("/")
        real = f"{os.path.realpath(directory or '/').rstrip('/')}/{last}"
        for mount in mounted:
            if mount == real or mount.startswith(f"{real}/"):
                message = f"'{mount}' is a mount point, so it cannot be removed before it is unmounted"
                yield name, Problem("ensure", message, needs=f"Mount[{mount}]")
                break


def of_files(
    changes: Mapping[Name, Mapping[str, Any]],
    missing: Callable[[Name, Mapping[str, Any]], Iterable[Problem]] = lambda _name, _should: (),
    path_of: Callable[[Name], str] = str,
    *,
    replaced: bool = True,
    follow: bool = False,
) -> Iterator[tuple[Name, Problem]]:
    """Yield the problems of resources that are files, for their creation, change or removal.

    The ``preflight`` of a type of files is mostly this call. ``missing`` returns further problems of a change that is
    no removal, ``path_of`` the path of a name. With ``replaced`` a file is written at each path; ``follow`` is as for
    ``written_in_place``.
    """
    yield from kept_by_mounts(changes, path_of)
    changes = present(changes)
    for name, should in changes.items():
        yield from ((name, problem) for problem in missing(name, should))
    if replaced:
        yield from written_in_place({name: path_of(name) for name in changes}, follow=follow)


def missing_place(path: str, should: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the problems of a new file: its directory, its ``owner`` and its ``group`` must exist."""
    yield from missing_parent(path)
    yield from missing_user("owner", should.get("owner"))
    yield from missing_group("group", should.get("group"))


def missing_parent(path: str) -> Iterator[Problem]:
    """Yield a problem if the directory that a path is in does not exist."""
    yield from missing_directory(None, os.path.dirname(path))  # noqa: PTH120 - text in, text out


def missing_directory(attribute: str | None, path: Any) -> Iterator[Problem]:
    """Yield a problem if a declared directory does not exist, unless another resource is to make it (``needs``)."""
    if path is not None and not os.path.isdir(path):  # noqa: PTH112 - text in, text out
        exists = os.path.lexists(path)
        message = f"'{path}' is not a directory" if exists else f"the directory '{path}' does not exist"
        yield Problem(attribute, message, needs=f"File[{path}]", brought_by=BRINGING)


def missing_file(attribute: str, path: Any) -> Iterator[Problem]:
    """Yield a problem if a path is declared, as text, and does not exist."""
    if isinstance(path, str) and not os.path.lexists(path):
        yield Problem(attribute, f"'{path}' does not exist", needs=f"File[{path}]", brought_by=BRINGING)


def missing_made_file(attribute: str, path: Any, kind: str) -> Iterator[Problem]:
    """Yield a problem if a declared path does not exist, unless a resource of the type ``kind`` is to make it."""
    yield from (problem._replace(needs=f"{kind}[{path}]") for problem in missing_file(attribute, path))


def missing_module(module: str, needs: str) -> Iterator[Problem]:
    """Yield a problem if a Python module is not installed; ``needs``: the resource that installs it."""
    # ``find_spec`` of ``a.b`` imports ``a``, and raises an error if there is none.
    if find_spec(module.partition(".")[0]) is None or find_spec(module) is None:
        yield Problem(None, f"the Python module {module} is not installed", needs=needs, brought_by=BRINGING)


def missing_program(attribute: str | None, program: str, needs: str | None = None) -> Iterator[Problem]:
    """Yield a problem if a program, a full path or a bare name, cannot be found; ``needs`` as of ``Problem``."""
    try:
        Command(program).locate()
    except CommandError as error:
        needs = needs or (f"File[{program}]" if program[:1] == "/" else None)
        yield Problem(attribute, str(error), needs=needs, brought_by=BRINGING)


def missing_checker(command: Any) -> Iterator[Problem]:
    """Yield a problem if the program of a declared ``validate_cmd`` cannot be found."""
    if command is not None:
        yield from missing_program("validate_cmd", validate_cmd.words(command)[0])
