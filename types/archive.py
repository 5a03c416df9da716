"""Archives unpacked into directories of the local machine."""

from lib.path_attribute import file_and_directories, path_attribute
from resource_api import Attribute, TypeDefinition

OWNER = r"Optional[Variant[Integer[0, 4294967294], Pattern[/\A[^\s:\/[:cntrl:]]+\z/]]]"

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

The archive is a tar, gzipped tar or zip file, a directory, or a mapping of names to contents. Its files, directories
and links are created, and files of an earlier archive are removed. Everything else in the directory stays. A file with
other content that did not come from an archive is an error.

A record beside the directory, `.NAME.archive~`, has the SHA-256 of the archive and of each file. Changed and missing
files are restored. Deletion removes the files of the archive, and the directories that were created for it, if they are
empty.

Names and links that lead out of the directory, hard links, devices, more than 200 levels, `max_size` bytes or
`max_members` members are refused before anything is changed. Owners, set-id bits and write permission for group and
others are not taken from the archive. Each file is replaced atomically, but not all files together.
""",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the archive is unpacked.", default="present"),
        "path": path_attribute("The directory. It is created if missing; its parent is not."),
        "source": Attribute("Archive", "The archive: `{archive: {file: site.tar.gz}}`."),
        "mode": Attribute(
            r"Optional[Pattern[/\A[0-7]{3,4}\z/]]",
            "The mode of all files, octal and in quotes, instead of the archive's. Readers may also enter"
            " directories, and run files that are executable in the archive.",
            must_be="three or four octal digits such as '0644'",
        ),
        "owner": Attribute(OWNER, "The owner of everything; by default the user of the run.", must_be="a user's name"),
        "group": Attribute(OWNER, "The group of everything.", must_be="a group's name"),
        "force": Attribute(
            "Boolean",
            "Whether to replace files and links that did not come from an archive, but never directories.",
            kind="parameter",
            default=False,
        ),
        "max_size": Attribute(
            "Integer[0]", "The maximum size of all files together, in bytes.", kind="parameter", default=1 << 30
        ),
        "max_members": Attribute("Integer[0]", "The maximum number of members.", kind="parameter", default=100_000),
        "altered": Attribute(
            "Optional[Array[String]]", "Up to 20 names that differ from the archive.", kind="read_only"
        ),
        "uid": Attribute("Optional[Integer]", "The number of the owner.", kind="read_only"),
        "gid": Attribute("Optional[Integer]", "The number of the group.", kind="read_only"),
    },
    autorequires={"file": file_and_directories, "user": "$owner", "group": "$group"},
    features={"canonicalize", "custom_insync", "preflight", "preflight_of_removals", "simple_get_filter", "validate"},
)
