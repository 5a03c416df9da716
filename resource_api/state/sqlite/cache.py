"""Texts kept beside a database for as long as it stays as it was left: each may be gone or worthless at any time.

They lie in a directory of their own, readable by us alone; what somebody else could have written is not believed.
Nothing here is durable, and nothing that goes wrong is an error: a run then does what it would have done without.
"""

from __future__ import annotations

import json
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values._blake2 import blake2b
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.state.sqlite import marker
from resource_api.state.sqlite import stack_rows as rows
from resource_api.state.sqlite.record_rows import unpack, unpack_owed
from resource_api.state.sqlite.stack_rows import SPAN, to_bytes
from resource_api.state.store import StackName

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from resource_api.model.record import Key, StackState
    from resource_api.state.sqlite.session import Opened
    from resource_api.state.sqlite.stack_rows import Header, Stack

_FLAGS: Final = os.O_NOFOLLOW | os.O_CLOEXEC
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
#: The name of the file that says how the database was left.
_LEFT: Final = "left"
#: So many texts are kept, the newest: labels may come and go with every run.
_MOST: Final = 16


def read(path: str, label: str) -> Any:
    """Give what was kept under ``label`` beside the database at ``path``; None unless all is as it was left."""
    left = _read(path, _LEFT)
    return _read(path, _name(label)) if left is not None and left == _looks(path) else None


def write(path: str, label: str, content: Any) -> None:
    """Keep ``content``, which is plain data, under ``label``; it counts once the database has been left."""
    with suppress(OSError):
        os.makedirs(_directory(path), 0o700, exist_ok=True)  # noqa: PTH103 - the path is text
        if _is_ours(path):
            _write(path, _name(label), content)
            _tidy(path)


def leave(path: str) -> None:
    """Note how the database is now, after its last connection was closed; for nothing, where nothing is kept."""
    with suppress(OSError):
        if _is_ours(path):
            _write(path, _LEFT, _looks(path))


def _directory(path: str) -> str:
    return f"{path}.converged"


def _is_ours(path: str) -> bool:
    return _ours(os.lstat(_directory(path)), stat.S_IFDIR)


def _tidy(path: str) -> None:
    with os.scandir(_directory(path)) as entries:
        found = [(each.stat(follow_symlinks=False).st_mtime_ns, each.path) for each in entries if each.name != _LEFT]
    for _, each in sorted(found)[:-_MOST]:
        os.unlink(each)  # noqa: PTH108 - the path is text


def _name(label: str) -> str:
    return blake2b(label.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _looks(path: str) -> list[int]:
    """Give what changes whenever the database does, whoever changes it."""
    found = os.stat(path)  # noqa: PTH116 - the path is text
    return [found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]


def _read(path: str, name: str) -> Any:
    with suppress(OSError, ValueError):
        if not _is_ours(path):
            return None
        with os.fdopen(os.open(os.path.join(_directory(path), name), os.O_RDONLY | _FLAGS), "rb") as file:  # noqa: PTH118 - the path is text
            if not _ours(os.fstat(file.fileno()), stat.S_IFREG):
                return None
            digest, _, body = file.read().partition(b"\n")
        if digest == _digest(body):
            return json.loads(body.decode("utf-8", "surrogatepass"))
    return None


def _write(path: str, name: str, content: Any) -> None:
    directory = _directory(path)
    body = json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass")
    new = os.path.join(directory, f"{name}.new")  # noqa: PTH118 - the path is text
    with os.fdopen(marker.private(new), "wb") as file:
        file.write(_digest(body) + b"\n" + body)
    os.rename(new, os.path.join(directory, name))  # noqa: PTH104, PTH118 - the path is text


def _ours(found: os.stat_result, kind: int) -> bool:
    return stat.S_IFMT(found.st_mode) == kind and found.st_uid == os.geteuid() and not found.st_mode & _OTHERS


def _digest(body: bytes) -> bytes:
    return blake2b(body, digest_size=16).hexdigest().encode()


class Kept(NamedTuple):
    """What was kept, of which stack as it stood then, and the rows of that stack's records."""

    name: StackName
    stood: str
    places: Sequence[int]
    content: Any


def keep(opened: Opened, label: str, stack: Stack, keys: Sequence[Key], content: Any) -> None:
    """Keep ``content`` under ``label`` if ``keys`` are those of all records, and nothing is secret or in doubt."""
    name = StackName(stack.state.project, stack.state.stack)
    header = opened.again().headers.get(name)
    places = stack.places(keys)
    if header is not None and places is not None and _usable(header):
        write(opened.database.path, label, Kept(name, _stands(header), places, content))


def find(path: str, label: str, headers: Mapping[StackName, Header]) -> Kept | None:
    """Give what was kept under ``label``; None where its stack is not as it stood then."""
    found = read(path, label)
    if not isinstance(found, list) or len(found) != len(Kept._fields):
        return None
    kept = Kept(StackName(*found[0]), *found[1:])
    header = headers.get(kept.name)
    return kept if header is not None and _usable(header) and _stands(header) == kept.stood else None


def picked(opened: Opened, kept: Kept, numbers: Iterable[int]) -> StackState | None:
    """Give the state with the records of ``numbers`` alone, as they are counted in ``keys``; None: it has changed."""
    header = opened.headers.get(kept.name)
    if header is None or _stands(header) != kept.stood:
        return None
    database, low = opened.database, header.number * SPAN
    found = [
        row for number in numbers for row in database.read("resource", kept.places[number], kept.places[number] + 1)
    ]
    records = {record.key: record for record in map(unpack, rows.to_values(found))}
    if len(records) != len(found):
        return None
    owed = unpack_owed(rows.to_values(database.read("owed", low, low + SPAN)))
    return header.state()._replace(records=records, owed=owed)


def _usable(header: Header) -> bool:
    return header.sealing is None and not header.content["tallies"]["intent"][0]


def _stands(header: Header) -> str:
    return blake2b(to_bytes(dict(header.content)), digest_size=16).hexdigest()
