"""The rows of one stack in one table: which key is where, and their sum, by which a lost row is noticed.

What a row means does not enter here.
"""

from __future__ import annotations

from functools import reduce
from operator import xor
from typing import TYPE_CHECKING, Any, Final

from resource_api.model import codec
from resource_api.state.sqlite.database import row

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from resource_api.state.encryption.vault import Vault
    from resource_api.state.sqlite.database import Database, Row

#: Rows per stack and table at most: far more than anybody has.
SPAN: Final = 1 << 40
#: The lower bits of a weight are the row's checksum, which needs no key; above them stands what only a key can tell.
_BITS: Final = 64
_PLAIN: Final = (1 << _BITS) - 1


class Table:
    """The rows of one stack in one table: which key is where, and the sum of their weights."""

    def __init__(self, name: str, number: int, top: int = 0, vault: Vault | None = None) -> None:
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
