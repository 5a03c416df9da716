"""Values of nested blocks: what a program gets of them, and what a plan shows."""

from __future__ import annotations

from typing import Any, Final

import pytest

from resource_api.model.values.values import UNKNOWN, Sensitive
from resource_api.terraform import schema
from resource_api.terraform.schema import SchemaField

MEMBERS: Final = {
    "size": SchemaField("size", "number", optional=True),
    "key": SchemaField("key", "string", optional=True, sensitive=True),
    "id": SchemaField("id", "string", computed=True),
}
OBJECT: Final = {"size": 1, "key": "secret", "id": None}


@pytest.mark.parametrize(
    ("nesting", "values"),
    [("list", [UNKNOWN, OBJECT]), ("set", [UNKNOWN, OBJECT]), ("map", {"a": UNKNOWN, "b": OBJECT})],
)
def test_an_unknown_object_stays_unknown(nesting: str, values: Any) -> None:
    """Beside known ones in a list, a set or a map: it may come from a resource that is made in the same run."""
    fields = {"disk": SchemaField("disk", (nesting, "dynamic"), optional=True, nesting=nesting, members=MEMBERS)}
    declared = {"disk": values}
    shown = schema.sealed(fields, declared)["disk"]
    known = shown["b"] if nesting == "map" else shown[1]
    assert schema.complete(fields, declared) == declared
    assert UNKNOWN in (shown.values() if nesting == "map" else shown)
    assert known == {**OBJECT, "key": Sensitive("secret")}
    prior: dict[str, Any] = {"disk": {"b": {**OBJECT, "id": "b1"}} if nesting == "map" else [{**OBJECT, "id": "b1"}]}
    proposed = schema.propose(fields, prior, declared)["disk"]
    assert UNKNOWN in (proposed.values() if nesting == "map" else proposed)
