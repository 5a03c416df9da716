"""Values as JSON and back, for state, journal and saved plans.

A secret is stored sealed (``sealed_secrets``). An unknown value is refused: to store one is a bug of the caller. Tuples
are restored, because composite names are tuples. Values beyond JSON are mappings with the key ``$resource_api``; a
user's key of that form is escaped by one more ``$``.
"""

from __future__ import annotations

import json
import math
from functools import cache
from json import JSONEncoder
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.sealed_secrets import TAG, EncryptedSecret, Sealed, json_object
from resource_api.model.values.assets import KINDS, Content
from resource_api.model.values.errors import StateError
from resource_api.model.values.values import SCALAR_TYPES, UNKNOWN, Sensitive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from resource_api.model.sealed_secrets import SecretPlace

#: Occurs in the text of every value that contains a secret.
MARK: Final = TAG.encode()
#: The keys of a sealed secret, without and with its ciphertext.
_SEALED: Final = ({TAG, "digest"}, {TAG, "digest", "box"})


def encode(value: object) -> str:
    """Return the canonical JSON text of a value. Raises ``TypeError`` for an unknown value or an unsealed secret."""
    text = _encoder().encode(value)
    # A user's key that looks like our tag is escaped. Nearly none does, and a search in the text is cheaper than one in
    # the value.
    return _encoder().encode(_escaped(value)) if TAG in text else text


def to_bytes(value: object) -> bytes:
    """Return ``encode`` of a value in UTF-8, in which a half of a surrogate pair is encoded too."""
    return encode(value).encode("utf-8", "surrogatepass")


def encode_all(values: Sequence[object]) -> list[str]:
    """Return ``encode`` of each value, as for the rows of a state.

    All values are encoded in one call, which takes half of the time, and the text is split again.
    """
    # For the values 1 and 2 it is ``[1,"\u0000",2]``, which is split at ``,"\u0000",``.
    separated: list[object] = [_BETWEEN] * (2 * len(values) - 1)
    separated[::2] = values
    # Quotes within a text are escaped, so only a value that equals the separator can be mistaken for it.
    texts = encode(separated)[1:-1].split(_SPELLED_BETWEEN)
    return texts if len(texts) == len(values) else [encode(value) for value in values]


def _escaped(value: object) -> Any:
    """Return a value with one more ``$`` before each key that ``decode`` would otherwise take for our tag."""
    if hasattr(value, "items"):
        return {f"${key}" if _looks_tagged(key) else key: _escaped(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_escaped(item) for item in value]
    return value


def _looks_tagged(key: object) -> bool:
    """Return whether a key of a mapping is the tag or an escaped tag."""
    return isinstance(key, str) and key.endswith(TAG) and key.strip("$") == TAG.strip("$")


def check_encodable(value: Any) -> None:
    """Raise ``TypeError`` if ``encode`` would refuse ``value``: a store calls it before it keeps anything.

    So a store in memory refuses the same values as one that writes text. The check costs less than encoding.
    """
    if value is None or isinstance(value, (str, int, float)):
        return
    if hasattr(value, "values"):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        value = _tagged(value).values()  # raises for an unknown value or a secret in clear
    for item in value:
        if type(item) not in SCALAR_TYPES:
            check_encodable(item)


def _tagged(value: object) -> dict[str, Any]:
    """Return the mapping that stands for a value beyond JSON. Raises ``TypeError`` if none does."""
    return content_document(value) if isinstance(value, Content) else json_object(value)


#: Separates values that are encoded together.
_BETWEEN: Final = "\0"
_SPELLED_BETWEEN: Final = ',"\\u0000",'


@cache
def _encoder() -> json.JSONEncoder:
    """Return the encoder, made once: for 10,000 records, making it anew takes as long as the encoding."""
    return JSONEncoder(default=_tagged, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def plain(value: object, around: tuple[int, ...] = ()) -> Any:
    """Return any value as JSON data to show, which is not decoded again: secrets masked, unknown values None.

    Foreign objects become text, whatever their own code raises. ``around``: the ids of the containers around ``value``,
    so that a container within itself becomes ``...``.
    """
    if value is None or value is UNKNOWN:
        return None
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, str):
        # A subclass may have a ``__str__`` of its own.
        return str.__str__(value)
    if isinstance(value, (Sensitive, Sealed)):
        return "<sensitive>"
    try:
        return content_document(value) if isinstance(value, Content) else _plain_items(value, around)
    except Exception:  # noqa: BLE001 - a foreign class may do anything
        return f"<{type(value).__name__}>"


def _plain_items(value: object, around: tuple[int, ...]) -> Any:
    """Return a collection as JSON data for ``plain``, and any other object as text; ``around`` as there."""
    if id(value) in around:
        return "..."
    inside = (*around, id(value))
    if hasattr(value, "items"):
        return {str(key): plain(item, inside) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item, inside) for item in value]
    return str(value)


def content_document(content: Content) -> dict[str, Any]:
    """Return an asset or archive as JSON data: its kind, digest and origin.

    The content itself is only in it for a text; of a file or URL the digest is enough to find a change.
    """
    document = {TAG: content.word, "sha256": content.sha256}
    if content.origin == "files":
        return {**document, "files": [[name, content_document(inner)] for name, inner in content.source]}
    return {**document, content.origin: content.source} if content.origin else document


def decode(text: str) -> Any:
    """Return the value that ``encode`` took; its encrypted secrets stay locked until the caller sets a key."""
    return json.loads(text, object_hook=_untagged)


def _untagged(mapping: dict[str, Any]) -> Any:
    """Return the sealed secret, asset or archive of a tagged mapping; any other mapping with its keys unescaped.

    A user's key ``$resource_api`` is escaped as ``$$resource_api``, and loses one ``$`` here.
    """
    word: Any = mapping.get(TAG)
    if word == "sealed" and mapping.keys() in _SEALED:
        return Sealed(mapping["digest"], EncryptedSecret(mapping["box"], (), _locked) if "box" in mapping else None)
    if word in KINDS and isinstance(mapping.get("sha256"), str):
        return _content(mapping)
    if any(TAG in key for key in mapping):
        return {key[1:] if _looks_tagged(key) and key != TAG else key: item for key, item in mapping.items()}
    return mapping


def _content(document: dict[str, Any]) -> Content:
    """Return the asset or archive of which ``content_document`` made a ``document``."""
    for origin, source in document.items():
        if origin not in {TAG, "sha256"}:  # the only other key, such as ``url``; none if the origin was not saved
            contents = tuple(map(tuple, source)) if origin == "files" else source
            return KINDS[document[TAG]](document["sha256"], origin, contents)
    return KINDS[document[TAG]](document["sha256"])


def _locked(_text: str, _place: SecretPlace) -> Any:
    """Raise ``StateError``: stands for the decryption until the caller of ``decode`` has set the one with its key."""
    raise StateError("a secret is encrypted and no key is available")
