"""The bench of lifecycle tests."""

from __future__ import annotations

import pytest

from tests.lifecycle.world import Bench


@pytest.fixture
def bench() -> Bench:
    """Give an empty world and an empty state."""
    return Bench()
