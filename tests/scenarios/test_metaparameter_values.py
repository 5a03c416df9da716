"""Metaparameters made from inputs, values, facts and the host: as if their values were written out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

SECTIONS = """
inputs:
  yes: {type: Boolean, default: true}
  no: {type: Boolean, default: false}
  seconds: {type: Integer, default: 5}
  word: {type: String, default: warning}
values:
  names: [colour, size]
  nothing: null
  level: {invoke: std.lower, with: {text: WARNING}}
"""
#: A metaparameter with expressions, and the same written out.
SAME = {
    "noop: '${inputs.yes}'": "noop: true",
    "noop: '${inputs.no}'": "noop: false",
    "noop: '${values.nothing}'": "",
    "loglevel: '${inputs.word}'": "loglevel: warning",
    "loglevel: '${values.level}'": "loglevel: warning",
    "timeout: '${inputs.seconds}'": "timeout: 5",
    "timeout: {create: '${inputs.seconds}', delete: 1}": "timeout: {create: 5, delete: 1}",
    "tag: 'r${inputs.seconds}'": "tag: r5",
    "tag: '${inputs.seconds}'": "tag: '5'",
    "tag: ['${inputs.word}', b]": "tag: [warning, b]",
    "tag: '${values.names}'": "tag: [colour, size]",
    "retry: {tries: '${inputs.seconds}'}": "retry: {tries: 5}",
    "lifecycle: {protect: '${inputs.yes}'}": "lifecycle: {protect: true}",
    "lifecycle: {retain: '${inputs.no}', owned: '${inputs.yes}'}": "lifecycle: {retain: false, owned: true}",
    "lifecycle: {protect: '${values.nothing}'}": "lifecycle: {protect: null}",
    "lifecycle: {ignore_changes: '${values.names}'}": "lifecycle: {ignore_changes: [colour, size]}",
    "lifecycle: {ignore_changes: ['${values.names[0]}']}": "lifecycle: {ignore_changes: [colour]}",
    "lifecycle: {replace_on_changes: ['${values.names[-1]}']}": "lifecycle: {replace_on_changes: [size]}",
    "lifecycle: {aliases: ['w-${inputs.seconds}']}": "lifecycle: {aliases: [w-5]}",
    "lifecycle: {deleted_with: 'Widget[${inputs.word}]'}": "lifecycle: {deleted_with: 'Widget[warning]'}",
}


def planned(bench: Bench, meta: str) -> list[str]:
    """Return the steps of a plan of a widget with a metaparameter, and of one without, as JSON."""
    body = f"{{colour: red, size: 3{', ' if meta else ''}{meta}}}"
    manifest = bench.write("site.yaml", f"{SECTIONS}\nresources:\n  Widget[warning]: {{}}\n  Widget[a]: {body}\n")
    plan = bench.run("plan", manifest, "--json")
    assert plan.code == 0, plan.err
    return [json.dumps(step, sort_keys=True) for step in plan.document["steps"]]


@pytest.mark.parametrize("meta", SAME)
def test_a_value_from_outside_is_as_if_written_out(bench: Bench, meta: str) -> None:
    """The plan of a metaparameter with expressions equals that of its value."""
    assert planned(bench, meta) == planned(bench, SAME[meta])


def test_an_input_decides_what_is_protected(bench: Bench) -> None:
    """``protect`` from an input is recorded, and fails the deletion."""
    manifest = bench.write(
        "site.yaml",
        """
        project: p
        inputs: {careful: {type: Boolean}}
        resources: {'Widget[a]': {ensure: present, lifecycle: {protect: "${inputs.careful}"}}}
        """,
    )
    state = ("--state", f"sqlite:{bench.home}/state.db")
    assert bench.run("apply", manifest, "-i", "careful=true", *state).code == 0
    refused = bench.run("destroy", manifest, "--yes", "-i", "careful=true", *state)
    assert (refused.code, "protect" in refused.err) == (1, True), refused.err


def test_a_metaparameter_of_a_python_manifest_takes_a_named_value(bench: Bench) -> None:
    """``noop=m.values.x`` is a reference, as in YAML."""
    text = """
        VALUES = {"careful": {"invoke": "std.contains", "with": {"in": ["a"], "item": "a"}}, "tags": ["x", "y"]}

        def manifest(m):
            m.widget("a", noop=m.values.careful, tag=m.values.tags, lifecycle={"protect": m.values.careful})
        """
    steps = []
    for written in (text, text.replace("m.values.careful", "True").replace("m.values.tags", '["x", "y"]')):
        plan = bench.run("plan", bench.write("site.py", written), "--json")
        assert plan.code == 0, plan.err
        steps.append(plan.document["steps"])
    assert steps[0] == steps[1]
    assert steps[0][0]["options"]["noop"] is True


@pytest.mark.parametrize("option", ["--parallel=1", "--parallel=4", "--isolate"])
@pytest.mark.parametrize("seconds", ["2592000", "1.0e+300", "{create: 1.0e+20}"])
def test_a_time_limit_of_any_length_is_accepted(bench: Bench, seconds: str, option: str) -> None:
    """A timer of the system that takes no longer one is no failure of the resource."""
    bench.probe("""
        echo = Command("echo")
        def set(self, context, changes):
            self.echo("made")
            self._done(changes)
        """)
    result = bench.apply(f"resources: {{'Probe[a]': {{timeout: {seconds}}}}}", option)
    assert (result.code, result.err) == (0, "Notice: Probe[a]: created\n"), result


def test_defaults_and_components_take_values_from_outside(bench: Bench) -> None:
    """A mistake in ``defaults`` is told once, at its place there."""
    manifest = bench.write(
        "site.yaml",
        """
        inputs: {yes: {type: Boolean, default: true}, word: {type: String, default: x}}
        defaults: {Widget: {noop: "${inputs.yes}"}}
        resources: {'Widget[a]': {}, 'Widget[b]': {noop: false}}
        """,
    )
    steps = bench.run("plan", manifest, "--json").document["steps"]
    assert [step["options"].get("noop", False) for step in steps] == [True, False]
    manifest.write_text(manifest.read_text().replace("${inputs.yes}", "${inputs.word}"))
    refused = bench.run("plan", manifest)
    assert refused.code == 65
    assert refused.err.count("noop must be true or false") == 1
    assert f"{manifest}:2:21: Widget[a]: noop must be true or false; ${{inputs.word}} is a text" in refused.err


def test_a_mistake_about_the_type_in_defaults_is_shown_once_at_its_line(bench: Bench) -> None:
    """It is found with the resources, all of which inherit it."""
    defaults = "defaults:\n  Widget:\n    lifecycle: {ignore_changes: [colur]}\n"
    manifest = bench.write("site.yaml", f"{defaults}resources: {{'Widget[a]': {{}}, 'Widget[b]': {{}}}}\n")
    refused = bench.run("plan", manifest)
    assert refused.err.count("unknown attribute 'colur'") == 1
    assert f"{manifest}:3:5: Widget[a]: lifecycle.ignore_changes: unknown attribute 'colur'" in refused.err, refused.err
