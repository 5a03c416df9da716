"""Files of ssh with public keys: the types of keys, and the files in the homes of users."""

from __future__ import annotations

import os
import pwd
from base64 import b64encode
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from resource_api import Problem, files

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

#: Short names of key types.
SHORT = {
    "rsa": "ssh-rsa",
    "dsa": "ssh-dss",
    "ed25519": "ssh-ed25519",
    "ed25519-sk": "sk-ssh-ed25519@openssh.com",
    "ecdsa-sk": "sk-ecdsa-sha2-nistp256@openssh.com",
}


def problems(should: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield a problem for a key of another type than declared: a key begins with its type (RFC 4253, 6.6)."""
    kind, key = should.get("type"), should.get("key")
    if type(kind) is str and type(key) is str and not matches(kind, key):
        yield Problem("key", f"key: not of type {kind}, or truncated")


def matches(kind: str, key: str) -> bool:
    """Return whether a key begins with its type's name; otherwise it is cut off or of another type.

    The name and its length before it are compared in Base64, as the key is written.
    """
    name = kind.encode("utf-8", "surrogateescape")
    head = len(name).to_bytes(4, "big") + name
    letters = len(head) * 8 // 6  # a letter of Base64 has 6 bits: these contain no bit of a later byte
    return len(key) > letters and key.startswith(b64encode(head)[:letters].decode())


def users() -> Collection[str]:
    """Return all users, for a listing of the keys in their homes.

    Of users with the same home only the first is returned: otherwise its keys would be listed more than once.
    """
    homes: dict[str, str] = {}
    for entry in pwd.getpwall():
        homes.setdefault(entry.pw_dir.rstrip("/"), entry.pw_name)
    return homes.values()


def edit_in_home(
    path: str, edit: Callable[[files.Lines], None], user: pwd.struct_passwd, *, make_directory: bool
) -> None:
    """Edit a private file in a user's home; a new file belongs to that user.

    ``make_directory``: make the directory ``~/.ssh`` if it is missing.
    """
    if make_directory:
        with suppress(FileExistsError), files.Batch() as batch:
            batch.make_directory(os.path.dirname(path), mode=0o700, uid=user.pw_uid, gid=user.pw_gid)  # noqa: PTH120 - text in, text out
    files.edit_lines(path, edit, mode=0o600, uid=user.pw_uid, gid=user.pw_gid)
