"""Working copies of git repositories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lib.path_attribute import directories_above
from resource_api import Attribute, TypeDefinition

if TYPE_CHECKING:
    from collections.abc import Mapping

#: A name that git accepts for a branch or tag (git-check-ref-format(1)), or a commit.
REVISION = (
    r"Optional[Pattern[/\A(?!.*(\.\.|@\{|\/\/|\/\.|\.lock(\/|\z)|[.\/]\z))"
    r"[^-.\/\s~^:?*\[\\[:cntrl:]][^\s~^:?*\[\\[:cntrl:]]*\z/]]"
)
#: A URL, the form of scp(1), or a path; no other protocol, as git runs programs for some.
SOURCE = (
    r"Pattern[/\A((https?|git|ssh|file):\/\/[^\s[:cntrl:]]+|\/[^[:cntrl:]]+"
    r"|[\w.][\w.@-]*:[^\s:[:cntrl:]][^\s[:cntrl:]]*)\z/]"
)


def directories(should: Mapping[str, Any]) -> list[str]:
    """Return the files that must exist first: the directories above, the repository and the private key."""
    sources = (should.get("source"), should.get("identity"))
    return directories_above(should) + [path.removeprefix("file://") for path in sources if isinstance(path, str)]


TYPE = TypeDefinition(
    name="git_checkout",
    docs="""Check out a revision of a git repository into a directory.

    Git_checkout[/srv/app]:
      source: https://git.example.org/app.git
      revision: v1.2.0
      user: deploy

    Git_checkout[/srv/site]:
      source: git@git.example.org:site.git
      revision: main
      identity: /root/.ssh/deploy

A branch is followed: each run asks the source for its newest commit, and checks it out as a local branch of the same
name. Tags are looked up too; a full commit is not. Without `revision`, the default branch is checked out once.
`lifecycle: {ignore_changes: [revision]}` follows no branch after the creation.

Changed files, and commits that the source does not have, are never lost: the resource fails, unless `force` is set,
which restores changed files in every run. Untracked files stay. The directory appears when it is complete; the next run
completes a killed update.

git runs as the owner of the directory, so root executes no hooks and settings of other users. If git runs as root, no
other user may be able to change `.git`, also of submodules, included settings, the directories of tracked files, and
those above. Otherwise the resource fails with path, owner and mode; declare the `user`, or pass `--trust-path DIR`.
Hooks are never run. The password is passed through a pipe. git refuses a local source of another user
(`safe.directory`), and local paths of submodules.
""",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the directory is a checkout.", default="present"),
        "path": Attribute(
            r"Pattern[/\A(?!.*\/\.\.(\/|\z))\/+[^\/\x00-\x1f\x7f][^\x00-\x1f\x7f]*\z/]",
            "The directory. Its parent is not created.",
            kind="namevar",
            must_be="an absolute path without '..'",
        ),
        "source": Attribute(
            SOURCE,
            "The repository.",
            must_be="a URL of http, https, ssh, git or file, user@host:path, or an absolute path",
        ),
        "revision": Attribute(
            REVISION,
            "The branch, tag or full commit; `get` reads the commit. If a branch and a tag have the same name, the"
            " branch counts; `refs/tags/NAME` is the tag.",
            must_be="a branch, a tag or a commit",
        ),
        "user": Attribute(
            r"Optional[Pattern[/\A[^\s:\/[:cntrl:]]+\z/]]",
            "The owner of the directory, and the user of git; by default the user of the run.",
            kind="init_only",
            must_be="a user's name",
        ),
        "submodules": Attribute("Boolean", "Whether to check out submodules.", kind="parameter", default=True),
        "depth": Attribute("Optional[Integer[1]]", "The number of commits of the history to fetch.", kind="parameter"),
        "force": Attribute("Boolean", "Whether local changes may be lost.", kind="parameter", default=False),
        "username": Attribute("Optional[String[1]]", "The user name for `http` and `https`.", kind="parameter"),
        "password": Attribute(
            "Optional[Sensitive[String[1]]]", "The password or token for `http` and `https`.", kind="parameter"
        ),
        "identity": Attribute(
            r"Optional[Pattern[/\A\/[^[:cntrl:]]+\z/]]",
            "The private key for `ssh`, readable by `user`. The host's key must be known.",
            kind="parameter",
            must_be="an absolute path",
        ),
        "branch": Attribute("Optional[String]", "The local branch, if any.", kind="read_only"),
        "modified": Attribute(
            "Optional[Array[String]]", "Up to 20 tracked files that differ from the commit.", kind="read_only"
        ),
        "outdated_submodules": Attribute(
            "Optional[Array[String]]", "Up to 20 submodules that differ from the commit.", kind="read_only"
        ),
    },
    autorequires={"file": directories, "user": "$user", "package": "git"},
    features={
        "canonicalize",
        "custom_insync",
        "parallel",
        "preflight",
        "preflight_of_removals",
        "side_effects",
        "side_effects_of_removals",
        "simple_get_filter",
        "validate",
    },
    verbs={"create": "cloning"},
)
