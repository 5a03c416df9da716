"""Attributes that are called like a metaparameter: manifests write them with a ``_`` at the end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from resource_api.model.attribute import METAPARAMETERS
from tests.reference import REGISTRY

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

ATTRIBUTES = """
    "name": Attribute("String", "n", kind="namevar"),
    "ensure": Attribute("Enum[present, absent]", "e", default="present"),
    "timeout": Attribute("Integer", "How long a call may take."),
    "tag": Attribute("Hash[String, String]", "The labels.", default={}),
    "schedule": Attribute("Optional[String]", "When it runs."),
    "title": Attribute("Optional[String]", "What it is called."),
"""
PROVIDER = """
def _file(self):
    return Path(os.environ["BENCH"], "lambda_function.json")
def get(self, context):
    return list(json.loads(self._file().read_text()).values()) if self._file().exists() else []
def _put(self, name, should):
    rows = {row["name"]: row for row in self.get(None)}
    self._file().write_text(json.dumps({**rows, name: {**rows.get(name, {}), **should}}))
def create(self, context, name, should):
    self._put(name, should)
update = create
def delete(self, context, name):
    self._put(name, {"ensure": "absent"})
"""
SITE = """
project: p
resources:
  Lambda_function[a]: {timeout_: 3, timeout: 60, schedule: daily, title: Mine, tag_: {a: b}, tag: web}
outputs:
  seconds: ${Lambda_function[a].timeout_}
  label: ${Lambda_function[a].tag_.a}
"""


@pytest.fixture
def functions(bench: Bench) -> Bench:
    """Return a bench whose type has attributes called ``timeout``, ``tag``, ``schedule`` and ``title``."""
    bench.type("lambda_function", ATTRIBUTES, provider=PROVIDER)
    return bench


def test_such_an_attribute_is_declared_beside_the_metaparameter(functions: Bench) -> None:
    """The provider gets it under its own name; references, a second run and the listing agree."""
    state = ("--state", f"sqlite:{functions.home}/state.db")
    first = functions.apply(SITE, *state)
    assert (first.code, first.err) == (0, "Notice: Lambda_function[a]: Successfully created\n")
    assert {"label: b", "seconds: 3"} <= set(first.out.splitlines())
    assert functions.things("lambda_function")["a"]["timeout"] == 3
    again = functions.apply(SITE, "--detailed-exitcodes", *state)
    assert (again.code, again.err) == (0, "")
    listed = functions.run("resource", "lambda_function", "a")
    assert "timeout_: 3" in listed.out
    assert "tag_:\n" in listed.out
    silent = functions.apply(f"project: q\n{listed.out}", "--detailed-exitcodes")
    assert (silent.code, silent.err) == (0, "")


def test_defaults_lifecycle_and_the_command_line_take_the_written_name(functions: Bench) -> None:
    """``defaults``, ``ignore_changes``, ``ATTR=VALUE`` and ``--filter`` know it."""
    site = """
        defaults: {Lambda_function: {timeout_: 5}}
        resources:
          Lambda_function[a]: {lifecycle: {ignore_changes: [timeout_, tag_.x]}}
        """
    assert functions.apply(site).code == 0
    assert functions.things("lambda_function")["a"]["timeout"] == 5
    assert functions.apply(site.replace("5", "6"), "--detailed-exitcodes").code == 0
    changed = functions.run("resource", "lambda_function", "a", "timeout_=9")
    assert (changed.code, functions.things("lambda_function")["a"]["timeout"]) == (0, 9), changed.err
    rows = functions.run("resource", "lambda_function", "--filter", "timeout_ > 8", "--json").document
    assert [row["timeout"] for row in rows] == [9]


@pytest.mark.parametrize(
    ("body", "path", "expected"),
    [
        ("{timeout_: x}", "2:24", "timeout_ must be an integer, not a string"),
        ("{timeout_: 1, tag_: [a]}", "2:37", "tag_ must be a mapping, not a list"),
        ("{timeout: 3}", "2:3", "attribute 'timeout_' is missing; it is mandatory"),
        ("{timeout_: 1, tags_: {}}", "2:37", "unknown attribute 'tags_'; did you mean 'tag_'?"),
        ("{timeout_: 1, retry_: {}}", "2:37", "unknown attribute 'retry_'; did you mean 'retry'?"),
        ("{timeout: 60, timeout_: x}", "2:37", "timeout_ must be an integer, not a string"),
        ("{timeout: 60, timeout_: '${inputs.a}'}", "2:37", "${inputs.a}: unknown input 'a'"),
        (
            "{timeout_: '${Lambda_function[b].tag_}'}",
            "2:24",
            "timeout_ must be an integer, not a mapping",
        ),
    ],
)
def test_a_mistake_has_the_written_name(functions: Bench, body: str, path: str, expected: str) -> None:
    """The message and the place are those of the manifest."""
    refused = functions.plan(f"resources:\n  Lambda_function[a]: {body}\n  Lambda_function[b]: {{timeout_: 1}}\n")
    assert refused.code == 65
    assert f":{path}: Lambda_function[a]: {expected}" in refused.err, refused.err


def test_a_mistake_in_defaults_is_shown_once_at_its_line(functions: Bench) -> None:
    """Also where a metaparameter of the same name is a default, too."""
    defaults = "defaults:\n  Lambda_function:\n    timeout: 60\n    timeout_: x\n"
    refused = functions.plan(f"{defaults}resources: {{'Lambda_function[a]': {{}}, 'Lambda_function[b]': {{}}}}\n")
    assert refused.err.count("timeout_ must be an integer") == 1
    assert ":4:5: Lambda_function[a]: timeout_ must be an integer, not a string" in refused.err


def test_describe_and_schema_show_the_written_name(functions: Bench) -> None:
    """The page, the document and the schema for editors."""
    described = functions.run("describe", "lambda_function")
    assert "    timeout_  property, mandatory" in described.out
    assert "    schedule  property" in described.out
    names = {
        attribute["name"] for attribute in functions.run("describe", "lambda_function", "--json").document["attributes"]
    }
    assert names == {"name", "ensure", "timeout_", "tag_", "schedule", "title"}
    properties = json.loads(functions.run("schema").out)["definitions"]["type-lambda_function"]["properties"]
    assert properties["timeout_"]["description"].startswith("How long a call may take.")
    assert properties["timeout"] == {"$ref": "#/definitions/metaparameter-timeout"}


def test_a_python_manifest_writes_it_with_the_same_name(functions: Bench) -> None:
    """``timeout_=3`` is the attribute, ``timeout=60`` the metaparameter."""
    manifest = functions.write(
        "site.py",
        """
        def manifest(m):
            handle = m.lambda_function("a", timeout_=3, timeout=60)
            m.output("seconds", handle.timeout_)
        """,
    )
    applied = functions.run("apply", manifest)
    assert (applied.code, "seconds: 3" in applied.out) == (0, True), applied.err


def test_no_bundled_type_has_such_an_attribute() -> None:
    """What comes with the program needs no second spelling."""
    assert [name for name in REGISTRY.names() if not METAPARAMETERS.isdisjoint(REGISTRY.type(name).attributes)] == []
