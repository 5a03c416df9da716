"""Resources are printed as a YAML manifest that reads back as the same values."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from resource_api import Attribute, Sensitive, TypeDefinition
from resource_api.manifest import yaml_reader
from resource_api.model.values import expression
from resource_api.render import yaml_manifest

TYPE = TypeDefinition(
    name="thing",
    docs="Anything.",
    attributes={
        "name": Attribute("String[1]", "n", kind="namevar"),
        "ensure": Attribute("Enum[present, absent]", "e", default="present"),
        "value": Attribute("Any", "v"),
        "secret": Attribute("Optional[Sensitive[String]]", "s"),
        "serial": Attribute("Optional[String]", "r", kind="read_only"),
        "force": Attribute("Boolean", "f", kind="parameter", default=False),
    },
)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
TITLE = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(
    lambda title: not (title[0] == title[-1] and title[0] in "'\"" and len(title) > 1)
)
VALUES = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b c", "yes", "1"]), inner, max_size=3)
    ),
    max_leaves=6,
)


def written(*rows: dict[str, Any]) -> str:
    """Return the manifest of rows as text."""
    return "\n".join(yaml_manifest.resources(TYPE, rows)) + "\n"


@given(TITLE, VALUES)
def test_every_value_reads_back(title: str, value: Any) -> None:
    """With our own reader: text is quoted where needed, references are escaped."""
    text = written({"name": title, "ensure": "present", "value": value})
    resources = yaml_reader.read(text.encode(), "x.yaml").data["resources"]
    ((key, body),) = resources.items()
    assert expression.evaluate(key, lambda path: path) == f"Thing[{title}]"
    assert expression.evaluate(body["value"], lambda path: path) == value
    assert type(body["value"]) is type(value)


@given(TITLE, TEXT)
def test_other_readers_read_text_as_text(title: str, value: str) -> None:
    """Other YAML readers read it too."""
    body = yaml.safe_load(written({"name": title, "ensure": "present", "value": value}))["resources"]
    assert [entry["value"].replace("$${", "${") for entry in body.values()] == [value]


def test_secrets_and_parameters_are_left_out_and_read_only_values_are_comments() -> None:
    """What is printed can be applied as it is."""
    row = {"name": "a", "ensure": "present", "secret": Sensitive("hush"), "serial": "S-1", "force": True, "value": None}
    assert written(row) == "resources:\n  Thing[a]:\n    ensure: present\n    # serial: S-1\n"


def test_rows_are_sorted_by_title() -> None:
    """Two listings of the same machine are the same text."""
    assert written({"name": "b"}, {"name": "a"}) == written({"name": "a"}, {"name": "b"})


def test_no_row_is_an_empty_manifest() -> None:
    """It still reads as one."""
    assert yaml_reader.read(written().encode(), "x.yaml").data == {"resources": {}}


UNFIT: list[Any] = ["nul\x00", "\udcff", ["a", "\udcff"], {"k": {"l": "\x00"}}, {"\n": 1}, float("inf"), float("nan")]


@pytest.mark.parametrize("value", UNFIT)
def test_a_value_that_no_manifest_can_hold_is_left_out_with_the_reason(value: Any) -> None:
    """All else of its resource is printed, and reads back."""
    text = written({"name": "a", "ensure": "present", "value": value})
    assert "    # value is left out: " in text
    assert yaml_reader.read(text.encode(), "x.yaml").data == {"resources": {"Thing[a]": {"ensure": "present"}}}


@pytest.mark.parametrize("title", ["nul\x00", "\udcff", "two\nlines", "", "'quoted'"])
def test_a_resource_that_no_manifest_can_name_is_a_comment(title: str) -> None:
    """The others stand beside it."""
    text = written({"name": title, "ensure": "present"}, {"name": "b"})
    assert len([line for line in text.splitlines() if "is left out: " in line]) == 1
    assert yaml_reader.read(text.encode(), "x.yaml").data == {"resources": {"Thing[b]": {}}}


def test_a_resource_whose_mandatory_value_no_manifest_can_hold_is_a_comment() -> None:
    """Without it the rest could not be declared."""
    text = Attribute("String", "t")
    needing = TypeDefinition(name="thing", docs="t", attributes={"name": TYPE.attributes["name"], "text": text})
    listed = "\n".join(yaml_manifest.resources(needing, [{"name": "a", "text": "\x00"}])) + "\n"
    assert "# Thing[a] is left out: " in listed
    assert yaml_reader.read(listed.encode(), "x.yaml").data == {"resources": {}}
