"""Convert the users and groups that own files between names and numbers.

The source is the name service, through ``pwd`` and ``grp``. Nothing is changed or cached here.
"""

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
    """Return the name of a user, or the number as text when it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def group_name(gid: int) -> str:
    """Return the name of a group, or the number as text when it has none."""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def owner_number(owner: object) -> int | None:
    """Return the number of an owner that is given as a number or as decimal digits; None for a name.

    More digits than any number of an owner has are a name.
    """
    if isinstance(owner, str):
        return int(owner) if owner.isascii() and owner.isdecimal() and len(owner) <= _LONGEST else None
    return owner if isinstance(owner, int) else None
