"""The documentation of a type is complete, in a useful order, and safe to show on a terminal."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from resource_api import Attribute, Registry, Runtime, TypeDefinition
from resource_api.model.attribute import KINDS
from resource_api.model.type_definition import FEATURES
from resource_api.render import describe
from tests import reference
from tests.reference import REGISTRY

DOCS: Final = """Keep widgets. They are e.g. round; see `size`.

    Widget[a]:
      size:   3

A second paragraph that is long enough to be wrapped at any width that a terminal has, because it goes on and on.
"""


def widget(**more: Any) -> TypeDefinition:
    """Return a type with every kind of attribute."""
    attributes = {
        "serial": Attribute("Optional[String]", "Its number.", kind="read_only"),
        "size": Attribute("Integer[0, 9]", "How big it is."),
        "force": Attribute("Boolean", "Whether to use force.", kind="parameter", default=False),
        "image": Attribute("Optional[String]", kind="init_only"),
        "ensure": Attribute("Enum[present, absent]", "Whether it exists.", default="present"),
        "secret": Attribute("Optional[Sensitive[String]]", "A secret.", default="hunter2", write_only=True),
        "name": Attribute("String", "Its name.", kind="namevar"),
    }
    return TypeDefinition(**({"name": "widget", "docs": DOCS, "attributes": attributes} | more))


def module(directory: Path, **sources: str) -> Registry:
    """Return a registry of type files with these contents."""
    (directory / "types").mkdir()
    for name, source in sources.items():
        (directory / "types" / f"{name}.py").write_text(source, encoding="utf-8")
    return Registry.from_path(directory, bundled=False)


@pytest.mark.parametrize("width", [60, 80])
def test_examples_keep_their_lines(width: int) -> None:
    """Readers copy them: those of bundled functions, and one that is all that follows the first sentence."""
    example = f"    Widget[a]: {{size: 3, image: {'long ' * 20}}}  # a comment"
    definitions = [REGISTRY.type(name) for name in REGISTRY.names()]
    functions = [describe.function_of(item, name) for item in definitions for name in item.functions]
    for page in [*functions, widget(docs=f"Keep widgets.\n\n{example}\n")]:
        shown, written = describe.text(page, width), describe.markdown(page)
        for line in re.findall(r"^ {4,}(\S.*)$", page.docs, re.MULTILINE):
            assert re.search(rf"^ {{8,}}{re.escape(line)}$", shown, re.MULTILINE), (page.name, line)
            assert re.search(rf"^```yaml\n(?:.*\n)*? *{re.escape(line)}\n", written, re.MULTILINE), (page.name, line)


def test_attributes_are_in_the_documented_order() -> None:
    """Namevars first, ``ensure`` next, other properties, then the rarer kinds."""
    expected = ["name", "ensure", "size", "secret", "image", "force", "serial"]
    definition = widget()
    assert [name for name, _ in describe.ordered(definition)] == expected
    assert [attribute["name"] for attribute in describe.document(definition)["attributes"]] == expected
    assert re.findall(r"^### (\w+)$", describe.markdown(definition), re.MULTILINE) == expected
    section = describe.text(definition).partition("ATTRIBUTES")[2].partition("FEATURES")[0]
    assert re.findall(r"^    (\w+)", section, re.MULTILINE) == expected


def test_each_attribute_shows_kind_default_and_data_type() -> None:
    """The type's file is not needed to write a manifest."""
    lines = [line.strip() for line in describe.text(widget()).splitlines()]
    for name, standing, docs, datatype in [
        ("name", "namevar", "Its name.", "String"),
        ("ensure", "property, default present", "Whether it exists.", "Enum[present, absent]"),
        ("size", "property, mandatory", "How big it is.", "Integer[0, 9]"),
        ("force", "parameter, default false", "Whether to use force.", "Boolean"),
        ("serial", "read_only", "Its number.", "String"),
    ]:
        at = lines.index(f"{name:6}  {standing}")
        assert lines[at + 1 : at + 3] == [docs, datatype]


def test_a_default_that_is_a_secret_is_never_shown() -> None:
    """Neither as text nor as Markdown nor as data."""
    definition = widget()
    for output in (describe.text(definition), describe.markdown(definition), json.dumps(describe.document(definition))):
        assert "hunter2" not in output
        assert "<sensitive>" in output


@pytest.mark.parametrize("width", [0, 40, 60, 80, 200])
def test_prose_keeps_to_the_width_and_examples_stay_as_they_are(width: int) -> None:
    """Indented text is not wrapped; a word that is longer than the line is not split."""
    lines = describe.text(widget(), width).splitlines()
    assert max(map(len, lines)) <= max(width, 40)
    at = lines.index("        Widget[a]:")
    assert lines[at + 1] == "          size:   3"


def test_a_link_to_a_page_is_its_words_on_a_terminal() -> None:
    """Also one that is broken over two lines; a page keeps it."""
    docs = "Manage widgets, which [undo\nanother declaration](../commands.md#what-else-a-change-does)."
    size = Attribute("Integer", "As in [sizes](../sizes.md), `[a](b)`.")
    definition = widget(docs=docs, attributes={"name": Attribute("String", "n", kind="namevar"), "size": size})
    assert "Manage widgets, which undo another declaration." in describe.text(definition)
    assert "As in sizes, `[a](b)`." in describe.text(definition)
    assert "another declaration](../commands.md#what-else-a-change-does)" in describe.markdown(definition)


def test_a_section_without_content_has_no_heading() -> None:
    """A type of functions alone has no attributes and no kinds of them."""
    definition = REGISTRY.type("template")
    for output in (describe.text(definition), describe.markdown(definition)):
        assert not re.search(r"^(## )?(attributes|kinds)$", output, re.IGNORECASE | re.MULTILINE)


def test_text_without_spaces_is_never_split() -> None:
    """A pattern can be copied from a narrow terminal."""
    pattern = "Pattern[/" + "a-b" * 30 + "/]"
    definition = widget(attributes={"a_name_that_is_longer_than_most": Attribute(pattern, kind="namevar")})
    lines = describe.text(definition, 40).splitlines()
    assert f"{' ' * 26}{pattern}" in lines
    assert "    a_name_that_is_longer_than_most" in lines


def test_documentation_cannot_control_a_terminal() -> None:
    """Control characters in documentation are escaped."""
    evil = Attribute("String", "red \x1b[31m", kind="namevar", default="\x9b2J")
    definition = widget(docs="Title \x1b]0;x\x07.\n\n    \x1b[2J", attributes={"name": evil})
    for output in (describe.text(definition), describe.markdown(definition), describe.summary(definition)):
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", output)
    assert "red \\x1b[31m" in describe.text(definition)


def test_a_page_can_leave_the_meaning_of_terms_to_another_page() -> None:
    """Then features are named, and kinds and a first schema version are left out."""
    page = describe.markdown(widget(features={"parallel", "validate"}), explained=False)
    assert "## Features\n\n- `validate`, `parallel`" in page
    assert "Version" not in page
    assert "## Kinds" not in page
    assert "- schema version 2" in describe.markdown(widget(schema_version=2), explained=False)


def test_every_feature_and_every_kind_is_explained() -> None:
    """A new feature needs a sentence for those who write manifests."""
    assert set(describe.FEATURES) == FEATURES
    assert set(describe.KINDS) == set(KINDS)
    assert {kind for kind in describe.text(widget()).partition("KINDS")[2].split() if kind.endswith(":")} == {
        f"{kind}:" for kind in KINDS
    }


def test_features_are_shown_in_words() -> None:
    """They include whether resources are ever created and deleted."""
    assert describe.features(widget()) == ["can be created and deleted"]
    plain = widget(attributes={"name": Attribute("String", kind="namevar")}, features={"refreshable"})
    assert describe.features(plain) == [
        "is configured only: never created or deleted",
        "can be refreshed: it reacts to notify and subscribe (refreshable)",
    ]


def test_automatic_relationships_are_shown_as_references() -> None:
    """An attribute's value is shown as ``$name``, the result of a function as an ellipsis."""
    definition = widget(
        autorequires={"file": "$image", "package": ["apt", "gnupg"]}, autonotify={"service": lambda _should: ["x"]}
    )
    assert ["".join(item) for item in describe.relationships(definition)] == [
        "comes after File[$image], Package[apt], Package[gnupg]",
        "comes before, and refreshes Service[...]",
    ]
    assert "- comes after `File[$image]`, `Package[apt]`, `Package[gnupg]`" in describe.markdown(definition)
    assert describe.document(definition)["relationships"]["notify"] == [{"type": "service", "title": "..."}]
    assert "AUTOMATIC" not in describe.text(widget())


def test_title_patterns_are_shown_with_their_namevars() -> None:
    """The page of a type with several namevars shows how to write a title."""
    namevars = {name: Attribute("String", kind="namevar") for name in ("name", "place")}
    definition = widget(attributes=namevars, title_patterns=[{"pattern": r"(?<name>\w+)@(?<place>\w+)\z"}])
    assert "- {name}@{place} gives name and place" in describe.text(definition)
    assert "- `{name}@{place}` gives name and place" in describe.markdown(definition)
    assert r"- (?P<name>\w+)@(?P<place>\w+)\Z gives name and place" in describe.text(definition, expressions=True)
    assert r"- `(?P<name>\w+)@(?P<place>\w+)\Z` gives name and place" in describe.markdown(definition, expressions=True)
    patterns = describe.document(definition)["title_patterns"]
    assert patterns == [{"pattern": r"(?P<name>\w+)@(?P<place>\w+)\Z", "namevars": ["name", "place"]}]


@pytest.mark.parametrize(
    ("docs", "expected"),
    [
        (DOCS, "Keep widgets."),
        ("\n    One line\n    and its rest\n\n    More.", "One line and its rest"),
        ("Kept in e.g. /etc. Or elsewhere.", "Kept in e.g. /etc."),
        ("", ""),
    ],
)
def test_a_summary_is_the_first_sentence(docs: str, expected: str) -> None:
    """It is on one line, and an abbreviation does not end it."""
    assert describe.summary(widget(docs=docs)) == expected


def test_markdown_shows_code_as_code() -> None:
    """Examples are fenced, data types may hold backticks, and no angle bracket becomes HTML."""
    attributes = {"name": Attribute("Pattern[/`+/]", "Like <b>.", kind="namevar", default="*`*")}
    output = describe.markdown(widget(docs=DOCS + "\nUse `<a>` or <b>.", attributes=attributes))
    assert "```yaml\nWidget[a]:\n  size:   3\n```" in output
    assert "``Pattern[/`+/]``, namevar, default ``*`*``" in output
    assert "Use `<a>` or &lt;b>." in output


def test_the_list_of_types_keeps_those_whose_file_is_broken(tmp_path: Path) -> None:
    """A broken file disables its own type only, and its error is shown."""
    good = 'from resource_api import Attribute, TypeDefinition\nTYPE = TypeDefinition(name="good", docs="Fine. Yes.",'
    good += ' attributes={"name": Attribute("String", kind="namevar")})\n'
    registry = module(tmp_path, good=good, bad="import nonsense_that_is_nowhere\n", odd="TYPE = 3\n")
    (fine,), broken = describe.types_list(registry)
    assert (fine.name, describe.summary(fine)) == ("good", "Fine.")
    assert list(broken) == ["bad", "odd"]
    assert "bad.py:1" in broken["bad"]
    assert "nonsense_that_is_nowhere" in broken["bad"]
    assert "TYPE must be a TypeDefinition" in broken["odd"]


def test_a_value_of_a_form_is_described_in_words() -> None:
    """The expressions are shown where they are asked for, and where the type has no words."""
    attributes = {
        "name": Attribute(r"Pattern[/\A\/\w+\z/]", "Its name.", kind="namevar", must_be="an absolute path"),
        "parts": Attribute(
            r"Optional[Array[Variant[Enum[all], Pattern[/\Ax+\z/]]]]", "Its parts.", must_be="all, or an x"
        ),
        "bare": Attribute(r"Optional[Pattern[/\Ay\z/]]", "No words."),
        "owner": Attribute(r"Variant[Integer[0, 9], Pattern[/\Ax+\z/]]", "Its owner.", must_be="a user's name"),
        "files": Attribute(
            r"Variant[Pattern[/\Ax+\z/], Array[Pattern[/\Ax+\z/]]]", "Its files.", must_be="an absolute path"
        ),
    }
    definition = widget(attributes=attributes)
    text, page = describe.text(definition), describe.markdown(definition)
    for words in (
        "an absolute path",
        "Array[Variant[Enum[all], String]]: all, or an x",
        "an integer from 0 to 9 or a user's name",
        "an absolute path, or a list of them",
    ):
        assert words in text
    assert "\nan absolute path; namevar\n" in page
    assert r"Pattern[/\Ay\z/]" in text
    assert "Optional[" not in text + page
    assert "x+" not in text + page
    assert r"Pattern[/\A\/\w+\z/]" in describe.text(definition, expressions=True)
    assert r"Pattern[/\Ax+\z/]" in describe.markdown(definition, expressions=True)


def test_the_words_of_a_value_have_no_meaning_in_markdown() -> None:
    """An asterisk, an underscore, a backtick or an angle bracket in them is shown as it is."""
    name = Attribute("Pattern[/x/]", "Its name.", kind="namevar", must_be="*.*, a_b or <c>")
    assert r"\*.\*, a\_b or \<c>; namevar" in describe.markdown(widget(attributes={"name": name}))


@pytest.mark.parametrize("name", REGISTRY.names())
def test_every_bundled_type_has_words_for_its_values(name: str) -> None:
    """No page of the reference shows a regular expression."""
    definition = REGISTRY.type(name)
    for output in (describe.text(definition, 10_000), describe.markdown(definition)):
        assert not re.search(r"Pattern\[|\\A|\[\^|\(\?", output)


@pytest.mark.parametrize("name", REGISTRY.names())
def test_every_bundled_type_has_an_example_that_is_valid(name: str) -> None:
    """Each example in its documentation is a manifest, or resources of one; one of them is of the type."""
    definition = REGISTRY.type(name)
    examples = re.findall(r"^```yaml\n(.*?)^```$", describe.markdown(definition), re.MULTILINE | re.DOTALL)
    consumed = set()
    for example in map(yaml.safe_load, examples):
        manifest = example if example.keys() & {"resources", "values"} else {"resources": example}
        assert Runtime(REGISTRY).validate({"project": "example", **manifest}) is not None
        consumed |= {reference.partition("[")[0].lower() for reference in manifest["resources"]}
        consumed |= {value["invoke"].partition(".")[0] for value in manifest.get("values", {}).values()}
    assert name in consumed


@pytest.mark.parametrize("name", REGISTRY.names())
def test_every_bundled_type_is_documented(name: str) -> None:
    """The purpose of a type and of each attribute is in all three forms."""
    definition = REGISTRY.type(name)
    assert describe.summary(definition).endswith(".")
    document = json.loads(json.dumps(describe.document(definition)))
    assert all(attribute["docs"] for attribute in document["attributes"])
    text, page = " ".join(describe.text(definition).split()), describe.markdown(definition)
    for item in document["attributes"]:
        assert " ".join(item["docs"].split()) in text
        assert f"### {item['name']}\n" in page


def test_the_reference_is_up_to_date() -> None:
    """``docs/reference`` is generated from the types, and again after a change of one."""
    entries = {path.name: path.read_text(encoding="utf-8") for path in reference.DIRECTORY.glob("*.md")}
    assert entries == reference.pages(), "outdated; run python -m tests.reference"


def test_a_name_in_a_list_of_common_options_has_one_description() -> None:
    """An option with another meaning in another command is described there."""
    names = [row.name for row in reference.CommandPage().common]
    assert len(names) == len(set(names)) > len(reference.CommandPage().universal) > 0


def test_writing_the_reference_removes_pages_of_missing_types(tmp_path: Path) -> None:
    """The page of a type that no longer exists is removed; other files remain."""
    for name in ("gone.md", "kept.txt"):
        (tmp_path / name).touch()
    reference.write(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"kept.txt", *reference.pages()}
    assert (tmp_path / "README.md").read_text(encoding="utf-8").count("\n- [") == len(REGISTRY.names())


def test_a_description_has_the_data_types_as_json_schema() -> None:
    """Other tools need not know Puppet's data types to check attributes, configuration and functions."""
    example = Path(__file__).parents[3] / "examples" / "inventory"
    result = describe.document(Registry.from_path(example).type("inventory_host"))
    by_name = {item["name"]: item["schema"] for item in (*result["attributes"], *result["config"])}
    assert by_name["token"]["type"] == "string"
    assert all(isinstance(schema, dict) and schema for schema in by_name.values())
    assert result["functions"][0]["output_schema"] == {"type": "string"}
