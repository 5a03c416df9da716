"""Keep the key files that apt trusts, with ``gpg`` for what is inside them.

gpg sees no keyring and no configuration of anybody: each call has a private home that goes away with it.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote

from resource_api import Command, ResourceError, SimpleProvider
from resource_api.system.filesystem import files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from resource_api import Context, Resource

TRUSTED: Final = Path("/etc/apt/trusted.gpg.d")
LEGACY: Final = Path("/etc/apt/trusted.gpg")
#: apt passes over files with other names in the directory (apt-secure(8), run-parts(8)).
NAMED: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*\.(gpg|asc)")
LARGEST: Final = 16 * 1024 * 1024  # bytes of a source
PATIENCE: Final = 30  # seconds in which a server says nothing
LONGEST: Final = 120  # seconds for all that it says
FINGERPRINT: Final = 40  # digits
UNUSABLE: Final = 2  # gpg's exit code when a file holds no key: apt passes over such a file too


class Key(NamedTuple):
    """What gpg says of a key; days in ISO format, ``expires`` is None for a key that does not."""

    fingerprint: str
    created: str
    expires: str | None


class Provider(SimpleProvider):
    """Keys of ``/etc/apt/trusted.gpg.d`` and ``/etc/apt/trusted.gpg``."""

    gpg = Command("gpg")

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Spell an ID in upper case, without ``0x``."""
        for resource in resources:
            if "id" in resource:
                resource["id"] = resource["id"].upper().removeprefix("0X")
        return resources

    def validate(self, _context: Context, should: Mapping[str, Any]) -> Iterable[str]:
        """Refuse two origins for one key."""
        return ["give either 'source' or 'content'"] if "source" in should and "content" in should else []

    def get(self, context: Context, names: Collection[str] | None = None) -> list[Resource]:
        """Give all keys under their fingerprints, or the keys that ``names`` mean."""
        keys = {key.fingerprint: key for key in self._trusted()}
        if names is None:
            return [_row(fingerprint, key) for fingerprint, key in keys.items()]
        rows = []
        for name in names:
            found = [key for fingerprint, key in keys.items() if fingerprint.endswith(name)]
            if len(found) > 1:
                context.failed(name, message=_ambiguous(found))
            rows += [_row(name, key) for key in found[:1]]
        return rows

    def create(self, context: Context, name: str, should: Mapping[str, Any]) -> None:
        """Trust the key that ``name`` means, and nothing else that comes along with it."""
        if len(name) < FINGERPRINT:
            context.warning("Anybody can make a key with such a short ID; name it by its fingerprint")
        with _home() as home:
            given = home / "given"
            given.write_bytes(_content(should))
            found = {key.fingerprint: key for key in self._list(home, given)}
            meant = [key for fingerprint, key in found.items() if fingerprint.endswith(name)]
            if len(meant) > 1:
                raise ResourceError(_ambiguous(meant))
            if not meant:
                msg = f"the key is not there; what was given holds {', '.join(found) or 'no public key'}"
                raise ResourceError(msg)
            fingerprint = meant[0].fingerprint
            key = self._export(home, given, [fingerprint], armor=True)
        files.replace(str(TRUSTED / f"{fingerprint}.asc"), key, mode=0o644, uid=0, gid=0)

    def delete(self, _context: Context, name: str) -> None:
        """Take the key out of every file that holds it; a file without any other goes."""
        with files.Batch() as batch, _home() as home:
            for path in _files():
                present = [key.fingerprint for key in self._list(home, path)]
                rest = [fingerprint for fingerprint in present if not fingerprint.endswith(name)]
                if present and not rest:
                    batch.remove(str(path))
                elif rest != present:
                    keys = self._export(home, path, rest, armor=path.suffix == ".asc")
                    batch.replace(str(path), keys, mode=0o644, uid=0, gid=0)

    def _trusted(self) -> list[Key]:
        """List the keys of all files in one call; a file that cannot be read must not look like missing keys."""
        paths = _files()
        for path in paths:
            if not os.access(path, os.R_OK):
                msg = f"{path} cannot be read"
                raise ResourceError(msg)
        if not paths:
            return []
        with _home() as home:
            return self._list(home, *paths)

    def _list(self, home: Path, *paths: Path) -> list[Key]:
        answer = self.gpg.attempt(*_options(home), "--no-keyring", "--with-colons", "--show-keys", "--", *paths)
        if answer.exit_code not in {0, UNUSABLE}:
            msg = f"gpg cannot list keys, it ended with {answer.exit_code}: {answer.stderr.strip()}"
            raise ResourceError(msg)
        return list(_keys(answer.stdout))

    def _export(self, home: Path, path: Path, fingerprints: list[str], *, armor: bool) -> bytes:
        """Give some of the keys in a file, and prove that the result is exactly these."""
        keyring, chosen = home / "keyring", home / "chosen"
        keys = ("--no-default-keyring", "--keyring", keyring, "--armor" if armor else "--no-armor")
        self.gpg(*_options(home), "--yes", "--output", keyring, "--dearmor", "--", path)
        self.gpg(*_options(home), "--yes", "--output", chosen, *keys, "--export", "--", *fingerprints)
        if sorted(key.fingerprint for key in self._list(home, chosen)) != sorted(fingerprints):
            msg = f"gpg does not find {', '.join(fingerprints)} alone in what it has written"
            raise ResourceError(msg)
        return chosen.read_bytes()


@contextmanager
def _home() -> Iterator[Path]:
    """Give gpg a directory of its own, for root alone."""
    with TemporaryDirectory(prefix="apt-key-") as directory:
        yield Path(directory)


def _options(home: Path) -> tuple[str | Path, ...]:
    """Keep everything out that this machine or a user has configured, and start no daemon."""
    return ("--homedir", home, "--batch", "--quiet", "--no-options", "--no-autostart", "--trust-model", "always")


def _files() -> list[Path]:
    """Give the files whose keys apt trusts."""
    named = [path for path in sorted(TRUSTED.glob("*")) if NAMED.fullmatch(path.name)] if TRUSTED.is_dir() else []
    return [path for path in (LEGACY, *named) if path.is_file()]


def _keys(listing: str) -> Iterator[Key]:
    """Read gpg's colon format (DETAILS of GnuPG); the first fingerprint after a key is the key's, not a subkey's."""
    primary: list[str] = []
    for line in listing.split("\n"):
        fields = line.split(":")
        if fields[0] == "pub":
            primary = fields
        elif fields[0] == "fpr" and primary:
            yield Key(fields[9], _day(primary[5]), _day(primary[6]) if primary[6] else None)
            primary = []


def _day(seconds: str) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).date().isoformat()


def _row(name: str, key: Key) -> Resource:
    row = {"id": name, "ensure": "present", "fingerprint": key.fingerprint, "created": key.created}
    return {**row, "expires": key.expires} if key.expires else row


def _ambiguous(keys: Iterable[Key]) -> str:
    return f"the ID fits several keys, name one by its fingerprint: {', '.join(key.fingerprint for key in keys)}"


def _content(should: Mapping[str, Any]) -> bytes:
    """Give what ``content`` says or ``source`` holds; raises ``ResourceError`` when that cannot be had."""
    source = should.get("source")
    if content := should.get("content"):
        return str(content).encode()
    if not source:
        msg = "a new key needs 'source' or 'content'"
        raise ResourceError(msg)
    data = _fetch(source) if source.startswith("http") else _read(source)
    if len(data) > LARGEST:
        msg = f"{source} is too large for a key, more than {LARGEST} bytes"
        raise ResourceError(msg)
    return data


def _read(source: str) -> bytes:
    """Read a local file; nothing else that has a path, which might never end."""
    try:
        with files.source(unquote(source.removeprefix("file://")) if source.startswith("file://") else source) as file:
            return file.read(LARGEST + 1)
    except OSError as error:
        msg = f"{source} cannot be read: {error.strerror}"
        raise ResourceError(msg) from error


def _fetch(url: str) -> bytes:
    """Read a URL; a server has a limited time, however slowly it answers."""
    from http.client import HTTPException  # noqa: PLC0415 - 50 ms that only this needs
    from urllib.request import urlopen  # noqa: PLC0415 - the same

    end, data = time.monotonic() + LONGEST, b""
    try:
        with urlopen(url, timeout=PATIENCE) as answer:  # noqa: S310 - the data type leaves nothing but http and https
            while len(data) <= LARGEST and (chunk := answer.read1()):
                data += chunk
                if time.monotonic() > end:
                    msg = f"took longer than {LONGEST} s"
                    raise TimeoutError(msg)
    except (OSError, HTTPException) as error:
        msg = f"{url} cannot be read: {error}"
        raise ResourceError(msg) from error
    return data
