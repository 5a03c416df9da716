"""The files of the no-change cache: conclusions of runs from the state of a stack, valid until that state changes.

An entry is bound to the header of its stack, which holds the tallies of all rows, and to the database file as the last
session left it: after another commit, an interrupted run, or any other change of the file, it is ignored. Entries of
encrypted stacks are not kept. They are files in a directory of their own, readable by their owner only; a file that
another user could have written is ignored. Nothing here is durable, and no failure is an error: a run then makes a
whole plan.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from resource_api.model import codec
from resource_api.model.values.start_up import NamedTuple, blake2b
from resource_api.state.stack_rows import Header, StackRows, decode_rows, unpack, unpack_owed
from resource_api.state.store import StackName
from resource_api.system.filesystem import private_files
from resource_api.system.filesystem.directories import make_directory

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from resource_api.model.record import RecordKey, StackState
    from resource_api.state.sqlite.session import OpenState

#: The file with the identity of the database file at the end of the last session.
_IDENTITY: Final = "left"
#: The number of entries that are kept, the newest ones: each run may use another label.
_ENTRIES: Final = 16


class SavedConclusion(NamedTuple):
    """A cache entry: its stack, the digest of the stack's header, the row ids of all records, and the content."""

    name: StackName
    digest: str
    ids: Sequence[int]
    content: object


def save(opened: OpenState, label: str, stack: StackRows, keys: Sequence[RecordKey], content: object) -> None:
    """Save ``content``, plain data, under ``label``; it becomes valid when the session ends.

    Nothing is saved unless ``keys`` are the keys of all records, or while an intent is open.
    """
    header = opened.refreshed().headers.get(stack.name)
    ids = stack.ids(keys)
    path = opened.database.path
    if header is None or ids is None or not header.cacheable:
        return
    with suppress(OSError):
        make_directory(_directory(path))
        if private_files.is_private_directory(_directory(path)):
            _write_file(path, _file_name(label), SavedConclusion(stack.name, _digest_header(header), ids, content))
            _remove_oldest(path)


def load(opened: OpenState, label: str) -> SavedConclusion | None:
    """Return the entry of ``label``, or None if its stack or the database file changed."""
    path = opened.database.path
    identity = _read_file(path, _IDENTITY)
    if identity is None or identity != _identity(path):
        return None
    values = _read_file(path, _file_name(label))
    if not isinstance(values, list) or len(values) != len(SavedConclusion._fields):
        return None
    try:
        name, *columns = values
        entry = SavedConclusion(StackName(*name), *columns)
        header = opened.headers.get(entry.name)
    except TypeError:
        return None
    return entry if header is not None and header.cacheable and _digest_header(header) == entry.digest else None


def load_records(opened: OpenState, entry: SavedConclusion, positions: Iterable[int]) -> StackState | None:
    """Return the state with only the records at these positions among the saved keys, or None if it changed."""
    header = opened.headers.get(entry.name)
    if header is None or _digest_header(header) != entry.digest:
        return None
    ids = [entry.ids[position] for position in positions]
    rows = [row for row_id in ids for row in opened.database.read("resource", row_id, row_id + 1)]
    records = {record.key: record for record in map(unpack, decode_rows(rows))}
    if len(records) != len(ids):
        return None
    owed = unpack_owed(decode_rows(header.read(opened.database, "owed")))
    return header.state()._replace(records=records, owed=owed)


def validate(path: str) -> None:
    """Make the saved entries valid for the database file as it is now; its last connection must be closed."""
    with suppress(OSError):
        if private_files.is_private_directory(_directory(path)):
            _write_file(path, _IDENTITY, _identity(path))


def _digest_header(header: Header) -> str:
    """Return a digest of a stack's header: it differs after every commit, because the header has the serial."""
    return blake2b(codec.to_bytes(dict(header.content)), digest_size=16).hexdigest()


def _identity(path: str) -> list[int]:
    """Return attributes of the database file that differ after any write to it."""
    status = os.stat(path)
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def _directory(path: str) -> str:
    """Return the directory of the entries of the database at ``path``."""
    return f"{path}.converged"


def _file_name(label: str) -> str:
    """Return the name of an entry's file, a digest: a label may be no file name."""
    return blake2b(label.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _remove_oldest(path: str) -> None:
    """Remove all but the newest entries."""
    with os.scandir(_directory(path)) as files:
        entries = [file for file in files if file.name != _IDENTITY]
        entries.sort(key=lambda file: file.stat(follow_symlinks=False).st_mtime_ns)
    for file in entries[:-_ENTRIES]:
        os.unlink(file.path)


def _read_file(path: str, name: str) -> object:
    """Return the content of a file, or None if it is missing, damaged, or could be another user's."""
    with suppress(OSError, ValueError, RecursionError):
        if not private_files.is_private_directory(_directory(path)):
            return None
        digest, _, body = (private_files.read(f"{_directory(path)}/{name}") or b"").partition(b"\n")
        if digest == _digest(body):
            return json.loads(body.decode("utf-8", "surrogatepass"))
    return None


def _write_file(path: str, name: str, content: object) -> None:
    """Write JSON data after its digest, atomically. Raise ``OSError``."""
    body = json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass")
    new = f"{_directory(path)}/{name}.new"
    with os.fdopen(private_files.create(new), "wb") as file:
        file.write(_digest(body) + b"\n" + body)
    os.rename(new, new.removesuffix(".new"))


def _digest(body: bytes) -> bytes:
    return blake2b(body, digest_size=16).hexdigest().encode()
