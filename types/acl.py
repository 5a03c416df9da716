"""Access control lists of files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lib.path_attribute import file_and_directories, path_attribute
from resource_api import Attribute, TypeDefinition

if TYPE_CHECKING:
    from collections.abc import Mapping

#: An entry as setfacl(1) takes it: for a user or group, named or not; for the mask or others, which have no name.
ENTRY = (
    r"Pattern[/\A(d(efault)?:)?((u(ser)?|g(roup)?):[^\s:\/[:cntrl:]]*|(m(ask)?|o(ther)?):):"
    r"([0-7]|[-rwxX]{1,4})\z/]"
)


def accounts(word: str, should: Mapping[str, Any]) -> list[str]:
    """Return the names in the entries for users, or for groups, by ``word``."""
    parts = [text.split(":")[-3:] for text in should.get("permission") or ()]
    return [name for kind, name, _ in parts if name and word.startswith(kind)]


def users(should: Mapping[str, Any]) -> list[str]:
    """Return the users that must exist first, to require them automatically."""
    return accounts("user", should)


def groups(should: Mapping[str, Any]) -> list[str]:
    """Return the groups that must exist first, to require them automatically."""
    return accounts("group", should)


TYPE = TypeDefinition(
    name="acl",
    docs="""Manage the access control list (ACL) of a file or directory: rights of further users and groups.

    Acl[/srv/shared]:
      permission:
        - user:alice:rwx
        - group:staff:r-x
        - default:user:alice:rwx
        - default:group:staff:r-x

    Acl[/srv/release]: {permission: ["group:audit:rX"], membership: minimum, recursive: true}

    Acl[/var/log/old]: {ensure: absent}

The file must exist. Write entries as for setfacl(1): `user:NAME:RIGHTS` or `group:NAME:RIGHTS`, with `default:` before
them for new files in a directory. Rights are letters of `rwx` or one octal digit; `X` is `x` for directories, and for
files that somebody may execute.

The `mode` of the file sets the rights of its owner and of others. As soon as there is a list, the group's digit of the
mode is the mask: the most that any entry but the owner's grants. The rights of the group itself are then `group::r-x`.
So a `file` with the same path needs a `mode` whose group digit has all rights of the entries, `"0770"` in the first
example; otherwise each run takes them back. An undeclared mask is extended if necessary; undeclared entries keep their
effective rights.

With `recursive: true`, everything in a directory gets the entries; files get no defaults, symbolic links nothing. A
directory with more than `max_files` members, or with another filesystem in it, is an error before anything is changed.
`ensure: absent` removes the lists if the directory itself has one. `destroy` and `--prune` remove only the list of the
directory: first apply `{ensure: absent, recursive: true}` to remove all.

Where other users can write to a directory on the path, they may have moved files there. A file of root, or with another
hard link, gets no list there: that is an error.
""",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the file has an ACL.", default="present"),
        "path": path_attribute("The file or directory."),
        "permission": Attribute(
            f"Array[{ENTRY}, 1]",
            "The entries, in any order; users and groups by name or number.",
            must_be="an entry such as 'user:alice:rwx'",
        ),
        "membership": Attribute(
            "Enum[inclusive, minimum]",
            "`inclusive`: other entries for users, groups and defaults are removed; `minimum`: they stay.",
            kind="parameter",
            default="inclusive",
        ),
        "recursive": Attribute("Optional[Boolean]", "Whether everything in a directory gets the entries too."),
        "max_files": Attribute("Integer[1]", "The most members of the directory.", kind="parameter", default=10_000),
    },
    autorequires={
        "file": file_and_directories,
        "file_tree": "$path",
        "archive": "$path",
        "git_checkout": "$path",
        "user": users,
        "group": groups,
    },
    features={"canonicalize", "custom_insync", "preflight", "simple_get_filter", "validate"},
)
