"""Read groups through the name service and change them with the shadow tools, in copies of the account files."""

from __future__ import annotations

import grp
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from resource_api import BaseProvider, Command

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from resource_api import Change, Context, Problem, Resource


class Provider(BaseProvider):
    """The groups of the local machine."""

    groupadd = Command("groupadd")
    groupmod = Command("groupmod")
    groupdel = Command("groupdel")

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
        return list(context.accepted(rows))

    def preflight(self, _context: Context, changes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Problem]]:
        """Yield what is missing for a group: members."""
        from lib import prerequisites  # noqa: PLC0415 - only for plans with changes

        for name, should in changes.items():
            for member in should.get("members") or ():
                yield from ((name, problem) for problem in prerequisites.missing_user("members", member))

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


def _change(tool: Command, name: str, *options: str | int) -> None:
    from resource_api import change_accounts  # noqa: PLC0415 - most runs change no group

    change_accounts(lambda prefix: tool("--prefix", prefix, *options, "--", name))


def _options(wanted: Mapping[str, Any]) -> Iterator[str | int]:
    if wanted.get("gid") is not None:
        yield from ("--gid", wanted["gid"])
    if wanted.get("members") is not None:
        yield from ("--users", ",".join(wanted["members"]))


def _entries(names: Iterable[str]) -> Iterable[grp.struct_group]:
    for name in names:
        with suppress(KeyError):
            yield grp.getgrnam(name)
