"""Read and set the name in ``/etc/hostname`` and of the kernel."""

from __future__ import annotations

import socket
from functools import partial
from typing import TYPE_CHECKING, Any

from lib import file_parts, prerequisites
from lib.sensitive import refused_secrets
from resource_api import BaseProvider, Problem, files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from resource_api import Change, Context, Resource

FILE = "/etc/hostname"


class Provider(BaseProvider):
    """The one name of the machine, or of this process's namespace."""

    def validate(self, _context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Yield a problem for labels that are empty, or begin or end with a hyphen, as hostname(7) forbids."""
        yield from refused_secrets(should)
        name = should.get("hostname")
        if isinstance(name, str) and any(not label or "-" in {label[0], label[-1]} for label in name.split(".")):
            yield Problem("hostname", f"hostname: '{name}' has an empty label, or one with a hyphen at an end")

    def insync(
        self, _context: Context, _name: str, _attribute: str, is_: Mapping[str, Any], should: Mapping[str, Any]
    ) -> tuple[bool, str] | None:
        """Compare the name with the kernel's too: the file may be right and the running system not."""
        if is_.get("hostname") != should["hostname"] or is_["live"] == should["hostname"]:
            return None
        return False, f"changed from {is_['live']} to {should['hostname']} in the running kernel"

    def get(self, _context: Context, _names: Collection[str] | None = None) -> Iterator[Resource]:
        """Return the name in the file, if there is one, and as ``live`` the kernel's, which ``insync`` compares too."""
        row: Resource = {"name": "system", "live": socket.gethostname()}
        lines = files.read_lines(FILE)
        if (number := _name_line(lines)) is not None:
            row["hostname"] = files.printable(lines[number]).strip()
        yield row

    def preflight(self, _context: Context, changes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Problem]]:
        """Yield a warning if the file cannot be replaced, only overwritten."""
        return prerequisites.written_in_place(dict.fromkeys(changes, FILE))

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Set both names; the kernel comes first, as it may refuse one."""
        for name, (_, should) in changes.items():
            with context.updating(name), file_parts.described():
                if socket.gethostname() != should["hostname"]:
                    socket.sethostname(should["hostname"])
                file_parts.edit_file(FILE, partial(_edit, name=should["hostname"]))


def _name_line(lines: files.Lines) -> int | None:
    """Return the number of the line that holds the name: the first one that is neither empty nor a comment."""
    return next((number for number, line in enumerate(lines) if line.strip() and line.strip()[0] != "#"), None)


def _edit(lines: files.Lines, name: str) -> None:
    """Replace the line with the name, or add one to a file without; the right line stays unchanged."""
    number = _name_line(lines)
    if number is None:
        lines.append(name)
    elif lines[number].strip() != name:
        lines[number] = name
