"""The laws of providers for two Terraform providers: the official null, and one that is made with the package tf."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from resource_api import Registry
from resource_api.terraform.family import Family
from resource_api.testing import ProviderCompliance
from tests.peers.terraform_programs import program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from resource_api import Resource

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]


def family_registry(name: str) -> Iterator[Registry]:
    """Yield a registry with the types of a program, which ends afterwards."""
    registry = Registry.from_path()
    registry.register_family(name, Family(name, str(program(name)), lambda _level, _text: None))
    yield registry
    registry.close_families()


class TestNullResource(ProviderCompliance):
    """A resource in Go, protocol 5."""

    type_name = "null_resource"

    @pytest.fixture
    def registry(self) -> Iterator[Registry]:
        """Return a registry with the types of the program."""
        yield from family_registry("null")

    @pytest.fixture
    def present(self) -> Resource:
        """Return a resource with triggers."""
        return {"terraform_name": "one", "triggers": {"a": "x"}}

    @pytest.fixture
    def neighbours(self) -> str:
        """Return why no other user can be in the way."""
        return "the program reads nothing"


class TestJarNote(ProviderCompliance):
    """A resource in Python, protocol 6, with a configuration."""

    type_name = "jar_note"
    listing_size = 3

    @pytest.fixture
    def registry(self) -> Iterator[Registry]:
        """Return a registry with the types of the program."""
        yield from family_registry("jar")

    @pytest.fixture
    def config(self, tmp_path: Path) -> Mapping[str, object]:
        """Return a configuration with a directory of the test."""
        return {"directory": str(tmp_path)}

    @pytest.fixture
    def present(self) -> Resource:
        """Return a note with a set, a list and blocks."""
        links = [{"url": "b"}, {"url": "a", "weight": 2}]
        return {"terraform_name": "one", "kind": "x", "text": "hello", "tags": ["b", "a"], "ports": [80], "link": links}

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        """Return the note with another text and without its tags."""
        return {**{name: value for name, value in present.items() if name != "tags"}, "text": "bye"}

    @pytest.fixture
    def world(self, tmp_path: Path) -> Callable[[], object]:
        """Return the notes."""
        return lambda: {path.name: path.read_text() for path in tmp_path.glob("*.json")}

    @pytest.fixture
    def neighbours(self) -> str:
        """Return why no other user can be in the way."""
        return "the directory is private"
