"""Directories with all that is in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lib.path_attribute import ABSOLUTE, path_attribute
from lib.protected_file import files_before
from resource_api import Attribute, TypeDefinition

if TYPE_CHECKING:
    from collections.abc import Mapping

OWNER = r"Optional[Variant[Integer[0, 4294967294], Pattern[/\A[^\s:\/[:cntrl:]]+\z/]]]"


def directories(should: Mapping[str, Any]) -> list[str]:
    """Return the directories that must exist first: those above, the nearest first, and the source."""
    return files_before(should, "source")


TYPE = TypeDefinition(
    name="file_tree",
    docs="""Manage a directory with its whole content: the copied files, their owners and modes, and nothing else.

    File_tree[/srv/www]:
      source: /srv/release/www
      owner: www-data
      purge: true
      ignore: [.git, "*.swp", cache/*]

    File_tree[/var/lib/app]: {owner: app, group: app, mode: "u=rwX,g=rX,o="}

With `source`, the files, directories and symbolic links of another directory of this machine are copied, and `owner`,
`group` and `mode` are for the copies; without it, for the whole content of the directory. Contents are compared byte by
byte. Without `mode` a copy has the mode that the source has, but no set-id bits and no right to write for group and
others; without `owner` it belongs to the user of the run. Links are copied as they are. Each file is replaced
atomically, but not all together.

What is in the directory and not in the source stays, unless `purge` is true. A directory of more than `max_files`
members, and a run that would purge more than `max_purged`, are an error before anything is changed; so are sockets,
FIFOs and devices in the source, directories more than 100 levels deep, and another filesystem in the directory. What
`ignore` names is neither copied nor changed nor removed, and a directory that contains it stays.

In a directory of another user, directories and files that belong to root already are not given away, as with `file`;
a file with a source is written anew.

Deleting the resource removes the directory with all that is in it, if that is not more than `max_files`.
""",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the directory exists.", default="present"),
        "path": path_attribute(
            "The directory, as an absolute path without `..`. It is created if it does not exist; its parent is not."
        ),
        "source": Attribute(f"Optional[{ABSOLUTE}]", "The directory to copy.", must_be="an absolute path without '..'"),
        "purge": Attribute("Optional[Boolean]", "Whether files that are not in the source are removed."),
        "owner": Attribute(OWNER, "The owner of each member, by name or number.", must_be="a user's name"),
        "group": Attribute(OWNER, "The group, by name or number.", must_be="a group's name"),
        "mode": Attribute(
            r"Optional[Pattern[/\A([0-7]{3,4}|[ugoa]*([-+=]([ugo]|[rwxXst]*))+(,[ugoa]*([-+=]([ugo]|[rwxXst]*))+)*)\z/]]",
            "The mode, octal and in quotes, or in letters as chmod(1) takes them. Everybody who may read a directory"
            ' may also enter it: "0644" becomes 0755 for a directory, and `X` is for directories and programs only.',
            must_be="octal digits such as '0644', or letters such as 'u=rw,go=r'",
        ),
        "ignore": Attribute(
            "Optional[Variant[String[1], Array[String[1], 1]]]",
            "Patterns of the shell for names that are left alone; with a slash, for paths within the tree.",
            kind="parameter",
        ),
        "force": Attribute(
            "Boolean",
            "Whether a directory may be replaced by a file or link, with all that is in it, and the reverse.",
            kind="parameter",
            default=False,
        ),
        "backup": Attribute(
            rf"Optional[Variant[Boolean, {ABSOLUTE}]]",
            "Whether copies of regular files are kept before they are overwritten or removed, or the directory of the"
            " copies, as with `file`.",
            kind="parameter",
            must_be="true, false, or the absolute path of a directory",
        ),
        "max_files": Attribute(
            "Integer[1]", "How many members a directory may have.", kind="parameter", default=10_000
        ),
        "max_purged": Attribute("Integer[1]", "How many members a run may purge.", kind="parameter", default=100),
    },
    autorequires={
        "file": directories,
        "archive": "$source",
        "git_checkout": "$source",
        "user": "$owner",
        "group": "$group",
    },
    features={
        "canonicalize",
        "custom_insync",
        "preflight",
        "preflight_of_removals",
        "side_effects",
        "simple_get_filter",
        "validate",
    },
)
