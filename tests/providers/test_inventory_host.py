"""The type of the inventory example, tested with the laws of providers against the real service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from resource_api.testing import ProviderCompliance
from tests.scenarios import inventory

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence
    from pathlib import Path


class TestInventoryHost(ProviderCompliance):
    """The laws, for hosts of a private service."""

    type_name = "inventory_host"
    module_path: ClassVar[Sequence[str | os.PathLike[str]]] = [inventory.EXAMPLE]

    @pytest.fixture
    def config(self, tmp_path: Path) -> Iterator[dict[str, Any]]:
        """Start a service and return its configuration."""
        for site in inventory.site(tmp_path):
            yield {"url": site.serve("compliance-token").url, "token": "compliance-token"}

    @pytest.fixture
    def present(self) -> dict[str, Any]:
        """Return a host."""
        return {"name": "ra-test-a", "role": "web", "password": "ra-test-secret", "tags": ["one"]}

    @pytest.fixture
    def updated(self, present: dict[str, Any]) -> dict[str, Any]:
        """Return the same host with another role."""
        return {**present, "role": "db", "tags": ["one", "two"]}

    @pytest.fixture
    def neighbours(self) -> str:
        return "it reads no file"
