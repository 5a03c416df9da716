"""Read and set parameters beneath ``/proc/sys``, and edit files of the format sysctl.d(5), each once."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lib import file_parts, prerequisites
from lib.sensitive import reveal
from resource_api import BaseProvider, Problem, files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from resource_api import Change, Context, Resource

    Name = tuple[str, str]

KERNEL = "/proc/sys/"
OWN = "/etc/sysctl.d"
#: The directories of settings: of files of one name the first directory's counts (sysctl.d(5)).
DIRECTORIES = (OWN, "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d")
#: A number or a range of numbers.
NUMBERS = re.compile(r"([+-]?(?:0[xX][0-9a-fA-F]{1,16}|0[0-7]{0,21}|[1-9][0-9]{0,19}))(?:-([1-9][0-9]{0,9}))?")
#: ``/`` and ``.`` change places between a parameter's name and its path.
SWAP = str.maketrans("./", "/.")


class Provider(BaseProvider):
    """The entries of files, and the values of the running kernel."""

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Write names with dots and values with single blanks, as files and the kernel have different spellings."""
        for resource in resources:
            if "name" in resource:
                resource["name"] = _dotted(resource["name"])
            if "target" in resource:
                resource["target"] = files.canonical_path(resource["target"])
            if "value" in resource:
                resource["value"] = _words(str(resource["value"]))
        return resources

    def insync(
        self, _context: Context, _name: Name, attribute: str, is_: Mapping[str, Any], should: Mapping[str, Any]
    ) -> bool | tuple[bool, str] | None:
        """Compare the value with the running kernel's too, unless ``apply`` is false."""
        if attribute != "value" or is_["value"] != should["value"] or not should["apply"]:
            return None
        live = is_.get("live")
        if live is None:
            return False, "is not set: the running kernel has no such parameter"
        difference = f"changed from {live} to {should['value']} in the running kernel"
        return _is_same(live, should["value"]) or (False, difference)

    def get(self, context: Context, names: Collection[Name] | None = None) -> Iterator[Resource]:
        """Return the entries of the files in ``names``, or of those in ``/etc/sysctl.d``.

        Each row has the value of the running kernel too, for ``insync``.
        """
        for target in _own_files() if names is None else sorted({target for _, target in names}):
            try:
                lines = files.read_lines(target)
            except OSError as error:
                affected = [name for name in names or () if name[1] == target]
                file_parts.report_unreadable(context, affected, file_parts.at(target, error), names)
                continue
            entries = dict(filter(None, (parse_line(files.printable(line)) for line in lines)))
            requested = entries if names is None else [name for name, file in names if file == target]
            rows = [_row(name, target, entries[name]) for name in requested if name in entries]
            yield from context.accepted(rows) if names is None else rows

    def set(self, context: Context, changes: Mapping[Name, Change]) -> None:
        """Set each value in the kernel, and then edit each file once, with the values that the kernel has accepted."""
        accepted = {}
        for identity, change in changes.items():
            try:
                if change.should["ensure"] == "present" and change.should["apply"]:
                    _set_live(identity[0], reveal(change.should["value"]))
            except FileNotFoundError:
                context.failed(identity, message="the running kernel has no such parameter")
            except OSError as error:
                value, reason = change.should["value"], files.describe_error(error, "")
                context.failed(identity, message=f"the kernel does not accept '{value}' for it: {reason}")
            else:
                accepted[identity] = change
        file_parts.edit_files(accepted, lambda identity: (identity[1], identity[0]), _edit_file)

    def preflight(self, _context: Context, changes: Mapping[Name, Mapping[str, Any]]) -> Iterator[tuple[Name, Problem]]:
        """Yield a problem for each parameter that the kernel lacks, and each file that is not read at boot.

        Yield a warning for later files that override a value.
        """
        for identity, should in changes.items():
            name, target = identity
            if should["ensure"] == "absent":
                continue
            if should.get("apply") and not os.path.exists(_path(name)):  # noqa: PTH110 - a text
                message = "the running kernel has no such parameter; its module may not be loaded"
                yield identity, Problem("name", message)
            if reason := _unread(target):
                yield identity, Problem("target", reason)
            for path in _later_files(target):
                entries = _entries(path)
                if entries.get(name, should.get("value")) != should.get("value"):
                    text = f"{path} comes after {target} and sets it to '{entries[name]}' when the machine starts"
                    yield identity, Problem("value", text, severity="warning")
        yield from prerequisites.edited({name: name[1] for name in changes})


def parse_line(line: str) -> tuple[str, str] | None:
    """Return the name (with dots) and value of a parameter from a line that sets one; None for any other line.

    ``-`` before a name makes sysctl ignore errors, and is left out.
    """
    name, equals, value = line.strip(" \t").partition("=")
    name = name.strip(" \t").removeprefix("-")
    if not equals or not name or name[0] in "#;":
        return None
    return _dotted(name), _words(value)


def edit(lines: files.Lines, states: Mapping[str, Mapping[str, Any] | None]) -> None:
    """Set the entries of parameters, or remove those with the state None.

    Of repeated entries with a name only the last is changed, as it is the one that counts; a removal concerns all.
    """
    numbers_by_name: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        entry = parse_line(line)
        if entry is not None and entry[0] in states:
            numbers_by_name.setdefault(entry[0], []).append(number)
    removed: list[int] = []
    for name, should in states.items():
        numbers = numbers_by_name.get(name, [])
        if should is None:
            removed += numbers
        elif not numbers:
            lines.append(f"{name} = {should['value']}")
        elif parse_line(lines[numbers[-1]]) != (name, should["value"]):
            lines[numbers[-1]] = f"{name} = {should['value']}"
    lines.delete(removed)


def _edit_file(target: str, states: Mapping[str, Mapping[str, Any] | None], mode: int) -> None:
    """Edit a file; remove it if no line remains, as it then had only the entries that are removed."""
    lines = files.read_lines(target)
    edit(lines, states)  # in memory, to see whether anything remains
    if lines.content or os.path.islink(target) or not os.path.exists(target):  # noqa: PTH110, PTH114 - a text
        files.edit_lines(target, lambda lines: edit(lines, states), mode=mode)
    else:
        with files.Batch() as batch:
            batch.remove(target)


def _row(name: str, target: str, value: str) -> Resource:
    """Return the row of a parameter, with the kernel's value as ``live`` if it has the parameter."""
    row = {"ensure": "present", "name": name, "target": target, "value": value}
    try:
        row["live"] = _read_live(name)
    except FileNotFoundError:
        pass
    except OSError:
        row["live"] = value  # it can only be written: no difference is known
    return row


def _set_live(name: str, value: str) -> None:
    """Set a value in the running kernel, unless it is there already. Raise ``OSError``, also for a refused value."""
    # A parameter that can only be written is written each time.
    with suppress(PermissionError):
        if _is_same(_read_live(name), value):
            return
    fd = os.open(_path(name), os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, f"{value}\n".encode())
    finally:
        os.close(fd)


def _read_live(name: str) -> str:
    """Return the value that the kernel has now."""
    return _words(Path(_path(name)).read_bytes().decode("utf-8", "replace"))


def _is_same(live: str, value: str) -> bool:
    """Return whether the kernel shows a value, perhaps in another spelling: ``0x3`` as 3, ``8080,8081`` as a range."""
    return live == value or list(map(_numbers, live.split())) == list(map(_numbers, value.split()))


def _numbers(word: str) -> Any:
    """Return the numbers in a word as sorted, joined ranges, to compare them: ``80,81`` and ``80-81`` are equal.

    A word with other text is returned unchanged.
    """
    parts = [NUMBERS.fullmatch(part) for part in word.split(",")]
    ranges: list[list[int]] = []
    for low, high in sorted((_number(match[1]), _number(match[2] or match[1])) for match in parts if match):
        if ranges and low <= ranges[-1][1] + 1:
            ranges[-1][1] = max(high, ranges[-1][1])
        else:
            ranges.append([low, high])
    return ranges if all(parts) else word


def _number(text: str) -> int:
    """Return a number as the kernel reads it: decimal, octal after ``0``, hexadecimal after ``0x``."""
    digits = text.lstrip("+-")
    if digits[:2].lower() == "0x":
        return int(text, 16)
    return int(text, 8 if digits[:1] == "0" else 10)


def _path(name: str) -> str:
    """Return the path of a parameter in /proc/sys: the dots and slashes of its name change places."""
    return KERNEL + name.translate(SWAP)


def _dotted(name: str) -> str:
    """Return a name with ``.`` between its parts; the separator is the first one in it (sysctl(8))."""
    first = next((character for character in name if character in "./"), ".")
    return name if first == "." else name.translate(SWAP)


def _words(value: str) -> str:
    """Return a value with one space between its words, as it is compared."""
    return " ".join(value.split())


def _own_files() -> list[str]:
    """Return the paths of the files in ``/etc/sysctl.d``, for a listing; none if the directory is missing."""
    with suppress(FileNotFoundError), os.scandir(OWN) as entries:
        return sorted(entry.path for entry in entries if entry.name.endswith(".conf"))
    return []


def _entries(path: str) -> dict[str, str]:
    """Return the parameters that a file sets, with their values, to warn of later ones; none of an unreadable file."""
    try:
        return dict(filter(None, map(parse_line, files.read_lines(path))))
    except OSError:
        return {}


def _unread(target: str) -> str:
    """Return the reason why a file is not read at boot, or "": its name, or a file that takes its place."""
    directory, _, name = target.rpartition("/")
    if directory not in DIRECTORIES:
        return ""
    if not name.endswith(".conf"):
        return f"{target} is not read when the machine starts: its name does not end with .conf"
    earlier = (f"{other_directory}/{name}" for other_directory in DIRECTORIES[: DIRECTORIES.index(directory)])
    covering = next(filter(os.path.lexists, earlier), "")
    return f"{target} is not read when the machine starts: {covering} takes its place" if covering else ""


def _later_files(target: str) -> list[str]:
    """Return the files read after ``target`` at boot (sysctl.d(5)), whose values override it, the last first.

    Files are read in the order of their names; of several with one name, only that of the first directory is read.
    """
    directory, _, file_name = target.rpartition("/")
    names: dict[str, str] = {}
    for later_directory in DIRECTORIES if directory in DIRECTORIES else ():
        if os.path.isdir(later_directory):  # noqa: PTH112 - a text
            for name in os.listdir(later_directory):  # noqa: PTH208 - as above
                if name.endswith(".conf") and name > file_name:
                    names.setdefault(name, f"{later_directory}/{name}")
    return [names[name] for name in sorted(names, reverse=True)]
