"""Read and edit keys of hosts in files of the format of sshd(8), each file once for all its changes."""

from __future__ import annotations

import hmac
import os
import pwd
import re
import socket
from base64 import b64decode, b64encode
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from lib import file_parts, prerequisites, ssh_files
from resource_api import BaseProvider, Problem, ResourceError, files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from resource_api import Change, Context, Resource

    #: The name of a host, the type of its key, and the marker: a key of one file.
    Key = tuple[str, str, str]
    #: The same in the order of the namevars, with the file.
    Name = tuple[str, str, str, str]

MACHINE = "/etc/ssh/ssh_known_hosts"
LINE = re.compile(
    r"(?:@(?P<marker>cert-authority|revoked)[ \t]+)?(?P<hosts>[^ \t#@][^ \t]*)[ \t]+"
    r"(?P<type>[^ \t]+)[ \t]+(?P<key>[A-Za-z0-9+/]+={0,2})(?P<comment>[ \t].*)?"
)
BRACKETS = re.compile(r"\[([^\]]+)\](?::([0-9]+))?")
USUAL_PORT = "22"
HASHED = "|1|"
SALT = 20  # bytes, as many as of the hash


class Entry(NamedTuple):
    """A line: its names, which may be one hash, and its other fields."""

    hosts: str
    type: str
    key: str
    marker: str
    comment: str


class Provider(BaseProvider):
    """The keys in the files of the machine and of users."""

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Write names in the spelling that ssh looks for, and types in full, so that equal keys are equal."""
        for resource in resources:
            if "name" in resource:
                resource["name"] = canonical_name(resource["name"])
            if resource.get("host_aliases"):
                resource["host_aliases"] = list(dict.fromkeys(map(canonical_name, resource["host_aliases"])))
            if "type" in resource:
                resource["type"] = ssh_files.SHORT.get(resource["type"], resource["type"])
        return resources

    def validate(self, _context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Refuse a key that is not of the declared type, and a hash of several names or of a pattern."""
        yield from ssh_files.problems(should)
        if should.get("hashed") is True:
            if should.get("host_aliases"):
                yield Problem("hashed", "hashed: a line with a hash has one name, so it excludes 'host_aliases'")
            if isinstance(should.get("name"), str) and set(should["name"]) & {"*", "?"}:
                yield Problem("hashed", "hashed: a pattern cannot be hashed")

    def insync(
        self, _context: Context, _name: Name, attribute: str, is_: Mapping[str, Any], should: Mapping[str, Any]
    ) -> tuple[bool, str] | None:
        """Count a declared name in another spelling as different: ssh does not find the key then."""
        if attribute != "ensure" or should["ensure"] != "present":
            return None
        spellings = is_.get("misspelled") or {}
        name = next((name for name in (should["name"], *(should.get("host_aliases") or ())) if name in spellings), None)
        if name is None:
            return None
        return False, f"changed: the file has '{spellings[name]}', and ssh looks for '{name}'"

    def get(self, context: Context, names: Collection[Name] | None = None) -> Iterator[Resource]:
        """Return the keys in ``names``, or all with readable names in the files of the machine and of all users.

        Each file is read once for all its keys. An unknown user has no file, and so no keys.
        """
        usual = [MACHINE, *(f"~{user}/.ssh/known_hosts" for user in ssh_files.users())] if names is None else ()
        keys_by_target: dict[str, set[Key]] = {target: set() for target in usual}
        for name, kind, target, marker in names or ():
            keys_by_target.setdefault(target, set()).add((name, kind, marker))
        for target, keys in keys_by_target.items():
            try:
                lines = files.read_lines(_path(target)[0])
            except KeyError:
                continue
            except OSError as error:
                reason = f"the known hosts in {target} cannot be read: {files.describe_error(error, '')}"
                file_parts.report_unreadable(context, [_name(key, target) for key in keys], reason, names)
                continue
            for key, numbers in _numbers(lines, keys).items():
                rows = [_row(key, target, parse_line(lines[number])) for number in _effective(lines, numbers)]
                yield from _only(context, key, target, rows, names)

    def preflight(self, _context: Context, changes: Mapping[Name, Mapping[str, Any]]) -> Iterator[tuple[Name, Problem]]:
        """Yield the missing prerequisites of a key: the user in whose home its file is, or else its directory.

        Yield also files that cannot be replaced, such as mount points.
        """
        for name in changes:
            if (user := _user(name[2])) is not None:
                yield from ((name, problem) for problem in prerequisites.missing_user("target", user))
        yield from prerequisites.edited({name: name[2] for name in changes if _user(name[2]) is None})
        paths = {}
        for name in changes:
            with suppress(KeyError):  # of a missing user, reported above
                if _user(name[2]) is not None:
                    paths[name] = _path(name[2])[0]
        yield from prerequisites.written_in_place(paths)

    def set(self, _context: Context, changes: Mapping[Name, Change]) -> None:
        """Edit each file once, also after another file failed, and then raise the first failure."""
        file_parts.edit_files(changes, lambda name: (name[2], (name[0], name[1], name[3])), _rewrite)


def edit(lines: files.Lines, states: Mapping[Key, Mapping[str, Any] | None]) -> None:
    """Bring the keys in ``states``, on the lines that ssh finds, to these states; None removes a key.

    A new key is added at the end, its name hashed with a new salt if that is declared.
    """
    numbers_by_key = _numbers(lines, states.keys())
    # A removal concerns all lines of a key; keys of other resources are not in ``states``.
    removed = [number for key, numbers in numbers_by_key.items() if states.get(key, {}) is None for number in numbers]
    for key, should in states.items():
        for number in _effective(lines, numbers_by_key.get(key, ())):
            entry = parse_line(lines[number])
            if should is not None and entry is not None and (line := _format(key, should, entry)):
                lines[number] = line
    lines.delete(removed)
    for key, should in states.items():
        if should is not None and key not in numbers_by_key:
            hosts = hashed(key[0], os.urandom(SALT)) if should.get("hashed") else _joined(key[0], should)
            lines.append(_line(Entry(hosts, key[1], should["key"], key[2], "")))


def parse_line(line: str) -> Entry | None:
    """Return the parts of a line with a host's key, or None for any other line, which ``edit`` leaves unchanged."""
    match = LINE.fullmatch(line.strip(" \t"))
    if match is None or not ssh_files.matches(match["type"], match["key"]):
        return None
    return Entry(match["hosts"], match["type"], match["key"], match["marker"] or "none", match["comment"] or "")


def hashed(name: str, salt: bytes) -> str:
    """Return the text for a host's name in a file from which it cannot be read (``HashKnownHosts``)."""
    digest = hmac.digest(salt, name.encode("utf-8", "surrogateescape"), "sha1")
    return f"{HASHED}{b64encode(salt).decode()}|{b64encode(digest).decode()}"


def _numbers(lines: files.Lines, keys: Collection[Key]) -> dict[Key, list[int]]:
    """Return key → the numbers of its lines.

    A hashed name cannot be read, so it is only compared with the names in ``keys``.
    """
    numbers_by_key: dict[Key, list[int]] = {}
    for number, line in enumerate(lines):
        if (entry := parse_line(line)) is None:
            continue
        names = [canonical_name(files.printable(entry.hosts.split(",")[0]))]
        if entry.hosts.startswith(HASHED):
            of_type = [name for name, kind, marker in keys if (kind, marker) == (entry.type, entry.marker)]
            names = [name for name in of_type if _is_hash(entry.hosts, name)]
        for name in names:
            numbers_by_key.setdefault((name, entry.type, entry.marker), []).append(number)
    return numbers_by_key


def _effective(lines: files.Lines, numbers: Sequence[int]) -> Sequence[int]:
    """Return those of a key's lines that ssh finds, by the spelling of their first name; all if there are none."""
    entries = [(number, parse_line(lines[number])) for number in numbers]
    return [number for number, entry in entries if entry and not _misspelled(entry, count=1)] or numbers


def _misspelled(entry: Entry, count: int | None = None) -> dict[str, str]:
    """Return the names of a line that ssh does not find because of their spelling: canonical name → spelling.

    ``insync`` reports them and ``edit`` corrects them. ``count`` limits the search to the first names of the line.
    """
    spellings = [] if entry.hosts.startswith(HASHED) else files.printable(entry.hosts).split(",")[:count]
    pairs = ((canonical_name(spelling), spelling) for spelling in spellings)
    return {name: spelling for name, spelling in pairs if name != spelling.lower()}


def canonical_name(name: str) -> str:
    """Return the spelling that ssh looks for: lower case, short addresses, brackets only with an unusual port."""
    parts = BRACKETS.fullmatch(name.lower())
    host, port = (parts[1], parts[2] or USUAL_PORT) if parts else (name.lower(), USUAL_PORT)
    if ":" in host:
        address, percent, zone = host.partition("%")
        with suppress(OSError, ValueError):
            host = socket.inet_ntop(socket.AF_INET6, socket.inet_pton(socket.AF_INET6, address)) + percent + zone
    return host if port == USUAL_PORT else f"[{host}]:{port}"


def _is_hash(text: str, name: str) -> bool:
    """Return whether a hashed field of a line stands for a name, which is hashed with the field's salt."""
    try:
        return hashed(name, b64decode(text.split("|")[2], validate=True)) == text
    except (ValueError, IndexError):
        return False


def _format(key: Key, should: Mapping[str, Any], entry: Entry) -> str:
    """Return the line that ``edit`` writes for a present entry, or an empty text if the entry is as declared.

    A hashed name stays so, with its salt, unless the declaration makes it readable. ``misspelled`` names, which ssh
    does not find, are corrected in any case.
    """
    row = _row(key, "", entry)
    compared = row.keys() - {"target", "misspelled"}
    differing = [name for name in compared if should.get(name, row[name]) not in (row[name], None)]
    if not differing and "misspelled" not in row:
        return ""
    is_hashed = row["hashed"] if should.get("hashed") is None else should["hashed"]
    if not is_hashed or should.get("host_aliases"):
        hosts = _joined(key[0], {**row, **should})
    else:
        hosts = entry.hosts if row["hashed"] else hashed(key[0], os.urandom(SALT))
    return _line(entry._replace(hosts=hosts, key=should.get("key", entry.key)))


def _joined(name: str, should: Mapping[str, Any]) -> str:
    """Return the field of a line for a host's name and aliases."""
    return ",".join([name, *(should.get("host_aliases") or [])])


def _line(entry: Entry) -> str:
    """Return the line of an entry."""
    marker = "" if entry.marker == "none" else f"@{entry.marker} "
    return f"{marker}{entry.hosts} {entry.type} {entry.key}{entry.comment}"


def _only(
    context: Context, key: Key, target: str, rows: Sequence[Resource], names: Collection[Name] | None
) -> Iterator[Resource]:
    """Yield the row of a key if all its lines agree; ``rows`` has one for each line, ``names`` are as for ``get``.

    Otherwise the key fails, as it is unclear which line to change. A listing leaves out a name that ssh does not look
    for, with a warning: the manifest could not declare it.
    """
    if any(row != rows[0] for row in rows):
        reason = f"{target} has several keys of '{key[0]}' with the type {key[1]}; remove all but one"
        file_parts.report_unreadable(context, [_name(key, target)], reason, names)
    elif names is None and (spelling := rows[0].get("misspelled", {}).get(key[0])):
        context.warning(f"the key of '{spelling}' in {target} is left out: ssh looks for '{key[0]}'")
    elif (row := context.type.accepted_row(_listed(rows[0]) if names is None else rows[0])) is not None:
        yield row


def _listed(row: Resource) -> Resource:
    """Return a row as a manifest can declare it: without aliases if ssh does not look for one of them."""
    return {key: value for key, value in row.items() if key != "host_aliases"} if "misspelled" in row else row


def _row(key: Key, target: str, entry: Entry | None) -> Resource:
    """Return the row of a host's key with the values of its line, for ``get`` and for the comparison in ``_format``."""
    name, kind, marker = key
    row: Resource = {"ensure": "present", "name": name, "type": kind, "target": target, "marker": marker}
    if entry is not None:
        is_hashed = entry.hosts.startswith(HASHED)
        aliases = [] if is_hashed else [canonical_name(files.printable(alias)) for alias in entry.hosts.split(",")[1:]]
        row |= {"key": entry.key, "hashed": is_hashed, "host_aliases": list(dict.fromkeys(aliases))}
        if spellings := _misspelled(entry):
            row["misspelled"] = spellings
    return row


def _name(key: Key, target: str) -> Name:
    """Return the name of a resource: host, type, file, marker."""
    return (key[0], key[1], target, key[2])


def _user(target: str) -> str | None:
    """Return the user in a target ``~user/...``, or None."""
    return target[1:].partition("/")[0] or None if target.startswith("~") else None


def _path(target: str) -> tuple[str, pwd.struct_passwd | None]:
    """Return the file of a target such as ``~alice/.ssh/known_hosts``, and the user in whose home it is, or None.

    Raise ``KeyError`` for an unknown user.
    """
    user = _user(target)
    if user is None:
        return target, None
    entry = pwd.getpwnam(user)
    return entry.pw_dir.rstrip("/") + target[1 + len(user) :], entry


def _rewrite(target: str, states: Mapping[Key, Mapping[str, Any] | None], mode: int) -> None:
    """Edit a file of known hosts; in a user's home, new files belong to that user, whose ssh must read them."""
    try:
        path, user = _path(target)
    except KeyError:
        raise ResourceError(f"there is no user '{_user(target)}'") from None
    change = partial(edit, states=states)
    if user is None:
        files.edit_lines(path, change, mode=mode)
    else:
        # A removal alone needs no directory.
        ssh_files.edit_in_home(path, change, user, make_directory=any(states.values()))
