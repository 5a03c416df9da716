"""Files, directories and symbolic links of the local machine."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from lib.path_attribute import ABSOLUTE, path_attribute, validate_attribute
from resource_api import Attribute, TypeDefinition

if TYPE_CHECKING:
    from collections.abc import Mapping

OWNER = r"Optional[Variant[Integer[0, 4294967294], Pattern[/\A[^\s:\/[:cntrl:]]+\z/]]]"
#: Octal digits, or clauses as chmod(1) takes them.
MODE = r"Optional[Pattern[/\A([0-7]{3,4}|[ugoa]*([-+=]([ugo]|[rwxXst]*))+(,[ugoa]*([-+=]([ugo]|[rwxXst]*))+)*)\z/]]"


@cache
def above(directory: str) -> tuple[str, ...]:
    """Return a directory and all above it, the nearest first; cached, as many files share few directories."""
    return (directory,) if directory == "/" else (directory, *above(directory.rpartition("/")[0] or "/"))


def files(should: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the files whose resources come before this one: all directories above, nearest first, and the source."""
    path = should["path"]
    directories = above(path.rpartition("/")[0] or "/") if path != "/" else ()
    return (*directories, should["source"]) if isinstance(should.get("source"), str) else directories


TYPE = TypeDefinition(
    name="file",
    docs="""Manage files, directories and symbolic links.

    File[/etc/motd]:
      content: |
        Welcome.
      mode: "0644"

    File[/srv/www]: {ensure: directory, owner: www-data}
    File[/srv/www/current]: {target: release-7}

A file is replaced atomically: a reader sees the old or the new content, even after a power failure. Undeclared
attributes stay. A new file has mode 0644, a new directory 0755, whatever the umask. Hard links to the old file keep the
old content. A symbolic link on the path is followed only if no user other than root and the caller could have made it.

`backup: true` keeps overwritten or removed content for 90 days, readable only by the user of the run. `resource-api
backup list` lists the copies; `resource-api backup restore PATH` restores one. A file that cannot be copied is not
changed.

ACLs and extended attributes are kept, but file capabilities are not kept with new content. ACLs are removed when the
owner changes, or when both `mode` and `owner` are declared, because these then define all permissions. A new file
inherits the default ACL of its directory under the same conditions, if the directory belongs to root, the caller or the
declared owner.

Where another user can write to a directory on the path, that user may have moved existing files there. So files and
directories of root get no other owner or group and no more rights there: this is an error, until you remove them or
change their owner yourself. New ones do, and a file with declared content is replaced by a new one.
""",
    attributes={
        "ensure": Attribute(
            "Enum[present, file, directory, link, absent]",
            "The kind of file. `present` is a link if `target` is declared, else a file.",
            default="present",
        ),
        "path": path_attribute("The path."),
        "content": Attribute("Optional[Variant[String, Asset]]", "A text of up to 1 MiB in UTF-8, or an asset."),
        "source": Attribute(
            r"Optional[Variant[Pattern[/\A\/[^\x00]*\z/], Asset]]",
            "The file of this machine to copy, or an asset: `{asset: {file: logo.png}}`.",
            must_be="an absolute path",
        ),
        "target": Attribute(
            r"Optional[Pattern[/\A[^\x00]+\z/]]", "The target, as the link contains it.", must_be="the target of a link"
        ),
        "mode": Attribute(
            MODE,
            "The mode, octal and in quotes, or letters as for chmod(1): `u+x,go-w` changes the present mode."
            ' Readers may enter a directory: "0644" becomes 0755. Links have no mode.',
            must_be="octal digits such as '0644', or letters such as 'u=rw,go=r'",
        ),
        "owner": Attribute(OWNER, "The owner, by name or number.", must_be="a user's name"),
        "group": Attribute(OWNER, "The group, by name or number.", must_be="a group's name"),
        "force": Attribute(
            "Boolean",
            "Whether a directory may be removed with its content, or replace or be replaced by another kind of file.",
            kind="parameter",
            default=False,
        ),
        "backup": Attribute(
            rf"Optional[Variant[Boolean, {ABSOLUTE}]]",
            "Whether to keep copies of regular files before they are overwritten or removed, or the directory of"
            " the copies.",
            kind="parameter",
            must_be="true, false, or the absolute path of a directory",
        ),
        "validate_cmd": validate_attribute(),
        "checksum": Attribute(
            "Optional[String]", "The SHA-256 of a file of up to 1 MiB.", kind="read_only", derived_from="content"
        ),
        "uid": Attribute("Optional[Integer]", "The number of the owner.", kind="read_only"),
        "gid": Attribute("Optional[Integer]", "The number of the group.", kind="read_only"),
    },
    autorequires={"file": files, "user": "$owner", "group": "$group"},
    features={
        "canonicalize",
        "custom_insync",
        "preflight",
        "preflight_of_removals",
        "side_effects",
        "side_effects_of_removals",
        "simple_get_filter",
        "validate",
    },
)
