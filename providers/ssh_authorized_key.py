"""Read and edit keys in authorized_keys files, as sshd(8) reads them, each file once for all its changes."""

from __future__ import annotations

import pwd
import re
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lib import file_parts, prerequisites, ssh_files
from lib.sensitive import reveal
from resource_api import BaseProvider, Command, CommandError, Problem, ResourceError, Sensitive, files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from resource_api import Change, Context, Resource

    #: The comment of a key, its target, its user and its type.
    Name = tuple[str, str, str, str]
    #: The comment of a key and its type.
    Key = tuple[str, str]

TARGET = "~/.ssh/authorized_keys"
KEY = re.compile(r"([^ \t]+)[ \t]+([^ \t]+)(?:[ \t]+(.*))?")
OPTIONS = re.compile(r'((?:\\"|"(?:\\"|[^"])*+"|[^ \t"])++)[ \t]++(.*)')
OPTION = re.compile(r'(?:\\"|"(?:\\"|[^"])*+"|[^,"])++')
#: The type of an absent key that may have any.
ANY = "any"
#: The most users for whom a plan asks sshd which files it reads.
MOST_USERS = 16
#: The number of keys of one comment and type that shows that it is not unique: a file may have very many.
AMBIGUOUS = 2


class Provider(BaseProvider):
    """The keys with a comment in the authorized_keys files of users."""

    sshd = Command("sshd", read_only=True)

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Write types in full, and names of options in small letters, as in sshd's comparison."""
        for resource in resources:
            if "type" in resource:
                resource["type"] = ssh_files.SHORT.get(resource["type"], resource["type"])
            if resource.get("options") is not None:
                resource["options"] = list(map(_canonical_option, resource["options"]))
        return resources

    def validate(self, _context: Context, should: Mapping[str, Any]) -> list[Problem]:
        """Refuse a key of another type than declared: a key begins with the name of its type (RFC 4253, 6.6).

        The type ``any`` removes all keys with a comment, so it is only for an absent key.
        """
        if should.get("type") != ANY:
            return list(ssh_files.problems(should))
        present = should.get("ensure") != "absent"
        return [Problem("type", "type: is missing; only an absent key needs none")] if present else []

    def insync(
        self, _context: Context, _name: Name, attribute: str, is_: Mapping[str, Any], should: Mapping[str, Any]
    ) -> tuple[bool, str] | None:
        """Count a key as different if another line with it comes first, whose options sshd takes."""
        if attribute == "ensure" and should["ensure"] == "present" and is_.get("overridden_by"):
            return False, f"changed: {is_['overridden_by']} has the same key with other options, and comes first"
        return None

    def get(self, context: Context, names: Collection[Name] | None = None) -> Iterable[Resource]:
        """Return the keys of the files in ``names``, or those of all users; an unreadable file fails its keys.

        Different keys of one file with the same comment and type fail too, as their name is ambiguous. The type
        ``any``, only for a removal, stands for all types of keys with a comment.
        """
        usual = [(TARGET, user) for user in ssh_files.users()] if names is None else ()
        targets = dict.fromkeys(usual if names is None else (name[1:3] for name in names))
        requested = frozenset(names or ())
        for target in targets:
            try:
                keys = _keys(*target)
            except (OSError, ResourceError) as error:
                affected = [name for name in requested if name[1:3] == target]
                reason = f"the keys of '{target[1]}' cannot be read: {files.describe_error(error, '')}"
                file_parts.report_unreadable(context, affected, reason, names)
                continue
            for name in sorted({name for name, _ in keys if (name, *target, ANY) in requested}):
                yield {"ensure": "present", "name": name, "target": target[0], "user": target[1], "type": ANY}
            for (name, kind), rows in keys.items():
                yield from _only(context, (name, *target, kind), rows, names)

    def preflight(self, _context: Context, changes: Mapping[Name, Mapping[str, Any]]) -> Iterator[tuple[Name, Problem]]:
        """Yield the missing prerequisites of a key, such as its user.

        Yield a warning if an earlier line counts in its place, and a problem if sshd does not read the file.
        """
        paths = {}
        for name in changes:
            yield from ((name, problem) for problem in prerequisites.missing_user("user", name[2]))
            with suppress(KeyError):
                paths[name] = _path(name[1], pwd.getpwnam(name[2]))
        for path in dict.fromkeys(paths.values()):
            names = {(name[0], name[3]): name for name in paths if paths[name] == path}
            with suppress(OSError):
                problems = list(_earlier_lines(path, {key: reveal(changes[name]) for key, name in names.items()}))
                yield from ((names[key], problem) for key, problem in problems)
        yield from self._unread(paths)
        # Unlike the directory of another file, ``~/.ssh`` is made if it is missing.
        yield from prerequisites.edited({name: path for name, path in paths.items() if name[1][0] == "/"})
        yield from prerequisites.written_in_place({name: path for name, path in paths.items() if name[1][0] == "~"})

    def _unread(self, paths: Mapping[Name, str]) -> Iterator[tuple[Name, Problem]]:
        """Yield a problem for each key in a user's home whose file sshd does not read for that user.

        At most ``MOST_USERS`` are looked up, as each takes a call of sshd.
        """
        names_by_user: dict[str, list[Name]] = {}
        for name in paths:
            if name[1].startswith("~"):
                names_by_user.setdefault(name[2], []).append(name)
        for user, names in list(names_by_user.items())[:MOST_USERS]:
            read = self._read_by_sshd(pwd.getpwnam(user))
            for name in names:
                if read and paths[name] not in read:
                    message = f"sshd does not read {paths[name]}, but {' and '.join(read)} (AuthorizedKeysFile)"
                    yield name, Problem("target", message, brought_by=prerequisites.BRINGING)

    def _read_by_sshd(self, entry: pwd.struct_passwd) -> list[str]:
        """Return the files that sshd reads for a user (``AuthorizedKeysFile``); none without an answer of sshd."""
        with suppress(CommandError):
            options = f"user={entry.pw_name},host=localhost,addr=127.0.0.1"
            for line in self.sshd.attempt("-T", "-C", options, log="debug").stdout.splitlines():
                name, _, value = line.partition(" ")
                if name == "authorizedkeysfile":
                    return [_absolute(text, entry) for text in value.split()]
        return []

    def set(self, context: Context, changes: Mapping[Name, Change]) -> None:
        """Edit each file once, also after another file failed, and then raise the first failure."""
        file_parts.edit_files(changes, lambda name: (name[1:3], (name[0], name[3])), partial(_rewrite, context))


def edit(lines: files.Lines, states: Mapping[Key, Mapping[str, Any] | None]) -> list[tuple[Key, int, str]]:
    """Change the lines of the keys in ``states``, and put each before a line with the same key and other options.

    sshd takes the options of the first line with a key. Return (key of ``states``, line number, comment) of each line
    under another comment that still allows the login with a removed key, for a warning.
    """
    removed = _change(lines, states)
    for number, first in _overridden(lines):
        if states.get(_identity(_entry(lines[number]) or {})) is not None:
            text = lines[number]
            del lines[number]
            lines.insert(first, text)
    entries = [(number, _entry(line)) for number, line in enumerate(lines, 1)] if removed else []
    logins = [(number, entry["name"], _login(entry)) for number, entry in entries if entry]
    return [(removed[login], number, comment) for number, comment, login in logins if login in removed]


def _change(lines: files.Lines, states: Mapping[Key, Mapping[str, Any] | None]) -> dict[tuple[str, bool], Key]:
    """Change, add or remove the lines of the keys in ``states``; None removes a key.

    Return ``_login`` of each removed line → the key of ``states``, by which ``edit`` looks for other lines with the
    same public key.
    """
    removed: list[int] = []
    logins: dict[tuple[str, bool], Key] = {}
    missing = {key: should for key, should in states.items() if should is not None}
    for number, line in enumerate(lines):
        entry = parse_line(line)
        name = _identity(entry) if entry else ("", "")
        if entry is None or not states.keys() & {name, (name[0], ANY)}:
            continue
        should = states.get(name)
        missing.pop(name, None)
        if should is None:
            removed.append(number)
            logins[_login(entry)] = name if name in states else (name[0], ANY)
        elif any(should.get(attribute, value) != value for attribute, value in _canonical(entry).items()):
            lines[number] = format_line({**entry, **should, "name": entry["name"]})
    lines.delete(removed)
    for name, should in missing.items():
        lines.append(format_line({**should, "name": name[0]}))
    return logins


def parse_line(line: str) -> Resource | None:
    """Return the key of a line, or None for any other line and for a key without a comment."""
    entry = _entry(line)
    return entry if entry is not None and entry["name"] else None


def _entry(line: str) -> Resource | None:
    """Return the key of a line, or None for any other line. Unlike ``parse_line``, accept a key without a comment.

    Such a key has no name, but its options count as well. Options may contain blanks in quotes.
    """
    text, options = line.strip(" \t"), ""
    match = KEY.fullmatch(text)
    if (match is None or not ssh_files.matches(match[1], match[2])) and (with_options := OPTIONS.fullmatch(text)):
        options = with_options[1]
        match = KEY.fullmatch(with_options[2])
    if match is None or text.startswith("#") or not ssh_files.matches(match[1], match[2]):
        return None
    return {"name": match[3] or "", "type": match[1], "key": match[2], "options": OPTION.findall(options)}


def format_line(key: Mapping[str, Any]) -> str:
    """Return a line of authorized_keys: options, if there are any, type, key and comment."""
    options = ",".join(key.get("options") or [])
    return " ".join([*([options] if options else []), key["type"], key["key"], key["name"]])


def _identity(entry: Mapping[str, Any]) -> Key:
    """Return the comment and the type of a line's key, the name of its resource; empty for no key."""
    return files.printable(entry.get("name", "")), entry.get("type", "")


def _canonical(entry: Resource) -> Resource:
    """Return the values of the key of a line that are compared, as they are declared."""
    return {"key": entry["key"], "options": list(map(_canonical_option, entry["options"]))}


def _canonical_option(option: Any) -> Any:
    """Return an option with its name in small letters, as sshd compares it; a secret stays one."""
    if isinstance(option, Sensitive):
        return Sensitive(_canonical_option(option.reveal()))
    name, equals, value = files.printable(option).partition("=")
    return name.lower() + equals + value


def _login(entry: Resource) -> tuple[str, bool]:
    """Return the key of a line, and whether it is a certificate authority's, which allows all keys that it signs."""
    return entry["key"], "cert-authority" in _canonical(entry)["options"]


def _overridden(lines: files.Lines) -> Iterator[tuple[int, int]]:
    """Yield each line whose options do not count: its number, and the number of the first line with its key.

    sshd takes the options of the first one, so ``edit`` moves a declared line, and ``get`` reports it.
    """
    first: dict[tuple[str, bool], tuple[int, list[str]]] = {}
    for number, line in enumerate(lines):
        if (entry := _entry(line)) is not None:
            options = _canonical(entry)["options"]
            first_of_key = first.setdefault(_login(entry), (number, options))
            if first_of_key[1] != options:
                yield number, first_of_key[0]


def _earlier_lines(path: str, states: Mapping[Key, Mapping[str, Any]]) -> Iterator[tuple[Key, Problem]]:
    """Yield a warning for each declared key that an earlier line of the file overrides, with its options."""
    lines = files.read_lines(path)
    _change(lines, states)  # in memory, as the declared line may be new
    for number, first in _overridden(lines):
        key, earlier = (_identity(_entry(lines[index]) or {}) for index in (number, first))
        if key not in states:
            continue
        if earlier in states:
            reason = f"'{earlier[0]}' is declared with the same key and other options, and sshd takes one of them only"
        else:
            reason = f"line {first + 1} of {path} has the same key with other options, and sshd takes the first one"
            reason += "; the declared one is put before it"
        yield key, Problem("options", reason, severity="warning")


def _only(context: Context, name: Name, rows: Sequence[Resource], names: Collection[Name] | None) -> Iterator[Resource]:
    """Yield the row of a key if its comment and type are those of one line; ``names`` are as for ``get``.

    Otherwise the key fails, as it is unclear which line to change. A listing leaves out a key with overridden options,
    with a warning: the manifest would contradict sshd.
    """
    comment, _, user, kind = name
    if len(rows) > 1:
        reason = f"several keys of '{user}' with the type {kind} have the comment '{comment}'; change it"
        file_parts.report_unreadable(context, [name], reason, names)
    elif names is None and (line := rows[0].get("overridden_by")):
        context.warning(f"the key '{comment}' of '{user}' is left out: {line} has it with other options, and counts")
    elif (row := context.type.accepted_row(rows[0])) is not None:
        yield row


def _keys(target: str, user: str) -> dict[Key, list[Resource]]:
    """Return (comment, type) → the keys with these in the file of a target; none for an unknown user.

    A list has at most two keys, as two already make the name ambiguous. Raise ``OSError`` for an unreadable file,
    ``ResourceError`` for the file of another user.
    """
    keys: dict[Key, list[Resource]] = {}
    try:
        path = _path(target, pwd.getpwnam(user))
    except KeyError:
        return keys
    lines = files.read_lines(path)
    _check_owner(path, target, user)
    overridden = dict(_overridden(lines))
    for number, line in enumerate(lines):
        if entry := parse_line(line):
            name, kind = _identity(entry)
            row = {"ensure": "present", "name": name, "target": target, "user": user, "type": kind, **_canonical(entry)}
            rows = keys.setdefault((name, kind), [])
            # A repeated line is one key; ``overridden_by`` of the first one is not compared.
            if len(rows) < AMBIGUOUS and all({**other_row, **row} != other_row for other_row in rows):
                if number in overridden:
                    row["overridden_by"] = f"line {overridden[number] + 1} of {path}"
                rows.append(row)
    return keys


def _check_owner(path: str, target: str, user: str) -> None:
    """Raise ``ResourceError`` if a fixed path, without ``~`` and ``%u``, is the file of another user.

    Such a file has the keys of its owner. A missing file has no owner yet.
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
        raise ResourceError(f"{path} belongs to '{owner}', not to '{user}'")


def _path(target: str, entry: pwd.struct_passwd) -> str:
    """Return the path of a target: ``~`` is the home of a user, ``%u`` the login."""
    home = entry.pw_dir.rstrip("/")
    return (home + target[1:] if target.startswith("~") else target).replace("%u", entry.pw_name)


def _absolute(setting: str, entry: pwd.struct_passwd) -> str:
    """Return the path that a value of ``AuthorizedKeysFile`` means for a user, to compare it with a declared file.

    The value may contain tokens such as ``%h``, and be relative to the home (sshd_config(5)).
    """
    tokens = {"%h": entry.pw_dir, "%u": entry.pw_name, "%U": str(entry.pw_uid), "%%": "%"}
    path = re.sub(r"%.", lambda match: tokens.get(match[0], match[0]), setting)
    return path if path.startswith("/") or path == "none" else f"{entry.pw_dir.rstrip('/')}/{path}"


def _rewrite(
    context: Context, target_and_user: tuple[str, str], states: Mapping[Key, Mapping[str, Any] | None], _mode: int
) -> None:
    """Edit a file of keys, and warn of each removed key that still allows a login by another line.

    A new file is private in any case, so ``_mode`` is not needed.
    """
    target, user = target_and_user
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        raise ResourceError(f"there is no user '{user}'") from None
    path = _path(target, entry)
    _check_owner(path, target, user)
    survivors: list[tuple[Key, int, str]] = []

    def change(lines: files.Lines) -> None:
        survivors[:] = edit(lines, states)

    ssh_files.edit_in_home(path, change, entry, make_directory=target.startswith("~") and any(states.values()))
    for (name, kind), number, comment in survivors:
        more = f" with the comment '{comment}'" if comment else ""
        text = f"line {number} of {path} has the removed key too{more}, and still allows a login"
        context.warning((name, target, user, kind), text)
