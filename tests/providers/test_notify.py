"""Messages of manifests in the log of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from resource_api import Sensitive
from resource_api.testing import ProviderCompliance
from tests.providers.applied import run

if TYPE_CHECKING:
    from pathlib import Path

    from resource_api import Resource


class TestNotify(ProviderCompliance):
    """A message is due in every run."""

    type_name = "notify"

    @pytest.fixture
    def present(self) -> Resource:
        """Return a message of several lines."""
        return {"name": "ra-test", "message": "one\ntwo"}

    @pytest.fixture
    def neighbours(self) -> str:
        """Return why no other user is read."""
        return "a message is only written"


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ({}, ["notice: Notify[hello there]: hello there"]),
        ({"message": "a\nb"}, ["notice: Notify[hello there]: a", "notice: Notify[hello there]: b"]),
        ({"message": {"a": [1, "é"]}}, ['notice: Notify[hello there]: {"a": [1, "é"]}']),
        ({"message": "x", "loglevel": "warning"}, ["warning: Notify[hello there]: x"]),
        ({"refreshonly": True}, []),
    ],
)
def test_a_message_is_a_line_of_the_log(declared: dict[str, Any], expected: list[str]) -> None:
    """Its name unless a message is declared; each line of a text on its own; other data as JSON."""
    report, lines = run({"Notify[hello there]": declared})
    assert (report.exit_code, lines) == (0, expected)


def test_a_message_is_written_when_it_is_notified(tmp_path: Path) -> None:
    """Once, after what notifies it; a noop run writes nothing."""
    resources = {
        f"File[{tmp_path}/x]": {"content": "x", "notify": "Notify[made]"},
        "Notify[made]": {"refreshonly": True},
    }
    assert not any("]: made" in line for line in run(resources, noop=True)[1])
    assert [line for line in run(resources)[1] if "]: made" in line] == ["notice: Notify[made]: made"]
    assert run(resources)[1] == []


def test_a_secret_in_a_message_is_masked() -> None:
    """As in everything that is logged."""
    secret = Sensitive("swordfish-42")
    for message in (secret, ["a", secret], {"a": {"b": secret}}):
        assert run({"Notify[x]": {"message": message}})[1] == ["notice: Notify[x]: <sensitive>"]
