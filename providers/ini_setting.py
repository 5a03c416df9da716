"""Read and edit settings in INI files, each file once for all its changes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from lib import file_parts, validate_cmd
from lib.sensitive import reveal
from resource_api import BaseProvider, Problem, Sensitive, files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from resource_api import Change, Context, Resource

    Name = tuple[str, str, str]
    #: A section and a setting.
    Key = tuple[str, str]

HEADER = re.compile(r"\ufeff?\s*\[(.*?)\]\s*(?:[;#].*)?\Z")
SEPARATOR = re.compile(r"\s*[=:]\s*")
COMMENT = re.compile(r"\ufeff?\s*[;#]+\s*")


class Setting(NamedTuple):
    """A line that is a setting: its number, and where its value begins in the text; -1 for a name alone."""

    number: int
    value: int


class Provider(BaseProvider):
    """The settings of INI files."""

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Write values as texts without spaces around them; remove needless slashes and dots from paths."""
        for resource in resources:
            if "value" in resource:
                resource["value"] = _canonical_value(resource["value"])
            if isinstance(resource.get("section"), str):
                resource["section"] = resource["section"].strip()
            if "path" in resource:
                resource["path"] = files.canonical_path(resource["path"])
        return resources

    def validate(self, _context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Refuse a check that cannot be run."""
        yield from validate_cmd.problems("validate_cmd", should.get("validate_cmd"))

    def get(self, context: Context, names: Collection[Name] | None = None) -> Iterator[Resource]:
        """Return the settings in ``names``."""
        unlisted = "the settings of all files cannot be listed; name a file, a section and a setting"
        for path, group, lines in file_parts.read_files(context, names, files.read_lines, unlisted):
            texts = list(lines)
            found = find(texts, [name[1:] for name in group])
            for name in group:
                if places := found.get(name[1:]):
                    row = {"ensure": "present", "path": path, "section": name[1], "setting": name[2]}
                    yield {**row, "value": files.printable(_value(texts[places[-1].number], places[-1]))}

    def preflight(self, _context: Context, changes: Mapping[Name, Mapping[str, Any]]) -> Iterator[tuple[Name, Problem]]:
        """Yield what is missing for a setting: the directory of its file, the program that checks it."""
        return file_parts.missing(changes)

    def set(self, _context: Context, changes: Mapping[Name, Change]) -> None:
        """Edit each file once, whatever happens to the others, and then raise the first failure."""
        file_parts.edit_lines(changes, edit, "value")


def edit(lines: files.Lines, wanted: Mapping[Key, Mapping[str, Any] | None]) -> None:
    """Change the settings in ``wanted`` to the wanted state; None removes them."""
    found = find(list(lines), wanted)
    removed: list[int] = []
    for key, places in found.items():
        should = wanted[key]
        if should is None:
            removed += [place.number for place in places]
            continue
        number, start = places[-1]
        text = lines[number]
        begin = text[:start] if start >= 0 else text.rstrip() + should["key_val_separator"]
        lines[number] = (begin + _text(should["value"])).rstrip(" \t")
    file_parts.remove_lines(lines, removed)
    for key, should in wanted.items():
        if should is None and key in found:
            _remove_if_empty(lines, key[0])
        elif should is not None and key not in found:
            _add(lines, key, f"{key[1]}{should['key_val_separator']}{_text(should['value'])}".rstrip(" \t"))


def find(texts: Sequence[str], keys: Iterable[Key]) -> dict[Key, list[Setting]]:
    """Return the lines of the settings in ``keys``."""
    wanted: dict[str, set[str]] = {}
    for section, setting in keys:
        wanted.setdefault(section, set()).add(setting)
    found: dict[Key, list[Setting]] = {}
    section, names = "", wanted.get("", set())
    for number, text in enumerate(texts):
        if header := HEADER.match(text):
            section = header[1].strip()
            names = wanted.get(section, set())
        elif names and not COMMENT.match(text) and (parsed := _parse(text, names)):
            found.setdefault((section, parsed[0]), []).append(Setting(number, parsed[1]))
    return found


def _parse(text: str, names: Collection[str]) -> tuple[str, int] | None:
    """Return which of ``names`` a line sets, and where its value begins; None if it sets none of them."""
    if (name := _name(text)) in names:
        return name, -1
    longest = max(map(len, names))
    for separator in SEPARATOR.finditer(text):
        name = _name(text[: separator.start()])
        if name in names:
            return name, separator.end()
        if len(name) > longest:
            break
    return None


def _name(text: str) -> str:
    """Return the name that a text holds; a byte order mark before it belongs to the file."""
    return text.removeprefix("\ufeff").strip()


def _value(text: str, place: Setting) -> str:
    return "" if place.value < 0 else text[place.value :].strip()


def _range(texts: Sequence[str], section: str) -> tuple[int, int] | None:
    """Return the numbers of the first line of the last section with a name, and of the one after it."""
    starts = [0] if section == "" else []
    headers = [number for number, text in enumerate(texts) if HEADER.match(text)]
    starts += [number + 1 for number in headers if (HEADER.match(texts[number]) or "")[1].strip() == section]
    if not starts:
        return None
    return starts[-1], next((number for number in headers if number >= starts[-1]), len(texts))


def _add(lines: files.Lines, key: Key, text: str) -> None:
    """Add a setting to its section, which is created if it does not exist."""
    section, setting = key
    texts = list(lines)
    place = _range(texts, section)
    if place is None:
        if texts and texts[-1].strip():
            lines.append("")
        lines.append(f"[{section}]")
        lines.append(text)
        return
    start, number = place[0], place[0]
    indent = ""
    for current in range(*place):
        if (comment := COMMENT.match(texts[current])) and _parse(texts[current][comment.end() :], {setting}):
            number = current + 1
            break
        if texts[current].strip() and not comment:
            number = current + 1
            indent = texts[current][: len(texts[current]) - len(texts[current].lstrip())]
    lines.insert(number, (indent if number > start else "") + text)


def _remove_if_empty(lines: files.Lines, section: str) -> None:
    """Remove a section that has no lines but blank ones, with the blank line above it if it is the last one."""
    texts = list(lines)
    place = _range(texts, section)
    if section == "" or place is None or any(text.strip() for text in texts[slice(*place)]):
        return
    first = place[0] - 1
    if place[1] == len(texts) and first and not texts[first - 1].strip():
        first -= 1
    file_parts.remove_lines(lines, range(first, place[1]))


def _canonical_value(value: Any) -> Any:
    if isinstance(value, Sensitive):
        return Sensitive(_canonical_value(value.reveal()))
    return str(value).lower() if isinstance(value, bool) else str(value).strip()


def _text(value: Any) -> str:
    return str(reveal(value))
