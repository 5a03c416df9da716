"""Resources identified by several attributes, and titles that spell them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench


def test_a_title_is_taken_apart_by_its_pattern(bench: Bench) -> None:
    """The provider's name is a tuple in the order of declaration, people see the title."""
    done = bench.apply("resources: {'Pair[php-yum]': {level: 1}}")
    assert done.code == 0
    assert bench.calls("pair") == [["create", ["tuple", "php", "yum"]]]
    assert bench.things("pair") == {
        "php/yum": {"package": "php", "manager": "yum", "ensure": "present", "level": 1},
    }
    assert done.lines == ["Notice: Pair[php-yum]: Successfully created"]


def test_it_is_found_again_changed_and_deleted(bench: Bench) -> None:
    """By the same name."""
    bench.put("pair", **{"php/yum": {"package": "php", "manager": "yum", "level": 1}})
    assert bench.apply("resources: {'Pair[php-yum]': {level: 1}}", "--detailed-exitcodes").code == 0
    assert bench.apply("resources: {'Pair[php-yum]': {level: 2}}").code == 0
    assert bench.apply("resources: {'Pair[php-yum]': {ensure: absent}}").code == 0
    assert bench.calls("pair") == [["update", ["tuple", "php", "yum"]], ["delete", ["tuple", "php", "yum"]]]
    assert bench.things("pair") == {}


def test_attributes_override_the_title(bench: Bench) -> None:
    """What is written wins over what the title says."""
    bench.apply("resources: {'Pair[php-yum]': {manager: gem}}")
    assert list(bench.things("pair")) == ["php/gem"]


def test_a_title_needs_no_pattern_when_every_namevar_is_given(bench: Bench) -> None:
    """It is then a name for people only."""
    done = bench.apply("resources: {'Pair[The PHP]': {package: php, manager: gem}}")
    assert done.code == 0
    assert done.lines == ["Notice: Pair[The PHP]: Successfully created"]


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ("'Pair[The PHP]': {package: php}", ["title", "pattern"]),
        ("'Pair[php]': {}", ["manager", "missing"]),
    ],
)
def test_a_namevar_that_nobody_gives_is_an_error(bench: Bench, declared: str, words: list[str]) -> None:
    """With the line, and what is missing."""
    done = bench.apply(f"resources: {{{declared}}}")
    assert done.code == 65
    for word in words:
        assert word in done.err


def test_the_first_matching_pattern_wins(bench: Bench) -> None:
    """The second one takes what the first leaves."""
    bench.apply("resources: {'Pair[php]': {manager: gem}, 'Pair[php-gem2]': {manager: x, package: y}}")
    assert "php/gem" in bench.things("pair")


def test_one_identity_under_two_titles_is_an_error(bench: Bench) -> None:
    """All namevars together are the identity; one alone may stand twice."""
    done = bench.apply("resources:\n  Pair[php-yum]: {}\n  Pair[php]: {manager: yum}\n")
    assert done.code == 65
    assert "Pair[php]: is the same resource as Pair[php-yum]" in done.err
    assert bench.apply("resources: {'Pair[php-yum]': {}, 'Pair[php-gem]': {}}").code == 0


def test_the_command_line_takes_the_title(bench: Bench) -> None:
    """To show one, to change one; a title that says too little is wrong usage."""
    assert bench.run("resource", "pair", "php-yum", "level=1").code == 0
    assert bench.things("pair")["php/yum"]["level"] == 1
    (shown,) = bench.run("resource", "pair", "php-yum", "--json").document
    assert (shown["package"], shown["manager"], shown["level"]) == ("php", "yum", 1)
    assert bench.run("resource", "pair", "php").code == 64
    assert bench.run("resource", "pair", "PHP !").code == 64


def test_what_is_listed_can_be_applied(bench: Bench) -> None:
    """The namevars stand in it."""
    bench.put("pair", **{"php/yum": {"package": "php", "manager": "yum", "level": 1}})
    listed = bench.run("resource", "pair")
    assert listed.code == 0
    assert "package: php" in listed.out
    assert bench.apply(listed.out, "--detailed-exitcodes").code == 0


def test_a_row_without_one_of_them_is_the_providers_error(bench: Bench) -> None:
    """At every level of strictness."""
    bench.put("pair", **{"php/yum": {"package": "php"}})
    for strict in ("error", "off"):
        done = bench.apply("resources: {'Pair[php-yum]': {}}", "--strict", strict)
        assert done.code == 1
        assert "manager" in done.err
