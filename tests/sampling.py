"""How much is tried of what can be tried many times: a sample, unless ``make test-all`` tries the whole.

The points of the fault sweeps are sampled by ``tests.faults``.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Final
from zlib import crc32

from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pytest

# Without a database nothing is written for each example; what fails is printed to be repeated.
settings.register_profile("sample", deadline=None, max_examples=25, database=None, print_blob=True)
settings.register_profile("whole", deadline=None, max_examples=200)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "sample"))


#: By their names: the kits must not be imported before pytest rewrites their assertions.
_KITS: Final = {"ProviderCompliance", "CarrierCompliance"}


def times(factor: float) -> int:
    """Return how many examples a property gets that needs ``factor`` times as many as others; at least 1."""
    return max(1, round(factor * settings.default.max_examples))


def sample(items: Iterable[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return the tests that a sample has and those that it leaves out: of what is repeated, it has a third.

    Each file begins with another one.
    """
    chosen: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    seen: Counter[Path] = Counter()
    for item in items:
        if _is_repeated(item):
            turn = seen[item.path] + crc32(item.path.name.encode())
            seen[item.path] += 1
            (left_out if turn % 3 else chosen).append(item)
        else:
            chosen.append(item)
    return chosen, left_out


def _is_repeated(item: pytest.Item) -> bool:
    """Return whether a test is a law that others are tested for as well, or is done a second time in a worker."""
    bases = getattr(getattr(item, "cls", None), "__mro__", ())
    return "[in_a_worker" in item.name or any(each.__name__ in _KITS for each in bases)
