"""Encrypt the secrets of state: each stack, export and saved plan has a random data key, wrapped by the user's key.

This is envelope encryption. Each secret is encrypted and bound to its resource and attribute. Each row has a keyed
authentication code; the XOR of all codes is in the header of its stack, and the header is authenticated. Without the
key no row can be altered, moved or restored unnoticed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Self

from resource_api.model import codec
from resource_api.model.sealed_secrets import EncryptedSecret, Sealed, map_sealed
from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import StateError, UsageError
from resource_api.model.values.reference import Reference, make_urn
from resource_api.model.values.start_up import blake2b
from resource_api.model.values.values import SCALAR_TYPES, is_flat, reveal
from resource_api.state.encryption.keys import KEY_BYTES, Cipher, Key, derive_key, generate_key
from resource_api.state.store import StackName

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from resource_api.model.record import Record, StackState
    from resource_api.model.sealed_secrets import SecretPlace
    from resource_api.state.store import Row

    #: Takes a sealed secret and its place, returns its replacement.
    _Change = Callable[[Sealed, SecretPlace], Sealed]

#: The version of this format, stored beside the wrapped data key.
FORMAT: Final = 1
#: The fields of a record that may contain secrets.
_VALUES: Final = ("inputs", "should", "is_", "private")


class DataKey:
    """The random key that encrypts one stack, document or plan; ``wrapped``: its form encrypted by the user's key."""

    def __init__(self, data_key: bytes, wrapped: Mapping[str, object], subject: str) -> None:
        """Derive two keys from the data key: one encrypts values, the other authenticates rows.

        ``wrapped``: the data key as stored, encrypted by the user's key. ``subject`` begins error messages.
        """
        self.wrapped = wrapped
        self._subject = subject
        self._cipher = Cipher(derive_key(data_key, "values"))
        self._row_key = derive_key(data_key, "rows")

    @classmethod
    def generate(cls, key: Key, subject: str) -> Self:
        """Return a new data key, wrapped by ``key``. Raises ``UsageError``."""
        data_key = generate_key()
        return cls(data_key, {"format": FORMAT, **key.wrap(data_key)}, subject)

    @classmethod
    def open(cls, key: Key | None, wrapped: Any, subject: str) -> Self:
        """Return the data key in ``wrapped``, opened with the user's ``key``; ``subject`` begins error messages.

        Raises ``UsageError`` without a key or for one of another kind, ``StateError`` for a key that does not open it.
        """
        if key is None:
            raise UsageError(f"{subject} is encrypted; name its key with --key or RESOURCE_API_KEY")
        failure = f"{subject} cannot be opened with --key {key.url}: "
        try:
            with errors_as(UsageError, UsageError, failure):
                return cls(_unwrap(key, wrapped), wrapped, subject)
        except (ValueError, LookupError, TypeError) as error:
            raise StateError(f"{failure}it is another key, or the data was altered") from error

    def encrypt(self, clear: object, bound: object) -> str:
        """Return JSON data as ciphertext, bound to other JSON data, without which it cannot be decrypted."""
        return self._cipher.encrypt(codec.to_bytes(clear), codec.to_bytes(bound))

    def decrypt(self, text: Any, bound: object) -> Any:
        """Return the JSON data that ``encrypt`` turned into ``text``.

        Raises ``StateError`` if the text was altered, or if ``bound``, such as the place of the text, is not the one
        given to ``encrypt``.
        """
        try:
            return codec.decode(self._cipher.decrypt(text, codec.to_bytes(bound)).decode("utf-8", "surrogatepass"))
        except (ValueError, TypeError, AttributeError) as error:
            raise StateError(f"{self._subject} was altered without its key") from error

    def authenticate(self, table: str, row: Row) -> int:
        """Return the 128-bit authentication code of a row, to detect a change of the row by anyone without the key."""
        row_id, body, _ = row
        digest = blake2b(b"%s %d " % (table.encode(), row_id) + body, key=self._row_key, digest_size=16)
        return int.from_bytes(digest.digest(), "big")

    def encrypt_state(self, state: StackState) -> StackState:
        """Return a state with every known secret encrypted and bound to its place, whatever encrypted it before."""
        return _change_state(state, self._encrypt_secret)._replace(encrypted=True)

    def bind_state(self, state: StackState) -> StackState:
        """Return a state that was read, with every encrypted secret able to decrypt itself."""
        return _change_state(state, self._bind_secret)._replace(encrypted=True)

    def _encrypt_secret(self, sealed: Sealed, path: SecretPlace) -> Sealed:
        """Return a secret as ciphertext bound to its place, so that a copy of it elsewhere cannot be decrypted.

        A secret that is encrypted so already, or of which only a digest is known, is returned as it is.
        """
        secret = sealed.secret
        if secret is None or (
            isinstance(secret, EncryptedSecret) and secret.place == path and secret.unlock == self.decrypt
        ):
            return sealed
        return Sealed(sealed.digest, EncryptedSecret(self.encrypt(reveal(secret.reveal()), path), path, self.decrypt))

    def _bind_secret(self, sealed: Sealed, path: SecretPlace) -> Sealed:
        """Return an encrypted secret, read from a store, together with this data key and its place.

        It is decrypted only when it is used, and needs both then.
        """
        if not isinstance(sealed.secret, EncryptedSecret):
            return sealed
        return Sealed(sealed.digest, EncryptedSecret(sealed.secret.text, path, self.decrypt))


def remove_secrets(state: StackState) -> StackState:
    """Return a state that keeps of every secret only the digest, for a stack or document without a key."""
    return _change_state(state, lambda sealed, _path: Sealed(sealed.digest))._replace(encrypted=False)


def _change_state(state: StackState, change: _Change) -> StackState:
    """Return a state in which ``change`` has replaced each sealed secret: to encrypt, to bind or to remove them all.

    ``change`` gets the secret and its place, which is unique among all stacks: the place of an output begins with the
    stack's name, the place in a record with the record's URN.
    """
    name = StackName.of(state)
    records = {key: _change_record(name, record, change) for key, record in state.records.items()}
    outputs = map_sealed(state.outputs, lambda sealed, path: change(sealed, ("output", *name, *path)))
    return state._replace(records=records, outputs=outputs)


def _change_record(name: StackName, record: Record, change: _Change) -> Record:
    """Return a record with each sealed secret replaced by ``change``, which gets the secret and its place.

    The place begins with the record's URN and key, so that it is unique among all stacks.
    """
    prefix = (str(make_urn(name.stack, name.project, record.parent, Reference(record.type, record.title))), *record.key)
    values = {field: value for field in _VALUES if (value := getattr(record, field)) and not _is_plain(value)}
    return record._replace(**map_sealed(values, lambda sealed, path: change(sealed, (*prefix, *path))))


def _is_plain(value: object) -> bool:
    """Return whether a value of a record can contain no secret."""
    return type(value) in SCALAR_TYPES or (isinstance(value, dict) and is_flat(value))


def _unwrap(key: Key, wrapped: Mapping[str, object]) -> bytes:
    """Return the data key that the user's ``key`` decrypts. Raises ``ValueError`` for another format or length.

    With a shorter key, such as an empty one, anyone could forge the authentication codes of rows.
    """
    if wrapped["format"] != FORMAT:
        raise ValueError(f"there is no format {wrapped['format']}")
    data_key = key.unwrap(wrapped)
    if len(data_key) != KEY_BYTES:
        raise ValueError("a data key has another length")
    return data_key
