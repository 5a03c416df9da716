"""Files, directories and symbolic links of the local machine."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from resource_api import Attribute, TypeDefinition

if TYPE_CHECKING:
    from collections.abc import Mapping

OWNER = r"Optional[Variant[Integer[0, 4294967294], Pattern[/\A[^\s:\/[:cntrl:]]+\z/]]]"


@cache
def above(directory: str) -> tuple[str, ...]:
    """Give a directory and every one that it is in, the nearest first; the same few are asked for again and again."""
    return (directory,) if directory == "/" else (directory, *above(directory.rpartition("/")[0] or "/"))


def files(should: Mapping[str, Any]) -> tuple[str, ...]:
    """Give what must be there first: every directory on the way, the nearest first, and the source."""
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

A file is replaced as a whole: whoever reads it sees the old or the new content, also after a power failure. What is
not declared stays as it is; a new file is 0644, a new directory 0755, whatever the umask. Files that already are as
declared are not written. Hard links to the old file keep the old content. Symbolic links on the way to a file are
followed unless somebody else than root and the caller could have put them there.
""",
    attributes={
        "ensure": Attribute(
            "Enum[present, file, directory, link, absent]",
            "What it is; `present`: a link if it has a `target`, else a file.",
            default="present",
        ),
        "path": Attribute(
            r"Pattern[/\A(?!.*\/\.\.(\/|\z))\/[^\x00-\x1f\x7f]*\z/]", "The absolute path, without `..`.", kind="namevar"
        ),
        "content": Attribute(
            "Optional[Variant[String, Asset]]",
            "The text in the file, in UTF-8, up to 1 MiB; shown if it is that. Or an asset.",
        ),
        "source": Attribute(
            r"Optional[Variant[Pattern[/\A\/[^\x00]*\z/], Asset]]",
            "The file of this machine to copy, byte by byte; or an asset, compared by its SHA-256:"
            " `{asset: {file: logo.png}}`.",
        ),
        "target": Attribute(r"Optional[Pattern[/\A[^\x00]+\z/]]", "Where the link leads, as written in it."),
        "mode": Attribute(
            r"Optional[Pattern[/\A[0-7]{3,4}\z/]]",
            "The permissions, octal and in quotes. A directory can be entered by whom the mode lets read it:"
            ' "0644" gives a directory 0755. Links have none.',
        ),
        "owner": Attribute(OWNER, "The user whom it belongs to, by name or number."),
        "group": Attribute(OWNER, "The group that it belongs to, by name or number."),
        "force": Attribute(
            "Boolean",
            "Whether a directory may go with all that is in it, make way for something else, or take its place.",
            kind="parameter",
            default=False,
        ),
        "checksum": Attribute(
            "Optional[String]", "SHA-256 of a file's bytes, up to 1 MiB.", kind="read_only", derived_from="content"
        ),
        "uid": Attribute("Optional[Integer]", "The owner's number.", kind="read_only"),
        "gid": Attribute("Optional[Integer]", "The group's number.", kind="read_only"),
    },
    autorequires={"file": files, "user": "$owner", "group": "$group"},
    features={"canonicalize", "custom_insync", "simple_get_filter", "validate"},
)
