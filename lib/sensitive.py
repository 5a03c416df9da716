"""Values without the wrapper that hides secrets, for what is written or compared."""

from __future__ import annotations

from typing import Any

from resource_api import Sensitive


def reveal(value: Any) -> Any:
    """Return a value with all secrets in it unwrapped."""
    if isinstance(value, Sensitive):
        return reveal(value.reveal())
    if isinstance(value, dict):
        return {key: reveal(part) for key, part in value.items()}
    return [reveal(part) for part in value] if isinstance(value, list) else value
