"""Convert users and groups between names and numbers with the name service, uncached."""

from __future__ import annotations

import grp
import pwd
from typing import Final

from resource_api.model.values.errors import ResourceError

#: Digits of the largest number of an owner, 4294967294.
_LONGEST: Final = 10


def user_id(owner: str | int) -> int:
    """Return the number of a user given by name or by number. Raise ``ResourceError`` for an unknown name."""
    if (number := owner_number(owner)) is not None:
        return number
    try:
        return pwd.getpwnam(str(owner)).pw_uid
    except KeyError:
        msg = f"there is no user '{owner}'"
        raise ResourceError(msg) from None


def group_id(owner: str | int) -> int:
    """Return the number of a group given by name or by number. Raise ``ResourceError`` for an unknown name."""
    if (number := owner_number(owner)) is not None:
        return number
    try:
        return grp.getgrnam(str(owner)).gr_gid
    except KeyError:
        msg = f"there is no group '{owner}'"
        raise ResourceError(msg) from None


def user_name(uid: int) -> str:
    """Return the name of a user, or the number as text if it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def group_name(gid: int) -> str:
    """Return the name of a group, or the number as text if it has none."""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def owner_number(owner: object) -> int | None:
    """Return the number of an owner from a number or its decimal digits, or None for a name.

    Digits beyond the largest number of an owner are a name.
    """
    if isinstance(owner, str):
        return int(owner) if owner.isascii() and owner.isdecimal() and len(owner) <= _LONGEST else None
    return owner if isinstance(owner, int) else None
