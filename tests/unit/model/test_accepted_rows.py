"""Rows of what others have written: a value that the type does not accept fails nothing."""

from __future__ import annotations

from resource_api import Context, Registry
from resource_api.provider.context import RunContext
from resource_api.system.log import ForwardedLog, message

ACCOUNT = {"ensure": "present", "uid": 1, "gid": 1, "gid_number": 1, "groups": [], "comment": "", "shell": "/bin/sh"}


def test_an_account_that_no_manifest_can_contain_is_left_out_with_a_warning() -> None:
    """And one with an impossible home is read without its home."""
    lines: list[str] = []
    definition = Registry.from_path().type("user")
    rows = [{**ACCOUNT, "name": "a,b", "home": "/"}, {**ACCOUNT, "name": "a", "home": "nowhere"}]
    context = Context(definition, RunContext(ForwardedLog("warning", lambda event: lines.append(message(event)))))
    assert list(context.accepted(rows)) == [{**ACCOUNT, "name": "a"}]
    assert lines == ["user: a,b is left out: no manifest can contain this name"]


def test_of_accounts_of_one_name_the_first_counts() -> None:
    """As it does for the system; the others are a warning."""
    lines: list[str] = []
    context = Context(
        Registry.from_path().type("user"),
        RunContext(ForwardedLog("warning", lambda event: lines.append(message(event)))),
    )
    assert list(context.accepted([{**ACCOUNT, "name": "a"}, {**ACCOUNT, "name": "a", "uid": 2}])) == [
        {**ACCOUNT, "name": "a"}
    ]
    assert lines == ["user: a is there more than once: the first one counts"]
