"""Ask the source of a git repository for revisions, and give git access to it without showing a password."""

from __future__ import annotations

import re
import shlex
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from lib.secret_pipe import served
from resource_api import Command, CommandError, ResourceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Whatever the settings of a repository, git executes no program that they name when it reads or checks out files.
SETTINGS = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
#: Ask nobody, write nothing while reading, and end with the work: a garbage collection would go on alone.
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
PREFIXES, SHOWN = ("fatal: ", "error: "), 4
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
    """Return the commit that a revision has at its source now; without a revision, that of the default branch.

    Raise ``ResourceError`` for a revision that the source does not have, ``CommandError`` for one that cannot be read.
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
        msg = f"{source} has {missing}"
        raise ResourceError(msg)
    links = {line[1]: line[0].removeprefix("ref: ") for line in lines if line[0].startswith("ref: ")}
    return Target(commits.get(f"{ref}^{{}}", commits[ref]), links.get(ref, ref))


def _refs(revision: str) -> list[str]:
    return [revision] if revision.startswith("refs/") else [f"refs/heads/{revision}", f"refs/tags/{revision}"]


@contextmanager
def access(should: Mapping[str, Any], user: str | None) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Yield the options and variables that give git access to the source while the block lasts."""
    ssh = "ssh -oBatchMode=yes"
    if should.get("identity") is not None:
        ssh += f" -oIdentitiesOnly=yes -i {shlex.quote(should['identity'])}"
    variables = {"GIT_SSH_COMMAND": ssh}
    if should.get("password") is None:
        yield ["-c", "credential.helper="], variables
        return
    url = urlsplit(should["source"])
    name = should.get("username") or url.username or "git"
    text = f"username={name}\npassword={should['password'].reveal()}\n"
    origin = f"{url.scheme}://{url.netloc.rpartition('@')[2]}"
    with served(text.encode(), user) as pipe:
        helper = f"!f() {{ test $1 != get || head -n 2 {shlex.quote(pipe)}; }}; f"
        yield ["-c", "credential.helper=", "-c", f"credential.{origin}.helper={helper}"], variables


def reason(error: Exception) -> str:
    """Return why git failed, without the command and its options."""
    if not isinstance(error, CommandError) or error.status is None or not error.stderr.strip():
        return str(error)
    return messages(error.stderr)


def messages(stderr: str) -> str:
    """Return the error output of git as one line: the first lines from an error on, without its prefix."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    first = next((number for number, line in enumerate(lines) if line.startswith(PREFIXES)), 0)
    return "; ".join(re.sub(f"\\A({'|'.join(PREFIXES)})", "", line) for line in lines[first : first + SHOWN])
