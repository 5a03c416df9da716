"""What was concluded from the state of a stack, kept beside the database as long as that state stays as it is.

It is bound to the row of its stack, which holds the sum of all others: another serial, another record, a run that was
cut, or a database that somebody else has touched, and it is worth nothing. Of an encrypted stack nothing is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.model.values._blake2 import blake2b
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.state.sqlite import cache_files as keepsake
from resource_api.state.sqlite import stack_rows as rows
from resource_api.state.sqlite.record_rows import unpack, unpack_owed
from resource_api.state.sqlite.table import SPAN, to_bytes
from resource_api.state.store import StackName

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from resource_api.model.record import Key, StackState
    from resource_api.state.sqlite.open import Opened
    from resource_api.state.sqlite.stack_rows import Header, Stack


class Kept(NamedTuple):
    """What was kept, of which stack as it stood then, and the rows of that stack's records."""

    name: StackName
    stood: str
    places: Sequence[int]
    content: Any


def keep(opened: Opened, label: str, stack: Stack, keys: Sequence[Key], content: Any) -> None:
    """Keep ``content`` under ``label`` if ``keys`` are those of all records, and nothing is secret or in doubt."""
    name = StackName(stack.state.project, stack.state.stack)
    header = opened.again().headers.get(name)
    places = stack.places(keys)
    if header is not None and places is not None and _usable(header):
        keepsake.write(opened.database.path, label, Kept(name, _stands(header), places, content))


def find(path: str, label: str, headers: Mapping[StackName, Header]) -> Kept | None:
    """Give what was kept under ``label``; None where its stack is not as it stood then."""
    found = keepsake.read(path, label)
    if not isinstance(found, list) or len(found) != len(Kept._fields):
        return None
    kept = Kept(StackName(*found[0]), *found[1:])
    header = headers.get(kept.name)
    return kept if header is not None and _usable(header) and _stands(header) == kept.stood else None


def picked(opened: Opened, kept: Kept, numbers: Iterable[int]) -> StackState | None:
    """Give the state with the records of ``numbers`` alone, as they are counted in ``keys``; None: it has changed."""
    header = opened.headers.get(kept.name)
    if header is None or _stands(header) != kept.stood:
        return None
    database, low = opened.database, header.number * SPAN
    found = [
        row for number in numbers for row in database.read("resource", kept.places[number], kept.places[number] + 1)
    ]
    records = {record.key: record for record in map(unpack, rows.to_values(found))}
    if len(records) != len(found):
        return None
    owed = unpack_owed(rows.to_values(database.read("owed", low, low + SPAN)))
    return header.state()._replace(records=records, owed=owed)


def _usable(header: Header) -> bool:
    return header.sealing is None and not header.content["tallies"]["intent"][0]


def _stands(header: Header) -> str:
    return blake2b(to_bytes(dict(header.content)), digest_size=16).hexdigest()
