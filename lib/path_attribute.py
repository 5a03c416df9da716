"""The attributes of types for files: a path, and a check of the new content; the files that must exist before one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api import Attribute

if TYPE_CHECKING:
    from collections.abc import Mapping

ABSOLUTE = r"Pattern[/\A(?!.*\/\.\.(\/|\z))\/[^\x00-\x1f\x7f]*\z/]"


def path_attribute(docs: str = "The file.") -> Attribute:
    """Return the attribute ``path``, a namevar."""
    return Attribute(ABSOLUTE, docs, kind="namevar", must_be="an absolute path without '..'")


def validate_attribute() -> Attribute:
    """Return the attribute ``validate_cmd`` for a type of files or their parts: a program checks the new content."""
    return Attribute(
        "Optional[Variant[String[1], Array[String[1], 2]]]",
        "A command that checks the new content before the file is replaced, split as by a shell; `%` becomes the path"
        " of the new file: `visudo -c -f %`.",
        kind="parameter",
    )


def file_and_directories(should: Mapping[str, Any]) -> list[str]:
    """Return the file and all directories above it, the nearest first, as titles to require automatically."""
    return [should["path"], *directories_above(should)]


def directories_above(should: Mapping[str, Any]) -> list[str]:
    """Return all directories above a file, the nearest first."""
    parts = should["path"].split("/")
    return ["/".join(parts[:count]) for count in range(len(parts) - 1, 1, -1)]
