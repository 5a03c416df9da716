"""Read users through the name service and /etc/shadow, and change them with the shadow tools, which lock the files."""

from __future__ import annotations

import grp
import pwd
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from resource_api import BaseProvider, Command, Sensitive

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from resource_api import Change, Context, Resource

#: The options of useradd and usermod by attribute.
OPTIONS = {"uid": "-u", "gid": "-g", "comment": "-c", "home": "-d", "shell": "-s", "groups": "-G"}


class Provider(BaseProvider):
    """The users of the local machine."""

    useradd = Command("useradd")
    usermod = Command("usermod")
    userdel = Command("userdel")
    chpasswd = Command("chpasswd")

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Sort groups: their order means nothing."""
        for resource in resources:
            if resource.get("groups"):
                resource["groups"] = sorted(set(resource["groups"]))
        return resources

    def insync(
        self, _context: Context, _name: str, attribute: str, is_: Mapping[str, Any], should: Mapping[str, Any]
    ) -> bool | None:
        """Compare a primary group that is declared by number with the number."""
        if attribute == "gid" and isinstance(should["gid"], int):
            return bool(is_.get("gid_number") == should["gid"])
        return None

    def get(self, context: Context, names: Collection[str] | None = None) -> list[Resource]:
        """Return the users in ``names``, or all; as root with the hashes of their passwords."""
        group_names: dict[int, str] = {}
        memberships: dict[str, set[str]] = {}
        for group in grp.getgrall():
            group_names.setdefault(group.gr_gid, group.gr_name)
            for member in group.gr_mem:
                memberships.setdefault(member, set()).add(group.gr_name)
        hashes = _hashes()
        rows = (
            {
                "name": user.pw_name,
                "ensure": "present",
                "uid": user.pw_uid,
                "gid": _group_name(user.pw_gid, group_names),
                "gid_number": user.pw_gid,
                "groups": sorted(memberships.get(user.pw_name, ())),
                "comment": user.pw_gecos,
                "home": user.pw_dir,
                "shell": user.pw_shell,
                **({"password": Sensitive(hashes[user.pw_name])} if user.pw_name in hashes else {}),
            }
            for user in (pwd.getpwall() if names is None else _entries(names))
            if user.pw_name and user.pw_name[0] not in "+-"  # entries for NIS are not users
        )
        return [row for each in rows if (row := context.type.accepted_row(each)) is not None]

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Change one user after another."""
        for name, (is_, should) in changes.items():
            if should["ensure"] == "absent":
                with context.deleting(name):
                    self.userdel(*["-r"] * should.get("managehome", False), "--", name)
            elif is_ is None:
                with context.creating(name):
                    self._create(name, should)
            else:
                with context.updating(name):
                    self._update(name, is_, should)

    def _create(self, name: str, should: Mapping[str, Any]) -> None:
        changed = _changed({}, should)
        with suppress(KeyError):
            changed.setdefault("gid", grp.getgrnam(name).gr_gid)  # useradd would try to create that group
        options = ["-m" if should["managehome"] else "-M", *["-r"] * should["system"]]
        self.useradd(*options, *_options(changed), "--", name)
        self._set_password(name, changed)

    def _update(self, name: str, is_: Mapping[str, Any], should: Mapping[str, Any]) -> None:
        changed = _changed(is_, should)
        if options := _options(changed):
            self.usermod(*options, *["-m"] * ("home" in changed and should["managehome"]), "--", name)
        self._set_password(name, changed)

    def _set_password(self, name: str, changed: Mapping[str, Any]) -> None:
        if "password" in changed:
            self.chpasswd("--encrypted", input=Sensitive(f"{name}:{changed['password'].reveal()}\n"))


def _changed(is_: Mapping[str, Any], should: Mapping[str, Any]) -> dict[str, Any]:
    return {name: should[name] for name in (*OPTIONS, "password") if should.get(name) not in (None, is_.get(name))}


def _options(changed: Mapping[str, Any]) -> list[str | int]:
    options = []
    for attribute, option in OPTIONS.items():
        if attribute in changed:
            value = changed[attribute]
            options += [option, ",".join(value) if attribute == "groups" else value]
    return options


def _group_name(number: int, names: Mapping[int, str]) -> str | int:
    """Return the name of a group, or its number when it has none or one that consists of digits."""
    try:
        name = names.get(number) or grp.getgrgid(number).gr_name
    except KeyError:
        return number
    return number if name.isdigit() else name


def _entries(names: Iterable[str]) -> Iterable[pwd.struct_passwd]:
    for name in names:
        with suppress(KeyError):
            yield pwd.getpwnam(name)


def _hashes() -> dict[str, str]:
    """Return the password hashes by user; empty when the file cannot be read. Python 3.13 has no module for that."""
    try:
        with open("/etc/shadow", encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123 - faster to import
            fields = [line.split(":", 2) for line in file]
    except (FileNotFoundError, PermissionError):
        return {}
    return {entry[0]: entry[1] for entry in fields if len(entry) == 3}  # noqa: PLR2004 - name, hash, the rest
