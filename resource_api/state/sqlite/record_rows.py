"""A record as a row keeps it: what its parts repeat is written once, and what nearly all have alike not at all.

Intents and owed refreshes, which are kept as they are, come back here too. Where rows are and what secrets look like in
them does not enter here.
"""

from __future__ import annotations

from sys import intern
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.record import NO_LIFECYCLE, Intent, Record, RecordedLifecycle
from resource_api.model.values.values import SCALAR_TYPES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from resource_api.model.record import Key

#: The values of a row's last columns where the row ends before them: ``owned`` and what follows.
_DEFAULTS: Final[list[Any]] = [False, [], {}, *NO_LIFECYCLE, None, 1, "ready", "", ""]
#: What one has beyond another that is the same; never changed.
_NOTHING: Final[list[Any]] = [{}]


def pack(record: Record) -> list[Any]:
    """Return the row of a record: ``should`` as its difference from ``inputs``, ``is_`` as that from ``should``."""
    inputs, should, is_ = record.inputs, record.should, record.is_
    row = [record.type, record.name, record.title, inputs, _beyond(should, inputs)]
    row.append(None if is_ is None else _beyond(is_, should))
    rest = [
        record.owned,
        list(record.requires),
        record.value_requires,
        *record.lifecycle,
        record.provider,
        record.schema_version,
        record.status,
        record.parent,
        record.last_run,
    ]
    while rest and rest[-1] == _DEFAULTS[len(rest) - 1]:
        rest.pop()
    return row + rest


def unpack(row: list[Any]) -> Record:
    """Return the record of a row. Raises ``ValueError`` or ``TypeError`` for what ``pack`` cannot have returned."""
    kind, name, title, inputs, should, is_, *rest = row
    should = _with(inputs, should)
    record = Record(
        type=intern(kind),  # one text in memory for each type
        name=_name(name),
        title=name if name == title else title,  # most titles are names: one text for both
        inputs=inputs,
        should=should,
        is_=None if is_ is None else _with(should, is_),
        owned=bool(rest and rest[0]),
        requires=[],
    )
    if len(rest) <= 1:
        return record
    _, requires, value_requires, protect, retain, replace, *others = rest + _DEFAULTS[len(rest) :]
    deleted_with, external, provider, schema_version, status, parent, last_run = others
    return record._replace(
        requires=requires,
        value_requires=value_requires,
        lifecycle=RecordedLifecycle(protect, retain, replace, deleted_with, external),
        provider=provider,
        schema_version=schema_version,
        status=status,
        parent=parent,
        last_run=last_run,
    )


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
