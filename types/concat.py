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
    docs="""Put a file together from fragments: the files of a directory, or files that are named.

    File[/etc/app.d]: {ensure: directory}
    File[/etc/app.d/10-head]: {content: "[app]\\n", before: "Concat[/etc/app.conf]"}
    File[/etc/app.d/20-port]: {content: "port = 80\\n", before: "Concat[/etc/app.conf]"}
    Concat[/etc/app.conf]:
      source: /etc/app.d
      header: "# Made from /etc/app.d.\\n"
      mode: "0640"

    Concat[/etc/ssl/chain.pem]:
      source: [/etc/ssl/web.pem, /etc/ssl/authority.pem]

Each fragment is a file, managed by whatever resource or package makes it; so a component adds to a file that another
one puts together. Those of a directory come in the order of their names; directories in it, and names that begin with
`.` or end with `~`, are left out. Named ones come in their order, and the resources that make them come before
automatically. What makes a fragment in a directory needs `before`, as above, or its change is seen one run later.

The file is compared byte by byte and replaced as a whole. A directory without a fragment is an error, and so are
fragments of more than 16 MiB together, one that is not a regular file, and a symbolic link that another user of the
machine could have put there.
""",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the file exists.", default="present"),
        "path": path_attribute(),
        "source": Attribute(
            f"Variant[{ABSOLUTE}, Array[{ABSOLUTE}, 1]]",
            "The directory of the fragments, or the fragments in their order, as absolute paths.",
            must_be="an absolute path without '..'",
        ),
        "matches": Attribute(
            "Optional[Variant[String[1], Array[String[1], 1]]]",
            "Patterns of the shell, of which one must match the name of a fragment in a directory.",
            kind="parameter",
        ),
        "order": Attribute(
            "Enum[alpha, numeric]",
            "Whether the names in a directory are ordered as text, or by the number that they begin with: 9 before 10.",
            kind="parameter",
            default="alpha",
        ),
        "header": Attribute("Optional[String]", "A text before the first fragment.", kind="parameter"),
        "separator": Attribute("Optional[String]", "A text between fragments.", kind="parameter"),
        "ensure_newline": Attribute(
            "Boolean",
            "Whether a fragment that does not end with a newline gets one.",
            kind="parameter",
            default=False,
        ),
        **protection_attributes("0644"),
        "mode": Attribute(
            f"Optional[{MODE}]",
            "The mode, octal and in quotes. If not declared, an existing file keeps its mode; a new one gets 0644, or"
            " 0600 where not every user may read all of its parts.",
            must_be=FOUR_DIGITS,
        ),
        "validate_cmd": validate_attribute(),
        "backup": Attribute(
            rf"Optional[Variant[Boolean, {ABSOLUTE}]]",
            "Whether a copy is kept before the file is overwritten or removed, or the directory of the copies, as with"
            " `file`.",
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
