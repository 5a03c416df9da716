"""What is known of a directory that an archive was unpacked into: a record beside it, durable and readable by us alone.

Beside, because what is inside may be served, copied and cleaned up by others. What is on disk is not looked at here.
"""

from __future__ import annotations

import json
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Self

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.assets import member_name
from resource_api.model.values.errors import ResourceError
from resource_api.system.filesystem import files
from resource_api.system.filesystem.directories import Directories

if TYPE_CHECKING:
    from collections.abc import Mapping

_FORMAT: Final = 1
#: Bytes of a record at most: of an archive with a million members.
_LARGEST: Final = 1 << 28
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_SUFFIX: Final = ".archive~"
#: So long may the name of a directory be that a record is kept beside.
LONGEST_NAME: Final = 255 - len(_SUFFIX) - 1


class Part(NamedTuple):
    """What a member must be like on disk; ``told``: a file's SHA-256, where a link leads."""

    kind: str
    mode: int
    told: str


class Unpacked(NamedTuple):
    """What was unpacked: from which archive (empty: it was cut), how, which names, and which directories we made.

    The directory itself has the empty name.
    """

    sha256: str = ""
    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    members: Mapping[str, Part] = {}
    made: frozenset[str] = frozenset()

    @classmethod
    def read(cls, path: str) -> Self | None:
        """Give what is known of the directory at ``path``; None when nothing was unpacked there.

        Raises ``OSError``, and ``ResourceError`` for a record that somebody else could have written.
        """
        place = _beside(path)
        try:
            with Directories() as held:
                seen, raw = files.look(held, place, _LARGEST)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if raw is None or seen.st_uid not in {0, os.geteuid()} or seen.st_mode & _OTHERS_WRITE:
            msg = f"{place} is no record of ours: others can write it"
            raise ResourceError(msg)
        try:
            return cls._of(json.loads(raw))
        except (ValueError, TypeError, LookupError) as error:
            msg = f"{place} is damaged; without it, what is as in the archive is taken over"
            raise ResourceError(msg) from error

    @classmethod
    def _of(cls, found: Any) -> Self:
        if found["format"] != _FORMAT:
            raise ValueError(found["format"])
        members = {_checked(name): Part(str(kind), int(mode), str(told)) for name, kind, mode, told in found["members"]}
        mode, uid, gid = (None if found[key] is None else int(found[key]) for key in ("mode", "uid", "gid"))
        return cls(str(found["sha256"]), mode, uid, gid, members, frozenset(map(_checked, found["made"])))

    def write(self, path: str) -> None:
        """Keep it, durable on return. Raises ``OSError``."""
        told = {**self._asdict(), "format": _FORMAT, "made": sorted(self.made)}
        told["members"] = [[name, *part] for name, part in self.members.items()]
        files.replace(_beside(path), json.dumps(told, separators=(",", ":")).encode(), mode=0o600)

    @staticmethod
    def forget(path: str) -> None:
        """Remove it, durable on return. Raises ``OSError``."""
        with files.Batch() as batch, suppress(FileNotFoundError):
            batch.remove(_beside(path))


def _beside(path: str) -> str:
    parent, _, name = path.rpartition("/")
    return f"{parent}/.{name}{_SUFFIX}"


def _checked(name: str) -> str:
    if member_name(name) != name:
        raise ValueError(name)
    return name
