"""Hosts in files of the format hosts(5): one rewrite of a file for all that changes in it."""

from __future__ import annotations

import re
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from resource_api import BaseProvider, Problem
from resource_api.system.filesystem import line_editor as lines

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from resource_api import Change, Context, Resource
    from resource_api.system.filesystem.line_editor import Lines

    Name = tuple[str, str]

_NAME = re.compile(r"[\w.-]+", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class Provider(BaseProvider):
    """Reads and edits the lines of hosts."""

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Spell addresses as short as they go, comments without blanks around them."""
        for resource in resources:
            if "ip" in resource:
                resource["ip"] = _address(resource["ip"]) or resource["ip"]
            if resource.get("comment"):
                resource["comment"] = resource["comment"].strip(" \t")
        return resources

    def validate(self, _context: Context, should: Mapping[str, Any]) -> list[Problem]:
        """Refuse what looks like an address and is none."""
        ip = should.get("ip")
        return [Problem("ip", f"ip: '{ip}' is no IPv4 or IPv6 address")] if type(ip) is str and not _address(ip) else []

    def get(self, _context: Context, names: Collection[Name] | None = None) -> Iterable[Resource]:
        """Give the hosts of the files that are asked for, of ``/etc/hosts`` for all."""
        targets = ["/etc/hosts"] if names is None else sorted({target for _, target in names})
        for target in targets:
            hosts: dict[str, Resource] = {}
            for line in lines.read(target):
                host = parse(lines.shown(line))
                if host is not None:
                    hosts.setdefault(host["name"], {"ensure": "present", "target": target, **host})
            yield from hosts.values()

    def set(self, _context: Context, changes: Mapping[Name, Change]) -> None:
        """Edit each file once."""
        files: dict[str, dict[str, Mapping[str, Any]]] = {}
        for (name, target), change in changes.items():
            files.setdefault(target, {})[name] = change.should
        for target, wanted in files.items():
            lines.edit(target, partial(edit, wanted=wanted), mode=0o644)


def edit(file: Lines, wanted: Mapping[str, Mapping[str, Any]]) -> None:
    """Bring the hosts in ``wanted``, by name, to what they should be."""
    places: dict[str, list[int]] = {}
    for number, line in enumerate(file):
        host = parse(line)
        if host is not None and host["name"] in wanted:
            places.setdefault(host["name"], []).append(number)
    gone: list[int] = []
    for name, should in wanted.items():
        found = places.get(name, [])
        if should.get("ensure") == "absent":
            gone += found
        elif found:
            host = parse(file[found[0]]) or {}
            if any(should.get(attribute, value) != value for attribute, value in host.items()):
                file[found[0]] = spell({**host, **should})
        else:
            file.append(spell({**should, "name": name}))
    for number in sorted(gone, reverse=True):
        del file[number]


def parse(line: str) -> Resource | None:
    """Give the host that a line names; None for every other line."""
    words, _, comment = line.partition("#")
    ip, *names = words.replace("\t", " ").strip(" ").split(" ")
    names = [name for name in names if name]
    address = _address(ip)
    if address is None or not names or not all(map(_NAME.fullmatch, names)) or _CONTROL.search(comment):
        return None
    return {"name": names[0], "ip": address, "host_aliases": names[1:], "comment": comment.strip(" \t")}


def spell(host: Mapping[str, Any]) -> str:
    """Give the line of a host."""
    names = " ".join([host["name"], *(host.get("host_aliases") or [])])
    comment = host.get("comment")
    return f"{host['ip']}\t{names}" + (f"\t# {comment}" if comment else "")


def _address(text: str) -> str | None:
    try:
        return str(ip_address(text))
    except ValueError:
        return None
