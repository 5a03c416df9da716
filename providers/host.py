"""Read and edit hosts in files of the format hosts(5), each file once for all its changes."""

from __future__ import annotations

import re
from functools import lru_cache, partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from lib import file_parts
from resource_api import BaseProvider, Problem, files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from resource_api import Change, Context, Resource

    Name = tuple[str, str]

NAME = re.compile(r"[\w.-]+", re.ASCII)
CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class Provider(BaseProvider):
    """The hosts of ``/etc/hosts`` and of other files in its format."""

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Shorten addresses; remove blanks around comments."""
        for resource in resources:
            if "ip" in resource:
                resource["ip"] = _address(resource["ip"]) or resource["ip"]
            if resource.get("comment"):
                resource["comment"] = resource["comment"].strip(" \t")
        return resources

    def validate(self, _context: Context, should: Mapping[str, Any]) -> list[Problem]:
        """Refuse an invalid address."""
        ip = should.get("ip")
        return (
            [Problem("ip", f"ip: '{ip}' is not an IPv4 or IPv6 address")]
            if type(ip) is str and not _address(ip)
            else []
        )

    def get(self, context: Context, names: Collection[Name] | None = None) -> Iterable[Resource]:
        """Return all hosts of the files in ``names``, or of ``/etc/hosts``; an unreadable file fails its hosts."""
        targets = ["/etc/hosts"] if names is None else sorted({target for _, target in names})
        for target in targets:
            hosts: dict[str, Resource] = {}
            try:
                lines = files.read_lines(target)
            except OSError as error:
                if names is None:
                    raise
                context.failed([name for name in names if name[1] == target], files.describe_error(error, target))
                continue
            for line in lines:
                host = parse_line(files.printable(line))
                if host is not None:
                    hosts.setdefault(host["name"], {"ensure": "present", "target": target, **host})
            yield from hosts.values()

    def preflight(self, _context: Context, changes: Mapping[Name, Mapping[str, Any]]) -> Iterator[tuple[Name, Problem]]:
        """Yield that a file is overwritten, where it cannot be replaced."""
        from lib import prerequisites  # noqa: PLC0415 - only for plans with changes

        return prerequisites.written_in_place({name: name[1] for name in changes})

    def set(self, _context: Context, changes: Mapping[Name, Change]) -> None:
        """Edit each file once, whatever happens to the others, and then raise the first failure."""
        file_parts.edit_files(changes, lambda name: (name[1], name[0]), _rewrite)


def _rewrite(target: str, wanted: Mapping[str, Mapping[str, Any] | None]) -> None:
    files.edit_lines(target, partial(edit, wanted=wanted), mode=0o644)


def edit(lines: files.Lines, wanted: Mapping[str, Mapping[str, Any] | None]) -> None:
    """Change the lines of the hosts in ``wanted``, by name, to the wanted state; None removes them."""
    places: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        host = parse_line(line)
        if host is not None and host["name"] in wanted:
            places.setdefault(host["name"], []).append(number)
    removed: list[int] = []
    for name, should in wanted.items():
        found = places.get(name, [])
        if should is None:
            removed += found
        elif found:
            host = parse_line(lines[found[0]]) or {}
            if any(should.get(attribute, value) != value for attribute, value in host.items()):
                lines[found[0]] = format_line({**host, **should})
        else:
            lines.append(format_line({**should, "name": name}))
    file_parts.remove_lines(lines, removed)


def parse_line(line: str) -> Resource | None:
    """Return the host of a line; None for every other line."""
    words, _, comment = line.partition("#")
    ip, *names = words.replace("\t", " ").strip(" ").split(" ")
    names = [name for name in names if name]
    # Most other lines are recognized without the attempt to parse an address.
    address = _address(ip) if names and ("." in ip or ":" in ip) else None
    if address is None or not all(map(NAME.fullmatch, names)) or CONTROL.search(comment):
        return None
    return {"name": names[0], "ip": address, "host_aliases": names[1:], "comment": comment.strip(" \t")}


def format_line(host: Mapping[str, Any]) -> str:
    """Return the line of a host."""
    names = " ".join([host["name"], *(host.get("host_aliases") or [])])
    comment = host.get("comment")
    return f"{host['ip']}\t{names}" + (f"\t# {comment}" if comment else "")


@lru_cache(1024)  # a list of blocked hosts repeats one address a hundred thousand times
def _address(text: str) -> str | None:
    """Return an address in its shortest form; None if it is none."""
    zone = text.partition("%")[2]
    if zone and not NAME.fullmatch(zone):  # which the library accepts
        return None
    try:
        return str(ip_address(text))
    except ValueError:
        return None
