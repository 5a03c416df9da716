"""The environment: inputs of manifests, and the variables of options."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

_SITE = """
    inputs:
      size: {type: Integer, default: 1}
    resources:
      Widget[a]: {size: "${inputs.size}"}
    outputs:
      size: ${inputs.size}
"""


@pytest.mark.parametrize(
    ("variable", "options", "size"),
    [
        ("", (), 1),
        ("", ("--stack", "test"), 6),
        ("2", ("--stack", "test"), 2),
        ("2", (), 2),
        ("2", ("--inputs", "three.yaml"), 3),
        ("2", ("--inputs", "three.yaml", "--inputs", "four.yaml"), 4),
        ("2", ("-i", "size=5", "--inputs", "three.yaml"), 5),
    ],
)
def test_the_later_source_of_an_input_wins(bench: Bench, variable: str, options: tuple[str, ...], size: int) -> None:
    """In the order default, the stack's file, environment, files of inputs, command line."""
    bench.write("stacks/test.yaml", "size: 6\n")
    bench.write("three.yaml", "size: 3\n")
    bench.write("four.yaml", "size: 4\n")
    bench.write("site.yaml", _SITE)
    result = bench.run("apply", "site.yaml", *options, RESOURCE_API_INPUT_size=variable)
    assert (result.code, result.out.splitlines()[0]) == (0, f"size: {size}"), result.err


def test_a_wrong_input_of_a_stack_is_reported_in_its_file(bench: Bench) -> None:
    """With its line and the nearest name; what the environment replaces is not sought there."""
    bench.write("site.yaml", _SITE)
    bench.write("stacks/test.yaml", "# of one stack\nsice: 6\n")
    wrong = bench.run("validate", "site.yaml", "--stack", "test")
    assert (wrong.code, wrong.lines) == (65, ["stacks/test.yaml:2:1: unknown input 'sice'; did you mean 'size'?"])
    bench.write("stacks/test.yaml", "size: 6\n")
    assert "site.yaml:2" in bench.run("plan", "site.yaml", "--stack", "test", RESOURCE_API_INPUT_size="x").err


def test_each_input_is_shown_with_its_place(bench: Bench) -> None:
    """``inputs show`` masks secrets, needs no input, and refuses what a run refuses."""
    bench.write(
        "site.yaml",
        """
        inputs:
          size: {type: Integer, default: 1, docs: How large.}
          colour: {type: String}
          code: {type: String, sensitive: true}
          name: {type: String}
          kind: {type: String, default: x}
        resources: {}
        """,
    )
    bench.write("stacks/test.yaml", "colour: red\nname: a\n")
    bench.write("code", "sesame-4711")
    arguments = ("site.yaml", "--stack", "test", "-i", "code=@code")
    output = bench.run("inputs", "show", *arguments, RESOURCE_API_INPUT_kind="y")
    assert output.out.splitlines() == [
        "size: 1            site.yaml:2 (default)",
        "colour: red        stacks/test.yaml:1",
        "code: <sensitive>  -i code",
        "name: a            stacks/test.yaml:2",
        "kind: y            RESOURCE_API_INPUT_kind",
    ]
    assert "sesame" not in output.out
    (first, second, *_) = bench.run("inputs", "show", "site.yaml", "--json").document
    assert first == {
        "name": "size",
        "type": "Integer",
        "value": 1,
        "place": "site.yaml:2 (default)",
        "docs": "How large.",
    }
    assert (second["value"], second["place"]) == (None, None)
    assert "colour: (not given)" in bench.run("inputs", "show", "site.yaml").out
    assert bench.run("inputs", "show", "site.yaml", "-i", "size=many").code == 65


@pytest.mark.parametrize("content", ["input: {size: {default: 1}}", "format_version: 1\nproject: p"])
def test_the_inputs_of_no_manifest_are_not_shown_as_none(bench: Bench, content: str) -> None:
    """A misspelt section and a saved plan are refused as by a run."""
    bench.write("site.yaml", content)
    shown, validated = bench.run("inputs", "site.yaml"), bench.run("validate", "site.yaml")
    assert (shown.code, shown.out, shown.err) == (65, "", validated.err)


def test_an_input_of_the_environment_is_checked_and_one_that_is_not_declared_ignored(bench: Bench) -> None:
    """The text becomes the declared data type or is refused with the line of the declaration."""
    bench.write("site.yaml", _SITE)
    assert bench.run("validate", "site.yaml", RESOURCE_API_INPUT_other="x").code == 0
    wrong = bench.run("validate", "site.yaml", RESOURCE_API_INPUT_size="many")
    assert wrong.code == 65
    assert "site.yaml:2" in wrong.err
    assert "input 'size': must be an integer, not 'many'; it is the value of RESOURCE_API_INPUT_size\n" in wrong.err


def test_a_secret_may_come_from_the_environment_and_never_from_the_command_line(bench: Bench) -> None:
    """It is masked like every other."""
    site = bench.write(
        "site.yaml",
        """
        inputs: {password: {type: "Sensitive[String]"}}
        resources: {}
        outputs: {password: "${inputs.password}"}
        """,
    )
    arguments = bench.run("apply", site, RESOURCE_API_INPUT_password="hunter2 hunter2")
    assert (arguments.code, arguments.out.splitlines()[0]) == (0, "password: <sensitive>")
    for command in (["apply"], ["destroy", "--yes"], ["plan", "--destroy"], ["refresh"], ["graph"]):
        assert bench.run(*command, site, "-i", "password=hunter2 hunter2").code == 64, command


@pytest.mark.parametrize(
    ("variable", "value", "refused"),
    [("PARALLEL", "0", "--parallel"), ("STRICT", "never", "--strict"), ("LOCK_TIMEOUT", "-1", "--lock-timeout")],
)
def test_a_wrong_variable_of_an_option_is_wrong_usage(bench: Bench, variable: str, value: str, refused: str) -> None:
    """It names the variable as well as the option."""
    bench.write("site.yaml", "resources: {}\n")
    result = bench.run("apply", "site.yaml", **{f"RESOURCE_API_{variable}": value})
    assert result.code == 64
    assert refused in result.err
    assert f"RESOURCE_API_{variable}" in result.err


def test_the_command_line_replaces_the_environment(bench: Bench) -> None:
    """An option is taken from its variable unless it is given."""
    bench.write("site.yaml", "resources: {'Widget[a]': {}}\n")
    result = bench.run("apply", "site.yaml", RESOURCE_API_LOG_FORMAT="json")
    assert '"Widget[a]"' in result.err
    bench.write("site.yaml", "resources: {'Widget[b]': {}}\n")
    result = bench.run("apply", "site.yaml", "--log-format", "console", RESOURCE_API_LOG_FORMAT="json")
    assert result.err.startswith("Notice: Widget[b]: ")
    assert "\x1b[" in bench.run("apply", "site.yaml", "--noop", RESOURCE_API_COLOR="always").out
