"""What must be there: a small file beside a database that says which states it has held, so that none is lost unseen.

A database that is missing, empty or older than this says is damage, never a fresh start. Written whole or not at all,
and durable when written; who writes it holds the lock.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values._blake2 import blake2b
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Mapping

_FLAGS: Final = os.O_NOFOLLOW | os.O_CLOEXEC

#: Project and stack → lineage and serial.
Known = dict[tuple[str, str], tuple[str, int]]


class Marker(NamedTuple):
    """What a database has held; ``making``: it is being created, so that it may be missing."""

    known: Mapping[tuple[str, str], tuple[str, int]]
    making: bool = False


def read(path: str) -> Marker | None:
    """Give the marker of the database at ``path``, or None when there is none. Raises ``StateError``."""
    try:
        fd = os.open(f"{path}.marker", os.O_RDONLY | _FLAGS)
        with os.fdopen(fd, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        msg = f"{path}.marker: cannot be read: {error.strerror}"
        raise StateError(msg) from error
    try:
        digest, body = json.loads(data)
        if digest == _digest(body):
            return Marker({(p, s): (lineage, serial) for p, s, lineage, serial in body["known"]}, body["making"])
    except (ValueError, TypeError, KeyError):
        pass
    msg = f"{path}.marker: is damaged; 'resource-api state recover' writes it anew"
    raise StateError(msg)


def write(path: str, marker: Marker) -> None:
    """Put a marker beside the database at ``path``. Raises ``StateError``; then the one before is still there."""
    known = sorted([*name, *last] for name, last in marker.known.items())
    body = {"known": known, "making": marker.making}
    data = json.dumps([_digest(body), body]).encode() + b"\n"
    try:
        replace(f"{path}.marker", data)
    except OSError as error:
        msg = f"{path}.marker: cannot be written: {error.strerror}"
        raise StateError(msg) from error


def replace(path: str, data: bytes) -> None:
    """Replace a private file's content durably, all or nothing. Raises ``OSError``."""
    new = f"{path}.new"
    fd = private(new)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        os.fsync(fd)
    except BaseException:
        with suppress(OSError):
            os.unlink(new)  # noqa: PTH108 - the path is text
        raise
    finally:
        os.close(fd)
    rename(new, path)


def private(path: str) -> int:
    """Make an empty file that only we can read, whatever the umask; gives it open. What a crash left there goes."""
    with suppress(FileNotFoundError):
        os.unlink(path)  # noqa: PTH108 - the path is text
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600)
    os.fchmod(fd, 0o600)
    return fd


def rename(old: str, new: str) -> None:
    """Rename within one directory, durably. Raises ``OSError``."""
    os.rename(old, new)  # noqa: PTH104 - the paths are text
    fd = os.open(os.path.dirname(new) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # noqa: PTH120 - the same
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _digest(body: Any) -> str:
    return blake2b(json.dumps(body, sort_keys=True).encode(), digest_size=8).hexdigest()
