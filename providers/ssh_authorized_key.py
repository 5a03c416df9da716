"""Read and edit keys in authorized_keys files, as sshd(8) reads them, each file once for all its changes."""

from __future__ import annotations

import pwd
import re
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lib import file_parts, ssh_key_types
from resource_api import BaseProvider, Problem, ResourceError, files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from resource_api import Change, Context, Resource

    #: The comment of a key, its target and its user.
    Name = tuple[str, str, str]

TARGET = "~/.ssh/authorized_keys"
KEY = re.compile(r"([^ \t]+)[ \t]+([^ \t]+)(?:[ \t]+(.*))?")
OPTIONS = re.compile(r'((?:\\"|"(?:\\"|[^"])*+"|[^ \t"])++)[ \t]+(.*)')
OPTION = re.compile(r'(?:\\"|"(?:\\"|[^"])*+"|[^,"])++')
#: So many keys of one comment are enough to know that it is not unique: a file may have very many.
AMBIGUOUS = 2


class Provider(BaseProvider):
    """The keys with a comment in the authorized_keys files of users."""

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Replace short names of key types by the long ones."""
        for resource in resources:
            if "type" in resource:
                resource["type"] = ssh_key_types.SHORT.get(resource["type"], resource["type"])
        return resources

    def validate(self, _context: Context, should: Mapping[str, Any]) -> list[Problem]:
        """Refuse a key of another type than declared: a key begins with the name of its type (RFC 4253, 6.6)."""
        return list(ssh_key_types.problems(should))

    def get(self, context: Context, names: Collection[Name] | None = None) -> Iterable[Resource]:
        """Return the keys of the files in ``names``, or those of all users; a file that cannot be read fails its keys.

        Keys of one file that share a comment can be neither read nor changed.
        """
        places = _usual_places() if names is None else dict.fromkeys((target, user) for _, target, user in names)
        for target, user in places:
            try:
                keys = _keys(target, user)
            except (OSError, ResourceError) as error:
                wanted = [name for name in names or () if name[1:] == (target, user)]
                why = f"the keys of '{user}' cannot be read: {files.describe_error(error, '')}"
                file_parts.report_unreadable(context, wanted, why, names)
                continue
            for name, rows in keys.items():
                if len(rows) > 1:
                    why = f"several keys of '{user}' have the comment '{name}'; change it so that only one has it"
                    file_parts.report_unreadable(context, [(name, target, user)], why, names)
                elif (row := context.type.accepted_row(rows[0])) is not None:
                    yield row

    def preflight(self, _context: Context, changes: Mapping[Name, Mapping[str, Any]]) -> Iterator[tuple[Name, Problem]]:
        """Yield what is missing for a key: its user."""
        from lib import prerequisites  # noqa: PLC0415 - only for plans with changes

        for name in changes:
            yield from ((name, problem) for problem in prerequisites.missing_user("user", name[2]))
        with suppress(KeyError):
            paths = {name: _path(name[1], pwd.getpwnam(name[2])) for name in changes}
            yield from prerequisites.written_in_place(paths)

    def set(self, _context: Context, changes: Mapping[Name, Change]) -> None:
        """Edit each file once, whatever happens to the others, and then raise the first failure."""
        file_parts.edit_files(changes, lambda name: (name[1:], name[0]), _rewrite)


def edit(lines: files.Lines, wanted: Mapping[str, Mapping[str, Any] | None]) -> None:
    """Change the lines of the keys in ``wanted``, by comment, to the wanted state; None removes a key."""
    removed: list[int] = []
    missing = dict(wanted)
    for number, line in enumerate(lines):
        key = parse_line(line)
        name = files.printable(key["name"]) if key else ""
        if key is None or name not in wanted:
            continue
        missing.pop(name, None)
        should = wanted[name]
        if should is None:
            removed.append(number)
        elif any(should.get(attribute, value) != value for attribute, value in key.items() if attribute != "name"):
            lines[number] = format_line({**key, **should, "name": key["name"]})
    file_parts.remove_lines(lines, removed)
    for name, should in missing.items():
        if should is not None:
            lines.append(format_line({**should, "name": name}))


def parse_line(line: str) -> Resource | None:
    """Return the key of a line; None for every other line, and for a key without a comment."""
    text, options = line.strip(" \t"), ""
    found = KEY.fullmatch(text)
    if (found is None or not ssh_key_types.matches(found[1], found[2])) and (optional := OPTIONS.fullmatch(text)):
        options = optional[1]
        found = KEY.fullmatch(optional[2])
    if found is None or not found[3] or text.startswith("#") or not ssh_key_types.matches(found[1], found[2]):
        return None
    return {"name": found[3], "type": found[1], "key": found[2], "options": OPTION.findall(options)}


def format_line(key: Mapping[str, Any]) -> str:
    """Return the line of a key."""
    options = ",".join(key.get("options") or [])
    return " ".join([*([options] if options else []), key["type"], key["key"], key["name"]])


def _keys(target: str, user: str) -> dict[str, list[Resource]]:
    """Return the different keys by comment in the file that ``target`` means for a user; none for an unknown user.

    Raise ``OSError`` for a file that cannot be read, ``ResourceError`` for one of another user.
    """
    keys: dict[str, list[Resource]] = {}
    try:
        path = _path(target, pwd.getpwnam(user))
    except KeyError:
        return keys
    lines = files.read_lines(path)
    _check_owner(path, target, user)
    for line in lines:
        if key := parse_line(line):
            name, options = files.printable(key["name"]), [files.printable(option) for option in key["options"]]
            row = {"ensure": "present", "target": target, "user": user, **key, "name": name, "options": options}
            found = keys.setdefault(name, [])
            if len(found) < AMBIGUOUS and row not in found:
                found.append(row)
    return keys


def _usual_places() -> Iterable[tuple[str, str]]:
    """Return the default target with each user; of users who share a home only the first."""
    homes: dict[str, str] = {}
    for entry in pwd.getpwall():
        homes.setdefault(_path(TARGET, entry), entry.pw_name)
    return [(TARGET, user) for user in homes.values()]


def _check_owner(path: str, target: str, user: str) -> None:
    """Raise ``ResourceError`` for a target without a user part, which belongs to the file's owner, if that is another.

    A missing file has no owner yet.
    """
    if path != target:
        return
    try:
        owner = Path(path).owner()
    except (FileNotFoundError, NotADirectoryError):
        return
    except KeyError:
        owner = str(Path(path).stat().st_uid)
    if owner != user:
        msg = f"{path} belongs to '{owner}', not to '{user}'"
        raise ResourceError(msg)


def _path(target: str, entry: pwd.struct_passwd) -> str:
    home = entry.pw_dir.rstrip("/")
    return (home + target[1:] if target.startswith("~") else target).replace("%u", entry.pw_name)


def _rewrite(place: tuple[str, str], wanted: Mapping[str, Mapping[str, Any] | None]) -> None:
    target, user = place
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        msg = f"there is no user '{user}'"
        raise ResourceError(msg) from None
    path = _path(target, entry)
    _check_owner(path, target, user)
    if target.startswith("~") and any(wanted.values()):
        with suppress(FileExistsError), files.Batch() as batch:
            batch.make_directory(str(Path(path).parent), mode=0o700, uid=entry.pw_uid, gid=entry.pw_gid)
    files.edit_lines(path, partial(edit, wanted=wanted), mode=0o600, uid=entry.pw_uid, gid=entry.pw_gid)
