"""Read groups through the name service and change them with the shadow tools, which lock the account files."""

from __future__ import annotations

import grp
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from resource_api import BaseProvider, Command

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from resource_api import Change, Context, Resource


class Provider(BaseProvider):
    """The groups of the local machine."""

    groupadd = Command("groupadd")
    groupmod = Command("groupmod")
    groupdel = Command("groupdel")
    gpasswd = Command("gpasswd")

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Sort members: their order means nothing."""
        for resource in resources:
            if resource.get("members"):
                resource["members"] = sorted(set(resource["members"]))
        return resources

    def get(self, context: Context, names: Collection[str] | None = None) -> list[Resource]:
        """Return the groups in ``names``, or all."""
        rows = (
            {"name": group.gr_name, "ensure": "present", "gid": group.gr_gid, "members": sorted(set(group.gr_mem))}
            for group in (grp.getgrall() if names is None else _entries(names))
            if group.gr_name and group.gr_name[0] not in "+-"  # entries for NIS are not groups
        )
        return [row for each in rows if (row := context.type.accepted_row(each)) is not None]

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Change one group after another."""
        for name, (is_, should) in changes.items():
            if should["ensure"] == "absent":
                with context.deleting(name):
                    self.groupdel("--", name)
            elif is_ is None:
                with context.creating(name):
                    self._create(name, should)
            else:
                with context.updating(name):
                    self._update(name, is_, should)

    def _create(self, name: str, should: Mapping[str, Any]) -> None:
        number = ["--gid", should["gid"]] if should.get("gid") is not None else []
        self.groupadd(*number, *["--system"] * should["system"], "--", name)
        if should.get("members"):
            self._set_members(name, should["members"])

    def _update(self, name: str, is_: Mapping[str, Any], should: Mapping[str, Any]) -> None:
        if should.get("gid", is_.get("gid")) != is_.get("gid"):
            self.groupmod("--gid", should["gid"], "--", name)
        if should.get("members", is_.get("members")) != is_.get("members"):
            self._set_members(name, should["members"])

    def _set_members(self, name: str, members: list[str]) -> None:
        self.gpasswd("--members", ",".join(members), "--", name)


def _entries(names: Iterable[str]) -> Iterable[grp.struct_group]:
    for name in names:
        with suppress(KeyError):
            yield grp.getgrnam(name)
