"""One stack as rows of a database, and back: what is written where, and how a lost row is noticed.

A row's id is its stack's number and its place in the order, so that a stack's rows lie together. The row of the stack
holds, for each table, how many rows there are and the sum of their checksums: a missing or surplus row shows.
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
from resource_api.model.values.errors import StateError
from resource_api.state.sqlite.database import damage, row
from resource_api.state.sqlite.record_rows import pack, unpack, unpack_intent, unpack_owed
from resource_api.state.store import RECOVER, StackName, merged

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

    from resource_api.model.record import Commit, Intent, Key, Record
    from resource_api.state.encryption.envelope import DataKey
    from resource_api.state.sqlite.database import Database, Row

    #: Gives the vault of a stack, where there is one.
    Finder = Callable[["Header"], DataKey | None]

_TABLES: Final = ("resource", "owed", "intent")
#: So many rows are decoded together.
_TOGETHER: Final = 500
#: Rows per stack and table at most: far more than anybody has.
SPAN: Final = 1 << 40
#: The lower bits of a weight are the row's checksum, which needs no key; above them stands what only a key can tell.
_BITS: Final = 64
_PLAIN: Final = (1 << _BITS) - 1


class Header(NamedTuple):
    """The row of one stack, as it was read."""

    number: int
    name: StackName
    content: Mapping[str, Any]

    @property
    def last(self) -> tuple[str, int]:
        """Its lineage and serial."""
        return self.content["lineage"], self.content["serial"]

    @property
    def sealing(self) -> Mapping[str, Any] | None:
        """The wrapped data key of a stack that is encrypted."""
        return self.content.get("sealing")

    def salt(self, vault: DataKey | None) -> bytes:
        """Give the salt; of an encrypted stack it is bound to all the rest of its row, which is proven by it."""
        if vault is not None:
            rest = {key: value for key, value in self.content.items() if key != "sealed_salt"}
            try:
                return bytes.fromhex(vault.decrypt(self.content["sealed_salt"], rest))
            except StateError as error:
                msg = f"{error}; {RECOVER}"
                raise StateError(msg) from error
        return b"" if self.sealing is not None else bytes.fromhex(self.content["salt"])

    def state(self, vault: DataKey | None = None) -> StackState:
        """Give what the row itself says of the stack, which has no records then."""
        made = StackState(*self.name, *self.last, self.content["manifest"], self.salt(vault))
        outputs = self.content["outputs"] if vault is None else vault.found_outputs(self.name, self.content["outputs"])
        return made._replace(outputs=outputs, encrypted=self.sealing is not None)


class Table:
    """The rows of one stack in one table: which key is where, and the sum of their weights."""

    def __init__(self, name: str, number: int, top: int = 0, vault: DataKey | None = None) -> None:
        """Begin empty; ``top`` is the next free place."""
        self.name = name
        self._vault = vault
        self._base = number * SPAN
        self._top = top
        self._total = 0
        self._places: dict[Hashable, tuple[int, int]] = {}

    @property
    def tally(self) -> list[int]:
        """How many rows, the sum of their weights, the next free place."""
        return [len(self._places), self._total, self._top]

    def fill(self, keys: Iterable[Hashable], rows: Sequence[Row]) -> None:
        """Take over what was read."""
        weights = self._weights(rows)
        self._places = dict(zip(keys, zip([each[0] for each in rows], weights, strict=True), strict=True))
        self._total = reduce(xor, weights, 0)

    def places(self, keys: Sequence[Hashable]) -> list[int] | None:
        """Give the row of each of ``keys``; None unless these are all there are."""
        if len(keys) != len(self._places) or not self._places.keys() >= set(keys):
            return None
        return [self._places[key][0] for key in keys]

    def agrees(self, tally: Sequence[int]) -> bool:
        """Whether the rows are those that a tally was made of, as far as it can be told without or with the key."""
        count, weights, top = self.tally
        return [count, weights, top] == [tally[0], plain(tally[1]) if self._vault is None else tally[1], tally[2]]

    def put(self, database: Database, values: Mapping[Any, Any]) -> None:
        """Write values by key; one that was there keeps its place."""
        ids, gone = [], []
        for key in values:
            if key in self._places:
                row_id, weight = self._places[key]
                gone.append(weight)
            else:
                row_id = self._base + self._top
                self._top += 1
            ids.append(row_id)
        rows = list(map(row, ids, map(_spelled, codec.encode_all(list(values.values())))))
        weights = self._weights(rows)
        self._places.update(zip(values, zip(ids, weights, strict=True), strict=True))
        self._total = reduce(xor, [*gone, *weights], self._total)
        database.put(self.name, rows)

    def drop(self, database: Database, keys: Iterable[Hashable]) -> None:
        """Remove keys; one that is not there is no error."""
        gone = [self._places.pop(key) for key in dict.fromkeys(keys) if key in self._places]
        self._total = reduce(xor, (weight for _, weight in gone), self._total)
        if gone:
            database.drop(self.name, (row_id for row_id, _ in gone))

    def _weights(self, rows: Sequence[Row]) -> list[int]:
        if self._vault is None:
            return [checksum for _, _, checksum in rows]
        return [self._vault.proof(self.name, each) << _BITS | each[2] for each in rows]


class Stack:
    """What is known of one stack, and where its rows are; each change is one call within a transaction.

    After a call that raises, it no longer says what is written: read it again.
    """

    def __init__(
        self, number: int, state: StackState, vault: DataKey | None = None, tops: Mapping[str, int] | None = None
    ) -> None:
        """Begin with ``state`` as known and no rows; with a ``vault`` its secrets are kept, and every row is proven."""
        self.number = number
        self.state = state
        self.vault = vault
        self._tables = {name: Table(name, number, (tops or {}).get(name, 0), vault) for name in _TABLES}
        #: Intents were noted in batches, of which each is a row.
        self._batches: dict[int, dict[Key, Intent]] = {}
        self._batch: dict[Key, int] = {}

    @classmethod
    def read(cls, database: Database, header: Header, vault: DataKey | None = None) -> Stack:
        """Give a stack as it is written. Raises ``StateError`` for anything that does not fit together.

        One that is encrypted and read without its ``vault`` is verified as far as that goes, and not to be used.
        """
        content = header.content
        try:
            state = header.state(vault)
            stack = cls(header.number, state, vault, {name: tally[2] for name, tally in content["tallies"].items()})
            stack._fill(database)
            whole = all(table.agrees(content["tallies"][name]) for name, table in stack._tables.items())
        except (ValueError, TypeError, LookupError) as error:
            raise damage(database.path, f"what is recorded of {header.name.project} cannot be read") from error
        if not whole:
            raise _missing(database, header.name)
        return stack

    def places(self, keys: Sequence[Key]) -> list[int] | None:
        """Give the rows of records; None unless ``keys`` are those of all records."""
        return self._tables["resource"].places(keys)

    def _fill(self, database: Database) -> None:
        records: dict[Key, Record] = {}
        owed: dict[Key, Sequence[str]] = {}
        for name, table in self._tables.items():
            rows = database.read(name, self.number * SPAN, (self.number + 1) * SPAN)
            values = to_values(rows)
            if name == "resource":
                records = {entry.key: entry for entry in map(unpack, values)}
                if self.vault is not None:
                    self._place(self.vault, records, rows)
                table.fill(records, rows)
            elif name == "owed":
                table.fill(owed := unpack_owed(values), rows)
            else:
                numbers = [row_id - self.number * SPAN for row_id, _, _ in rows]
                table.fill(numbers, rows)
                for batch, intents in zip(numbers, values, strict=True):
                    self._note(batch, map(unpack_intent, intents))
        self.state = self.state._replace(records=records, owed=owed, intents=self._intents())

    def _place(self, vault: DataKey, records: dict[Key, Record], rows: Sequence[Row]) -> None:
        """Tell the secrets of the records that have any where they are, so that they can be opened."""
        for (key, record), (_, body, _) in zip(list(records.items()), rows, strict=True):
            if codec.MARK in body:
                records[key] = vault.found(self._name, record)

    @property
    def _name(self) -> StackName:
        return StackName(self.state.project, self.state.stack)

    def record_intents(self, database: Database, intents: Sequence[Intent]) -> None:
        """Write what is about to be changed, as one row."""
        self._settle(database, [intent.key for intent in intents] if self._batch else [])
        table = self._tables["intent"]
        batch = table.tally[2]
        self._note(batch, intents)
        table.put(database, {batch: list(self._batches[batch].values())})
        self.state = self.state._replace(intents=self._intents())
        self._save(database)

    def commit(self, database: Database, commit: Commit, lineage: str) -> None:
        """Write a commit; ``lineage`` is for the first one."""
        before = self.state
        if self.vault is not None:
            commit = self._kept(self.vault, commit)
        if commit.done and self._settle(database, commit.done):
            before = before._replace(intents=self._intents())
        if commit.empty:
            self.state = before
        else:
            after = merged(before, commit)
            self.state = after._replace(lineage=before.lineage or lineage, serial=before.serial + 1)
            self._tables["resource"].drop(database, commit.drop)
            self._put(database, commit.put)
            self._write_owed(database, {*commit.drop, *commit.paid, *commit.owed})
        self._save(database)

    def _kept(self, vault: DataKey, commit: Commit) -> Commit:
        """Give a commit with the secrets in it encrypted."""
        put = [vault.kept(self._name, record) for record in commit.put]
        outputs = commit.outputs and vault.kept_outputs(self._name, commit.outputs)
        return commit._replace(put=put, outputs=outputs)

    def overwrite(self, database: Database, state: StackState, vault: DataKey | None) -> None:
        """Write a whole state in place of what there is, encrypted with ``vault`` or with no secret in it."""
        from resource_api.state.encryption.envelope import rewritten  # noqa: PLC0415 - rare

        for name in self._tables:
            database.drop_range(name, self.number * SPAN, (self.number + 1) * SPAN)
        state = rewritten(state, self._name, vault)
        fresh = Stack(self.number, state._replace(intents={}), vault)
        fresh._put(database, list(state.records.values()))
        fresh._write_owed(database, set(state.owed))
        self.__dict__.update(fresh.__dict__)
        if state.intents:
            self.record_intents(database, list(state.intents.values()))
        else:
            self._save(database)

    def _put(self, database: Database, records: Sequence[Record]) -> None:
        for some in batches(records):
            self._tables["resource"].put(database, {record.key: pack(record) for record in some})

    def _write_owed(self, database: Database, keys: set[Key]) -> None:
        owed = self.state.owed
        table = self._tables["owed"]
        if gone := [key for key in keys if key not in owed]:
            table.drop(database, gone)
        if kept := {key: (*key, owed[key]) for key in owed if key in keys}:
            table.put(database, kept)

    def _settle(self, database: Database, keys: Iterable[Key]) -> bool:
        """Take intents off their batches; whether there were any."""
        touched: dict[int, None] = {}
        for key in keys:
            batch = self._batch.pop(key, None)
            if batch is not None:
                del self._batches[batch][key]
                touched[batch] = None
        table = self._tables["intent"]
        for batch in touched:
            if self._batches[batch]:
                table.put(database, {batch: list(self._batches[batch].values())})
            else:
                del self._batches[batch]
                table.drop(database, [batch])
        return bool(touched)

    def _note(self, batch: int, intents: Iterable[Intent]) -> None:
        self._batches[batch] = {intent.key: intent for intent in intents}
        self._batch |= dict.fromkeys(self._batches[batch], batch)

    def _intents(self) -> dict[Key, Intent]:
        return {key: intent for batch in self._batches.values() for key, intent in batch.items()}

    def _save(self, database: Database) -> None:
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
        if self.vault is None:
            content["salt"] = state.salt.hex()
        else:
            content["sealing"] = self.vault.wrapped
            content["sealed_salt"] = self.vault.encrypt(state.salt.hex(), content)
        database.put("stack", [row(self.number, to_bytes(content))])


def headers(database: Database) -> dict[StackName, Header]:
    """Give the rows of all stacks. Raises ``StateError``."""
    rows = database.read("stack")
    found = {}
    try:
        for (number, _, _), content in zip(rows, to_values(rows), strict=True):
            name = StackName(content["project"], content["stack"])
            found[name] = Header(number, name, content)
    except (ValueError, TypeError, LookupError) as error:
        raise damage(database.path, "a stack's row cannot be read") from error
    return found


def verify_sums(database: Database) -> None:
    """Verify structure, rows and sums without looking into the rows. Raises ``StateError``."""
    database.check()
    for header in headers(database).values():
        for name, (count, weights, _) in header.content["tallies"].items():
            rows = database.read(name, header.number * SPAN, (header.number + 1) * SPAN)
            if [len(rows), total(rows)] != [count, plain(weights)]:
                raise _missing(database, header.name)


def keyless(_header: Header) -> None:
    """Give no vault for any stack."""


def verify(database: Database, vault: Finder = keyless) -> dict[StackName, StackState]:
    """Read everything, structure included; gives what is known. Raises ``StateError``.

    What is encrypted is verified as far as there is a ``vault`` for it.
    """
    database.check()
    return {name: Stack.read(database, each, vault(each)).state for name, each in headers(database).items()}


def _missing(database: Database, name: StackName) -> StateError:
    return damage(database.path, f"rows of project {name.project}, stack {name.stack} are missing")


def to_values(rows: Sequence[Row]) -> Iterator[Any]:
    """Decode many rows together, which shares the text of equal keys, yet never all: that would double the memory."""
    for start in range(0, len(rows), _TOGETHER):
        bodies = [body for _, body, _ in rows[start : start + _TOGETHER]]
        text = (b"[" + b",".join(bodies) + b"]").decode("utf-8", "surrogatepass")
        yield from codec.decode(text) if "$resource_api" in text else json.loads(text)


def plain(weights: int) -> int:
    """Give the part of a sum of weights that needs no key: the sum of the checksums."""
    return weights & _PLAIN


def total(rows: Sequence[Row]) -> int:
    """Give the sum of the rows' checksums."""
    return reduce(xor, [checksum for _, _, checksum in rows], 0)


def to_bytes(value: Any) -> bytes:
    """Give what a row keeps of a value. Raises ``TypeError`` for an unknown or a secret in clear."""
    return _spelled(codec.encode(value))


def _spelled(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
