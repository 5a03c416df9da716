"""The in-memory providers obey every law: they are the reference for the laws, and for authors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from resource_api.testing import ProviderCompliance

if TYPE_CHECKING:
    from collections.abc import Callable

    from resource_api import Registry, Resource

MEMORY = Path(__file__).parent / "memory"


class InMemory(ProviderCompliance):
    """What the classes below have in common."""

    module_path = (MEMORY,)

    @pytest.fixture
    def neighbours(self) -> str:
        return "it reads no file"


class TestMemory(InMemory):
    """Resources with an attribute of every kind."""

    type_name = "memory"

    @pytest.fixture
    def present(self) -> Resource:
        return {
            "name": "RA-test-a",
            "owner": "${somebody}",
            "size": 3,
            "labels": ["b", "a", "b"],
            "password": "sesame-1",
            "pin": "4711-a",
            "origin": "here",
        }

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        return {**present, "size": 4, "password": "sesame-2", "pin": "4711-b"}

    @pytest.fixture
    def world(self, registry: Registry) -> Callable[[], Any]:
        return lambda: str(registry.provider("memory").stored)


class TestMemorySetting(InMemory):
    """Settings, which can be neither created nor deleted."""

    type_name = "memory_setting"

    @pytest.fixture
    def present(self) -> Resource:
        return {"name": "volume", "value": 3}

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        return {**present, "value": 4}

    @pytest.fixture
    def others(self) -> list[Resource]:
        return [{"name": "brightness", "value": 3}]


class TestMemoryRun(InMemory):
    """Imperative runs that set a mark."""

    type_name = "memory_run"

    @pytest.fixture
    def present(self) -> Resource:
        return {"name": "ra-test-a", "creates": "mark", "token": "sesame-1"}

    @pytest.fixture
    def world(self, registry: Registry) -> Callable[[], Any]:
        return lambda: list(registry.provider("memory_run").marks)
