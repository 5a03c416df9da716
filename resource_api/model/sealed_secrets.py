"""Sealed secrets: a secret as its salted digest, and, where the stack has a key, as ciphertext too.

The digest is enough to detect a change: a ``write_only`` attribute is compared by it. Encryption itself is in
``state.encryption``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values.assets import Content
from resource_api.model.values.values import SCALAR_TYPES, UNKNOWN, Sensitive, reveal

if TYPE_CHECKING:
    from collections.abc import Callable

    #: Identifies where a secret is stored (URN, attribute, path): authenticated with its ciphertext; plain JSON data.
    SecretPlace = tuple[Any, ...]

#: The key of a mapping that stands for a value beyond JSON, see ``codec``.
TAG: Final = "$resource_api"


class EncryptedSecret:
    """A secret as ciphertext, with the place that is authenticated with it; ``unlock`` decrypts it."""

    __slots__ = ("place", "text", "unlock")

    def __init__(self, text: str, place: SecretPlace, unlock: Callable[[str, SecretPlace], Any]) -> None:
        """Keep the ciphertext; after ``decode``, ``place`` and ``unlock`` are placeholders that the caller replaces."""
        self.text = text
        self.place = place
        self.unlock = unlock

    def reveal(self) -> Any:
        """Return the secret. Raises ``StateError`` if the ciphertext was not made for this place."""
        return self.unlock(self.text, self.place)


class Sealed:
    """A secret as its salted digest; equal to another with the same digest.

    ``secret`` is its source: the secret itself until it is written, its ciphertext, or None.
    """

    __slots__ = ("digest", "secret")

    def __init__(self, digest: str, secret: Sensitive[Any] | EncryptedSecret | None = None) -> None:
        """Keep the digest, and the source of the secret where there is one."""
        self.digest = digest
        self.secret = secret

    def open(self) -> Sensitive[Any] | None:
        """Return the secret, None if only its digest is known. Raises ``StateError`` for an altered ciphertext."""
        return None if self.secret is None else Sensitive(self.secret.reveal())

    def __eq__(self, value: object) -> bool:
        """Compare digests."""
        return isinstance(value, Sealed) and self.digest == value.digest

    def __hash__(self) -> int:
        """Hash the digest."""
        return hash(self.digest)

    def __repr__(self) -> str:
        """Hide the digest: a short secret could be guessed from it."""
        return "<sensitive>"

    __str__ = __repr__


def digest_secret(value: Any, salt: bytes) -> Sealed:
    """Return the digest of a secret, wrapped or plain, without a source: for secrets that must not be stored."""
    import json

    from resource_api.model.values._blake2 import blake2b

    text = json.dumps(reveal(value), default=_compared, sort_keys=True, ensure_ascii=False)
    return Sealed(blake2b(text.encode("utf-8", "surrogatepass"), key=salt[:64], digest_size=20).hexdigest())


def seal_secrets(value: Any, salt: bytes) -> Any:
    """Return ``value`` with every secret in it sealed, as records hold it."""
    if isinstance(value, Sensitive):
        return Sealed(digest_secret(value, salt).digest, value)
    if isinstance(value, dict):
        return {key: item if type(item) in SCALAR_TYPES else seal_secrets(item, salt) for key, item in value.items()}
    if isinstance(value, list):
        return [seal_secrets(item, salt) for item in value]
    return value


def _compared(value: Any) -> Any:
    """Return the comparable form of a value beyond JSON: for an asset or archive its digest, whatever its origin."""
    return [value.word, value.sha256] if isinstance(value, Content) else json_object(value)


def json_object(value: Any) -> dict[str, Any]:
    """Return a sealed secret or a mapping as a JSON object. Raises ``TypeError`` for others, which cannot be kept."""
    if isinstance(value, Sealed):
        document = {TAG: "sealed", "digest": value.digest}
        return {**document, "box": value.secret.text} if isinstance(value.secret, EncryptedSecret) else document
    if hasattr(value, "items"):
        return dict(value.items())
    noun = (
        "an unknown value" if value is UNKNOWN else "a secret" if isinstance(value, Sensitive) else type(value).__name__
    )
    msg = f"{noun} cannot be kept"
    raise TypeError(msg)


def map_sealed(value: Any, change: Callable[[Sealed, tuple[Any, ...]], Any], path: tuple[Any, ...] = ()) -> Any:
    """Return ``value`` with each sealed secret replaced by ``change(sealed, path to it)``."""
    if isinstance(value, Sealed):
        return change(value, path)
    if hasattr(value, "items"):
        return {
            key: item if type(item) in SCALAR_TYPES else map_sealed(item, change, (*path, key))
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [map_sealed(item, change, (*path, index)) for index, item in enumerate(value)]
    return value


def open_sealed(value: Any) -> Any:
    """Return ``value`` with every secret that has a source in clear. Raises ``StateError`` for altered ciphertext."""
    return map_sealed(value, lambda sealed, _path: sealed.open() or sealed)


def has_sealed(value: Any) -> bool:
    """Return whether ``value`` is a sealed secret or contains one."""
    return bool(_all(value))


def count_digests(value: Any) -> int:
    """Return how many sealed secrets in ``value`` have no source."""
    return sum(each.secret is None for each in _all(value))


def _all(value: Any) -> list[Sealed]:
    found: list[Sealed] = []
    map_sealed(value, lambda each, _path: found.append(each))
    return found
