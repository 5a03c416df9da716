"""Check out revisions with git, which runs as the owner of each checkout."""

from __future__ import annotations

import os
import pwd
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lib import git, prerequisites, removed_directories
from lib.git import WorkingCopy
from lib.rename import rename
from lib.sensitive import exposed_password, refused_secrets, reveal
from resource_api import BaseProvider, CannotList, Command, CommandError, Problem, ResourceError, files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from resource_api import Change, Context, Resource, SideEffect

#: In the directory of git while git works there: after a kill its locks are left, and then half of the files.
WORKING, CHECKING_OUT = "resource-api.working", "resource-api.checking-out"
#: Added to the hidden name of a directory that is not complete yet, or no more.
NEW, OLD = ".git_checkout~new", ".git_checkout~old"


class Provider(BaseProvider):
    """The checkouts of the local machine."""

    find, rm, sync, touch = Command("find"), Command("rm"), Command("sync"), Command("touch")

    def __init__(self) -> None:
        """Start without a revision that was looked up."""
        self._targets: dict[tuple[str, str | None], git.Target] = {}

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Clean paths, and write commits in lower case, as git does, so that equal values are equal."""
        for resource in resources:
            resource["path"] = files.canonical_path(resource["path"])
            revision = resource.get("revision")
            if isinstance(revision, str) and git.COMMIT.fullmatch(revision.lower()):
                resource["revision"] = revision.lower()
        return resources

    def validate(self, _context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Refuse passwords that other users could see, or that the source does not use."""
        source, password = should.get("source"), should.get("password")
        yield from refused_secrets(should, "password", advice="; declare 'password'")
        yield from exposed_password("source", source, "declare 'password'")
        if isinstance(source, str) and password is not None and not source.startswith(("http://", "https://")):
            yield Problem("password", "a password is for http and https; ssh has 'identity'")
        if files.owner_number(should.get("user")) is not None:
            yield Problem("user", "user must be a name: git runs as this user")
        for name in ("username", "password"):
            if set(str(reveal(should.get(name)))) & set("\r\n\0"):
                yield Problem(name, f"the {name} is not one line")

    def insync(
        self, _context: Context, _name: str, attribute: str, is_: Mapping[str, Any], should: Mapping[str, Any]
    ) -> bool | tuple[bool, str] | None:
        """Compare the commit with the revision's present one at the source, and tracked files with the commit.

        Changed files count only with ``force``, which overwrites them, and submodules only if they are declared.
        """
        if attribute == "revision" and is_.get("revision") not in {None, should["revision"]}:
            commit = self._target(should, _account(is_["user"])).commit
            difference = f"changed from {is_['revision'][:12]} to {_short(should['revision'], commit)}"
            return is_["revision"] == commit or (False, difference)
        if attribute == "source" and is_.get("source") == should["source"]:
            changed = is_.get("modified") if should.get("force") else None
            outdated = is_.get("outdated_submodules") if should.get("submodules") else None
            names = [*(changed or ()), *(outdated or ())]
            return (False, f"not as in the commit: {', '.join(names)}") if names else None
        return None

    def get(self, context: Context, names: Collection[str] | None = None) -> Iterator[Resource]:
        """Return the checkouts in ``names``; one that cannot be read fails alone.

        Raise ``CannotList`` without ``names``, as a checkout can be in any directory.
        """
        if names is None:
            raise CannotList("a checkout can be in any directory; name it")
        for path in names:
            try:
                row = _read(path)
            except (OSError, ResourceError) as error:
                context.failed(path, message=_message(error, path))
            else:
                if row is not None:
                    yield row

    def preflight(self, _context: Context, changes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Problem]]:
        """Yield the missing prerequisites (git, the directory above, the user, the private key), and losses of work."""
        yield from prerequisites.of_files(
            changes,
            lambda path, should: [
                *prerequisites.missing_program(None, "git", "Package[git]"),
                *prerequisites.missing_parent(path),
                *prerequisites.missing_user("user", should.get("user")),
                *prerequisites.missing_file("identity", should.get("identity")),
            ],
            replaced=False,
        )
        for path, should in changes.items():
            yield from ((path, problem) for problem in _loss(path, should))

    def side_effects(self, _context: Context, changes: Mapping[str, Change]) -> Iterator[tuple[str, SideEffect]]:
        """Yield the content of checkouts that are removed."""
        return removed_directories.side_effects(changes)

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Make, update or remove one checkout after another."""
        for path, (_, should) in changes.items():
            try:
                if should.get("ensure") == "absent":
                    self._remove(path, force=should.get("force", False))
                elif os.path.lexists(f"{path}/.git"):
                    self._update(path, should)
                else:
                    self._create(path, should)
            except (OSError, ResourceError) as error:
                context.failed(path, message=_message(error, path))

    def _target(self, should: Mapping[str, Any], user: str | None) -> git.Target:
        """Return the commit of a revision, by one query of its source in a run, so that plan and apply agree."""
        key = should["source"], should.get("revision")
        if key not in self._targets:
            try:
                self._targets[key] = git.resolve(should, user)
            except CommandError as error:
                raise ResourceError(git.reason(error)) from None
        return self._targets[key]

    def _create(self, path: str, should: Mapping[str, Any]) -> None:
        """Make a checkout under a hidden name, and rename it when it is complete and on disk."""
        new = _aside(path, NEW)
        with files.Batch() as batch:
            for remains in (new, _aside(path, OLD)):  # of a killed run
                with suppress(FileNotFoundError):
                    batch.remove(remains, recursive=True)
            user = should.get("user")
            uid, gid = (None, None) if user is None else (files.user_id(user), pwd.getpwnam(user).pw_gid)
            batch.make_directory(new, mode=0o755, uid=uid, gid=gid)
        try:
            self._fill(new, should)
            rename(new, path.rpartition("/")[2])
        except (OSError, ResourceError):
            with files.Batch() as batch:
                batch.remove(new, recursive=True)
            raise

    def _fill(self, new: str, should: Mapping[str, Any]) -> None:
        """Make a repository in an empty directory, fetch the revision and check it out, for ``_create``.

        All of it is on disk at the end, before the directory gets its name.
        """
        copy = _working_copy(new)
        target = self._target(should, copy.user)
        # Without the template of the machine, whose hooks git would run.
        copy.run("init", "-q", "--template=")
        copy.run("remote", "add", "origin", "--", should["source"])
        copy.fetch(should, target)
        copy.check_out(should, target, force=False)
        self.sync("--file-system", new)

    def _update(self, path: str, should: Mapping[str, Any]) -> None:
        """Check out another commit in an existing checkout, unless a user's work would be lost.

        Two marker files in ``.git`` let the next run repair a killed update. Locks of git that are newer than
        ``WORKING`` come from that update and may be removed. After ``CHECKING_OUT`` changed files come from it too and
        may be overwritten.
        """
        copy = _working_copy(path)
        target = self._target(should, copy.user)
        directory = self._repaired(copy, path)
        user, working, checking_out = copy.user, f"{directory}/{WORKING}", f"{directory}/{CHECKING_OUT}"
        force = should["force"] or os.path.lexists(checking_out)
        if not force:
            copy.refuse_loss("HEAD", *([f"--branches={target.branch}"] if target.branch else []))
        # Older than any lock that git makes from now on: ``find -newer`` compares times of limited precision.
        self.touch("--date=1 second ago", working, user=user)
        try:
            _fetch(copy, should, target, force=force)
        except CommandError:
            self.rm("-f", "--", working, user=user)
            raise
        self.touch(checking_out, user=user)
        self.sync("--file-system", path)
        copy.check_out(should, target, force=force)
        self.sync("--file-system", path)
        self.rm("-f", "--", checking_out, working, user=user)
        self.sync("--file-system", path)

    def _repaired(self, copy: WorkingCopy, path: str) -> str:
        """Return git's directory of a checkout. If git was killed there, remove its locks, at which git would fail."""
        directory = copy.ask("rev-parse", "--absolute-git-dir").stdout.rstrip("\n")
        if not directory:  # git was killed before it had made a repository of ``.git``
            copy.run("init", "-q", "--template=")
            directory = f"{path}/.git"
        if os.path.lexists(working := f"{directory}/{WORKING}"):
            locks = ("-name", "*.lock", "-type", "f", "-newer", working)
            self.find(directory, *locks, "-delete", user=copy.user)
        return directory

    def _remove(self, path: str, *, force: bool) -> None:
        """Remove a checkout, renamed before, so that a killed run leaves no half of it under its name.

        Without ``force``, a removal of work that is nowhere else is refused. Files that a killed update has changed
        (``CHECKING_OUT``) are no such work.
        """
        old = _aside(path, OLD)
        if os.path.lexists(path):
            if not force and not os.path.lexists(f"{path}/.git/{CHECKING_OUT}"):
                _working_copy(path).refuse_loss("--all", untracked=True)
            with files.Batch() as batch, suppress(FileNotFoundError):
                batch.remove(old, recursive=True)
            if mounts := sorted(mount for mount in files.mount_points() if f"{mount}/".startswith(f"{path}/")):
                raise ResourceError(f"'{mounts[0]}' is a mount point, so it cannot be removed before it is unmounted")
            rename(path, old.rpartition("/")[2])
        with files.Batch() as batch:
            for remains in (_aside(path, NEW), old):
                with suppress(FileNotFoundError):
                    batch.remove(remains, recursive=True)


def _loss(path: str, should: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield a problem if a change would lose work in a checkout, so that a plan shows the refusal of ``set``.

    Local changes and commits of ``HEAD`` count for each change; a removal would also lose untracked files and the
    commits of other branches. With ``force``, and after a killed update, nothing is refused.
    """
    git_directory = f"{path}/.git"
    if should.get("force") or not os.path.lexists(git_directory) or os.path.lexists(f"{git_directory}/{CHECKING_OUT}"):
        return
    try:
        removed = should.get("ensure") == "absent"
        _working_copy(path).refuse_loss("--all" if removed else "HEAD", untracked=removed)
    except (OSError, ResourceError) as error:
        yield Problem(None, _message(error, path))


def _read(path: str) -> Resource | None:
    """Return the row of a checkout, or None without one. Raise ``ResourceError`` for anything else at the path.

    The rest of a killed removal counts as a checkout too, so that the next run removes it.
    """
    with files.Directories() as directories:
        status = _status(directories, path)
        if status is None:
            remains = _status(directories, _aside(path, OLD))
            if remains is None:
                return None
            return {"ensure": "present", "path": path, "user": files.user_name(remains.st_uid)}
    if not stat.S_ISDIR(status.st_mode):
        raise ResourceError("is not a directory")
    if not os.path.lexists(f"{path}/.git"):
        if any(Path(path).iterdir()):
            raise ResourceError("is a directory with other files, and not a checkout")
        return None
    row: Resource = {"ensure": "present", "path": path, "user": files.user_name(status.st_uid)}
    content = _working_copy(path).content()
    if os.path.lexists(f"{path}/.git/{WORKING}"):
        content.pop("source", None)  # it is incomplete until the next run has checked it out again
    return row | content


def _status(directories: files.Directories, path: str) -> os.stat_result | None:
    """Return the status of the file or directory at a path, or None if there is none; a link is not followed."""
    with suppress(FileNotFoundError):
        return files.stat_and_read(directories, path, 0)[0]
    return None


def _fetch(copy: WorkingCopy, should: Mapping[str, Any], target: git.Target, *, force: bool) -> None:
    """Fetch a commit from the declared source, and check without ``force`` that its check-out would lose no file.

    Raise ``CommandError`` if the new commit would overwrite a local file; the files are unchanged then.
    """
    has_origin = copy.ask("config", "--local", "--get", "remote.origin.url").exit_code == 0
    copy.run("remote", "set-url" if has_origin else "add", "origin", "--", should["source"])
    copy.fetch(should, target)
    if not force and copy.ask("rev-parse", "-q", "--verify", "HEAD").stdout:
        # The dry run fails where the new commit would overwrite a local file.
        copy.attempt("update-index", "-q", "--refresh")
        copy.run("read-tree", "--dry-run", "-m", "-u", "HEAD", target.commit)


def _working_copy(path: str) -> WorkingCopy:
    """Return the working copy in a directory. Raise ``CommandError`` if git may not run there.

    git runs as the owner of the directory, as it executes hooks and settings that this owner could write. git itself
    refuses a repository that belongs to a third user.
    """
    with files.Directories() as directories:
        parent, name = directories.place(path)
        owner = os.lstat(name, dir_fd=parent.fd).st_uid
    return WorkingCopy(path, None if owner == os.geteuid() else files.user_name(owner)).check()


def _aside(path: str, suffix: str) -> str:
    """Return the hidden path beside a checkout under which a new or a former one stands meanwhile."""
    parent, _, name = path.rpartition("/")
    return f"{parent}/.{name}{suffix}"


def _account(user: str) -> str | None:
    """Return the user whom git runs as, or None for the user of the run."""
    return None if files.user_id(user) == os.geteuid() else user


def _short(revision: str, commit: str) -> str:
    """Return a revision for a message, with the beginning of its commit."""
    return commit[:12] if revision == commit else f"{revision} ({commit[:12]})"


def _message(error: Exception, path: str) -> str:
    """Return an error as text: the reason that git prints, or the system's."""
    return git.reason(error) if isinstance(error, CommandError) else files.describe_error(error, path)
