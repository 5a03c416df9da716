"""``refresh`` records everything that it reads, and outputs that are made of it; under noop it shows the attributes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

STORE = ("--state=sqlite:state.db",)
SITE = """
resources:
  Widget[a]: {size: 1, labels: {x: 1, y: 2}}
  Widget[b]: {}
outputs:
  serial: ${Widget[a].serial}
  text: "number ${Widget[a].serial}"
  size: ${Widget[a].size}
  other: ${Widget[b].serial}
  fixed: same
"""


def put(bench: Bench, **changes: Any) -> None:
    """Change the attributes of the widget ``a`` behind our back."""
    bench.put("widget", a={**bench.things("widget")["a"], **changes})


@pytest.fixture
def site(bench: Bench) -> Bench:
    """Apply the manifest, and give the widget another number."""
    assert bench.apply(SITE, *STORE).code == 0
    put(bench, serial="S-2")
    return bench


def outputs(bench: Bench) -> Any:
    """Return the recorded outputs."""
    return bench.run("output", *STORE, "--project", "site", "--json").document


def test_a_value_that_can_only_be_read_is_recorded_with_its_outputs(site: Bench) -> None:
    """It counts as refreshed and is no drift; outputs that are made of it follow, others stay."""
    before = outputs(site)
    result = site.run("refresh", "site.yaml", *STORE, "--detailed-exitcodes", "--json")
    assert (result.code, result.document["refreshed"]) == (2, ["Widget[a]"])
    assert outputs(site) == {**before, "serial": "S-2", "text": "number S-2"}
    output = site.run("state", "show", "Widget[a]", *STORE, "--project", "site")
    assert "S-2" in output.out
    assert site.run("plan", "site.yaml", *STORE, "--detailed-exitcodes").code == 0
    again = site.run("refresh", "site.yaml", *STORE, "--detailed-exitcodes")
    assert (again.code, again.out) == (0, "0 refreshed.\n")


def test_noop_shows_attributes_as_a_plan_does(site: Bench) -> None:
    """With both values, parts on lines of their own, and the outputs; nothing is written."""
    put(site, size=5, labels={"x": 1, "y": 3})
    before = outputs(site)
    output = site.run("refresh", "site.yaml", *STORE, "--noop")
    assert output.out.splitlines() == [
        "<= Widget[a]",
        "        size: 1 → 5",
        "    labels.y: 2 → 3",
        "      serial: S-a → S-2",
        "Changes to outputs:",
        "    serial: S-a → S-2",
        "      text: number S-a → number S-2",
        "1 refreshed. (noop)",
    ]
    document = site.run("refresh", "site.yaml", *STORE, "--noop", "--json").document
    assert document["changes"][0]["changes"][-1] == {"attribute": "serial", "was": "S-a", "is": "S-2"}
    assert document["output_changes"]["text"] == {"is": "number S-a", "should": "number S-2"}
    assert outputs(site) == before


@pytest.mark.parametrize(("options", "code"), [([], 0), (["--detailed-exitcodes"], 2)])
def test_the_document_has_the_exit_code_of_the_command(site: Bench, options: list[str], code: int) -> None:
    """As the documents of other commands have it."""
    result = site.run("refresh", "site.yaml", *STORE, "--noop", "--json", *options)
    assert (result.code, result.document["exit_code"]) == (code, code)


@pytest.mark.parametrize("options", [["--target", "Widget[a]"], ["--exclude", "Widget[b]"]])
def test_outputs_stay_where_not_all_is_read(site: Bench, options: list[str]) -> None:
    """As those of a run with targets; the data that was read is recorded."""
    before = outputs(site)
    assert site.run("refresh", "site.yaml", *STORE, *options).out == "<= Widget[a]\n1 refreshed.\n"
    assert outputs(site) == before


def test_a_refresh_of_only_read_values_is_no_drift(site: Bench) -> None:
    """Its report counts one refreshed resource and none that has drifted."""
    site.run("refresh", "site.yaml", *STORE, "--report", "report.json")
    document = json.loads((site.home / "report.json").read_text())
    assert (document["summary"]["refreshed"], document["summary"]["outputs_changed"]) == (1, 2)
    assert (document["drift"], document["drifted"]) == ([], 0)


def test_what_is_gone_leaves_its_outputs(site: Bench) -> None:
    """Its record says that it does not exist, and the output has no other value yet."""
    (site.things_of / "widget.json").write_text(json.dumps({"b": site.things("widget")["b"]}))
    before = outputs(site)
    output = site.run("refresh", "site.yaml", *STORE, "--noop")
    assert output.out == "<= Widget[a]\n    ensure: present → absent\n1 refreshed. (noop)\n"
    site.run("refresh", "site.yaml", *STORE)
    assert outputs(site) == before


CALLS = """
resources:
  Widget[a]: {}
  Widget[b]: {}
values:
  loud: {invoke: voice.shout, with: {text: "${Widget[a].serial}"}}
  other: {invoke: voice.shout, with: {text: "${Widget[b].serial}"}}
outputs:
  loud: ${values.loud}
  first: ${values.loud[0]}
  other: ${values.other}
"""


@pytest.fixture
def calls(bench: Bench) -> Bench:
    """Apply a manifest whose outputs are results of functions, and give one widget another number."""
    bench.write(
        "modules/types/voice.py",
        """
        from resource_api import Attribute, Function, TypeDefinition

        TYPE = TypeDefinition(
            name="voice",
            functions={"shout": Function(inputs={"text": Attribute("String")}, output="Array[String]")},
        )
        """,
    )
    bench.write(
        "modules/providers/voice.py",
        """
        import os
        from pathlib import Path

        class Provider:
            def shout(self, context, text):
                with Path(os.environ["HOME"], "asked").open("a") as file:
                    print(text, file=file)
                if text == "S-broken":
                    raise RuntimeError("no voice today")
                return [text.lower()]
        """,
    )
    assert bench.apply(CALLS, *STORE).code == 0
    (bench.home / "asked").unlink()
    put(bench, serial="S-2")
    return bench


def test_a_function_is_called_again_for_the_outputs_that_follow(calls: Bench) -> None:
    """In each refresh once, with what was read; the function of an output that does not follow is not called."""
    before = outputs(calls)
    output = calls.run("refresh", "site.yaml", *STORE, "--noop")
    assert output.out.splitlines()[-4:-1] == ["Changes to outputs:", "      first: s-a → s-2", "    loud[0]: s-a → s-2"]
    assert outputs(calls) == before
    assert calls.run("refresh", "site.yaml", *STORE).code == 0
    assert outputs(calls) == {**before, "loud": ["s-2"], "first": "s-2"}
    assert (calls.home / "asked").read_text() == "S-2\nS-2\n"
    assert calls.run("plan", "site.yaml", *STORE, "--detailed-exitcodes").code == 0


def test_a_function_that_fails_fails_the_refresh_and_leaves_the_outputs(calls: Bench) -> None:
    """As in a run: an error with file and line, exit code 1; the data that was read is recorded."""
    put(calls, serial="S-broken")
    before = outputs(calls)
    result = calls.run("refresh", "site.yaml", *STORE)
    assert result.code == 1
    assert "output 'loud': function voice.shout failed: no voice today (providers/voice.py:" in result.err
    assert "site.yaml:9" in result.err
    assert outputs(calls) == before
    assert "S-broken" in calls.run("state", "show", "Widget[a]", *STORE, "--project", "site").out
