"""Directories with their whole content."""

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

With `source`, the files, directories and symbolic links of another directory of this machine are copied. `owner`,
`group` and `mode` apply to the copies; without `source`, to everything in the directory. Contents are compared byte by
byte. Without `mode`, a copy has the source's mode, but no set-id bits and no write permission for group and others.
Without `owner`, it belongs to the user of the run. Links are copied as they are. Each file is replaced atomically, but
not all together.

Files that are not in the source stay, unless `purge` is true. More than `max_files` members or `max_purged` removals
are errors before anything is changed. So are sockets, FIFOs and devices in the source, more than 100 levels, and
another filesystem in the directory. Names in `ignore` are not copied, changed or removed; a directory that contains one
stays.

In a directory of another user, existing files and directories of root are not given away, as in `file`. Deletion
removes the directory with everything in it, up to `max_files`.
""",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the directory exists.", default="present"),
        "path": path_attribute("The directory. It is created if missing; its parent is not."),
        "source": Attribute(f"Optional[{ABSOLUTE}]", "The directory to copy.", must_be="an absolute path without '..'"),
        "purge": Attribute("Optional[Boolean]", "Whether files that are not in the source are removed."),
        "owner": Attribute(OWNER, "The owner of each member.", must_be="a user's name"),
        "group": Attribute(OWNER, "The group of each member.", must_be="a group's name"),
        "mode": Attribute(
            r"Optional[Pattern[/\A([0-7]{3,4}|[ugoa]*([-+=]([ugo]|[rwxXst]*))+(,[ugoa]*([-+=]([ugo]|[rwxXst]*))+)*)\z/]]",
            'The mode, octal and in quotes, or letters as for chmod(1). Readers may enter directories: "0644"'
            " becomes 0755. `X` is for directories and programs only.",
            must_be="octal digits such as '0644', or letters such as 'u=rw,go=r'",
        ),
        "ignore": Attribute(
            "Optional[Variant[String[1], Array[String[1], 1]]]",
            "Patterns of the shell for names; with a slash, for paths in the tree.",
            kind="parameter",
        ),
        "force": Attribute(
            "Boolean",
            "Whether a directory may be replaced by a file or link, with everything in it, and the reverse.",
            kind="parameter",
            default=False,
        ),
        "backup": Attribute(
            rf"Optional[Variant[Boolean, {ABSOLUTE}]]",
            "Whether to keep copies of regular files before they are overwritten or removed, or the directory of"
            " the copies, as in `file`.",
            kind="parameter",
            must_be="true, false, or the absolute path of a directory",
        ),
        "max_files": Attribute("Integer[1]", "The most members of the directory.", kind="parameter", default=10_000),
        "max_purged": Attribute("Integer[1]", "The most members that a run purges.", kind="parameter", default=100),
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
