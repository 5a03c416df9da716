"""Read and set access control lists on open files, so that no link and no rename redirects a right."""

from __future__ import annotations

import os
import stat
from functools import partial
from typing import TYPE_CHECKING, Any

from lib import file_trees, posix_acl, prerequisites
from lib.named_files import NO_FILE, read_each
from resource_api import BaseProvider, Problem, ResourceError, files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from os import stat_result

    from lib.posix_acl import Declared
    from resource_api import Change, Context, Resource

OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class Provider(BaseProvider):
    """The access control lists of the files of the local machine."""

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Write entries in full and in the order of getfacl(1); remove needless slashes and dots from paths."""
        for resource in resources:
            resource["path"] = files.canonical_path(resource["path"])
            if resource.get("permission") is not None:
                entries = sorted(map(posix_acl.parse, resource["permission"]), key=lambda entry: entry.order)
                resource["permission"] = list(map(str, entries))
        return resources

    def validate(self, _context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Refuse entries that are part of the mode, or declared twice, and a declaration without any other."""
        if should.get("ensure") != "absent" and should.get("permission"):
            yield from (Problem("permission", text) for text in posix_acl.problems(should["permission"]))

    def insync(
        self, _context: Context, name: str, attribute: str, _is: Mapping[str, Any], should: Mapping[str, Any]
    ) -> bool | tuple[bool, str] | None:
        """Compare entries by the numbers of users and groups; with ``recursive``, of all members of a directory."""
        if attribute == "ensure":
            return None
        try:
            declared = posix_acl.resolve(should["permission"])
        except ResourceError:
            return attribute != "permission"  # a user or group that does not exist yet
        members = [""] if attribute == "permission" else list(_members(name, should))[1:]
        with files.Directories() as directories:
            differing = [member for member in members if _differs(directories, _at(name, member), should, declared)]
            if not differing:
                return True
            access, _ = posix_acl.read(*files.stat_attributes(directories, name))
        if attribute == "recursive":
            return False, f"differs in {file_trees.listed(differing)}"
        mask = posix_acl.hiding_mask(access, declared)
        return (False, f"is limited by the mask {mask}, the group's digit of the mode") if mask else False

    def get(self, context: Context, names: Collection[str] | None = None) -> Iterator[Resource]:
        """Read the lists of the files in ``names``; a file without one has none."""
        unlisted = "any file can have an access control list; name it"
        for path, status_and_attributes in read_each(context, names, unlisted, files.stat_attributes, NO_FILE):
            access, default = posix_acl.read(*status_and_attributes)
            if posix_acl.is_extended(access, default):
                yield {"ensure": "present", "path": path, "permission": posix_acl.as_text(access, default)}

    def preflight(self, _context: Context, changes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Problem]]:
        """Yield the missing prerequisites of a list: the file, the users and groups."""
        for path, should in changes.items():
            entries = [] if should["ensure"] == "absent" else map(posix_acl.parse, should["permission"])
            for entry in entries:
                find = prerequisites.missing_user if entry.word == "user" else prerequisites.missing_group
                yield from ((path, problem) for problem in find("permission", entry.name or None))
            yield from ((path, problem) for problem in prerequisites.missing_file("path", path))

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Change the lists of one file or tree after another."""
        for path, (_, should) in changes.items():
            try:
                declared = [] if should["ensure"] == "absent" else posix_acl.resolve(should["permission"])
                with files.Batch() as batch:
                    for member in _ordered(_members(path, should)):
                        batch.edit_attributes(_at(path, member), partial(_change, should=should, declared=declared))
            except (OSError, ResourceError) as error:
                context.failed(path, message=files.describe_error(error, path))


def _members(path: str, should: Mapping[str, Any]) -> dict[str, int]:
    """Return the members that get a list, by their path within ``path``, each directory first; the empty one is itself.

    The value is the mode of a directory, otherwise 0. Raise ``OSError``.
    """
    if not should.get("recursive") or not os.path.isdir(path):  # noqa: PTH112 - a text
        return {"": 0}
    tree = file_trees.read_tree(path, file_trees.ignored(None), should["max_files"])
    return {
        name: member.mode if member.kind == "directory" else 0
        for name, member in tree.members.items()
        if member.kind != "link"
    }


def _ordered(members: dict[str, int]) -> list[str]:
    """Return members in an order in which no other user can write to a directory while its members are changed.

    Directories that others can write to come first, as they may lose that; the rest after their members.
    """
    writable = [name for name, mode in members.items() if mode & OTHERS_WRITE]
    return writable + [name for name, mode in reversed(members.items()) if not mode & OTHERS_WRITE]


def _differs(directories: files.Directories, path: str, should: Mapping[str, Any], declared: list[Declared]) -> bool:
    status, attributes = files.stat_attributes(directories, path)
    return bool(_change(status, attributes, should=should, declared=declared))


def _change(
    status: stat_result, attributes: Mapping[str, bytes], *, should: Mapping[str, Any], declared: list[Declared]
) -> dict[str, bytes | None]:
    """Return the attributes that a file must get, None for a removal; an empty mapping if it is as declared."""
    if should["ensure"] == "absent":
        new = posix_acl.without(status, attributes)
    elif any(entry.default for entry in declared) and not stat.S_ISDIR(status.st_mode) and not should.get("recursive"):
        msg = "is not a directory, so it has no default entries"
        raise ResourceError(msg)
    else:
        inclusive = should.get("membership") != "minimum"
        new = posix_acl.expected(status, attributes, declared, inclusive=inclusive)
    return {} if new == posix_acl.read(status, attributes) else posix_acl.encoded(*new)


def _at(top: str, name: str) -> str:
    return f"{top}/{name}" if name else top
