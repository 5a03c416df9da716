"""Read and edit priorities in files of the format apt_preferences(5)."""

from __future__ import annotations

import os
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lib import deb822, file_parts
from resource_api import BaseProvider, files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from resource_api import Change, Context, Resource

DIRECTORY = Path("/etc/apt/preferences.d")
SUFFIX = ".pref"
INTEGER = re.compile(r"[-+]?\d{1,5}", re.ASCII)


class Provider(BaseProvider):
    """The priorities in files of one record in ``/etc/apt/preferences.d``."""

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Remove what means nothing: repeated packages, blanks, quotes around a host."""
        for resource in resources:
            if "packages" in resource:
                resource["packages"] = list(dict.fromkeys(resource["packages"]))
            if "pin" in resource:
                resource["pin"] = _pin(resource["pin"])
            if resource.get("explanation"):
                resource["explanation"] = " ".join(resource["explanation"].split())
        return resources

    def get(self, context: Context, names: Collection[str] | None = None) -> Iterable[Resource]:
        """Return the priorities in ``names``, or of all files; one that cannot be read fails."""
        found = deb822.read_each(context, names, _names, _path)
        return context.accepted(_row(name, fields) for name, fields in found)

    def set(self, _context: Context, changes: Mapping[str, Change]) -> None:
        """Edit or remove the file of each priority."""
        with files.Batch() as batch:
            for name, change in changes.items():
                if change.should["ensure"] == "absent":
                    for path in _existing(name):
                        batch.remove(path)
                else:
                    file_parts.edit_file(_path(name), partial(deb822.edit, wanted=_edits(change.should)))


def _path(name: str) -> str:
    """Return the file of a name."""
    return next(_existing(name), f"{DIRECTORY}/{name}{SUFFIX}")


def _existing(name: str) -> Iterator[str]:
    """Yield the files of a name that exist: apt reads those with the suffix, and those without a dot."""
    candidates = (f"{DIRECTORY}/{name}{SUFFIX}", *([] if "." in name else [f"{DIRECTORY}/{name}"]))
    return (path for path in candidates if os.path.lexists(path))


def _names() -> Iterable[str]:
    found = [path.name for path in DIRECTORY.iterdir()] if DIRECTORY.is_dir() else []
    return sorted({name.removesuffix(SUFFIX) for name in found if name.endswith(SUFFIX) or "." not in name})


def _row(name: str, fields: Mapping[str, str]) -> Resource:
    row: Resource = {
        "name": name,
        "ensure": "present",
        "packages": list(dict.fromkeys(fields.get("package", "").split())),
    }
    if INTEGER.fullmatch(priority := fields.get("pin-priority", "")):
        row["priority"] = int(priority)
    return row | {"pin": _pin(fields.get("pin", "")), "explanation": " ".join(fields.get("explanation", "").split())}


def _edits(should: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields to write, by name."""
    edits = {"Explanation": should["explanation"]} if should.get("explanation") is not None else {}
    edits |= {"Package": " ".join(should["packages"])} if "packages" in should else {}
    edits |= {"Pin": should["pin"]} if "pin" in should else {}
    return edits | ({"Pin-Priority": str(should["priority"])} if "priority" in should else {})


def _pin(text: str) -> str:
    """Return a pin with one blank after each word, none around commas in a release, and no quotes around a host."""
    kind, _, rest = " ".join(text.split()).partition(" ")
    if kind == "release":
        rest = ",".join(each.strip() for each in rest.split(","))
    if kind == "origin" and len(rest) > 1 and rest[0] == rest[-1] == '"':
        rest = rest[1:-1]
    return f"{kind} {rest}"
