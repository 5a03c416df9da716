"""Canonical forms: compared, set, used in references and shown instead of the spelling that was declared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

MIRROR = """
def canonicalize(self, context, resources):
    for row in resources:
        if isinstance(row.get("colour"), str):
            row["colour"] = row["colour"].lower()
    return resources
"""


def test_another_spelling_is_no_difference(bench: Bench) -> None:
    """A resource whose name and value are spelled differently from those in the system is unchanged."""
    bench.put("token", ABC={"tint": "RED"})
    result = bench.apply("resources: {'Token[0xabc]': {tint: red}}", "--detailed-exitcodes")
    assert (result.code, result.err) == (0, "")


def test_a_provider_receives_only_canonical_names_and_values(bench: Bench) -> None:
    """``get`` and ``set`` receive the canonical form, and messages show the title as declared."""
    result = bench.apply("resources: {'Token[0xabc]': {tint: red}}")
    assert result.lines == ["Notice: Token[0xabc]: Successfully created"]
    assert bench.calls("token", "get")[0] == ["ABC"]
    assert bench.calls("token", "set") == [["ABC", {"id": "ABC", "ensure": "present", "tint": "RED"}]]
    changed = bench.apply("resources: {'Token[0xaBC]': {tint: blue}}")
    assert "Notice: Token[0xaBC]: tint changed from RED to BLUE" in changed.lines


def test_references_find_a_resource_by_any_of_its_names(bench: Bench) -> None:
    """A title and an identity in any spelling resolve, and referenced values are canonical."""
    result = bench.apply(
        """
        resources:
          Widget[last]: {require: "Token[AB]", colour: "${Token[first].tint} ${Token[first].id}"}
          Token[first]: {id: "0xab", tint: red}
        """
    )
    assert result.code == 0
    assert bench.things("widget")["last"]["colour"] == "RED AB"


def test_the_command_line_finds_a_resource_by_another_spelling(bench: Bench) -> None:
    """``resource`` canonicalizes NAME before the resource is read, shown and changed."""
    bench.put("token", ABC={"tint": "RED"})
    output = bench.run("resource", "token", "0xabc", "--json")
    assert output.document == [{"title": "ABC", "id": "ABC", "ensure": "present", "tint": "RED"}]
    assert bench.run("resource", "token", "0xabc", "tint=blue").code == 0
    assert bench.things("token")["ABC"]["tint"] == "BLUE"


def test_an_import_takes_a_name_in_any_spelling(bench: Bench) -> None:
    """On the command line and in the manifest; another name is refused with the one that is declared."""
    bench.put("token", ABC={"tint": "RED"})
    bench.write("site.yaml", "resources: {'Token[0xabc]': {tint: red}}")
    wrong = bench.run("import", "site.yaml", "Token[0xabc]", "abd")
    assert (wrong.code, "Token[0xabc] is declared as 'ABC', not 'abd'" in wrong.err) == (64, True), wrong.err
    assert "imported." in bench.run("import", "site.yaml", "Token[0xabc]", "abc").out
    bench.put("token", ABC={"tint": "RED"}, DEF={"tint": "RED"})
    result = bench.apply("resources: {'Token[d]': {id: def, tint: red, lifecycle: {import: '0xDEF'}}}")
    assert (result.code, "1 imported" in result.out) == (0, True), result


def test_an_exception_is_reported_for_one_resource(bench: Bench) -> None:
    """An exception in ``canonicalize`` is reported once, with the line of the resource, and nothing is read or set."""
    result = bench.apply("resources:\n  Token[1]: {tint: red}\n  Token[2]: {tint: boom}\n  Token[3]: {}\n")
    assert result.code == 65
    (line,) = result.lines
    assert "site.yaml:3:3: Token[2]: canonicalize failed: there is no such colour" in line
    assert bench.calls("token") == []


def test_a_secret_that_a_check_does_not_expect_is_said_with_its_attribute(bench: Bench) -> None:
    """Not the exception of the provider, and not the secret."""
    bench.probe(
        "def validate(self, context, should):\n    return [] if should['colour'].lower() else []\n"
        "def set(self, context, changes): pass",
        features=("validate",),
    )
    secret = "inputs: {p: {type: 'Sensitive[String]', default: topsecret}}\n"
    result = bench.apply(secret + "resources:\n  Probe[a]: {colour: '${inputs.p}'}\n")
    assert (result.code, "topsecret" in result.err) == (65, False)
    assert "site.yaml:3:14: Probe[a]: colour cannot be or contain a secret" in result.err, result.err


def test_the_value_is_checked_before_and_after(bench: Bench) -> None:
    """A value of another data type is refused before ``canonicalize`` and in what it returns."""
    bench.probe(
        "def canonicalize(self, context, resources):\n"
        "    for row in resources:\n"
        "        row['size'] = str(row['size'] + 1)\n"
        "    return resources\n"
        "def set(self, context, changes): pass",
        features=("canonicalize",),
    )
    before = bench.apply("resources: {'Probe[a]': {size: big}}")
    assert before.code == 65
    assert "size must be" in before.err
    after = bench.apply("resources: {'Probe[a]': {size: 1}}")
    assert after.code == 65
    assert "Probe[a]: canonicalize returned size" in after.err


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return None", "canonicalize of type 'probe' must return the resources that it was given, not None"),
        ("return []", "must return the resources that it was given, 2 in this call, not 0"),
        ("return resources[:1]", "must return the resources that it was given, 2 in this call, not 1"),
        ("return iter(resources)", "must return the resources that it was given as a list, not list_iterator"),
        ("return list(map(tuple, resources))", "must return mappings of attribute to value, not tuple"),
        ("return [dict(r, extra=1) for r in resources]", "extra"),
        ("return [{k: v for k, v in r.items() if k != 'size'} for r in resources]", "dropped 'size'"),
        ("return [dict(r, size=UNKNOWN) for r in resources]", "canonicalize has made 'size' unknown"),
    ],
)
def test_a_wrong_return_value_is_an_error(bench: Bench, body: str, words: str) -> None:
    """A return value of ``canonicalize`` other than its resources is refused with a message that names the fault."""
    bench.probe(
        f"def canonicalize(self, context, resources):\n    {body}\ndef set(self, context, changes): pass",
        features=("canonicalize",),
    )
    result = bench.apply("resources: {'Probe[a]': {size: 1}, 'Probe[b]': {size: 1}}")
    assert result.code == 65
    assert result.err.count(words) == 2


def test_a_wrong_return_value_fails_what_was_read(bench: Bench) -> None:
    """A listing reports a wrong return value of ``canonicalize`` for each resource, with the same words."""
    bench.probe(
        "def canonicalize(self, context, resources): return resources[:1]\ndef set(self, context, changes): pass",
        features=("canonicalize",),
    )
    bench.put("probe", a={"name": "a", "ensure": "present"}, b={"name": "b", "ensure": "present"})
    result = bench.run("resource", "probe")
    assert result.code == 1
    assert result.err.count("must return the resources that it was given, 2 in this call, not 1") == 2


def test_it_receives_declared_values_without_metaparameters(bench: Bench) -> None:
    """``canonicalize`` receives all resources of the type at once, with defaults and without metaparameters."""
    bench.probe(
        "def canonicalize(self, context, resources):\n"
        "    if any('size' in r for r in resources):\n"
        "        context.notice(str([sorted(r) for r in resources]))\n"
        "    return resources\n"
        "def set(self, context, changes): self._done(changes)",
        features=("canonicalize",),
    )
    result = bench.apply("resources: {'Probe[a]': {size: 1, tag: x, loglevel: info}, 'Probe[b]': {size: 1}}", "--noop")
    assert result.lines[0] == "Notice: probe: [['ensure', 'name', 'size'], ['ensure', 'name', 'size']]"


def test_what_canonicalize_does_to_its_argument_is_lost(bench: Bench) -> None:
    """The runtime keeps the original values, and uses the result only."""
    bench.probe(
        """
        def canonicalize(self, context, resources):
            answer = [{**resource, "colour": str(resource.get("colour")).upper()} for resource in resources]
            for resource in resources:
                resource.clear()
            return answer
        def set(self, context, changes): self._done(changes)
        """,
        features=("canonicalize",),
    )
    assert bench.apply("resources: {'Probe[a]': {size: 1, colour: red}}").code == 0
    assert bench.things("probe")["a"] == {"name": "a", "ensure": "present", "size": 1, "colour": "RED"}


UNCANONICAL = """
def get(self, context): return [
    {"name": "a", "ensure": "present", "colour": self._rows().get("a", {}).get("colour", "RED")},
    {"name": "other", "ensure": "present", "colour": "BLUE"},
]
def set(self, context, changes): self._done(changes)
"""


def test_an_uncanonical_value_from_get_fails_its_resource(bench: Bench) -> None:
    """The error shows both spellings, and a row that was not requested is not reported."""
    bench.probe(MIRROR + UNCANONICAL, features=("canonicalize",))
    result = bench.apply("resources: {'Probe[a]': {colour: red}, 'Probe[c]': {}}", "--detailed-exitcodes")
    assert result.code in {4, 6}
    errors = [line for line in result.lines if line.startswith("Error")]
    assert any(line.startswith("Error: Probe[a]: ") and "RED" in line and "red" in line for line in errors)
    assert "BLUE" not in result.err


@pytest.mark.parametrize(("strict", "warned"), [("warning", True), ("off", False)])
def test_below_error_an_uncanonical_value_is_canonicalized(bench: Bench, strict: str, *, warned: bool) -> None:
    """With ``--strict warning`` or ``off`` the value is canonicalized before the comparison, and nothing is changed."""
    bench.probe(MIRROR + UNCANONICAL, features=("canonicalize",))
    result = bench.apply("resources: {'Probe[a]': {colour: red}}", "--strict", strict, "--detailed-exitcodes")
    assert result.code == 0
    assert any(line.startswith("Warning: Probe[a]: ") and "not canonical" in line for line in result.lines) is warned


def test_an_uncanonical_name_from_get_is_not_taken_for_absence(bench: Bench) -> None:
    """A resource that ``get`` returns under an uncanonical name is not created again."""
    bench.type(
        "shy",
        bench.NAMED,
        provider="""
        def canonicalize(self, context, resources):
            return [dict(row, name=row["name"].upper()) for row in resources]
        def get(self, context): return [{"name": "a", "ensure": "present"}]
        def create(self, context, name, should): context.notice("made again")
        """,
        features=["canonicalize"],
    )
    result = bench.apply("resources: {'Shy[a]': {}}")
    assert result.code == 1
    assert "made again" not in result.err
    assert "not canonical" in result.err
    assert bench.apply("resources: {'Shy[a]': {}}", "--strict", "off", "--detailed-exitcodes").code == 0


@pytest.mark.parametrize(("strict", "line"), [("error", "Error"), ("warning", "Warning"), ("off", None)])
def test_a_name_of_another_data_type_from_get_is_not_taken_for_absence(
    bench: Bench, strict: str, line: str | None
) -> None:
    """A resource whose name ``get`` returns as a number is not created; below ``error`` it is what was asked for."""
    bench.type(
        "port",
        bench.NAMED,
        provider="""
        def get(self, context, names): return [{"name": 8080, "ensure": "present"}, {"name": 22, "ensure": "present"}]
        def create(self, context, name, should): context.notice("made again")
        """,
        features=["simple_get_filter"],
    )
    result = bench.apply("resources: {'Port[8080]': {}}", "--strict", strict, "--detailed-exitcodes")
    assert result.code == (4 if line == "Error" else 0)
    assert "made again" not in result.err
    assert result.err.startswith(f"{line}: Port[8080]: get returned name must be a string" if line else "")
