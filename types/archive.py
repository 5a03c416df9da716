"""Archives unpacked into directories of the local machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api import Attribute, TypeDefinition

if TYPE_CHECKING:
    from collections.abc import Mapping

OWNER = r"Optional[Variant[Integer[0, 4294967294], Pattern[/\A[^\s:\/[:cntrl:]]+\z/]]]"


def directories(should: Mapping[str, Any]) -> list[str]:
    """Give what must be there first: the directory, if it is declared, and every one that it is in."""
    parts = should["path"].split("/")
    return ["/".join(parts[:count]) for count in range(len(parts), 1, -1)]


TYPE = TypeDefinition(
    name="archive",
    docs="""Unpack archives into directories.

    Archive[/srv/www]:
      source:
        archive:
          url: https://example.org/site.tar.gz
          sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
      owner: www-data

    Archive[/etc/app]:
      source: {archive: {files: {app.conf: {asset: {text: "port = 80\\n"}}}}}
      mode: "0640"

The archive is a tar, gzipped tar or zip file, a directory, or a map of names to contents. Its files, directories and
links are made, what another archive had left there is removed, and everything else in the directory stays: it is no
part of the resource. A file that is there already with other content, and did not come from an archive, is an error.

What was unpacked is recorded beside the directory, in `.NAME.archive~`, with the SHA-256 of the archive and of each
file; that is what is compared, by reading every file. A file that has been changed, or has gone, is put back. When the
resource is deleted, what came from the archive goes, and directories that were made for it if they are empty then.

Names and links that lead out of the directory, hard links, devices and more than `max_size` bytes or `max_members`
members are refused before anything is touched. Set-id bits, and rights to write of others than the owner, are never
taken over; owners are not either. Each file is replaced as a whole; all of them together are not, so whoever reads
them while they are being replaced may see some of both.
""",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether it is unpacked.", default="present"),
        "path": Attribute(
            r"Pattern[/\A(?!.*\/\.\.(\/|\z))\/[^\x00-\x1f\x7f]*\z/]",
            "The directory, as an absolute path without `..`. It is made if it is not there; the one that it is in is"
            " not.",
            kind="namevar",
        ),
        "source": Attribute("Archive", "The archive: `{archive: {file: site.tar.gz}}`."),
        "mode": Attribute(
            r"Optional[Pattern[/\A[0-7]{3,4}\z/]]",
            "The permissions of the files in place of those in the archive, octal and in quotes. A directory can be"
            " entered, and what its owner may run in the archive can be run, by whom the mode lets read it.",
        ),
        "owner": Attribute(OWNER, "The user whom all of it belongs to, by name or number; without, whoever unpacks."),
        "group": Attribute(OWNER, "The group that all of it belongs to, by name or number."),
        "force": Attribute(
            "Boolean",
            "Whether files and links that did not come from an archive make way. Directories never do.",
            kind="parameter",
            default=False,
        ),
        "max_size": Attribute(
            "Integer[0]", "How many bytes the files may have together.", kind="parameter", default=1 << 30
        ),
        "max_members": Attribute("Integer[0]", "How many members it may have.", kind="parameter", default=100_000),
        "altered": Attribute(
            "Optional[Array[String]]", "What is not as it was unpacked, up to 20 names.", kind="read_only"
        ),
        "uid": Attribute("Optional[Integer]", "The owner's number.", kind="read_only"),
        "gid": Attribute("Optional[Integer]", "The group's number.", kind="read_only"),
    },
    autorequires={"file": directories, "user": "$owner", "group": "$group"},
    features={"canonicalize", "custom_insync", "simple_get_filter", "validate"},
)
