"""Invalid manifests: refused before any provider is called, with the line of every problem."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench


def problem(bench: Bench, declared: str) -> str:
    """Return the error for ``Widget[a]`` with a wrong line, and check that no provider was called."""
    result = bench.apply(f"resources:\n  Widget[first]: {{}}\n  Widget[a]:\n    {declared}\n")
    assert (result.code, result.out) == (65, "")
    assert bench.calls("widget") == []
    (line,) = result.lines
    return line.removeprefix(str(bench.home) + "/")


SYNTAX = "write ${inputs.x}, ${values.x}, ${facts.x} or ${Type[title].attribute}, or $${ for a literal ${"
WRONG: list[tuple[str, list[str]]] = [
    ("size: '2'", ["size must be an integer from 0 to 100, not a string"]),
    ("size: 101", ["size", "100", "101"]),
    ("size: 1.0", ["size", "an integer", "not a float"]),
    ("weight: 1", ["weight", "a float", "not an integer"]),
    ("colour: 3", ["colour", "a string", "not an integer", "quotes"]),
    ("parts: [x, 1]", ["parts[1]", "a string"]),
    ("labels: {x: y}", ["labels.x", "an integer"]),
    ("mixed: 7", ["mixed", "a string", "true or false"]),
    ("ensure: presnt", ["ensure must be one of present, absent; did you mean 'present'?"]),
    ("force: 'true'", ["force must be true or false, not a string"]),
    ("mixed: [x]", ["mixed"]),
]


def test_a_value_of_another_type_is_refused(bench: Bench) -> None:
    """Values are not coerced, and each error has its line and the expected data type."""
    lines = "".join(f"  Widget[w{number}]:\n    {declared}\n" for number, (declared, _) in enumerate(WRONG))
    result = bench.apply(f"resources:\n{lines}")
    assert result.code == 65
    assert bench.calls("widget") == []
    assert len(result.lines) == len(WRONG)
    for number, (line, (declared, words)) in enumerate(zip(result.lines, WRONG, strict=True)):
        assert f"site.yaml:{2 * number + 3}:" in line, (declared, line)
        assert f"Widget[w{number}]: " in line
        for word in words:
            assert word in line, line


def test_an_unknown_attribute_is_refused_with_the_nearest(bench: Bench) -> None:
    """The message is exactly the documented one."""
    assert problem(bench, "clour: red") == (
        "site.yaml:4:5: Widget[a]: unknown attribute 'clour'; did you mean 'colour'?"
    )


@pytest.mark.parametrize("value", ["S-9", "S-a", "''"])
def test_read_only_is_never_declared(bench: Bench, value: str) -> None:
    """A declared ``read_only`` attribute is an error, whatever its value."""
    bench.put("widget", a={"serial": "S-a"})
    message = problem(bench, f"serial: {value}")
    assert "serial" in message
    assert "read_only" in message


def test_read_only_is_refused_for_absent_resources_too(bench: Bench) -> None:
    """``read_only`` is refused with ``ensure: absent``, and ``null`` is accepted."""
    assert "read_only" in problem(bench, "serial: x\n    ensure: absent")
    assert bench.apply("resources: {'Widget[a]': {serial: null}}").code == 0


def test_a_mandatory_attribute_must_be_declared(bench: Bench) -> None:
    """The error names the attribute, and no provider is called."""
    bench.put("setting", port={"value": 1})
    result = bench.apply("resources:\n  Setting[port]:\n    unit: x\n")
    assert result.code == 65
    assert "Setting[port]: attribute 'value' is missing; it is mandatory" in result.err
    assert bench.calls("setting") == []


@pytest.mark.parametrize(("declared", "count"), [("valu: 1", 1), ("unti: x", 2)])
def test_a_mandatory_attribute_with_a_typo_is_reported_as_unknown_only(bench: Bench, declared: str, count: int) -> None:
    """An attribute whose name is not the suggestion for an unknown one is still reported as missing."""
    result = bench.validate(f"resources:\n  Setting[port]: {{{declared}}}\n")
    assert result.code == 65
    assert [len([line for line in result.lines if "attribute '" in line]), len(result.lines)] == [count, count]
    assert any("unknown attribute" in line and "did you mean" in line for line in result.lines)


def test_all_problems_are_reported_at_once_in_line_order(bench: Bench) -> None:
    """One run reports the problems of several types, sorted by line."""
    result = bench.validate(
        """
        resources:
          Widget[a]:
            size: big
            clour: red
          Wdget[b]: {}
          Widget[c]:
            require: Widget[nope]
            size: 400
          Token[xyz]: {}
        """
    )
    assert result.code == 65
    numbers = [int(line.split(":")[1]) for line in result.lines]
    assert numbers == sorted(numbers) == [3, 4, 5, 7, 8, 9]
    assert "did you mean" in result.lines[2]


def test_an_unknown_type_names_the_nearest(bench: Bench) -> None:
    """The error has the line and the nearest type."""
    result = bench.apply("resources:\n  Wiget[a]: {}\n")
    assert result.code == 65
    assert "site.yaml:2:3: Wiget[a]: unknown type 'Wiget'" in result.err
    assert "did you mean 'widget'?" in result.err.lower()


def test_a_plain_value_for_a_secret_is_wrapped(bench: Bench) -> None:
    """A plain value for a ``Sensitive`` attribute is passed wrapped to the provider."""
    result = bench.apply("resources: {'Account[a]': {password: hunter22}}")
    assert result.code == 0
    assert bench.calls("account", "set") == [{"name": "str", "ensure": "str", "password": "Sensitive"}]
    assert bench.things("account")["a"]["password"] == "hunter22"


def test_a_wrong_secret_is_refused_without_being_shown(bench: Bench) -> None:
    """The error names the attribute and not the value."""
    result = bench.apply("resources:\n  Account[a]:\n    password: hunter2\n")
    assert result.code == 65
    assert "password" in result.err
    assert "hunter2" not in result.err + result.out
    assert bench.apply("resources: {'Account[a]': {password: 98765432101}}").code == 65


def test_the_same_title_twice_is_an_error_naming_both_lines(bench: Bench) -> None:
    """A duplicate title is refused with both lines."""
    result = bench.apply("resources:\n  Widget[a]: {}\n  Widget[b]: {}\n  Widget[a]: {}\n")
    assert result.code == 65
    assert "site.yaml:4:3" in result.err
    assert "2" in result.err.split("site.yaml:4:3")[1]


def test_one_identity_under_two_titles_is_an_error_naming_both_lines(bench: Bench) -> None:
    """Two titles with the same canonical namevar are refused with both lines."""
    result = bench.apply("resources:\n  Widget[a]: {}\n  Widget[b]: {name: a}\n")
    assert result.code == 65
    assert "site.yaml:3:3: Widget[b]: is the same resource as Widget[a] at" in result.err
    assert "site.yaml:2" in result.err
    twins = bench.apply("resources:\n  Token[0xab]: {}\n  Token[AB]: {}\n")
    assert twins.code == 65
    assert "Token[AB]: is the same resource as Token[0xab]" in twins.err


def test_a_title_that_is_not_of_the_namevars_type_is_refused(bench: Bench) -> None:
    """A namevar from a title is checked against its data type."""
    result = bench.apply("resources:\n  Token[xyz]: {}\n")
    assert result.code == 65
    assert "site.yaml:2:3: Token[xyz]: id " in result.err


def test_problems_from_validate_refuse_the_manifest(bench: Bench) -> None:
    """Strings, errors and exceptions from ``validate`` refuse the manifest, and a warning does not."""
    bench.probe(
        """
        def validate(self, context, should):
            if should.get("size") == 1:
                return ["size 1 does not fit"]
            if should.get("size") == 2:
                return [Problem("colour", "a pale one", "warning"), Problem("size", "still too small")]
            if should.get("size") == 3:
                return [Problem("size", "rather small", "warning")]
            if should.get("size") == 4:
                raise ValueError("what is a 4")
        def set(self, context, changes): self._done(changes)
        """,
        features=("validate",),
    )
    result = bench.apply("resources:\n  Probe[a]:\n    size: 1\n  Probe[b]:\n    size: 2\n  Probe[c]:\n    size: 4\n")
    assert result.code == 65
    assert "site.yaml:2:3: Probe[a]: size 1 does not fit" in result.err
    assert "site.yaml:5:5: Probe[b]: still too small" in result.err
    assert "site.yaml:4:3: Warning: Probe[b]: a pale one" in result.err
    assert "Probe[c]: validate failed: what is a 4" in result.err
    assert bench.things("probe") == {}
    warned = bench.apply("resources: {'Probe[a]': {size: 3}}")
    assert warned.code == 0
    assert "Probe[a]: rather small" in warned.err
    assert bench.things("probe")["a"]["size"] == 3


def test_the_document_of_a_valid_manifest_has_its_warnings(bench: Bench) -> None:
    """With their position: those of ``validate`` of a provider, and those about the file."""
    bench.probe(
        """
        def validate(self, context, should):
            return [Problem("size", "rather small", "warning")]
        def set(self, context, changes): self._done(changes)
        """,
        features=("validate",),
    )
    manifest = bench.write("site.yaml", "resources: {'Probe[a]': {size: 3}}")
    manifest.chmod(0o666)
    result = bench.run("validate", manifest, "--json")
    assert (result.code, result.document["valid"]) == (0, True), result
    of_file, of_resource = result.document["diagnostics"]
    assert (of_file["code"], of_file["severity"], of_file["file"]) == ("untrusted_manifest", "warning", str(manifest))
    assert (of_resource["severity"], of_resource["message"]) == ("warning", "rather small")
    assert (of_resource["reference"], of_resource["line"]) == ("Probe[a]", 1)


def test_validate_is_called_again_when_a_value_becomes_known(bench: Bench) -> None:
    """An unknown value is no error in the plan; what it turns out to be is checked before its own step, which fails."""
    bench.probe(
        """
        def validate(self, context, should):
            return [Problem("colour", "is no colour")] if should.get("colour") == "made by a" else []
        def set(self, context, changes):
            for name, change in changes.items():
                self._put(name, {"colour": f"made by {name}", **change.should})
        """,
        features=("validate",),
    )
    manifest = "resources: {'Probe[a]': {size: 1}, 'Probe[b]': {colour: '${Probe[a].colour}'}}"
    planned = bench.plan(manifest)
    assert planned.code == 0
    assert "colour: (none) → (known after apply)" in planned.out
    result = bench.apply(manifest)
    assert result.code == 1
    assert any(line.startswith("Error: Probe[b]: is no colour") for line in result.lines)
    assert bench.things("probe").keys() == {"a"}


def test_validate_cannot_change_what_is_declared(bench: Bench) -> None:
    """It gets a copy of the values."""
    bench.probe(
        """
        def validate(self, context, should): should.update(size=9)
        def set(self, context, changes): self._done(changes)
        """,
        features=("validate",),
    )
    assert bench.apply("resources: {'Probe[a]': {size: 1}}").code == 0
    assert bench.things("probe")["a"]["size"] == 1


def refusal(bench: Bench, answer: str) -> str:
    """Return the error for a resource whose provider's ``validate`` returns ``answer``."""
    bench.probe(
        f"""
        def validate(self, context, should): return {answer}
        def set(self, context, changes): pass
        """,
        features=("validate",),
    )
    result = bench.validate("resources:\n  Probe[a]: {size: 1}\n")
    assert result.code == 65
    return result.err


@pytest.mark.parametrize("isolate", ["", "1"], ids=["here", "in_a_worker"])
@pytest.mark.parametrize("answer", ["False", "True", "24", "[('size', 'small')]", "{'size': 'small'}", "[b'small']"])
def test_validate_returns_texts_and_problems_and_nothing_else(bench: Bench, answer: str) -> None:
    """Elsewhere such a method returns whether the resource is valid."""
    error = refusal(bench, answer)
    words = "validate must return texts or Problem(attribute, message), one or several, not "
    assert f"site.yaml:2:3: Probe[a]: {words}{answer.strip('[]')}" in error


@pytest.mark.parametrize("answer", ["''", "[None and 0 or '']", "[Problem('size', '')]"])
def test_an_empty_text_is_no_reason(bench: Bench, answer: str) -> None:
    """A resource is never refused without a word; the message says how to accept it."""
    error = refusal(bench, answer)
    assert "Probe[a]: validate must return None, not an empty text, where nothing is wrong" in error


def test_a_wrong_metaparameter_is_refused(bench: Bench) -> None:
    """Each wrong metaparameter is reported with its line."""
    wrong = ("noop: maybe", "loglevel: loud", "timeout: -1", "tag: [a b]", "lifecycle: {protct: true}")
    lines = "".join(f"  Widget[w{number}]:\n    {declared}\n" for number, declared in enumerate(wrong))
    result = bench.apply(f"resources:\n{lines}")
    assert result.code == 65
    assert [line.split("site.yaml:")[1].split(":")[0] for line in result.lines] == ["3", "5", "7", "9", "11"]


def test_absent_resources_are_checked_too(bench: Bench) -> None:
    """A wrong value is refused with ``ensure: absent`` as well."""
    assert "size" in problem(bench, "size: big\n    ensure: absent")


def test_unused_values_are_checked_too(bench: Bench) -> None:
    """Each problem in ``values`` is reported once, at its own line."""
    result = bench.validate(
        """
        values:
          itself: ${values.itself}
          input: ${inputs.nope}
          nothing: a ${
          resource: ${Widget[q].size}
          attribute: ${Widget[a].sise}
          used: ${values.input}
          one: ${values.other}
          other: ${values.one}
          sound: [1, "${values.well}"]
          well: "${Widget[a].serial}"
        resources:
          Widget[a]: {colour: "${values.used}", size: "${values.one}"}
        """
    )
    assert result.code == 65
    assert [line.split("site.yaml:")[1] for line in result.lines] == [
        "2:3: value 'itself': ${values.itself}: values refer to each other in a circle: itself → itself",
        "3:3: value 'input': ${inputs.nope}: unknown input 'nope'",
        f"4:3: value 'nothing': '${{' is not a reference; {SYNTAX}",
        "5:3: value 'resource': ${Widget[q].size}: unknown resource 'Widget[q]'; did you mean 'Widget[a]'?",
        "6:3: value 'attribute': ${Widget[a].sise}: unknown attribute 'sise'; did you mean 'size'?",
        "9:3: value 'other': ${values.other}: values refer to each other in a circle: other → one → other",
    ]


def test_unused_defaults_are_checked_too(bench: Bench) -> None:
    """The types, attributes and known values of ``defaults`` are checked."""
    result = bench.validate(
        """
        defaults:
          Widgt: {size: 1}
          Widget: {sise: 1, size: many, colour: "${inputs.x}", serial: S-1, noop: true}
          Account: {password: "a secret", note: "${facts.kernel}"}
        """
    )
    assert result.code == 65
    assert [line.split("site.yaml:")[1] for line in result.lines] == [
        "2:3: defaults of Widgt: unknown type 'Widgt'; did you mean 'widget'?",
        "3:12: defaults of Widget: unknown attribute 'sise'; did you mean 'size'?",
        "3:21: defaults of Widget: size must be an integer from 0 to 100, not a string",
        "3:33: defaults of Widget: ${inputs.x}: unknown input 'x'",
        "3:56: defaults of Widget: 'serial' is read_only; it is reported, never set",
    ]


def test_words_of_yaml_1_1_are_strings(bench: Bench) -> None:
    """``yes``, ``on``, ``22:22`` and similar words are strings, as in the YAML 1.2 core schema."""
    words = ("yes", "on", "no", "22:22", "1_000", "~x", "Off", "0o17x")
    lines = "".join(f"  Widget[w{number}]: {{colour: {word}}}\n" for number, word in enumerate(words))
    assert bench.apply(f"resources:\n{lines}").code == 0
    assert [row["colour"] for row in bench.things("widget").values()] == list(words)


@pytest.mark.parametrize(
    ("text", "location"),
    [
        ("resources:\n\tWidget[a]: {}\n", ":2:"),
        ("resources: {'Widget[a]': {}\n", ""),
        ("resources:\n  Widget[a]: &x\n    labels: *x\n", ""),
        ('resources:\n  Widget[a]: {colour: "\x01"}\n', ""),
        ("resorces: {}\n", ":1:1"),
        ("[]", ""),
        ("resources:\n  Widget['a']: {}\n", ":2:3"),
        ("resources:\n  Widget: {}\n", ":2:3"),
        ("resources:\n  Widget[]: {}\n", ":2:3"),
        ("resources:\n  Widget[a]: {require: [Widget[b]]}\n", ":2:"),
    ],
)
def test_a_file_that_is_no_manifest_is_refused_with_its_position(bench: Bench, text: str, location: str) -> None:
    """A malformed file exits 65, and the error has its name and, where known, its position."""
    path = bench.home / "site.yaml"
    path.write_text(text, encoding="utf-8")
    result = bench.run("apply", "site.yaml")
    assert result.code == 65, result
    assert f"site.yaml{location}" in result.err
    assert bench.calls("widget") == []


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        *((f"m.widget('a',\n colour={odd})", "resources.Widget[a].colour: ") for odd in ("object()", "{1}", "b''")),
        ("m.widget('a', weight=float('nan'))", "resources.Widget[a].weight: "),
        ("m.widget('a', size=10**30)", "resources.Widget[a].size: the integer"),
        ("m.widget('a', colour='\\0')", "resources.Widget[a].colour: a string cannot hold"),
        ("m.widget('a', labels={1: 2})", "resources.Widget[a].labels: a key must be"),
        ("m.widget('\\x1b')", "resources: a key cannot hold"),
        ("m.resource('Widget[a]', {'size': 1})", "type and title are two arguments: write m.resource('widget', 'a', "),
        ("m.resource(None, 'a')", "the type must be text such as 'file', not None"),
        ("m.widget(None)", "the title must be text, not None; write m.resource('widget', 'TITLE', ...)"),
        ("m.widget({'size': 1})", "the title must be text, not {'size': 1}; write m.resource('widget', 'TITLE', ...)"),
        ("m.output('a', m.widget('a').serial == 3)", "${Widget[a].serial} is not known yet and cannot be tested"),
        ("m.output('a', 3 in m.widget('a').serial)", "${Widget[a].serial} is not known yet and cannot be tested"),
        ("m.output('a', [*m.widget('a').serial])", "${Widget[a].serial} is not known yet: its items cannot be "),
        ("for each in m.widget('a').serial['x']: m.widget(each)", "${Widget[a].serial.x} is not known yet: its items"),
        ("m.output('a', len(m.invoke('x.y')))", "${values.y-1} is not known yet: its items cannot be counted"),
        (
            "m.output('a', {m.widget('a').serial: 1})",
            "the key of a mapping cannot be ${Widget[a].serial}, which is not",
        ),
        (
            "m.widget('a', {m.widget('b').serial: 1})",
            "the key of a mapping cannot be ${Widget[b].serial}, which is not",
        ),
        ("m.widget('a', labels={'x': {m.inputs.pw: 1}})", "the key of a mapping cannot be a secret; make the whole"),
        (
            "return {'resources': {}}",
            "manifest(m) returns a value of the type dict, which declares nothing; call m.res",
        ),
        ("return [m.widget('a')]", "manifest(m) returns a value of the type list, which declares nothing; call m.res"),
        ("m.output('a', ','.join(m.widget('a').serial))", "can only join an iterable"),
        ("m.output('a', m.widget('a')['serial'])", "Widget[a] is a resource; write .NAME for an attribute of it, not"),
        ("m.widget('a').size = 3", "Widget[a] is declared already; give its attributes in the call that declares it"),
        (
            "m.widget('a')['size'] = 3",
            "Widget[a] is declared already; give its attributes in the call that declares it",
        ),
        ("m.inputs.pw = 'x'", "inputs, values and facts are not assigned to; use a variable"),
        ("m.widget('b', size=int(m.widget('a').serial))", "${Widget[a].serial} is not known yet and is no number"),
        ("m.output('a', 'at ' + m.widget('a').serial)", "${Widget[a].serial} is not known yet; write m.text('"),
        ("m.output('a', m.widget('a').serial + '!')", "${Widget[a].serial} is not known yet; write m.text('"),
    ],
)
def test_a_wrong_python_declaration_is_reported_with_its_line(bench: Bench, statement: str, words: str) -> None:
    """A wrong call in a Python manifest is reported with file and line."""
    secret = "INPUTS = {'pw': {'type': 'Sensitive[String]', 'default': 'hunter22'}}"
    bench.write("site.py", f"{secret}\n\ndef manifest(m):\n    m.widget('sound')\n    {statement}\n")
    result = bench.run("validate", "site.py")
    assert result.code == 65
    assert "hunter22" not in result.err
    assert re.search(rf"site\.py:[356]:[1-9]\d*: {re.escape(words)}", result.err), result.err


def test_wrong_python_constants_are_reported_with_their_position(bench: Bench) -> None:
    """All errors in the constants are reported at once with file, line and column."""
    bench.write(
        "site.py",
        """
        import os

        PROJECT = 3
        INPUTS: dict = {
            "x": {"type": 1},
            "y": [],
        }
        DEFAULTS = {"Widget": 3}
        def manifest(m):
            pass
        """,
    )
    result = bench.run("validate", "site.py")
    assert result.code == 65
    assert [line.split("; ")[0] for line in result.lines] == [
        "site.py:3:1: project must be 1 to 100 letters, digits, '.', '_' and '-'",
        "site.py:5:11: type of an input must be a string",
        "site.py:6:5: an input must be a mapping",
        "site.py:8:13: defaults must be a mapping of attributes",
    ]
    bench.write("site.py", "\nINPUTS = {\n    'x': {'type': 'Foo'}}\ndef manifest(m):\n    pass\n")
    assert "site.py:2:20: input 'x': unknown data type 'Foo'" in bench.run("validate", "site.py").err


def test_an_unquoted_reference_is_reported_with_the_quoted_text(bench: Bench) -> None:
    """The error for an unquoted reference in a YAML list contains the quoted reference."""
    result = bench.apply("resources:\n  Widget[b]: {}\n  Widget[a]: {require: [Widget[b]]}\n")
    assert result.code == 65
    assert '"Widget[b]"' in result.err


def test_a_missing_manifest_is_named(bench: Bench) -> None:
    """A manifest that does not exist exits 65, and the error names it."""
    result = bench.run("apply", "nosuch.yaml")
    assert result.code == 65
    assert "nosuch.yaml" in result.err
    assert result.out == ""


def test_a_missing_secret_input_is_requested_as_a_file(bench: Bench) -> None:
    """The error suggests ``@FILE`` for a sensitive input and ``VALUE`` for another."""
    result = bench.plan('inputs: {word: {type: "Sensitive[String]"}, size: {type: Integer}}')
    assert result.code == 65
    assert "input 'word': is not given and has no default; give it with -i word=@FILE" in result.err
    assert "input 'size': is not given and has no default; give it with -i size=VALUE" in result.err


@pytest.mark.parametrize(
    "declared",
    [
        "File[x]: {path: '/tmp/ra-${Widget[w].serial}', content: a}",
        "Archive[x]: {path: '/${Widget[w].serial}', source: {archive: {files: {}}}}",
        "Widget[x]: {name: '${Widget[w].serial}'}",
    ],
)
def test_a_namevar_must_be_known_before_apply(bench: Bench, declared: str) -> None:
    """A namevar that is only known after apply is refused with its line."""
    result = bench.plan(f"resources:\n  Widget[w]: {{}}\n  {declared}\n")
    assert result.code == 65
    assert [line.partition(": ")[2] for line in result.lines] == [
        f"{declared.partition(':')[0]}: a namevar must be known before anything is done"
    ]
    assert "site.yaml:3:3: " in result.err


@pytest.mark.parametrize(
    "declared",
    ["File[x]: {path: '/tmp/ra-${inputs.pw}', content: a}", "Widget[x]: {name: '${inputs.pw}'}"],
)
def test_a_namevar_cannot_be_a_secret(bench: Bench, declared: str) -> None:
    """A secret namevar is refused without being shown, by the type or else by the runtime."""
    bench.write("pw", "hidden77")
    inputs = "inputs: {pw: {type: 'Sensitive[String]'}}\n"
    result = bench.plan(f"{inputs}resources:\n  {declared}\n", "-i", "pw=@pw")
    assert result.code == 65
    (line,) = result.lines
    assert re.search("'path' is a secret|a namevar cannot be a secret", line)
    assert "hidden77" not in line


def test_a_failing_autorequire_function_is_a_problem_of_its_resource(bench: Bench) -> None:
    """An exception in it has the line of the resource, and an unknown value causes none."""
    attributes = '"name": Attribute("String", "n", kind="namevar"), "of": Attribute("Optional[String]", "o")'
    declared = (
        f"name='odd', docs='o', attributes={{{attributes}}}, autorequires={{'widget': lambda it: [it['of'] + '1']}}"
    )
    bench.write("modules/types/odd.py", f"from resource_api import *\nTYPE = TypeDefinition({declared})\n")
    provider = "    def get(self, context): return [{'name': 'a'}]\n    def set(self, context, changes): pass\n"
    bench.write("modules/providers/odd.py", f"from resource_api import *\nclass Provider(BaseProvider):\n{provider}")
    wrong = bench.validate("resources:\n  Widget[w]: {}\n  Odd[a]: {}\n")
    assert wrong.code == 65
    assert "site.yaml:3:3: Odd[a]: autorequire of its type failed: " in wrong.err
    assert bench.validate("resources:\n  Widget[w]: {}\n  Odd[a]: {of: '${Widget[w].serial}'}\n").code == 0


@pytest.mark.parametrize("type_name", ["File_line", "Block_in_file", "Ini_setting", "Json_setting", "Mysql_grant"])
def test_a_missing_namevar_is_the_only_thing_that_is_said_of_it(bench: Bench, type_name: str) -> None:
    """Functions of the type and of its provider that need it are not heard."""
    values = {"File_line": "line: x", "Block_in_file": "block: x", "Mysql_grant": "privileges: [SELECT]"}
    result = bench.validate(
        f"resources:\n  File[/a]: {{}}\n  {type_name}[a]: {{{values.get(type_name, 'value: x')}}}\n"
    )
    lines = [line for line in result.err.splitlines() if "site.yaml:" in line]
    assert lines
    assert [line for line in lines if "the namevar '" not in line] == []


@pytest.mark.parametrize("consumed", [True, False])
def test_values_may_refer_to_each_other_100_deep(bench: Bench, *, consumed: bool) -> None:
    """A chain of 100 values is valid; a longer one is reported once."""
    resource = "'Widget[a]': {colour: '${values.v0}'}" if consumed else ""

    def chain(length: int) -> str:
        links = "".join(f"  v{number}: ${{values.v{number + 1}}}\n" for number in range(length - 1))
        return f"resources: {{{resource}}}\nvalues:\n{links}  v{length - 1}: red\n"

    assert bench.validate(chain(100)).code == 0
    for length in (101, 202, 2000):
        result = bench.validate(chain(length))
        assert (result.code, len(result.lines)) == (65, 1)
        assert all("values refer to each other more than 100 deep" in line for line in result.lines)


def test_a_mistake_in_defaults_is_reported_once(bench: Bench) -> None:
    """With the first resource that inherits it; what a resource declares itself is reported for each."""
    result = bench.apply(
        """
        defaults:
          Widget: {size: big, bogus: 1, colour: "${inputs.nope}"}
        resources:
          Widget[a]: {}
          Widget[b]: {}
          Widget[c]: {size: big, colour: "${inputs.nope}"}
          Widget[d]: {size: [], colour: red, bogus: 2}
        """
    )
    assert result.code == 65
    matches = re.findall(r"site\.yaml:(\d+:\d+): (\S+): (\S+)", result.err)
    assert matches == [
        ("2:12", "Widget[a]", "size"),
        ("2:23", "Widget[a]", "unknown"),
        ("2:33", "Widget[a]", "${inputs.nope}:"),
        ("6:15", "Widget[c]", "size"),
        ("6:26", "Widget[c]", "${inputs.nope}:"),
        ("7:15", "Widget[d]", "size"),
        ("7:38", "Widget[d]", "unknown"),
    ]


def test_a_handle_is_read_under_any_key(bench: Bench) -> None:
    """A key of a Python manifest is one key, whatever it holds, and so is one in ``${...}``."""
    bench.write(
        "site.py",
        """
        def manifest(m):
            labels = m.widget("w", ensure="present", labels={"a.b": 1, "it's": 2, "${x}": 3}).labels
            for number, name in enumerate(("a.b", "it's", "${x}")):
                m.output(f"o{number}", labels[name])
        """,
    )
    result = bench.run("apply", "site.py", "--json")
    assert result.code == 0, result.out
    assert result.events("outputs")[0]["outputs"] == {"o0": 1, "o1": 2, "o2": 3}


@pytest.mark.parametrize("suffix", ["yaml", "json"])
def test_an_input_has_no_reference_as_its_default(bench: Bench, suffix: str) -> None:
    """At any depth, whether it is used or not; the message has the remedy. An escaped one is literal."""
    inputs = {"a": {"default": "x${facts.os.name}"}, "b": {"default": [{"${": 1}]}, "c": {"default": "$${HOME}"}}
    manifest = {"inputs": inputs, "outputs": {"c": "${inputs.c}"}, "resources": {"Widget[a]": {"sise": 1}}}
    bench.write(f"site.{suffix}", json.dumps(manifest))
    for arguments in ([], ["-i", "a=1"]):
        result = bench.run("validate", f"site.{suffix}", *arguments)
        assert result.code == 65
        remedy = (
            "a default cannot hold ${...}; write it under values and use ${values.NAME}, or write $${ for a literal"
        )
        assert f"input 'a': {remedy}" in result.err
        assert "input 'b': the key '${' of a mapping cannot hold ${...}; make the whole mapping one value" in result.err
        assert "unknown attribute 'sise'" in result.err
    del inputs["a"], inputs["b"], manifest["resources"]
    bench.write(f"site.{suffix}", json.dumps(manifest))
    assert bench.run("apply", f"site.{suffix}", "--json").events("outputs")[0]["outputs"] == {"c": "${HOME}"}


@pytest.mark.parametrize(
    "section", ["moved: {}", "removed: a", "purge: 3", "outputs: []", "outputs: {x: {value: 1, sensitive: 3}}"]
)
def test_a_wrong_section_that_nothing_refers_to_hides_no_other_problem(bench: Bench, section: str) -> None:
    """Nothing else of a manifest uses what it moves, removes, purges or publishes."""
    bench.write("site.yaml", f"{section}\nresources:\n  Widget[a]: {{siz: 1}}\n")
    first, second = bench.run("validate", "site.yaml").lines
    assert first.startswith("site.yaml:1:")
    assert second == "site.yaml:3:15: Widget[a]: unknown attribute 'siz'; did you mean 'size'?"


def test_an_unknown_section_hides_no_other_problem(bench: Bench) -> None:
    """A misspelt one is read as the one that is meant; nor does a wrong project."""
    result = bench.validate(
        """
        project: -x
        resource:
          Widget[a]: {sise: 1}
          Widget[b]: {colour: "${inputs.x}", require: "Widget[c]"}
        bogus: {a: 1}
        input:
          x: {type: String, default: a}
        Widget[c]: {size: 1}
        """
    )
    assert result.code == 65
    assert [line.removeprefix(f"{bench.home}/").split("; ")[0] for line in result.lines] == [
        "site.yaml:1:1: project must be 1 to 100 letters, digits, '.', '_' and '-'",
        "site.yaml:2:1: unknown key 'resource'",
        "site.yaml:3:15: Widget[a]: unknown attribute 'sise'",
        "site.yaml:5:1: unknown key 'bogus'",
        "site.yaml:6:1: unknown key 'input'",
        "site.yaml:8:1: 'Widget[c]' is a resource and stands beside the sections of the manifest",
    ]


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("12e4567", "the number is too large for a float; in quotes it is a string"),
        (
            '"\\ud83d\\ude00!"',
            'halves of one; write it itself, or \\U and 8 digits; write Widget[a]: {colour: "\\U0001F600!"}',
        ),
        ('"\\ud83d!"', "invalid Unicode character: this escape is half of one\n"),
    ],
)
def test_the_remedy_fits_the_mistake(bench: Bench, written: str, words: str) -> None:
    """A commit that looks like a number, and an escape of JSON."""
    result = bench.validate(f"resources:\n  Widget[a]: {{colour: {written}}}\n")
    assert (result.code, words in result.err) == (65, True), result.err


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("st", "4:5"),
        ("st.b", "6:7"),
        ("st.b[1].c", "8:11"),
        ("st.b[1].gone", "8:9"),
        ("st.b[7]", "6:7"),
        ("st['a.x']", "5:7"),
        ("st.b[*].c", "6:7"),
        ("st.b..c", "6:7"),
        ("nowhere.at.all", "3:3"),
    ],
)
@pytest.mark.parametrize("severity", ["error", "warning"])
def test_a_problem_of_a_part_has_the_place_of_the_nearest_one(
    bench: Bench, text: str, path: str, severity: str
) -> None:
    """A provider names a place within a value: the line is that of the part, or of what is around it."""
    bench.type(
        "nest",
        bench.NAMED + '"st": Attribute("Optional[Hash]", "s"),',
        provider=f"""
        def get(self, context, names=None): return []
        def validate(self, context, should): return [Problem({text!r}, "is bad", {severity!r})]
        """,
        features=["validate"],
    )
    body = "st:\n      'a.x': 1\n      b:\n      - c: 1\n      - d: 1\n        c: 2\n"
    bench.write("site.yaml", "# nest\nresources:\n  Nest[n]:\n    " + body)
    result = bench.run("validate", "site.yaml")
    expected = {"st.b[1].c": "9:9", "st.b[1].gone": "8:9"}.get(text, path)
    assert result.err.startswith(f"site.yaml:{expected}: "), result.err
    bench.write("site.yaml", "# nest\ndefaults:\n  Nest:\n    " + body + "resources: {'Nest[n]': {}}\n")
    assert bench.run("validate", "site.yaml").err.startswith(f"site.yaml:{expected if text[0] == 's' else '10:13'}: ")
