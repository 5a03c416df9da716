"""Pure functions: evaluated when the manifest is compiled, wherever a value must be known before anything is read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests import command

if TYPE_CHECKING:
    from pathlib import Path

    from tests.scenarios.conftest import Bench

NAMES_TYPE = """
    from resource_api import Attribute, Function, TypeDefinition

    TYPE = TypeDefinition(
        name="names",
        config={"url": Attribute("String")},
        functions={
            "shout": Function(inputs={"text": Attribute("String")}, output="String", pure=True),
            "ask": Function(inputs={"text": Attribute("String")}, output="String"),
            "wrong": Function(inputs={}, output="Integer", pure=True),
            "broken": Function(inputs={}, output="Integer", pure=True),
        },
    )
"""
NAMES_PROVIDER = """
    class Provider:
        def configure(self, context, config):
            raise RuntimeError("nobody may configure it")

        def shout(self, context, text):
            return text.upper()

        def ask(self, context, text):
            return text

        def wrong(self, context):
            return "seven"

        def broken(self, context):
            return 1 // 0
"""
#: Everything that must be known before anything is read, from functions.
SITE: dict[str, Any] = {
    "project": "p",
    "inputs": {"hosts": {"type": "String", "default": "web,db"}, "on": {"type": "Boolean", "default": True}},
    "values": {
        "hosts": {"invoke": "std.split", "with": {"text": "${inputs.hosts}", "by": ","}},
        "first": {"invoke": "std.upper", "with": {"text": "${values.hosts[0]}"}},
        "all": {"invoke": "std.merge", "with": {"maps": [{"a": {"size": 1}}, {"b": {"size": 2}}]}},
        "many": {"invoke": "std.contains", "with": {"in": "${values.hosts}", "item": "db"}},
        "seconds": {"invoke": "std.to_integer", "with": {"text": "30"}},
    },
    "resources": {
        "Widget[${values.first}]": {"colour": "${values.hosts[-1]}", "timeout": "${values.seconds}"},
        "Widget[${each.key}]": {"for_each": "${values.all}", "size": "${each.value.size}"},
        "Widget[never]": {"when": {"values.many": False}},
    },
    "outputs": {"n": "${values.seconds}"},
}


def planned(bench: Bench, name: str, text: str, *options: str) -> list[str]:
    """Return the references and the attributes of a plan."""
    plan = bench.run("plan", bench.write(name, text), "--json", *options)
    assert plan.code == 0, plan.err
    return [f"{step['reference']} {sorted(step['should'].items())}" for step in plan.document["steps"]]


def test_results_make_titles_collections_conditions_and_metaparameters(bench: Bench) -> None:
    """In YAML and JSON alike, and as if written out."""
    plain = {
        "Widget[WEB]": {"colour": "db", "timeout": 30},
        "Widget[a]": {"size": 1},
        "Widget[b]": {"size": 2},
    }
    expected = planned(bench, "plain.yaml", yaml.safe_dump({"project": "p", "resources": plain}, sort_keys=False))
    assert planned(bench, "site.yaml", yaml.safe_dump(SITE, sort_keys=False)) == expected
    assert planned(bench, "site.json", json.dumps(SITE)) == expected


def test_a_python_manifest_calls_them_too(bench: Bench) -> None:
    """The answer is indexed, and its key may have a dot."""
    site = """
        from resource_api import ManifestApi

        def manifest(m: ManifestApi):
            settings = m.invoke("std.from_json", text='{"a.b": ["x", "y"]}')
            m.widget("a", colour=settings["a.b"][-1], noop=m.invoke("std.contains", {"in": ["x"], "item": "x"}))
        """
    assert planned(bench, "site.py", site) == planned(
        bench, "site.yaml", "resources: {'Widget[a]': {colour: y, noop: true}}"
    )


@pytest.fixture
def names(bench: Bench) -> Bench:
    """Return a bench with a type of another author that has pure functions and a configuration."""
    bench.write("modules/types/names.py", NAMES_TYPE)
    bench.write("modules/providers/names.py", NAMES_PROVIDER)
    return bench


@pytest.mark.parametrize("options", [(), ("--isolate",)])
def test_a_pure_function_needs_no_configuration(names: Bench, options: tuple[str, ...]) -> None:
    """Its result depends on its inputs alone; it may run in a worker."""
    site = """
        providers: {names: {config: {url: x}}}
        values: {word: {invoke: names.shout, with: {text: red}}}
        resources: {"Widget[${values.word}]": {}}
        """
    plan = names.plan(site, *options)
    assert plan.out.startswith("+ Widget[RED]\n"), plan.err


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (
            "names.wrong",
            "value 'x': function names.wrong must return Integer: its result must be an integer, not a string",
        ),
        (
            "names.broken",
            "value 'x': names.broken: integer division or modulo by zero (providers/names",
        ),
    ],
)
@pytest.mark.parametrize("command", ["validate", "plan", "apply"])
def test_a_failure_is_one_of_the_manifest(names: Bench, command: str, call: str, expected: str) -> None:
    """``validate`` finds it too; nothing is read, and its uses are not reported beside it."""
    site = f"""
        providers: {{names: {{config: {{url: x}}}}}}
        values: {{ x: {{invoke: {call}}} }}
        resources: {{"Widget[a]": {{size: "${{values.x}}"}}, "Widget[${{values.x}}]": {{}}}}
        """
    refused = names.run(command, names.write("site.yaml", site))
    assert (refused.code, expected in refused.err) == (65, True), refused.err
    assert refused.err.count("site.yaml:") == 1
    assert names.calls("widget", "get") == []


def test_an_input_that_only_a_run_yields_is_waited_for(bench: Bench) -> None:
    """The result is known after apply, and a failure then is one of the resource."""
    bench.write(
        "site.yaml",
        """
        project: p
        values:
          serial: {invoke: std.lower, with: {text: "${Widget[a].serial}"}}
          number: {invoke: std.to_integer, with: {text: "${Widget[a].serial}"}}
        resources:
          Widget[a]: {size: 1}
          Widget[b]: {colour: "${values.serial}"}
          Widget[c]: {size: "${values.number}"}
        """,
    )
    plan = bench.run("plan", "site.yaml")
    assert (plan.code, plan.out.count("(known after apply)")) == (0, 2), plan.err
    applied = bench.run("apply", "site.yaml")
    assert applied.code == 1
    assert bench.things("widget")["b"]["colour"] == "s-a"
    assert "Widget[c]: std.to_integer: text is no integer: 'S-a'" in applied.err


SECRET = """
project: p
inputs:
  password: {type: "Sensitive[String]", default: open-sesame}
  users:
    type: Hash[String, Struct[{shell => String, hash => Sensitive[String]}]]
    default: {ann: {shell: red, hash: open-sesame-2}}
values:
  up: {invoke: std.upper, with: {text: "${inputs.password}"}}
  json: {invoke: std.to_json, with: {value: ["${inputs.password}"]}}
  merged: {invoke: std.merge, with: {maps: ["${inputs.users}", {bob: {shell: blue}}]}}
  names: {invoke: std.keys, with: {map: "${values.merged}"}}
  hash: {invoke: std.lookup, with: {in: "${values.merged}", path: ann.hash}}
  chosen: {invoke: std.lookup, with: {in: {open-sesame: x}, path: "${inputs.password}"}}
resources:
  Widget[${each.key}]: {for_each: "${values.merged}", colour: "${each.value.shell}"}
outputs:
  up: ${values.up}
  json: ${values.json}
  merged: ${values.merged}
  names: ${values.names}
  hash: ${values.hash}
  chosen: ${values.chosen}
"""


def test_secrets_stay_secret_and_the_rest_stays_readable(bench: Bench, tmp_path: Path) -> None:
    """Whatever a function computes from a secret is one; one that moves elements leaves the others readable."""
    state = ("--state", f"sqlite:{tmp_path}/state.db")
    plan = bench.run("plan", bench.write("site.yaml", SECRET), *state)
    assert plan.code == 0, plan.err
    outputs = dict(
        line.strip().split(": ", 1) for line in plan.out.split("outputs:")[1].split("\n\n")[0].strip().splitlines()
    )
    secret = "<sensitive>"
    assert {outputs[name] for name in ("up", "json", "hash", "chosen")} == {secret}
    assert outputs["names"] == "(none) → [ann, bob]"
    assert outputs["merged"] == f"(none) → {{ann: {{shell: red, hash: {secret}}}, bob: {{shell: blue}}}}"
    output = (
        plan.out + bench.run("plan", "site.yaml", "--json", *state).out + bench.run("apply", "site.yaml", *state).out
    )
    assert "sesame" not in output.lower()


def test_values_that_grow_without_end_are_refused_soon(bench: Bench) -> None:
    """Doubling a list fifty times, and nesting one a hundred times."""
    double = {f"v{n}": {"invoke": "std.zip", "with": {"lists": [f"${{values.v{n - 1}}}"] * 2}} for n in range(1, 50)}
    nested = {
        f"w{n}": {"invoke": "std.concat", "with": {"lists": [[[f"${{values.w{n - 1}}}"]]]}} for n in range(1, 1000)
    }
    for values in ({"v0": ["x"], **double}, {"w0": ["x"], **nested}):
        before = sum(command.used)
        refused = bench.run("validate", bench.write("site.json", json.dumps({"project": "p", "values": values})))
        assert (refused.code, sum(command.used) - before < 15) == (65, True), refused.err
        assert "expands beyond the limit" in refused.err or "is nested deeper than 100" in refused.err
