"""The constants of a Python manifest: each section that YAML has is read, or is an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench


@pytest.fixture
def recorded(bench: Bench) -> Bench:
    """Return the bench with state, in which three widgets are recorded as ours."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    assert bench.apply("project: p\nresources: {'Widget[a]': {}, 'Widget[b]': {}, 'Widget[c]': {}}").code == 0
    return bench


def _program(bench: Bench, constants: str, body: str = "m.widget('a')") -> str:
    text = f"PROJECT = 'p'\nINPUTS = {{'n': {{'type': 'String', 'default': 'b'}}}}\n{constants}\n\n"
    bench.write("site.py", f"{text}def manifest(m):\n    {body}\n")
    return "site.py"


@pytest.mark.parametrize("title", ["b", "${inputs.n}"])
def test_what_is_removed_is_forgotten(recorded: Bench, title: str) -> None:
    """``--prune`` deletes the other one only."""
    result = recorded.run("apply", _program(recorded, f"REMOVED = ['Widget[{title}]']"), "--prune")
    assert (result.code, sorted(recorded.things("widget"))) == (0, ["a", "b"]), result
    assert recorded.run("state", "list").out == "Widget[a]\n"


@pytest.mark.parametrize("values", ["[%s]", "(%s,)", "list([%s])"])
def test_what_has_moved_is_ours_under_the_new_name(recorded: Bench, values: str) -> None:
    """Nothing is deleted with ``--prune``, because the new one is the old one."""
    moves = ", ".join(f"{{'from': 'Widget[{old}]', 'to': 'Widget[{old}2]'}}" for old in "abc")
    program = _program(recorded, f"MOVED = {values % moves}", "[m.widget(n) for n in ('a2', 'b2', 'c2')] and None")
    recorded.write("things/widget.json", "{}")
    result = recorded.run("apply", program, "--prune", "--json")
    assert result.code == 0, result
    output = recorded.run("state", "show", "Widget[a2]").out
    assert "owned: true" in output
    assert recorded.run("state", "list").out.split() == ["Widget[a2]", "Widget[b2]", "Widget[c2]"]


@pytest.mark.parametrize(
    ("declarations", "expected"),
    [
        ("m.widget('a', when=m.values.flag); m.widget('b', when={'values.flag': False})", '"resources": 1'),
        (
            "m.widget('a', require=m.widget('c')); m.widget('b', require=m.values.word)",
            "'${values.word}' is not a refere",
        ),
        (
            "m.widget('b', require=m.widget('c').size)",
            "'${Widget[c].size}' is not a reference; write the resource itself",
        ),
        ("m.widget('b', when={'${values.flag}': True})", "is written without ${ and }; write values.flag"),
    ],
)
def test_a_pending_value_in_a_metaparameter_is_a_reference(bench: Bench, declarations: str, expected: str) -> None:
    """Where a manifest may refer to it, and an error of the metaparameter elsewhere."""
    program = _program(bench, "VALUES = {'flag': True, 'word': 'w'}", declarations)
    result = bench.run("validate", program, "--json")
    assert expected in result.out + result.err
    assert "PendingValue" not in result.out + result.err


def test_values_are_read_and_can_be_used(recorded: Bench) -> None:
    """In the other constants as in YAML, and by ``m.values``."""
    program = _program(
        recorded,
        "VALUES = {'word': 'red ${inputs.n}', 'sizes': [1, 2]}\nDEFAULTS = {'Widget': {'colour': '${values.word}'}}",
        "m.widget('a', size=m.values.sizes[1]); m.output('word', m.text('{0}!', m.values['word']))",
    )
    result = recorded.run("apply", program)
    assert (result.code, result.out.splitlines()[0]) == (0, "word: red b!"), result
    assert (recorded.things("widget")["a"]["size"], recorded.things("widget")["a"]["colour"]) == (2, "red b")


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        ("RESOURCES = {}", "3:1: RESOURCES is not read; declare resources in manifest(m), with m.resource("),
        ("OUTPUTS: dict = {}", "3:1: OUTPUTS is not read; declare outputs in manifest(m), with m.output("),
        ("PURGE = 'Widget'", "3:1: purge must be a list"),
        ("if True:\n    RESOURCES = 1", "4:5: RESOURCES is not read"),
        ("from os import name as OUTPUTS", "3:16: OUTPUTS is not read"),
        ("MOVED = 'Widget[a]'", "3:1: moved must be a list"),
        ("MOVED = [{'from': 'Widget[a]'}]", "3:10: an item of moved must be a mapping with from and to"),
        ("REMOVED = ['Widget']", "3:12: 'Widget' is not a reference"),
        ("REMOVED = ['Widget[a]']", "3:12: Widget[a] is removed, and still declared at site.py:6"),
        (
            "MOVED = [{'from': 'Widget[b]', 'to': 'Widget[d]'}]\nREMOVED = ['Widget[d]']",
            "4:12: Widget[d] is removed, and Widget[b] has moved to Widget[d] at site.py:3",
        ),
        ("VALUES = []", "3:1: values must be a mapping"),
        ("VALUES = {'x y': 1}", "3:11: 'x y' cannot be the name of a value"),
    ],
)
def test_what_is_wrong_in_a_constant_is_said_with_its_line(recorded: Bench, constants: str, message: str) -> None:
    """Nothing is touched."""
    result = recorded.run("apply", _program(recorded, constants), "--prune")
    assert (result.code, f"site.py:{message}" in result.err) == (65, True), result.err
    assert sorted(recorded.things("widget")) == ["a", "b", "c"]


def test_every_constant_that_is_not_read_is_told_at_once(recorded: Bench) -> None:
    """Not one after the other."""
    result = recorded.run("validate", _program(recorded, "RESOURCES = {}\nOUTPUTS = {}"))
    assert [line.split(" ")[1] for line in result.lines] == ["RESOURCES", "OUTPUTS"], result.err


_COMPONENT = """
from resource_api import Attribute, ComponentDefinition
INPUTS = {{"n": Attribute("String", "A name.", default="d")}}
OUTPUTS = {{"o": "A value."}}
COMPONENT = ComponentDefinition(name="both", inputs={inputs}, outputs=OUTPUTS)
{constant}

def build(m):
    m.widget(m.inputs.get("n", "e"))
    m.output("o", "1")
"""


@pytest.mark.parametrize(
    ("constant", "message"),
    [
        ("RESOURCES = {}", "5:1: RESOURCES is not read; declare resources in build(m), with m.resource("),
        ("OUTPUTS = {'o': '1'}", "3:1: OUTPUTS is not read; declare outputs in build(m), with m.output("),
        ("DEFAULTS = {'Widget': {'size': 1}}", "5:1: DEFAULTS is not read; write it into the manifest that uses"),
        ("REMOVED = ['Widget[b]']", "5:1: REMOVED is not read; write it into the manifest that uses the component"),
        ("for MOVED in [1]: pass", "5:5: MOVED is not read"),
        ("", "2:1: INPUTS is not read; give it to COMPONENT as inputs, or give it another name"),
    ],
)
def test_a_constant_of_a_component_is_given_to_it_or_is_an_error(recorded: Bench, constant: str, message: str) -> None:
    """Nothing reads it otherwise, and nothing is touched."""
    arguments = "INPUTS" if constant else "{}"
    recorded.write("modules/components/both.py", _COMPONENT.format(inputs=arguments, constant=constant))
    result = recorded.apply("project: p\nresources: {'Both[x]': {}}", "--prune")
    assert (result.code, f"components/both.py:{message}" in result.err) == (65, True), result.err
    recorded.write("modules/components/both.py", _COMPONENT.format(inputs="INPUTS", constant=""))
    assert recorded.apply("project: p\nresources: {'Both[x]': {}}").code == 0
    assert sorted(recorded.things("widget")) == ["a", "b", "c", "d"]


def test_an_answer_of_a_function_takes_no_name_of_a_value(recorded: Bench) -> None:
    """``m.invoke`` names its answers itself, and ``VALUES`` may call one too."""
    recorded.write(
        "modules/types/adder.py",
        """
        from resource_api import Attribute, Function, TypeDefinition
        TYPE = TypeDefinition(
            name="adder", functions={"twice": Function(inputs={"n": Attribute("Integer")}, output="Integer")}
        )
        """,
    )
    recorded.write(
        "modules/providers/adder.py",
        """
        class Provider:
            def twice(self, context, n):
                return 2 * n
        """,
    )
    program = _program(
        recorded,
        "VALUES = {'twice-1': 7, 'twice-2': {'invoke': 'twice', 'with': {'n': 20}}}",
        "m.widget('a', size=m.invoke('twice', n=3)); [m.output(n, m.values[n]) for n in m.values] and None",
    )
    result = recorded.run("apply", program)
    assert (result.code, result.out.splitlines()[:2]) == (0, ["twice-1: 7", "twice-2: 40"]), result
    assert recorded.things("widget")["a"]["size"] == 6
