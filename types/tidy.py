"""Removal of old or large files from directories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api import Attribute, TypeDefinition

if TYPE_CHECKING:
    from collections.abc import Mapping


def directory(should: Mapping[str, Any]) -> str:
    """Return the directory that must exist first: the attribute ``path``, or else the name."""
    return str(should.get("path") or should["name"])


TYPE = TypeDefinition(
    name="tidy",
    docs="""Remove files that are old or large, or have certain names, from a directory.

    Tidy[/var/cache/app]:
      age: 2w
      recurse: true
      rmdirs: true

    Tidy[crash dumps]:
      path: /var/crash
      matches: ["core.*", "*.dmp"]
      size: 100m

A file is removed if its name matches one of `matches`, and it is older than `age` or larger than `size`. At least one
of the three is needed. Only files and symbolic links are removed, and with `rmdirs` empty directories whose last change
is older than `age`. Sockets, FIFOs and devices stay.

Links are not followed, other filesystems are not entered, and directories more than 100 levels down stay: other users
cannot make it remove files elsewhere. A missing directory is tidy.
""",
    attributes={
        "name": Attribute("String[1]", "The name; also the directory, unless `path` is declared.", kind="namevar"),
        "path": Attribute(
            r"Optional[Pattern[/\A\/(?!\z)(?!.*\/\.\.(\/|\z))[^\x00]*\z/]]",
            "The directory.",
            kind="parameter",
            must_be="an absolute path without '..', and not /",
        ),
        "age": Attribute(
            r"Optional[Pattern[/\A\d{1,9}[smhdw]\z/]]",
            "The minimum age, such as `90d`.",
            kind="parameter",
            must_be="a number and one of s, m, h, d, w, such as 90d",
        ),
        "type": Attribute(
            "Enum[atime, mtime, ctime]",
            "The time for `age`: of the last access, the last change of the content, or of the file.",
            kind="parameter",
            default="atime",
        ),
        "size": Attribute(
            r"Optional[Pattern[/\A\d{1,9}[bkmgt]\z/]]",
            "The minimum size, such as `100m`.",
            kind="parameter",
            must_be="a number and one of b, k, m, g, t, such as 100m",
        ),
        "matches": Attribute(
            "Optional[Variant[String[1], Array[String[1], 1]]]",
            "Patterns of the shell for names, without directories.",
            kind="parameter",
        ),
        "recurse": Attribute(
            "Variant[Boolean, Integer[0, 100]]",
            "Whether to tidy directories below, or down to which level.",
            kind="parameter",
            default=False,
        ),
        "rmdirs": Attribute("Boolean", "Whether to remove empty directories.", kind="parameter", default=False),
        "max_files": Attribute(
            "Integer[1]", "The most files and directories that a run removes.", kind="parameter", default=10_000
        ),
    },
    autorequires={"file": directory},
    features={"imperative", "side_effects", "simple_get_filter", "validate"},
    verbs={"run": "tidying"},
)
