"""A Python provider that is served on standard streams obeys the laws of every program that speaks the protocol."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from resource_api.testing.protocol import ProtocolConformance

if TYPE_CHECKING:
    from resource_api import Resource

pytestmark = pytest.mark.process


class TestPythonWorker(ProtocolConformance):
    """The worker of a provider that keeps its resources in memory."""

    type_name = "memory"
    module_path = (Path(__file__).resolve().parents[2] / "providers" / "memory",)

    @pytest.fixture
    def present(self) -> Resource:
        """Return a resource with a secret that is never read back."""
        return {"name": "ra-test", "owner": "somebody", "pin": "swordfish", "labels": {"a": "b"}}
