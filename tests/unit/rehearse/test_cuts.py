"""The monitor of a cut run knows the current call."""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace
from typing import Any

from resource_api.rehearse import cuts


def test_a_call_that_raises_is_over() -> None:
    """A cut after it is not attributed to its resource."""
    monitor = cuts._Monitor()
    activity: Any = SimpleNamespace(subject="File[/a]")
    with suppress(ValueError), monitor.running(activity):
        assert monitor.subject == "File[/a]"
        raise ValueError
    assert monitor.subject == ""
