"""The archive of runs: the history of finished ones in the database, and a file for each run beside it.

Both are shown to users, and no decision depends on them. The newest files are kept, up to a number and a size; they are
written after the commit, and of a run whose file is missing or damaged only its line in the history remains.
"""

from __future__ import annotations

import errno
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from resource_api.model import codec
from resource_api.model.values.errors import StateDamaged
from resource_api.model.values.start_up import regex
from resource_api.state.stack_rows import decode_rows, make_row
from resource_api.system.filesystem import private_files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.state.sqlite.database import Database
    from resource_api.state.store import StackName

#: The number of runs in the history, of all stacks together.
HISTORY: Final = 500
#: The number of files that are kept, and of their bytes together.
RUNS: Final = 100
BYTES: Final = 64 * 1024 * 1024
#: The time in UTC, so that names sort by it, and the id of the run.
_NAME: Final = regex(r"(\d{8}T\d{6}\.\d{6}Z)-([0-9a-z]+)\.json")


def add_finished(database: Database, name: StackName, run: Mapping[str, object]) -> None:
    """Write a finished run into the history, and delete the oldest beyond the last ``HISTORY`` runs.

    Call it within a transaction.
    """
    number = max(database.ids("run"), default=0) + 1
    database.delete_range("run", 0, number - HISTORY + 1)
    database.write("run", [make_row(number, codec.to_bytes({**run, "project": name.project, "stack": name.stack}))])


def rename_stack(database: Database, name: StackName, new: StackName) -> None:
    """Give the runs of a stack to ``new``. Call it within a transaction."""
    runs = _runs_by_row_id(database, name)
    database.write("run", [make_row(row_id, codec.to_bytes({**run, **new._asdict()})) for row_id, run in runs.items()])


def remove_stack(database: Database, name: StackName) -> None:
    """Delete the runs of a stack. Call it within a transaction."""
    database.delete("run", _runs_by_row_id(database, name))


def _runs_by_row_id(database: Database, name: StackName) -> dict[int, Mapping[str, object]]:
    """Return the finished runs of a stack by row id, to rename or remove them with the stack."""
    rows = database.read("run")
    runs = zip(rows, decode_rows(rows), strict=True)
    return {row_id: run for (row_id, _, _), run in runs if (run["project"], run["stack"]) == name}


def read_history(database: Database, name: StackName | None = None) -> list[Mapping[str, object]]:
    """Return the finished runs of a stack, or of all stacks, the oldest first, for the history.

    Raises ``StateError`` for a run that cannot be read.
    """
    try:
        runs: list[Mapping[str, object]] = list(decode_rows(database.read("run")))
        return [run for run in runs if name is None or (run["project"], run["stack"]) == name]
    except (StateDamaged, ValueError, TypeError, LookupError) as error:
        msg = f"{database.path}: state is damaged: a finished run cannot be read"
        raise StateDamaged(msg, "removes such runs from the history") from error


def remove_unreadable(database: Database) -> int:
    """Delete the finished runs that cannot be read, for ``state recover``; return their number.

    Otherwise they would end every listing of the history. Call it within a transaction.
    """
    unreadable = [row_id for row_id in database.ids("run") if not _is_readable(database, row_id)]
    database.delete("run", unreadable)
    return len(unreadable)


def _is_readable(database: Database, row_id: int) -> bool:
    """Return whether a finished run can be shown: its row is undamaged, and of the present form.

    A recovery removes all other runs, each of which would end every listing of the history.
    """
    try:
        return all(run["project"] and run["stack"] for run in decode_rows(database.read("run", row_id, row_id + 1)))
    except (StateDamaged, ValueError, TypeError, LookupError):
        return False


def write_file(path: str, run: str, content: bytes) -> None:
    """Write the file of a run, its document for later display, and remove the oldest files beyond the limits.

    ``path`` is that of the database. Raises ``OSError``; no part of the file remains then. A content above the limit
    of all files together is not written.
    """
    directory = f"{path}.runs"
    if len(content) > BYTES:
        return
    with suppress(FileExistsError):
        os.mkdir(directory, 0o700)
        os.chmod(directory, 0o700)
    if not private_files.is_private_directory(directory):
        raise PermissionError(errno.EPERM, f"{directory} is no directory of this user alone")
    private_files.replace(f"{directory}/{_time_stamp()}-{run}.json", content)
    _remove_oldest(directory)


def read_file(path: str, run: str) -> bytes | None:
    """Return the content of a run's file, to display an earlier run, or None without one. Raises ``OSError``."""
    directory = f"{path}.runs"
    for name in _file_names(directory):
        if _run_of(name) == run:
            return private_files.read(f"{directory}/{name}")
    return None


def saved_runs(path: str) -> list[str]:
    """Return the ids of the runs with a file, the oldest first. Raises ``OSError``."""
    return [_run_of(name) for name in _file_names(f"{path}.runs")]


def _file_names(directory: str) -> Sequence[str]:
    """Return the names of the files of runs, the oldest first; none in a directory that other users can write to.

    Another user could have put forged reports there.
    """
    with suppress(FileNotFoundError):
        if private_files.is_private_directory(directory):
            return private_files.oldest_first(filter(_NAME.fullmatch, os.listdir(directory)))
    return ()


def _run_of(name: str) -> str:
    """Return the id of the run that a file is named after, see ``_NAME``."""
    return name.partition("-")[2].removesuffix(".json")


def _time_stamp() -> str:
    """Return the present time (UTC, microseconds) as the beginning of file names, which then sort by time."""
    nanoseconds = time.time_ns()
    return time.strftime("%Y%m%dT%H%M%S", time.gmtime(nanoseconds // 10**9)) + f".{nanoseconds // 1000 % 10**6:06d}Z"


def _remove_oldest(directory: str) -> None:
    """Remove the files beyond the limits, and unfinished files of killed runs: no other run can be writing one now."""
    count = size = 0
    for name in reversed(private_files.oldest_first(os.listdir(directory))):
        is_run = _NAME.fullmatch(name) is not None
        if is_run:
            count += 1
            size += os.lstat(f"{directory}/{name}").st_size
        is_beyond = count > RUNS or size > BYTES
        if name.endswith(".new") or (is_run and is_beyond):
            os.unlink(f"{directory}/{name}")
