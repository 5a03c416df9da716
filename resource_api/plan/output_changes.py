"""How the outputs of a manifest differ from those that are recorded. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.model.change import Difference
from resource_api.model.sealed_secrets import seal_secrets
from resource_api.model.values.values import is_unknown, same_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NONE = object()


def output_changes(recorded: Mapping[str, Any], outputs: Mapping[str, Any], salt: bytes) -> Sequence[Difference]:
    """Return each output that is to be recorded, or forgotten, with both values; None: there is none.

    In the order of the manifest; what is forgotten is last. A value that is not known yet counts as another one.
    """
    found = []
    for name, value in outputs.items():
        before = recorded.get(name, _NONE)
        if is_unknown(value) or not _is_recorded(before, value, salt):
            found.append(Difference(name, None if before is _NONE else before, value))
    return [*found, *(Difference(name, value, None) for name, value in recorded.items() if name not in outputs)]


def _is_recorded(before: Any, value: Any, salt: bytes) -> bool:
    return before is not _NONE and same_value(before, seal_secrets(value, salt))
