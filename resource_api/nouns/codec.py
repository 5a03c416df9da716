"""Values as JSON and back: what state, journal and saved plans keep.

A secret is kept as a salted digest only, enough to see a change (a key to encrypt with may replace that). An unknown is
never kept: meeting one is a bug of the caller. Tuples come back as tuples, because composite names are.
"""

from __future__ import annotations

import json
from typing import Any, Final

from resource_api.nouns.values import FLAT, UNKNOWN, Sensitive, reveal

_TAG: Final = "$resource_api"
_SEALED: Final = {_TAG, "digest"}


class Sealed:
    """A secret of which only a salted digest is known; equal to another with the same digest."""

    __slots__ = ("digest",)

    def __init__(self, digest: str) -> None:
        """Keep the digest."""
        self.digest = digest

    def __eq__(self, other: object) -> bool:
        """Compare digests."""
        return isinstance(other, Sealed) and self.digest == other.digest

    def __hash__(self) -> int:
        """Hash the digest."""
        return hash(self.digest)

    def __repr__(self) -> str:
        """Hide the digest: of a short secret it could be guessed."""
        return "<sensitive>"

    __str__ = __repr__


def seal(value: Any, salt: bytes) -> Sealed:
    """Give the sealed form of a secret (wrapped or plain)."""
    from hashlib import blake2b  # noqa: PLC0415 - only for a secret

    text = json.dumps(reveal(value), sort_keys=True, ensure_ascii=False)
    return Sealed(blake2b(text.encode("utf-8", "surrogatepass"), key=salt[:64], digest_size=20).hexdigest())


def sealed(value: Any, salt: bytes) -> Any:
    """Give ``value`` with every secret in it sealed: what a record holds and is compared with."""
    if isinstance(value, Sensitive):
        return seal(value, salt)
    if isinstance(value, dict):
        return {key: item if type(item) in FLAT else sealed(item, salt) for key, item in value.items()}
    if isinstance(value, list):
        return [sealed(item, salt) for item in value]
    return value


def encode(value: Any) -> str:
    """Give the one JSON text of a value without secrets in clear. Raises ``TypeError`` for an unknown or a secret."""
    return json.dumps(value, default=_tagged, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def verify(value: Any) -> None:
    """Raise ``TypeError`` for what ``encode`` would refuse."""
    if value is None or isinstance(value, (str, int, float)):
        return
    if hasattr(value, "values"):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        value = _tagged(value).values()
    for item in value:
        if type(item) not in FLAT:
            verify(item)


def _tagged(value: Any) -> Any:
    if isinstance(value, Sealed):
        return {_TAG: "sealed", "digest": value.digest}
    if hasattr(value, "items"):
        return dict(value.items())
    what = (
        "an unknown value" if value is UNKNOWN else "a secret" if isinstance(value, Sensitive) else type(value).__name__
    )
    msg = f"{what} cannot be kept"
    raise TypeError(msg)


def decode(text: str) -> Any:
    """Give back what ``encode`` took."""
    return json.loads(text, object_hook=_untagged)


def _untagged(found: dict[str, Any]) -> Any:
    return Sealed(found["digest"]) if found.keys() == _SEALED and found[_TAG] == "sealed" else found
