"""The laws of documents from outside: the small check decides as jsonschema does, and each violation has our words."""

from __future__ import annotations

import copy
import json
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api.manifest import yaml_reader
from resource_api.model.values.errors import ManifestError
from resource_api.system import document_schema
from tests import json_schemas

if TYPE_CHECKING:
    from collections.abc import Iterator

#: A valid document of each schema that is read.
VALID: Final[dict[str, Any]] = {
    "inventory": {
        "defaults": {"user": "deploy", "become": "sudo", "timeout": 3, "become_password": {"command": ["pass", "x"]}},
        "hosts": {"web[1:3]": {"groups": ["web"], "inputs": {"role": "front"}}, "db1": None},
        "groups": {"web": {"hosts": ["web9"], "port": 22}},
    },
    "providers": {"providers": {"lab": {"type": "vm_host", "config": {"url": "x"}}}, "values": None},
    "inputs": {"port": 80},
    "bundle-index": {"format": 1, "name": "x", "generation": 3, "modules": [], "files": {"a": ["0f", False]}},
    "state-export": {
        "state_format": 1,
        "project": "p",
        "stack": "s",
        "lineage": "l",
        "serial": 1,
        "manifest": "",
        "salt": "0f",
        "owed": [["file", ["a", 1], ["File[/b]"]]],
        "outputs": {},
        "resources": [
            {
                "reference": "File[/a]",
                "urn": "u",
                "type": "file",
                "name": "/a",
                "title": "/a",
                "status": "ready",
                "inputs": {},
                "should": {},
                "is": None,
                "requires": [],
                "value_requires": {"a": ["File[/b]"]},
                **dict.fromkeys(("owned", "protect", "retain", "external"), False),
                "replace": None,
                "deleted_with": None,
                "provider": "file",
                "schema_version": 0,
            }
        ],
    },
    "plan": {
        "format_version": 1,
        "tool_version": "1",
        "project": "p",
        "stack": "s",
        "lineage": "",
        "serial": 0,
        "manifest_sha256": "",
        "steps": [],
        "drift": [],
        "outputs": {},
        "unknown": [],
        "complete": True,
        "output_changes": {"a": {"is": 1, "should": None}},
        "summary": {
            **dict.fromkeys(("created", "updated", "replaced", "deleted", "imported", "forgotten", "refreshed"), 0),
            **dict.fromkeys(("ran", "outputs_changed", "unchanged", "failed", "skipped"), 0),
            "noop": False,
        },
        "applicable": True,
        "manifest": {"sealing": {}, "box": ""},
    },
    "rehearse": {
        "format_version": 1,
        "verdicts": [],
        "side_effects": [],
        "not_rehearsed": [],
        "not_damaged": [],
        "run": None,
        "exit_code": 0,
    },
}
#: Keywords that constrain nothing.
ANNOTATIONS: Final = frozenset({"$schema", "$id", "title", "description", "must_be", "then", "else"})
#: Keywords whose violations are about keys, or are those of a part.
OF_PARTS: Final = frozenset(
    {"properties", "required", "additionalProperties", "propertyNames", "items", "prefixItems", "if"}
)


def parts(schema: Any, *, alternatives: bool) -> Iterator[dict[str, Any]]:
    """Yield a schema without references and all schemas in it, with or without ``alternatives``."""
    if isinstance(schema, dict):
        yield schema
        words = ("additionalProperties", "propertyNames", "items", "if", "then", "else")
        lists = (schema.get("properties", {}).values(), schema.get("prefixItems", ()), map(schema.get, words))
        inner = [part for items in lists for part in items]
        for part in inner + (schema.get("anyOf", []) if alternatives else []):
            yield from parts(part, alternatives=alternatives)


def paths(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the key path of each value within a document."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*above, key)
        yield from paths(item, (*above, key))


@pytest.mark.parametrize("name", VALID)
def test_a_valid_document_has_no_violation(name: str) -> None:
    """Otherwise the changed ones below could be refused for another reason."""
    assert document_schema.find_violations(name, VALID[name]) == []
    assert json_schemas.validator(name).is_valid(VALID[name])


@given(st.data())
def test_the_small_check_accepts_what_jsonschema_accepts(data: st.DataObject) -> None:
    """A value of a valid document is replaced, removed or joined by another one; each refusal is explained."""
    name = data.draw(st.sampled_from(sorted(VALID)))
    document = copy.deepcopy(VALID[name])
    path = data.draw(st.sampled_from(list(paths(document))))
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    value = data.draw(st.sampled_from([None, True, 0, -1, 0.5, "", "x y", "-x", "\n", [], [1], ["a b"], {}, {"a": 1}]))
    change = data.draw(st.sampled_from(["replace", "remove", "add"]))
    if change == "replace" or isinstance(inner, list):
        inner[path[-1]] = value
    elif change == "remove":
        del inner[path[-1]]
    else:
        inner["more"] = value
    accepted = document_schema.accepts(document_schema.load(name), document)
    assert accepted == json_schemas.validator(name).is_valid(document)
    violations = document_schema.find_violations(name, document)
    assert accepted == (not violations)
    assert all(str(violation) for violation in violations)


@pytest.mark.parametrize("name", VALID)
def test_every_constraint_is_checked_and_has_words(name: str) -> None:
    """A keyword without a check would accept everything, a part without words could not be explained."""
    schema = document_schema.load(name)
    for part in parts(schema, alternatives=True):
        assert part.keys() - ANNOTATIONS <= document_schema.KEYWORDS.keys(), part
    for part in parts(schema, alternatives=False):
        constraints = part.keys() - ANNOTATIONS
        words = constraints <= OF_PARTS or {"must_be", "enum", "const"} & part.keys()
        assert words or ("type" in part and constraints <= {*OF_PARTS, "type", "minimum", "minItems", "minLength"}), (
            part
        )


def test_true_is_no_number_and_one_is_no_true() -> None:
    """As in JSON Schema; but a number with a point is no integer."""
    for value in (True, 1.0):
        assert document_schema.find_violations("state-export", {**VALID["state-export"], "serial": value})
    assert document_schema.find_violations("plan", {**VALID["plan"], "format_version": True})
    assert document_schema.find_violations("plan", {**VALID["plan"], "complete": 1})


def test_a_violation_in_a_file_has_its_line_and_column() -> None:
    """All of a file are shown, in the order of their positions, with the nearest name of an unknown key."""
    text = "hosts:\n  web1: {usr: x}\n  web2: {port: x, groups: 3}\n"
    with pytest.raises(ManifestError) as refused:
        document_schema.check("inventory", yaml_reader.read(text.encode(), "hosts.yaml"), "inventory")
    assert str(refused.value).splitlines() == [
        "hosts.yaml:2:10: unknown key usr of web1; did you mean 'user'?",
        "hosts.yaml:3:16: port must be a number from 1 to 65535",
        "hosts.yaml:3:27: groups must be a list of names",
    ]


def test_without_jsonschema_the_same_documents_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host has no library for explanations; it names the schema."""
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    assert document_schema.find_violations("plan", VALID["plan"]) == []
    assert [str(item) for item in document_schema.find_violations("plan", {})] == ["it is not as the schema plan says"]


def test_no_message_repeats_a_value() -> None:
    """It may be a secret in the wrong place."""
    document = {"defaults": {"become_password": "hunter22", "port": "hunter22", "via": ["hunter22"]}}
    violations = document_schema.find_violations("inventory", json.loads(json.dumps(document)))
    assert len(violations) == 3
    assert "hunter22" not in "".join(map(str, violations))
