"""The lifecycle through the command: processes, a private state, exit codes, lines and documents."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.scenarios.conftest import Bench

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.process

A = "project: p\nresources:\n  Widget[a]: {size: 1}\n"
AB = "project: p\nresources:\n  Widget[a]: {size: 1}\n  Widget[b]: {size: 2, require: 'Widget[a]'}\n"
EMPTY = "project: p\nresources: {}\n"


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Return the command with a state of its own."""
    bench = Bench(tmp_path)
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{tmp_path}/state.db"
    monkeypatch.setenv("BENCH", str(bench.things_of))
    return bench


def test_the_exit_codes_of_a_life_cycle(shell: Bench) -> None:
    """Created, unchanged, drift corrected, failed beside a change, destroyed, nothing left."""
    detailed = "--detailed-exitcodes"
    assert shell.plan(A, detailed).code == 2
    assert shell.apply(A, detailed).code == 2
    assert shell.apply(A, detailed).code == 0
    assert shell.plan(A, detailed).code == 0
    shell.put("widget", a={"size": 9})
    assert shell.apply(A, "--noop", detailed).code == 2
    assert shell.apply(A, detailed).code == 2
    broken = A + "  Widget[bad]: {size: 1}\n"
    assert shell.apply(broken, detailed).code == 4
    assert shell.apply(broken + "  Widget[c]: {size: 1}\n", detailed).code == 6
    site = shell.write("site.yaml", A)
    assert shell.run("destroy", site).code == 64
    assert shell.run("destroy", site, "--yes", detailed).code == 2
    assert shell.run("destroy", site, "--yes", detailed).code == 0
    assert shell.things("widget") == {}


def test_a_saved_plan_is_applied_once(shell: Bench) -> None:
    """The second time it is stale: exit code 65."""
    site = shell.write("site.yaml", A)
    assert shell.run("plan", site, "-o", "plan.json").code == 0
    assert shell.run("apply", "plan.json").code == 0
    again = shell.run("apply", "plan.json")
    assert again.code == 65
    assert "stale" in again.err


@pytest.mark.parametrize("name", ["plan.json", "plan.out", "plan.yaml", "plan"])
def test_a_saved_plan_is_recognized_by_its_content(shell: Bench, name: str) -> None:
    """``apply`` accepts it under any name; commands that need a manifest report it in one line."""
    site = shell.write("site.yaml", A)
    assert shell.run("plan", site, "-o", name).code == 0
    for command in ("plan", "validate", "destroy"):
        result = shell.run(command, name, *(["--yes"] if command == "destroy" else []))
        assert (result.code, result.out, len(result.lines)) == (
            65 if "." in name and name != "plan.out" else 64,
            "",
            1,
        ), result
        assert "saved plan" in result.err
        assert "apply" in result.err
    assert shell.run("apply", name).code == 0
    assert list(shell.things("widget")) == ["a"]


def test_what_only_looks_like_a_plan_is_read_as_a_manifest(shell: Bench) -> None:
    """For example a manifest that begins with a brace or contains the word; a pipe does not block."""
    shell.write("flow.yaml", '{project: p, resources: {"Widget[a]": {colour: \'"format_version"\'}}}\n')
    shell.write("site.json", json.dumps({"resources": {"Widget[b]": {"colour": '"format_version"'}}}))
    for name in ("flow.yaml", "site.json"):
        assert shell.run("apply", name).code == 0
    os.mkfifo(shell.home / "pipe.yaml")
    result = shell.run("apply", "pipe.yaml")
    assert (result.code, "it is not a regular file" in result.err) == (65, True)


@pytest.mark.parametrize("text", ["site.yaml", "./site.yaml", "link.yaml", "more.yaml", "inputs.yaml"])
def test_a_plan_does_not_overwrite_its_sources(shell: Bench, text: str) -> None:
    """Neither the manifest nor an included file nor a file of inputs, under any name: exit code 64."""
    site = shell.write("site.yaml", "include: [more.yaml]\ninputs: {n: {type: Integer}}\n" + A)
    shell.write("more.yaml", "resources: {'Widget[b]': {}}\n")
    shell.write("inputs.yaml", "n: 1\n")
    (shell.home / "link.yaml").symlink_to(site)
    before = (shell.home / text).read_text(encoding="utf-8")
    result = shell.run("plan", "site.yaml", "--inputs", "inputs.yaml", "-o", text)
    assert (result.code, result.out) == (64, "")
    assert "would overwrite" in result.err
    assert (shell.home / text).read_text(encoding="utf-8") == before


def test_planning_writes_only_its_file(shell: Bench) -> None:
    """There is no state before the first run."""
    assert shell.plan(A).code == 0
    assert not list(shell.home.glob("state.db*"))


def test_a_plan_shows_deletions_and_drift(shell: Bench) -> None:
    """One line per step, the reason, and the counts."""
    shell.apply(AB)
    shell.put("widget", a={"size": 7})
    out = shell.plan(A, "--prune").out
    assert "~ Widget[a] (drift)\n    size: 7 → 1\n" in out
    assert "- Widget[b]" in out
    assert "has drifted" not in out
    assert "Plan: 1 to update, 1 to delete; 0 unchanged." in out


def test_a_replacement_is_shown_with_its_reason(shell: Bench) -> None:
    """``-/+`` and the attribute that requires it."""
    site = "project: p\nresources:\n  Widget[a]: {image: IMAGE, lifecycle: {replace: delete_first}}\n"
    shell.apply(site.replace("IMAGE", "oak"))
    out = shell.plan(site.replace("IMAGE", "elm")).out
    assert "-/+ Widget[a]" in out
    assert "image: oak → elm" in out
    assert "1 to replace" in out


def test_the_stream_contains_drift_and_corrective_changes(shell: Bench) -> None:
    """Each field is as documented."""
    shell.apply(A)
    shell.put("widget", a={"size": 9, "serial": "S-a"})
    result = shell.stream(A)
    (drift,) = result.events("resource_drift")
    assert drift["reference"] == "Widget[a]"
    assert drift["changes"] == [{"attribute": "size", "was": 1, "is": 9}]
    (end,) = result.events("step_end")
    assert {key: end[key] for key in ("reference", "urn", "action", "status", "corrective", "error")} == {
        "reference": "Widget[a]",
        "urn": "urn:resource:default::p::widget::a",
        "action": "update",
        "status": "success",
        "corrective": True,
        "error": None,
    }
    summary = result.events()[-1]
    assert (summary["type"], summary["updated"], summary["exit_code"], summary["noop"]) == ("summary", 1, 0, False)


def test_an_orphan_is_reported_and_pruned_on_request(shell: Bench) -> None:
    """Without ``--prune`` it is no change."""
    shell.apply(AB)
    remaining = shell.apply(A, "--detailed-exitcodes")
    assert remaining.code == 0
    assert any(line.startswith("Notice: Widget[b]: is recorded but no longer declared") for line in remaining.lines)
    pruned = shell.apply(A, "--prune", "--detailed-exitcodes")
    assert pruned.code == 2
    assert list(shell.things("widget")) == ["a"]


def test_plan_and_apply_report_orphans_alike(shell: Bench) -> None:
    """On stderr, once for each, in every form of output; it is no change, and other commands report nothing."""
    shell.apply(AB)
    lines = [line for line in shell.apply(A, "--noop").lines if "no longer declared" in line]
    assert lines == ["Notice: Widget[b]: is recorded but no longer declared; --prune deletes it"]
    for options in ([], ["--json"], ["-o", "plan.json"]):
        planned = shell.plan(A, "--detailed-exitcodes", *options)
        assert (planned.code, planned.lines) == (0, lines)
    assert shell.run("apply", "plan.json").lines == lines
    assert shell.plan(A, "--prune").err == ""
    for command in ("validate", "graph", "refresh"):
        assert shell.run(command, "site.yaml").err == ""


def test_a_stack_does_not_prune_another(shell: Bench) -> None:
    """Resources of one stack are not orphans of another."""
    shell.apply(A, "--stack", "one")
    assert shell.apply(EMPTY, "--stack", "two", "--prune", "--detailed-exitcodes").code == 0
    assert list(shell.things("widget")) == ["a"]
    assert shell.apply(EMPTY, "--stack", "one", "--prune", "--detailed-exitcodes").code == 2


def test_a_project_that_is_only_a_file_name_is_not_pruned_from_another_file(shell: Bench) -> None:
    """It may be another user's."""
    text = A.removeprefix("project: p\n")
    assert shell.run("apply", shell.write("one/site.yaml", text)).code == 0
    second = shell.write("two/site.yaml", "resources: {}\n")
    refused = shell.run("apply", second, "--prune")
    assert refused.code == 64
    assert "project:" in refused.err
    assert shell.run("destroy", second, "--yes").code == 64
    assert list(shell.things("widget")) == ["a"]


def test_destroy_deletes_imported_and_keeps_adopted_resources(shell: Bench) -> None:
    """Importing makes a resource ours."""
    shell.put("widget", a={"size": 1}, b={"size": 2})
    site = shell.write("site.yaml", AB)
    assert shell.run("import", site, "Widget[a]").code == 0
    assert shell.run("apply", site).code == 0
    assert shell.run("destroy", site, "--yes").code == 0
    assert list(shell.things("widget")) == ["b"]


def test_taint_replaces_once(shell: Bench) -> None:
    """By the command ``state taint``, and not after ``untaint``."""
    shell.apply(A)
    assert shell.run("state", "taint", "Widget[a]").code == 0
    assert "-/+ Widget[a]" in shell.plan(A).out
    assert shell.run("state", "untaint", "Widget[a]").code == 0
    assert shell.plan(A, "--detailed-exitcodes").code == 0


def test_a_moved_record_is_found_under_its_new_name(shell: Bench) -> None:
    """``state mv`` renames, ``state rm`` forgets; an existing resource is found again, and is then not ours."""
    shell.apply(A)
    assert shell.run("state", "rm", "Widget[a]").code == 0
    assert shell.run("state", "list").out == ""
    assert shell.apply(A, "--detailed-exitcodes").code == 0
    site = shell.write("site.yaml", A)
    shell.run("destroy", site, "--yes")
    assert list(shell.things("widget")) == ["a"]


def test_the_export_contains_origin_and_ownership(shell: Bench) -> None:
    """Each resource with its values, its dependencies, and whether it is ours."""
    shell.apply(AB)
    document: dict[str, Any] = json.loads(shell.run("state", "export").out)
    resources = {resource["reference"]: resource for resource in document["resources"]}
    assert {"lineage", "serial", "resources", "outputs"} <= document.keys()
    assert {"reference", "urn", "type", "name", "is", "should", "owned"} <= resources["Widget[b]"].keys()
    assert resources["Widget[b]"]["owned"] is True


def test_a_failed_run_keeps_the_outputs(shell: Bench) -> None:
    """Those of the last complete run stay."""
    outputs = "outputs: {number: '${Widget[a].serial}'}\n"
    shell.apply(A + outputs)
    assert shell.run("output", "number").out.strip() == "S-a"
    shell.apply(A + "  Widget[bad]: {size: 1}\n" + "outputs: {number: other}\n")
    assert shell.run("output", "number").out.strip() == "S-a"
    assert shell.run("output", "unknown").code == 1


def test_a_plan_contains_the_kind_of_each_change(shell: Bench) -> None:
    """Added, updated, deleted, and whether it replaces; paths within hashes and arrays; nothing of secrets."""
    site = (
        "project: p\nresources:\n  Widget[a]: {%s, lifecycle: {replace: delete_first, replace_on_changes: [parts]}}\n"
    )
    first = shell.plan(site % "labels: {x: 1}", "--json").document["steps"][0]
    assert {change["kind"] for change in first["changes"]} == {"add"}
    shell.apply(site % "size: 1, image: oak, labels: {x: 1, y: 1}, parts: [a, b]")
    (step,) = shell.plan(site % "size: 2, image: elm, labels: {x: 2, z: 1}, parts: [a]", "--json").document["steps"]
    kinds = {change["attribute"]: change["kind"] for change in step["changes"]}
    assert kinds == {
        "size": "update",
        "image": "update-replace",
        "labels": "update",
        "parts": "update-replace",
    }
    labels = next(change for change in step["changes"] if change["attribute"] == "labels")
    assert labels["paths"] == [
        {"path": ["x"], "kind": "update"},
        {"path": ["y"], "kind": "delete"},
        {"path": ["z"], "kind": "add"},
    ]
    gone = shell.plan("project: p\nresources:\n  Widget[a]: {ensure: absent}\n", "--json").document["steps"][0]
    assert [(change["attribute"], change["kind"]) for change in gone["changes"]] == [("ensure", "delete")]
    secret = shell.plan("project: p\nresources:\n  Account[a]: {password: hunter22}\n", "--json").document["steps"][0]
    assert "hunter22" not in json.dumps(secret)
    assert all("paths" not in change for change in secret["changes"])


def test_a_pending_replacement_is_shown_and_continued(shell: Bench) -> None:
    """State shows that it is pending, the plan the creation and its reason; without its declaration it is dropped."""
    site = "project: p\nresources:\n  Widget[a]: {name: %s, lifecycle: {replace: delete_first}}\n"
    shell.apply(site % "one")
    assert shell.apply(site % "bad").code == 1
    assert shell.things("widget") == {}
    assert "status: pending" in shell.run("state", "show", "Widget[a]").out
    planned = shell.plan(site % "two").out
    assert "+ Widget[a] (its replacement was interrupted, and the old one is gone)" in planned
    assert "Plan: 1 to create; 0 unchanged." in planned
    dropped = shell.plan(EMPTY).out
    assert ". Widget[a] (its replacement was interrupted, and nothing is left of it)" in dropped
    assert shell.apply(site % "two").code == 0
    assert list(shell.things("widget")) == ["two"]
    assert shell.run("state", "list").out == "Widget[a]\n"


def test_a_saved_plan_replaces_dependents_and_nothing_else(shell: Bench) -> None:
    """The dependents are in the document with their reason, and the document can be applied."""
    site = (
        "project: p\nresources:\n"
        "  Widget[a]: {image: IMAGE, lifecycle: {replace: delete_first}}\n"
        "  Widget[b]: {image: '${Widget[a].name}', lifecycle: {replace: delete_first}}\n"
        "  Widget[c]: {colour: '${Widget[a].serial}', require: 'Widget[b]'}\n"
    )
    shell.apply(site.replace("IMAGE", "oak"))
    path = shell.write("site.yaml", site.replace("IMAGE", "elm"))
    assert shell.run("plan", path, "-o", "plan.json").code == 0
    document = json.loads((shell.home / "plan.json").read_text(encoding="utf-8"))
    steps = {step["reference"]: step for step in document["steps"]}
    assert [steps[name]["action"] for name in ("Widget[a]", "Widget[b]")] == ["replace", "replace"]
    assert steps["Widget[b]"]["reasons"] == ["image comes from Widget[a], which is replaced"]
    assert steps["Widget[b]"]["replaces_because"] == ["image"]
    applied = shell.run("apply", "plan.json", "--json")
    assert (applied.code, list(applied.ends())) == (0, ["Widget[a]", "Widget[b]"]), applied.err
