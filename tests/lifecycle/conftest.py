"""The fixture of the lifecycle tests."""

from __future__ import annotations

import pytest

from tests.lifecycle.world import Bench


@pytest.fixture
def bench() -> Bench:
    """Return a bench with an empty world and an empty state."""
    return Bench()
