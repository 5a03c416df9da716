"""The names of what is recorded, without their values: nothing is decrypted, locked or written.

Completion shows them while a command is typed. What needs values must not enter here.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.reference import capitalize_type
from resource_api.state.sqlite.record_rows import unpack
from resource_api.state.sqlite.session import open_state
from resource_api.state.sqlite.stack_rows import SPAN, decode_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from resource_api.state.store import StackName

#: The length of a row of a record that has defaults only, and so no component around it.
_PLAIN: Final = 7


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
            rows = database.read("resource", header.number * SPAN, (header.number + 1) * SPAN)
            yield name, list(map(_named, decode_rows(rows)))


def _named(row: list[Any]) -> RecordedName:
    type_name, name, title, *_ = row
    if len(row) == _PLAIN:  # nearly every record; unpacking its values takes longer than reading it
        return RecordedName(type_name, name, f"{capitalize_type(type_name)}[{title}]")
    return RecordedName(type_name, name, str(unpack(row).reference))
