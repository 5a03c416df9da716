"""Sources of an agent's manifest: a directory, a git branch or a signed bundle; the newest verified version of each.

A verified version is accepted if it is newer than all versions before. The newest version of each source is recorded
before it is applied, so that an older one is refused even if the files are lost. An error, ``Untrusted`` for a version
that must not be applied, ``ResourceError`` for an unreachable source, leaves the version before it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from resource_api.agent import bundle_format, trust
from resource_api.agent.trust import Untrusted, make_directory
from resource_api.model.values.archive_rules import Limits
from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import CommandError, ResourceAPIError, ResourceError, StateError, UsageError
from resource_api.model.values.start_up import NamedTuple, regex
from resource_api.model.values.text import filled_lines
from resource_api.provider.command import Command
from resource_api.system.filesystem import archive_members, download, files, private_files, reading
from resource_api.system.filesystem.unpack import unpack_new

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


#: Largest duration of a transfer in seconds.
_TRANSFER: Final = 900.0
_GIT: Final = ("git+ssh://", "git+https://", "git+file://")
#: Names of branches (git-check-ref-format(1)), without those that would be an option or a range.
_BRANCH: Final = re.compile(r"(?!.*(?:\.\.|//|@\{|\.lock(?:/|\Z)))[A-Za-z0-9_][A-Za-z0-9_./+@-]{0,200}(?<![./])")


class Source(NamedTuple):
    """A source: ``kind`` is directory, git, url or file; ``location`` its URL or full path; ``text`` its argument."""

    kind: str
    text: str
    location: str
    branch: str | None = None

    @property
    def key(self) -> str:
        """The key of the source's versions in the record."""
        return f"{self.location}#{self.branch or ''}"


def parse(text: str) -> Source:
    """Return the source of an argument of ``--from``: directory, bundle, URL or git branch. Raise ``UsageError``."""
    if text.startswith(_GIT):
        return _git_source(text)
    if text.startswith(("https://", "http://")):
        with errors_as(UsageError):
            download.check(text)
        return Source("url", text, text)
    path = text.removeprefix("file://")
    if "://" in path:
        msg = f"--from {text}: write a directory, a file X.bundle, https://, git+ssh://, git+https:// or git+file://"
        raise UsageError(msg)
    kind = "file" if path.endswith(".bundle") else "directory"
    return Source(kind, text, os.path.abspath(path))


def _git_source(text: str) -> Source:
    """Return the source of a git URL. Raise ``UsageError`` for a password in it or a wrong branch."""
    url, _, branch = text.removeprefix("git+").partition("#")
    if urlsplit(url).password is not None:
        raise UsageError("--from: a password cannot stand in a URL: everybody sees it in the list of processes")
    if branch and not _BRANCH.fullmatch(branch):
        raise UsageError(f"--from: '{branch}' can be no name of a branch")
    return Source("git", text, url, branch or None)


def check(source: Source, signers: str | None) -> None:
    """Raise ``UsageError`` if ``signers`` (a file) are given for a directory, or missing for a source that is signed.

    A directory is trusted for its owners instead, see ``trust.check_tree``.
    """
    if source.kind == "directory" and signers:
        raise UsageError("--signers: a directory has no signature; make a bundle of it, or leave --signers out")
    if source.kind != "directory" and not signers:
        raise UsageError(f"--from {source.text} needs --signers FILE: whose signatures count")


class Agent(NamedTuple):
    """The settings of an agent. ``period`` in seconds; ``trusted``: directories whose owner is not checked.

    ``manifest``: its path within the source; ``mode``: ``apply`` or ``noop``; ``signers``: the file of allowed keys.
    """

    directory: str
    source: Source
    manifest: str
    mode: str
    period: float
    signers: str | None
    trusted: Sequence[str]


class SourceVersion(NamedTuple):
    """The version to apply: its directory, None for no version, and its directories for the module path.

    ``fields``: those of ``run_fields``, for reports. ``error``: the reason why it is not the source's current version.
    """

    directory: str | None
    modules: Sequence[str]
    fields: Mapping[str, object]
    error: ResourceAPIError | None = None


def verified_version(agent: Agent) -> SourceVersion:
    """Return the version to apply: the source's current one if it is verified, else the newest one verified earlier.

    So an unreachable or untrusted source does not stop the agent. An error is a part of the result, not raised, because
    it belongs into the record of the run. Without any verified version the result has no directory.
    """
    try:
        if agent.source.kind == "directory":
            trust.check_tree(agent.source.location, agent.trusted)
            return SourceVersion(agent.source.location, (), run_fields(agent, "directory"))
        versions = Versions(agent.directory, agent.source.key)
    except ResourceAPIError as problem:
        return _no_version(agent, problem)
    error = _accept_current(agent, versions)
    newest = versions.newest
    if newest is None or not versions.has_files(newest):
        return _no_version(agent, error)
    try:
        directory = versions.link(newest)
    except OSError as problem:
        return _no_version(agent, ResourceError(f"{problem.filename}: {problem.strerror}"))
    fields = run_fields(agent, _trust(error), error)
    fields |= {"generation": newest.generation, "version": newest.id, "signer": newest.signer}
    return SourceVersion(directory, [f"{directory}/{module}" for module in newest.modules], fields, error)


def _accept_current(agent: Agent, versions: Versions) -> ResourceAPIError | None:
    """Accept the source's current version into ``versions``; return None, or the error as a value.

    It is not raised because the caller goes on with an earlier version after an error. The error is ``Untrusted`` for a
    version that must not be applied, otherwise ``ResourceError``. Its text begins with the source, unless the text
    of the cause does so already.
    """
    source = agent.source
    kind: type[ResourceAPIError] = ResourceError
    try:
        _update(source, versions, agent.directory, trust.check_signers(str(agent.signers), agent.trusted))
    except ResourceAPIError as error:
        kind, text = Untrusted if isinstance(error, Untrusted) else ResourceError, str(error)
    except OSError as error:
        text = f"{error.filename or source.text}: {error.strerror}"
    else:
        return None
    # A problem of the bundle's file begins with its name, "site.bundle: ", which the source's text contains.
    text = text.removeprefix(os.path.basename(source.location) + ": ")
    return kind(text if text.startswith((source.text, source.location)) else f"{source.text}: {text}")


def _no_version(agent: Agent, error: ResourceAPIError | None) -> SourceVersion:
    """Return the result without anything to apply, because of ``error``, or as the verified files are lost."""
    return SourceVersion(None, (), run_fields(agent, _trust(error), error), error)


def run_fields(agent: Agent, trust: str, error: Exception | None = None) -> dict[str, object]:
    """Return the fields that every record of an agent's run has, for ``agent status``.

    Those of the version (generation, version, signer) are empty, as for a directory; the caller replaces them if a
    version is known.
    """
    return {
        "source": agent.source.text,
        "manifest": agent.manifest,
        "mode": agent.mode,
        "trust": trust,
        "problem": str(error) if error is not None else "",
        "generation": 0,
        "version": "",
        "signer": "",
    }


def _trust(error: Exception | None) -> str:
    """Return the word for ``agent status`` whether a source's current version is trusted.

    ``error``: the reason why it was not accepted, or None.
    """
    if error is None:
        return "verified"
    return "untrusted" if isinstance(error, Untrusted) else "unreachable"


def _update(source: Source, versions: Versions, directory: str, signers: str) -> None:
    """Verify the current version of a git source or bundle and accept it as the newest.

    A damaged local copy of a repository, into which every fetch would fail, is removed and fetched anew. Raise
    ``Untrusted``, ``ResourceError``, ``OSError``.
    """
    if source.kind == "git":
        path = f"{directory}/git/{sha256(source.key.encode()).hexdigest()[:16]}"
        try:
            _update_from_git(source, versions, path, signers)
        except (ResourceError, Untrusted):
            if not is_damaged(path):
                raise
            shutil.rmtree(path, ignore_errors=True)
            _update_from_git(source, versions, path, signers)
        return
    raw, signature = _fetch(source.location) if source.kind == "url" else bundle_format.read_signed(source.location)
    signer = trust.verify(raw, signature, signers)
    contents = bundle_format.read(raw)
    version = Version(sha256(raw).hexdigest(), contents.generation, signer, contents.name, tuple(contents.modules))
    _check_newer(version, versions.newest)
    versions.accept(version, lambda tree: bundle_format.extract(contents, tree))


def _update_from_git(source: Source, versions: Versions, path: str, signers: str) -> None:
    """Fetch, verify and accept a source's current commit, with its local copy at ``path``. Raise like ``_update``."""
    repository = Repository(path)
    version = repository.verify(repository.fetch(source.location, source.branch), signers, versions.newest)
    versions.accept(version, lambda tree: repository.write(version.id, tree))


def _fetch(url: str) -> tuple[bytes, bytes]:
    """Download a bundle and the signature beside it. Raise ``ResourceError``, and ``Untrusted`` without a signature."""
    with download.fetch(url, largest=bundle_format.LARGEST_FILE, timeout=_TRANSFER) as file:
        raw = file.read()
    try:
        with download.fetch(url + trust.SIGNATURE_SUFFIX, largest=trust.LARGEST_SIGNATURE, timeout=_TRANSFER) as file:
            return raw, file.read()
    except download.Missing as error:
        raise Untrusted(f"it is not signed: there is no {url}{trust.SIGNATURE_SUFFIX}") from error


_FORMAT: Final = 1
_LARGEST: Final = 1 << 20


class Version(NamedTuple):
    """One version of a source. ``id``: the digest of a bundle or of a commit; ``modules``: directories in it.

    ``generation``: the bundle's number, or the number of commits up to this one. ``name``: the bundle's.
    """

    id: str
    generation: int
    signer: str
    name: str = ""
    modules: tuple[str, ...] = ()


class Versions:
    """The versions of one source in an agent's directory, which only its owner can open."""

    def __init__(self, directory: str, source: str) -> None:
        """Read the accepted versions of a ``source``, named by its key, from the agent's ``directory``.

        Directories are created if missing. Raise ``Untrusted``, ``StateError``, ``OSError``.
        """
        make_directory(f"{directory}/newest")
        self._source = source
        #: The file with each source's newest version, the directory of all files, the link to those of this source's.
        self._record = f"{directory}/accepted.json"
        self._trees = f"{directory}/versions"
        self._link = f"{directory}/newest/{sha256(source.encode(errors='surrogateescape')).hexdigest()[:12]}"
        #: Key of a source → its newest version.
        self._accepted = _read(self._record)

    @property
    def newest(self) -> Version | None:
        """The newest accepted version, or None."""
        return self._accepted.get(self._source)

    def path(self, version: Version) -> str:
        """Return the directory of a version's files."""
        return f"{self._trees}/{version.id}"

    def has_files(self, version: Version) -> bool:
        """Whether the files of a version exist; its directory gets its name when they are complete."""
        return os.path.isdir(self.path(version))

    def link(self, version: Version) -> str:
        """Make and return a symbolic link to a version's files, with the same path for all versions of the source.

        State and the no-change cache identify a manifest by its path, and would take each version for another manifest.
        Raise ``OSError``.
        """
        target, new = f"../versions/{version.id}", f"{self._link}.new"
        if not os.path.lexists(self._link) or os.readlink(self._link) != target:
            with suppress(FileNotFoundError):
                os.unlink(new)
            os.symlink(target, new)
            private_files.rename(new, self._link)
        return self._link

    def accept(self, version: Version, write: Callable[[str], object]) -> None:
        """Record a version durably as the newest, after ``write`` wrote its files into a new directory.

        Remove the files of all versions that are no source's newest. Raise ``OSError``.
        """
        if not self.has_files(version):
            new = f"{self.path(version)}.new"
            make_directory(self._trees)
            shutil.rmtree(new, ignore_errors=True)
            write(new)
            private_files.rename(new, self.path(version))
        if self.newest != version:
            accepted = {**self._accepted, self._source: version}
            document = {"format": _FORMAT, "sources": {name: item._asdict() for name, item in accepted.items()}}
            files.replace(self._record, json.dumps(document, indent=1).encode() + b"\n", mode=0o600)
            self._accepted = accepted
        for name in set(os.listdir(self._trees)) - {item.id for item in self._accepted.values()}:
            shutil.rmtree(f"{self._trees}/{name}", ignore_errors=True)


def _read(path: str) -> dict[str, Version]:
    """Return the versions accepted so far. Raise ``StateError``: without them an older version would be accepted."""
    try:
        record = json.loads(reading.read(path, _LARGEST))
        sources = record["sources"] if record["format"] == _FORMAT else {}
        return {str(source): _version(fields) for source, fields in sources.items()}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise StateError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        msg = f"{path}: is damaged; remove it to accept any signed version anew, also an older one"
        raise StateError(msg) from error


def _version(fields: Mapping[str, Any]) -> Version:
    """Return the version of its recorded fields. Raise ``ValueError`` for a damaged record.

    The id becomes the name of a directory, so that one with a slash or ``..`` could lead elsewhere.
    """
    version = Version(**{**fields, "modules": tuple(fields["modules"])})
    if not version.id.isalnum() or type(version.generation) is not int:
        raise ValueError(version)
    return version


def _check_newer(version: Version, newest: Version | None) -> None:
    """Raise ``Untrusted`` for a bundle of another name, of an older generation, or unequal with the same generation.

    Its signature is valid, but an attacker could bring back an older bundle with known faults.
    """
    if newest is None or version.id == newest.id:
        return
    if version.name != newest.name:
        raise Untrusted(f"it is a bundle of '{version.name}', not of '{newest.name}'")
    if version.generation <= newest.generation:
        how = "older than" if version.generation < newest.generation else "another one than"
        msg = f"generation {version.generation} is {how} the newest that was applied, generation {newest.generation}"
        raise Untrusted(msg)


#: No questions, no background processes, and no programs or protocols by the repository.
_ENVIRONMENT: Final = {"GIT_TERMINAL_PROMPT": "0", "GIT_SSH_COMMAND": "ssh -oBatchMode=yes"}
_SETTINGS: Final = (
    *("gc.auto=0", "maintenance.auto=false", "core.hooksPath=/dev/null", "transfer.fsckObjects=true"),
    *("protocol.allow=never", "protocol.https.allow=always", "protocol.ssh.allow=always", "protocol.file.allow=always"),
    *("credential.interactive=false", "tar.umask=0022", "core.fsync=all"),
)
#: Replacements for programs that would verify with the caller's keys.
_NO_OTHER_SIGNATURES: Final = (
    "gpg.program=/bin/false",
    "gpg.openpgp.program=/bin/false",
    "gpg.x509.program=/bin/false",
)
#: The signature header of a commit; continuation lines begin with a space.
_SIGNATURE: Final = regex(r"^gpgsig(?:-sha256)? ((?:.*\n)(?: .*\n)*)", re.MULTILINE)
_FETCHED: Final = "refs/agent/fetched"
#: Variable for the certificate authorities of Python and OpenSSL → git's variable.
_AUTHORITIES: Final = {"SSL_CERT_FILE": "GIT_SSL_CAINFO", "SSL_CERT_DIR": "GIT_SSL_CAPATH"}
#: git's message after the reason from ssh.
_REMOTE: Final = "fatal: Could not read from remote repository"


def _git() -> Command:
    """Return git with its environment."""
    authorities = {git: os.environ[name] for name, git in _AUTHORITIES.items() if os.environ.get(name)}
    return Command("git", read_only=True, timeout=_TRANSFER, env={**_ENVIRONMENT, **authorities})


def is_damaged(path: str) -> bool:
    """Whether a copy of a repository lacks a part, as after a loss of power."""
    options = ("-C", path, "fsck", "--connectivity-only", "--no-dangling")
    return _git().attempt(*options, log="debug").exit_code != 0


class Repository:
    """The agent's copy of a branch of a repository.

    Nothing of the repository is executed: no hook, filter or submodule. Only SSH signatures count.
    """

    def __init__(self, path: str) -> None:
        """Create or complete the local copy of a repository, without a killed run's lock files, which would stop git.

        Raise ``ResourceError``, ``OSError``.
        """
        self._path = path
        make_directory(path)
        for lock in Path(path).rglob("*.lock"):  # left by a killed run
            lock.unlink(missing_ok=True)
        self._run("init", "--quiet", "--bare", "--template=", path)

    def fetch(self, url: str, branch: str | None) -> str:
        """Fetch a branch, None for the default one, into the copy; return its commit. Raise ``ResourceError``."""
        ref = "HEAD" if branch is None else f"refs/heads/{branch}"
        self._run("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--", url, f"+{ref}:{_FETCHED}")
        return self._run("rev-parse", "--verify", f"{_FETCHED}^{{commit}}").strip()

    def verify(self, commit: str, signers: str, newest: Version | None) -> Version:
        """Return the version of a commit. Raise ``Untrusted`` if no allowed signer signed it.

        ``signers``: the file of allowed keys. Raise it also if the commit does not descend from the ``newest`` applied
        version: an attacker could otherwise bring back a signed version with known faults.
        """
        settings = (*_NO_OTHER_SIGNATURES, f"gpg.ssh.allowedSignersFile={signers}")
        result = _git().attempt(*self._options(settings), "verify-commit", commit, log="debug")
        if result.exit_code:
            lines = filled_lines(result.stderr)
            reason = f": {lines[-1]}" if lines else ""
            raise Untrusted(f"commit {commit[:12]} is not signed by any key in {signers}{reason}")
        # Good "git" signature for ann@example.org with ED25519 key SHA256:...
        signer = result.stderr.partition(" signature for ")[2].partition(" with ")[0]
        # git checks a key's validity at the date of the commit, which its author chooses.
        if signer not in trust.signers_valid_now(self._signature(commit), signers):
            raise Untrusted(f"commit {commit[:12]} is signed by {signer}, whose key is not valid any more or not yet")
        if newest is not None:
            ancestry = (*self._options(), "merge-base", "--is-ancestor", newest.id, commit)
            if _git().attempt(*ancestry, log="debug").exit_code:  # also for an unknown ancestor
                raise Untrusted(f"commit {commit[:12]} does not follow {newest.id[:12]}, the newest that was applied")
        return Version(commit, int(self._run("rev-list", "--count", commit)), signer)

    def write(self, commit: str, directory: str) -> None:
        """Write the files of a commit into a new directory, durably. Raise ``ResourceError``, ``OSError``.

        git packs them as a tar file, checked like a bundle: no filter or hook of the repository is executed.
        """
        with tempfile.TemporaryFile(dir=self._path) as file:
            # The file has no name, so that a killed run leaves nothing behind.
            output = f"/proc/{os.getpid()}/fd/{file.fileno()}"
            self._run("archive", "--format=tar", f"--output={output}", commit)
            limits = Limits(bundle_format.LARGEST, bundle_format.MAX_FILES)
            unpack_new(archive_members.members(file, limits), directory)

    def _signature(self, commit: str) -> bytes:
        """Return the signature in a commit's header, to check that its key is valid now.

        b"" for none, and for more than one, because it would be uncertain which of them git has verified.
        """
        header = self._run("cat-file", "commit", commit).partition("\n\n")[0]
        signatures = _SIGNATURE.findall(f"{header}\n")
        return signatures[0].replace("\n ", "\n").encode() if len(signatures) == 1 else b""

    def _options(self, settings: Sequence[str] = ()) -> list[str]:
        """Return the options of every git command: the repository, and settings that override the machine's."""
        options = ["-C", self._path]
        for setting in (*_SETTINGS, *settings):
            options += ["-c", setting]
        return options

    def _run(self, *arguments: str) -> str:
        """Return the output of a git command on this copy. Raise ``ResourceError`` with git's reason."""
        try:
            return _git()(*self._options(), *arguments, log="debug").stdout
        except CommandError as error:
            raise ResourceError(f"git {arguments[0]}: {_reason(error)}") from error


def _reason(error: CommandError) -> str:
    """Return the reason of a failure from git's messages; if they say only that ssh failed, the message of ssh."""
    lines = filled_lines(error.stderr) or [str(error)]
    fatal = next((line for line in lines if line.startswith(("fatal: ", "error: "))), lines[-1])
    preceding = lines[: lines.index(fatal)]
    if fatal.startswith(_REMOTE) and preceding:
        return preceding[-1].rstrip(".")
    return fatal.removeprefix("fatal: ").removeprefix("error: ")
