"""Providers in shell and JavaScript obey the protocol, and the laws of providers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from resource_api.testing import ProviderCompliance
from resource_api.testing.protocol import ProtocolConformance

if TYPE_CHECKING:
    from resource_api import Resource

EXAMPLES = Path(__file__).parent.parent
#: The laws of providers that the shell's is tested with.
_SHELL_LAWS = {
    "test_create_makes_what_is_declared",
    "test_update_changes_only_what_differs",
    "test_noop_changes_nothing",
    "test_delete_leaves_nothing",
    "test_one_call_handles_one_and_many",
    "test_one_failure_does_not_lose_the_others",
    "test_get_is_canonical",
    "test_a_listing_is_complete",
    "test_no_secret_is_revealed",
}


class TestShell(ProtocolConformance, ProviderCompliance):
    """A provider in POSIX shell, with jq."""

    type_name = "note"
    module_path = (EXAMPLES / "shell",)

    @pytest.fixture(autouse=True)
    def notes(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Keep the notes in a directory of the test."""
        monkeypatch.setenv("NOTES", str(tmp_path))

    @pytest.fixture
    def present(self) -> Resource:
        """Return a text that a shell would change if it was not quoted."""
        return {"name": "ra-test", "text": "it's $HOME, `id`\n\n* é\n\n"}

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        """Return another text."""
        return {**present, "text": ""}


# Each call in shell starts programs: the other laws are tested with the other program, which speaks the same protocol.
for law in set(dir(ProviderCompliance)) - _SHELL_LAWS:
    if law.startswith("test_"):
        setattr(TestShell, law, None)


#: Laws that are not tested with the other program again: they start it many times, and are about providers alone.
_SLOW_LAWS = {"test_a_hostile_name_is_refused_or_is_the_name", "test_noop_changes_nothing"}


class TestNode(ProtocolConformance, ProviderCompliance):
    """A provider in JavaScript."""

    type_name = "counter"
    module_path = (EXAMPLES / "node",)

    @pytest.fixture(autouse=True)
    def counters(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Keep the counters in a file of the test."""
        monkeypatch.setenv("COUNTERS", str(tmp_path / "counters.json"))

    @pytest.fixture
    def present(self) -> Resource:
        """Return a counter with a name that JavaScript treats in a special way."""
        return {"name": "__proto__", "value": 3, "unit": "boxes"}

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        """Return another value."""
        return {**present, "value": 4}

    @pytest.fixture
    def others(self) -> list[dict[str, Any]]:
        """Return a counter beside it."""
        return [{"name": "ra-test-b", "value": 2}]


for law in _SLOW_LAWS:
    setattr(TestNode, law, None)
