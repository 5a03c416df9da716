"""Features for authors: Python manifests, provider-decided replacement and ``Command``."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

PYTHON = """
PROJECT = "py"
INPUTS = {"count": {"type": "Integer", "default": 2}}
DEFAULTS = {"Widget": {"colour": "red"}}


def manifest(m):
    first = m.widget("first", size=m.inputs["count"])
    for number in range(m.inputs["count"]):
        m.resource("widget", f"w{number}", {"colour": m.text("of {0}", first.serial)}, require=first)
    m.output("serial", first.serial)
"""


def test_a_python_manifest_makes_the_same_catalog(bench: Bench) -> None:
    """A Python manifest with loops, conditions and handles is applied, and an error names its Python line."""
    path = bench.write("site.py", PYTHON)
    result = bench.run("apply", path, "--json", "-i", "count=1")
    assert result.code == 0, result
    assert list(result.ends()) == ["Widget[first]", "Widget[w0]"]
    assert result.ends()["Widget[w0]"]["urn"] == "urn:resource:default::py::widget::w0"
    assert bench.things("widget")["w0"] == {"colour": "of S-first", "serial": "S-w0"}
    assert bench.things("widget")["first"] == {"colour": "red", "size": 1, "serial": "S-first"}
    assert result.events("outputs")[0]["outputs"] == {"serial": "S-first"}
    wrong = bench.run("apply", bench.write("wrong.py", PYTHON.replace("size=", "sise=")))
    assert wrong.code == 65
    assert "wrong.py:7" in wrong.err
    assert "did you mean 'size'?" in wrong.err


def test_a_python_manifest_that_raises_is_refused_with_its_line(bench: Bench) -> None:
    """The run exits 65 with the line and the message, and no provider is called."""
    path = bench.write("site.py", "def manifest(m):\n    m.widget('a')\n    raise RuntimeError('no idea today')\n")
    result = bench.run("apply", path)
    assert result.code == 65
    assert "site.py:3" in result.err
    assert "no idea today" in result.err
    assert bench.calls("widget") == []


MAPPINGS = """
INPUTS = {
    "items": {"type": "Array[String]", "default": ["x", "y"]},
    "get": {"type": "String", "default": "g"},
    "ports": {"type": "Hash[String, Integer]", "default": {"items": 7, "http": 80}},
    "users": {"type": "Array[Hash[String, String]]", "default": [{"name": "u"}]},
}


def manifest(m):
    m.output("value", VALUE)
"""


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("m.inputs.items", ["x", "y"]),
        ("m.text('{0}', m.inputs.get)", "g"),
        ("m.inputs", {"items": ["x", "y"], "get": "g", "ports": {"items": 7, "http": 80}, "users": [{"name": "u"}]}),
        ("sorted(m.inputs.ports.items())", [["http", 80], ["items", 7]]),
        ("m.text('{0} {1} {2}', True, 7, 1.5)", "true 7 1.5"),
        ("m.inputs['ports'].http", 80),
        ("m.inputs.ports['items']", 7),
        ("[each.name for each in m.inputs.users]", ["u"]),
        ("sorted(m.inputs.keys())", ["get", "items", "ports", "users"]),
        ("m.facts.get('kernel') == m.facts.kernel == m.facts['kernel']", True),
        ("['kernel' in m.facts, 'nosuch' in m.facts, m.facts.get('nosuch', 3)]", [True, False, 3]),
        ("[name for name in m.facts if name == 'os'] + [len(m.facts) == len(dict(m.facts))]", ["os", True]),
    ],
)
def test_inputs_and_facts_are_mappings_and_attributes(bench: Bench, value: str, expected: object) -> None:
    """An input goes before the method of mappings that has its name; in a value that is a mapping, the method does."""
    result = bench.run("plan", bench.write("site.py", MAPPINGS.replace("VALUE", value)), "--json")
    assert (result.code, result.document["outputs"]) == (0, {"value": expected}), result.err


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("m.inputs.ports.items", "'.items' is a method of mappings; write ['items'] for the value under that key"),
        ("m.text('{0}', m.inputs.ports.items)", "'.items' is a method of mappings; write ['items'] for the value"),
        ("m.text('{0}', m.inputs.users)", "{0} is a list and cannot be part of a text"),
        ("m.text('{0}', None)", "{0} is nothing and cannot be part of a text"),
        ("m.text('{name}', 1)", "m.text takes {0}, {1}, ... only, not {name}"),
        ("(many := [], many.append(many))[0]", "a value is nested deeper than 100"),
        ("m.text('{0}', print)", "a manifest cannot hold a value of the type builtin_function_or_method"),
        ("m.inputs['nosuch']", "there is no input 'nosuch'; declared are get, items, ports, users"),
        ("m.facts['nosuch']", "there is no fact 'nosuch'; there is identity, "),
        ("m.facts.nosuch", "there is no fact 'nosuch'; there is identity, "),
    ],
)
def test_what_is_no_value_of_a_mapping_is_refused_with_its_line(bench: Bench, value: str, message: str) -> None:
    """A method would be a text such as ``<built-in method ...>``."""
    result = bench.run("plan", bench.write("site.py", MAPPINGS.replace("VALUE", value)))
    assert (result.code, result.out) == (65, "")
    assert "site.py:10:" in result.err
    assert message in result.err


PLANNING = """
def plan(self, context, name, is_, should):
    return Planned(replace=["size"] if is_ and is_["size"] != should["size"] else [])
def set(self, context, changes):
    for name, (is_, should) in changes.items():
        rows = self._rows()
        rows.pop(name, None)
        if should["ensure"] == "present":
            rows[name] = dict(should)
        self._file().write_text(json.dumps(rows))
"""


def test_a_provider_may_require_a_replacement(bench: Bench) -> None:
    """The ``plan`` of a provider turns an update into a replacement, and ``replace: never`` makes that an error."""
    bench.probe(PLANNING, features=("plan",))
    bench.put("probe", a={"name": "a", "ensure": "present", "size": 1})
    result = bench.stream("resources: {'Probe[a]': {size: 2}}")
    assert result.code == 0, result
    assert result.ends()["Probe[a]"]["action"] == "replace"
    never = bench.apply("resources: {'Probe[a]': {size: 3, lifecycle: {replace: never}}}")
    assert never.code == 1
    assert bench.things("probe")["a"]["size"] == 2


def test_a_write_only_attribute_is_set_at_creation(bench: Bench) -> None:
    """A parameter that ``get`` does not return is passed to ``set``, and its absence in ``get`` is no failure."""
    result = bench.stream("resources: {'Account[a]': {pin: '1234', password: hunter22}}")
    assert result.code == 0
    assert bench.calls("account", "set")[0]["pin"] == "Sensitive"


def test_a_command_that_is_missing_fails_its_resources(bench: Bench) -> None:
    """The error names the missing program; an exit code that is not 0 fails its own resource with that code."""
    bench.probe(
        """
        gone = Command("ra-no-such-program")
        false = Command("/bin/false")
        def set(self, context, changes):
            for name in changes:
                with context.creating(name):
                    (self.gone if name == "a" else self.false)("x")
        """
    )
    result = bench.stream("resources: {'Probe[a]': {}, 'Probe[b]': {}, 'Widget[w]': {}}", "--detailed-exitcodes")
    assert result.code == 6
    assert "ra-no-such-program" in result.ends()["Probe[a]"]["error"]
    assert "/bin/false" in result.ends()["Probe[b]"]["error"]
    assert "1" in result.ends()["Probe[b]"]["error"]


def test_a_secret_is_refused_as_an_argument_of_a_command(bench: Bench) -> None:
    """A sensitive argument raises an error, and the same value is accepted as ``input``."""
    bench.probe(
        """
        echo = Command("/bin/echo")
        cat = Command("/bin/cat")
        def set(self, context, changes):
            secret = Sensitive("hunter2abc")
            with context.creating("a"):
                context.notice(str(len(self.cat(input=secret).stdout)))
                self.echo(secret)
        """
    )
    result = bench.apply("resources: {'Probe[a]': {}}", "-d")
    assert result.code == 1
    assert "Notice: Probe[a]: Creating: 10" in result.lines
    assert "Error: Probe[a]: Creating failed: " in result.err


def test_a_secret_that_was_passed_to_a_command_is_masked_in_logs(bench: Bench) -> None:
    """The debug log of a command does not contain a secret that the provider passed as ``input``."""
    bench.probe(
        """
        cat = Command("/bin/cat")
        def set(self, context, changes):
            self.cat(input=Sensitive("hunter2abc"))
            self._done(changes)
        """
    )
    result = bench.apply("resources: {'Probe[a]': {}}", "-d")
    assert result.code == 0
    assert "hunter2abc" not in result.err + result.out


UNREAD = [
    'with context.creating("a"):\n    self.sh.lines("-c", "true")',
    'self.sh.lines("-c", "true")',
    'found = self.sh.lines("-c", "true")',
    'found = zip([], self.sh.lines("-c", "true"))',
]


@pytest.mark.parametrize("isolated", ["", "1"])
@pytest.mark.parametrize("body", UNREAD)
def test_lines_that_nobody_iterates_are_an_error(bench: Bench, body: str, isolated: str) -> None:
    """The program was not run: the resource fails, and the message names the program and the line."""
    bench.probe('sh = Command("/bin/sh")\ndef set(self, context, changes):\n' + textwrap.indent(body, "    "))
    manifest = bench.write("site.yaml", "resources: {'Probe[a]': {}}")
    result = bench.run("apply", manifest, RESOURCE_API_ISOLATE=isolated)
    assert result.code == 1, result
    written = (bench.modules / "providers" / "probe.py").read_text(encoding="utf-8").splitlines()
    number = next(number for number, text in enumerate(written, 1) if ".lines(" in text)
    reason = "'/bin/sh -c true' was not run: nothing iterates over what lines() returned"
    assert f"{reason} (providers/probe.py:{number} in set)" in result.err, result.err


def test_lines_that_an_exception_abandons_hide_nothing(bench: Bench) -> None:
    """The reason is the exception, and the other resources of the call are not concerned."""
    bench.probe(
        """
        sh = Command("/bin/sh")
        def set(self, context, changes):
            for name in changes:
                with context.creating(name):
                    self._create(name, changes)
        def _create(self, name, changes):
            lines = self.sh.lines("-c", "echo x")
            if name == "a":
                raise ValueError("no luck today")
            self._done({name: changes[name] for _ in lines})
        """
    )
    result = bench.apply("resources: {'Probe[a]': {}, 'Probe[b]': {}}")
    assert result.code == 1
    assert "no luck today" in result.err
    assert "lines()" not in result.err
    assert "1 created, 0 unchanged, 1 failed" in result.out, result


def test_output_of_a_command_is_logged(bench: Bench) -> None:
    """Stdout is logged at debug and stderr at warning, both with the reference of the resource."""
    bench.probe(
        """
        sh = Command("/bin/sh")
        def set(self, context, changes):
            with context.creating("a"):
                self.sh("-c", "echo out; echo err >&2")
                context.notice("/".join(self.sh.lines("-c", "echo x; echo y")))
                context.notice(str(self.sh.attempt("-c", "exit 3").exit_code))
            self._done(changes)
        """
    )
    result = bench.apply("resources: {'Probe[a]': {}}", "-d")
    assert result.code == 0, result
    assert any(line.startswith("Debug: Probe[a]: ") and line.endswith("out") for line in result.lines)
    assert any(line.startswith("Warning: Probe[a]: ") and line.endswith("err") for line in result.lines)
    assert "Notice: Probe[a]: Creating: x/y" in result.lines
    assert "Notice: Probe[a]: Creating: 3" in result.lines
