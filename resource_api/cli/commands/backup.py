"""``backup``: list the copies of files that runs have overwritten or removed, and restore one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import click

from resource_api.cli import options
from resource_api.cli.session import subcommand
from resource_api.model.values.errors import ResourceError, UsageError
from resource_api.render.table import table
from resource_api.render.text import time_of
from resource_api.system.filesystem import backups
from resource_api.system.filesystem.directories import canonical_path
from resource_api.system.filesystem.files import describe_error
from resource_api.system.filesystem.permissions import group_name, user_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from resource_api.cli.session import Session
    from resource_api.system.filesystem.backups import Backup

#: Digits of a SHA-256 that a list for people shows, and that `--at` needs.
_SHOWN_DIGITS: Final = 12
_FEWEST_DIGITS: Final = 4

_directory = click.option(
    "--directory",
    type=options.Path(),
    envvar=backups.DIRECTORY_VARIABLE,
    help="The directory of the copies, where it is not the default.",
)


@options.group(examples=("resource-api backup list", "resource-api backup restore motd"))
def backup() -> None:
    """List and restore copies of files, which runs have made where 'backup' is declared."""


@subcommand(backup, "list", examples=("resource-api backup list", "resource-api backup list /etc --json"))
@click.argument("path", required=False, type=options.Path())
@_directory
def list_(session: Session, path: str | None, directory: str | None, **_settings: object) -> None:
    """List the copies, the oldest first: all, or those of PATH and all beneath it. No content is shown."""
    store_path = _store_path(directory)
    copies = list(_copies(store_path, path))
    of_path = "" if path is None else f" of {_absolute(path)}, nor of anything beneath it,"
    session.console.show(
        lambda: [_row(copy) for copy in copies],
        lambda: table(
            [{**_row(copy), "time": time_of(copy.time), "sha256": copy.sha256[:_SHOWN_DIGITS]} for copy in copies], None
        ),
        f"there is no copy{of_path} in {store_path}",
    )


@subcommand(
    backup,
    "restore",
    examples=("resource-api backup restore motd", "resource-api backup restore motd --at 1dead9bdf5e0"),
)
@click.argument("path", type=options.Path())
@click.option("--at", metavar="SHA256", help="The content to restore, by the first digits of its SHA-256.")
@_directory
def restore(session: Session, path: str, at: str | None, directory: str | None, **_settings: object) -> None:
    """Restore PATH with the content and permissions of its newest copy.

    The present content of PATH is kept before, so that restoring again undoes it.
    """
    store_path = _store_path(directory)
    copy = _chosen(list(_copies(store_path, path, beneath=False)), _absolute(path), at)
    try:
        with backups.BackupStore(store_path) as store:
            store.restore(copy)
    except OSError as error:
        raise ResourceError(f"{copy.path}: {describe_error(error, copy.path)}") from error
    session.console.show(
        lambda: _row(copy), lambda: f"restored {copy.path} as of {time_of(copy.time)}: {copy.sha256[:_SHOWN_DIGITS]}"
    )


def _store_path(directory: str | None) -> str:
    """Return the absolute path of the directory of copies; ``directory``: the value of its option."""
    return backups.backup_directory() if directory is None else _absolute(directory)


def _absolute(path: str) -> str:
    """Return a path as copies name theirs: absolute, its directories without symbolic links."""
    return canonical_path(os.path.abspath(path))


def _copies(store_path: str, path: str | None, *, beneath: bool = True) -> Iterator[Backup]:
    """Yield the copies of a path, to be listed or restored, the oldest first; for None those of all paths.

    ``beneath``: also the copies of files in the directory ``path``. Raise ``ResourceError`` for an unreadable store.
    """
    try:
        copies = backups.list_backups(store_path)
    except OSError as error:
        msg = f"the copies in {store_path} cannot be read: {describe_error(error, store_path)}"
        raise ResourceError(msg) from error
    absolute = "" if path is None else _absolute(path).rstrip("/")
    for copy in copies:
        if path is None or copy.path == absolute or (beneath and copy.path.startswith(f"{absolute}/")):
            yield copy


def _chosen(copies: Sequence[Backup], path: str, at: str | None) -> Backup:
    """Return the newest copy, to be restored; with ``at``, the newest whose digest begins with it.

    Raise ``UsageError`` if ``at`` is too short or ambiguous, ``ResourceError`` if there is no such copy.
    """
    if at is not None and len(at) < _FEWEST_DIGITS:
        raise UsageError(f"--at {at}: give at least {_FEWEST_DIGITS} digits")
    matches = [copy for copy in copies if at is None or copy.sha256.startswith(at.lower())]
    if not matches:
        kind = "copy" if at is None else f"copy with a SHA-256 that begins with {at}"
        raise ResourceError(f"there is no {kind} of {path}; 'resource-api backup list' shows all")
    if at is not None and len({copy.sha256 for copy in matches}) > 1:
        raise UsageError(f"--at {at}: several copies of {path} begin so; give more digits")
    return matches[-1]


def _row(copy: Backup) -> dict[str, Any]:
    """Return a backup as ``backup list --json`` shows it: all but the content, which may be secret."""
    return {
        "time": copy.time,
        "sha256": copy.sha256,
        "size": copy.size,
        "mode": f"{copy.mode:04o}",
        "owner": user_name(copy.uid),
        "group": group_name(copy.gid),
        "path": copy.path,
    }
