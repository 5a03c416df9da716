"""Outputs that differ from those that are recorded: shown, counted and recorded, in plan, noop and apply alike."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

STORE = "--state=sqlite:state.db"


def site(outputs: dict[str, Any], **resources: dict[str, Any]) -> str:
    """Return a manifest with these outputs and widgets."""
    return json.dumps({"resources": {f"Widget[{name}]": body for name, body in resources.items()}, "outputs": outputs})


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {"a": True}),
        ({"a": 1}, {}),
        ({}, {"a": "x"}),
        ({"a": {"x": 1, "y": 2}}, {"a": {"x": 1, "y": 3}}),
        ({"a": {"value": "s1", "sensitive": True}}, {"a": {"value": "s2", "sensitive": True}}),
    ],
)
def test_outputs_alone_are_a_change(bench: Bench, before: dict[str, Any], after: dict[str, Any]) -> None:
    """Plan, noop and apply say 2, count one, and the next plan finds nothing; state is one serial further."""
    assert bench.apply(site(before, w={}), STORE).code == 0
    bench.write("site.yaml", site(after, w={}))
    options = ("site.yaml", STORE, "--detailed-exitcodes")
    planned, noop = bench.run("plan", *options), bench.run("apply", "--noop", *options)
    assert (planned.code, noop.code) == (2, 2)
    assert planned.out.endswith("Plan: 1 output to change; 1 unchanged.\n")
    assert planned.out.startswith("Changes to outputs:\n    a")
    serial = bench.run("plan", *options, "--json").document["serial"]
    result = bench.run("apply", *options)
    assert (result.code, result.out.endswith(": 1 output changed, 1 unchanged.\n")) == (2, True)
    again = bench.run("plan", *options, "--json")
    assert (again.code, again.document["serial"], again.document["output_changes"]) == (0, serial + 1, {})


def test_the_document_has_both_values_and_what_is_unknown(bench: Bench) -> None:
    """None and what is not known yet are null in ``output_changes``, that in ``unknown``; secrets are masked."""
    secret = {"value": "hidden", "sensitive": True}
    bench.apply(site({"a": 1, "gone": "x"}), STORE)
    bench.write("site.yaml", site({"a": 2, "new": "${Widget[w].serial}", "s": secret}, w={}))
    document = bench.run("plan", "site.yaml", STORE, "--json").document
    assert document["unknown"] == ["new"]
    assert document["output_changes"] == {
        "a": {"is": 1, "should": 2},
        "new": {"is": None, "should": None},
        "s": {"is": None, "should": "<sensitive>"},
        "gone": {"is": "x", "should": None},
    }
    assert document["summary"]["outputs_changed"] == 4
    end = bench.run("apply", "site.yaml", STORE, "--json").events("summary")[0]
    assert (end["outputs_changed"], end["created"]) == (4, 1)


def test_the_counts_of_resources_come_first(bench: Bench) -> None:
    """Where resources change, the line of counts is about these; the outputs stand above it, the secret is masked."""
    secret = {"value": "hidden", "sensitive": True}
    planned = bench.run("plan", bench.write("site.yaml", site({"a": 1, "s": secret}, w={})), STORE)
    assert planned.out.endswith(
        "Changes to outputs:\n    a: (none) → 1\n    s: <sensitive>\n\nPlan: 1 to create; 0 unchanged.\n"
    )


def test_a_new_output_that_is_null_is_shown_as_null(bench: Bench) -> None:
    """Of both values there is none; a saved plan has the same line, and so has the plan that forgets the output."""
    bench.write("site.yaml", site({"n": None}, w={}))
    planned = bench.run("plan", "site.yaml", STORE, "-o", "plan.json")
    assert "Changes to outputs:\n    n: null\n" in planned.out
    assert bench.run("show", "plan.json").out == planned.out
    bench.run("apply", "plan.json", STORE)
    bench.write("site.yaml", site({}, w={}))
    assert "Changes to outputs:\n    n: null\n" in bench.run("plan", "site.yaml", STORE).out


def test_a_saved_plan_shows_its_outputs(bench: Bench) -> None:
    """``show`` prints what ``plan`` has printed; ``apply`` of it records them."""
    bench.write("site.yaml", site({"a": 1, "n": "${Widget[w].serial}"}, w={}))
    planned = bench.run("plan", "site.yaml", STORE, "-o", "plan.json")
    assert bench.run("show", "plan.json").out == planned.out
    bench.run("apply", "plan.json", STORE)
    assert bench.run("output", STORE, "--project", "site", "--json").document["a"] == 1


@pytest.mark.parametrize("case", ["failing", "target", "memory", "noop"])
def test_outputs_that_stay_are_not_said_to_change(bench: Bench, case: str) -> None:
    """A plan that fails, is partial, of which nothing is recorded, or whose value a noop resource would make."""
    bench.apply(site({"a": 1}, v={}), STORE)
    widget: dict[str, Any] = {"failing": {"image": "new"}, "noop": {"noop": True}}.get(case, {})
    if case == "failing":
        bench.put("widget", w={"name": "w", "image": "old"})
    options = {"target": ["--target", "Widget[v]"], "memory": ["--state=memory:"]}.get(case, [STORE])
    outputs = {"a": 1, "b": "${Widget[w].serial}"} if case == "noop" else {"a": 2}
    store = [] if case == "memory" else [STORE]
    planned = bench.run("plan", bench.write("site.yaml", site(outputs, v={}, w=widget)), *options, *store, "--json")
    assert planned.document["summary"]["outputs_changed"] == 0
    assert (planned.document["output_changes"] == {}) is (case != "noop")


def test_the_no_change_cache_does_not_hide_outputs(bench: Bench) -> None:
    """An output of an input that is given anew differs although every resource is as it was."""
    many = {f"w{number}": {} for number in range(30)}
    text = json.loads(site({"a": "${inputs.x}"}, **many)) | {"inputs": {"x": {"type": "String"}}}
    path = bench.write("site.json", json.dumps(text))
    for _ in range(3):
        bench.run("apply", path, STORE, "-i", "x=1")
    assert bench.run("apply", path, STORE, "-i", "x=2").out.endswith("1 output changed, 30 unchanged.\n")
    assert bench.run("output", "a", STORE, "--project", "site").out == "2\n"


def test_a_destruction_shows_that_outputs_go(bench: Bench) -> None:
    """The plan of the empty manifest has no outputs."""
    path = bench.write("site.yaml", site({"a": 1}, w={}))
    bench.run("apply", path, STORE)
    assert "Changes to outputs:\n    a: 1 → (none)\n" in bench.run("destroy", path, STORE, "--noop").out


def test_imperative_resources_run(bench: Bench) -> None:
    """They are counted as ``ran``, in words ``1 to run`` and ``1 run``, and not as updated; the sign stays ``~``."""
    path = bench.write("site.yaml", "resources: {'Errand[e]': {}, 'Widget[w]': {}}")
    planned = bench.run("plan", path)
    assert "~ Errand[e]" in planned.out
    assert planned.out.endswith("Plan: 1 to create, 1 to run; 0 unchanged.\n")
    assert bench.run("plan", path, "--json").document["summary"]["ran"] == 1
    end = bench.run("apply", path, "--json", "--noop").events("summary")[0]
    assert (end["ran"], end["updated"]) == (1, 0)
    assert ": 1 created, 1 run, 0 unchanged." in bench.run("apply", path).out
