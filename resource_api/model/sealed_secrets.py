"""Secrets of resources: those derived from a secret or repeating one, and sealed ones, as state stores them.

A sealed secret is its salted digest, which is enough to detect a change, and its ciphertext if the stack has a key.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values.assets import Content
from resource_api.model.values.masking import Mask
from resource_api.model.values.start_up import blake2b
from resource_api.model.values.values import SCALAR_TYPES, UNKNOWN, Sensitive, is_flat, is_secret, leaves, reveal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from resource_api.model.type_definition import TypeDefinition
    from resource_api.model.values.values import Values

    #: Identifies where a secret is stored (URN, attribute, path): authenticated with its ciphertext; plain JSON data.
    SecretPlace = tuple[Any, ...]


#: The key of a mapping that stands for a value beyond JSON, see ``codec``.
TAG: Final = "$resource_api"


class EncryptedSecret:
    """A secret as ciphertext, with the place that is authenticated with it; ``unlock`` decrypts it."""

    __slots__ = ("place", "text", "unlock")

    def __init__(self, text: str, place: SecretPlace, unlock: Callable[[str, SecretPlace], Any]) -> None:
        """Keep the ciphertext, and the two parts of its decryption.

        ``decode``, which reads JSON, knows neither place nor key, and passes placeholders; its caller then replaces the
        object by one that can decrypt.
        """
        self.text = text
        self.place = place
        self.unlock = unlock

    def reveal(self) -> Any:
        """Return the secret. Raises ``StateError`` if the ciphertext was not made for this place."""
        return self.unlock(self.text, self.place)


class Sealed:
    """A secret as its salted digest, by which it is compared, as records hold it.

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


def digest_secret(value: object, salt: bytes) -> Sealed:
    """Return a secret, wrapped or plain, as its salted digest alone, which can be compared and never opened again."""
    text = json.dumps(reveal(value), default=_comparable, sort_keys=True, ensure_ascii=False)
    return Sealed(blake2b(text.encode("utf-8", "surrogatepass"), key=salt[:64], digest_size=20).hexdigest())


def seal_secrets(value: object, salt: bytes) -> Any:
    """Return ``value`` with every secret in it sealed, as records have it, because state never contains it in clear.

    A sealed secret has a salted digest, by which it is compared, and until it is written the secret to encrypt.
    """
    if isinstance(value, Sensitive):
        return Sealed(digest_secret(value, salt).digest, value)
    if isinstance(value, dict):
        return {key: item if type(item) in SCALAR_TYPES else seal_secrets(item, salt) for key, item in value.items()}
    if isinstance(value, list):
        return [seal_secrets(item, salt) for item in value]
    return value


def _comparable(value: object) -> Any:
    """Return the comparable form of a value beyond JSON: for an asset or archive its digest, whatever its origin."""
    return [value.word, value.sha256] if isinstance(value, Content) else json_object(value)


def json_object(value: object) -> dict[str, Any]:
    """Return a sealed secret or a mapping as a JSON object, for the encoder of state and saved plans.

    Raises ``TypeError`` for any other value, above all for a secret in clear, which must not be written.
    """
    if isinstance(value, Sealed):
        document = {TAG: "sealed", "digest": value.digest}
        return {**document, "box": value.secret.text} if isinstance(value.secret, EncryptedSecret) else document
    if hasattr(value, "items"):
        return dict(value.items())
    noun = "a secret" if isinstance(value, Sensitive) else type(value).__name__
    raise TypeError(f"{'an unknown value' if value is UNKNOWN else noun} cannot be kept")


def map_sealed(value: object, change: Callable[[Sealed, tuple[Any, ...]], Any], path: tuple[object, ...] = ()) -> Any:
    """Return ``value`` with each sealed secret in it replaced by ``change(sealed, path)``, to encrypt or open it.

    ``path``: the key path to ``value``, which ``change`` gets for each secret in it.
    """
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


def open_sealed(value: object) -> Any:
    """Return ``value`` with sealed secrets, except mere digests, as ``Sensitive``. Raises ``StateError``."""
    return map_sealed(value, lambda sealed, _path: sealed.open() or sealed)


def has_sealed(value: object) -> bool:
    """Return whether ``value`` is a sealed secret or contains one."""
    return any(isinstance(leaf, Sealed) for _, leaf in leaves(value))


def count_digests(value: object) -> int:
    """Return the number of sealed secrets in ``value`` of which only the digest is known."""
    return sum(isinstance(leaf, Sealed) and leaf.secret is None for _, leaf in leaves(value))


def holds_secret(value: object) -> bool:
    """Return whether a declared, read or recorded value is a secret or contains one."""
    return type(value) not in SCALAR_TYPES and (is_secret(value) or has_sealed(value))


def referred_value(definition: TypeDefinition, attribute: str, value: object) -> Any:
    """Return a declared value, or a part of it, as ``${...}`` yields it elsewhere: a write-only one is secret there."""
    return definition.attributes[attribute].conceal(value) if attribute in definition.write_only else value


def declared_secrets(definition: TypeDefinition, should: Mapping[str, object]) -> list[Any]:
    """Return the declared values that are secrets of their type, or contain one, with these wrapped."""
    return [definition.attributes[name].conceal(should[name]) for name in definition.secret if name in should]


def mark_secrets(definition: TypeDefinition, row: Mapping[str, object], *should: Mapping[str, object]) -> Values:
    """Return the ``row`` that a provider has read, with every secret in it wrapped; the same object if it has none.

    Providers return secrets in clear. A value is secret by its type, or because it is a secret in the declared or
    recorded state (``should``). A read-only value is also secret if it is derived from such a value, or contains it in
    any spelling.
    """
    # Nearly all resources: flat values, none of them wrapped.
    if not definition.secret and all(map(is_flat, should)) and is_flat(row):
        return row
    secret = _secret_attributes(definition, row, should)
    if not secret:
        return row
    derived = {name for name, source in definition.derived_from.items() if source in secret} - secret
    secrets = [state[name] for state in (*should, row) for name in secret | derived if name in state]
    derived.update(_repeating(row, (definition.read_only & row.keys()) - secret - derived, secrets))
    marked = dict(row)
    for name in row.keys() & derived:
        if row[name] is not None:
            marked[name] = Sensitive(row[name])
    for name in row.keys() & secret:
        if not has_sealed(row[name]):
            marked[name] = definition.attributes[name].conceal(row[name])
            for state in should:
                marked[name] = conceal_like(marked[name], state.get(name))
    return marked


def _secret_attributes(
    definition: TypeDefinition, row: Mapping[str, object], should: Sequence[Mapping[str, object]]
) -> set[str]:
    """Return the attributes of a row that are secret by their type, or hold a secret in any state of the resource."""
    secret = {name for state in (*should, row) for name, value in state.items() if holds_secret(value)}
    secret |= definition.sensitive & row.keys()
    # ``get`` should not return a write-only attribute; if it does, the value is the declared secret.
    return secret.union(*(definition.write_only & state.keys() for state in should))


def conceal_like(value: object, state: object) -> Any:
    """Return ``value``, in clear, with each part wrapped that is secret in another ``state`` of the resource.

    All of it is wrapped if the two have different shapes, in which the parts cannot be found.
    """
    if value is None or value is UNKNOWN or isinstance(value, Sensitive) or not holds_secret(state):
        return value
    if type(value) is dict and type(state) is dict:
        return {key: conceal_like(item, state[key]) if key in state else item for key, item in value.items()}
    if type(value) is list and type(state) is list and len(value) == len(state):
        return list(map(conceal_like, value, state))
    return Sensitive(value)


def _repeating(row: Mapping[str, object], names: Iterable[str], secrets: list[object]) -> list[str]:
    """Return the attributes among ``names`` whose values in a row contain one of the ``secrets``, also encoded.

    So a read-only URL with the password of the resource is secret too, although its type does not declare that.
    """
    candidates = [name for name in names if isinstance(row[name], (str, list, dict))]
    if not candidates:
        return []
    mask = Mask(runs=False)  # only whole secrets: a value with a part of one may be shown
    mask.add([secret if is_secret(secret) else Sensitive(secret) for secret in secrets if not has_sealed(secret)])
    return [name for name in candidates if mask.document(row[name]) != row[name]]
