"""The names of the types of Terraform providers on disk, for completion: a key that is pressed starts no program.

Each run that requests a program's schema keeps them, by the directory and the declaration of the provider. Only
completion reads them: a schema can depend on more than the program's file, and plans request it again.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, NamedTuple

from resource_api.model.values.text import shell_word
from resource_api.system.filesystem import private_files
from resource_api.system.filesystem.directories import make_directory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class TypeNames(NamedTuple):
    """The types of a provider, and the functions of the type that is called like it."""

    types: Sequence[str] = ()
    functions: Sequence[str] = ()


def cache_directory(environment: Mapping[str, str], name: str) -> str:
    """Return the directory of a cache: below ``$XDG_CACHE_HOME``, or root's own, or the user's."""
    home = environment.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(home):
        home = "/var/cache" if os.geteuid() == 0 else os.path.expanduser("~/.cache")
    return os.path.join(home, "resource-api", name)


class TypeNamesFile:
    """The file that has the names of the types of one declared provider, for completion."""

    def __init__(self, manifest: str, name: str, declared: Sequence[str]) -> None:
        """Choose the file for the provider ``name`` of a manifest, whose source, path and version are ``declared``.

        Its name is a digest of these and of the manifest's directory: another declaration may mean a program with other
        types, and a relative path or mirror begins at the directory.
        """
        self._directory = cache_directory(os.environ, "types")
        key = json.dumps([os.path.realpath(os.path.dirname(manifest)), name, *declared])
        self._path = os.path.join(self._directory, hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest())

    def read(self) -> TypeNames:
        """Return the names for completion; none without a usable file that only this user can write."""
        try:
            raw = private_files.read(self._path) if private_files.is_private_directory(self._directory) else None
            return TypeNames() if raw is None else TypeNames(**json.loads(raw))
        except (OSError, ValueError, TypeError):
            return TypeNames()

    def write(self, names: TypeNames) -> None:
        """Keep the names. Raise ``OSError`` where that is impossible, or where others could change the directory."""
        if self.read() == names:
            return
        make_directory(self._directory)
        if not private_files.is_private_directory(self._directory):
            remedy = f"chmod 700 {shell_word(self._directory)}"
            raise PermissionError(f"{self._directory} is not a directory that only you can change; run: {remedy}")
        private_files.replace(self._path, json.dumps(names._asdict()).encode())
