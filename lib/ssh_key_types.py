"""Public keys of ssh and the names of their types."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any

from resource_api import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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
    """Whether the key begins with the name of its type; compares the Base64 letters that encode only the name."""
    name = kind.encode("utf-8", "surrogateescape")
    head = len(name).to_bytes(4, "big") + name
    letters = len(head) * 8 // 6
    return len(key) > letters and key.startswith(b64encode(head)[:letters].decode())
