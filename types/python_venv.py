"""Virtual environments of Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api import Attribute, TypeDefinition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def files(should: Mapping[str, Any]) -> Iterable[str]:
    """Return the directory above the environment, and the interpreter."""
    return [str(should["path"]).rpartition("/")[0], str(should.get("python"))]


TYPE = TypeDefinition(
    name="python_venv",
    docs="""Manage virtual environments of Python.

    Python_venv[/srv/app/venv]:
      owner: app
      system_site_packages: true

An environment whose interpreter is missing, as after an upgrade of the system, is made again and keeps its packages, as
far as they are for the same version of Python. One whose making was interrupted is made anew. A directory with other
content is a failure. `ensure: absent` removes the whole directory.
""",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the environment exists.", default="present"),
        "path": Attribute(
            r"Pattern[/\A(?!.*\/\.\.?(\/|\z))(\/[\w.+@,=~-]+)+\z/]",
            "The directory, a full path, without blanks and other characters that scripts in it could not have.",
            kind="namevar",
            must_be="an absolute path of letters, digits, and '.', '_', '-', '+', '@', ',', '=', '~', without '..'",
        ),
        "python": Attribute(
            r"Pattern[/\A(\/[^\/\x00-\x1f\x7f]+)+\z/]",
            "The interpreter with which an environment is made, a full path.",
            kind="parameter",
            default="/usr/bin/python3",
            must_be="an absolute path",
        ),
        "pip": Attribute("Boolean", "Whether a new environment gets a pip of its own.", kind="parameter", default=True),
        "system_site_packages": Attribute(
            "Optional[Boolean]", "Whether the packages of the system can be used too; at first not."
        ),
        "owner": Attribute(
            r"Optional[Pattern[/\A[^\s:\/[:cntrl:]-][^\s:\/[:cntrl:]]*\z/]]",
            "The user who makes the environment and owns it; needed where others than root can write to a directory on"
            " the path.",
            kind="init_only",
            must_be="a user's name",
        ),
        "version": Attribute("Optional[String]", "The version of Python.", kind="read_only"),
        "status": Attribute(
            "Optional[String]",
            "`complete`; `incomplete` if its making was interrupted, `broken` if its interpreter is missing,"
            " `empty` for a directory without content.",
            kind="read_only",
        ),
    },
    autorequires={
        "file": files,
        "user": "$owner",
        "package": ["python3-venv", "python3"],
    },
    features={
        *(
            "custom_insync",
            "parallel",
            "preflight",
            "preflight_of_removals",
            "side_effects",
            "side_effects_of_removals",
            "simple_get_filter",
        ),
    },
)
