"""Read groups through the name service and change them with the shadow tools, in copies of the account files."""

from __future__ import annotations

import grp
import pwd
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from lib import file_parts, prerequisites
from lib.sensitive import refused_secrets
from resource_api import BaseProvider, Command, Problem, SideEffect, change_accounts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from pathlib import Path

    from resource_api import Change, Context, Resource


#: The fields of a line of group(5).
FIELDS = 4


class Provider(BaseProvider):
    """The groups of the local machine."""

    groupadd = Command("groupadd")
    groupmod = Command("groupmod")
    groupdel = Command("groupdel")

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Sort members, whose order means nothing, so that equal groups are equal."""
        for resource in resources:
            if resource.get("members"):
                resource["members"] = sorted(set(resource["members"]))
        return resources

    def validate(self, _context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Refuse secrets: all users can read who is in a group."""
        return refused_secrets(should)

    def get(self, context: Context, names: Collection[str] | None = None) -> list[Resource]:
        """Return the groups in ``names``, or all."""
        rows = (
            {"name": group.gr_name, "ensure": "present", "gid": group.gr_gid, "members": sorted(set(group.gr_mem))}
            for group in (grp.getgrall() if names is None else _entries(names))
            if group.gr_name and group.gr_name[0] not in "+-"  # entries for NIS are not groups
        )
        return list(context.accepted(rows))

    def preflight(self, _context: Context, changes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Problem]]:
        """Yield a problem for each declared member that does not exist, and for the removal of a user's primary group.

        groupdel refuses that removal. Yield also account files that cannot be replaced, such as mount points.
        """
        removed = {name: should for name, should in changes.items() if should["ensure"] == "absent"}
        for group in _entries(removed):
            if users := [user.pw_name for user in pwd.getpwall() if user.pw_gid == group.gr_gid]:
                message = f"it is the primary group of {', '.join(users)}, so groupdel refuses to remove it"
                yield group.gr_name, Problem("ensure", message)
        for name, should in prerequisites.present(changes).items():
            for member in should.get("members") or ():
                yield from ((name, problem) for problem in prerequisites.missing_user("members", member))
        for file in ("group", "gshadow"):
            yield from prerequisites.written_in_place(dict.fromkeys(changes, f"/etc/{file}"))

    def side_effects(self, _context: Context, changes: Mapping[str, Change]) -> Iterator[tuple[str, SideEffect]]:
        """Yield the effects of a change on users: those who join or leave a group, or lose their primary one.

        A plan reports a conflict with the declaration of such a user.
        """
        yield from _memberships(changes)
        deleted = {name: is_ for name, (is_, should) in changes.items() if should["ensure"] == "absent" and is_}
        numbers = {is_["gid"]: name for name, is_ in deleted.items()}
        for user in pwd.getpwall() if deleted else ():
            if user.pw_gid in numbers:
                # The user's state afterwards: without a primary group.
                none = {"ensure": "present", "gid": "", "gid_number": -1}
                yield numbers[user.pw_gid], SideEffect(user.pw_name, "detach", "user", none)
        groups = grp.getgrall() if any(is_.get("members") for is_ in deleted.values()) else ()
        for name, is_ in deleted.items():
            for member in is_.get("members", ()):
                remaining = {group.gr_name for group in groups if member in group.gr_mem} - {name}
                yield name, SideEffect(member, "update", "user", {"ensure": "present", "groups": sorted(remaining)})

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Change one group after another."""
        for name, (is_, should) in changes.items():
            if should["ensure"] == "absent":
                with context.deleting(name):
                    _change(self.groupdel, name)
            elif is_ is None:
                with context.creating(name):
                    _change(self.groupadd, name, *["--system"] * should["system"], *_options(should))
            else:
                with context.updating(name):
                    _change(self.groupmod, name, *_options({k: v for k, v in should.items() if v != is_.get(k)}))


def _memberships(changes: Mapping[str, Change]) -> Iterator[tuple[str, SideEffect]]:
    """Yield the users that join or leave groups as their members are declared, each with all its groups afterwards.

    A plan compares these with the declared groups of the user, which may contradict the members of a group.
    """
    for name, (is_, should) in changes.items():
        if should["ensure"] == "present" and should.get("members") is not None:
            members, former_members = set(should["members"]), set((is_ or {}).get("members", ()))
            groups = grp.getgrall() if members != former_members else ()
            for member in sorted(members ^ former_members):
                memberships = {group.gr_name for group in groups if member in group.gr_mem} - {name}
                state = {"groups": sorted(memberships | ({name} if member in members else set()))}
                yield name, SideEffect(member, "update", "user", state, asked=True)


def _change(tool: Command, name: str, *options: str | int) -> None:
    """Change a group with a shadow tool, in a copy of the account files that replaces them when it is complete."""

    def edit(prefix: Path) -> None:
        """Change the group in a copy of the account files."""
        # groupmod changes the list of members only with this option.
        if "--users" in options:
            _clean_members(prefix / "etc/group", name)
        tool("--prefix", prefix, *options, "--", name)

    with file_parts.described():
        change_accounts(edit)


def _clean_members(file: Path, name: str) -> None:
    """Leave out members of a group that are empty or repeated: groupmod crashes at such a list."""
    lines = file.read_bytes().splitlines(keepends=True)
    for index, line in enumerate(lines):
        fields = line.rstrip(b"\n").split(b":")
        if fields[0] == name.encode() and len(fields) == FIELDS:
            members = b",".join(dict.fromkeys(filter(None, fields[-1].split(b","))))
            lines[index] = b":".join([*fields[:-1], members]) + b"\n"
    file.write_bytes(b"".join(lines))


def _options(attributes: Mapping[str, Any]) -> Iterator[str | int]:
    """Yield the options with which groupadd and groupmod set the declared number and members of a group."""
    if attributes.get("gid") is not None:
        yield from ("--gid", attributes["gid"])
    if attributes.get("members") is not None:
        yield from ("--users", ",".join(attributes["members"]))


def _entries(names: Iterable[str]) -> Iterable[grp.struct_group]:
    """Yield the entries of the existing groups with these names, each looked up alone: LDAP may not list all."""
    for name in names:
        with suppress(KeyError):
            yield grp.getgrnam(name)
