"""Records that another version of their type has written, brought to this one before anything is compared with them.

Pure: the provider's ``upgrade`` comes in as a function. What is upgraded is written when its resource next is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.model.values.errors import reason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api.model.provider_functions import ProviderFunctions
    from resource_api.model.record import Record


def upgrade(record: Record, tools: ProviderFunctions) -> Record:
    """Give a record with the values of its type's version. Raises ``ValueError`` with why that cannot be."""
    version, current = record.schema_version, tools.definition.schema_version
    if version > current:
        msg = f"was recorded by version {version} of its type, and this is version {current}: bring the newer type back"
        raise ValueError(msg)
    if version == current or tools.upgrade is None:
        return record
    return record._replace(
        inputs=_values(record.inputs, version, tools),
        should=_values(record.should, version, tools),
        is_=None if record.is_ is None else _values(record.is_, version, tools),
    )


def _values(values: Mapping[str, Any], version: int, tools: ProviderFunctions) -> Mapping[str, Any]:
    assert tools.upgrade is not None
    try:
        answer = tools.upgrade(version, values)
    except Exception as error:  # a foreign method may fail in any way
        msg = f"what version {version} of its type has recorded cannot be upgraded: {reason(error)}"
        raise ValueError(msg) from error
    if not hasattr(answer, "keys") or not all(isinstance(name, str) for name in answer):
        msg = f"upgrade must return a mapping of attributes to values, not {type(answer).__name__}"
        raise ValueError(msg)
    return dict(answer)
