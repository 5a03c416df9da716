"""Keys of references: in quotes, from the end, chosen by another path; known at once, at the turn, in a saved plan."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

PROVIDER = """
def get(self, context):
    file = Path(os.environ["BENCH"], "source.json")
    return json.loads(file.read_text()) if file.exists() else []
def create(self, context, name, should):
    table = {"a.b": "dotted", "small": "red", "n": ["x", "y"]}
    row = {"name": name, "ensure": "present", "table": table, "size": "small"}
    Path(os.environ["BENCH"], "source.json").write_text(json.dumps([row]))
def update(self, context, name, should):
    pass
def delete(self, context, name):
    pass
"""
SOURCE = """
    "name": Attribute("String", "n", kind="namevar"),
    "ensure": Attribute("Enum[present, absent]", "e", default="present"),
    "table": Attribute("Optional[Hash[String, Any]]", "f", kind="read_only"),
    "size": Attribute("Optional[String]", "s", kind="read_only"),
"""
INPUTS = """
inputs:
  key: {type: String, default: a.b}
  last: {type: Integer, default: -1}
  list: {type: "Array[String]", default: [first, second]}
values:
  table: {a.b: dotted, small: red, n: [x, y], "it's": quoted}
"""
#: A reference into the table, as ``values.table`` and as an attribute that only the source has, and its value.
KEYS = {
    "['a.b']": "dotted",
    '["a.b"]': "dotted",
    "[inputs.key]": "dotted",
    ".n[0]": "x",
    ".n[-1]": "y",
    ".n[inputs.last]": "y",
    "['n'][-2]": "x",
}


@pytest.fixture
def source(bench: Bench) -> Bench:
    """Return a bench with a type whose attributes are known once it is created."""
    bench.type("source", SOURCE, provider=PROVIDER)
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    return bench


def manifest(reference: str) -> str:
    """Return a manifest of a source, and a widget whose colour is the value of a reference."""
    quoted = json.dumps(f"${{{reference}}}")
    return f"project: p\n{INPUTS}\nresources:\n  Source[s]: {{}}\n  Widget[w]: {{colour: {quoted}}}\n"


@pytest.mark.parametrize("keys", KEYS)
def test_a_key_is_followed_wherever_the_value_comes_from(source: Bench, keys: str) -> None:
    """In a value of the manifest at once, in one of a resource at its turn; the second run changes nothing."""
    plan = source.plan(manifest(f"values.table{keys}"))
    assert f"colour: (none) → {KEYS[keys]}" in plan.out, plan.err
    late = source.plan(manifest(f"Source[s].table{keys}"))
    assert "colour: (none) → (known after apply)" in late.out, late.err
    assert source.apply(manifest(f"Source[s].table{keys}")).code == 0
    assert source.things("widget")["w"]["colour"] == KEYS[keys]
    again = source.apply(manifest(f"Source[s].table{keys}"), "--detailed-exitcodes")
    assert (again.code, again.err) == (0, "")


def test_a_value_that_only_a_run_yields_chooses_a_key(source: Bench) -> None:
    """It comes first; the saved plan carries the reference as it was written."""
    text = manifest("values.table[values.size]").replace("values:\n", "values:\n  size: ${Source[s].size}\n")
    path = source.write("site.yaml", text)
    saved = source.run("plan", path, "-o", "saved.json")
    assert (saved.code, "(known after apply)" in saved.out) == (0, True), saved.err
    assert source.run("apply", "saved.json").code == 0
    assert source.things("widget")["w"]["colour"] == "red"
    missing = source.write("late.yaml", text.replace("small: red", "large: red").replace("Widget[w]", "Widget[x]"))
    failed = source.run("apply", missing)
    assert failed.code == 1, failed.err
    assert "Widget[x]: ${values.table[values.size]}: there is no 'small'" in failed.err


def test_a_secret_key_makes_a_secret(source: Bench) -> None:
    """What it chooses is not shown, nor what it is where nothing has that key."""
    text = manifest("values.table[inputs.word]").replace(
        "inputs:\n", 'inputs:\n  word: {type: "Sensitive[String]", default: small}\n'
    )
    plan = source.plan(text)
    assert "colour: <sensitive>" in plan.out, plan.err
    refused = source.plan(text.replace("default: small", "default: open-sesame"))
    assert (refused.code, "${values.table[inputs.word]}: there is no such key" in refused.err) == (65, True)
    assert "sesame" not in refused.err


def test_python_writes_keys_in_brackets(source: Bench) -> None:
    """``handle.attribute["a.b"]`` is one key, and an index may count from the end."""
    path = source.write(
        "site.py",
        """
        def manifest(m):
            handle = m.source("s")
            m.widget("a", colour=handle.table["a.b"])
            m.widget("b", colour=handle.table["n"][-1])
        """,
    )
    assert source.run("apply", path).code == 0
    assert [source.things("widget")[name]["colour"] for name in "ab"] == ["dotted", "y"]


def test_json_has_the_same_keys(source: Bench) -> None:
    """In JSON double quotes are escaped, single ones are not."""
    body = {"values": {"t": {"a.b": "red"}}, "resources": {"Widget[w]": {"colour": '${values.t["a.b"]}'}}}
    assert "→ red" in source.run("plan", source.write("site.json", json.dumps(body))).out
