"""Keys in authorized_keys files, read as sshd(8) reads them: one rewrite of a file for all that changes in it."""

from __future__ import annotations

import pwd
import re
from base64 import b64encode
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resource_api import BaseProvider, Problem, ResourceError
from resource_api.system.filesystem import files
from resource_api.system.filesystem import line_editor as lines

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from resource_api import Change, Context, Resource
    from resource_api.system.filesystem.line_editor import Lines

    Name = tuple[str, str]

_TARGET = "~/.ssh/authorized_keys"
_SHORT = {
    "rsa": "ssh-rsa",
    "dsa": "ssh-dss",
    "ed25519": "ssh-ed25519",
    "ed25519-sk": "sk-ssh-ed25519@openssh.com",
    "ecdsa-sk": "sk-ecdsa-sha2-nistp256@openssh.com",
}
_KEY = re.compile(r"([^ \t]+)[ \t]+([^ \t]+)(?:[ \t]+(.*))?")
_OPTIONS = re.compile(r'((?:\\"|"(?:\\"|[^"])*+"|[^ \t"])++)[ \t]+(.*)')
_OPTION = re.compile(r'(?:\\"|"(?:\\"|[^"])*+"|[^,"])++')


class Provider(BaseProvider):
    """Reads and edits the keys that have a comment."""

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Give kinds of keys their long names."""
        for resource in resources:
            if "type" in resource:
                resource["type"] = _SHORT.get(resource["type"], resource["type"])
        return resources

    def validate(self, _context: Context, should: Mapping[str, Any]) -> list[Problem]:
        """Refuse a key that is not of its type; it holds the type's name itself (RFC 4253, 6.6)."""
        kind, key = should.get("type"), should.get("key")
        if type(kind) is str and type(key) is str and not _matches(kind, key):
            return [Problem("key", f"key: not one of the type {kind}, or it is cut off")]
        return []

    def get(self, context: Context, names: Collection[Name] | None = None) -> Iterable[Resource]:
        """Give the keys of all users; one comment for several keys or users can be neither read nor changed."""
        targets = {_TARGET} if names is None else {target for _, target in names}
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
                    _complain(context, (name, target), rows, names)

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


def edit(file: Lines, wanted: Mapping[str, Mapping[str, Any] | None]) -> None:
    """Bring the keys in ``wanted``, by comment, to what they should be; None: to absence."""
    gone: list[int] = []
    missing = dict(wanted)
    for number, line in enumerate(file):
        key = parse(line)
        name = lines.shown(key["name"]) if key else ""
        if key is None or name not in wanted:
            continue
        missing.pop(name, None)
        should = wanted[name]
        if should is None:
            gone.append(number)
        elif any(should.get(attribute, value) != value for attribute, value in key.items() if attribute != "name"):
            file[number] = spell({**key, **should, "name": key["name"]})
    for number in reversed(gone):
        del file[number]
    for name, should in missing.items():
        if should is not None:
            file.append(spell({**should, "name": name}))


def parse(line: str) -> Resource | None:
    """Give the key of a line; None for every other line, and for a key without a comment."""
    text, options = line.strip(" \t"), ""
    found = _KEY.fullmatch(text)
    if (found is None or not _matches(found[1], found[2])) and (optional := _OPTIONS.fullmatch(text)):
        options = optional[1]
        found = _KEY.fullmatch(optional[2])
    if found is None or not found[3] or text.startswith("#") or not _matches(found[1], found[2]):
        return None
    return {"name": found[3], "type": found[1], "key": found[2], "options": _OPTION.findall(options)}


def spell(key: Mapping[str, Any]) -> str:
    """Give the line of a key."""
    options = ",".join(key.get("options") or [])
    return " ".join([*([options] if options else []), key["type"], key["key"], key["name"]])


def _matches(kind: str, key: str) -> bool:
    """Whether the key begins with the name of its kind; as many letters are compared as depend on nothing else."""
    name = kind.encode("utf-8", "surrogateescape")
    head = len(name).to_bytes(4, "big") + name
    letters = len(head) * 8 // 6
    return len(key) > letters and key.startswith(b64encode(head)[:letters].decode())


def _keys(context: Context, target: str) -> Iterator[Resource]:
    """Give a row for each key in the files that ``target`` stands for; a file that cannot be read is passed over."""
    for user, path in _places(target):
        try:
            file = lines.read(path)
        except PermissionError:
            context.debug(f"{path} is passed over: it cannot be read by us")
            continue
        except OSError as error:
            context.warning(f"{path} is passed over: {error}")
            continue
        for line in file:
            if key := parse(line):
                key["options"] = [lines.shown(option) for option in key["options"]]
                yield {"ensure": "present", "user": user, "target": target, **key, "name": lines.shown(key["name"])}


def _places(target: str) -> Iterable[tuple[str, str]]:
    """Give the users and files that ``target`` stands for; a file that is nobody's own is its owner's."""
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
    owners = [owner for owner, _ in _places(target)] if path == target else [user]
    if owners and user not in owners:
        msg = f"{path} is the file of '{owners[0]}', not of '{user}'"
        raise ResourceError(msg)
    if target.startswith("~") and any(wanted.values()):
        with suppress(FileExistsError), files.Batch() as batch:
            batch.make_directory(str(Path(path).parent), mode=0o700, uid=entry.pw_uid, gid=entry.pw_gid)
    lines.edit(path, partial(edit, wanted=wanted), mode=0o600, uid=entry.pw_uid, gid=entry.pw_gid)


def _complain(context: Context, name: Name, rows: Collection[Resource], names: Collection[Name] | None) -> None:
    """Tell of a comment that stands for several keys or users, where it matters."""
    users = " and ".join(sorted({row["user"] for row in rows}))
    why = f"the comment '{name[0]}' stands for {len(rows)} keys, of {users}; change it until it stands for one"
    if names is None:
        context.warning(why)
    elif name in names:
        context.failed([name], message=why)
