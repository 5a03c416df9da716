"""A user namespace, in which a user who is not root may mount, user_namespaces(7); what can forbid it is named."""

from __future__ import annotations

import os
from typing import Final

from resource_api.system.overlay import namespaces

#: What keeps users from making namespaces, or from mounting in them: settings in ``/proc/sys``, and their values.
_FORBIDDING: Final = {
    "user/max_user_namespaces": "0",
    # Debian and its relatives.
    "kernel/unprivileged_userns_clone": "0",
    # Ubuntu.
    "kernel/apparmor_restrict_unprivileged_userns": "1",
}


def unshare(flags: int) -> None:
    """Move this process to a new user namespace, with all its capabilities, and to other new ones. Raise ``OSError``.

    It has the same user and group there; what belongs to anybody else belongs to nobody.
    """
    user, group = os.geteuid(), os.getegid()
    try:
        namespaces.unshare(namespaces.NEW_USERS | flags)
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
        namespaces.make_mounts_private()
        namespaces.mount("tmpfs", "/proc")
        namespaces.unmount("/proc")
    except OSError as error:
        raise OSError(error.errno, f"a user who is not root {_why(error)}") from error


def unknown_user() -> int:
    """Return the number of all users who have none in this namespace, root among them. Raise ``OSError``."""
    with open("/proc/sys/kernel/overflowuid", encoding="ascii") as file:
        return int(file.read())


def _why(error: OSError) -> str:
    for name, value in _FORBIDDING.items():
        try:
            with open(f"/proc/sys/{name}", encoding="ascii") as file:
                if file.read().strip() == value:
                    return f"may not make namespaces: /proc/sys/{name} is {value}"
        except OSError:
            continue
    return f"may not make namespaces: {error.filename}: {error.strerror}"
