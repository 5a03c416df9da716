"""Run git: query a source for revisions without showing a password, and read and change a working copy as its owner."""

from __future__ import annotations

import os
import re
import shlex
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

from lib.secret_pipe import served
from resource_api import Command, CommandError, ResourceError, files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from resource_api import CommandResult

#: Most names in ``modified`` and ``outdated_submodules``.
MOST_NAMES = 20
#: The last commit that was checked out here; a commit that no branch of the source leads to is not the user's own then.
OURS = "refs/resource-api/checkout"
#: The mode of a submodule in the index.
LINK = "160000 "
#: Bytes of a file that names a directory of git.
LONGEST = 8192
#: Bytes of a file of settings.
LONGEST_SETTINGS = 1 << 20
#: The settings that name further files of settings.
INCLUDE = r"^include(if\..*)?\.path$"
#: The number of fields before the name in a record of ``git status --porcelain=v2``, by its kind.
FIELDS = {"1": 8, "2": 9, "u": 10}
#: Whatever the settings of a repository, git executes no program that they name when it reads or checks out files, and
#: flushes files before their renames: a loss of power would empty the index or HEAD. git before 2.36 ignores that.
SETTINGS = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.fsync=all")
#: Ask no questions, write nothing while reading, and end with the work: a garbage collection would go on alone.
ENVIRONMENT = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_CONFIG_COUNT": "3",
    "GIT_CONFIG_KEY_0": "gc.autoDetach",
    "GIT_CONFIG_VALUE_0": "false",
    "GIT_CONFIG_KEY_1": "maintenance.autoDetach",
    "GIT_CONFIG_VALUE_1": "false",
    "GIT_CONFIG_KEY_2": "advice.detachedHead",
    "GIT_CONFIG_VALUE_2": "false",
}
COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
#: The prefixes of git's errors, and the number of lines of an error that are shown.
PREFIXES, MOST_LINES = ("fatal: ", "error: "), 4
#: The longest that a transfer may take, in seconds, if the resource has no `timeout`.
TRANSFER = 3600.0

git = Command("git", timeout=TRANSFER, env=ENVIRONMENT)
query = Command("git", read_only=True, env=ENVIRONMENT)


class Target(NamedTuple):
    """The commit to check out, and the ref at the source that leads to it, or None."""

    commit: str
    ref: str | None

    @property
    def branch(self) -> str | None:
        """The name of the branch that is followed."""
        return self.ref.removeprefix("refs/heads/") if self.ref and self.ref.startswith("refs/heads/") else None


def resolve(should: Mapping[str, Any], user: str | None) -> Target:
    """Return the commit that a revision has at its source now; without a revision, the default branch's.

    ``should`` are the attributes of a checkout; ``user``: the one whom git runs as. A commit in full is not looked up.
    Raise ``ResourceError`` for a revision that the source does not have, ``CommandError`` for a source that cannot be
    read.
    """
    source, revision = should["source"], should.get("revision")
    if revision is not None and COMMIT.fullmatch(revision):
        return Target(revision, None)
    refs = ["HEAD"] if revision is None else _refs(revision)
    with access(should, user) as (options, variables):
        patterns = [*refs, *(f"{ref}^{{}}" for ref in refs)]
        argv = (*SETTINGS, *options, "ls-remote", "--symref", "--", source, *patterns)
        answer = query(*argv, user=user, env=variables, log="debug").stdout
    lines = [line.split("\t") for line in answer.splitlines()]
    commits = {line[1]: line[0] for line in lines if not line[0].startswith("ref: ")}
    ref = next((ref for ref in refs if ref in commits), None)
    if ref is None:
        missing = f"no branch and no tag '{revision}'; a commit has all its digits" if revision else "no commit"
        raise ResourceError(f"{source} has {missing}")
    # Lines are ``ref: refs/heads/main<TAB>HEAD`` for the default branch, or ``COMMIT<TAB>REF``. An annotated tag is an
    # object of its own: the line of ``TAG^{}`` has its commit.
    links = {line[1]: line[0].removeprefix("ref: ") for line in lines if line[0].startswith("ref: ")}
    return Target(commits.get(f"{ref}^{{}}", commits[ref]), links.get(ref, ref))


def _refs(revision: str) -> list[str]:
    """Return the names that a revision may have: of a branch, or of a tag."""
    return [revision] if revision.startswith("refs/") else [f"refs/heads/{revision}", f"refs/tags/{revision}"]


@contextmanager
def access(should: Mapping[str, Any], user: str | None) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Yield the options and variables that give git access to the source while the block lasts.

    They are made of the private key ``identity`` or the ``password`` in ``should``. A password reaches git through a
    pipe and a credential helper, because other users could read it in an argument. ``user``: the one whom git runs as,
    who reads the pipe.
    """
    ssh = "ssh -oBatchMode=yes"
    if should.get("identity") is not None:
        ssh += f" -oIdentitiesOnly=yes -i {shlex.quote(should['identity'])}"
    variables = {"GIT_SSH_COMMAND": ssh}
    if should.get("password") is None:
        yield ["-c", "credential.helper="], variables
        return
    url = urlsplit(should["source"])
    name = should.get("username") or unquote(url.username or "git")
    text = f"username={name}\npassword={should['password'].reveal()}\n"
    origin = f"{url.scheme}://{url.netloc.rpartition('@')[2]}"
    with served(text.encode(), user) as pipe:
        # git calls a helper with get, store or erase, and reads the two lines of ``text`` from it for get.
        helper = f"!f() {{ test $1 != get || head -n 2 {shlex.quote(pipe)}; }}; f"
        yield ["-c", "credential.helper=", "-c", f"credential.{origin}.helper={helper}"], variables


def reason(error: Exception) -> str:
    """Return git's own reason for a failure, without the command, whose many options would hide it from the user."""
    if not isinstance(error, CommandError) or error.status is None or not error.stderr.strip():
        return str(error)
    return messages(error.stderr)


def messages(stderr: str) -> str:
    """Return the errors in git's output as one line for a message, without ``fatal: `` and the lines before it."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    first = next((number for number, line in enumerate(lines) if line.startswith(PREFIXES)), 0)
    return "; ".join(re.sub(f"\\A({'|'.join(PREFIXES)})", "", line) for line in lines[first : first + MOST_LINES])


class WorkingCopy(NamedTuple):
    """A directory and the user whom git runs as there; None is the user of the run.

    ``checked``: the directories of it and of its submodules, once a check has found that no other user can change them.
    """

    path: str
    user: str | None
    checked: tuple[str, ...] = ()

    def check(self) -> WorkingCopy:
        """Return the same working copy, after a check that no other user can make git execute programs with our rights.

        git executes programs that the settings in its directories name, in each submodule too, and writes into the
        directories of tracked files. Raise ``CommandError`` for one of them that other users can change. With a
        declared user nothing is checked, because git then has only the rights of that user.
        """
        if self.user is not None:
            return self
        checked: list[str] = []
        unchecked = [self.path]
        while unchecked:
            path = unchecked.pop()
            directories = list(_git_directories(path))
            query.check_code(*directories)
            self._check_included(directories)
            if os.path.lexists(f"{path}/.git"):
                checked.append(path)
                # git reads another user's directory only if it is named as checked.
                listed = self._replace(path=path, checked=(path,)).ask("ls-files", "-z", "--stage").stdout
                entries = [entry.split("\t", 1) for entry in listed.split("\0")[:-1]]
                inside = {f"{path}/{name}".rpartition("/")[0] for _, name in entries}
                query.check_code(f"{path}/.gitmodules", places=sorted(inside))
                unchecked += [f"{path}/{name}" for mode, name in entries if mode.startswith(LINK)]
        return self._replace(checked=tuple(checked))

    def _check_included(self, directories: Sequence[str]) -> None:
        """Check the files that the settings in ``directories`` include, also those behind a condition (``includeIf``).

        Included files may name programs for git to execute, and include further files. Raise ``CommandError`` for a
        file that other users can change, ``OSError`` for one that cannot be read.
        """
        unread = [f"{directory}/{name}" for directory in directories for name in ("config", "config.worktree")]
        checked: set[str] = set()
        while unread:
            with suppress(FileNotFoundError, NotADirectoryError):
                included = self._included_files(unread.pop())
                query.check_code(*included)
                new = set(map(os.path.realpath, included)) - checked
                checked |= new
                unread += new

    def _included_files(self, path: str) -> list[str]:
        """Return the paths of the files that a file of settings includes, without reading them. Raise ``OSError``.

        They must be checked before git reads them, because they can name programs, too.
        """
        if b"include" not in files.read(path, LONGEST_SETTINGS).lower():
            return []
        words = ("--file", path, "--no-includes", "--type=path", "-z", "--get-regexp", INCLUDE)
        entries = self.ask("config", *words).stdout.split("\0")[:-1]
        directory = os.path.dirname(path)  # noqa: PTH120 - text
        return [os.path.join(directory, entry.partition("\n")[2]) for entry in entries]  # noqa: PTH118 - text

    def run(self, *arguments: str, env: Mapping[str, str] | None = None) -> None:
        """Run git in the directory. Raise ``CommandError`` for a failure."""
        git(*self._settings, *arguments, **self._options(env))

    def attempt(self, *arguments: str) -> int:
        """Run git in the directory and return its exit code."""
        return git.attempt(*self._settings, *arguments, **self._options()).exit_code

    def ask(self, *arguments: str) -> CommandResult:
        """Run a query of git in the directory, under noop too, and return its result."""
        return query.attempt(*self._settings, *arguments, **self._options())

    @property
    def _settings(self) -> tuple[str, ...]:
        """The settings of every call; git itself refuses files of other users, also where their settings trust them."""
        return (*SETTINGS, *(word for path in self.checked for word in ("-c", f"safe.directory={path}")))

    def _options(self, variables: Mapping[str, str] | None = None) -> Any:
        """Return the options of every call: git looks for no repository in the directories above."""
        env = {"GIT_CEILING_DIRECTORIES": self.path.rpartition("/")[0], **(variables or {})}
        return {"cwd": self.path, "user": self.user, "env": env, "log": "debug"}

    def content(self) -> dict[str, Any]:
        """Return the attributes of the checkout as git reports them, for ``get``.

        There are none if git was interrupted while it made the repository.
        """
        options = ("--porcelain=v2", "--branch", "-z", "--untracked-files=no", "--ignore-submodules=untracked")
        status = self.ask("status", *options)
        if status.exit_code:
            if "not a git repository" in status.stderr:  # its creation was interrupted
                return {}
            raise ResourceError(messages(status.stderr))
        records = status.stdout.split("\0")
        # ``# branch.head main``, and ``# branch.oid COMMIT``: git-status(1).
        heads = dict(record[2:].split(" ", 1) for record in records if record[:2] == "# ")
        source = self.ask("config", "--local", "--get", "remote.origin.url").stdout.removesuffix("\n")
        attributes = {"source": source, "branch": heads.get("branch.head", ""), "revision": heads.get("branch.oid", "")}
        return {
            "modified": list(_changed(records))[:MOST_NAMES],
            "outdated_submodules": list(self._outdated_submodules())[:MOST_NAMES],
            # Without those that are missing, and ``(detached)`` and ``(initial)``.
            **{name: text for name, text in attributes.items() if text and (name == "source" or text[0] != "(")},
        }

    def _outdated_submodules(self) -> Iterator[str]:
        """Yield the paths of submodules that a checkout has to update, as a run reports them.

        They are not initialized, or at another revision than the one in the commit.
        """
        if os.path.lexists(f"{self.path}/.gitmodules"):
            for line in self.ask("submodule", "status", "--recursive").stdout.splitlines():
                if line[:1] in {"-", "+", "U"}:  # ``+COMMIT lib/x (v1.0)``: git-submodule(1)
                    path = line[1:].split(" ", 1)[1]
                    yield path.rpartition(" (")[0] or path

    def refuse_loss(self, *commits: str, untracked: bool = False) -> None:
        """Raise ``ResourceError`` if a user's work would be lost: changes of tracked files, or commits made only here.

        It is called before a checkout or removal. ``commits`` are revisions or options of git-rev-list(1), such as
        ``HEAD`` or ``--all``. With ``untracked``, files that are neither tracked nor ignored count as well.
        """
        untracked_option = "--untracked-files=normal" if untracked else "--untracked-files=no"
        status = self.ask("status", "--porcelain=v2", "-z", untracked_option, "--ignore-submodules=untracked")
        names = list(_changed(status.stdout.split("\0")))
        if names:
            more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
            raise ResourceError(f"has local changes, which are lost with force: {', '.join(names[:MOST_NAMES])}{more}")
        # Without the commits that also the source has, or that a run has checked out.
        elsewhere = ("--not", "--remotes", "--tags", "--glob=refs/resource-api")
        count = self.ask("rev-list", "--count", *commits, *elsewhere).stdout.strip()
        if count not in {"", "0"}:
            commits_lost, verb = ("a commit", "is") if count == "1" else (f"{count} commits", "are")
            raise ResourceError(f"has {commits_lost} that the source does not have, which {verb} lost with force")

    def fetch(self, should: Mapping[str, Any], target: Target) -> None:
        """Fetch all branches and tags of the source, or with ``depth`` only the latest commits of the target.

        With ``depth`` a large history need not be transferred. A commit that no fetched branch or tag contains is
        fetched by its number.
        """
        if should.get("depth") is None:
            refspecs = ["--tags", "origin", "+refs/heads/*:refs/remotes/origin/*"]
        elif target.branch is not None:
            refspecs = [f"--depth={should['depth']}", "--no-tags", "origin"]
            refspecs.append(f"+{target.ref}:refs/remotes/origin/{target.branch}")
        else:
            refspecs = [f"--depth={should['depth']}", "--no-tags", "origin", target.ref or target.commit]
        with access(should, self.user) as (options, variables):
            fetch = (*options, "fetch", "-q", "--force", "--no-recurse-submodules")
            self.run(*fetch, *refspecs, env=variables)
            # Our ref keeps the commit. It cannot be set if no fetched branch or tag contains the commit.
            is_fetched = self.attempt("update-ref", OURS, target.commit) == 0
            if not is_fetched:
                self.run(*fetch, "origin", f"+{target.commit}:{OURS}", env=variables)

    def check_out(self, should: Mapping[str, Any], target: Target, *, force: bool) -> None:
        """Check out the fetched target, as its branch or detached, and its submodules. Raise ``CommandError``.

        ``should`` has ``submodules`` and ``depth``; ``force``: overwrite local changes. Files of the former commit that
        the new one lacks are removed.
        """
        former = self.ask("rev-parse", "-q", "--verify", "HEAD").stdout.strip()
        forced = ["--force"] if force else []
        checkout = ("checkout", "-q", "--no-recurse-submodules", *forced)
        if target.branch is None:
            self.run(*checkout, "--detach", target.commit)
        else:
            self.run(*checkout, "-B", target.branch, target.commit)
            self.run("branch", "-q", f"--set-upstream-to=origin/{target.branch}", target.branch)
        if former:
            self._remove_rest(former)
        if should["submodules"] and os.path.lexists(f"{self.path}/.gitmodules"):
            depth = [] if should.get("depth") is None else [f"--depth={should['depth']}"]
            with access(should, self.user) as (options, variables):
                self.run("submodule", "-q", "sync", "--recursive")
                self.run(*options, "submodule", "-q", "update", "--init", "--recursive", *depth, *forced, env=variables)

    def _remove_rest(self, former: str) -> None:
        """Remove the files of the ``former`` commit that the new one lacks and that still exist after a checkout.

        If git cannot remove such a file, it only warns. A path through a directory that has become a link is left
        alone, because it leads to a file elsewhere.
        """
        removed = self.ask("diff", "--name-only", "-z", "--no-renames", "--diff-filter=D", former, "HEAD").stdout
        top = os.path.realpath(self.path)
        paths = [f"{top}/{name}" for name in removed.split("\0") if name]
        within = [path for path in paths if os.path.realpath(os.path.dirname(path)) == os.path.dirname(path)]  # noqa: PTH120 - text
        if rest := [path for path in within if os.path.islink(path) or os.path.isfile(path)]:  # noqa: PTH113, PTH114 - text
            Command("rm")("-f", "--", *rest, user=self.user)


def _git_directories(path: str) -> Iterator[str]:
    """Yield the directories with a working copy's settings, to check who can change them.

    Usually it is ``.git``. In a submodule or worktree ``.git`` is a file with ``gitdir: PATH``, the path of another
    directory; for a worktree that directory has a file ``commondir`` with the path of the main repository.
    """
    directory = f"{path}/.git"
    yield directory
    with suppress(OSError):  # a directory, or nothing
        directory = _directory_in(directory, path)
        yield directory
    with suppress(OSError):
        yield _directory_in(f"{directory}/commondir", directory)


def _directory_in(file: str, base: str) -> str:
    """Return the directory that a file of git contains, relative to ``base``. Raise ``OSError``."""
    text = files.read(file, LONGEST).decode("utf-8", "surrogateescape").removeprefix("gitdir: ")
    return os.path.normpath(os.path.join(base, text.rstrip("\n")))  # noqa: PTH118 - text


def _changed(records: list[str]) -> Iterator[str]:
    """Yield the names of changed and untracked files, which a checkout could overwrite.

    ``records`` are those of ``git status --porcelain=v2 -z``.
    """
    rest = iter(records)
    for record in rest:
        if record[:1] in FIELDS:
            yield record.split(" ", FIELDS[record[:1]])[-1]  # the name comes after the fields, and may have blanks
        elif record[:2] == "? ":
            yield record[2:]
        if record[:1] == "2":  # of a renamed file: the next record is its former name
            next(rest, None)
