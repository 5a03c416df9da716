"""Files, directories and symbolic links of the local machine."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

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
    """Return the files that must exist first: all directories above, the nearest first, and the source."""
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

A file is replaced atomically: a reader sees the whole old or the whole new content, even after a power failure. What
is not declared stays as it is; a new file has mode 0644, a new directory 0755, independent of the umask. Files that are
already as declared are not written. Hard links to the old file keep the old content. A symbolic link on the path is
followed only if no other user than root and the caller could have put it there.

With `backup: true` the content that a run overwrites or removes is kept by its SHA-256, with the permissions of the
file, for 90 days, readable by the user of the run alone. `resource-api backup list` lists the copies, and
`resource-api backup restore PATH` restores it. A file that cannot be copied is not changed.

ACLs and extended attributes are kept, but never file capabilities with new content. They end when the file or directory
gets another owner, or is changed with both `mode` and `owner` declared, as these are all rights then; a directory's
default ACL too. A new file inherits from the default ACL of its directory under the same conditions, and only if the
directory belongs to root, the caller or the declared owner. A file whose owner changes from another user, who may hold
it open, is written anew if its content is declared.

Where another user can write to a directory on the path, any file or directory of root may have been moved there. So
below `/srv/app` of `alice` a new `/srv/app/logs` gets the owner `alice`, but one that belongs to root already is not
given to her: that is an error, until it is removed or you change its owner yourself. The same holds for the group and
for more rights in `mode`. A file whose content is declared is replaced by a new one instead.
""",
    attributes={
        "ensure": Attribute(
            "Enum[present, file, directory, link, absent]",
            "The kind of file. `present` is a link if `target` is declared, else a file.",
            default="present",
        ),
        "path": Attribute(
            r"Pattern[/\A(?!.*\/\.\.(\/|\z))\/[^\x00-\x1f\x7f]*\z/]",
            "The absolute path, without `..`.",
            kind="namevar",
            must_be="an absolute path without '..'",
        ),
        "content": Attribute(
            "Optional[Variant[String, Asset]]",
            "The content of a file: a text of up to 1 MiB in UTF-8, or an asset.",
        ),
        "source": Attribute(
            r"Optional[Variant[Pattern[/\A\/[^\x00]*\z/], Asset]]",
            "The file of this machine to copy, or an asset, which is compared by its SHA-256:"
            " `{asset: {file: logo.png}}`.",
            must_be="an absolute path",
        ),
        "target": Attribute(
            r"Optional[Pattern[/\A[^\x00]+\z/]]",
            "The target of a link, as the link contains it.",
            must_be="the target of a link",
        ),
        "mode": Attribute(
            MODE,
            "The mode, octal and in quotes, or in letters as chmod(1) takes them: `u+x,go-w` changes the present mode,"
            " or the mode of a new file. Everybody who may read a directory may also enter it:"
            ' "0644" becomes 0755 for a directory. Links have no mode.',
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
            r"Optional[Variant[Boolean, Pattern[/\A(?!.*\/\.\.(\/|\z))\/[^\x00-\x1f\x7f]*\z/]]]",
            "Whether copies of regular files are kept before they are overwritten or removed, or the directory of the"
            " copies. `resource-api backup` lists and restores them.",
            kind="parameter",
            must_be="true, false, or the absolute path of a directory",
        ),
        "validate_cmd": Attribute(
            "Optional[Variant[String[1], Array[String[1], 2]]]",
            "A command that must accept new content before the file gets its name, split as by a shell, but without"
            " one; `%` becomes the path of the new file: `nginx -t -c %`.",
            kind="parameter",
        ),
        "checksum": Attribute(
            "Optional[String]", "The SHA-256 of a file of up to 1 MiB.", kind="read_only", derived_from="content"
        ),
        "uid": Attribute("Optional[Integer]", "The number of the owner.", kind="read_only"),
        "gid": Attribute("Optional[Integer]", "The number of the group.", kind="read_only"),
    },
    autorequires={"file": files, "user": "$owner", "group": "$group"},
    features={
        *(
            "canonicalize",
            "custom_insync",
            "preflight",
            "preflight_of_removals",
            "side_effects",
            "side_effects_of_removals",
        ),
        *("simple_get_filter", "validate"),
    },
)
