"""Read and set access control lists (acl(5)) on open files, so that no link and no rename redirects a right."""

from __future__ import annotations

import os
import stat
import struct
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from lib import file_trees, prerequisites
from lib.named_files import NO_FILE, read_each, reported
from lib.sensitive import refused_secrets
from resource_api import BaseProvider, Problem, ResourceError, files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from os import stat_result

    from resource_api import Change, Context, Resource

ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
#: Kinds of entries (linux/posix_acl.h).
USER_OBJ, USER, GROUP_OBJ, GROUP, MASK, OTHER = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20
#: The number in entries that are not for a named user or group.
UNNAMED = 0xFFFFFFFF
#: The kinds of entries that have a name, and those that the mask limits.
NAMED = frozenset({USER, GROUP})
LIMITED = frozenset({USER, GROUP_OBJ, GROUP})
MASK_KEY, GROUP_KEY = (MASK, UNNAMED), (GROUP_OBJ, UNNAMED)
#: The entries that are the digits of a mode.
OF_MODE = ((USER_OBJ, UNNAMED), GROUP_KEY, (OTHER, UNNAMED))
KINDS = {"user": (USER_OBJ, USER), "group": (GROUP_OBJ, GROUP), "mask": (MASK, MASK), "other": (OTHER, OTHER)}
WORDS = {tag: word for word, tags in KINDS.items() for tag in tags}
RIGHTS = {"r": 4, "w": 2, "x": 1, "X": 1}
VERSION, ENTRY = struct.Struct("<I"), struct.Struct("<HHI")

#: A list: (kind, number) → rights as in a mode.
Acl = dict[tuple[int, int], int]
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class Provider(BaseProvider):
    """The access control lists of the files of the local machine."""

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Write entries in full and in the order of getfacl(1), and clean paths, so that equal lists are equal."""
        for resource in resources:
            resource["path"] = files.canonical_path(resource["path"])
            if resource.get("permission") is not None:
                entries = sorted(map(parse, resource["permission"]), key=lambda entry: entry.order)
                resource["permission"] = list(map(str, entries))
        return resources

    def validate(self, _context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Refuse repeated entries, entries that the file's mode already contains, and a list that has no others."""
        yield from refused_secrets(should)
        declared = should.get("permission")
        is_complete = isinstance(declared, list) and all(isinstance(entry, str) for entry in declared)
        if should.get("ensure") != "absent" and declared and is_complete:
            yield from (Problem("permission", text) for text in problems(declared))

    def insync(
        self, _context: Context, name: str, attribute: str, _is: Mapping[str, Any], should: Mapping[str, Any]
    ) -> bool | tuple[bool, str] | None:
        """Compare the lists of the file itself for ``permission``, and those of all files below it for ``recursive``.

        Entries are compared by the numbers of users and groups, as the kernel stores these. The mask of a list may deny
        a right of an entry: the message of a difference then contains the mask.
        """
        if attribute == "ensure":
            return None
        try:
            declared = resolve(should["permission"])
        except ResourceError:
            # A user or group does not exist yet, so the list differs: ``permission`` alone reports it.
            return attribute != "permission"
        # The first member is the file itself, which ``recursive`` leaves to ``permission``.
        members = [""] if attribute == "permission" else list(_members(name, should))[1:]
        with files.Directories() as directories:
            paths = {member: file_trees.member_path(name, member) for member in members}
            differing = [member for member in members if _differs(directories, paths[member], should, declared)]
            if not differing:
                return True
            access, _ = read(*files.stat_attributes(directories, name))
        if attribute == "recursive":
            return False, f"differs in {file_trees.listed(differing)}"
        mask = hiding_mask(access, declared)
        return (False, f"is limited by the mask {mask}, the group's digit of the mode") if mask else False

    def get(self, context: Context, names: Collection[str] | None = None) -> Iterator[Resource]:
        """Return the lists of the files in ``names``; a file with only a mode has none, and no row."""
        unlisted = "any file can have an access control list; name it"
        for path, status_and_attributes in read_each(context, names, unlisted, files.stat_attributes, NO_FILE):
            access, default = read(*status_and_attributes)
            if default or MASK_KEY in access:  # they say more than a mode
                yield {"ensure": "present", "path": path, "permission": as_text(access, default)}

    def preflight(self, _context: Context, changes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Problem]]:
        """Yield the missing prerequisites of an access control list: the file, and the users and groups in it."""
        for path, should in changes.items():
            entries = [] if should["ensure"] == "absent" else map(parse, should.get("permission", ()))
            for entry in entries:
                find = prerequisites.missing_user if entry.word == "user" else prerequisites.missing_group
                yield from ((path, problem) for problem in find("permission", entry.name or None))
            yield from ((path, problem) for problem in prerequisites.missing_file("path", path))

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Change the lists of one file or tree after another; a tree in an order in which no file can be exchanged."""
        for path, (_, should) in changes.items():
            with reported(context, path), files.Batch() as batch:
                declared = [] if should["ensure"] == "absent" else resolve(should["permission"])
                change = partial(_change, should=should, declared=declared)
                for member in _ordered(_members(path, should)):
                    batch.edit_attributes(file_trees.member_path(path, member), change)


def _members(path: str, should: Mapping[str, Any]) -> dict[str, int]:
    """Return the paths of the files that get the list, each with its mode if it is a directory, or else 0.

    Paths are relative to ``path``, whose own is "". Links are left out, as they have no list; ``_ordered`` sorts by the
    modes.
    """
    if not should.get("recursive") or not os.path.isdir(path):  # noqa: PTH112 - a text
        return {"": 0}
    members = file_trees.read_tree(path, file_trees.ignored(None), should["max_files"]).members.items()
    return {name: member.mode if member.kind == "directory" else 0 for name, member in members if member.kind != "link"}


def _ordered(members: dict[str, int]) -> list[str]:
    """Return the members in the order of changes, so that other users cannot exchange files meanwhile.

    A directory that others can write to comes before its members, as the new list may forbid that; any other comes
    after them, as the new list may allow it.
    """
    writable = [name for name, mode in members.items() if mode & OTHERS_WRITE]
    return writable + [name for name, mode in reversed(members.items()) if not mode & OTHERS_WRITE]


def _differs(directories: files.Directories, path: str, should: Mapping[str, Any], declared: list[Declared]) -> bool:
    """Return whether ``set`` would change the lists of a file. Raise ``OSError``."""
    status, attributes = files.stat_attributes(directories, path)
    return bool(_change(status, attributes, should=should, declared=declared))


def _change(
    status: stat_result, attributes: Mapping[str, bytes], *, should: Mapping[str, Any], declared: list[Declared]
) -> dict[str, bytes | None]:
    """Return the new extended attributes for the lists of a file; empty if the lists are as declared.

    A value of None removes the attribute. Raise ``ResourceError`` for default entries of a file that is no directory,
    unless ``recursive`` declares a tree, whose directories alone get them.
    """
    if should["ensure"] == "absent":
        new = without(status, attributes)
    elif any(entry.default for entry in declared) and not stat.S_ISDIR(status.st_mode) and not should.get("recursive"):
        raise ResourceError("is not a directory, so it has no default entries")
    else:
        inclusive = should.get("membership") != "minimum"
        new = expected(status, attributes, declared, inclusive=inclusive)
    if new == read(status, attributes):
        return {}
    access, default = new
    return {ACCESS: _encode(access), DEFAULT: _encode(default) if default else None}


class Entry(NamedTuple):
    """An entry as text: ``rights`` has three characters, the last of which may be ``X``."""

    default: bool
    word: str
    name: str
    rights: str

    def __str__(self) -> str:
        """Return it as getfacl(1) shows it."""
        return f"{'default:' * self.default}{self.word}:{self.name}:{self.rights}"

    @property
    def order(self) -> tuple[bool, int, str]:
        """Return the sort key of an entry in a list, as getfacl(1) sorts."""
        return self.default, list(KINDS).index(self.word), self.name


class Declared(NamedTuple):
    """A declared entry with the number of its user or group; ``conditional`` is a right to execute of ``X``."""

    default: bool
    key: tuple[int, int]
    bits: int
    conditional: bool


def parse(text: str) -> Entry:
    """Return the entry of a text that the data type accepts, with a whole word: ``u:alice:6`` is ``user:alice:rw-``."""
    *first, word, name, rights = text.split(":")
    full = next(kind for kind in KINDS if kind.startswith(word))
    if rights.isdigit():
        rights = "".join(letter for letter in "rwx" if RIGHTS[letter] & int(rights))
    last = next((letter for letter in "xX" if letter in rights), "-")
    number = files.owner_number(name)
    rights = "".join(letter if letter in rights else "-" for letter in "rw") + last
    return Entry(bool(first), full, name if number is None else str(number), rights)


def resolve(permission: Iterable[str]) -> list[Declared]:
    """Return declared entries with the numbers of users and groups, by which the kernel stores them.

    Raise ``ResourceError`` for an unknown user or group.
    """
    declared = []
    for entry in map(parse, permission):
        unnamed, with_name = KINDS[entry.word]
        find = files.user_id if entry.word == "user" else files.group_id
        key = (with_name, find(entry.name)) if entry.name else (unnamed, UNNAMED)
        bits = sum(RIGHTS[letter] for letter in entry.rights if letter in RIGHTS)
        declared.append(Declared(entry.default, key, bits, entry.rights.endswith("X")))
    return declared


def read(status: stat_result, attributes: Mapping[str, bytes]) -> tuple[Acl, Acl]:
    """Return the access list and the default list of a file, to compare and change.

    A file without an access list has the three entries of its mode, as the kernel treats it.
    """
    of_mode = {key: status.st_mode >> shift & 7 for key, shift in zip(OF_MODE, (6, 3, 0), strict=True)}
    access = attributes.get(ACCESS)
    return of_mode if access is None else _decode(access), _decode(attributes.get(DEFAULT, b""))


def as_text(access: Acl, default: Acl) -> list[str]:
    """Return the entries as text, for ``get``; those of owner and others are left out, as they are in the mode."""
    entries = [_entry(key, bits, default=False) for key, bits in access.items() if key[0] not in {USER_OBJ, OTHER}]
    entries += [_entry(key, bits, default=True) for key, bits in default.items()]
    return [str(entry) for entry in sorted(entries, key=lambda entry: entry.order)]


def expected(
    status: stat_result, attributes: Mapping[str, bytes], declared: Iterable[Declared], *, inclusive: bool
) -> tuple[Acl, Acl]:
    """Return the access list and the default list that a file gets; new files in a directory inherit the default list.

    The present lists come from ``status`` and ``attributes``. ``inclusive`` removes undeclared entries of users and
    groups. ``X`` grants execution only for a directory or a file that somebody may execute already.
    """
    access, default = read(status, attributes)
    directory = stat.S_ISDIR(status.st_mode)
    executable = directory or any(access[key] & 1 for key in OF_MODE)
    access_entries: Acl = {}
    inherited: Acl = {}
    for entry in declared:
        if directory or not entry.default:
            bits = entry.bits & ~1 if entry.conditional and not executable else entry.bits
            (inherited if entry.default else access_entries)[entry.key] = bits
    new_access = _combined(access, access_entries, inclusive=inclusive)
    if not inherited and (inclusive or not default):
        return new_access, {}
    # A default list needs the three entries of a mode too.
    present_default = default or {key: new_access[key] for key in OF_MODE}
    return new_access, _combined(present_default, inherited, inclusive=inclusive)


def without(status: stat_result, attributes: Mapping[str, bytes]) -> tuple[Acl, Acl]:
    """Return the lists after a removal: only a mode, whose group gets no more rights than the mask has left."""
    return _combined(read(status, attributes)[0], {}, inclusive=True), {}


def hiding_mask(access: Acl, declared: Iterable[Declared]) -> str:
    """Return the mask of a list if it denies rights that are declared, for the message of a difference; else ""."""
    mask = access.get(MASK_KEY, 7)
    limited = [entry for entry in declared if not entry.default and entry.key[0] in LIMITED]
    return rights(mask) if any(entry.bits & ~mask for entry in limited) else ""


def rights(bits: int) -> str:
    """Return rights as three characters."""
    return "".join(letter if RIGHTS[letter] & bits else "-" for letter in "rwx")


def _combined(present: Acl, declared: Acl, *, inclusive: bool) -> Acl:
    """Return a list of the declared entries and the remaining present ones, with a mask that grants declared rights.

    A list with named entries needs a mask, which limits these and the group. An undeclared mask stays as long as it
    grants the declared rights. If it must grant more, undeclared entries keep their effective rights.
    """
    new = {key: bits for key, bits in present.items() if key[0] not in NAMED or not inclusive} | declared
    if MASK_KEY in declared:
        return new
    # A list without a mask has no named entries either: its group has the rights that a mask would grant.
    present_mask = present.get(MASK_KEY, present[GROUP_KEY])
    needed = 0
    for key, bits in declared.items():
        needed |= bits if key[0] in LIMITED else 0
    new.pop(MASK_KEY, None)
    has_named = any(key[0] in NAMED for key in new)
    # The mask grows or goes: without this, the remaining entries would get rights that it has denied.
    if needed & ~present_mask or not has_named:
        for key in new.keys() - declared.keys():
            if key[0] in LIMITED:
                new[key] &= present_mask
    return new | {MASK_KEY: present_mask | needed} if has_named else new


def _decode(data: bytes) -> Acl:
    """Return the list in the value of an extended attribute (linux/posix_acl_xattr.h)."""
    return {(tag, number): bits for tag, bits, number in ENTRY.iter_unpack(data[VERSION.size :])}


def _encode(acl: Acl) -> bytes:
    """Return a list as the value of an extended attribute: a version, then the entries in their order."""
    return VERSION.pack(2) + b"".join(ENTRY.pack(tag, acl[tag, number], number) for tag, number in sorted(acl))


def _entry(key: tuple[int, int], bits: int, *, default: bool) -> Entry:
    """Return an entry of the kernel's list, which has numbers, with the name of its user or group, for ``as_text``."""
    tag, number = key
    find = {USER: files.user_name, GROUP: files.group_name}.get(tag)
    name = "" if find is None else find(number)
    return Entry(default, WORDS[tag], name, rights(bits))


def problems(permission: Iterable[str]) -> Iterator[str]:
    """Yield the mistakes in declared entries, for ``validate``, which does not look up users and groups yet."""
    entries = list(map(parse, permission))
    keys = set()
    for entry in entries:
        key = entry._replace(rights="")
        if not entry.default and not entry.name and entry.word in {"user", "other"}:
            yield f"'{entry}' is in the mode of the file: declare it as 'mode' of the type file"
        elif key in keys:
            yield f"there is more than one entry for '{str(key).rstrip(':')}'"
        keys.add(key)
        if entry.name.isdecimal() and files.owner_number(entry.name) is None:
            yield f"'{entry.name}' is no number of a user or group"
    if not any(entry.default or entry.name or entry.word == "mask" for entry in entries):
        yield "needs an entry for a named user or group, or one for new files; the rest is the mode of the file"
