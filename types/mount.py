"""File systems in fstab, and whether they are mounted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api import Attribute, TypeDefinition

if TYPE_CHECKING:
    from collections.abc import Mapping

PATH = r"Pattern[/\A\/[^\x00-\x1f\x7f]*\z/]"
WORDS = r"Optional[Pattern[/\A[^\x00-\x20\x7f][^\x00-\x1f\x7f]*\z/]]"


def directories_above(declared: Mapping[str, Any]) -> list[str]:
    """Return the directories above the mount point: other file systems may have to be mounted there before."""
    parts = str(declared["name"]).split("/")[1:-1]
    return ["/" + "/".join(parts[:count]) for count in range(1, len(parts) + 1)]


TYPE = TypeDefinition(
    name="mount",
    docs="""Manage the entries of /etc/fstab, and whether they are mounted.

    Mount[/srv/scratch]:
      device: tmpfs
      fstype: tmpfs
      options: size=64m,nosuid,nodev

A file system is mounted before its entry is written, so one that cannot be mounted does not disturb the next boot.
Changed options are remounted, or unmounted and mounted with `remounts: false`; a changed device or type is unmounted
and mounted. A notification remounts it. A file system that was mounted by hand gets an entry and the declared options.

The directory must exist (declare it as `file`), without links on its path, and only root may write to the directories
above it. Blanks in paths are written as `\\040`. Other lines stay. Everybody can read the options: pass passwords in a
file, `credentials=/etc/smb.secret`. Swap is not managed.
""",
    attributes={
        "ensure": Attribute(
            "Enum[mounted, unmounted, present, defined, absent]",
            "`mounted`, `unmounted`: with an entry, and mounted now or not; `present`, `defined`: with an entry,"
            " mounted or not; `absent`: unmounted, without an entry.",
            default="mounted",
        ),
        "name": Attribute(PATH, "The mount point.", kind="namevar", must_be="an absolute path"),
        "device": Attribute(
            WORDS,
            "A device, `UUID=...`, `LABEL=...`, `host:/path`, a directory (option `bind`), or a name such as"
            " `tmpfs`. Mandatory for a new entry.",
            must_be="text on one line",
        ),
        "fstype": Attribute(
            r"Optional[Pattern[/\A[\w.,-]+\z/]]",
            "The type; `auto` in a new entry by default, `none` for `bind`.",
            must_be="a file system's type",
        ),
        "options": Attribute(
            WORDS, "The options, separated by commas; `defaults` in a new entry by default.", must_be="text on one line"
        ),
        "dump": Attribute("Optional[Integer[0, 2]]", "The fifth field, for dump(8); 0 in a new entry."),
        "pass": Attribute("Optional[Integer[0]]", "The order of checks at boot; 0 for none."),
        "remounts": Attribute(
            "Boolean", "Whether the file system can be remounted with other options.", kind="parameter", default=True
        ),
        "entry": Attribute("Boolean", "Whether /etc/fstab has an entry.", kind="read_only"),
    },
    autorequires={"file": ["$name", "$device"], "mount": directories_above},
    features={
        "canonicalize",
        "custom_insync",
        "not_rehearsable",
        "preflight",
        "refreshable",
        "side_effects",
        "side_effects_of_removals",
        "simple_get_filter",
        "validate",
    },
)
