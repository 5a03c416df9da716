"""One stack as rows of a database, and back: what is written where, and how a lost row is noticed.

A row's id is its stack's number and its place in the order, so that a stack's rows lie together. The row of the stack
holds, for each table, how many rows there are and the sum of their checksums: a missing or surplus row shows.
"""

from __future__ import annotations

import json
from functools import reduce
from operator import xor
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from resource_api.contract.state import StackName, merged
from resource_api.hands.database import damage, row
from resource_api.nouns import codec
from resource_api.nouns.record import Intent, Record, StackState

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from resource_api.hands.database import Database, Row
    from resource_api.nouns.errors import StateError
    from resource_api.nouns.record import Commit, Key

#: Rows per stack and table at most: far more than anybody has.
SPAN: Final = 1 << 40


class Header(NamedTuple):
    """The row of one stack, as it was read."""

    number: int
    name: StackName
    content: Mapping[str, Any]

    @property
    def last(self) -> tuple[str, int]:
        """Its lineage and serial."""
        return self.content["lineage"], self.content["serial"]


class Table:
    """The rows of one stack in one table: which key is where, and the sum of their checksums."""

    def __init__(self, name: str, number: int, top: int = 0) -> None:
        """Begin empty; ``top`` is the next free place."""
        self.name = name
        self._base = number * SPAN
        self._top = top
        self._total = 0
        self._places: dict[Hashable, tuple[int, int]] = {}

    @property
    def tally(self) -> list[int]:
        """How many rows, the sum of their checksums, the next free place."""
        return [len(self._places), self._total, self._top]

    def fill(self, keys: Iterable[Hashable], rows: Sequence[Row]) -> None:
        """Take over what was read."""
        self._places = {key: (row_id, checksum) for key, (row_id, _, checksum) in zip(keys, rows, strict=True)}
        self._total = _sum(rows)

    def put(self, database: Database, items: Iterable[tuple[Hashable, Any]]) -> None:
        """Write values by key; one that was there keeps its place."""
        rows, places, total = [], self._places, self._total
        for key, value in items:
            place = places.get(key)
            if place is None:
                row_id = self._base + self._top
                self._top += 1
            else:
                row_id = place[0]
                total ^= place[1]
            made = row(row_id, to_bytes(value))
            total ^= made[2]
            places[key] = row_id, made[2]
            rows.append(made)
        self._total = total
        database.put(self.name, rows)

    def drop(self, database: Database, keys: Iterable[Hashable]) -> None:
        """Remove keys; one that is not there is no error."""
        gone = [self._places.pop(key) for key in dict.fromkeys(keys) if key in self._places]
        self._total = reduce(xor, (checksum for _, checksum in gone), self._total)
        if gone:
            database.drop(self.name, (row_id for row_id, _ in gone))


class Stack:
    """What is known of one stack, and where its rows are; each change is one call within a transaction.

    After a call that raises, it no longer says what is written: read it again.
    """

    def __init__(self, number: int, state: StackState, tops: Mapping[str, int] | None = None) -> None:
        """Begin with ``state`` as known and no rows."""
        self.number = number
        self.state = state
        self._tables = {name: Table(name, number, (tops or {}).get(name, 0)) for name in ("resource", "owed", "intent")}
        #: Intents were noted in batches, of which each is a row.
        self._batches: dict[int, dict[Key, Intent]] = {}
        self._batch: dict[Key, int] = {}

    @classmethod
    def read(cls, database: Database, header: Header) -> Stack:
        """Give a stack as it is written. Raises ``StateError`` for anything that does not fit together."""
        content = header.content
        try:
            state = StackState(
                header.name.project,
                header.name.stack,
                *header.last,
                content["manifest"],
                bytes.fromhex(content["salt"]),
                outputs=content["outputs"],
            )
            stack = cls(header.number, state, {name: tally[2] for name, tally in content["tallies"].items()})
            stack._fill(database)
            whole = {name: table.tally for name, table in stack._tables.items()} == content["tallies"]
        except (ValueError, TypeError, LookupError) as error:
            raise damage(database.path, f"what is recorded of {header.name.project} cannot be read") from error
        if not whole:
            raise _missing(database, header.name)
        return stack

    def _fill(self, database: Database) -> None:
        records: dict[Key, Record] = {}
        owed: dict[Key, Sequence[str]] = {}
        for name, table in self._tables.items():
            rows = database.read(name, self.number * SPAN, (self.number + 1) * SPAN)
            values = to_values(rows)
            if name == "resource":
                records = {entry.key: entry for entry in map(_record, values)}
                table.fill(records, rows)
            elif name == "owed":
                owed = {(kind, _name(key)): sources for kind, key, sources in values}
                table.fill(owed, rows)
            else:
                numbers = [row_id - self.number * SPAN for row_id, _, _ in rows]
                table.fill(numbers, rows)
                for batch, intents in zip(numbers, values, strict=True):
                    self._note(batch, map(_intent, intents))
        self.state = self.state._replace(records=records, owed=owed, intents=self._intents())

    def intend(self, database: Database, intents: Sequence[Intent]) -> None:
        """Write what is about to be changed, as one row."""
        self._settle(database, [intent.key for intent in intents])
        table = self._tables["intent"]
        batch = table.tally[2]
        self._note(batch, intents)
        table.put(database, [(batch, list(self._batches[batch].values()))])
        self.state = self.state._replace(intents=self._intents())
        self._save(database)

    def commit(self, database: Database, commit: Commit, lineage: str) -> None:
        """Write a commit; ``lineage`` is for the first one."""
        before = self.state
        if commit.done and self._settle(database, commit.done):
            before = before._replace(intents=self._intents())
        if commit.empty:
            self.state = before
        else:
            after = merged(before, commit)
            self.state = after._replace(lineage=before.lineage or lineage, serial=before.serial + 1)
            self._tables["resource"].drop(database, commit.drop)
            self._tables["resource"].put(database, ((entry.key, entry) for entry in commit.put))
            self._write_owed(database, {*commit.drop, *commit.paid, *commit.owed})
        self._save(database)

    def overwrite(self, database: Database, state: StackState) -> None:
        """Write a whole state in place of what there is."""
        for name in self._tables:
            database.drop_range(name, self.number * SPAN, (self.number + 1) * SPAN)
        fresh = Stack(self.number, state._replace(intents={}))
        fresh._tables["resource"].put(database, ((entry.key, entry) for entry in state.records.values()))
        fresh._write_owed(database, set(state.owed))
        self.__dict__.update(fresh.__dict__)
        if state.intents:
            self.intend(database, list(state.intents.values()))
        else:
            self._save(database)

    def _write_owed(self, database: Database, keys: set[Key]) -> None:
        owed = self.state.owed
        table = self._tables["owed"]
        if gone := [key for key in keys if key not in owed]:
            table.drop(database, gone)
        if kept := [(key, (*key, owed[key])) for key in owed if key in keys]:
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
                table.put(database, [(batch, list(self._batches[batch].values()))])
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
            "salt": state.salt.hex(),
            "outputs": state.outputs,
            "tallies": {name: table.tally for name, table in self._tables.items()},
        }
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
        for name, (count, total, _) in header.content["tallies"].items():
            rows = database.read(name, header.number * SPAN, (header.number + 1) * SPAN)
            if [len(rows), _sum(rows)] != [count, total]:
                raise _missing(database, header.name)


def verify(database: Database) -> dict[StackName, StackState]:
    """Read everything, structure included; gives what is known. Raises ``StateError``."""
    database.check()
    return {name: Stack.read(database, header).state for name, header in headers(database).items()}


def _missing(database: Database, name: StackName) -> StateError:
    return damage(database.path, f"rows of project {name.project}, stack {name.stack} are missing")


def _sum(rows: Sequence[Row]) -> int:
    return reduce(xor, [checksum for _, _, checksum in rows], 0)


def to_bytes(value: Any) -> bytes:
    """Give what a row keeps of a value. Raises ``TypeError`` for an unknown or a secret in clear."""
    return codec.encode(value).encode("utf-8", "surrogatepass")


def to_values(rows: Sequence[Row]) -> list[Any]:
    """Decode many rows at once, which shares the text of equal keys."""
    text = (b"[" + b",".join([body for _, body, _ in rows]) + b"]").decode("utf-8", "surrogatepass")
    values: list[Any] = codec.decode(text) if "$resource_api" in text else json.loads(text)
    return values


def _record(values: list[Any]) -> Record:
    if type(values[1]) is list:
        values[1] = tuple(values[1])
    return Record._make(values)


def _intent(values: list[Any]) -> Intent:
    run, kind, name, *more = values
    return Intent(run, kind, _name(name), *more)


def _name(name: Any) -> Any:
    return tuple(name) if isinstance(name, list) else name
