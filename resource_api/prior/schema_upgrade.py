"""Upgrade records that another version of their type has written, before anything is compared with them.

Pure: the provider's ``upgrade`` comes in as a function. An upgraded record is written with the next change of its
resource.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.model.record import Commit
from resource_api.model.values.errors import DefinitionError, reason

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from resource_api.model.provider_functions import ProviderFunctions
    from resource_api.model.record import Key, Record, StackState


def upgrade(record: Record, functions: ProviderFunctions) -> Record:
    """Return the record with values of the present version of its type. Raises ``ValueError`` with the reason."""
    version, current = record.schema_version, functions.definition.schema_version
    if version > current:
        msg = f"was recorded by version {version} of its type, and this is version {current}: bring the newer type back"
        raise ValueError(msg)
    if version == current or functions.upgrade is None:
        return record
    return record._replace(
        inputs=_values(record.inputs, version, functions),
        should=_values(record.should, version, functions),
        is_=None if record.is_ is None else _values(record.is_, version, functions),
    )


def rename(
    state: StackState, unclaimed: Mapping[Key, Record], functions: Callable[[str], ProviderFunctions]
) -> tuple[StackState, Commit]:
    """Return the state with present names for the records whose type has other namevars now, and what to write.

    Only ``unclaimed`` records are looked at. The values of the namevars are the recorded ones and the defaults; a
    record without one of them, or without its type, keeps its name, and so does one whose present name is taken.
    """
    present = {key: _renamed(record, functions) for key, record in unclaimed.items() if key in state.records}
    present = {key: record for key, record in present.items() if record.key not in state.records}
    if not present:
        return state, Commit()
    owed = {present[key].key: names for key, names in state.owed.items() if key in present}
    commit = Commit(
        list(present.values()), list(present), owed=owed, paid=[key for key in state.owed if key in present]
    )
    records = {(found := present.get(key, record)).key: found for key, record in state.records.items()}
    kept = {key: names for key, names in state.owed.items() if key not in present}
    return state._replace(records=records, owed={**kept, **owed}), commit


def _renamed(record: Record, functions: Callable[[str], ProviderFunctions]) -> Record:
    try:
        definition = functions(record.instance).definition
    except DefinitionError:
        return record
    namevars = definition.namevars
    if (len(record.name) if isinstance(record.name, tuple) else 1) == len(namevars):
        return record
    defaults = {name: attribute.fresh_default() for name, attribute in definition.defaults}
    values = {**defaults, **record.should, **(record.is_ or {})}
    return record._replace(name=definition.name_of(values)) if values.keys() >= set(namevars) else record


def _values(values: Mapping[str, Any], version: int, functions: ProviderFunctions) -> Mapping[str, Any]:
    assert functions.upgrade is not None
    try:
        answer = functions.upgrade(version, values)
    except Exception as error:  # a method of a provider may raise anything
        msg = f"what version {version} of its type has recorded cannot be upgraded: {reason(error)}"
        raise ValueError(msg) from error
    if not hasattr(answer, "keys") or not all(isinstance(name, str) for name in answer):
        msg = f"upgrade must return a mapping of attributes to values, not {type(answer).__name__}"
        raise ValueError(msg)
    return dict(answer)
