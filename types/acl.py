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
    """Return the names in the entries for users, or for groups."""
    parts = [text.split(":")[-3:] for text in should.get("permission") or ()]
    return [name for kind, name, _ in parts if name and word.startswith(kind)]


def users(should: Mapping[str, Any]) -> list[str]:
    """Return the users that must exist first."""
    return accounts("user", should)


def groups(should: Mapping[str, Any]) -> list[str]:
    """Return the groups that must exist first."""
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

The file must exist. An entry is written as for setfacl(1): `user:NAME:RIGHTS`, `group:NAME:RIGHTS`, and with `default:`
before it the rights of new files in a directory. The rights are of `rwx`, or one octal digit; `X` is `x` for
directories, and for files that their owner, group or others may execute.

The rights of the owner and of others are the `mode` of the file. Those of its group are `group::r-x` here as soon as
there is a list, because the group's digit of the mode is then the mask: the most that any entry but the owner's
grants. An undeclared mask stays as it is where it grants the declared rights; else it grants them too, and
undeclared entries keep their effective rights. So a `file` with the same path must have a `mode` whose
group's digit has all rights of the entries (`"0770"` for the first example), or each run would take them back.

With `recursive: true` all that is in a directory gets the entries, files without the defaults; symbolic links, which
have no list, are left out. All is compared before anything is changed; a directory of more than `max_files` members,
or with another filesystem in it, is an error. `ensure: absent` removes the lists when the directory itself has one.
`destroy` and `--prune` remove only the list of the directory: to take the entries from all that is in it, apply
`{ensure: absent, recursive: true}` first.

Where other users can write to a directory on the path, they may have moved any file there. So a file there that belongs
to root, or that has another hard link, gets no list: that is an error.
""",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether there is more than a mode.", default="present"),
        "path": path_attribute("The file or directory, as an absolute path without `..`."),
        "permission": Attribute(
            f"Array[{ENTRY}, 1]",
            "The entries, in any order; users and groups by name or number.",
            must_be="an entry such as 'user:alice:rwx'",
        ),
        "membership": Attribute(
            "Enum[inclusive, minimum]",
            "Whether `permission` has all entries for users and groups and all defaults, or those it has at least.",
            kind="parameter",
            default="inclusive",
        ),
        "recursive": Attribute("Optional[Boolean]", "Whether all that is in a directory gets the entries too."),
        "max_files": Attribute(
            "Integer[1]", "How many members a directory may have.", kind="parameter", default=10_000
        ),
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
