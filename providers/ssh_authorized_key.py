"""Read and edit keys in authorized_keys files, as sshd(8) reads them, each file once for all its changes."""

from __future__ import annotations

import pwd
import re
from base64 import b64encode
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resource_api import BaseProvider, Problem, ResourceError, files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from resource_api import Change, Context, Resource

    Name = tuple[str, str]

TARGET = "~/.ssh/authorized_keys"
#: Short names of key types.
SHORT = {
    "rsa": "ssh-rsa",
    "dsa": "ssh-dss",
    "ed25519": "ssh-ed25519",
    "ed25519-sk": "sk-ssh-ed25519@openssh.com",
    "ecdsa-sk": "sk-ecdsa-sha2-nistp256@openssh.com",
}
KEY = re.compile(r"([^ \t]+)[ \t]+([^ \t]+)(?:[ \t]+(.*))?")
OPTIONS = re.compile(r'((?:\\"|"(?:\\"|[^"])*+"|[^ \t"])++)[ \t]+(.*)')
OPTION = re.compile(r'(?:\\"|"(?:\\"|[^"])*+"|[^,"])++')


class Provider(BaseProvider):
    """The keys with a comment in the authorized_keys files of users."""

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Replace short names of key types by the long ones."""
        for resource in resources:
            if "type" in resource:
                resource["type"] = SHORT.get(resource["type"], resource["type"])
        return resources

    def validate(self, _context: Context, should: Mapping[str, Any]) -> list[Problem]:
        """Refuse a key of another type than declared: a key begins with the name of its type (RFC 4253, 6.6)."""
        kind, key = should.get("type"), should.get("key")
        if type(kind) is str and type(key) is str and not _matches(kind, key):
            return [Problem("key", f"key: not of type {kind}, or truncated")]
        return []

    def get(self, context: Context, names: Collection[Name] | None = None) -> Iterable[Resource]:
        """Return the keys of all users; keys that share a comment can be neither read nor changed."""
        targets = {TARGET} if names is None else {target for _, target in names}
        for target in sorted(targets):
            keys: dict[str, list[Resource]] = {}
            for row in _keys(context, target):
                found = keys.setdefault(row["name"], [])
                if row not in found and all(context.type.accepts[key](value) for key, value in row.items()):
                    found.append(row)
            for name, rows in keys.items():
                if len(rows) == 1:
                    yield rows[0]
                elif rows:
                    _report_ambiguous(context, (name, target), rows, names)

    def set(self, _context: Context, changes: Mapping[Name, Change]) -> None:
        """Edit each file once."""
        rewrites: dict[tuple[str, str], dict[str, Mapping[str, Any] | None]] = {}
        for (name, target), (is_, should) in changes.items():
            before = is_ or {}
            former, user = before.get("user"), should.get("user", before.get("user"))
            absent = should.get("ensure") == "absent"
            if former and (absent or former != user):
                rewrites.setdefault((target, former), {})[name] = None
            if not absent:
                rewrites.setdefault((target, user), {})[name] = should if former == user else {**before, **should}
        for (target, user), wanted in rewrites.items():
            _rewrite(target, user, wanted)


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
    for number in reversed(removed):
        del lines[number]
    for name, should in missing.items():
        if should is not None:
            lines.append(format_line({**should, "name": name}))


def parse_line(line: str) -> Resource | None:
    """Return the key of a line; None for every other line, and for a key without a comment."""
    text, options = line.strip(" \t"), ""
    found = KEY.fullmatch(text)
    if (found is None or not _matches(found[1], found[2])) and (optional := OPTIONS.fullmatch(text)):
        options = optional[1]
        found = KEY.fullmatch(optional[2])
    if found is None or not found[3] or text.startswith("#") or not _matches(found[1], found[2]):
        return None
    return {"name": found[3], "type": found[1], "key": found[2], "options": OPTION.findall(options)}


def format_line(key: Mapping[str, Any]) -> str:
    """Return the line of a key."""
    options = ",".join(key.get("options") or [])
    return " ".join([*([options] if options else []), key["type"], key["key"], key["name"]])


def _matches(kind: str, key: str) -> bool:
    """Whether the key begins with the name of its type; compares the Base64 letters that encode only the name."""
    name = kind.encode("utf-8", "surrogateescape")
    head = len(name).to_bytes(4, "big") + name
    letters = len(head) * 8 // 6
    return len(key) > letters and key.startswith(b64encode(head)[:letters].decode())


def _keys(context: Context, target: str) -> Iterator[Resource]:
    """Yield a row for each key in the files that ``target`` means; a file that cannot be read is skipped."""
    for user, path in _targets(target):
        try:
            lines = files.read_lines(path)
        except PermissionError:
            context.debug(f"{path} is skipped: no permission to read it")
            continue
        except OSError as error:
            context.warning(f"{path} is skipped: {error}")
            continue
        for line in lines:
            if key := parse_line(line):
                key["options"] = [files.printable(option) for option in key["options"]]
                yield {"ensure": "present", "user": user, "target": target, **key, "name": files.printable(key["name"])}


def _targets(target: str) -> Iterable[tuple[str, str]]:
    """Return the users and files that ``target`` means; a path without a user part belongs to the file's owner."""
    if target.startswith("~") or "%u" in target:
        found: dict[str, str] = {}
        for entry in pwd.getpwall():
            found.setdefault(_path(target, entry), entry.pw_name)
        return [(user, path) for path, user in found.items()]
    try:
        return [(Path(target).owner(), target)]
    except (OSError, KeyError):
        return []


def _path(target: str, entry: pwd.struct_passwd) -> str:
    home = entry.pw_dir.rstrip("/")
    return (home + target[1:] if target.startswith("~") else target).replace("%u", entry.pw_name)


def _rewrite(target: str, user: str, wanted: Mapping[str, Mapping[str, Any] | None]) -> None:
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        msg = f"there is no user '{user}'"
        raise ResourceError(msg) from None
    path = _path(target, entry)
    owners = [owner for owner, _ in _targets(target)] if path == target else [user]
    if owners and user not in owners:
        msg = f"{path} belongs to '{owners[0]}', not to '{user}'"
        raise ResourceError(msg)
    if target.startswith("~") and any(wanted.values()):
        with suppress(FileExistsError), files.Batch() as batch:
            batch.make_directory(str(Path(path).parent), mode=0o700, uid=entry.pw_uid, gid=entry.pw_gid)
    files.edit_lines(path, partial(edit, wanted=wanted), mode=0o600, uid=entry.pw_uid, gid=entry.pw_gid)


def _report_ambiguous(context: Context, name: Name, rows: Collection[Resource], names: Collection[Name] | None) -> None:
    """Report a comment that several keys or users share: as a failure of its resource, or as a warning in a list."""
    users = " and ".join(sorted({row["user"] for row in rows}))
    why = f"{len(rows)} keys, of {users}, have the comment '{name[0]}'; change it so that only one has it"
    if names is None:
        context.warning(why)
    elif name in names:
        context.failed([name], message=why)
