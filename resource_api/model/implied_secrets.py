"""Secret values of a resource beyond those of secret data types: values derived from a secret, or repeating one.

A text with a reference to a secret is a secret by ``values.expression``. Storing and showing are for other packages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.model.sealed_secrets import has_sealed
from resource_api.model.values.masking import Mask
from resource_api.model.values.values import SCALAR_TYPES, UNKNOWN, Sensitive, is_flat, is_secret

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from resource_api.model.attribute import Attribute
    from resource_api.model.type_definition import TypeDefinition


def holds_secret(value: Any) -> bool:
    """Return whether a declared, read or recorded value is a secret or contains one."""
    return type(value) not in SCALAR_TYPES and (is_secret(value) or has_sealed(value))


def referred_value(definition: TypeDefinition, attribute: str, value: Any) -> Any:
    """Return a declared value, or a part of it, as a reference to it yields it: a write-only one is wrapped."""
    return definition.attributes[attribute].conceal(value) if attribute in definition.write_only else value


def declared_secrets(definition: TypeDefinition, should: Mapping[str, Any]) -> list[Any]:
    """Return the declared values that are secrets of their type, or contain one, with these wrapped."""
    return [definition.attributes[name].conceal(should[name]) for name in definition.secret if name in should]


def mark_secrets(definition: TypeDefinition, row: Mapping[str, Any], *should: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the row that was read of a resource, with every secret in it wrapped; the same object if it has none.

    ``should`` are its declared and recorded states: a secret in them is read back in clear. A read-only value is secret
    too if it is derived from such a value or contains it in any spelling.
    """
    if not definition.secret and all(map(is_flat, should)) and is_flat(row):
        return row
    secret = {name for state in (*should, row) for name, value in state.items() if holds_secret(value)}
    secret |= definition.sensitive & row.keys()
    secret.update(*(definition.write_only & state.keys() for state in should))
    if not secret:
        return row
    hidden = secret | {name for name, source in definition.derived_from.items() if source in secret}
    secrets = [value for state in (*should, row) for name, value in state.items() if name in hidden]
    candidates = [name for name in row if name in definition.read_only and name not in hidden]
    hidden.update(_repeating(row, candidates, secrets))
    marked = {name: _wrapped(value) if name in hidden - secret else value for name, value in row.items()}
    for name in secret & row.keys():
        states = [state[name] for state in should if name in state]
        marked[name] = _own_secrets(definition.attributes[name], row[name], states)
    return marked


def _own_secrets(attribute: Attribute, value: Any, states: Iterable[Any]) -> Any:
    """Return a value with the parts wrapped that are secret by its attribute or in one of its other ``states``."""
    if has_sealed(value):
        return value
    concealed = attribute.conceal(value)
    for state in states:
        concealed = conceal_like(concealed, state)
    return concealed


def _wrapped(value: Any) -> Any:
    return value if value is None or holds_secret(value) else Sensitive(value)


def conceal_like(value: Any, state: Any) -> Any:
    """Return ``value`` with each part wrapped that is secret in another ``state`` of it; all of it if they differ."""
    if value is None or value is UNKNOWN or isinstance(value, Sensitive) or not holds_secret(state):
        return value
    if type(value) is dict and type(state) is dict:
        return {key: conceal_like(item, state[key]) if key in state else item for key, item in value.items()}
    if type(value) is list and type(state) is list and len(value) == len(state):
        return list(map(conceal_like, value, state))
    return Sensitive(value)


def _repeating(row: Mapping[str, Any], names: Iterable[str], secrets: list[Any]) -> list[str]:
    """Return those of ``names`` whose values contain one of the ``known`` secrets in any spelling."""
    candidates = [name for name in names if isinstance(row[name], (str, list, dict))]
    if not candidates:
        return []
    mask = Mask(runs=False)
    mask.add([secret if is_secret(secret) else Sensitive(secret) for secret in secrets if not has_sealed(secret)])
    return [name for name in candidates if mask.document(row[name]) != row[name]]
