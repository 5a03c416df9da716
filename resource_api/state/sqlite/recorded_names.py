"""The names of recorded resources, without their values, for completion: nothing is decrypted, locked or written."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.reference import Reference, child_reference
from resource_api.state.sqlite.session import open_state
from resource_api.state.sqlite.stack_rows import RecordRow, decode_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from resource_api.state.store import StackName


class RecordedName(NamedTuple):
    """A recorded resource: its type, its name as the provider knows it, and its reference as it is written."""

    type: str
    name: Any
    reference: str


def recorded(path: str) -> Iterator[tuple[StackName, list[RecordedName]]]:
    """Yield each stack of the database at ``path`` and its resources. Raise ``StateError`` for damage."""
    if (opened := open_state(path)) is None:
        return
    with closing(opened.database) as database:
        for name, header in opened.headers.items():
            rows = (RecordRow(*columns) for columns in decode_rows(header.read(database, "resource")))
            yield name, [RecordedName(row.type, row.name, _reference(row)) for row in rows]


def _reference(row: RecordRow) -> str:
    inner = Reference(row.type, row.title)
    return str(child_reference(row.parent, *inner) if row.parent else inner)
