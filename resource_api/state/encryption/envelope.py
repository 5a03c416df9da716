"""What a key does for one stack: its secrets are ciphertext, and everything that is recorded of it is proven.

Envelope encryption: a data key at random for each stack, wrapped by the key that people hold. Each secret is bound to
the resource and attribute that it belongs to; each row counts in a keyed sum, and that sum is bound into the header, so
that no row can be altered, moved or put back without the key. Where rows are kept does not enter here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Self

from resource_api.model import codec
from resource_api.model.codec import EncryptedSecret, Sealed
from resource_api.model.values._blake2 import blake2b
from resource_api.model.values.errors import StateError, UsageError
from resource_api.model.values.reference import Reference, make_urn
from resource_api.model.values.values import is_flat, reveal
from resource_api.state.encryption import aes_gcm as cipher
from resource_api.state.store import RECOVER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from resource_api.model.codec import SecretPlace
    from resource_api.model.record import Record, StackState
    from resource_api.state.encryption.keys import Key
    from resource_api.state.sqlite.database import Row
    from resource_api.state.sqlite.stack_rows import Header
    from resource_api.state.store import StackName

    #: From a sealed secret and the place where it stands to what is to stand there.
    _Change = Callable[[Sealed, SecretPlace], Sealed]

#: The version of all this, written beside what is wrapped.
FORMAT: Final = 1
_VALUES: Final = ("inputs", "should", "is_")


class DataKey:
    """The data key of one stack, document or plan."""

    def __init__(self, data_key: bytes, wrapped: Mapping[str, Any], what: str) -> None:
        """Take the data key; ``what`` is the sentence's subject when something cannot be opened."""
        self.wrapped = wrapped
        self._what = what
        self._cipher = cipher.Cipher(cipher.derived(data_key, "values"))
        self._rows = cipher.derived(data_key, "rows")

    @classmethod
    def generate(cls, key: Key, what: str) -> Self:
        """Give one with a new data key, wrapped by ``key``. Raises ``UsageError``."""
        data_key = cipher.fresh_key()
        return cls(data_key, {"format": FORMAT, **key.wrap(data_key)}, what)

    @classmethod
    def open(cls, key: Key | None, wrapped: Any, what: str) -> Self:
        """Give the one whose data key is in ``wrapped``.

        Raises ``UsageError`` without a key or with one of another kind, ``StateError`` when the key does not open it.
        """
        if key is None:
            msg = f"{what} is encrypted; name its key with --key or RESOURCE_API_KEY"
            raise UsageError(msg)
        try:
            return cls(_unwrapped(key, wrapped), wrapped, what)
        except UsageError as error:
            msg = f"{what} cannot be opened with --key {key.url}: {error}"
            raise UsageError(msg) from error
        except (ValueError, LookupError, TypeError) as error:
            msg = f"{what} cannot be opened with --key {key.url}: it is another key, or what is there was altered"
            raise StateError(msg) from error

    def encrypt(self, clear: Any, bound: Any) -> str:
        """Encrypt JSON data, bound to other JSON data."""
        return self._cipher.encrypt(_text(clear), _text(bound))

    def decrypt(self, text: Any, bound: Any) -> Any:
        """Give back what ``encrypt`` took. Raises ``StateError`` when either is not what it was."""
        try:
            return codec.decode(self._cipher.decrypt(text, _text(bound)).decode("utf-8", "surrogatepass"))
        except (ValueError, TypeError, AttributeError) as error:
            msg = f"{self._what} was altered by somebody without its key"
            raise StateError(msg) from error

    def proof(self, table: str, row: Row) -> int:
        """Give what a row counts in the keyed sum of its table: 128 bits that only the key can tell."""
        row_id, body, _ = row
        digest = blake2b(b"%s %d " % (table.encode(), row_id) + body, key=self._rows, digest_size=16)
        return int.from_bytes(digest.digest(), "big")

    # Secrets in records and outputs

    def kept(self, name: StackName, record: Record) -> Record:
        """Give a record as it is written: each secret that is known in a box of its own place."""
        return self._record(name, record, self._box)

    def found(self, name: StackName, record: Record) -> Record:
        """Give a record as it was read: each box knows its place, and can be opened."""
        return self._record(name, record, self._placed)

    def kept_outputs(self, name: StackName, outputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Give outputs as they are written."""
        return self._outputs(name, outputs, self._box)

    def found_outputs(self, name: StackName, outputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Give outputs as they were read."""
        return self._outputs(name, outputs, self._placed)

    def _record(self, name: StackName, record: Record, change: _Change) -> Record:
        own = Reference(record.type, record.title)
        place = [str(make_urn(name.stack, name.project, record.parent, own)), *record.key]
        return _each(record, lambda found, path: change(found, (*place, *path)))

    def _outputs(self, name: StackName, outputs: Mapping[str, Any], change: _Change) -> Mapping[str, Any]:
        place = ["output", name.project, name.stack]
        changed: Mapping[str, Any] = codec.map_sealed(outputs, lambda found, path: change(found, (*place, *path)))
        return changed

    def _box(self, found: Sealed, place: SecretPlace) -> Sealed:
        secret = found.secret
        if secret is None or (
            isinstance(secret, EncryptedSecret) and secret.place == place and secret.unlock == self.decrypt
        ):
            return found
        return Sealed(found.digest, EncryptedSecret(self.encrypt(reveal(secret.reveal()), place), place, self.decrypt))

    def _placed(self, found: Sealed, place: SecretPlace) -> Sealed:
        if isinstance(found.secret, EncryptedSecret):
            found.secret.place, found.secret.unlock = place, self.decrypt
        return found


def _unwrapped(key: Key, wrapped: Mapping[str, Any]) -> bytes:
    """Give a data key. Raises ``ValueError`` for what is none: under a key that anybody knows, nothing is proven."""
    if wrapped["format"] != FORMAT:
        msg = f"there is no format {wrapped['format']}"
        raise ValueError(msg)
    data_key = key.unwrap(wrapped)
    if len(data_key) != cipher.KEY:
        msg = "a data key has another length"
        raise ValueError(msg)
    return data_key


def rewritten(state: StackState, name: StackName, vault: DataKey | None) -> StackState:
    """Give a state with each secret as ``vault`` keeps it, whatever kept it before; without one, as a digest alone."""
    if vault is not None:
        records = {key: vault.kept(name, record) for key, record in state.records.items()}
        return state._replace(records=records, outputs=vault.kept_outputs(name, state.outputs), encrypted=True)
    bare = {key: _each(record, lambda found, _path: Sealed(found.digest)) for key, record in state.records.items()}
    outputs = codec.map_sealed(state.outputs, lambda found, _path: Sealed(found.digest))
    return state._replace(records=bare, outputs=outputs, encrypted=False)


def placed(state: StackState, name: StackName, vault: DataKey) -> StackState:
    """Give a whole state as it was read: each box knows its place, and can be opened."""
    records = {key: vault.found(name, record) for key, record in state.records.items()}
    return state._replace(records=records, outputs=vault.found_outputs(name, state.outputs), encrypted=True)


def _each(record: Record, change: Callable[[Sealed, SecretPlace], Sealed]) -> Record:
    values = {field: value for field in _VALUES if (value := getattr(record, field)) and not is_flat(value)}
    return record._replace(**codec.map_sealed(values, change))


def _text(value: Any) -> bytes:
    return codec.encode(value).encode("utf-8", "surrogatepass")


class DataKeys:
    """The vaults of one store, each opened once."""

    def __init__(self, key: Key | None) -> None:
        """Use ``key``, which is not read before it is needed."""
        self.key = key
        self._fresh: dict[StackName, DataKey] = {}
        self._open: dict[str, DataKey] = {}

    def demanded(self, header: Header) -> DataKey | None:
        """Give the vault of a stack that is to be used. Raises ``UsageError`` where its key is missing or surplus."""
        if header.sealing is None and self.key is not None:
            msg = (
                f"{_what(header.name)} is not encrypted, and a key is named; 'resource-api state rekey' encrypts it,"
                " without --key it is used as it is"
            )
            raise UsageError(msg)
        return self.given(header)

    def found(self, header: Header) -> DataKey | None:
        """Give the vault of a stack that is to be looked at as it is; None for one without, or without a key."""
        return self._opened(header.name, header.sealing) if header.sealing is not None and self.key else None

    def given(self, header: Header) -> DataKey | None:
        """Give the vault of a stack that is to get another; it may have none. Raises ``UsageError`` without its key."""
        return self._opened(header.name, header.sealing) if header.sealing is not None else None

    def fresh(self, name: StackName) -> DataKey | None:
        """Give the vault of a stack that is made now; none without a key."""
        if self.key is not None and name not in self._fresh:
            self._fresh[name] = DataKey.generate(self.key, _what(name))
        return self._fresh.get(name)

    def renewed(self, name: StackName, key: Key | None) -> DataKey | None:
        """Give a new vault under another key, which is the store's from now on."""
        self.key = key
        self._fresh.pop(name, None)
        return self.fresh(name)

    def _opened(self, name: StackName, sealing: Mapping[str, Any]) -> DataKey:
        written = repr((name, sealing))
        if written not in self._open:
            try:
                self._open[written] = DataKey.open(self.key, sealing, _what(name))
            except StateError as error:
                msg = f"{error}; name its own, and if that is the one: {RECOVER}"
                raise StateError(msg) from error
        return self._open[written]


def _what(name: StackName) -> str:
    return f"the state of project {name.project}, stack {name.stack}"
