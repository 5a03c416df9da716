"""Read and change the key files that apt trusts, with ``gpg`` in a private home without a user's configuration."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from lib import file_parts, listing, prerequisites
from lib.sensitive import refused_secrets
from lib.whole_directory import WholeDirectory
from resource_api import Command, CommandError, Problem, ResourceError, SimpleProvider, files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from lib.whole_directory import Copy
    from resource_api import CommandResult, Context, Resource

TRUSTED = Path("/etc/apt/trusted.gpg.d")
LEGACY = Path("/etc/apt/trusted.gpg")
#: Names of the files in that directory that apt reads (apt-secure(8), run-parts(8)).
FILE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*\.(gpg|asc)")
LARGEST = 16 * 1024 * 1024  # bytes of a source
TIMEOUT = 120  # seconds for a download
FINGERPRINT = 40  # digits
LONGEST_LINE = 200  # characters of a line in a message
#: The first byte of a keyring without armor; apt passes over others.
BEGINNINGS = (b"\x98", b"\x99", b"\xc6")
INVALID = "i"  # gpg's validity of a key that it does not understand
NO_KEYS = 2  # gpg's exit code for a file without keys; apt ignores such a file too


class Key(NamedTuple):
    """A key as gpg describes it; dates in ISO format, ``expires`` is None for a key that does not expire."""

    fingerprint: str
    created: str
    expires: str | None


class Provider(SimpleProvider):
    """The keys in ``/etc/apt/trusted.gpg.d`` and ``/etc/apt/trusted.gpg``."""

    gpg = Command("gpg")

    def __init__(self) -> None:
        """Start without a file that has been reported: each read of the keys would otherwise warn of it again."""
        self._reported: set[Path] = set()

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Write an ID in upper case, without ``0x``, as gpg does, so that it matches a fingerprint."""
        for resource in resources:
            if "id" in resource:
                resource["id"] = resource["id"].upper().removeprefix("0X")
        return resources

    def validate(self, _context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Refuse both ``source`` and ``content`` for one key: they may be different keys."""
        yield from refused_secrets(should)
        if "source" in should and "content" in should:
            yield Problem(None, "give either 'source' or 'content'")

    def get(self, context: Context, names: Collection[str] | None = None) -> list[Resource]:
        """Return the keys in ``names``, which are fingerprints or their ends, or all keys by their fingerprints."""
        keys = {key.fingerprint: key for key in self._trusted(context)}
        if names is None:
            return [_row(fingerprint, key) for fingerprint, key in keys.items()]
        rows = []
        for name in names:
            matches = [key for fingerprint, key in keys.items() if fingerprint.endswith(name)]
            if len(matches) > 1:
                context.failed(name, message=_ambiguous(matches))
            rows += [_row(name, key) for key in matches[:1]]
        return rows

    def preflight(self, _context: Context, changes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Problem]]:
        """Yield the reasons for a failure of ``set``: the source lacks the key, or a file cannot be written.

        A key is removed from each file that contains it; a mount point can be neither replaced nor removed.
        """
        added = prerequisites.present(changes)
        missing = list(prerequisites.missing_program(None, "gpg", needs="Package[gpg]"))
        for name, should in added.items():
            yield from ((name, problem) for problem in missing or self._refusal(name, should))
        yield from prerequisites.written_in_place({name: str(TRUSTED / f"{name}.asc") for name in added})
        if removed := {name: should for name, should in changes.items() if name not in added}:
            yield from self._unchangeable(removed)

    def _unchangeable(self, removed: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Problem]]:
        """Yield a problem for each removed key in a file that is a mount point, as ``delete`` would fail.

        ``delete`` replaces a file that also contains other keys, and removes a file without them: a mount point allows
        neither.
        """
        mounted = files.mount_points()
        for path in [path for path in _files() if str(path) in mounted]:
            with _home() as home:
                present = self._list(home, path)
            for name, should in removed.items():
                if rest := _without(name, present):
                    yield from prerequisites.written_in_place({name: str(path)})
                elif rest is not None:  # the key is the only one in the file
                    problems = prerequisites.kept_by_mounts({str(path): should})
                    yield from ((name, problem) for _, problem in problems)

    def create(self, context: Context, name: str, should: Mapping[str, Any]) -> None:
        """Trust the key with the ID ``name``, and no other key of its source: it gets a file of its own."""
        if len(name) < FINGERPRINT:
            context.warning("Anybody can create a key with such a short ID; use its fingerprint as the title")
        file_name, key = self._keyring(name, should)
        self._directory.verify({file_name: key})
        with file_parts.described():
            files.replace(str(TRUSTED / file_name), key, mode=0o644, uid=0, gid=0)

    #: Completes a key whose file an interrupted run may not have flushed.
    update = create

    @property
    def _directory(self) -> WholeDirectory:
        """The keys as apt reads them, to check a change in a copy of all."""
        return WholeDirectory(str(TRUSTED), str(LEGACY), "", self._errors)

    def _keyring(self, name: str, should: Mapping[str, Any]) -> tuple[str, bytes]:
        """Return the file name of a new key and its content. Raise ``ResourceError`` if its source lacks it."""
        with _home() as home:
            source = home / "given"
            source.write_bytes(_content(should))
            keys = {key.fingerprint: key for key in self._list(home, source)}
            matching = [key for fingerprint, key in keys.items() if fingerprint.endswith(name)]
            if len(matching) > 1:
                raise ResourceError(_ambiguous(matching))
            if not matching:
                raise ResourceError(f"the source does not contain the key, but {', '.join(keys) or 'no public key'}")
            fingerprint = matching[0].fingerprint
            return f"{fingerprint}.asc", self._export(home, source, [fingerprint], armor=True)

    def _refusal(self, name: str, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Yield the reason for a new key's failure; a source on the network is not fetched for a plan."""
        if str(should.get("source")).startswith("http"):
            return
        try:
            file_name, key = self._keyring(name, should)
        except (CommandError, ResourceError) as error:
            yield Problem("content" if should.get("content") else "source", str(error))
        else:
            yield from (Problem(None, message) for _, message in self._directory.refusals({file_name: key}))

    def delete(self, _context: Context, name: str) -> None:
        """Remove the key from every file that contains it; a file without any other key is removed."""
        with file_parts.described(), files.Batch() as batch, _home() as home:
            for path in _files():
                if rest := _without(name, self._list(home, path)):
                    keys = self._export(home, path, rest, armor=path.suffix == ".asc")
                    batch.replace(str(path), keys, mode=0o644, uid=0, gid=0)
                elif rest is not None:  # the key is the only one in the file
                    batch.remove(str(path))

    def _errors(self, copy: Copy) -> list[str]:
        """Return an error for each key that apt would miss, so that a change that causes one is refused.

        apt joins the keyrings to one, in which a damaged key hides all keys after it.
        """
        paths = _files(Path(copy.directory), Path(copy.main))
        with _home() as home:
            merged = home / "merged"
            merged.write_bytes(b"".join(self._binary(home, path) for path in paths))
            merged_keys = {key.fingerprint for key in self._list(home, merged)}
            keys = [(path, key.fingerprint) for path in paths for key in self._list(home, path)]
        return [f"{path}: apt does not find the key {key} of it" for path, key in keys if key not in merged_keys]

    def _binary(self, home: Path, path: Path) -> bytes:
        """Return a keyring in the form in which apt joins them: without armor, and empty if apt passes it over."""
        if path.suffix != ".asc":
            content = path.read_bytes()
            return content if content.startswith(BEGINNINGS) else b""
        output = home / "binary"
        output.unlink(missing_ok=True)
        self.gpg.attempt(*_options(home), "--output", output, "--dearmor", "--", path, log="debug")
        return output.read_bytes() if output.exists() else b""

    def _trusted(self, context: Context) -> list[Key]:
        """Return the keys of all files by one call of gpg; warn once of a file that contains anything but keys.

        Raise ``ResourceError`` for a file that cannot be read: its keys would count as absent.
        """
        paths = _files()
        for path in paths:
            if not os.access(path, os.R_OK):
                raise ResourceError(f"{path} cannot be read")
        if not paths:
            return []
        with _home() as home:
            results = [self._show(home, *paths)]
            if results[0].exit_code:
                # One by one: at a file that is no keyring, gpg may end without those after it.
                results = [self._show(home, path) for path in paths]
        junk = [path for path, result in zip(paths, results, strict=False) if result.exit_code]
        for path in junk:
            if path not in self._reported:
                self._reported.add(path)
                context.warning(f"{path}: contains what is no OpenPGP key, which apt ignores at best")
        return [key for result in results for key in _keys(result.stdout)]

    def _list(self, home: Path, *paths: Path) -> list[Key]:
        return list(_keys(self._show(home, *paths).stdout))

    def _show(self, home: Path, *paths: Path) -> CommandResult:
        """Return gpg's listing of the keys in files, without importing them; a file may contain none."""
        options = (*_options(home), "--no-keyring", "--with-colons")
        result = self.gpg.attempt(*options, "--show-keys", "--", *paths, log="debug")
        if result.exit_code not in {0, NO_KEYS}:
            names = ", ".join(map(str, paths))
            msg = f"{names}: gpg cannot list keys, it ended with {result.exit_code}: {result.stderr.strip()}"
            raise ResourceError(msg)
        return result

    def _export(self, home: Path, path: Path, fingerprints: list[str], *, armor: bool) -> bytes:
        """Return the keys with these fingerprints as a new keyring. Raise ``ResourceError`` if it has any other key.

        gpg exports only from a keyring without armor, to which the file is converted before.
        """
        keyring, exported = home / "keyring", home / "exported"
        keys = ("--no-default-keyring", "--keyring", keyring, "--armor" if armor else "--no-armor")
        self.gpg(*_options(home), "--yes", "--output", keyring, "--dearmor", "--", path)
        self.gpg(*_options(home), "--yes", "--output", exported, *keys, "--export", "--", *fingerprints)
        if sorted(key.fingerprint for key in self._list(home, exported)) != sorted(fingerprints):
            raise ResourceError(f"gpg wrote other keys than {', '.join(fingerprints)}")
        return exported.read_bytes()


@contextmanager
def _home() -> Iterator[Path]:
    """Yield a temporary home for gpg that only root can read."""
    with TemporaryDirectory(prefix="apt-key-") as directory:
        yield Path(directory)


def _options(home: Path) -> tuple[str | Path, ...]:
    """Return the options that ignore the configuration of the machine and of users, and start no daemon."""
    return ("--homedir", home, "--batch", "--quiet", "--no-options", "--no-autostart", "--trust-model", "always")


def _files(directory: Path = TRUSTED, legacy: Path = LEGACY) -> list[Path]:
    """Return the files whose keys apt trusts, in the order in which it reads them."""
    fragments = [path for path in listing.matching(directory) if FILE_NAME.fullmatch(path.name)]
    return [path for path in (legacy, *fragments) if path.is_file()]


def _keys(listing: str) -> Iterator[Key]:
    """Yield the keys in a listing of gpg's colon format (DETAILS of GnuPG): each line ``pub`` begins a key.

    The first line ``fpr`` after it has the key's own fingerprint. Later ones are those of its subkeys, to which no name
    refers.
    """
    primary: list[str] = []
    for line in listing.split("\n"):
        fields = line.split(":")
        if fields[0] == "pub":
            # A file that is no keyring may contain bytes that look like a key, which gpg marks as invalid.
            primary = [] if fields[1] == INVALID else fields
        elif fields[0] == "fpr" and primary:
            try:
                yield Key(fields[9], _day(primary[5]), _day(primary[6]) if primary[6] else None)
            except (ValueError, LookupError, ArithmeticError, OSError) as error:
                raise ResourceError(
                    f"gpg describes a key in a way that is not understood: {line[:LONGEST_LINE]}"
                ) from error
            primary = []


def _without(name: str, keys: list[Key]) -> list[str] | None:
    """Return the fingerprints of a file's keys without that of the ID ``name``, or None if it is not in the file."""
    rest = [key.fingerprint for key in keys if not key.fingerprint.endswith(name)]
    return None if len(rest) == len(keys) else rest


def _day(seconds: str) -> str:
    """Return the date (UTC) of a time that gpg prints as seconds."""
    return datetime.fromtimestamp(int(seconds), UTC).date().isoformat()


def _row(name: str, key: Key) -> Resource:
    """Return the row of a key; a key without an end has no ``expires``."""
    row = {"id": name, "ensure": "present", "fingerprint": key.fingerprint, "created": key.created}
    return {**row, "expires": key.expires} if key.expires else row


def _ambiguous(keys: Iterable[Key]) -> str:
    """Return the error for an ID that is too short to identify one key."""
    fingerprints = ", ".join(key.fingerprint for key in keys)
    return f"the ID matches several keys, use the fingerprint of one as the title: {fingerprints}"


def _content(should: Mapping[str, Any]) -> bytes:
    """Return the key from ``content`` or ``source``. Raise ``ResourceError`` when it cannot be read."""
    source = should.get("source")
    if content := should.get("content"):
        return str(content).encode()
    if not source:
        raise ResourceError("a new key needs 'source' or 'content'")
    if source.startswith("http"):
        with files.fetch(source, largest=LARGEST, timeout=TIMEOUT) as response:
            return response.read()
    return _read(unquote(source.removeprefix("file://")) if source.startswith("file://") else source)


def _read(path: str) -> bytes:
    """Return the content of a regular file. Raise ``ResourceError`` for any other, which might have no end."""
    try:
        with files.open_source(path) as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise ResourceError(f"{path} cannot be read: {error.strerror}") from error
    if len(data) > LARGEST:
        raise ResourceError(f"{path} is larger than {LARGEST} bytes")
    return data
