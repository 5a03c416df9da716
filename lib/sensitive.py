"""Values without the wrapper that hides secrets, for what is written or compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from resource_api import Sensitive


def has_secret(value: Any) -> bool:
    """Return whether a value is a secret, or has one in it."""
    inside = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return isinstance(value, Sensitive) or any(map(has_secret, inside))


def reveal(value: Any) -> Any:
    """Return a value with all secrets in it unwrapped."""
    if isinstance(value, Sensitive):
        return reveal(value.reveal())
    if isinstance(value, dict):
        return {key: reveal(part) for key, part in value.items()}
    return [reveal(part) for part in value] if isinstance(value, list) else value
