"""A record as a row keeps it: what its parts repeat is written once, and what nearly all have alike not at all.

Intents and owed refreshes, which are kept as they are, come back here too. Where rows are and what secrets look like in
them does not enter here.
"""

from __future__ import annotations

from sys import intern
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.record import Intent, Record
from resource_api.model.values.values import SCALAR_TYPES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from resource_api.model.record import Key

_INPUTS, _SHOULD, _IS, _RARE = map(Record._fields.index, ("inputs", "should", "is_", "value_requires"))
#: What the last fields of a record are where no row says it, and how many every row has; sequences come back as lists.
_USUAL: Final = tuple([] if value == () else value for value in Record._field_defaults.values())
_FEWEST: Final = len(Record._fields) - len(_USUAL)
#: What nobody says of nearly all records.
_SELDOM: Final = _USUAL[_RARE - _FEWEST :]
#: What one has beyond another that is the same; never changed.
_NOTHING: Final[list[Any]] = [{}]


def pack(record: Record) -> list[Any]:
    """Give what a row keeps of a record: how it should be beyond what is written, how it is beyond that."""
    fields: tuple[Any, ...] = record
    kind, name, title, inputs, should, is_, owned, requires = fields[:_RARE]
    row = [kind, name, title, inputs, _beyond(should, inputs), None if is_ is None else _beyond(is_, should), owned]
    if requires or fields[_RARE:] != _SELDOM:
        row += [list(requires), *fields[_RARE:]]
    while len(row) > _FEWEST and row[-1] == _USUAL[len(row) - 1 - _FEWEST]:
        row.pop()
    return row


def unpack(values: list[Any]) -> Record:
    """Give back what ``pack`` took. Raises ``ValueError`` or ``TypeError`` for what it cannot have given."""
    kind, name, title = values[:3]
    if type(name) is list:
        values[1] = tuple(name)
    elif name == title:
        values[2] = name  # most titles are names: one text in memory, and one for each type
    values[0] = intern(kind)
    values[_SHOULD] = _with(values[_INPUTS], values[_SHOULD])
    if values[_IS] is not None:
        values[_IS] = _with(values[_SHOULD], values[_IS])
    return Record._make((*values, *_USUAL[len(values) - _FEWEST :]))


def unpack_intent(values: list[Any]) -> Intent:
    """Give back an intent."""
    run, kind, name, *more = values
    return Intent(run, kind, _name(name), *more)


def unpack_owed(rows: Iterable[Any]) -> dict[Key, Sequence[str]]:
    """Give what rows say of refreshes that are owed."""
    return {(kind, _name(key)): sources for kind, key, sources in rows}


def _name(name: Any) -> Any:
    return tuple(name) if type(name) is list else name


def _beyond(values: Mapping[str, Any], base: Mapping[str, Any]) -> list[Any]:
    """Give what ``values`` has that ``base`` has not, or not so; then the names that only ``base`` has."""
    if values is base:
        return _NOTHING
    if not base:
        return [values]
    more = {name: v for name, v in values.items() if name not in base or not (v is base[name] or _alike(v, base[name]))}
    return [more] if base.keys() <= values.keys() else [more, *(name for name in base if name not in values)]


def _with(base: dict[str, Any], beyond: list[Any]) -> dict[str, Any]:
    if beyond == [{}] and type(base) is dict:
        return base  # records are only read, so that one mapping may serve
    found = {**base, **beyond[0]}
    for place in range(1, len(beyond)):
        del found[beyond[place]]
    return found


def _alike(left: Any, right: Any) -> bool:
    """Whether one may be written for the other; what holds something else is compared by nobody."""
    kind = type(left)
    return kind is type(right) and kind in SCALAR_TYPES and bool(left == right)
