"""The row of a record: what its parts repeat is written once, and defaults are not written at all.

Rows of intents and owed refreshes are decoded here too. Where rows are and how secrets are written must not enter here.
"""

from __future__ import annotations

from sys import intern
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.record import NO_LIFECYCLE, Intent, Record, RecordedLifecycle
from resource_api.model.values.values import SCALAR_TYPES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from resource_api.model.record import RecordKey

#: The length of the shortest row, which an older version wrote without ``owned``.
_SHORTEST: Final = 6
#: The defaults of the columns after the seventh: a row ends where only defaults follow.
_DEFAULTS: Final[list[Any]] = [[], {}, *NO_LIFECYCLE, None, 1, "ready", "", "", None, "", ""]


def pack(record: Record) -> list[Any]:
    """Return the row of a record: ``should`` as its difference from ``inputs``, ``is_`` as that from ``should``."""
    should, is_ = _difference(record.should, record.inputs), record.is_
    optional = [
        list(record.requires),
        record.value_requires,
        *record.lifecycle,
        record.provider,
        record.schema_version,
        record.status,
        record.parent,
        record.last_run,
        record.implementation,
        record.successor,
        record.changed_at,
    ]
    if optional == _DEFAULTS:  # nearly every record
        optional = []
    while optional and optional[-1] == _DEFAULTS[len(optional) - 1]:
        optional.pop()
    difference = None if is_ is None else _difference(is_, record.should)
    return [record.type, record.name, record.title, record.inputs, should, difference, record.owned, *optional]


def unpack(row: list[Any]) -> Record:
    """Return the record of a row. Raises ``ValueError`` or ``TypeError`` for what ``pack`` cannot have returned."""
    type_name, name, title, inputs, should, is_, owned, *optional = row if len(row) > _SHORTEST else [*row, False]
    should = _apply(inputs, should)
    record = Record(
        type=intern(type_name),  # one text in memory for each type
        name=_name(name),
        title=name if name == title else title,  # most titles are names: one text for both
        inputs=inputs,
        should=should,
        is_=None if is_ is None else _apply(should, is_),
        owned=owned,
        requires=_DEFAULTS[0],  # one list for all: a record is never changed
    )
    return _with_optional(record, optional) if optional else record


def _with_optional(record: Record, optional: list[Any]) -> Record:
    """Return a record with its optional columns, some of which are not the default."""
    requires, value_requires, *others = optional + _DEFAULTS[len(optional) :]
    count = len(RecordedLifecycle._fields)
    provider, schema_version, status, parent, last_run, implementation, successor, changed_at = others[count:]
    return record._replace(
        requires=requires,
        value_requires=value_requires,
        lifecycle=RecordedLifecycle(*others[:count]),
        provider=provider,
        schema_version=schema_version,
        status=status,
        parent=parent,
        last_run=last_run,
        implementation=implementation,
        successor=successor,
        changed_at=changed_at,
    )


def unpack_intent(row: list[Any]) -> Intent:
    """Return the intent in a part of a row."""
    run, type_name, name, *more = row
    return Intent(run, type_name, _name(name), *more)


def unpack_owed(rows: Iterable[Any]) -> dict[RecordKey, Sequence[str]]:
    """Return the owed refreshes of all rows."""
    return {(instance, _name(name)): sources for instance, name, sources in rows}


def _name(name: Any) -> Any:
    return tuple(name) if type(name) is list else name


def _difference(values: Mapping[str, Any], base: Mapping[str, Any]) -> list[Any]:
    """Return a mapping of what is missing or different in ``base``, then the names that only ``base`` has."""
    if values is base:
        return [{}]
    more = {
        name: value
        for name, value in values.items()
        if name not in base or (value is not base[name] and not _equal(value, base[name]))
    }
    return [more, *(name for name in base if name not in values)]


def _apply(base: dict[str, Any], difference: list[Any]) -> dict[str, Any]:
    """Return the values of which ``difference`` was made; ``base`` itself when it is empty, because neither changes."""
    if difference == [{}]:
        return base
    values = {**base, **difference[0]}
    for name in difference[1:]:
        del values[name]
    return values


def _equal(left: Any, right: Any) -> bool:
    """Whether two values are equal scalars of one type; nested values are not compared."""
    return type(left) is type(right) and type(left) in SCALAR_TYPES and bool(left == right)
