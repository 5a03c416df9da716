"""A branch of a git repository as a source: fetched into a copy of the agent's own, verified, and unpacked from there.

Nothing of the repository is executed: no hook, filter or submodule. Only SSH signatures count.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from resource_api.agent import bundle, signing
from resource_api.agent.root_only_files import Untrusted, make_directory
from resource_api.agent.versions import Version
from resource_api.model.values._lazy_regex import regex
from resource_api.model.values.assets import Limits
from resource_api.model.values.errors import CommandError, ResourceError
from resource_api.provider.command import Command
from resource_api.system.filesystem import archive_members

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Ask nobody, run nothing in the background, and let no repository name programs or other protocols.
_ENVIRONMENT: Final = {"GIT_TERMINAL_PROMPT": "0", "GIT_SSH_COMMAND": "ssh -oBatchMode=yes"}
_SETTINGS: Final = (
    *("gc.auto=0", "maintenance.auto=false", "core.hooksPath=/dev/null", "transfer.fsckObjects=true"),
    *("protocol.allow=never", "protocol.https.allow=always", "protocol.ssh.allow=always", "protocol.file.allow=always"),
    *("credential.interactive=false", "tar.umask=0022"),
)
#: Programs that would verify with the caller's own keys.
_NO_OTHER_SIGNATURES: Final = (
    "gpg.program=/bin/false",
    "gpg.openpgp.program=/bin/false",
    "gpg.x509.program=/bin/false",
)
#: A header of a commit: its first line, and the further ones, which begin with a space.
_SIGNATURE: Final = regex(r"^gpgsig(?:-sha256)? ((?:.*\n)(?: .*\n)*)", re.MULTILINE)
_FETCHED: Final = "refs/agent/fetched"
#: Seconds that fetching may take.
_TRANSFER: Final = 900.0

#: What Python and OpenSSL take their authorities from, as a bundle is fetched → the same for git.
_AUTHORITIES: Final = {"SSL_CERT_FILE": "GIT_SSL_CAINFO", "SSL_CERT_DIR": "GIT_SSL_CAPATH"}
#: What git says after ssh has said why.
_REMOTE: Final = "fatal: Could not read from remote repository"


def _git() -> Command:
    """Return git, with what it may use of the environment."""
    given = {git: os.environ[name] for name, git in _AUTHORITIES.items() if os.environ.get(name)}
    return Command("git", read_only=True, timeout=_TRANSFER, env={**_ENVIRONMENT, **given})


class Repository:
    """The agent's copy of a branch of a repository."""

    def __init__(self, path: str) -> None:
        """Use the copy at a path, made if it is missing, completed if it is not whole.

        Raise ``ResourceError``, ``OSError``.
        """
        self._path = path
        make_directory(path)
        for lock in Path(path).rglob("*.lock"):  # left by a killed run
            lock.unlink(missing_ok=True)
        self._run("init", "--quiet", "--bare", "--template=", path)

    def fetch(self, url: str, branch: str | None) -> str:
        """Return the commit that a branch has, or the default one for None. Raise ``ResourceError``."""
        wanted = "HEAD" if branch is None else f"refs/heads/{branch}"
        self._run("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--", url, f"+{wanted}:{_FETCHED}")
        return self._run("rev-parse", "--verify", f"{_FETCHED}^{{commit}}").strip()

    def verify(self, commit: str, signers: str, newest: Version | None) -> Version:
        """Return the version that a commit is.

        Raise ``Untrusted`` if no allowed signer has signed it, or it does not descend from the newest that was applied.
        """
        settings = (*_NO_OTHER_SIGNATURES, f"gpg.ssh.allowedSignersFile={signers}")
        done = _git().attempt(*self._words(settings), "verify-commit", commit, log="debug")
        if done.exit_code:
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            msg = f"commit {commit[:12]} is not signed by any key in {signers}{f': {lines[-1]}' if lines else ''}"
            raise Untrusted(msg)
        signer = done.stderr.partition(" signature for ")[2].partition(" with ")[0]
        # git has judged the time of a key by the date of the commit, which its author chooses.
        if signer not in signing.may_sign_now(self._signature(commit), signers):
            msg = f"commit {commit[:12]} is signed by {signer}, whose key is not valid any more or not yet"
            raise Untrusted(msg)
        if newest is not None and not self._descends(commit, newest.id):
            msg = f"commit {commit[:12]} does not follow {newest.id[:12]}, the newest that was applied"
            raise Untrusted(msg)
        return Version(commit, int(self._run("rev-list", "--count", commit)), signer)

    def write(self, commit: str, directory: str) -> None:
        """Write the files of a commit into a new directory, durably. Raise ``ResourceError``, ``OSError``."""
        with tempfile.TemporaryFile(dir=self._path) as file:
            place = f"/proc/{os.getpid()}/fd/{file.fileno()}"
            self._run("archive", "--format=tar", f"--output={place}", commit)
            bundle.write_members(archive_members.members(file, Limits(bundle.LARGEST, bundle.MOST_FILES)), directory)

    def _signature(self, commit: str) -> bytes:
        """Return the signature in the header of a commit; empty for a header with another number of them than one."""
        header = self._run("cat-file", "commit", commit).partition("\n\n")[0]
        found = _SIGNATURE.findall(f"{header}\n")
        return found[0].replace("\n ", "\n").encode() if len(found) == 1 else b""

    def _descends(self, commit: str, ancestor: str) -> bool:
        return (
            _git().attempt(*self._words(), "merge-base", "--is-ancestor", ancestor, commit, log="debug").exit_code == 0
        )

    def _words(self, settings: Sequence[str] = ()) -> list[str]:
        return ["-C", self._path, *(word for each in (*_SETTINGS, *settings) for word in ("-c", each))]

    def _run(self, *arguments: str) -> str:
        try:
            return _git()(*self._words(), *arguments, log="debug").stdout
        except CommandError as error:
            msg = f"git {arguments[0]}: {_reason(error)}"
            raise ResourceError(msg) from error


def _reason(error: CommandError) -> str:
    """Return why git has failed: in its words, or in those of ssh."""
    lines = [line.strip() for line in error.stderr.splitlines() if line.strip()]
    why = next((line for line in lines if line.startswith(("fatal: ", "error: "))), (lines or [str(error)])[-1])
    before = lines[: lines.index(why)] if why in lines else []
    if why.startswith(_REMOTE) and before:
        return before[-1].rstrip(".")
    return why.removeprefix("fatal: ").removeprefix("error: ")
