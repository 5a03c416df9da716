"""Terraform providers as types, by the command: a program of the tests, with every kind of field, and its faults."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import ssl
import subprocess
import sys
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from jsonschema import Draft7Validator

from resource_api import Registry, ResourceError, Runtime
from resource_api.terraform import packages
from resource_api.terraform.channel import CallError, Channel, PluginAddress
from resource_api.terraform.family import Family
from resource_api.terraform.plugin_process import PluginError, start
from resource_api.testing.harness import context
from tests import command
from tests.waiting import wait_until

PROGRAM: Final = Path(__file__).parent / "provider_program.py"
#: The advice for a creation in doubt.
TAKES_OVER: Final = re.compile(r"\"resource-api import MANIFEST 'Odd_thing\[a\]' ID --state [^\"]+\" takes it over")
pytestmark = pytest.mark.process


class Outcome(NamedTuple):
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        """All output."""
        return self.out + self.err


class Account:
    """A directory with the things of the provider, a manifest, an encrypted state."""

    def __init__(self, home: Path) -> None:
        """Write the program, the key and the directory of things."""
        self.home = home
        self.things = home / "things"
        self.things.mkdir()
        program = home / "terraform-provider-odd"
        words = shlex.join([sys.executable, "-P", str(PROGRAM)])
        program.write_text(f"#!/bin/sh\nPYTHONPATH={shlex.quote(str(command.ROOT))} exec {words}\n")
        program.chmod(0o755)
        self.environment = command.environment_of(
            home,
            RESOURCE_API_STATE=f"sqlite:{home}/state.db",
            RESOURCE_API_KEY=f"file:{home}/key",
            XDG_CACHE_HOME=f"{home}/cache",
        )
        assert self.run("new", "key", "key").code == 0

    def run(self, *arguments: str, **variables: str) -> Outcome:
        """Run a command."""
        environment = self.environment | variables
        ended = command.run(arguments, cwd=self.home, env=environment, text=True)
        return Outcome(ended.returncode, ended.stdout, ended.stderr)

    def write(self, resources: str, more: str = "", config: str = "") -> None:
        """Write a manifest with the provider and these resources, in the flow style of YAML."""
        odd = f"odd: {{path: ./terraform-provider-odd, config: {{directory: {self.things}{config}}}}}"
        (self.home / "site.yaml").write_text(f"providers:\n  {odd}\nresources:\n{resources}{more}")

    def apply(self, resources: str, more: str = "", *options: str, **variables: str) -> Outcome:
        """Apply a manifest with these resources."""
        self.write(resources, more)
        return self.run("apply", "site.yaml", *options, **variables)

    @property
    def world(self) -> dict[str, dict[str, Any]]:
        """The things by name."""
        documents = [json.loads(path.read_text()) for path in self.things.glob("t-*")]
        return {item["name"]: item for item in documents}

    @property
    def created(self) -> list[str]:
        """The names of all creations."""
        path = self.things / "created"
        return path.read_text().split() if path.exists() else []


@pytest.fixture
def account(tmp_path: Path) -> Account:
    """Return a new account."""
    return Account(tmp_path)


def running_programs() -> list[str]:
    """Return the command lines of programs of the tests that run."""
    lines = subprocess.run(["ps", "-eo", "args"], check=True, capture_output=True, text=True).stdout.splitlines()
    return [line for line in lines if str(PROGRAM) in line and "sh -c" not in line]


def test_a_thing_is_created_kept_updated_replaced_and_destroyed(account: Account) -> None:
    """The whole life; the second run of each is silent, and no program is left."""
    one = "  Odd_thing[one]: {name: first, size: 1, tags: [b, a, b], rule: [{port: 80}], any: {deep: [1, x]}}\n"
    created = account.apply(one)
    assert (created.code, account.created) == (0, ["first"]), created.err
    assert account.world["first"] | {"id": "?"} == {
        "id": "?",
        "name": "first",
        "size": 1,
        "owner": "nobody",
        "secret": None,
        "timeout": None,
        "tags": ["a", "b"],
        "any": {"deep": [1, "x"]},
        "rule": [{"port": 80, "uid": "u80"}],
    }
    for _ in range(2):
        assert "1 unchanged" in account.apply(one).out
    plan = account.run("plan", "site.yaml")
    assert plan.out == "Plan: nothing to do; 1 unchanged.\n"
    assert "1 updated" in account.apply(one.replace("size: 1", "size: 2")).out
    assert account.world["first"]["size"] == 2
    replaced = account.apply(one.replace("size: 1", "size: 2").replace("first", "second"))
    assert "1 replaced" in replaced.out, replaced.err
    assert (list(account.world), account.created) == (["second"], ["first", "second"])
    destroyed = account.run("destroy", "site.yaml", "--yes")
    assert (destroyed.code, account.world) == (0, {}), destroyed.err
    assert running_programs() == []


def test_unknown_values_references_and_outputs(account: Account) -> None:
    """An id of the provider is unknown in the plan, and reaches other resources and outputs."""
    resources = "  Odd_thing[a]: {name: a}\n  Odd_thing[b]: {name: b, owner: '${Odd_thing[a].id}'}\n"
    account.write(resources, "outputs: {id: '${Odd_thing[a].id}'}\n")
    assert "id: (none) → (known after apply)" in account.run("plan", "site.yaml").out
    applied = account.run("apply", "site.yaml")
    assert applied.code == 0, applied.err
    assert account.world["b"]["owner"] == account.world["a"]["id"]
    assert applied.out.startswith(f"id: {account.world['a']['id']}\n")


def test_drift_and_a_deletion_outside_are_repaired(account: Account) -> None:
    """A changed value is changed back; a missing thing is created again."""
    resource = "  Odd_thing[a]: {name: a, size: 1}\n"
    account.apply(resource)
    (path,) = account.things.glob("t-*")
    path.write_text(json.dumps({**json.loads(path.read_text()), "size": 5}))
    assert "size: 5 → 1" in account.run("plan", "site.yaml").out
    assert account.apply(resource).code == 0
    assert account.world["a"]["size"] == 1
    path.unlink()
    assert "1 created" in account.apply(resource).out


def test_an_argument_that_is_taken_away_is_changed_by_the_provider(account: Account) -> None:
    """Terraform unsets what is not declared any more."""
    account.apply("  Odd_thing[a]: {name: a, size: 1}\n")
    account.write("  Odd_thing[a]: {name: a}\n")
    plan = "~ Odd_thing[a]\n    size: 1 → (none)\n\nPlan: 1 to update; 0 unchanged.\n"
    assert account.run("plan", "site.yaml", "-o", "later.json").out == plan
    assert account.run("show", "later.json").out == plan
    applied = account.apply("  Odd_thing[a]: {name: a}\n")
    assert (applied.code, "size changed from 1 to (none)" in applied.err) == (0, True), applied.err
    assert account.world["a"]["size"] is None
    assert "1 unchanged" in account.apply("  Odd_thing[a]: {name: a}\n").out


def test_members_that_the_provider_completes_are_no_difference(account: Account) -> None:
    """The plan shows a changed block with its computed members; references reach them."""
    one = "  Odd_thing[a]: {name: a, rule: [{port: 80}]}\n"
    assert account.apply(one).code == 0
    assert "nothing to do" in account.run("plan", "site.yaml").out
    account.write(one.replace("80", "81"))
    plan = account.run("plan", "site.yaml").out
    assert "rule[0].port: 80 → 81" in plan
    assert "rule[0].uid" not in plan
    assert account.apply(one.replace("80", "81"), "outputs: {uid: '${Odd_thing[a].rule[0].uid}'}\n").code == 0
    assert "1 unchanged" in account.run("apply", "site.yaml").out


def test_a_plan_of_an_older_sdk_need_not_come_true(account: Account) -> None:
    """Its flag makes a wrong prediction a line for debugging; without the flag the resource fails."""
    failed = account.apply("  Odd_thing[a]: {name: a}\n", ODD="inexact")
    assert (failed.code, "did not converge: owner is somebody, should be nobody" in failed.err) == (1, True)
    applied = account.apply("  Odd_thing[b]: {name: b}\n", "", "-d", ODD="legacy")
    assert applied.code == 0, applied.err
    assert "the result differs from the plan: owner is somebody, should be nobody" in applied.err
    assert "nothing to do" in account.run("plan", "site.yaml").out


def test_an_ignored_attribute_keeps_its_value(account: Account) -> None:
    """``ignore_changes`` of a declared and of an undeclared one, beside another change."""
    account.apply("  Odd_thing[a]: {name: a, size: 1, tags: [x]}\n")
    ignoring = "  Odd_thing[a]: {name: a, size: 2, owner: me, lifecycle: {ignore_changes: [size, tags]}}\n"
    assert account.apply(ignoring).code == 0
    assert [account.world["a"][name] for name in ("size", "tags", "owner")] == [1, ["x"], "me"]
    assert "1 unchanged" in account.run("apply", "site.yaml").out


def test_a_secret_is_encrypted_in_state_and_shown_nowhere(account: Account) -> None:
    """The API has it; the database, the plan and the log have not; without a key nothing is created."""
    resource = "  Odd_thing[a]: {name: a, secret: hunter2-secret}\n"
    keyless = account.apply(resource, RESOURCE_API_KEY="", RESOURCE_API_STATE=f"sqlite:{account.home}/plain.db")
    assert keyless.code == 64
    assert "'resource-api new key PATH' makes one" in keyless.err
    assert account.created == []
    applied = account.apply(resource, "", "-d")
    assert applied.code == 0, applied.err
    assert account.world["a"]["secret"] == "hunter2-secret"
    output = account.run("state", "show", "Odd_thing[a]", "--project", "site", "--private")
    assert "hunter2" not in applied.text + output.text + account.run("plan", "site.yaml", "--json").text
    assert b"hunter2" not in (account.home / "state.db").read_bytes()
    assert "1 unchanged" in account.apply(resource).out


def test_an_attribute_called_like_a_metaparameter_has_an_underscore(account: Account) -> None:
    """``timeout_`` is the provider's; ``timeout`` is ours."""
    assert account.apply("  Odd_thing[a]: {name: a, timeout_: soon, timeout: 30}\n").code == 0
    assert account.world["a"]["timeout"] == "soon"


def test_a_resource_is_imported_by_the_providers_id(account: Account) -> None:
    """Or by its identity; by the command and ``lifecycle.import``; an unknown id fails with the provider's words."""
    item = {"name": "old", "size": 3, "owner": "me", "secret": None, "tags": None, "any": None, "timeout": None}
    (account.things / "t-1").write_text(json.dumps({**item, "rule": [], "id": "t-1"}))
    account.write("  Odd_thing[a]: {name: old, size: 3, owner: me}\n")
    unknown = account.run("import", "site.yaml", "Odd_thing[a]", "t-9")
    assert unknown.code == 1
    assert "Odd_thing[a] cannot be imported: there is no thing t-9" in unknown.err
    assert account.run("state", "list", "--project", "site").out == ""
    assert account.run("import", "site.yaml", "Odd_thing[a]", "t-1").code == 0
    assert "1 unchanged" in account.run("apply", "site.yaml").out
    (account.things / "t-2").write_text(json.dumps({**item, "name": "other", "rule": [], "id": "t-2"}))
    imported = account.apply("  Odd_thing[b]: {name: other, size: 4, owner: me, lifecycle: {import: t-2}}\n")
    assert "1 imported" in imported.out, imported.err
    (account.things / "t-3").write_text(json.dumps({**item, "name": "third", "rule": [], "id": "t-3"}))
    account.write("  Odd_thing[c]: {name: third, size: 3, owner: me}\n")
    assert account.run("import", "site.yaml", "Odd_thing[c]", '{"number": 3}').code == 0
    assert "1 unchanged" in account.run("apply", "site.yaml").out
    assert account.run("state", "rm", "Odd_thing[c]", "--project", "site").code == 0
    for wrong in ('{"id": 3}', "{"):
        assert account.run("import", "site.yaml", "Odd_thing[c]", wrong).code == 1
    assert (account.world["other"]["size"], account.created) == (4, [])


def state_of_terraform(account: Account, **more: Any) -> Path:
    """Write things and the state file of Terraform that has them: two of a module, one that refers to another."""
    rows = []
    for identifier, name, module, index, extra in (
        ("t-1111", "first", "", None, {"secret": None}),
        ("t-2222", "second", 'module.net["x"]', 0, {"timeout": "t-1111"}),
        ("t-3333", "third", 'module.net["x"]', 1, {"timeout": "soon", "rule": [{"port": 80, "uid": "u80"}], **more}),
    ):
        thing = {
            "name": name,
            "size": 3,
            "owner": "nobody",
            "secret": None,
            "tags": ["b"],
            "any": None,
            "timeout": None,
        }
        thing = {**thing, "rule": [], "id": identifier, **extra}
        (account.things / identifier).write_text(json.dumps(thing))
        instance = {"schema_version": 1, "attributes": thing, "private": "cA==", "dependencies": ["odd_thing.one"]}
        instance |= {} if index is None else {"index_key": index}
        row = {
            "mode": "managed",
            "type": "odd_thing",
            "name": "one" if index is None else "two",
            "instances": [instance],
        }
        rows.append({**row, **({"module": module} if module else {}), "provider": 'provider["a.b/example/odd"]'})
    rows.append({"mode": "data", "type": "odd_count", "name": "n", "provider": "", "instances": []})
    other = {"mode": "managed", "type": "even_thing", "name": "e", "provider": 'provider["a.b/c/even"]'}
    rows.append({**other, "instances": [{"schema_version": 0, "attributes": {"id": "e"}}]})
    outputs = {"first": {"value": "t-1111", "type": "string"}, "key": {"value": "hunter2-key", "sensitive": True}}
    path = account.home / "terraform.tfstate"
    path.write_text(json.dumps({"version": 4, "serial": 1, "resources": rows, "outputs": outputs}))
    return path


def test_a_state_of_terraform_is_taken_over_as_a_whole(account: Account) -> None:
    """Each resource is declared, also references and titles of modules, and recorded; the plan is silent."""
    state = state_of_terraform(account)
    account.write("  Odd_thing[mine]: {name: own}\n")
    assert account.run("apply", "site.yaml").code == 0
    taken = account.run("import", "site.yaml", "--from-terraform", state.name)
    assert taken.code == 1
    assert "even_thing.e cannot be imported: the manifest declares no provider 'even'" in taken.err
    assert "Odd_thing[one]: imported.\n" in taken.out
    assert taken.out.endswith("Plan: nothing to do; 4 unchanged.\n")
    text = (account.home / "site.yaml").read_text()
    assert '  "Odd_thing[net.x.two.0]":\n    name: "second"\n    size: 3\n    tags: ["b"]\n' in text
    assert '    timeout_: "soon"\n    rule: [{"port": 80}]\n' in text
    assert '    timeout_: "${Odd_thing[one].id}"\n' in text
    assert "  Odd_thing[mine]: {name: own}\n" in text
    assert "4 unchanged" in account.run("apply", "site.yaml").out
    assert account.created == ["own"]
    state.write_text(
        json.dumps({**json.loads(state.read_text()), "resources": json.loads(state.read_text())["resources"][:3]})
    )
    again = account.run("import", "site.yaml", "--from-terraform", state.name, "--json")
    assert [row["status"] for row in json.loads(again.out)["resources"]] == ["recorded"] * 3
    assert (again.code, (account.home / "site.yaml").read_text()) == (0, text)
    assert account.run("destroy", "site.yaml", "--yes").code == 0
    assert account.world == {}
    assert running_programs() == []


def test_a_secret_of_a_state_of_terraform_must_be_declared_first(account: Account) -> None:
    """The secret is written into no manifest; with the declaration it is taken over, encrypted."""
    state = state_of_terraform(account, secret="hunter2-secret")
    account.write("  {}\n".replace("  {}\n", ""))
    taken = account.run("import", "site.yaml", "--from-terraform", state.name)
    assert "Odd_thing[net.x.two.1] cannot be imported: declare it first, with its secret secret" in taken.err
    text = (account.home / "site.yaml").read_text()
    assert "hunter2" not in text + taken.text
    values = "name: third, size: 3, tags: [b], timeout_: soon, rule: [{port: 80}], secret: hunter2-secret"
    declared = f"  Odd_thing[net.x.two.1]: {{{values}}}\n"
    (account.home / "site.yaml").write_text(text + declared)
    taken = account.run("import", "site.yaml", "--from-terraform", state.name)
    assert taken.out.endswith("Plan: nothing to do; 3 unchanged.\n"), taken.text
    assert b"hunter2" not in (account.home / "state.db").read_bytes()


def test_an_answer_that_is_nonsense_is_an_error_of_the_provider(account: Account) -> None:
    """A schema without a type, and a state of another form."""
    state = state_of_terraform(account)
    account.write("  Odd_thing[a]: {name: a}\n")
    listed = account.run("providers", "schema", "site.yaml", "odd", ODD="nonsense")
    assert (listed.code, "has a damaged schema of odd: KeyError('type')" in listed.err) == (65, True), listed.text
    taken = account.run("import", "site.yaml", "--from-terraform", state.name, ODD="nonsense")
    assert taken.code == 1
    assert "cannot be imported: a value of the provider does not fit its schema" in taken.err


def test_a_state_that_is_nonsense_fails_its_resource_alone(account: Account) -> None:
    """One of another form, and one that is missing."""
    things = "".join(f"  Odd_thing[{name}]: {{name: {name}}}\n" for name in "abc")
    assert account.apply(things).code == 0
    failed = account.run("apply", "site.yaml", ODD="nonsense")
    assert failed.code == 1
    assert "Odd_thing[a]: a value of the provider does not fit its schema" in failed.err
    assert "Odd_thing[c]: the provider has returned no state" in failed.err
    assert "1 unchanged, 2 failed" in failed.out
    assert account.created == ["a", "b", "c"]


def test_what_differs_after_a_takeover_is_shown(account: Account) -> None:
    """A thing that is gone is an error; a default that the state does not show makes the plan speak."""
    state = state_of_terraform(account)
    (account.things / "t-2222").unlink()
    account.write("  Odd_thing[one]: {name: first, size: 4, tags: [b]}\n")
    taken = account.run("import", "site.yaml", "--from-terraform", state.name)
    assert taken.code == 1
    assert "Odd_thing[net.x.two.0] cannot be imported: it does not exist" in taken.err
    assert "size: 3 → 4" in taken.out


def test_outputs_of_a_state_of_terraform_are_an_input(account: Account) -> None:
    """As a whole; what is sensitive there is secret here."""
    state_of_terraform(account)
    (account.home / "inputs.yaml").write_text("net: {terraform_state: terraform.tfstate}\n")
    more = (
        "inputs: {net: {type: 'Hash[String, Any]'}}\n"
        "outputs: {first: '${inputs.net.first}', key: '${inputs.net.key}'}\n"
    )
    account.write("  Odd_thing[a]: {name: '${inputs.net.first}', secret: '${inputs.net.key}'}\n", more)
    applied = account.run("apply", "site.yaml", "--inputs", "inputs.yaml")
    assert applied.out.startswith("first: t-1111\nkey: <sensitive>\n"), applied.text
    assert account.world["t-1111"]["secret"] == "hunter2-key"
    (account.home / "inputs.yaml").write_text("net: {terraform_state: site.yaml}\n")
    refused = account.run("plan", "site.yaml", "--inputs", "inputs.yaml")
    assert (refused.code, "it is no state file of Terraform" in refused.err) == (65, True)


@pytest.mark.parametrize(
    ("content", "message"),
    [("{", "no state file"), ('{"version": 3}', "version 3"), ('{"version": 4, "resources": [{}]}', "damaged")],
)
def test_another_file_is_no_state_of_terraform(account: Account, content: str, message: str) -> None:
    """It is refused with its name."""
    (account.home / "x").write_text(content)
    account.write("  Odd_thing[one]: {name: first}\n")
    refused = account.run("import", "site.yaml", "--from-terraform", "x")
    assert (refused.code, message in refused.err) == (64, True)
    assert account.run("import", "site.yaml", "Odd_thing[one]", "--from-terraform", "x").code == 64


def test_a_resource_moves_to_another_type_of_its_provider(account: Account) -> None:
    """The object stays, under another type; what the provider refuses fails, and a bundled type never moves."""
    account.apply("  Odd_thing[a]: {name: a, size: 1, secret: hunter2-secret}\n  Odd_thing[b]: {name: b}\n")
    resources = "  Odd_box[c]: {name: a, size: 1, secret: hunter2-secret}\n  Odd_thing[b]: {name: b}\n"
    moved = "moved: [{from: 'Odd_thing[a]', to: 'Odd_box[c]'}]\n"
    account.write(resources, moved)
    plan = account.run("plan", "site.yaml").out
    assert plan == "  Odd_box[c] (was Odd_thing[a])\nPlan: nothing to do; 2 unchanged.\n"
    assert account.run("apply", "site.yaml", "--prune").code == 0
    assert account.created == ["a", "b"]
    assert "2 unchanged" in account.apply(resources).out
    assert "Odd_thing[a]" not in account.run("state", "list", "--project", "site").out
    changed = account.apply(resources.replace("size: 1", "size: 2"))
    assert (changed.code, account.world["a"]["size"]) == (0, 2)
    back = "  Odd_thing[d]: {name: a, size: 2, secret: hunter2-secret}\n  Odd_thing[b]: {name: b}\n"
    refused = account.apply(back, "moved: [{from: 'Odd_box[c]', to: 'Odd_thing[d]'}]\n")
    message = "a odd_box of registry.terraform.io/hashicorp/odd cannot become a odd_thing"
    assert (refused.code, message in refused.err, len(account.world)) == (1, True, 2)
    assert account.run("destroy", "site.yaml", "--yes").code in {0, 1}
    file = f"File[{account.home}/f]"
    account.write("  Odd_box[e]: {name: e}\n", f"moved: [{{from: '{file}', to: 'Odd_box[e]'}}]\n")
    assert "a resource keeps its type" in account.run("plan", "site.yaml").err


def test_data_sources_and_functions_are_invoked(account: Account) -> None:
    """Both by the name of the provider."""
    (account.things / "x-1").touch()
    values = (
        "values:\n"
        "  count: {invoke: odd.odd_count, with: {pattern: 'x-*'}}\n"
        "  sum: {invoke: odd.add, with: {a: 1, more: [2, 3]}}\n"
        "outputs: {n: '${values.count.n}', sum: '${values.sum}'}\n"
    )
    applied = account.apply("  Odd_thing[a]: {name: a}\n", values)
    assert applied.out.startswith("n: 1\nsum: 6\n"), applied.err


def test_a_secret_of_a_data_source_is_a_secret(account: Account) -> None:
    """Only that attribute: the plan, the log and the outputs do not show it; the state has it encrypted."""
    more = (
        "values:\n  c: {invoke: odd.odd_count, with: {pattern: '*'}}\noutputs: {n: '${values.c.n}', p: '${values.c}'}\n"
    )
    applied = account.apply("  Odd_thing[a]: {name: a, timeout_: '${values.c.password}'}\n", more, "-d")
    assert applied.code == 0, applied.err
    assert "n: 0\np: {pattern: *, n: 0, password: <sensitive>}\n" in applied.out
    assert account.world["a"]["timeout"] == "hunter2-password"
    assert "hunter2" not in applied.text + account.run("plan", "site.yaml", "--json").text
    assert b"hunter2" not in (account.home / "state.db").read_bytes()


def test_an_ephemeral_resource_is_open_during_the_run(account: Account) -> None:
    """Its result is a secret; it is closed at the end, also of a failed run."""
    more = "values:\n  l: {invoke: odd.ephemeral_odd_lease, with: {name: lease}}\n"
    for size, code in (("1", 0), ("99", 1)):
        resource = f"  Odd_thing[a]: {{name: a, size: {size}, secret: '${{values.l.token}}'}}\n"
        applied = account.apply(resource, more, "-d")
        assert (applied.code, "hunter2" in applied.text) == (code, False), applied.err
        assert account.world["a"]["secret"] == "hunter2-token"
        assert ((account.things / "closed").exists(), (account.things / "lease").exists()) == (True, False)
        (account.things / "closed").unlink()


def test_an_ephemeral_resource_is_closed_though_another_one_fails_to(account: Account) -> None:
    """The errors of both are shown."""
    leases = "".join(f"  {name}: {{invoke: odd.ephemeral_odd_lease, with: {{name: {name}}}}}\n" for name in "xy")
    applied = account.apply(
        "  Odd_thing[a]: {name: a, secret: '${values.x.token}${values.y.token}'}\n", f"values:\n{leases}", ODD="busy"
    )
    assert not {"x", "y"}.intersection(path.name for path in account.things.iterdir())
    assert {"x is busy", "y is busy"} <= set(re.findall("[xy] is busy", applied.err)), applied.err


def test_resources_are_listed_by_a_provider_that_can(account: Account) -> None:
    """As a manifest, with the ids as titles; a change and a purge are refused: the names are in manifests only."""
    account.apply("  Odd_thing[a]: {name: a, size: 1}\n  Odd_thing[b]: {name: b, secret: hunter2-secret}\n")
    listed = account.run("resource", "odd_thing", "--manifest", "site.yaml", "--provider", "odd")
    assert listed.code == 0, listed.err
    first, second = sorted(account.world.values(), key=lambda thing: thing["id"])
    assert f"  Odd_thing[{first['id']}]:\n    ensure: present\n    name: {first['name']}\n" in listed.out
    assert f"  Odd_thing[{second['id']}]:\n" in listed.out
    assert "hunter2" not in listed.text
    assert "The list may be incomplete" in listed.err
    one = ("resource", "odd_thing", first["id"], "size=2", "--manifest", "site.yaml", "--provider", "odd")
    assert (account.run(*one).code, account.world[first["name"]]["size"]) == (64, first["size"])
    account.write("  Odd_thing[a]: {name: a, size: 1}\n", "purge: [{type: Odd_thing, at_most: 9}]\n")
    refused = account.run("apply", "site.yaml")
    assert (refused.code, "Odd_thing cannot be purged" in refused.err, len(account.world)) == (65, True, 2)


def test_types_of_a_provider_are_described_listed_and_in_the_schema_of_editors(account: Account) -> None:
    """With the manifest that declares the provider."""
    account.write("  Odd_thing[a]: {name: a}\n")
    described = account.run("describe", "odd_thing", "--manifest", "site.yaml")
    assert "Called like a metaparameter." in described.out, described.err
    assert "timeout_" in described.out
    described = account.run("describe", "odd.add", "--manifest", "site.yaml")
    assert "Return a sum." in described.out
    assert "odd_thing" in account.run("types", "--manifest", "site.yaml").out
    schema = json.loads(account.run("schema", "--manifest", "site.yaml").out)
    accepted = {"providers": {"odd": {"path": "x", "config": {"directory": "/"}}}}
    for body, is_valid in (({"name": "a", "timeout_": "soon"}, True), ({"name": 1}, False), ({"nme": "a"}, False)):
        manifest = {**accepted, "resources": {"Odd_thing[a]": body}}
        assert Draft7Validator(schema).is_valid(manifest) is is_valid, body
    assert account.run("describe", "odd_thing").code == 64
    unknown = account.run("describe", "odd_thin", "--manifest", "site.yaml")
    assert "did you mean 'odd_thing'?" in unknown.err
    assert running_programs() == []


def completed(account: Account, *words: str) -> list[str]:
    """Return the candidates for the last word of a line."""
    result = account.run(*words, _RESOURCE_API_COMPLETE="zsh_complete", ODD="logged")
    assert (result.code, result.err) == (0, "")
    return result.out.split("\0")[1:-1:2]


def test_types_of_a_provider_are_completed_without_its_program(account: Account) -> None:
    """As the last run has seen them; the file of a changed declaration is another one."""
    account.write("  Odd_thing[a]: {name: a}\n")
    words = ("describe", "--manifest", "site.yaml")
    assert completed(account, *words, "odd_") == []
    assert account.run("plan", "site.yaml").code == 0
    (account.home / "calls").write_text("")
    assert completed(account, *words, "odd_th") == ["odd_thing"]
    assert "odd.add" in completed(account, *words, "odd.")
    assert completed(account, "resource", "--manifest", "site.yaml", "user,odd_th") == ["user,odd_thing"]
    assert completed(account, "providers", "schema", "site.yaml", "") == ["odd"]
    assert completed(account, "describe", "odd_th") == []
    assert ((account.home / "calls").read_text(), running_programs()) == ("", [])


@pytest.mark.parametrize("damage", ["open", "link", "content"])
def test_names_that_others_could_have_written_are_not_completed(account: Account, damage: str) -> None:
    """Nor is anything written there; the run is the same."""
    account.write("  Odd_thing[a]: {name: a}\n")
    words = ("describe", "--manifest", "site.yaml", "odd_th")
    assert account.run("plan", "site.yaml").code == 0
    directory = account.home / "cache/resource-api/types"
    (file,) = directory.iterdir()
    if damage == "open":
        directory.chmod(0o777)
    elif damage == "link":
        directory.rename(account.home / "elsewhere")
        directory.symlink_to(account.home / "elsewhere")
    else:
        file.write_text('{"types": 1')
    before = file.stat()
    assert completed(account, *words) == []
    result = account.run("plan", "site.yaml", "--debug")
    assert result.code == 0
    if damage == "content":
        assert completed(account, *words) == ["odd_thing"]
    else:
        assert f"{directory} is not a directory that only you can change" in result.err
        assert file.stat() == before


def test_types_of_a_provider_work_beside_workers(account: Account) -> None:
    """With ``--isolate`` other types run in workers; the program is a process of its own anyway."""
    file = f"File[{account.home}/f]"
    resources = f"  {file}: {{content: x}}\n  Odd_thing[a]: {{name: a, timeout_: '${{{file}.checksum}}'}}\n"
    assert account.apply(resources, "", "--isolate").code == 0
    assert "2 unchanged" in account.run("apply", "site.yaml", "--isolate").out
    assert account.created == ["a"]


def test_checks_of_the_provider_have_the_place_in_the_manifest(account: Account) -> None:
    """Of a resource and of the configuration, already in ``validate``."""
    account.write("  Odd_thing[a]: {name: a, size: 13}\n")
    refused = account.run("validate", "site.yaml")
    assert refused.code == 65
    assert "site.yaml:4:27: Odd_thing[a]: size: Such a size is forbidden" in refused.err
    account.write("  Odd_thing[a]: {name: a}\n", config=", token: bad")
    refused = account.run("validate", "site.yaml")
    assert refused.code == 65
    assert re.search(r"site\.yaml:2:\d+: provider 'odd'.*The token is refused", refused.err)


def test_a_second_configuration_is_chosen_by_name(account: Account) -> None:
    """``provider: west`` has a directory and a process of its own."""
    west = account.home / "west"
    west.mkdir()
    account.write("  Odd_thing[a]: {name: a}\n  Odd_thing[b]: {name: b, provider: west}\n")
    text = (account.home / "site.yaml").read_text()
    second = f"  west: {{type: odd, config: {{directory: {west}}}}}\nresources:"
    (account.home / "site.yaml").write_text(text.replace("resources:", second))
    assert account.run("apply", "site.yaml").code == 0
    assert (list(account.world), len(list(west.glob("t-*")))) == (["a"], 1)
    assert "2 unchanged" in account.run("apply", "site.yaml").out


def test_half_a_creation_is_kept_and_completed(account: Account) -> None:
    """The program returned a state and an error: the next run knows the thing."""
    failed = account.apply("  Odd_thing[a]: {name: a, size: 99}\n")
    assert failed.code == 1
    assert "Only half of it was made" in failed.err
    assert account.apply("  Odd_thing[a]: {name: a, size: 1}\n").code == 0
    assert (list(account.world), account.created) == (["a"], ["a"])


def test_after_a_kill_in_a_creation_there_is_never_a_second_one(account: Account) -> None:
    """Both runs fail and name the ways out; after the import all is well. The program ends with its caller."""
    resource = "  Odd_thing[a]: {name: a}\n"
    account.write(resource)
    assert account.run("apply", "site.yaml", ODD="kill").code == -signal.SIGKILL
    for name in ("plan", "apply"):
        doubtful = account.run(name, "site.yaml")
        assert doubtful.code == 1
        assert TAKES_OVER.search(doubtful.text), doubtful.text
    assert account.created == ["a"]
    assert account.run("import", "site.yaml", "Odd_thing[a]", account.world["a"]["id"]).code == 0
    assert "1 unchanged" in account.run("apply", "site.yaml").out
    end = time.monotonic() + 5
    while running_programs() and time.monotonic() < end:
        time.sleep(0.1)
    assert running_programs() == []


def later_version(account: Account, odd: str = "default") -> None:
    """Install a later version of the program."""
    program = account.home / "terraform-provider-odd"
    program.write_text(program.read_text().replace("PYTHONPATH=", f"ODD={odd} PYTHONPATH="))


def test_a_later_version_with_another_schema_converts_the_state(account: Account) -> None:
    """The manifest has the new name, and nothing else is to be done; the old version refuses the new state."""
    account.apply("  Odd_thing[a]: {name: a, size: 3, secret: hunter2-secret}\n")
    later_version(account, "upgraded")
    refused = account.run("plan", "site.yaml")
    assert (refused.code, "size" in refused.err) == (65, True)
    account.write("  Odd_thing[a]: {name: a, amount: 3, secret: hunter2-secret}\n")
    assert account.run("plan", "site.yaml").out == "Plan: nothing to do; 1 unchanged.\n"
    changed = "  Odd_thing[a]: {name: a, amount: 4, secret: hunter2-secret}\n"
    assert "amount changed from 3 to 4" in account.apply(changed).err
    assert account.world["a"]["size"] == 4
    assert "1 unchanged" in account.run("apply", "site.yaml").out
    program = account.home / "terraform-provider-odd"
    program.write_text(program.read_text().replace("ODD=upgraded ", ""))
    refused = account.apply("  Odd_thing[a]: {name: a, size: 3, secret: hunter2-secret}\n")
    assert (refused.code, account.world["a"]["size"]) == (1, 4), refused.text
    later_version(account, "upgraded")
    assert account.run("destroy", "site.yaml", "--yes").code == 0
    assert (account.world, account.created) == ({}, ["a"])


def test_another_program_is_noticed_although_the_manifest_is_the_same(account: Account) -> None:
    """After runs without a change, which may be concluded from the cache."""
    resource = "  Odd_thing[a]: {name: a}\n"
    account.apply(resource)
    for _ in range(3):
        assert "1 unchanged" in account.run("apply", "site.yaml").out
    later_version(account)
    assert "owner: nobody → everybody" in account.run("plan", "site.yaml").out
    assert "1 updated" in account.run("apply", "site.yaml").out


def test_another_program_is_noticed_by_a_program_that_stays(account: Account) -> None:
    """The former process ends, and its schema is not used any more."""
    account.write("  Odd_thing[a]: {name: a}\n")
    runtime = Runtime(Registry.from_path(), state=f"sqlite:{account.home}/other.db", key=f"file:{account.home}/key")
    manifest = account.home / "site.yaml"
    assert runtime.apply(manifest).summary.created == 1
    assert runtime.plan(manifest).summary.unchanged == 1
    later_version(account)
    (step,) = runtime.plan(manifest).steps
    assert [(change.attribute, change.should) for change in step.changes] == [("owner", "everybody")]
    assert running_programs() == []


def source(account: Account, version: str, versions: str = "", mirror: str = "terraform.d/plugins") -> None:
    """Put the program into a mirror beside the manifest as this version, and declare it by source."""
    directory = account.home / mirror / "registry.opentofu.org/example/odd" / version / packages.platform()
    directory.mkdir(parents=True, exist_ok=True)
    shutil.copy(account.home / "terraform-provider-odd", directory / f"terraform-provider-odd_v{version}")
    declared = f"source: example/odd, version: '{versions}', config: {{directory: {account.things}}}"
    (account.home / "site.yaml").write_text(
        f"providers:\n  odd: {{{declared}}}\nresources:\n  Odd_thing[a]: {{name: a}}\n"
    )


def test_a_provider_with_a_source_is_found_in_a_mirror(account: Account) -> None:
    """The newest version that fits; the list names it, and the schema comes from it."""
    source(account, "1.2.0")
    source(account, "2.0.0")
    source(account, "1.10.0", "<2")
    assert account.run("apply", "site.yaml").code == 0
    assert account.created == ["a"]
    (row,) = json.loads(account.run("providers", "list", "site.yaml", "--json").out)
    assert (row["name"], row["source"], row["version"]) == ("odd", "example/odd", "1.10.0")
    assert "example/odd  1.10.0" in account.run("providers", "list", "site.yaml").out
    schema = json.loads(account.run("providers", "schema", "site.yaml", "odd").out)
    block = schema["provider_schemas"]["example/odd"]["resource_schemas"]["odd_thing"]["block"]
    assert block["attributes"]["id"] == {"type": "string", "computed": True}
    assert block["block_types"]["rule"]["nesting_mode"] == "list"
    assert account.run("providers", "schema", "site.yaml", "even").code == 64


def test_a_move_names_the_declared_source(account: Account) -> None:
    """Without one, the provider is taken for one of HashiCorp's."""
    source(account, "1.2.0")
    site = account.home / "site.yaml"
    site.write_text(site.read_text().replace("Odd_thing[a]", "Odd_box[a]"))
    assert account.run("apply", "site.yaml").code == 0
    site.write_text(
        site.read_text().replace("Odd_box[a]", "Odd_thing[a]") + "moved: [{from: 'Odd_box[a]', to: 'Odd_thing[a]'}]\n"
    )
    refused = account.run("apply", "site.yaml")
    assert "a odd_box of registry.terraform.io/example/odd cannot become a odd_thing" in refused.err


def test_a_source_that_is_nowhere_is_an_error_with_all_places(account: Account) -> None:
    """It names the line, what was searched, and the command that fetches it; or the versions that there are."""
    source(account, "1.0.0", ">=3")
    refused = account.run("validate", "site.yaml")
    assert (refused.code, "no version of example/odd for linux_" in refused.err) == (65, True)
    assert "fits '>=3'; there are: 1.0.0" in refused.err
    shutil.rmtree(account.home / "terraform.d")
    for name in ("validate", "plan", "apply"):
        refused = account.run(name, "site.yaml", TF_PLUGIN_CACHE_DIR="/plug/in/cache")
        assert refused.code == 65
        assert refused.err.startswith("site.yaml:2:")
        for place in (".terraform/providers", "terraform.d/plugins", "/plug/in/cache", "/usr/share/terraform/plugins"):
            assert place in refused.err
        assert "'tofu providers mirror DIR'" in refused.err
    source(account, "1.0.0", "~> 1.0")
    assert "write '~=1.0'" in account.run("validate", "site.yaml").err


def test_a_lock_file_decides_the_version_and_the_files(account: Account) -> None:
    """A newer version is not used, another content is refused, and so is a provider that it does not have."""
    source(account, "1.0.0")
    locked = account.run("providers", "lock", "site.yaml")
    assert (locked.code, locked.out) == (0, "example/odd 1.0.0\nproviders.lock: 1 locked.\n"), locked.err
    source(account, "1.1.0")
    assert account.run("apply", "site.yaml").code == 0
    (row,) = json.loads(account.run("providers", "list", "site.yaml", "--json").out)
    assert row["version"] == "1.0.0"
    program = Path(row["path"])
    program.write_text(program.read_text() + "# another\n")
    for name in ("validate", "plan", "apply"):
        refused = account.run(name, "site.yaml")
        assert refused.code == 65
        assert refused.err.startswith("site.yaml:2:")
        assert "providers.lock: it has h1:" in refused.err
    source(account, "1.1.0", ">1.0")
    assert "names 1.0.0, which '>1.0' does not accept" in account.run("plan", "site.yaml").err
    document = json.loads(account.run("providers", "lock", "site.yaml", "--json").out)
    assert [provider["version"] for provider in document["providers"]] == ["1.1.0"]
    assert account.run("plan", "site.yaml").code == 0
    (account.home / "providers.lock").write_text("")
    assert "has no example/odd; 'resource-api providers lock MANIFEST' adds it" in account.run("plan", "site.yaml").err


def test_a_packed_provider_is_unpacked_into_the_cache(account: Account) -> None:
    """A zip file that others can change is refused; the unpacked one has the hash of the lock file."""
    source(account, "1.0.0")
    assert account.run("providers", "lock", "site.yaml").code == 0
    directory = account.home / "terraform.d/plugins/registry.opentofu.org/example/odd"
    path = directory / f"terraform-provider-odd_1.0.0_{packages.platform()}.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(
            directory / "1.0.0" / packages.platform() / "terraform-provider-odd_v1.0.0", "terraform-provider-odd_v1.0.0"
        )
    shutil.rmtree(directory / "1.0.0")
    path.chmod(0o644)
    assert account.run("apply", "site.yaml").code == 0
    assert len(list((account.home / "cache/resource-api/providers").iterdir())) == 1
    if os.geteuid() == 0:
        path.chmod(0o666)
        refused = account.run("plan", "site.yaml")
        assert (refused.code, "mode 0666" in refused.err) == (65, True)


def after_a_kill(account: Account, action: str) -> None:
    """Do what the message after a kill asks of a person, and converge."""
    applied = account.run(*action.split())
    if applied.code and TAKES_OVER.search(applied.text):
        identifiers = [thing["id"] for thing in account.world.values()]
        way_out = ["import", "site.yaml"] if identifiers else ["state", "rm"]
        ended = account.run(*way_out, "Odd_thing[a]", *identifiers, *(() if identifiers else ("--project", "site")))
        assert ended.code == 0, ended.text
        applied = account.run(*action.split())
    assert applied.code == 0, applied.text


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("change", ["create", "update", "replace", "destroy"])
def test_a_kill_at_any_call_never_leads_to_a_second_creation(account: Account, when: str, change: str) -> None:
    """The run is killed at its first call, at its second, and so on; the next one does what is missing, once."""
    action = "destroy site.yaml --yes" if change == "destroy" else "apply site.yaml"
    expected = {"create": ["a"], "update": ["a"], "replace": ["a", "b"], "destroy": ["a"]}[change]
    number, killed = 0, True
    while killed:
        number += 1
        shutil.rmtree(account.things)
        account.things.mkdir()
        for path in account.home.glob("state.db*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if change != "create":
            account.apply("  Odd_thing[a]: {name: a}\n")
        name = "b" if change == "replace" else "a"
        account.write(f"  Odd_thing[a]: {{name: {name}{', size: 1' if change == 'update' else ''}}}\n")
        killed = account.run(*action.split(), ODD_KILL=f"{when}:{number}").code == -signal.SIGKILL
        after_a_kill(account, action)
        assert account.created == expected, f"killed {when} call {number}"
        assert list(account.world) == ([] if change == "destroy" else [name]), f"killed {when} call {number}"
    assert number > 5


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("garbage", "returned 1 before its handshake, and printed: hello, world; I cannot work here"),
        ("crash", "the Terraform provider odd: ApplyResourceChange: UNAVAILABLE: the program ended the connection"),
    ],
)
def test_a_faulty_program_fails_with_its_words(account: Account, fault: str, message: str) -> None:
    """Garbage before the handshake, and a crash in the middle."""
    failed = account.apply("  Odd_thing[a]: {name: a}\n", ODD=fault)
    assert failed.code == 1
    assert message in failed.err


def test_a_program_that_is_no_provider_is_named_with_the_line_of_its_entry(account: Account) -> None:
    """It ends without a handshake: exit code 1, since the manifest may be right, and the position of ``path``."""
    account.write("  Odd_thing[a]: {name: a}\n")
    (account.home / "terraform-provider-odd").write_text("#!/bin/sh\necho hello\n")
    for action in ("validate", "plan", "apply"):
        failed = account.run(action, "site.yaml")
        assert failed.code == 1
        assert failed.err.startswith("site.yaml:2:9: the Terraform provider odd (")
        assert "returned 0 before its handshake, and printed: hello" in failed.err
        assert "    2 |   odd: {path: " in failed.err


def test_a_manifest_without_a_source_has_nothing_to_lock(account: Account) -> None:
    """An entry with ``path`` is not locked; the command says so."""
    account.write("  Odd_thing[a]: {name: a}\n")
    locked = account.run("providers", "lock", "site.yaml")
    reason = "only a provider with 'source' is locked, and the manifest declares none"
    assert (locked.code, locked.out) == (0, f"providers.lock: 0 locked; {reason}.\n"), locked.err


def test_a_time_limit_ends_a_call(account: Account) -> None:
    """The program hangs in apply; the resource fails after its ``timeout``."""
    began = time.monotonic()
    failed = account.apply("  Odd_thing[a]: {name: a, timeout: 1}\n", ODD="hang")
    assert failed.code == 1
    assert "timed out after 1 s" in failed.err
    assert time.monotonic() - began < 20


def test_a_program_on_tcp_answers_this_run_alone(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each end knows the certificate of the other; without TLS the program is not used."""
    account.write("  Odd_thing[a]: {name: a}\n")
    assert account.run("apply", "site.yaml", ODD="tcp").code == 0
    assert account.created == ["a"]
    refused = account.run("plan", "site.yaml", ODD="tcp-plain")
    assert (refused.code, "listens on TCP without TLS" in refused.err) == (65, True), refused.err
    monkeypatch.setenv("HOME", str(account.home))
    monkeypatch.setenv("ODD", "tcp")
    process = start([str(account.home / "terraform-provider-odd")], lambda _level, _text: None)
    try:
        assert "odd_thing" in process.call("schema")["resource_schemas"]
        certificate = ssl.get_server_certificate(("127.0.0.1", int((account.home / "port").read_text())))
        stranger = PluginAddress("tcp", f"127.0.0.1:{(account.home / 'port').read_text()}")
        stranger = stranger._replace(certificate=ssl.PEM_cert_to_DER_cert(certificate))
        with pytest.raises((CallError, OSError)), closing(Channel(stranger)) as channel:
            channel.call("/tfplugin6.Provider/GetProviderSchema", b"", 5)
    finally:
        process.close()


def test_a_program_that_stops_at_the_time_limit_returns_what_it_has_made(account: Account) -> None:
    """The thing is recorded, and completed by the next run: there is no second one."""
    began = time.monotonic()
    failed = account.apply("  Odd_thing[a]: {name: a, timeout: 1}\n", ODD="slow")
    assert (failed.code, "Only half of it was made" in failed.err) == (1, True), failed.err
    assert time.monotonic() - began < 20
    assert account.apply("  Odd_thing[a]: {name: a}\n").code == 0
    assert account.created == ["a"]


def test_the_first_signal_asks_the_program_to_stop(account: Account) -> None:
    """The run ends with what was made half-way, recorded."""
    account.write("  Odd_thing[a]: {name: a}\n")
    argv = [sys.executable, "-P", "-m", "resource_api", "apply", "site.yaml"]
    variables = account.environment | {"ODD": "slow"}
    with subprocess.Popen(argv, cwd=account.home, env=variables, stderr=subprocess.PIPE, text=True) as run:
        wait_until((account.things / "applying").exists)
        run.send_signal(signal.SIGINT)
        _, errors = run.communicate(timeout=30)
    assert (run.returncode, "Only half of it was made" in errors) == (130, True), errors
    assert account.apply("  Odd_thing[a]: {name: a}\n").code == 0
    assert account.created == ["a"]


def test_a_state_with_unknown_values_is_recorded_and_an_error(account: Account) -> None:
    """What was made is not made a second time."""
    for size in (1, 2):
        failed = account.apply(f"  Odd_thing[a]: {{name: a, size: {size}}}\n", ODD="unknown")
        assert (failed.code, "returned has unknown values: owner" in failed.err) == (1, True), failed.text
    assert account.apply("  Odd_thing[a]: {name: a, size: 3}\n").code == 0
    assert account.created == ["a"]


def test_a_program_that_waits_for_its_service_can_be_asked_to_stop(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it is configured, too: the request goes over a connection of its own."""
    monkeypatch.setenv("ODD", "waiting")
    family = Family("odd", str(account.home / "terraform-provider-odd"), lambda _level, _text: None)
    provider: Any = family.provider("odd_thing")()
    try:
        with ThreadPoolExecutor() as pool:
            reports = context(family.definition("odd_thing"))
            configured = pool.submit(provider.configure, reports, {"directory": str(account.things)})
            wait_until((account.things / "applying").exists)
            provider.cancel()
            with pytest.raises(ResourceError, match=r"^It gave up$"):
                configured.result(timeout=20)
    finally:
        family.close()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1|6|tcp|nonsense|grpc", "speaks '1|6|tcp|nonsense|grpc', which is neither protocol 5 nor 6 over gRPC"),
        ('{"@level": []}', 'returned 3 before its handshake, and printed: {"@level": []}'),
    ],
)
def test_a_program_that_prints_nonsense_is_ended(tmp_path: Path, line: str, message: str) -> None:
    """Its line is in the message, which comes at once, and no process is left."""
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho $$ >{tmp_path}/pid\necho '{line}'\nsleep 1\nexit 3\n")
    program.chmod(0o755)
    began = time.monotonic()
    with pytest.raises(PluginError) as refused:
        start([str(program)], lambda _level, _text: None)
    assert (str(refused.value), time.monotonic() - began < 10) == (message, True)
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        (None, "No such file or directory"),
        (0o644, "is not executable"),
        pytest.param(
            0o777, "mode 0777", marks=pytest.mark.skipif(os.geteuid() != 0, reason="the owner may change it anyway")
        ),
    ],
)
def test_a_wrong_program_is_refused_at_its_line(account: Account, mode: int | None, message: str) -> None:
    """One that is missing, that cannot be executed, and that others can change: in validate, plan and apply."""
    account.write("  Odd_thing[a]: {name: a}\n")
    program = account.home / "terraform-provider-odd"
    program.unlink() if mode is None else program.chmod(mode)
    for name in ("validate", "plan", "apply"):
        refused = account.run(name, "site.yaml")
        assert refused.code == 65
        assert refused.err.startswith("site.yaml:2:")
        assert message in refused.err


def test_each_question_is_asked_once(account: Account) -> None:
    """Four calls for a resource that does not change; seven for a creation, the last three verify it."""
    account.write("  Odd_thing[a]: {name: a}\n")
    calls = account.home / "calls"
    for expected in (
        ["validate", "plan", "plan", "apply", "upgrade", "read", "plan"],
        ["validate", "upgrade", "read", "plan"],
    ):
        calls.write_text("")
        assert account.run("apply", "site.yaml", ODD="logged").code == 0
        asked = [name for name in calls.read_text().split() if name not in {"schema", "check_config", "configure"}]
        assert asked == expected


def test_without_such_a_provider_nothing_of_it_is_imported(account: Account) -> None:
    """A manifest of other types pays nothing."""
    (account.home / "site.yaml").write_text("resources:\n  File[/tmp]: {ensure: directory}\n")
    script = """
import sys
from resource_api.cli.main import run
run(["plan", "site.yaml"])
names = [name for name in sys.modules if name.startswith(("resource_api.terraform", "h2", "msgpack"))]
open("modules", "w").write(repr(names))
"""
    subprocess.run([sys.executable, "-P", "-c", script], cwd=account.home, env=account.environment, check=True)
    assert (account.home / "modules").read_text() == "[]"


def test_without_the_extra_the_line_and_the_remedy_are_named(account: Account) -> None:
    """As on hosts, which have no client."""
    account.write("  Odd_thing[a]: {name: a}\n")
    run = "from resource_api.cli.main import run; sys.exit(run(['plan', 'site.yaml']))"
    script = f"import sys; sys.modules['h2'] = None; {run}"
    argv = [sys.executable, "-P", "-c", script]
    ended = subprocess.run(argv, cwd=account.home, env=account.environment, check=False, capture_output=True, text=True)
    assert ended.returncode == 65
    assert ended.stderr.startswith("site.yaml:2:")
    assert "provider 'odd': programs of Terraform providers cannot be used here" in ended.stderr
    assert "pip install 'resource-api[terraform]'" in ended.stderr
