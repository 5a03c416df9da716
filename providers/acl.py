"""Read and set access control lists on open files, so that no link and no rename redirects a right."""

from __future__ import annotations

import os
import stat
from functools import partial
from typing import TYPE_CHECKING, Any

from lib import file_trees, posix_acl
from lib.named_files import NO_FILE, read_each
from resource_api import BaseProvider, Problem, ResourceError, files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from os import stat_result

    from lib.posix_acl import Wanted
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
        """Compare entries by the numbers of users and groups; with ``recursive``, of all that is in a directory."""
        if attribute == "ensure":
            return None
        try:
            wanted = posix_acl.resolve(should["permission"])
        except ResourceError:
            return attribute != "permission"  # a user or group that does not exist yet
        members = [""] if attribute == "permission" else list(_members(name, should))[1:]
        with files.Directories() as directories:
            found = [each for each in members if _differs(directories, _at(name, each), should, wanted)]
            if not found:
                return True
            access, _ = posix_acl.read(*files.stat_attributes(directories, name))
        if attribute == "recursive":
            return False, f"differs in {file_trees.listed(found)}"
        mask = posix_acl.hiding_mask(access, wanted)
        return (False, f"is limited by the mask {mask}, the group's digit of the mode") if mask else False

    def get(self, context: Context, names: Collection[str] | None = None) -> Iterator[Resource]:
        """Read the lists of the files in ``names``; a file without one has none."""
        unlisted = "any file can have an access control list; name it"
        for path, found in read_each(context, names, unlisted, files.stat_attributes, NO_FILE):
            access, default = posix_acl.read(*found)
            if posix_acl.is_extended(access, default):
                yield {"ensure": "present", "path": path, "permission": posix_acl.shown(access, default)}

    def preflight(self, _context: Context, changes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Problem]]:
        """Yield what is missing for a list: the file, the users and groups."""
        from lib import prerequisites

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
                wanted = [] if should["ensure"] == "absent" else posix_acl.resolve(should["permission"])
                with files.Batch() as batch:
                    for member in _ordered(_members(path, should)):
                        batch.edit_attributes(_at(path, member), partial(_change, should=should, wanted=wanted))
            except (OSError, ResourceError) as error:
                context.failed(path, message=files.describe_error(error, path))


def _members(path: str, should: Mapping[str, Any]) -> dict[str, int]:
    """Return what gets a list, by its path within ``path``, each before what is in it; the empty one is itself.

    A directory has its mode, all else 0. Raise ``OSError``.
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
    """Return members in an order in which no other user can write to a directory while what is in it is changed.

    Directories that others can write to come first, as they may lose that; the others after what is in them.
    """
    writable = [name for name, mode in members.items() if mode & OTHERS_WRITE]
    return writable + [name for name, mode in reversed(members.items()) if not mode & OTHERS_WRITE]


def _differs(directories: files.Directories, path: str, should: Mapping[str, Any], wanted: list[Wanted]) -> bool:
    status, attributes = files.stat_attributes(directories, path)
    return bool(_change(status, attributes, should=should, wanted=wanted))


def _change(
    status: stat_result, attributes: Mapping[str, bytes], *, should: Mapping[str, Any], wanted: list[Wanted]
) -> dict[str, bytes | None]:
    """Return the attributes that a file must get, None for one to be removed; none if it is as declared."""
    if should["ensure"] == "absent":
        new = posix_acl.without(status, attributes)
    elif any(each.default for each in wanted) and not stat.S_ISDIR(status.st_mode) and not should.get("recursive"):
        msg = "is not a directory, so it has no default entries"
        raise ResourceError(msg)
    else:
        inclusive = should.get("membership") != "minimum"
        new = posix_acl.expected(status, attributes, wanted, inclusive=inclusive)
    return {} if new == posix_acl.read(status, attributes) else posix_acl.encoded(*new)


def _at(top: str, name: str) -> str:
    return f"{top}/{name}" if name else top
