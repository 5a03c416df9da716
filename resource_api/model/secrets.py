"""Which values of a resource are secret although their data types do not say so.

Those are values derived from a secret and values that repeat one. Storing and showing them is for other packages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.model.codec import has_sealed
from resource_api.model.values.masking import Mask
from resource_api.model.values.values import SCALAR_TYPES, Sensitive, is_flat, is_secret

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from resource_api.model.type_definition import TypeDefinition


def holds_secret(value: Any) -> bool:
    """Return whether a declared, read or recorded value is a secret or contains one."""
    return type(value) not in SCALAR_TYPES and (is_secret(value) or has_sealed(value))


def mark_secrets(definition: TypeDefinition, row: Mapping[str, Any], *should: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the row that was read of a resource, with every secret in it wrapped; the same object if it has none.

    ``should`` are its declared and recorded states: a secret in them is read back in clear. A read-only value is secret
    too if it is derived from such a value or contains it in any spelling.
    """
    if not definition.sensitive and all(map(is_flat, should)) and is_flat(row):
        return row
    hidden = {name for state in (*should, row) for name, value in state.items() if holds_secret(value)}
    hidden |= definition.sensitive & row.keys()
    if not hidden:
        return row
    hidden |= {name for name, source in definition.derived_from.items() if source in hidden}
    known = [value for state in (*should, row) for name, value in state.items() if name in hidden]
    candidates = [name for name in row if name in definition.read_only and name not in hidden]
    hidden.update(_repeating(row, candidates, known))
    return {name: _wrapped(value) if name in hidden else value for name, value in row.items()}


def _wrapped(value: Any) -> Any:
    return value if value is None or holds_secret(value) else Sensitive(value)


def _repeating(row: Mapping[str, Any], names: Iterable[str], known: list[Any]) -> list[str]:
    """Return those of ``names`` whose values contain one of the ``known`` secrets in any spelling."""
    candidates = [name for name in names if isinstance(row[name], (str, list, dict))]
    if not candidates:
        return []
    mask = Mask(runs=False)
    mask.add([each if is_secret(each) else Sensitive(each) for each in known if not has_sealed(each)])
    return [name for name in candidates if mask.document(row[name]) != row[name]]
