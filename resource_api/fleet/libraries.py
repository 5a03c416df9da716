"""The libraries in pure Python that functions and types need on hosts, which are sent if a manifest uses these.

A host that lacks one refuses before its first change, at the latest when its plan names the types.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from resource_api.model.values.errors import ManifestError, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: Function or type → its libraries.
_NEEDED: Final[Mapping[str, Sequence[str]]] = {
    "template": ("jinja2", "markupsafe"),
    "toml_setting": ("tomlkit",),
    **dict.fromkeys(("mysql_database", "mysql_grant", "mysql_user"), ("pymysql",)),
}


def needed(names: Iterable[str]) -> list[str]:
    """Return the libraries of the functions and types among names, sorted."""
    return sorted({library for name in set(names) for library in _NEEDED.get(name, ())})


def check(names: Iterable[str]) -> None:
    """Raise ``ManifestError`` for libraries that the manifest needs, and neither this host nor the sender has."""
    if missing := [name for name in names if find_spec(name) is None]:
        advice = "install it there, or beside the program that sends the manifest"
        message = f"the manifest needs the Python library {', '.join(missing)}, which this host lacks; {advice}"
        raise ManifestError([Problem(None, message, code="library")])
