"""The rows of a stack in a database: its header, and one row for each record, owed refresh and group of intents.

An intent is a change about to be made. A refresh is owed from the change that causes it (``notify``) to its success.
A row's id is composed of the number of its stack and its position, so that the rows of a stack are adjacent. The header
holds a tally of each table: the number of its rows and the XOR of their checksums, in an encrypted stack also of their
authentication codes. SQLite's own check does not notice every lost row: one flipped bit can make a table empty.
"""

from __future__ import annotations

import json
from operator import attrgetter
from sys import intern
from typing import TYPE_CHECKING, Any, Final, Protocol

from resource_api.model import codec
from resource_api.model.record import NO_LIFECYCLE, Commit, Intent, Record, RecordedLifecycle, RecordKey, StackState
from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import StateDamaged, StateError, StateNotEncrypted
from resource_api.model.values.reference import hashable_name
from resource_api.model.values.start_up import NamedTuple, blake2b
from resource_api.model.values.text import counted
from resource_api.model.values.values import SCALAR_TYPES, batches
from resource_api.state.store import StackName, apply_commit

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

    from resource_api.state.encryption.keys import Key
    from resource_api.state.encryption.secret_encryption import DataKey
    from resource_api.state.store import Row

    #: Lineage and serial of a stack.
    Version = tuple[str, int]
    #: Returns the data key of an encrypted stack, or None.
    FindDataKey = Callable[["Header"], DataKey | None]

#: The tables that hold rows of stacks, besides their headers in the table ``stack``.
TABLES: Final = ("resource", "owed", "intent")
#: The number of rows that are decoded together.
_BATCH: Final = 500
#: The maximum number of rows per stack and table.
SPAN: Final = 1 << 40
#: The lower bits of a row's weight are its checksum, those above its authentication code.
_CHECKSUM_BITS: Final = 64
#: The number of columns that every row of a record has, except the oldest ones.
_REQUIRED: Final = 7


class RowReader(Protocol):
    """Reads the tables of a database as they are at one moment. Each row is an id, a content, a checksum over both."""

    def read(self, table: str, low: int = 0, high: int = 2**62) -> list[Row]:
        """Return the verified rows of a table with ``low`` <= id < ``high``, ordered by id. Raise ``StateError``."""

    def check(self) -> None:
        """Verify the structure of the database. Raise ``StateError``."""

    def damage(self, message: str) -> StateError:
        """Return the error for damaged rows, which names the remedy."""


class RowWriter(Protocol):
    """Writes to the tables of a database, all or nothing."""

    def write(self, table: str, rows: Sequence[Row]) -> None:
        """Insert rows; rows with the same ids are replaced."""

    def delete(self, table: str, ids: Iterable[int]) -> None:
        """Delete the rows with these ids."""

    def delete_range(self, table: str, low: int, high: int) -> None:
        """Delete the rows with ``low`` <= id < ``high``."""


def make_row(row_id: int, body: bytes) -> Row:
    """Return a row with its checksum over id and body: 56 bits, which with an id fit the integers of both databases."""
    return row_id, body, int.from_bytes(blake2b(body, digest_size=7).digest(), "big") ^ row_id


def are_intact(rows: Iterable[Row]) -> bool:
    """Return whether each row has the checksum of its id and body, so that none was damaged or exchanged."""
    digest, number = blake2b, int.from_bytes  # looked up once: a state has many rows
    try:
        for row_id, body, stored in rows:
            if number(digest(body, digest_size=7).digest(), "big") ^ row_id != stored:
                return False
    except TypeError:
        return False
    return True


class Header(NamedTuple):
    """The header of one stack as it was read: its name, and all of its state that is not in rows."""

    #: The number of the stack in its database, from which the ids of its rows begin, see ``limits``.
    number: int
    name: StackName
    content: Mapping[str, Any]

    @property
    def version(self) -> Version:
        """Its lineage and serial."""
        return self.content["lineage"], self.content["serial"]

    @property
    def serial(self) -> int:
        """Its serial; 0 as long as only intents are recorded."""
        serial: int = self.content["serial"]
        return serial

    @property
    def sealing(self) -> Mapping[str, object] | None:
        """The wrapped data key of an encrypted stack; None: it is not encrypted."""
        return self.content.get("sealing")

    @property
    def cacheable(self) -> bool:
        """Whether conclusions from the stack may be saved: it is not encrypted and has no open intent."""
        intents, _, _ = self.content["tallies"]["intent"]
        return self.sealing is None and not intents

    def read(self, database: RowReader, table: str) -> list[Row]:
        """Return the rows of the stack in a table."""
        return database.read(table, *limits(self.number))

    def salt(self, data_key: DataKey | None) -> bytes:
        """Return the salt of the digests of secrets; empty if it is encrypted and there is no ``data_key``.

        The encrypted salt is bound to the rest of the header: decrypting it also verifies that the header was not
        altered. Raise ``StateDamaged`` if it was.
        """
        if data_key is not None:
            rest = {key: value for key, value in self.content.items() if key != "sealed_salt"}
            with errors_as(StateDamaged, StateError):
                return bytes.fromhex(data_key.decrypt(self.content["sealed_salt"], rest))
        return b"" if self.sealing is not None else bytes.fromhex(self.content["salt"])

    def state(self, data_key: DataKey | None = None) -> StackState:
        """Return the part of the state that is in the header, to which a reader adds the rows.

        It has no records, owed refreshes or intents.
        """
        return StackState(
            *self.name,
            *self.version,
            manifest=self.content["manifest"],
            machine=self.content.get("machine", ""),
            salt=self.salt(data_key),
            outputs=self.content["outputs"],
            encrypted=self.sealing is not None,
        )


class RowIndex:
    """The row ids of one stack in one table, by key, and the tally by which a lost row is noticed."""

    def __init__(self, table: str, number: int, data_key: DataKey | None, next_position: int = 0) -> None:
        """Start without rows; ``number`` is the stack's, from which the range of its row ids follows.

        With a ``data_key`` each row is authenticated: a change by anyone without the key is noticed, too.
        """
        #: The position of the next new row; a deleted row's is not used again.
        self.next_position = next_position
        self._table = table
        #: The lowest row id of this stack.
        self._base, _ = limits(number)
        self._data_key = data_key
        #: Key → row id. The key is a record's, an owed refresh's, or the position of a group of intents.
        self._ids: dict[Hashable, int] = {}
        #: Row id → weight: the checksum of the row and, with a data key, its authentication code above that.
        self._weights: dict[int, int] = {}
        #: The XOR of all weights. It is compared with the header's tally, so that a lost row is noticed.
        self._total = 0

    @property
    def tally(self) -> list[int]:
        """The number of rows, the XOR of their weights, the next free position."""
        return [len(self._ids), self._total, self.next_position]

    def load(self, keys: Iterable[Hashable], rows: Sequence[Row]) -> None:
        """Register rows that were read, and the key of each."""
        self._ids = dict(zip(keys, [row_id for row_id, _, _ in rows], strict=True))
        self._weigh(rows)

    def matches(self, tally: Sequence[int]) -> bool:
        """Whether the rows are those of a tally; without a data key only their checksums are compared."""
        count, total, position = tally
        return self.tally == [count, total if self._data_key else total % (1 << _CHECKSUM_BITS), position]

    def ids(self, keys: Sequence[Hashable]) -> list[int] | None:
        """Return the row ids of ``keys`` in their order, or None if these are not exactly the keys of all rows.

        The cache of conclusions stores the ids, so that a later run reads the rows of a few records alone.
        """
        if len(keys) != len(self._ids) or not self._ids.keys() >= set(keys):
            return None
        return [self._ids[key] for key in keys]

    def write(self, database: RowWriter, values: Mapping[Any, object]) -> None:
        """Write values by key as rows; a key that has a row keeps it, a new one gets the next position."""
        for key in values:
            if key not in self._ids:
                self._ids[key] = self._base + self.next_position
                self.next_position += 1
        texts = codec.encode_all(list(values.values()))
        bodies = (text.encode("utf-8", "surrogatepass") for text in texts)
        rows = [make_row(self._ids[key], body) for key, body in zip(values, bodies, strict=True)]
        self._weigh(rows)
        database.write(self._table, rows)

    def delete(self, database: RowWriter, keys: Iterable[Hashable]) -> None:
        """Delete the rows of ``keys`` from the index, the tally and the database; unknown keys are ignored."""
        ids = [self._ids.pop(key) for key in dict.fromkeys(keys) if key in self._ids]
        for row_id in ids:
            self._total ^= self._weights.pop(row_id, 0)
        if ids:
            database.delete(self._table, ids)

    def _weigh(self, rows: Sequence[Row]) -> None:
        """Add rows to the tally; the weight of a row replaces that of the former row with its id.

        The total is an XOR, so that a weight is taken out by adding it again: a write costs nothing for other rows.
        """
        for row in rows:
            row_id, _, weight = row
            if self._data_key is not None:
                weight |= self._data_key.authenticate(self._table, row) << _CHECKSUM_BITS
            self._total ^= self._weights.get(row_id, 0) ^ weight
            self._weights[row_id] = weight


class StackRows:
    """The state of one stack and the position of its rows. Each change is one call within a transaction.

    After a call that raised, the object may differ from the database: read it again.
    """

    def __init__(self, number: int, state: StackState, data_key: DataKey | None = None) -> None:
        """Start with ``state`` and no rows. With a ``data_key`` secrets are kept encrypted and rows authenticated."""
        self.number = number
        self.state = state
        self._reset(data_key)

    def _reset(self, data_key: DataKey | None, positions: Mapping[str, int] | None = None) -> None:
        """Forget all rows and intents, before the rows of a database are read, or a whole state is written.

        ``positions``: table → the position of its next new row, 0 by default; the position of a deleted row is not used
        again.
        """
        self.data_key = data_key
        next_positions = {**dict.fromkeys(TABLES, 0), **(positions or {})}
        self._indexes = {table: RowIndex(table, self.number, data_key, next_positions[table]) for table in TABLES}
        #: By position of the row: the intents that were recorded together are one row, until the last is resolved.
        self._batches: dict[int, dict[RecordKey, Intent]] = {}
        #: The batch of each open intent: the inverse of ``_batches``.
        self._batch_of: dict[RecordKey, int] = {}

    @classmethod
    def read(cls, database: RowReader, header: Header, data_key: DataKey | None = None) -> StackRows:
        """Return a stack of a database. Raises ``StateError`` if anything is inconsistent.

        An encrypted stack that is read without its ``data_key`` is verified by checksums only and must not be used.
        """
        try:
            tallies = header.content["tallies"]
            stack = cls(header.number, header.state(data_key))
            stack._reset(data_key, {table: position for table, (_, _, position) in tallies.items()})
            stack._load_rows(database, header)
            complete = all(index.matches(tallies[table]) for table, index in stack._indexes.items())
        except (ValueError, TypeError, LookupError) as error:
            raise database.damage(f"the rows of {header.name} cannot be read") from error
        if not complete:
            raise _missing_rows(database, header.name)
        return stack

    @property
    def name(self) -> StackName:
        """The project and stack."""
        return StackName.of(self.state)

    def ids(self, keys: Sequence[RecordKey]) -> list[int] | None:
        """Return the row ids of the records of ``keys``, for the no-change cache; None unless these are all records."""
        return self._indexes["resource"].ids(keys)

    def _load_rows(self, database: RowReader, header: Header) -> None:
        """Read the records, owed refreshes and intents of the stack; bind its secrets to their data key."""
        rows = {table: header.read(database, table) for table in TABLES}
        records = {record.key: record for record in map(unpack, decode_rows(rows["resource"]))}
        if self.data_key is not None:
            # Only rows with a mark of the codec can have secrets: others need not be searched.
            pairs = zip(records.items(), rows["resource"], strict=True)
            with_secrets = {key: record for (key, record), (_, body, _) in pairs if codec.MARK in body}
            self.state = self.data_key.bind_state(self.state._replace(records=with_secrets))
            records |= self.state.records
        owed = unpack_owed(decode_rows(rows["owed"]))
        numbers = [row_id - self.number * SPAN for row_id, _, _ in rows["intent"]]
        for number, intents in zip(numbers, decode_rows(rows["intent"]), strict=True):
            read = (Intent(*columns) for columns in intents)
            self._add_batch(number, [intent._replace(name=hashable_name(intent.name)) for intent in read])
        for table, keys in (("resource", records), ("owed", owed), ("intent", numbers)):
            self._indexes[table].load(keys, rows[table])
        self.state = self.state._replace(records=records, owed=owed, intents=self._intents())

    def record_intents(self, database: RowWriter, intents: Sequence[Intent]) -> None:
        """Write the changes about to be made as one row; they replace former intents for the same resources.

        If the run is killed during these changes, the next one reads from them which resources may have changed.
        """
        if self._batch_of:
            self._remove_intents(database, [intent.key for intent in intents])
        index = self._indexes["intent"]
        number = index.next_position
        self._add_batch(number, intents)
        index.write(database, {number: list(self._batches[number].values())})
        self.state = self.state._replace(intents=self._intents())
        self._write_header(database)

    def commit(self, database: RowWriter, commit: Commit, lineage: str) -> None:
        """Write a commit and remove the intents that it resolves; a stack without a lineage gets this ``lineage``.

        Only the changed rows are written. A commit that only resolves intents leaves the serial as it is.
        """
        if self.data_key is not None:
            put = {record.key: record for record in commit.put}
            part = self.data_key.encrypt_state(self.state._replace(records=put, outputs=commit.outputs or {}))
            commit = commit._replace(put=list(part.records.values()), outputs=commit.outputs and part.outputs)
        before = self.state
        if commit.resolved and self._remove_intents(database, commit.resolved):
            before = before._replace(intents=self._intents())
        if not commit.changes_state:
            self.state = before
        else:
            after = apply_commit(before, commit)
            self.state = after._replace(lineage=before.lineage or lineage, serial=before.serial + 1)
            self._indexes["resource"].delete(database, commit.drop)
            self._write_records(database, commit.put)
            self._write_owed(database, {*commit.drop, *commit.paid, *commit.owed})
        self._write_header(database)

    def overwrite(self, database: RowWriter, state: StackState, data_key: DataKey | None) -> None:
        """Replace all rows by ``state``, as for an import, a new key or another name of the stack.

        Secrets are encrypted with ``data_key``; without one only their digests are written.
        """
        from resource_api.state.encryption.secret_encryption import remove_secrets

        _delete_rows(database, self.number)
        self._reset(data_key)
        state = remove_secrets(state) if data_key is None else data_key.encrypt_state(state)
        self.state = state._replace(intents={})
        self._write_records(database, list(self.state.records.values()))
        self._write_owed(database, set(state.owed))
        if state.intents:
            self.record_intents(database, list(state.intents.values()))
        else:
            self._write_header(database)

    def _write_records(self, database: RowWriter, records: Sequence[Record]) -> None:
        """Write records, some together: the rows of all at once would need too much memory."""
        for batch in batches(records):
            self._indexes["resource"].write(database, {record.key: pack(record) for record in batch})

    def _write_owed(self, database: RowWriter, keys: set[RecordKey]) -> None:
        """Write the owed refreshes of ``keys``, those that a commit has changed, as they are in the state now.

        The row of a refresh that is no longer owed is deleted.
        """
        owed, index = self.state.owed, self._indexes["owed"]
        index.delete(database, [key for key in keys if key not in owed])
        if changed := {key: (*key, owed[key]) for key in owed if key in keys}:
            index.write(database, changed)

    def _add_batch(self, number: int, intents: Iterable[Intent]) -> None:
        """Register intents as those of one row, which is not written here; ``number``: the position of the row."""
        self._batches[number] = {intent.key: intent for intent in intents}
        self._batch_of |= dict.fromkeys(self._batches[number], number)

    def _remove_intents(self, database: RowWriter, keys: Iterable[RecordKey]) -> bool:
        """Remove open intents, whose outcome is recorded now or that new ones replace; return whether there was any.

        A row holds the intents that were recorded together: it is written again without the removed ones, or deleted
        if it has no other.
        """
        changed: dict[int, None] = {}  # a set in the order of ``keys``
        for key in keys:
            number = self._batch_of.pop(key, None)
            if number is not None:
                del self._batches[number][key]
                changed[number] = None
        index = self._indexes["intent"]
        for number in changed:
            if self._batches[number]:
                index.write(database, {number: list(self._batches[number].values())})
            else:
                del self._batches[number]
                index.delete(database, [number])
        return bool(changed)

    def _intents(self) -> dict[RecordKey, Intent]:
        """Return the open intents of all batches."""
        return {key: intent for batch in self._batches.values() for key, intent in batch.items()}

    def _write_header(self, database: RowWriter) -> None:
        """Write the header: the state besides the rows, and the tallies by which a lost row is noticed.

        It is the last write of every change, because each changed row changes a tally.
        """
        state = self.state
        content = {
            "project": state.project,
            "stack": state.stack,
            "lineage": state.lineage,
            "serial": state.serial,
            "manifest": state.manifest,
            "machine": state.machine,
            "outputs": state.outputs,
            "tallies": {table: index.tally for table, index in self._indexes.items()},
        }
        if self.data_key is None:
            content["salt"] = state.salt.hex()
        else:
            content["sealing"] = self.data_key.wrapped
            content["sealed_salt"] = self.data_key.encrypt(state.salt.hex(), content)
        database.write("stack", [make_row(self.number, codec.to_bytes(content))])


class DataKeys:
    """The data keys of one store, each opened once, and the rule which stacks must be encrypted.

    With a user's key every stack must be encrypted: an attacker could have removed the encryption of another. Without
    one an encrypted stack is refused.
    """

    def __init__(self, key: Key | None) -> None:
        """Start without data keys."""
        #: The user's key, which is read when it is first needed, or None.
        self.key = key
        #: Generated for stacks of which nothing is written yet, so that a stack opened twice gets the same one.
        self._new: dict[StackName, DataKey] = {}
        #: By stack and wrapped key: ``rekey`` or another process may have wrapped another one since.
        self._opened: dict[str, DataKey] = {}

    def for_use(self, header: Header) -> DataKey | None:
        """Return the data key of a stack to be used, or None if it is not encrypted.

        Raise ``UsageError`` if the user names no key for an encrypted stack, or a key for one that is not encrypted.
        """
        if header.sealing is None and self.key is not None:
            raise StateNotEncrypted(*header.name, self.key.url)
        return self.for_rekey(header)

    def for_check(self, header: Header) -> DataKey | None:
        """Return the data key of a stack to be verified, or None without one or without the user's key."""
        return self.for_rekey(header) if self.key is not None else None

    def for_rekey(self, header: Header) -> DataKey | None:
        """Return the data key with which a stack is written now, or None if it is not encrypted.

        A stack without encryption is no error here, even with a user's key: ``rekey`` encrypts it. Raises
        ``UsageError`` without its key, ``StateDamaged`` for a key that does not open it.
        """
        if header.sealing is None:
            return None
        identity = repr((header.name, header.sealing))
        if identity not in self._opened:
            try:
                self._opened[identity] = _encryption().open(self.key, header.sealing, f"the state of {header.name}")
            except StateError as error:
                msg = f"{error}; name the right key"
                raise StateDamaged(msg, "restores the newest intact generation, if this key is right") from error
        return self._opened[identity]

    def for_new_stack(self, name: StackName) -> DataKey | None:
        """Return the data key of a new stack, the same for each call until it is written; None without a user's key."""
        if self.key is not None and name not in self._new:
            self._new[name] = _encryption().generate(self.key, f"the state of {name}")
        return self._new.get(name)

    def replace(self, name: StackName, key: Key | None) -> DataKey | None:
        """Use another user's key from now on; return a new data key for a stack, or None without a key.

        The stack is then written again as a whole, under its new key or its new name.
        """
        self.key = key
        self._new.pop(name, None)
        return self.for_new_stack(name)


def _encryption() -> type[DataKey]:
    """Return the class of data keys, imported with the first encrypted stack only: most states are not encrypted."""
    from resource_api.state.encryption.secret_encryption import DataKey

    return DataKey


def limits(number: int) -> tuple[int, int]:
    """Return the lowest id of the rows of a stack, and the one after the highest."""
    return number * SPAN, (number + 1) * SPAN


def remove_rows(database: RowWriter, header: Header) -> None:
    """Delete a stack. Call it within a transaction."""
    _delete_rows(database, header.number)
    database.delete("stack", [header.number])


def _delete_rows(database: RowWriter, number: int) -> None:
    """Delete the rows of a stack, except its header."""
    for table in TABLES:
        database.delete_range(table, *limits(number))


def headers(database: RowReader) -> dict[StackName, Header]:
    """Return the headers of all stacks, by which their rows are located and verified. Raises ``StateError``."""
    rows = database.read("stack")
    stacks = {}
    try:
        for (number, _, _), content in zip(rows, decode_rows(rows), strict=True):
            name = StackName(content["project"], content["stack"])
            stacks[name] = Header(number, name, content)
    except (ValueError, TypeError, LookupError) as error:
        raise database.damage("the header of a stack cannot be read") from error
    return stacks


def verify_checksums(database: RowReader) -> None:
    """Verify structure, rows and tallies of a new copy, without decoding records or a key. Raises ``StateError``."""
    database.check()
    for header in headers(database).values():
        for table, tally in header.content["tallies"].items():
            _, _, next_position = tally
            rows = header.read(database, table)
            index = RowIndex(table, header.number, None, next_position)
            index.load([row_id for row_id, _, _ in rows], rows)
            if not index.matches(tally):
                raise _missing_rows(database, header.name)


def verify(database: RowReader, find_data_key: FindDataKey) -> dict[StackName, StackState]:
    """Read and verify everything, the structure included; return the states, for ``state check`` and a recovery.

    Raises ``StateError`` for any damage. ``find_data_key``: an encrypted stack for which it returns None is verified by
    checksums only.
    """
    database.check()
    return {
        name: StackRows.read(database, header, find_data_key(header)).state
        for name, header in headers(database).items()
    }


def describe_stacks(
    location: str, states: Mapping[StackName, StackState], holder: Callable[[StackName], str]
) -> Iterator[str]:
    """Yield the lines of ``state check`` about a verified store at ``location``, a path or URL.

    ``holder`` returns the run that holds a stack; for "" its open intents are described as in doubt.
    """
    yield f"{location}: every row is intact"
    for name, state in sorted(states.items()):
        line = f"{name}: serial {state.serial}, {counted(len(state.records), 'resource')}"
        if state.owed:
            line += f", {len(state.owed)} refresh{'' if len(state.owed) == 1 else 'es'} owed"
        if state.intents:
            running = holder(name)
            line += f", {counted(len(state.intents), 'change')} {f'under way: {running}' if running else 'in doubt'}"
        yield line


def _missing_rows(database: RowReader, name: StackName) -> StateError:
    """Return the error for a stack whose rows do not match their tally."""
    return database.damage(f"rows of {name} are missing")


def decode_rows(rows: Sequence[Row]) -> Iterator[Any]:
    """Yield the value of each row. Some are decoded together: equal keys then share one text in memory."""
    for start in range(0, len(rows), _BATCH):
        bodies = [body for _, body, _ in rows[start : start + _BATCH]]
        text = (b"[" + b",".join(bodies) + b"]").decode("utf-8", "surrogatepass")
        # Without secrets and other tagged values the plain decoder is enough, and faster.
        yield from codec.decode(text) if codec.MARK.decode() in text else json.loads(text)


class RecordRow(NamedTuple):
    """The columns of a record; a row ends where only defaults follow, and the oldest ones end before ``owned``."""

    type: str
    name: object
    title: str
    inputs: Mapping[str, object]
    #: The difference from ``inputs``, and of ``is_`` from ``should``: the three are mostly equal.
    should: list[object]
    is_: list[object] | None
    owned: bool = False
    requires: Sequence[str] = []
    value_requires: Mapping[str, Sequence[str]] = {}
    protect: bool = NO_LIFECYCLE.protect
    retain: bool = NO_LIFECYCLE.retain
    replace: str | None = NO_LIFECYCLE.replace
    deleted_with: str | None = NO_LIFECYCLE.deleted_with
    external: bool = NO_LIFECYCLE.external
    provider: str | None = None
    schema_version: int = 1
    status: str = "ready"
    parent: str = ""
    last_run: str = ""
    implementation: str | None = None
    successor: str = ""
    changed_at: str = ""
    private: object = None


#: Returns the values of the fields that end both a record and its row, in their order.
_optional_values: Callable[[Record | RecordRow], tuple[Any, ...]] = attrgetter(
    *Record._fields[Record._fields.index("provider") :]
)
#: The values of the columns that may be left out at the end of a row, the last column first.
_DEFAULTS: Final = [value for name, value in reversed(RecordRow._field_defaults.items()) if name != "owned"]


def pack(record: Record) -> list[object]:
    """Return the row of a record in a short form, because a state has thousands of them; ``unpack`` reads it.

    ``should`` is stored as its difference from ``inputs``, ``is_`` as that from ``should``, and values at the end that
    are defaults are omitted.
    """
    row = list(
        RecordRow(
            record.type,
            record.name,
            record.title,
            record.inputs,
            _difference(record.should, record.inputs),
            None if record.is_ is None else _difference(record.is_, record.should),
            record.owned,
            list(record.requires),
            record.value_requires,
            *record.lifecycle,
            *_optional_values(record),
        )
    )
    for default in _DEFAULTS:
        if row[-1] != default:
            break
        row.pop()
    return row


def unpack(columns: Sequence[Any]) -> Record:
    """Return the record of a row. Raises ``ValueError`` or ``TypeError`` for columns not of ``pack``."""
    row = RecordRow(*columns)
    should = _apply_difference(row.inputs, row.should)
    fields: tuple[Any, ...] = (
        intern(row.type),  # one text in memory for each type
        hashable_name(row.name),
        row.name if row.name == row.title else row.title,  # most titles are names: one text for both
        row.inputs,
        should,
        None if row.is_ is None else _apply_difference(should, row.is_),
        row.owned,
        row.requires,
    )
    if len(columns) <= _REQUIRED:  # of a version before ``lifecycle`` and the optional columns
        return Record(*fields)
    lifecycle = RecordedLifecycle(row.protect, row.retain, row.replace, row.deleted_with, row.external)
    return Record._make((*fields, row.value_requires, lifecycle, *_optional_values(row)))


def unpack_owed(rows: Iterable[Any]) -> dict[RecordKey, Sequence[str]]:
    """Return the owed refreshes of all rows, as in ``StackState``: target → references of the sources."""
    return {(instance, hashable_name(name)): sources for instance, name, sources in rows}


def _difference(values: Mapping[str, object], base: Mapping[str, object]) -> list[object]:
    """Return, as a short form of ``values``, the values that ``base`` lacks or has differently, and then missing names.

    ``{"a": 1, "b": 2}`` based on ``{"a": 1, "c": 3}`` is ``[{"b": 2}, "c"]``.
    """
    if values is base:
        return [{}]
    more = {
        name: value
        for name, value in values.items()
        if name not in base or (value is not base[name] and not _are_equal_scalars(value, base[name]))
    }
    return [more, *(name for name in base if name not in values)]


def _apply_difference(base: Mapping[str, object], difference: list[Any]) -> Mapping[str, object]:
    """Return ``base`` with a result of ``_difference`` applied; if that is empty, ``base`` itself, to save memory."""
    if len(difference) == 1 and not difference[0]:
        return base
    changed, *missing = difference
    values = {**base, **changed}
    for name in missing:
        del values[name]
    return values


def _are_equal_scalars(value: object, base: object) -> bool:
    """Return whether two values are equal scalars of one type: 1 and True are not, nor are nested values."""
    return type(value) is type(base) and type(value) in SCALAR_TYPES and bool(value == base)
