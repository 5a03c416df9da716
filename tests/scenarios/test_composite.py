"""Resources with several namevars, and the title patterns for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench


def test_a_title_is_parsed_by_its_pattern(bench: Bench) -> None:
    """The provider receives a tuple in the order of declaration, and messages show the title."""
    result = bench.apply("resources: {'Pair[php-yum]': {level: 1}}")
    assert result.code == 0
    assert bench.calls("pair") == [["create", ["tuple", "php", "yum"]]]
    assert bench.things("pair") == {
        "php/yum": {"package": "php", "manager": "yum", "ensure": "present", "level": 1},
    }
    assert result.lines == ["Notice: Pair[php-yum]: Successfully created"]


def test_a_composite_name_is_read_updated_and_deleted(bench: Bench) -> None:
    """A resource is read, updated and deleted by the same tuple."""
    bench.put("pair", **{"php/yum": {"package": "php", "manager": "yum", "level": 1}})
    assert bench.apply("resources: {'Pair[php-yum]': {level: 1}}", "--detailed-exitcodes").code == 0
    assert bench.apply("resources: {'Pair[php-yum]': {level: 2}}").code == 0
    assert bench.apply("resources: {'Pair[php-yum]': {ensure: absent}}").code == 0
    assert bench.calls("pair") == [["update", ["tuple", "php", "yum"]], ["delete", ["tuple", "php", "yum"]]]
    assert bench.things("pair") == {}


def test_a_composite_name_that_is_used_as_a_mapping_is_explained(bench: Bench) -> None:
    """In Puppet it is a hash of the namevars."""
    body = "def get(self, context): return []\ndef create(self, context, name, should): return name['door']\n"
    attributes = '"door": Attribute("String", kind="namevar"), "room": Attribute("String", kind="namevar"),'
    ensure = '"ensure": Attribute("Enum[present, absent]", default="present")'
    bench.type("key", f"{attributes} {ensure}", provider=body)
    result = bench.apply("resources: {'Key[a]': {door: front, room: hall}}")
    words = "tuple indices must be integers or slices, not str; a name of several namevars is a tuple of their values"
    assert f"Error: Key[a]: Creating failed: {words} (providers/key.py:" in result.err


def test_attributes_override_the_title(bench: Bench) -> None:
    """A declared namevar takes precedence over the value from the title."""
    bench.apply("resources: {'Pair[php-yum]': {manager: gem}}")
    assert list(bench.things("pair")) == ["php/gem"]


def test_a_title_needs_no_pattern_when_every_namevar_is_given(bench: Bench) -> None:
    """A title that matches no pattern is accepted as a label when all namevars are declared."""
    result = bench.apply("resources: {'Pair[The PHP]': {package: php, manager: gem}}")
    assert result.code == 0
    assert result.lines == ["Notice: Pair[The PHP]: Successfully created"]


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ("'Pair[The PHP]': {package: php}", ["title", "pattern"]),
        ("'Pair[php]': {}", ["manager", "missing"]),
    ],
)
def test_a_missing_namevar_is_an_error(bench: Bench, declared: str, words: list[str]) -> None:
    """The error has the line and names the missing namevar."""
    result = bench.apply(f"resources: {{{declared}}}")
    assert result.code == 65
    for word in words:
        assert word in result.err


def test_a_resource_without_an_optional_namevar_is_validated(bench: Bench) -> None:
    """Its name is complete, so that its provider judges it like any other."""
    body = """
    def validate(self, context, should):
        return ["always wrong"]
    def get(self, context):
        return []
    def set(self, context, changes):
        pass
    """
    attributes = '"name": Attribute("String", kind="namevar"), "mint": Attribute("Optional[String]", kind="namevar"),'
    patterns = [{"pattern": "(?P<name>.+)"}]
    bench.type("coin", attributes, provider=body, base="BaseProvider", features=["validate"], title_patterns=patterns)
    for declared in ("", "mint: royal"):
        result = bench.apply(f"resources: {{'Coin[a]': {{{declared}}}}}")
        assert (result.code, "Coin[a]: always wrong" in result.err) == (65, True), result.err


def test_the_first_matching_pattern_wins(bench: Bench) -> None:
    """A title that the first pattern does not match is parsed by the second."""
    bench.apply("resources: {'Pair[php]': {manager: gem}, 'Pair[php-gem2]': {manager: x, package: y}}")
    assert "php/gem" in bench.things("pair")


def test_one_identity_under_two_titles_is_an_error(bench: Bench) -> None:
    """Two resources with the same namevars are refused, and two that share one namevar are accepted."""
    result = bench.apply("resources:\n  Pair[php-yum]: {}\n  Pair[php]: {manager: yum}\n")
    assert result.code == 65
    assert "Pair[php]: is the same resource as Pair[php-yum]" in result.err
    assert bench.apply("resources: {'Pair[php-yum]': {}, 'Pair[php-gem]': {}}").code == 0


def test_the_command_line_takes_the_title(bench: Bench) -> None:
    """``resource`` accepts a title to show and to change, and an incomplete one is wrong usage."""
    assert bench.run("resource", "pair", "php-yum", "level=1").code == 0
    assert bench.things("pair")["php/yum"]["level"] == 1
    (output,) = bench.run("resource", "pair", "php-yum", "--json").document
    assert (output["package"], output["manager"], output["level"]) == ("php", "yum", 1)
    assert bench.run("resource", "pair", "php").code == 64
    assert bench.run("resource", "pair", "PHP !").code == 64


def test_a_listing_can_be_applied(bench: Bench) -> None:
    """A listing contains the namevars and changes nothing when it is applied."""
    bench.put("pair", **{"php/yum": {"package": "php", "manager": "yum", "level": 1}})
    listed = bench.run("resource", "pair")
    assert listed.code == 0
    assert "package: php" in listed.out
    assert bench.apply(listed.out, "--detailed-exitcodes").code == 0


@pytest.mark.parametrize("name", ["php-yum", "label"])
def test_an_import_takes_a_name_that_a_title_pattern_reads(bench: Bench, name: str) -> None:
    """Such as a listing shows; so does the manifest. A message shows no tuple."""
    bench.put("pair", **{"php/yum": {"package": "php", "manager": "yum"}})
    assert "Pair[php-yum]:" in bench.run("resource", "pair").out
    bench.write("site.yaml", "resources: {'Pair[label]': {package: php, manager: yum}}")
    wrong = bench.run("import", "site.yaml", "Pair[label]", "php-gem")
    assert (wrong.code, "is declared as 'php-yum', not 'php-gem'" in wrong.err) == (64, True), wrong.err
    assert "imported." in bench.run("import", "site.yaml", "Pair[label]", name).out
    site = "resources: {{'Pair[label]': {{package: php, manager: yum, lifecycle: {{import: {}}}}}}}"
    refused = bench.apply(site.format("php-gem"))
    assert (refused.code, "it is declared as php-yum, not php-gem" in refused.err) == (65, True), refused.err
    assert bench.apply(site.format(name)).code == 0


def test_a_row_without_a_namevar_is_a_provider_error(bench: Bench) -> None:
    """A row from ``get`` without one of the namevars fails the resource at every level of strictness."""
    bench.put("pair", **{"php/yum": {"package": "php"}})
    for strict in ("error", "off"):
        result = bench.apply("resources: {'Pair[php-yum]': {}}", "--strict", strict)
        assert result.code == 1
        assert "manager" in result.err
