"""Upgrade records that another version of their type has written, before anything is compared with them.

Pure: the provider's ``upgrade`` comes in as a function. An upgraded record is written with the next change of its
resource.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.model.values.errors import reason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api.model.provider_functions import ProviderFunctions
    from resource_api.model.record import Record


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
