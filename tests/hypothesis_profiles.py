"""How many examples each property is tried with: by ``make quick``, by ``make test``, and by ``make test-all``."""

from __future__ import annotations

import os
from typing import Final

from hypothesis import settings

_EXAMPLES: Final = {"quick": 25, "sample": 50, "whole": 200}
for _name, _examples in _EXAMPLES.items():
    settings.register_profile(_name, deadline=None, max_examples=_examples)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "sample"))


def times(factor: float) -> int:
    """Return how many examples a property gets that needs ``factor`` times as many as others; at least 1."""
    return max(1, round(factor * settings.default.max_examples))
