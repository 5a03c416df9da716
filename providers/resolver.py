"""Read and edit files in the format resolv.conf(5)."""

from __future__ import annotations

import os
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from lib import file_parts, prerequisites
from lib.sensitive import refused_secrets
from resource_api import BaseProvider, Problem, files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from resource_api import Change, Context, Resource

FILE = "/etc/resolv.conf"
#: The most servers that are asked (MAXNS of resolver(5)).
MOST = 3
#: The first words of lines by attribute; the first one is written.
KEYWORDS = {"nameservers": ("nameserver",), "search": ("search", "domain"), "options": ("options",)}


class Provider(BaseProvider):
    """The resolver's files."""

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Write addresses in their shortest form and domains in small letters, so that equal values are equal."""
        for resource in resources:
            if "path" in resource:
                resource["path"] = files.canonical_path(resource["path"])
            if resource.get("search"):
                resource["search"] = list(map(str.lower, resource["search"]))
            if resource.get("nameservers"):
                resource["nameservers"] = [_address(text) or text for text in resource["nameservers"]]
        return resources

    def validate(self, _context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Yield a problem for each invalid address, which the resolver would ignore."""
        yield from refused_secrets(should)
        addresses = should.get("nameservers")
        for text in addresses if isinstance(addresses, list) else ():
            if isinstance(text, str) and not _address(text):
                yield Problem("nameservers", f"nameservers: '{text}' is not an IPv4 or IPv6 address")

    def insync(
        self, _context: Context, _name: str, attribute: str, is_: Mapping[str, Any], _should: Mapping[str, Any]
    ) -> tuple[bool, str] | None:
        """Count a link to another program's file, such as systemd-resolved's, as a difference."""
        if attribute == "ensure" and is_.get("managed_by"):
            return False, f"changed from a link to {is_['managed_by']} to a file"
        return None

    def get(self, context: Context, names: Collection[str] | None = None) -> Iterator[Resource]:
        """Return the files in ``names``, or ``/etc/resolv.conf``, that exist."""
        for path in [FILE] if names is None else names:
            try:
                lines = files.read_lines(path)  # none of a missing file
                managed = _managed(path)
            except OSError as error:
                file_parts.report_unreadable(context, [path], file_parts.at(path, error), names)
                continue
            if not managed and not os.path.exists(path):  # noqa: PTH110 - a text
                continue
            row: Resource = {"ensure": "present", "path": path, **_parse(lines)}
            if managed:
                row["managed_by"] = managed
            yield from context.accepted([row])

    def preflight(self, _context: Context, changes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Problem]]:
        """Yield a problem if the directory of a file is missing, or the file cannot be replaced, only overwritten."""
        return prerequisites.of_files(changes, lambda path, _should: prerequisites.missing_parent(path))

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Edit or remove each file; a link to another program's file is replaced by a file with the same values."""
        for path, (is_, should) in changes.items():
            with context.processing(path, is_, should), file_parts.described(path):
                if should["ensure"] == "absent":
                    with files.Batch() as batch:
                        batch.remove(path)
                else:
                    _write(path, is_, should)


def _write(path: str, is_: Mapping[str, Any] | None, should: Mapping[str, Any]) -> None:
    """Edit a file, or make one, even an empty one; a link into /run becomes a file with the values of its target.

    Otherwise the program that manages the target would overwrite the declared values.
    """
    if _managed(path):
        lines = files.read_lines(path)
        # Without its comments, which say that another program manages it: now we do.
        lines.delete([number for number, line in enumerate(lines) if not line.strip() or line[0] in "#;"])
        _edit(lines, should)
        files.replace(path, lines.content, mode=0o644)
    # An edit without a line to write would make no file.
    elif is_ is None and not any(should.get(attribute) for attribute in KEYWORDS):
        files.replace(path, b"", mode=0o644)
    else:
        file_parts.edit_file(path, partial(_edit, should=should))


def _managed(path: str) -> str:
    """Return the file in /run to which a path links, or "" for any other file.

    Such a link means that another program, such as systemd-resolved, manages the resolver.
    """
    if not os.path.islink(path):  # noqa: PTH114 - a text
        return ""
    target = os.path.realpath(path)
    return target if target.startswith("/run/") else ""


def _words(line: str) -> list[str]:
    """Return the words of a line, or none of a comment. A keyword begins its line (resolv.conf(5))."""
    return [] if line[:1] in "#; \t" else files.printable(line).split()


def _parse(lines: files.Lines) -> Resource:
    """Return the values that count: the first three addresses, the options of all lines, the last search list."""
    row: Resource = {"nameservers": [], "search": [], "options": []}
    for keyword, *values in filter(None, map(_words, lines)):
        if keyword == "nameserver" and values and len(row["nameservers"]) < MOST:
            row["nameservers"].append(_address(values[0]) or values[0])
        elif keyword in KEYWORDS["search"]:
            row["search"] = list(map(str.lower, values))
        elif keyword == "options":
            row["options"] += values
    return row


def _edit(lines: files.Lines, should: Mapping[str, Any]) -> None:
    """Write the lines of the declared attributes that differ: in place of the present ones, or at the end."""
    present = _parse(lines)
    for attribute, keywords in KEYWORDS.items():
        values = should.get(attribute)
        if values is None or values == present[attribute]:
            continue
        # Each address has a line of its own; all domains or options stand in one.
        parts = values if attribute == "nameservers" or not values else [" ".join(values)]
        texts = [f"{keywords[0]} {part}" for part in parts]
        numbers = [number for number, line in enumerate(lines) if set(_words(line)[:1]) & set(keywords)]
        end = numbers[-1] + 1 if numbers else len(lines)
        for number, text in zip(numbers, texts, strict=False):
            lines[number] = text
        for number, text in enumerate(texts[len(numbers) :], end):
            lines.insert(number, text)
        lines.delete(numbers[len(texts) :])


def _address(text: str) -> str | None:
    """Return an address in its canonical spelling, so that equal addresses are equal texts, or None for any other."""
    try:
        return str(ip_address(text))
    except ValueError:
        return None
