"""Inputs from where they are: files, variables and programs, age files, and secrets within a value."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.scenarios.encrypted_inputs import SECRET, Site

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


@pytest.fixture
def site(bench: Bench) -> Site:
    """Return a new site."""
    return Site(bench)


@pytest.mark.parametrize("name", ["stacks/default.yaml", "secrets.yaml", "secrets.json"])
@pytest.mark.parametrize(
    "source",
    [
        {"file": "token.txt"},
        {"env": "TOKEN"},
        {"command": ["./token.sh", "a b"]},
        {"command": "./token.sh 'a b'"},
    ],
)
def test_a_value_is_read_from_its_source_beside_the_file(site: Site, name: str, source: dict[str, Any]) -> None:
    """A path is relative to the file, a program runs there without a shell, and one final newline is dropped."""
    above = Path(name).parent
    site.bench.write(f"{above}/token.txt", f"{SECRET}\n")
    site.bench.write(f"{above}/token.sh", '#!/bin/sh\n[ "$1" = "a b" ] && cat token.txt\n').chmod(0o755)
    site.bench.write(name, json.dumps({"port": {"command": ["echo", "80"]}, "token": source}))
    options = () if name.startswith("stacks") else ("--inputs", name)
    done = site.apply(*options, TOKEN=f"{SECRET}\n")
    assert done.code == 0, done.err
    assert site.values == (80, SECRET)


def test_a_literal_mapping_of_one_of_these_keys_is_written_as_value(site: Site) -> None:
    """What is beneath ``value`` is no source, and deeper mappings never are."""
    site.bench.write("i.yaml", f"port: 1\ntoken: {SECRET}\nlimits: {{value: {{file: /etc/passwd}}}}")
    assert site.apply("--inputs", "i.yaml").code == 0
    site.bench.write("i.yaml", f"port: 1\ntoken: {SECRET}\nlimits: {{a: {{env: HOME}}, b: {{file: x}}}}")
    assert "limits: {a: {env: HOME}, b: {file: x}}" in site.apply("--inputs", "i.yaml").out


def test_a_source_that_another_value_replaces_is_not_read(site: Site) -> None:
    """A program of the stack's file does not run where ``--inputs`` has the value."""
    site.bench.write("stacks/default.yaml", "port: {command: [touch, ran]}\ntoken: {file: missing}")
    site.bench.write("i.yaml", "port: 2\ntoken: {env: TOKEN}")
    assert site.apply("--inputs", "i.yaml", TOKEN=SECRET).code == 0
    assert not (site.bench.home / "stacks/ran").exists()
    assert site.values == (2, SECRET)


@pytest.mark.parametrize("armoured", [False, True])
@pytest.mark.parametrize("name", ["stacks/default.yaml.age", "secrets.yaml.age", "secrets.json.age"])
def test_an_encrypted_file_is_decrypted_in_memory(site: Site, name: str, *, armoured: bool) -> None:
    """The key comes from the option or the environment, also where state has another; sources work in it."""
    text = json.dumps({"port": {"command": "echo 81"}, "token": SECRET})
    site.encrypt(name, text, armoured=armoured)
    options = () if name.startswith("stacks") else ("--inputs", name)
    assert site.apply(*options, "--inputs-key", "age:key").code == 0
    assert site.apply(*options, RESOURCE_API_INPUTS_KEY="age:key").code == 0
    assert site.values == (81, SECRET)
    shown = site.bench.run("inputs", "show", "site.yaml", *options, "--inputs-key", "age:key")
    assert f"token: <sensitive>  {name}:1" in shown.out
    assert not any(SECRET in path.read_text(errors="replace") for path in site.bench.home.glob("**/*.yaml*"))


def test_the_keys_of_inputs_and_of_state_are_independent(site: Site) -> None:
    """State is encrypted with ``--key``, the inputs with theirs; in no file is the secret readable."""
    site.encrypt("stacks/default.yaml.age", f"port: 1\ntoken: {SECRET}")
    assert site.bench.run("new", "key", "state.key").code == 0
    state = f"sqlite:{site.bench.home}/state.db"
    options = ("--key", "file:state.key", "--state", state)
    assert site.apply(*options, "--inputs-key", "age:key").code == 0
    assert SECRET.encode() not in (site.bench.home / "state.db").read_bytes()
    refused = site.apply(*options, "--inputs-key", "file:state.key")
    assert refused.code == 64
    assert "'file:state.key' is no key of inputs: write age:PATH" in refused.err
