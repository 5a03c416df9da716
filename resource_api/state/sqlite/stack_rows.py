"""One stack as rows of a database: what is written where, and how a lost or altered row is noticed.

A row's id is composed of the number of its stack and its position, so that the rows of a stack are adjacent. The
header, which is the stack's row in table ``stack``, holds a tally of each other table: the number of its rows and the
XOR of their checksums. The content of a record's row is another module's.
"""

from __future__ import annotations

import json
from functools import reduce
from operator import xor
from typing import TYPE_CHECKING, Any, Final

from resource_api.model import codec
from resource_api.model.record import StackState
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.columnar import batches
from resource_api.model.values.errors import StateDamaged, StateError
from resource_api.state.sqlite.database import damage, make_row
from resource_api.state.sqlite.record_rows import pack, unpack, unpack_intent, unpack_owed
from resource_api.state.store import StackName, apply_commit

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

    from resource_api.model.record import Commit, Intent, Record, RecordKey
    from resource_api.state.encryption.envelope import DataKey
    from resource_api.state.sqlite.database import Database, Row
    from resource_api.state.sqlite.marker import Version

    #: Returns the data key of an encrypted stack, or None.
    FindDataKey = Callable[["Header"], DataKey | None]

_TABLES: Final = ("resource", "owed", "intent")
#: How many rows are decoded together.
_TOGETHER: Final = 500
#: The maximum of rows per stack and table.
SPAN: Final = 1 << 40
#: The lower bits of a row's weight are its checksum; the bits above are its authentication code, if there is a key.
_CHECKSUM_BITS: Final = 64
_CHECKSUM: Final = (1 << _CHECKSUM_BITS) - 1


class Header(NamedTuple):
    """The header of one stack as it was read."""

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
    def sealing(self) -> Mapping[str, Any] | None:
        """The wrapped data key of an encrypted stack."""
        return self.content.get("sealing")

    def salt(self, data_key: DataKey | None) -> bytes:
        """Return the salt. That of an encrypted stack is bound to the rest of the header and authenticates it."""
        if data_key is not None:
            rest = {key: value for key, value in self.content.items() if key != "sealed_salt"}
            try:
                return bytes.fromhex(data_key.decrypt(self.content["sealed_salt"], rest))
            except StateError as error:
                raise StateDamaged(str(error)) from error
        return b"" if self.sealing is not None else bytes.fromhex(self.content["salt"])

    def state(self, data_key: DataKey | None = None) -> StackState:
        """Return the part of the state that is in the header: no records, owed refreshes or intents."""
        outputs = self.content["outputs"]
        return StackState(
            *self.name,
            *self.version,
            manifest=self.content["manifest"],
            salt=self.salt(data_key),
            outputs=outputs if data_key is None else data_key.bind_outputs(self.name, outputs),
            encrypted=self.sealing is not None,
        )


class Table:
    """The rows of one stack in one table: the id of each key, and the tally of all rows."""

    def __init__(self, name: str, number: int, next_position: int, data_key: DataKey | None) -> None:
        """Start without rows."""
        self.name = name
        self._data_key = data_key
        self._base = number * SPAN
        self._next = next_position
        self._total = 0
        #: Id and weight by key.
        self._rows: dict[Hashable, tuple[int, int]] = {}

    @property
    def tally(self) -> list[int]:
        """The number of rows, the XOR of their weights, the next free position."""
        return [len(self._rows), self._total, self._next]

    def load(self, keys: Iterable[Hashable], rows: Sequence[Row]) -> None:
        """Register rows that were read."""
        weights = self._weights(rows)
        self._rows = dict(zip(keys, zip([row_id for row_id, _, _ in rows], weights, strict=True), strict=True))
        self._total = reduce(xor, weights, 0)

    def ids(self, keys: Sequence[Hashable]) -> list[int] | None:
        """Return the row ids of ``keys``; None unless they are all keys of the table."""
        if len(keys) != len(self._rows) or not self._rows.keys() >= set(keys):
            return None
        return [self._rows[key][0] for key in keys]

    def matches(self, tally: Sequence[int]) -> bool:
        """Whether the rows are those of a tally; without a data key only their checksums are compared."""
        count, total, position = tally
        return self.tally == [count, total & _CHECKSUM if self._data_key is None else total, position]

    def write(self, database: Database, values: Mapping[Any, Any]) -> None:
        """Write values by key; a known key keeps its position."""
        ids, replaced = [], []
        for key in values:
            if key in self._rows:
                row_id, weight = self._rows[key]
                replaced.append(weight)
            else:
                row_id = self._base + self._next
                self._next += 1
            ids.append(row_id)
        rows = list(map(make_row, ids, map(_encode_text, codec.encode_all(list(values.values())))))
        weights = self._weights(rows)
        self._rows.update(zip(values, zip(ids, weights, strict=True), strict=True))
        self._total = reduce(xor, [*replaced, *weights], self._total)
        database.write(self.name, rows)

    def delete(self, database: Database, keys: Iterable[Hashable]) -> None:
        """Delete the rows of ``keys``; unknown keys are ignored."""
        deleted = [self._rows.pop(key) for key in dict.fromkeys(keys) if key in self._rows]
        self._total = reduce(xor, (weight for _, weight in deleted), self._total)
        if deleted:
            database.delete(self.name, (row_id for row_id, _ in deleted))

    def _weights(self, rows: Sequence[Row]) -> list[int]:
        if self._data_key is None:
            return [checksum for _, _, checksum in rows]
        return [self._data_key.authenticate(self.name, row) << _CHECKSUM_BITS | row[2] for row in rows]


class Stack:
    """The state of one stack and the position of its rows. Each change is one call within a transaction.

    After a call that raised, the object may differ from what is written: read it again.
    """

    def __init__(self, number: int, state: StackState, data_key: DataKey | None = None) -> None:
        """Start with ``state`` and no rows. With a ``data_key`` secrets are kept encrypted and rows authenticated."""
        self.number = number
        self.state = state
        self._reset(data_key)

    def _reset(self, data_key: DataKey | None, positions: Mapping[str, int] | None = None) -> None:
        self.data_key = data_key
        self._tables = {name: Table(name, self.number, (positions or {}).get(name, 0), data_key) for name in _TABLES}
        #: The intents that were recorded together are one row.
        self._batches: dict[int, dict[RecordKey, Intent]] = {}
        self._batch_of: dict[RecordKey, int] = {}

    @classmethod
    def read(cls, database: Database, header: Header, data_key: DataKey | None = None) -> Stack:
        """Return a stack as it is written. Raises ``StateError`` if anything is inconsistent.

        An encrypted stack that is read without its ``data_key`` is verified by checksums only and must not be used.
        """
        try:
            tallies = header.content["tallies"]
            stack = cls(header.number, header.state(data_key))
            stack._reset(data_key, {name: position for name, (_, _, position) in tallies.items()})
            stack._load_rows(database)
            intact = all(table.matches(tallies[name]) for name, table in stack._tables.items())
        except (ValueError, TypeError, LookupError) as error:
            raise damage(database.path, f"the rows of {header.name} cannot be read") from error
        if not intact:
            raise _missing_rows(database, header.name)
        return stack

    @property
    def name(self) -> StackName:
        """The project and stack."""
        return StackName.of(self.state)

    def ids(self, keys: Sequence[RecordKey]) -> list[int] | None:
        """Return the row ids of the records of ``keys``; None unless these are the keys of all records."""
        return self._tables["resource"].ids(keys)

    def _load_rows(self, database: Database) -> None:
        rows = {name: database.read(name, self.number * SPAN, (self.number + 1) * SPAN) for name in _TABLES}
        records = {record.key: record for record in map(unpack, decode_rows(rows["resource"]))}
        if self.data_key is not None:
            for (key, record), (_, body, _) in zip(list(records.items()), rows["resource"], strict=True):
                if codec.MARK in body:
                    records[key] = self.data_key.bind_record(self.name, record)
        owed = unpack_owed(decode_rows(rows["owed"]))
        numbers = [row_id - self.number * SPAN for row_id, _, _ in rows["intent"]]
        for number, intents in zip(numbers, decode_rows(rows["intent"]), strict=True):
            self._add_batch(number, map(unpack_intent, intents))
        for name, keys in (("resource", records), ("owed", owed), ("intent", numbers)):
            self._tables[name].load(keys, rows[name])
        self.state = self.state._replace(records=records, owed=owed, intents=self._intents())

    def record_intents(self, database: Database, intents: Sequence[Intent]) -> None:
        """Write the changes about to be made as one row."""
        if self._batch_of:
            self._remove_intents(database, [intent.key for intent in intents])
        table = self._tables["intent"]
        _, _, number = table.tally
        self._add_batch(number, intents)
        table.write(database, {number: list(self._batches[number].values())})
        self.state = self.state._replace(intents=self._intents())
        self._write_header(database)

    def commit(self, database: Database, commit: Commit, lineage: str) -> None:
        """Write a commit; ``lineage`` is that of a stack without one."""
        if self.data_key is not None:
            put = [self.data_key.encrypt_record(self.name, record) for record in commit.put]
            outputs = commit.outputs and self.data_key.encrypt_outputs(self.name, commit.outputs)
            commit = commit._replace(put=put, outputs=outputs)
        before = self.state
        if commit.done and self._remove_intents(database, commit.done):
            before = before._replace(intents=self._intents())
        if commit.empty:
            self.state = before
        else:
            after = apply_commit(before, commit)
            self.state = after._replace(lineage=before.lineage or lineage, serial=before.serial + 1)
            self._tables["resource"].delete(database, commit.drop)
            self._write_records(database, commit.put)
            self._write_owed(database, {*commit.drop, *commit.paid, *commit.owed})
        self._write_header(database)

    def overwrite(self, database: Database, state: StackState, data_key: DataKey | None) -> None:
        """Replace all rows by ``state``, encrypted with ``data_key``, or with digests instead of secrets."""
        from resource_api.state.encryption.envelope import remove_secrets

        for name in _TABLES:
            database.delete_range(name, self.number * SPAN, (self.number + 1) * SPAN)
        self._reset(data_key)
        state = remove_secrets(state) if data_key is None else data_key.encrypt_state(state)
        self.state = state._replace(intents={})
        self._write_records(database, list(self.state.records.values()))
        self._write_owed(database, set(state.owed))
        if state.intents:
            self.record_intents(database, list(state.intents.values()))
        else:
            self._write_header(database)

    def _write_records(self, database: Database, records: Sequence[Record]) -> None:
        for some in batches(records):
            self._tables["resource"].write(database, {record.key: pack(record) for record in some})

    def _write_owed(self, database: Database, keys: set[RecordKey]) -> None:
        owed, table = self.state.owed, self._tables["owed"]
        table.delete(database, [key for key in keys if key not in owed])
        if changed := {key: (*key, owed[key]) for key in owed if key in keys}:
            table.write(database, changed)

    def _add_batch(self, number: int, intents: Iterable[Intent]) -> None:
        self._batches[number] = {intent.key: intent for intent in intents}
        self._batch_of |= dict.fromkeys(self._batches[number], number)

    def _remove_intents(self, database: Database, keys: Iterable[RecordKey]) -> bool:
        """Remove intents from their batches; return whether there were any."""
        changed: dict[int, None] = {}
        for key in keys:
            number = self._batch_of.pop(key, None)
            if number is not None:
                del self._batches[number][key]
                changed[number] = None
        table = self._tables["intent"]
        for number in changed:
            if self._batches[number]:
                table.write(database, {number: list(self._batches[number].values())})
            else:
                del self._batches[number]
                table.delete(database, [number])
        return bool(changed)

    def _intents(self) -> dict[RecordKey, Intent]:
        return {key: intent for batch in self._batches.values() for key, intent in batch.items()}

    def _write_header(self, database: Database) -> None:
        state = self.state
        content = {
            "project": state.project,
            "stack": state.stack,
            "lineage": state.lineage,
            "serial": state.serial,
            "manifest": state.manifest,
            "outputs": state.outputs,
            "tallies": {name: table.tally for name, table in self._tables.items()},
        }
        if self.data_key is None:
            content["salt"] = state.salt.hex()
        else:
            content["sealing"] = self.data_key.wrapped
            content["sealed_salt"] = self.data_key.encrypt(state.salt.hex(), content)
        database.write("stack", [make_row(self.number, to_bytes(content))])


def remove_rows(database: Database, header: Header) -> None:
    """Delete a stack. Call it within a transaction."""
    for name in _TABLES:
        database.delete_range(name, header.number * SPAN, (header.number + 1) * SPAN)
    database.delete("stack", [header.number])


def headers(database: Database) -> dict[StackName, Header]:
    """Return the headers of all stacks. Raises ``StateError``."""
    rows = database.read("stack")
    found = {}
    try:
        for (number, _, _), content in zip(rows, decode_rows(rows), strict=True):
            name = StackName(content["project"], content["stack"])
            found[name] = Header(number, name, content)
    except (ValueError, TypeError, LookupError) as error:
        raise damage(database.path, "the header of a stack cannot be read") from error
    return found


def verify_checksums(database: Database) -> None:
    """Verify the structure, the rows and the tallies without decoding records. Raises ``StateError``."""
    database.check()
    for header in headers(database).values():
        for name, (count, total, _) in header.content["tallies"].items():
            rows = database.read(name, header.number * SPAN, (header.number + 1) * SPAN)
            if [len(rows), reduce(xor, [checksum for _, _, checksum in rows], 0)] != [count, total & _CHECKSUM]:
                raise _missing_rows(database, header.name)


def verify(database: Database, find_data_key: FindDataKey) -> dict[StackName, StackState]:
    """Read everything, the structure included; return the states. Raises ``StateError``.

    An encrypted stack without a data key is verified by checksums only.
    """
    database.check()
    return {
        name: Stack.read(database, header, find_data_key(header)).state for name, header in headers(database).items()
    }


def _missing_rows(database: Database, name: StackName) -> StateError:
    return damage(database.path, f"rows of {name} are missing")


def decode_rows(rows: Sequence[Row]) -> Iterator[Any]:
    """Yield the value of each row; decoding some together shares the text of equal keys and bounds the memory."""
    for start in range(0, len(rows), _TOGETHER):
        bodies = [body for _, body, _ in rows[start : start + _TOGETHER]]
        text = (b"[" + b",".join(bodies) + b"]").decode("utf-8", "surrogatepass")
        yield from codec.decode(text) if codec.MARK.decode() in text else json.loads(text)


def to_bytes(value: Any) -> bytes:
    """Return the content of a row. Raises ``TypeError`` for an unknown value or a secret in clear."""
    return _encode_text(codec.encode(value))


def _encode_text(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
