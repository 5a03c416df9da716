"""Read and set ``/etc/localtime`` and ``/etc/timezone``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from lib import file_parts
from lib.sensitive import refused_secrets
from resource_api import BaseProvider, Problem, ResourceError, files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from resource_api import Change, Context, Resource

LINK, FILE, ZONES = "/etc/localtime", "/etc/timezone", "/usr/share/zoneinfo"


class Provider(BaseProvider):
    """The one time zone of the machine."""

    def validate(self, _context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Refuse secrets: all users can read the zone."""
        return refused_secrets(should)

    def insync(
        self, _context: Context, _name: str, _attribute: str, is_: Mapping[str, Any], should: Mapping[str, Any]
    ) -> tuple[bool, str] | None:
        """Compare the zone with an existing ``/etc/timezone`` too: some programs read that file, and not the link."""
        zone, file = should["zone"], is_.get("timezone_file")
        if is_.get("zone") == zone and file not in {None, zone}:
            return False, f"changed from {file} to {zone} in {FILE}"
        return None

    def get(self, _context: Context, _names: Collection[str] | None = None) -> Iterator[Resource]:
        """Return the zone of the link /etc/localtime, and the one in /etc/timezone, which ``insync`` compares too.

        A copied file in place of the link does not show its zone.
        """
        row: Resource = {"name": "system"}
        try:
            zone = os.readlink(LINK).partition("/zoneinfo/")[2]  # noqa: PTH115 - a text
        except FileNotFoundError:
            # A machine without the link has this zone: localtime(5).
            zone = "UTC"
        except OSError:
            zone = ""
        if zone:
            row["zone"] = zone
        if os.path.exists(FILE):  # noqa: PTH110 - as above
            row["timezone_file"] = "".join(map(files.printable, files.read_lines(FILE))).strip()
        yield row

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Replace the link and the file. Raise ``ResourceError`` for a zone that does not exist."""
        for name, (_, should) in changes.items():
            with context.updating(name), file_parts.described():
                if reason := _missing(should["zone"]):
                    raise ResourceError(reason)
                with files.Batch() as batch:
                    batch.make_link(LINK, f"{ZONES}/{should['zone']}")
                    if os.path.exists(FILE):  # noqa: PTH110 - as above
                        batch.replace(FILE, f"{should['zone']}\n".encode())

    def preflight(self, _context: Context, changes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Problem]]:
        """Yield a problem for an unknown zone, and for a link that cannot be replaced."""
        for name, should in changes.items():
            if "zone" in should and (reason := _missing(should["zone"])):
                yield name, Problem("zone", reason, needs="Package[tzdata]")
        if mounted := files.why_not_replaced([LINK]).get(LINK):
            yield from ((name, Problem("zone", f"{mounted}, so it cannot be replaced by a link")) for name in changes)


def _missing(zone: str) -> str:
    """Return the reason why a zone cannot be used, or "" if it is a file in the format tzfile(5)."""
    try:
        with open(f"{ZONES}/{zone}", "rb") as file:  # noqa: PTH123 - only root writes there
            if file.read(4) == b"TZif":
                return ""
    except OSError:
        pass
    return f"{ZONES} has no time zone '{zone}'" + ("" if os.path.isdir(ZONES) else ": it does not exist")  # noqa: PTH112 - a text
