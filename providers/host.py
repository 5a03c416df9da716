"""Read and edit hosts in files of the format hosts(5), each file once for all its changes."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import lru_cache, partial
from ipaddress import IPv6Address, ip_address
from itertools import product
from typing import TYPE_CHECKING, Any

from lib import file_parts, prerequisites
from lib.sensitive import reveal
from resource_api import BaseProvider, Problem, files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from resource_api import Change, Context, Resource

    Name = tuple[str, str]
    #: (name, whether IPv6) → the number of the first line that answers, and its address.
    FirstAnswers = dict[tuple[str, bool], tuple[int, str]]
FILE = "/etc/hosts"
#: Which services the resolver asks.
SWITCH = "/etc/nsswitch.conf"
NAME = re.compile(r"[\w.-]+", re.ASCII)
CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class Provider(BaseProvider):
    """The hosts of ``/etc/hosts`` and of other files in its format."""

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Write addresses in their shortest form and names in small letters, as the resolver compares them."""
        for resource in resources:
            if "name" in resource:
                resource["name"] = resource["name"].lower()
            if resource.get("host_aliases"):
                resource["host_aliases"] = list(map(str.lower, resource["host_aliases"]))
            if "ip" in resource:
                resource["ip"] = _address(resource["ip"]) or resource["ip"]
            if "target" in resource:
                resource["target"] = files.canonical_path(resource["target"])
            if resource.get("comment"):
                resource["comment"] = resource["comment"].strip(" \t")
        return resources

    def validate(self, _context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Refuse an invalid address, before a line is written that the resolver ignores."""
        ip = should.get("ip")
        if type(ip) is str and not _address(ip):
            yield Problem("ip", f"ip: '{ip}' is not an IPv4 or IPv6 address")

    def insync(
        self, _context: Context, _name: Name, attribute: str, is_: Mapping[str, Any], should: Mapping[str, Any]
    ) -> bool | tuple[bool, str] | None:
        """Compare with the host's line for the declared address family, IPv4 or IPv6.

        An earlier line with another address is a difference: the resolver takes the first line with a name.
        """
        if should["ensure"] != "present":
            return None
        line = _line_of_family(is_, should)
        if attribute == "ensure":
            earlier = line.get("overridden") or {}
            reason = next((earlier[name] for name in _declared_names(should) if name in earlier), None)
            return None if reason is None else (False, f"changed: {reason}, and comes first")
        # The row itself is of the declared family, so that the runtime can compare it.
        if line is is_:
            return None
        value = line[attribute]
        return True if value == should[attribute] else (False, f"changed from {value} to {should[attribute]}")

    def get(self, context: Context, names: Collection[Name] | None = None) -> Iterable[Resource]:
        """Return all hosts of the files in ``names``, or of ``/etc/hosts``; an unreadable file fails its hosts."""
        for target in ["/etc/hosts"] if names is None else sorted({target for _, target in names}):
            try:
                lines = files.read_lines(target)
            except OSError as error:
                if names is None:
                    raise
                context.failed([name for name in names if name[1] == target], file_parts.at(target, error))
                continue
            rows = _rows(lines, target)
            # A listing becomes a manifest: it has only the names that the resolver takes from these lines.
            yield from rows if names is not None else filter(None, map(_listed, rows))

    def preflight(self, _context: Context, changes: Mapping[Name, Mapping[str, Any]]) -> Iterator[tuple[Name, Problem]]:
        """Yield a warning for each declared host that an earlier line overrides: ``set`` moves its line before this.

        Yield also that the resolver does not read /etc/hosts, and the problems of editing the files. A host whose
        address is not known yet gets no warning.
        """
        complete = {name: should for name, should in reveal(changes).items() if "ip" in should}
        for (name, target), should in complete.items():
            with suppress(OSError):
                lines = files.read_lines(target)
                # In memory, as the line may be new.
                _change(lines, {name: should})
                for _, first, reason in _overridden(lines, {name: should}):
                    message = (
                        f"line {first + 1} of {target} {reason}, and comes first; the declared one is put before it,"
                        " and programs that ask for all addresses get both"
                    )
                    yield (name, target), Problem("ip", message, severity="warning")
        if machine := [name for name in changes if name[1] == FILE]:
            yield from product(machine, list(_unread()))
        yield from prerequisites.edited({name: name[1] for name in changes})

    def set(self, _context: Context, changes: Mapping[Name, Change]) -> None:
        """Edit each file once, also after another file failed, and then raise the first failure."""
        file_parts.edit_files(
            changes,
            lambda name: (name[1], name[0]),
            lambda target, states, mode: files.edit_lines(target, partial(edit, states=states), mode=mode),
        )


def _unread() -> Iterator[Problem]:
    """Yield a problem if the resolver of this machine does not read /etc/hosts (nsswitch.conf(5))."""
    with suppress(OSError):
        for line in files.read_lines(SWITCH):
            database, colon, sources = line.partition("#")[0].partition(":")
            if colon and database.strip() == "hosts" and "files" not in sources.split():
                message = f"{SWITCH} has no 'files' for hosts: programs do not read {FILE}"
                yield Problem(None, message, needs=f"File[{SWITCH}]", brought_by=prerequisites.BRINGING)


def edit(lines: files.Lines, states: Mapping[str, Mapping[str, Any] | None]) -> None:
    """Bring the hosts in ``states``, by name, to these states; None removes their lines.

    The line of a declared host comes before each one that the resolver would take for one of its names.
    """
    _change(lines, states)
    for number, first, _ in _overridden(lines, states):
        text = lines[number]
        del lines[number]
        lines.insert(first, text)


def _change(lines: files.Lines, states: Mapping[str, Mapping[str, Any] | None]) -> None:
    """Change, add or remove the lines of the hosts in ``states``, wherever they are in the file.

    A host can have a line for IPv4 and one for IPv6: only the line of the declared family is changed, a removal
    concerns both.
    """
    numbers_by_name: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        host = parse_line(line)
        if host is not None and host["name"].lower() in states:
            numbers_by_name.setdefault(host["name"].lower(), []).append(number)
    removed: list[int] = []
    for name, should in states.items():
        numbers = numbers_by_name.get(name, [])
        if should is None:
            removed += numbers
        elif numbers:
            _update(lines, numbers, should)
        else:
            lines.append(format_line({**should, "name": name}))
    lines.delete(removed)


def _update(lines: files.Lines, numbers: list[int], should: Mapping[str, Any]) -> None:
    """Write the declared values into a host's line, unless the line has them already and so keeps its spelling.

    The line is the one of the declared address family, or else the first of ``numbers``.
    """
    number = next((number for number in numbers if _is_of_family(lines[number], should)), numbers[0])
    host = parse_line(lines[number]) or {}
    if any(should.get(attribute, value) != value for attribute, value in _canonical(host).items()):
        lines[number] = format_line({**host, **should, "name": host["name"]})


def _overridden(lines: files.Lines, states: Mapping[str, Mapping[str, Any] | None]) -> Iterator[tuple[int, int, str]]:
    """Yield each declared line without effect: its number, the number of the earlier line that counts, and the reason.

    The resolver takes the first line with a name, for IPv4 and IPv6 each. (With ``multi on`` in host.conf(5) it returns
    the addresses of later lines too, after that one.) ``edit`` moves the declared line before the other.
    """
    # The declared hosts whose line has not come yet.
    waiting = {name: {**should, "name": name} for name, should in states.items() if should is not None}
    relevant = {name for should in waiting.values() for name in _declared_names(should)}
    first: FirstAnswers = {}
    for number, line in enumerate(lines) if waiting else ():
        # Without this test, parsing all lines of a long list would take twice as long as the edit.
        if relevant.isdisjoint(line.partition("#")[0].lower().split()) or (host := parse_line(line)) is None:
            continue
        for key, address in _answers(host):
            first.setdefault(key, (number, address))
        should = waiting.get(host["name"].lower())
        if should is not None and _is_of_family(line, should):
            if earlier := _earlier_answer(_declared_names(should), host["ip"], first):
                yield number, earlier[0], f"gives '{earlier[2]}' the address {earlier[1]}"
            del waiting[host["name"].lower()]


def _earlier_answer(names: Iterable[str], ip: str, first: FirstAnswers) -> tuple[int, str, str] | None:
    """Return (line number, address, name) of the first line that gives one of ``names`` another address than ``ip``.

    Return None if there is none: then the declared line has its effect.
    """
    keys = [(name, ":" in ip) for name in names]
    answers = [(*first[key], key[0]) for key in keys if key in first and first[key][1] != ip]
    return min(answers, default=None)


def _rows(lines: files.Lines, target: str) -> Iterable[Resource]:
    """Return a row for each host of a file, from its first line.

    For ``insync``, ``other_family`` is the first line of the host with the other address family, and ``overridden`` has
    the names that an earlier line gives another address, with the reason.
    """
    rows: dict[str, Resource] = {}
    first: FirstAnswers = {}
    for number, line in enumerate(lines):
        host = parse_line(files.printable(line))
        if host is None:
            continue
        host = _canonical(host)
        is_ipv6 = ":" in host["ip"]
        for (name, answers_ipv6), address in _answers(host):
            first_number, first_address = first.setdefault((name, answers_ipv6), (number, address))
            if answers_ipv6 is is_ipv6 and first_address != address:
                reason = f"line {first_number + 1} of {target} gives '{name}' the address {first_address}"
                host.setdefault("overridden", {})[name] = reason
        row = rows.get(host["name"])
        if row is None:
            rows[host["name"]] = {"ensure": "present", "target": target, **host}
        elif is_ipv6 != (":" in row["ip"]):
            row.setdefault("other_family", host)
    return rows.values()


def _listed(row: Resource) -> Resource | None:
    """Return a row for a listing, or None if an earlier line overrides the host's name.

    Where an earlier line overrides any alias, all aliases are left out.
    """
    overridden = row.get("overridden") or {}
    if row["name"] in overridden:
        return None
    return {key: value for key, value in row.items() if key != "host_aliases"} if overridden else row


def _line_of_family(is_: Mapping[str, Any], should: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the values of the line to compare with a declaration: that of the declared address's family.

    A host may have a line for IPv4 and one for IPv6; a declaration without an address is compared with the first one.
    """
    other_family: Mapping[str, Any] | None = is_.get("other_family")
    if other_family is None or not isinstance(should.get("ip"), str) or (":" in should["ip"]) == (":" in is_["ip"]):
        return is_
    return other_family


def _is_of_family(line: str, should: Mapping[str, Any]) -> bool:
    """Return whether a line has the declared address family, IPv4 or IPv6, so that a change concerns this line.

    Without a declared address, each line with a host has it.
    """
    host = parse_line(line)
    ip = should.get("ip")
    return host is not None and (ip is None or (":" in ip) == (":" in host["ip"]))


def _declared_names(should: Mapping[str, Any]) -> list[str]:
    """Return the name and the aliases of a declared host."""
    return [should["name"], *(should.get("host_aliases") or ())]


def _answers(host: Mapping[str, Any]) -> Iterator[tuple[tuple[str, bool], str]]:
    """Yield ((name, whether IPv6), address) for each query that a host's line answers, to find the line that counts.

    glibc answers queries for IPv4 by ``::1`` too, and by mapped addresses such as ``::ffff:10.0.0.1``.
    """
    ip, names = host["ip"], [host["name"].lower(), *map(str.lower, host["host_aliases"])]
    is_ipv6 = ":" in ip
    ipv4 = ""
    if is_ipv6:
        ipv4 = "127.0.0.1" if ip == "::1" else _mapped(ip)
    for name in names:
        yield (name, is_ipv6), ip
        if ipv4:
            yield (name, False), ipv4


def _canonical(host: Resource) -> Resource:
    """Return the canonical form of a line's values."""
    return {**host, "name": host["name"].lower(), "host_aliases": list(map(str.lower, host["host_aliases"]))}


def parse_line(line: str) -> Resource | None:
    """Return the host of a line, or None for a comment or a line that the resolver ignores: these stay unchanged."""
    words, _, comment = line.partition("#")
    ip, *names = words.replace("\t", " ").strip(" ").split(" ")
    names = [name for name in names if name]
    # Most other lines are recognized without the attempt to parse an address.
    address = _address(ip) if names and ("." in ip or ":" in ip) else None
    if address is None or not all(map(NAME.fullmatch, names)) or CONTROL.search(comment):
        return None
    return {"name": names[0], "ip": address, "host_aliases": names[1:], "comment": comment.strip(" \t")}


def format_line(host: Mapping[str, Any]) -> str:
    """Return a line of hosts(5) for a host: address, name, aliases, and the comment at the end."""
    names = " ".join([host["name"], *(host.get("host_aliases") or [])])
    comment = host.get("comment")
    return f"{host['ip']}\t{names}" + (f"\t# {comment}" if comment else "")


@lru_cache(1024)  # a list of blocked hosts repeats one address a hundred thousand times
def _address(text: str) -> str | None:
    """Return an address in its shortest form, in which equal addresses are equal texts, or None for an invalid one."""
    zone = text.partition("%")[2]
    if zone and not NAME.fullmatch(zone):  # the library accepts any text as a zone
        return None
    try:
        return str(ip_address(text))
    except ValueError:
        return None


def _mapped(ip: str) -> str:
    """Return the IPv4 address in a mapped IPv6 address, or an empty text."""
    mapped = IPv6Address(ip).ipv4_mapped if ip.startswith("::ffff:") else None
    return str(mapped) if mapped else ""
