"""Where an agent's manifest comes from: a directory, a branch of a git repository, or a signed bundle.

A source gives a version that is verified and newer than all before, or raises: ``Untrusted`` for one that must not be
applied, ``ResourceError`` for one that cannot be reached.
"""

from __future__ import annotations

import os
import re
from hashlib import sha256
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from resource_api.agent import bundle, root_only_files, signing, versions
from resource_api.agent.git import Repository
from resource_api.agent.root_only_files import Untrusted
from resource_api.agent.versions import Version, Versions
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import ResourceError, UsageError
from resource_api.system.filesystem import download

if TYPE_CHECKING:
    from collections.abc import Sequence

_GIT: Final = ("git+ssh://", "git+https://", "git+file://")
#: Names of branches (git-check-ref-format(1)), without those that would be an option or a range.
_BRANCH: Final = re.compile(r"(?!.*(?:\.\.|//|@\{|\.lock(?:/|\Z)))[A-Za-z0-9_][A-Za-z0-9_./+@-]{0,200}(?<![./])")
#: Seconds that a bundle may take.
_TRANSFER: Final = 900.0


class Source(NamedTuple):
    """A source: ``kind`` is directory, git, url or file; ``place`` its URL or full path; ``text`` as it was given."""

    kind: str
    text: str
    place: str
    branch: str | None = None

    @property
    def key(self) -> str:
        """What the versions of this source are recorded under, however it was written."""
        return f"{self.place}#{self.branch or ''}"


def parse(text: str) -> Source:
    """Return the source of ``--from``. Raise ``UsageError`` for a text that is none."""
    if text.startswith(_GIT):
        return _git_source(text)
    if text.startswith(("https://", "http://")):
        try:
            download.check(text)
        except ValueError as error:
            raise UsageError(str(error)) from error
        return Source("url", text, text)
    path = text.removeprefix("file://")
    if "://" in path:
        msg = f"--from {text}: write a directory, a file X.bundle, https://, git+ssh://, git+https:// or git+file://"
        raise UsageError(msg)
    full = os.path.abspath(path)
    return Source("file" if path.endswith(".bundle") else "directory", text, full)


def _git_source(text: str) -> Source:
    url, _, branch = text.removeprefix("git+").partition("#")
    if urlsplit(url).password is not None:
        msg = "--from: a password cannot stand in a URL: everybody sees it in the list of processes"
        raise UsageError(msg)
    if branch and not _BRANCH.fullmatch(branch):
        msg = f"--from: '{branch}' can be no name of a branch"
        raise UsageError(msg)
    return Source("git", text, url, branch or None)


def check(source: Source, signers: str | None) -> None:
    """Raise ``UsageError`` where signers are missing, or would not be asked."""
    if source.kind == "directory" and signers:
        msg = "--signers: a directory has no signature; make a bundle of it, or leave --signers out"
        raise UsageError(msg)
    if source.kind != "directory" and not signers:
        msg = f"--from {source.text} needs --signers FILE: whose signatures count"
        raise UsageError(msg)


def update(source: Source, kept: Versions, directory: str, signers: str) -> None:
    """Verify the present version of a git source or bundle, and accept it as the newest, with its files.

    Raise ``Untrusted``, ``ResourceError``, ``OSError``.
    """
    if source.kind == "git":
        name = sha256(source.key.encode()).hexdigest()[:16]
        repository = Repository(f"{directory}/git/{name}")
        commit = repository.fetch(source.place, source.branch)
        version = repository.verify(commit, signers, kept.newest)
        kept.accept(version, lambda place: repository.write(version.id, place))
        return
    raw, signature = _fetch(source.place) if source.kind == "url" else signing.read_signed(source.place)
    signer = signing.verify(raw, signature, signers)
    found = bundle.read(raw)
    digest = sha256(raw).hexdigest()
    version = Version(digest, found.generation, signer, found.name, tuple(found.modules))
    versions.check_newer(version, kept.newest)
    kept.accept(version, lambda place: bundle.extract(found, place))


def check_directory(source: Source, exempt: Sequence[str]) -> None:
    """Raise ``Untrusted`` for a directory that others can change, ``ResourceError`` for one that cannot be read."""
    try:
        root_only_files.check_tree(source.place, exempt)
    except OSError as error:
        msg = f"{error.filename or source.place}: {error.strerror}"
        raise ResourceError(msg) from error


def _fetch(url: str) -> tuple[bytes, bytes]:
    """Return a bundle and its signature. Raise ``ResourceError``, ``Untrusted`` where the server has no signature."""
    with download.fetch(url, largest=bundle.LARGEST_FILE, timeout=_TRANSFER) as file:
        raw = file.read()
    try:
        with download.fetch(url + signing.SUFFIX, largest=signing.LARGEST_SIGNATURE, timeout=_TRANSFER) as file:
            return raw, file.read()
    except download.Missing as error:
        msg = f"it is not signed: there is no {url}{signing.SUFFIX}"
        raise Untrusted(msg) from error
