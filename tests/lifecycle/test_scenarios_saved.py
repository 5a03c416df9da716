"""Saved plans: a run does exactly what was shown, or nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from resource_api.model.values.errors import ManifestError, ResourceAPIError
from resource_api.runtime import saved_plan as saved
from resource_api.runtime.environment import read_saved_plan
from tests.lifecycle.world import acted

if TYPE_CHECKING:
    from pathlib import Path

    from resource_api.model.report import RunReport
    from tests.lifecycle.world import Bench


class Desk:
    """Writes manifests, saves plans of them and applies the plans, as the command does."""

    def __init__(self, bench: Bench, home: Path) -> None:
        """Keep files below ``home``."""
        self.bench = bench
        self.site = home / "site.yaml"
        self.file = home / "plan.json"

    def write(self, resources: dict[str, Any]) -> None:
        """Write the manifest."""
        self.site.write_text(json.dumps({"project": "world", "resources": resources}), encoding="utf-8")

    def save(self, resources: dict[str, Any], **options: Any) -> dict[str, Any]:
        """Plan, save, and return the document."""
        self.write(resources)
        saved.write(self.bench.runtime.plan(str(self.site), **options), str(self.file))
        document = read_saved_plan(str(self.file))
        assert document is not None
        return document

    def carry_out(self) -> RunReport:
        """Apply the saved plan."""
        document = read_saved_plan(str(self.file))
        assert document is not None
        self.bench.world.calls.clear()
        runtime = self.bench.runtime
        return runtime.apply_saved(saved.SavedPlan(document, str(self.file), runtime.key), {})

    def refused(self, words: str) -> None:
        """Apply the saved plan, and check that it is refused as a whole with this message."""
        before, state = self.bench.world.copy(), self.bench.state
        with pytest.raises(ManifestError, match=words):
            self.carry_out()
        assert (self.bench.world.things, self.bench.state) == (before, state)


@pytest.fixture
def desk(bench: Bench, tmp_path: Path) -> Desk:
    """Return an empty desk."""
    return Desk(bench, tmp_path)


def test_a_saved_plan_is_applied(desk: Desk) -> None:
    """Without the manifest's file, which may have been changed or removed."""
    desk.save({"Thing[a]": {"size": 1}, "Thing[b]": {"colour": "${Thing[a].serial}"}})
    desk.site.unlink()
    assert acted(desk.carry_out()) == {"Thing[a]": ("create", "success"), "Thing[b]": ("create", "success")}


def test_a_plan_is_applied_once(desk: Desk) -> None:
    """The second time it is stale, and so is another plan made before the first was applied."""
    desk.save({"Thing[a]": {"size": 1}})
    text = desk.file.read_text(encoding="utf-8")
    desk.save({"Thing[b]": {"size": 1}})
    desk.carry_out()
    desk.refused("stale")
    desk.file.write_text(text, encoding="utf-8")
    desk.refused("stale")


def test_a_plan_is_stale_when_the_system_has_changed(desk: Desk) -> None:
    """Every resource that differs from the plan is named."""
    desk.bench.put("thing", a={"size": 1}, b={"size": 1}, c={"size": 1})
    desk.save({"Thing[a]": {"size": 2}, "Thing[b]": {"size": 2}, "Thing[c]": {"size": 2}})
    desk.bench.world.things["thing"]["a"]["size"] = 7
    del desk.bench.world.things["thing"]["b"]
    desk.refused(r"stale: Thing\[a\], Thing\[b\] changed")


def test_a_plan_is_stale_when_its_change_is_already_made(desk: Desk) -> None:
    """The planned change is no change any more. Pulumi would continue."""
    desk.bench.put("thing", a={"size": 1})
    desk.save({"Thing[a]": {"size": 2}})
    desk.bench.world.things["thing"]["a"]["size"] = 2
    desk.refused("changed")


def test_a_plan_with_an_error_is_saved_and_refused(desk: Desk) -> None:
    """The document itself states that it is not applicable."""
    desk.bench.put("thing", a={"image": "x"})
    assert desk.save({"Thing[a]": {"image": "y"}})["applicable"] is False
    desk.refused("not applicable")


def test_a_plan_with_a_secret_is_not_saved(desk: Desk) -> None:
    """The secret would be written in clear."""
    with pytest.raises(ResourceAPIError, match="secret"):
        desk.save({"Thing[a]": {"password": "secret1"}})
    assert not desk.file.exists()


def test_a_deferred_resource_may_be_created(desk: Desk) -> None:
    """The plan showed that it is decided at its turn."""
    desk.save({"Thing[tool]": {}, "Gadget[g]": {"size": 1}})
    assert acted(desk.carry_out()) == {"Thing[tool]": ("create", "success"), "Gadget[g]": ("create", "success")}


def test_a_deferred_resource_is_never_deleted(desk: Desk) -> None:
    """The plan did not show a deletion; a plan that is not saved may delete it."""
    site = {"Thing[tool]": {}, "Gadget[g]": {"ensure": "absent"}}
    desk.bench.put("gadget", g={"size": 1})
    desk.save(site)
    report = desk.carry_out()
    assert acted(report)["Gadget[g]"] == ("update", "failed")
    assert report.steps[-1].error == "would be deleted; plan again"
    assert desk.bench.names("gadget") == ["g"]
    desk.bench.world.things["thing"].clear()
    assert desk.bench.apply(site).exit_code == 0
    assert desk.bench.names("gadget") == []


def test_a_saved_plan_contains_its_options(desk: Desk) -> None:
    """Targets, pruning and replacing are in the plan, not on the command line that applies it."""
    desk.bench.apply({"Thing[a]": {}, "Thing[b]": {}, "Thing[c]": {}})
    document = desk.save(
        {"Thing[a]": {}, "Thing[c]": {"size": 3}}, prune=True, replace=("Thing[a]",), targets=("*[?]",)
    )
    assert document["complete"] is False
    assert acted(desk.carry_out()) == {
        "Thing[a]": ("replace", "success"),
        "Thing[c]": ("update", "success"),
        "Thing[b]": ("delete", "success"),
    }


def test_the_document_has_the_documented_fields(desk: Desk) -> None:
    """Every field, of the plan and of each step."""
    document = desk.save({"Thing[a]": {"size": 1}, "Thing[b]": {"colour": "${Thing[a].serial}"}})
    assert {
        "format_version",
        "tool_version",
        "project",
        "stack",
        "lineage",
        "serial",
        "manifest_sha256",
        "steps",
        "drift",
        "outputs",
        "summary",
        "complete",
        "applicable",
    } <= document.keys()
    second = document["steps"][1]
    assert {
        "reference",
        "urn",
        "action",
        "previous",
        "reasons",
        "is",
        "should",
        "unknown",
        "expressions",
        "sensitive",
        "replaces_because",
        "changes",
        "depends_on",
        "notifies",
        "refreshed_by",
        "options",
    } <= second.keys()
    assert (second["unknown"], second["expressions"]) == (["colour"], {"colour": "${Thing[a].serial}"})
    assert second["depends_on"] == ["Thing[a]"]
    assert document["summary"]["created"] == 2


@pytest.mark.parametrize("spoil", [{"manifest": {}}, {"steps": None}, {"project": 3}, {"format_version": 99}])
def test_an_invalid_document_is_refused(desk: Desk, spoil: dict[str, Any]) -> None:
    """A truncated or edited document is an error of its file, not a crash."""
    document = desk.save({"Thing[a]": {}})
    desk.file.write_text(json.dumps(document | spoil), encoding="utf-8")
    desk.refused("plan")
