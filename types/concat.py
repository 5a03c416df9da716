"""Files that are put together from other files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lib.path_attribute import ABSOLUTE, directories_above, path_attribute, validate_attribute
from lib.protected_file import FOUR_DIGITS, MODE, protection_attributes
from resource_api import Attribute, TypeDefinition

if TYPE_CHECKING:
    from collections.abc import Mapping


def files(should: Mapping[str, Any]) -> list[str]:
    """Return the files that must exist first: the directories above, the fragments, or the directory that has them."""
    source = should.get("source") or []
    return [*directories_above(should), *([source] if isinstance(source, str) else source)]


TYPE = TypeDefinition(
    name="concat",
    docs="""Build a file from fragments: the files of a directory, or named files.

    File[/etc/app.d]: {ensure: directory}
    File[/etc/app.d/10-head]: {content: "[app]\\n", before: "Concat[/etc/app.conf]"}
    File[/etc/app.d/20-port]: {content: "port = 80\\n", before: "Concat[/etc/app.conf]"}
    Concat[/etc/app.conf]:
      source: /etc/app.d
      header: "# Made from /etc/app.d.\\n"
      mode: "0640"

    Concat[/etc/ssl/chain.pem]:
      source: [/etc/ssl/web.pem, /etc/ssl/authority.pem]

Each fragment is a file that any resource or package makes, so a component can add to the file of another one. Fragments
in a directory are ordered by name; directories, and names that begin with `.` or end in `~`, are ignored. Named
fragments are ordered as listed, and their resources come first automatically. A resource that makes a fragment in a
directory needs `before`, as above; otherwise its change takes effect one run later.

The file is compared byte by byte and replaced as a whole. An empty directory, and more than 16 MiB in all, are errors.
So are fragments that are not regular files, and symbolic links that another user could have made.
""",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the file exists.", default="present"),
        "path": path_attribute(),
        "source": Attribute(
            f"Variant[{ABSOLUTE}, Array[{ABSOLUTE}, 1]]",
            "The directory of the fragments, or the fragments in order.",
            must_be="an absolute path without '..'",
        ),
        "matches": Attribute(
            "Optional[Variant[String[1], Array[String[1], 1]]]",
            "Patterns of the shell for names of fragments in a directory, of which one must match.",
            kind="parameter",
        ),
        "order": Attribute(
            "Enum[alpha, numeric]",
            "The order of names in a directory: as text, or by their leading number (9 before 10).",
            kind="parameter",
            default="alpha",
        ),
        "header": Attribute("Optional[String]", "A text before the first fragment.", kind="parameter"),
        "separator": Attribute("Optional[String]", "A text between fragments.", kind="parameter"),
        "ensure_newline": Attribute(
            "Boolean", "Whether to add a missing newline at the end of each fragment.", kind="parameter", default=False
        ),
        **protection_attributes("0644"),
        "mode": Attribute(
            f"Optional[{MODE}]",
            "The mode, octal and in quotes. By default an existing file keeps its mode; a new one gets 0644, or"
            " 0600 if not every user may read all fragments.",
            must_be=FOUR_DIGITS,
        ),
        "validate_cmd": validate_attribute(),
        "backup": Attribute(
            rf"Optional[Variant[Boolean, {ABSOLUTE}]]",
            "Whether to keep a copy before the file is overwritten or removed, or the directory of the copies, as"
            " in `file`.",
            kind="parameter",
            must_be="true, false, or the absolute path of a directory",
        ),
        "checksum": Attribute("Optional[String]", "The SHA-256 of a file of up to 1 MiB.", kind="read_only"),
    },
    autorequires={
        "file": files,
        "file_tree": "$source",
        "archive": "$source",
        "git_checkout": "$source",
        "x509_key": "$source",
        "x509_certificate": "$source",
        "user": "$owner",
        "group": "$group",
    },
    features={"canonicalize", "custom_insync", "preflight", "preflight_of_removals", "simple_get_filter", "validate"},
)
