"""Inputs from where they are: files, variables and programs, age files, and secrets within a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

_USERS: Final = """
    project: p
    inputs:
      users: {type: "Hash[String, Struct[{shell => String, hash => Sensitive[String]}]]"}
    resources:
      Widget[a]: {colour: "${inputs.users.alice.shell}"}
      Account[b]: {password: "${inputs.users.alice.hash}"}
    outputs: {shell: "${inputs.users.alice.shell}", users: "${inputs.users}"}
"""


def test_beside_a_sensitive_member_only_that_leaf_is_secret(bench: Bench) -> None:
    """The members beside it are shown in plans, outputs and problems, and their receivers are no secrets."""
    bench.write("site.yaml", _USERS)
    bench.write("users.yaml", "users: {alice: {shell: /bin/zsh, hash: sesame-4711}}")
    done = bench.run("apply", "site.yaml", "--inputs", "users.yaml", RESOURCE_API_STATE=f"sqlite:{bench.home}/s.db")
    assert done.code == 0
    assert "shell: /bin/zsh" in done.out
    assert "sesame-4711" not in done.out + done.err
    assert bench.things("widget")["a"]["colour"] == "/bin/zsh"
    assert bench.things("account")["b"]["password"] == "sesame-4711"
    assert b"sesame-4711" not in (bench.home / "s.db").read_bytes()
    shown = bench.run("inputs", "show", "site.yaml", "--inputs", "users.yaml").out
    assert "{alice: {shell: /bin/zsh, hash: <sensitive>}}" in shown
