"""Values as JSON and back: what state, journal and saved plans keep.

Of a secret a salted digest is kept, enough to see a change; where the stack has a key, the secret itself too, as
ciphertext. Nothing is encrypted here. An unknown is never kept: meeting one is a bug of the caller. Tuples come back as
tuples, because composite names are. What is more than JSON is a mapping with the key ``$resource_api``; in a mapping of
the user's own this key gets one more ``$`` in front, so that it is never taken for what it is not.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values.assets import KINDS, Content
from resource_api.model.values.errors import StateError
from resource_api.model.values.values import SCALAR_TYPES, UNKNOWN, Sensitive, reveal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    #: What a secret is bound to, as plain JSON data.
    SecretPlace = tuple[Any, ...]

_TAG: Final = "$resource_api"
#: What stands in the text of every value that holds a secret.
MARK: Final = _TAG.encode()
_SEALED: Final = ({_TAG, "digest"}, {_TAG, "digest", "box"})


class EncryptedSecret:
    """A secret as ciphertext, and the place that it is bound to; ``unlock`` comes from whoever has the key."""

    __slots__ = ("place", "text", "unlock")

    def __init__(self, text: str, place: SecretPlace, unlock: Callable[[str, SecretPlace], Any]) -> None:
        """Keep the ciphertext; one that was only just decoded is told later where it was found and how to open it."""
        self.text = text
        self.place = place
        self.unlock = unlock

    def reveal(self) -> Any:
        """Give what is inside. Raises ``StateError`` when it is not what was locked in at this place."""
        return self.unlock(self.text, self.place)


class Sealed:
    """A secret of which a salted digest is known; equal to another with the same digest.

    ``secret`` is what can give it back: the secret itself as long as it is not written, a box, or nothing.
    """

    __slots__ = ("digest", "secret")

    def __init__(self, digest: str, secret: Sensitive[Any] | EncryptedSecret | None = None) -> None:
        """Keep the digest, and what it is a digest of where that is known."""
        self.digest = digest
        self.secret = secret

    def open(self) -> Sensitive[Any] | None:
        """Give the secret, or None when only its digest is known. Raises ``StateError`` for a box that was altered."""
        return None if self.secret is None else Sensitive(self.secret.reveal())

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


def digest_secret(value: Any, salt: bytes) -> Sealed:
    """Give the digest of a secret (wrapped or plain) and nothing else: for what must not be kept in any form."""
    from resource_api.model.values._blake2 import blake2b  # noqa: PLC0415 - only for a secret

    text = json.dumps(reveal(value), default=_digest, sort_keys=True, ensure_ascii=False)
    return Sealed(blake2b(text.encode("utf-8", "surrogatepass"), key=salt[:64], digest_size=20).hexdigest())


def seal_secrets(value: Any, salt: bytes) -> Any:
    """Give ``value`` with every secret in it sealed: what a record holds and is compared with."""
    if isinstance(value, Sensitive):
        return Sealed(digest_secret(value, salt).digest, value)
    if isinstance(value, dict):
        return {key: item if type(item) in SCALAR_TYPES else seal_secrets(item, salt) for key, item in value.items()}
    if isinstance(value, list):
        return [seal_secrets(item, salt) for item in value]
    return value


def _digest(value: Any) -> Any:
    """Give what two contents are compared by, wherever they come from."""
    return [value.word, value.sha256] if isinstance(value, Content) else _tagged(value)


def map_sealed(value: Any, change: Callable[[Sealed, tuple[Any, ...]], Any], path: tuple[Any, ...] = ()) -> Any:
    """Give ``value`` with what ``change`` makes of each sealed secret in it and of the path that leads there."""
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
    """Give ``value`` with every secret that can be opened as one again. Raises ``StateError`` for an altered box."""
    return map_sealed(value, lambda found, _path: found.open() or found)


def has_sealed(value: Any) -> bool:
    """Whether ``value`` is a sealed secret or holds one."""
    return bool(_all(value))


def count_digests(value: Any) -> int:
    """Give how many sealed secrets in ``value`` are digests alone."""
    return sum(each.secret is None for each in _all(value))


def _all(value: Any) -> list[Sealed]:
    found: list[Sealed] = []
    map_sealed(value, lambda each, _path: found.append(each))
    return found


def encode(value: Any) -> str:
    """Give the one JSON text of a value without secrets in clear. Raises ``TypeError`` for an unknown or a secret."""
    text = _ENCODER.encode(value)
    # Nearly nothing is more than JSON, and looking for it in the text is cheaper than in the value.
    return _ENCODER.encode(_escaped(value)) if _TAG in text else text


def encode_all(values: Sequence[Any]) -> list[str]:
    """Give what ``encode`` gives of each value; of small ones, spelled together, in half of the time."""
    spaced: list[Any] = [_BETWEEN] * (2 * len(values) - 1)
    spaced[::2] = values
    # A quote within a text is escaped, so that only a value of its own could be taken for what stands between two.
    texts = encode(spaced)[1:-1].split(_SPELLED_BETWEEN)
    return texts if len(texts) == len(values) else [encode(value) for value in values]


def _escaped(value: Any) -> Any:
    if hasattr(value, "items"):
        return {_mark(key) + key if isinstance(key, str) else key: _escaped(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_escaped(item) for item in value]
    return value


def _mark(key: str) -> str:
    """Give the mark of a key that could be taken for the tag, or for one that has been marked."""
    return "$" if key.endswith(_TAG) and key.strip("$") == _TAG.strip("$") else ""


def check_encodable(value: Any) -> None:
    """Raise ``TypeError`` for what ``encode`` would refuse."""
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


#: Stands between values that are spelled together.
_BETWEEN: Final = "\0"
_SPELLED_BETWEEN: Final = ',"\\u0000",'

#: Made once: for ten thousand records that is half of the time that it takes to spell them.
_ENCODER: Final = json.JSONEncoder(default=_tagged, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def content_document(content: Content) -> dict[str, Any]:
    """Give an asset or archive as JSON has it: what it is, its digest, where it comes from; contents only of text."""
    found = {_TAG: content.word, "sha256": content.sha256}
    if content.origin == "files":
        return {**found, "files": [[name, content_document(inner)] for name, inner in content.given]}
    return {**found, content.origin: content.given} if content.origin else found


def decode(text: str) -> Any:
    """Give back what ``encode`` took."""
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
    msg = "a secret is encrypted, and its key is not at hand"
    raise StateError(msg)
