"""Values as JSON and back, for state, journal and saved plans.

A secret is stored as a salted digest, which is enough to detect a change, and, where the stack has a key, as ciphertext
too. Encryption itself is in ``state.encryption``. An unknown value is refused: to store one is a bug of the caller.
Tuples are restored, because composite names are tuples. Values beyond JSON are mappings with the key ``$resource_api``;
a user's key of that form is escaped by one more ``$``.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values.assets import KINDS, Content
from resource_api.model.values.errors import StateError
from resource_api.model.values.values import SCALAR_TYPES, UNKNOWN, Sensitive, reveal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from json import JSONEncoder

    #: Identifies where a secret is stored (URN, attribute, path): authenticated with its ciphertext; plain JSON data.
    SecretPlace = tuple[Any, ...]

_TAG: Final = "$resource_api"
#: Occurs in the text of every value that contains a secret.
MARK: Final = _TAG.encode()
_SEALED: Final = ({_TAG, "digest"}, {_TAG, "digest", "box"})


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

    def __eq__(self, other: object) -> bool:
        """Compare digests."""
        return isinstance(other, Sealed) and self.digest == other.digest

    def __hash__(self) -> int:
        """Hash the digest."""
        return hash(self.digest)

    def __repr__(self) -> str:
        """Hide the digest: a short secret could be guessed from it."""
        return "<sensitive>"

    __str__ = __repr__


def digest_secret(value: Any, salt: bytes) -> Sealed:
    """Return the digest of a secret, wrapped or plain, without a source: for what must not be stored in any form."""
    import json  # noqa: PLC0415 - only for a secret

    from resource_api.model.values._blake2 import blake2b  # noqa: PLC0415 - only for a secret

    text = json.dumps(reveal(value), default=_digest, sort_keys=True, ensure_ascii=False)
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


def _digest(value: Any) -> Any:
    """Return what an asset or archive is compared by, independent of its origin."""
    return [value.word, value.sha256] if isinstance(value, Content) else _tagged(value)


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
    return map_sealed(value, lambda found, _path: found.open() or found)


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


def encode(value: Any) -> str:
    """Return the canonical JSON text of a value. Raises ``TypeError`` for an unknown value or an unsealed secret."""
    text = _encoder().encode(value)
    # Nearly all values are plain JSON, and a search in the text is cheaper than one in the value.
    return _encoder().encode(_escaped(value)) if _TAG in text else text


def encode_all(values: Sequence[Any]) -> list[str]:
    """Return ``encode`` of each value; small values are encoded together, in half of the time."""
    spaced: list[Any] = [_BETWEEN] * (2 * len(values) - 1)
    spaced[::2] = values
    # Quotes within a text are escaped, so only a value that equals the separator can be mistaken for it.
    texts = encode(spaced)[1:-1].split(_SPELLED_BETWEEN)
    return texts if len(texts) == len(values) else [encode(value) for value in values]


def _escaped(value: Any) -> Any:
    if hasattr(value, "items"):
        return {_mark(key) + key if isinstance(key, str) else key: _escaped(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_escaped(item) for item in value]
    return value


def _mark(key: str) -> str:
    """Return ``$`` for a key that is the tag or an escaped tag, else an empty string."""
    return "$" if key.endswith(_TAG) and key.strip("$") == _TAG.strip("$") else ""


def check_encodable(value: Any) -> None:
    """Raise ``TypeError`` if ``encode`` would refuse ``value``."""
    if value is None or isinstance(value, (str, int, float)):
        return
    if hasattr(value, "values"):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        value = _tagged(value).values()
    for item in value:
        if type(item) not in SCALAR_TYPES:
            check_encodable(item)


def _tagged(value: Any) -> Any:
    if isinstance(value, Sealed):
        kept = {_TAG: "sealed", "digest": value.digest}
        return {**kept, "box": value.secret.text} if isinstance(value.secret, EncryptedSecret) else kept
    if isinstance(value, Content):
        return content_document(value)
    if hasattr(value, "items"):
        return dict(value.items())
    what = (
        "an unknown value" if value is UNKNOWN else "a secret" if isinstance(value, Sensitive) else type(value).__name__
    )
    msg = f"{what} cannot be kept"
    raise TypeError(msg)


#: Separates values that are encoded together.
_BETWEEN: Final = "\0"
_SPELLED_BETWEEN: Final = ',"\\u0000",'


@cache
def _encoder() -> JSONEncoder:
    """Return the encoder, made once: for 10,000 records, making it anew takes as long as the encoding."""
    from json import JSONEncoder  # noqa: PLC0415 - with the first record or secret

    return JSONEncoder(default=_tagged, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def plain(value: Any, around: tuple[int, ...] = ()) -> Any:
    """Return any value as JSON data: secrets masked, unknowns None, what JSON does not have as text.

    ``around`` are the identities of the containers around it: a container within itself is shown as ``...``.
    """
    if value is None or value is UNKNOWN:
        return None
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, (Sensitive, Sealed)):
        return "<sensitive>"
    try:
        return content_document(value) if isinstance(value, Content) else _plain_items(value, around)
    except Exception:  # noqa: BLE001 - a foreign class may do anything
        return f"<{type(value).__name__}>"


def _plain_items(value: Any, around: tuple[int, ...]) -> Any:
    if id(value) in around:
        return "..."
    inside = (*around, id(value))
    if hasattr(value, "items"):
        return {str(key): plain(item, inside) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item, inside) for item in value]
    return str(value)


def content_document(content: Content) -> dict[str, Any]:
    """Return an asset or archive as JSON data: kind, digest, origin; the content itself only for text."""
    found = {_TAG: content.word, "sha256": content.sha256}
    if content.origin == "files":
        return {**found, "files": [[name, content_document(inner)] for name, inner in content.given]}
    return {**found, content.origin: content.given} if content.origin else found


def decode(text: str) -> Any:
    """Return the value that ``encode`` took."""
    import json  # noqa: PLC0415 - with the first record

    return json.loads(text, object_hook=_untagged)


def _untagged(found: dict[str, Any]) -> Any:
    word: Any = found.get(_TAG)
    if word == "sealed" and found.keys() in _SEALED:
        return Sealed(found["digest"], EncryptedSecret(found["box"], (), _locked) if "box" in found else None)
    if word in KINDS and isinstance(found.get("sha256"), str):
        origin = next((key for key in found if key not in {_TAG, "sha256"}), "")
        given: Any = found.get(origin)
        return KINDS[word](found["sha256"], origin, tuple(map(tuple, given)) if origin == "files" else given)
    if any(_TAG in key for key in found):
        return {key[1:] if _mark(key) and key != _TAG else key: item for key, item in found.items()}
    return found


def _locked(_text: str, _place: SecretPlace) -> Any:
    msg = "a secret is encrypted and no key is available"
    raise StateError(msg)
