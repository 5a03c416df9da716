"""Upgrade records that another version of their type has written, before anything is compared with them.

Pure: the provider's ``upgrade`` comes in as a function. An upgraded record is written with the next change of its
resource.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.model.record import Commit
from resource_api.model.sealed_secrets import has_sealed
from resource_api.model.values.errors import DefinitionError, reason

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from resource_api.model.provider_functions import ProviderFunctions
    from resource_api.model.record import Intent, Record, RecordKey, StackState
    from resource_api.model.type_definition import Name, TypeDefinition
    from resource_api.model.values.reference import Reference


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
    state: StackState, unclaimed: Mapping[RecordKey, Record], functions: Callable[[str], ProviderFunctions]
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


def rename_intents(
    state: StackState, declared: Mapping[tuple[str, Reference], Name], functions: Callable[[str], ProviderFunctions]
) -> tuple[StackState, Mapping[RecordKey, RecordKey]]:
    """Return the state with present names for the intents whose type has other namevars now, and present → former key.

    An intent has no values: it gets the name of the record or of the ``declared`` resource with its reference (provider
    instance and reference → name), or else the one that its title contains, with defaults.
    """
    recorded = {
        (record.instance, record.reference): record for record in state.records.values() if not record.is_replaced
    }
    intents: dict[RecordKey, Intent] = {}
    former: dict[RecordKey, RecordKey] = {}
    for key, intent in state.intents.items():
        definition, place = _definition(key[0], functions), (key[0], intent.reference)
        name = intent.name
        if definition is None or _has_namevars(name, definition):
            pass
        elif place in recorded:
            name = _renamed(recorded[place], functions).name
        elif place in declared:
            name = declared[place]
        else:
            values = definition.namevars_from_title(intent.title) or {}
            name = definition.name_of(values) if values.keys() >= set(definition.namevars) else name
        found = intents[key[0], name] = intent._replace(name=name)
        if found.key != key:
            former[found.key] = key
    return state._replace(intents=intents), former


def _renamed(record: Record, functions: Callable[[str], ProviderFunctions]) -> Record:
    definition = _definition(record.instance, functions)
    if definition is None or _has_namevars(record.name, definition):
        return record
    defaults = {name: attribute.fresh_default() for name, attribute in definition.defaults}
    values = {**defaults, **record.should, **(record.is_ or {})}
    return record._replace(name=definition.name_of(values)) if values.keys() >= set(definition.namevars) else record


def _definition(instance: str, functions: Callable[[str], ProviderFunctions]) -> TypeDefinition | None:
    """Return the type of a provider instance; None if there is none."""
    try:
        return functions(instance).definition
    except DefinitionError:
        return None


def _has_namevars(name: Name, definition: TypeDefinition) -> bool:
    """Return whether a name has as many parts as its type has namevars."""
    return (len(name) if isinstance(name, tuple) else 1) == len(definition.namevars)


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
    for name, value in answer.items():
        if _is_wrong(functions.definition, name, value):
            declared = functions.definition.attributes[name].type
            msg = f"upgrade returned a value for '{name}' that is not of its type {declared}"
            raise ValueError(msg)
    return dict(answer)


def _is_wrong(definition: TypeDefinition, name: str, value: Any) -> bool:
    """Return whether a recorded value cannot be one of an attribute; of secrets and contents only digests are known."""
    if name not in definition.attributes or value is None or has_sealed(value):
        return False
    by_digest = definition.secret | definition.content_attributes
    return name not in by_digest and not definition.accepts[name](value)
