"""Resources are printed as a YAML manifest that reads back as the same values."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from resource_api import Asset, Attribute, Sensitive, TypeDefinition
from resource_api.manifest import yaml_reader
from resource_api.model.values import expression
from resource_api.model.values.text import escape_lines
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
    return "\n".join(yaml_manifest.manifest([(TYPE, rows)])) + "\n"


@given(TITLE, VALUES)
def test_every_value_reads_back(title: str, value: Any) -> None:
    """With our own reader: text is quoted where needed, references are escaped."""
    text = written({"name": title, "ensure": "present", "value": value})
    resources = yaml_reader.read(text.encode(), "x.yaml").data["resources"]
    ((key, body),) = resources.items()
    assert expression.evaluate(key, lambda path: path) == f"Thing[{title}]"
    assert expression.evaluate(body["value"], lambda path: path) == value
    assert type(body["value"]) is type(value)


@given(TITLE, VALUES)
@example("a", "\u202eb")
@example("\u2066a", "\u200b")
def test_nothing_in_it_controls_a_terminal(title: str, value: Any) -> None:
    """Neither a title nor a value turns the direction of the text, or is invisible."""
    text = written({"name": title, "ensure": "present", "value": value, "serial": str(value)})
    assert escape_lines(text) == text


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


def test_a_namevar_that_is_undefined_is_not_its_word_in_a_title() -> None:
    """``a None`` would name another resource than that whose second namevar is left out."""
    number = {"name": Attribute("String", kind="namevar"), "port": Attribute("Optional[Integer]", kind="namevar")}
    patterns = [{"pattern": r"(?<name>\S+)\/(?<port>\S+)\z"}]
    definition = TypeDefinition(name="thing", attributes=number, title_patterns=patterns)
    assert definition.title_of({"name": "a", "port": 5}) == "a/5"
    assert definition.title_of({"name": "a", "port": None}) == "a None"


def test_a_resource_whose_mandatory_value_no_manifest_can_hold_is_a_comment() -> None:
    """Without it the rest could not be declared."""
    text = Attribute("String", "t")
    needing = TypeDefinition(name="thing", docs="t", attributes={"name": TYPE.attributes["name"], "text": text})
    listed = "\n".join(yaml_manifest.manifest([(needing, [{"name": "a", "text": "\x00"}])])) + "\n"
    assert "# Thing[a] is left out: " in listed
    missing = list(yaml_manifest.manifest([(needing, [{"name": "a"}])]))
    assert missing[1:] == ["  # Thing[a] is left out: 'text', which must be declared, has no value that can be read"]
    assert yaml_reader.read(listed.encode(), "x.yaml").data == {"resources": {}}


def test_a_value_that_holds_contents_is_a_comment() -> None:
    """As a content alone is, because only its digest is known."""
    definition = TypeDefinition(
        name="thing",
        attributes={
            "name": Attribute("String", kind="namevar"),
            "one": Attribute("Optional[Asset]"),
            "all": Attribute("Optional[Array[Struct[{file => Asset}]]]"),
            "seen": Attribute("Optional[Array[Asset]]", kind="read_only"),
        },
    )
    asset = Asset("ab" * 32)
    row = {"name": "a", "one": asset, "all": [{"file": asset}], "seen": [asset]}
    assert list(yaml_manifest.manifest([(definition, [row])])) == [
        "resources:",
        "  Thing[a]: {}",
        "    # one: sha256:abababababab",
        '    # all: [{"file": "sha256:abababababab"}]',
        '    # seen: ["sha256:abababababab"]',
    ]


@pytest.mark.parametrize(
    ("patterns", "name", "title"),
    [
        ([r"\A(?<pkg>.*[^\/])\/(?<mgr>.*)\z", r"(?<pkg>.*)"], ("a", "yum"), "a/yum"),
        ([r"\A(?<pkg>.*[^\/])\/(?<mgr>.*)\z", r"(?<pkg>.*)"], ("b", "apt"), "b/apt"),
        ([r"(?<pkg>\S+)\z", r"(?<mgr>\w+): (?<pkg>\S+)\z"], ("a", "apt"), "a"),
        ([r"(?<pkg>\S+)\z", r"(?<mgr>\w+): (?<pkg>\S+)\z"], ("a", "yum"), "yum: a"),
        ([r"(?<pkg>\S+) of \{(?<mgr>\w+)\}\z"], ("a", "yum"), "a of {yum}"),
        ([r"(?<pkg>[a-z]+)-(?<mgr>[a-z]+)\z"], ("a-b", "yum"), "a-b yum"),
        ([r"(?<pkg>\w+)[\/:](?<mgr>\w+)\z"], ("a", "yum"), "a yum"),
        ([r"(?<pkg>(?:\w|[)])+)[.](?<mgr>\w+)\z"], ("a", "yum"), "a.yum"),
        ([r"(?<pkg>\w+):{2}(?<mgr>\w+)\z"], ("a", "yum"), "a yum"),
        ([r"(?<pkg>\w+)(?:/)(?<mgr>\w+)\z"], ("a", "yum"), "a yum"),
        ([], ("a", "yum"), "a yum"),
    ],
)
def test_a_title_is_one_that_the_type_reads_as_the_same_resource(
    patterns: list[str], name: tuple[str, str], title: str
) -> None:
    """Wherever one of its title patterns describes such a title; otherwise it has the namevars in a row."""
    definition = TypeDefinition(
        name="tp",
        attributes={
            "pkg": Attribute("String", kind="namevar"),
            "mgr": Attribute("String", kind="namevar", default="apt"),
        },
        title_patterns=[{"pattern": pattern} for pattern in patterns],
    )
    pkg, mgr = name
    lines = list(yaml_manifest.manifest([(definition, [{"pkg": pkg, "mgr": mgr}])]))
    assert definition.title_of({"pkg": pkg, "mgr": mgr}) == title
    assert lines[2:] == [f"    pkg: {pkg}", f"    mgr: {mgr}"]
