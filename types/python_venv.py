"""Virtual environments of Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api import Attribute, TypeDefinition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def files(should: Mapping[str, Any]) -> Iterable[str]:
    """Return the directory above the environment, and the interpreter, as titles to require automatically."""
    return [str(should["path"]).rpartition("/")[0], str(should.get("python"))]


TYPE = TypeDefinition(
    name="python_venv",
    docs="""Manage virtual environments of Python.

    Python_venv[/srv/app/venv]:
      owner: app
      system_site_packages: true

An environment whose interpreter is missing, for example after a system upgrade, is rebuilt with the packages that fit
the version of Python. An interrupted creation is started again. A directory with other content is an error. `ensure:
absent` removes the whole directory.
""",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the environment exists.", default="present"),
        "path": Attribute(
            r"Pattern[/\A(?!.*\/\.\.?(\/|\z))(\/[\w.+@,=~-]+)+\z/]",
            "The directory.",
            kind="namevar",
            must_be="an absolute path of letters, digits, and '.', '_', '-', '+', '@', ',', '=', '~', without '..'",
        ),
        "python": Attribute(
            r"Pattern[/\A(\/[^\/\x00-\x1f\x7f]+)+\z/]",
            "The interpreter that creates the environment.",
            kind="parameter",
            default="/usr/bin/python3",
            must_be="an absolute path",
        ),
        "pip": Attribute("Boolean", "Whether a new environment gets a pip of its own.", kind="parameter", default=True),
        "system_site_packages": Attribute(
            "Optional[Boolean]", "Whether packages of the system can be used; by default not."
        ),
        "owner": Attribute(
            r"Optional[Pattern[/\A[^\s:\/[:cntrl:]-][^\s:\/[:cntrl:]]*\z/]]",
            "The user who creates and owns the environment; mandatory where users other than root can write to a"
            " directory on the path.",
            kind="init_only",
            must_be="a user's name",
        ),
        "version": Attribute("Optional[String]", "The version of Python.", kind="read_only"),
        "status": Attribute(
            "Optional[String]",
            "`complete`; `incomplete` after an interrupted creation; `broken` without its interpreter; `empty`.",
            kind="read_only",
        ),
    },
    autorequires={"file": files, "user": "$owner", "package": ["python3-venv", "python3"]},
    features={
        "custom_insync",
        "parallel",
        "preflight",
        "preflight_of_removals",
        "side_effects",
        "side_effects_of_removals",
        "simple_get_filter",
        "validate",
    },
)
