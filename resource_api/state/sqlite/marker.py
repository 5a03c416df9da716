"""The marker: a small file beside the database with the last known version of every stack.

A database that is missing, empty or older than its marker is damaged; it is never taken for a fresh start. The marker
is replaced atomically and durably, and only by the holder of the lock. What the database contains must not enter here.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values._blake2 import blake2b
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import StateDamaged, StateError
from resource_api.state.sqlite import private_files
from resource_api.state.store import StackName

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    #: Lineage and serial of a stack.
    Version = tuple[str, int]

_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


class Marker(NamedTuple):
    """The versions that the database must contain; ``creating``: it is being created and may be missing."""

    versions: Mapping[StackName, Version]
    creating: bool = False

    def losses(self, found: Mapping[StackName, Version]) -> Iterator[str]:
        """Yield a sentence for each stack that is missing, older or of another lineage in ``found``.

        One whose lineage has another name there was renamed by a run that was killed before it wrote this marker.
        """
        by_lineage = dict(found.values())
        for name, (lineage, serial) in self.versions.items():
            found_lineage, found_serial = found.get(name, ("", -1))
            if name not in found and by_lineage.get(lineage, -1) >= serial:
                continue
            if name not in found:
                yield f"{name} is missing; its last known serial is {serial}"
            elif found_lineage != lineage:
                yield f"{name} is of another lineage than the last known one"
            elif found_serial < serial:
                yield f"{name} is at serial {found_serial}, older than the last known serial {serial}"


def read(path: str) -> Marker | None:
    """Return the marker of the database at ``path``, None when there is none. Raises ``StateError``."""
    try:
        with os.fdopen(os.open(f"{path}.marker", _FLAGS), "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        msg = f"{path}.marker: cannot be read: {error.strerror}"
        raise StateError(msg) from error
    try:
        digest, body = json.loads(data)
        if digest == _digest(body):
            versions = {
                StackName(project, stack): (lineage, serial) for project, stack, lineage, serial in body["known"]
            }
            return Marker(versions, body["making"])
    except (ValueError, TypeError, KeyError):
        pass
    msg = f"{path}.marker: is damaged"
    raise StateDamaged(msg, "writes a new one")


def write(path: str, marker: Marker) -> None:
    """Write the marker of the database at ``path``. Raises ``StateError``; the former marker is then unchanged."""
    versions = sorted([*name, *version] for name, version in marker.versions.items())
    body = {"known": versions, "making": marker.creating}
    try:
        private_files.replace(f"{path}.marker", json.dumps([_digest(body), body]).encode() + b"\n")
    except OSError as error:
        msg = f"{path}.marker: cannot be written: {error.strerror}"
        raise StateError(msg) from error


def _digest(body: Any) -> str:
    return blake2b(json.dumps(body, sort_keys=True).encode(), digest_size=8).hexdigest()
