"""What an agent has verified: the newest version of each source, recorded before it is applied, and its files.

A version's files are complete where its directory has its name. The record outlives them: an older version is refused
even where they are lost.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from resource_api.agent.root_only_files import Untrusted, make_directory
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import StateError
from resource_api.system.filesystem import files, private_files

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_FORMAT: Final = 1
_LARGEST: Final = 1 << 20


class Version(NamedTuple):
    """One version of a source. ``id``: the digest of a bundle or of a commit; ``modules``: directories in it."""

    id: str
    generation: int
    signer: str
    name: str = ""
    modules: tuple[str, ...] = ()


class Versions:
    """The versions of one source in an agent's directory, which only its owner can open."""

    def __init__(self, directory: str, source: str) -> None:
        """Use a directory, which is made if it is missing. Raise ``Untrusted``, ``StateError``, ``OSError``."""
        make_directory(f"{directory}/newest")
        self._source = source
        self._record = f"{directory}/accepted.json"
        self._trees = f"{directory}/versions"
        self._link = f"{directory}/newest/{sha256(source.encode(errors='surrogateescape')).hexdigest()[:12]}"
        self._accepted = _read(self._record)

    @property
    def newest(self) -> Version | None:
        """The newest version that was ever accepted, None if none was."""
        return self._accepted.get(self._source)

    def path(self, version: Version) -> str:
        """Return the directory of a version's files."""
        return f"{self._trees}/{version.id}"

    def has_files(self, version: Version) -> bool:
        """Return whether the files of a version are there."""
        return os.path.isdir(self.path(version))

    def link(self, version: Version) -> str:
        """Return a symbolic link to a version's files; its path is the same for all versions of the source.

        State and the no-change cache know a manifest by its path. Raise ``OSError``.
        """
        target, new = f"../versions/{version.id}", f"{self._link}.new"
        if not os.path.lexists(self._link) or os.readlink(self._link) != target:
            with suppress(FileNotFoundError):
                os.unlink(new)
            os.symlink(target, new)
            private_files.rename(new, self._link)
        return self._link

    def accept(self, version: Version, write: Callable[[str], object]) -> None:
        """Record a version as the newest, durably, after ``write`` has written its files into a new directory.

        Files of versions that are no source's newest any more are removed. Raise ``OSError``.
        """
        if not self.has_files(version):
            new = f"{self.path(version)}.new"
            make_directory(self._trees)
            shutil.rmtree(new, ignore_errors=True)
            write(new)
            private_files.rename(new, self.path(version))
        if self.newest != version:
            accepted = {**self._accepted, self._source: version}
            document = {"format": _FORMAT, "sources": {name: each._asdict() for name, each in accepted.items()}}
            files.replace(self._record, json.dumps(document, indent=1).encode() + b"\n", mode=0o600)
            self._accepted = accepted
        kept = {each.id for each in self._accepted.values()}
        for name in set(os.listdir(self._trees)) - kept:
            shutil.rmtree(f"{self._trees}/{name}", ignore_errors=True)


def _read(path: str) -> dict[str, Version]:
    try:
        found = json.loads(files.read(path, _LARGEST))
        return {str(source): _version(each) for source, each in found["sources"].items() if found["format"] == _FORMAT}
    except FileNotFoundError:
        return {}
    except OSError as error:
        msg = f"{path}: cannot be read: {error.strerror}"
        raise StateError(msg) from error
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        msg = f"{path}: is damaged; remove it to accept any signed version anew, also an older one"
        raise StateError(msg) from error


def _version(found: Mapping[str, Any]) -> Version:
    version = Version(**{**found, "modules": tuple(found["modules"])})
    if not version.id.isalnum() or type(version.generation) is not int:
        raise ValueError(version)
    return version


def check_newer(version: Version, newest: Version | None) -> None:
    """Raise ``Untrusted`` for a bundle that is older than the newest, or another in its place."""
    if newest is None or version.id == newest.id:
        return
    if version.name != newest.name:
        msg = f"it is a bundle of '{version.name}', not of '{newest.name}'"
        raise Untrusted(msg)
    if version.generation <= newest.generation:
        how = "older than" if version.generation < newest.generation else "another one than"
        msg = f"generation {version.generation} is {how} the newest that was applied, generation {newest.generation}"
        raise Untrusted(msg)
