"""``ignore_changes`` with paths and ``*``; an entry that can never have an effect is a warning."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api.model.values.values import at_place, parse_place, with_present

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

GADGET = """
    "labels": Attribute("Optional[Hash[String, Integer]]", "l"),
    "parts": Attribute("Optional[Array[Struct[{name => String, Optional[size] => Integer}]]]", "p"),
    "size": Attribute("Optional[Integer]", "s"),
    "mode": Attribute("Optional[Enum[on, off]]", "m", kind="init_only"),
    "force": Attribute("Boolean", "f", kind="parameter", default=False),
    "serial": Attribute("Optional[String]", "n", kind="read_only"),
"""
PROVIDER = """
def _file(self):
    return Path(os.environ["BENCH"], "gadget.json")
def _rows(self):
    return json.loads(self._file().read_text()) if self._file().exists() else {}
def get(self, context, names=None):
    return [{"name": name, "ensure": "present", **row} for name, row in self._rows().items()]
def create(self, context, name, should):
    self.update(context, name, should)
def update(self, context, name, should):
    row = {key: value for key, value in should.items() if key not in {"name", "ensure", "force"}}
    self._file().write_text(json.dumps(self._rows() | {name: self._rows().get(name, {}) | row}))
def delete(self, context, name):
    self._file().write_text("{}")
"""
DECLARED: dict[str, Any] = {"labels": {"a": 1}, "parts": [{"name": "x", "size": 1}], "size": 1}
PRESENT: dict[str, Any] = {"labels": {"a": 2, "b": 3}, "parts": [{"name": "x", "size": 9}], "size": 5}


@pytest.fixture
def gadgets(bench: Bench) -> Bench:
    """Return a bench with a type whose attributes are of every kind."""
    bench.type("gadget", bench.NAMED + GADGET, provider=PROVIDER)
    return bench


def site(ignored: list[str], **more: Any) -> str:
    """Return a manifest with one resource that ignores changes."""
    return json.dumps({"resources": {"Gadget[g]": {**DECLARED, "lifecycle": {"ignore_changes": ignored}, **more}}})


@pytest.mark.parametrize(
    ("ignored", "changed"),
    [
        ([], ["labels", "parts", "size"]),
        (["labels.*"], ["parts", "size"]),
        (["labels.a"], ["labels", "parts", "size"]),
        (["parts[*].size"], ["labels", "size"]),
        (["parts[0].size", "labels.*", "size"], []),
        (["*"], []),
    ],
)
def test_what_is_ignored_is_no_change(gadgets: Bench, ignored: list[str], changed: list[str]) -> None:
    """A path with ``*`` is every member, ``*`` every attribute."""
    gadgets.put("gadget", g=PRESENT)
    result = gadgets.stream(site(ignored), "--noop")
    ends = result.ends()
    assert [change["attribute"] for end in ends.values() for change in end["changes"]] == changed, result.err
    assert gadgets.apply(site(ignored)).code == 0
    row = gadgets.things("gadget")["g"]
    for name in DECLARED.keys() - set(changed):
        assert row[name] == PRESENT[name]


@pytest.mark.parametrize(
    ("ignored", "reason"),
    [
        ("ensure", "what exists is present, and what does not is created"),
        ("force", "a parameter is never read, and no reason to change anything"),
        ("serial", "a read_only attribute is reported, never set"),
        ("name", "a namevar is the resource's identity"),
        ("size.x", "its data type Optional[Integer] has no parts"),
    ],
)
def test_one_without_effect_is_a_warning(gadgets: Bench, ignored: str, reason: str) -> None:
    """With its place; it changes no exit code."""
    text = f"resources:\n  Gadget[g]:\n    lifecycle:\n      ignore_changes:\n      - labels\n      - {ignored}\n"
    result = gadgets.validate(text)
    message = f"lifecycle.ignore_changes: '{ignored}' can never have an effect: {reason}; take it away"
    assert (result.code, result.lines[0].partition("site.yaml:")[2]) == (0, f"6:9: Warning: Gadget[g]: {message}"), (
        result.err
    )
    assert gadgets.apply(text).code == 0


@pytest.mark.parametrize("ignored", ["*", "mode", "size", "parts[*].size", "labels"])
def test_one_with_an_effect_is_none(gadgets: Bench, ignored: str) -> None:
    """Whatever the present value is."""
    assert gadgets.validate(site([ignored])).err == ""


def test_ensure_that_has_an_effect_is_none(bench: Bench) -> None:
    """Where a resource is declared absent and stays, and where there are several ways to be present."""
    attributes = bench.NAMED.replace("[present, absent]", "[lit, dark, absent]").replace('"present"', '"lit"')
    bench.type("lamp", attributes, provider=PROVIDER)
    text = "resources: {'Widget[a]': {ensure: absent, lifecycle: {ignore_changes: [ensure]}}, %s}"
    lamp = "'Lamp[x]': {lifecycle: {ignore_changes: [ensure]}}"
    assert bench.validate(text % lamp).err == ""


VALUES = st.recursive(
    st.integers(0, 3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
STEPS = st.sampled_from([".a", ".b", ".*", "[0]", "[1]", "[*]"])


@given(VALUES, VALUES, st.lists(STEPS, max_size=3).map("".join))
def test_the_ignored_part_is_as_it_is_and_the_rest_as_declared(should: Any, is_: Any, steps: str) -> None:
    """After ignoring a path both values are equal wherever it leads in both; what equals already stays."""
    path = parse_place(f"x{steps}")[1]
    stored = with_present(should, is_, path)
    assert with_present(stored, is_, path) == stored
    assert with_present(is_, is_, path) == is_
    for present, value in at_place(is_, stored, path):
        if present is not None and value is not None and type(present) is type(value) and not steps.endswith("*"):
            assert value == present
