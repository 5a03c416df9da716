"""A context for unit tests of one method keeps what is logged and reported."""

from __future__ import annotations

import pytest

from resource_api import Attribute, BaseProvider, Change, Command, Context, ProviderError, TypeDefinition
from resource_api.testing import context

TYPE = TypeDefinition(
    name="note",
    docs="Notes.",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether it exists.", default="present"),
        "name": Attribute("String[1]", "Its name.", kind="namevar"),
        "text": Attribute("Optional[String]", "Its text."),
    },
)


class Provider(BaseProvider):
    """Reports what it is given."""

    echo = Command("/bin/echo")

    def set(self, context: Context, changes: dict[str, Change]) -> None:
        """Report a creation, a failure, and run a program."""
        for name, change in changes.items():
            with context.creating(name):
                if change.should["text"] is None:
                    raise ValueError(name)
        self.echo("done")


def test_lines_statuses_and_exceptions_are_kept() -> None:
    """What the method logs, reports and swallows can be asserted."""
    changes = {name: Change(None, {"ensure": "present", "name": name, "text": text}) for name, text in NOTES.items()}
    provider = Provider()
    called = context(TYPE, changes, provider=provider)
    provider.set(called, changes)
    assert called.statuses == {"a": "created", "b": "failed"}
    assert [type(error) for error in called.raised] == [ValueError]
    assert "Debug: Note[a]: Started creating" in called.lines
    assert any(line.startswith("Error: Note[b]: Creating failed: ValueError: b") for line in called.lines)
    assert any("Executing '/bin/echo done'" in line for line in called.lines)


NOTES = {"a": "x", "b": None}


def test_a_name_that_is_not_among_the_changes_is_an_error() -> None:
    """As in a run."""
    with pytest.raises(ProviderError, match="c"):
        context(TYPE, ["a"]).created("c")


def test_noop_skips_programs() -> None:
    """As in a run with ``--noop``."""
    provider = Provider()
    called = context(TYPE, ["a"], noop=True, provider=provider)
    provider.echo("done")
    assert called.noop
    assert all("Successfully executed" not in line for line in called.lines)
