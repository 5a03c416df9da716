"""Scenarios of Pulumi's engine that no other file has: steps, targets, refresh, interruptions."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from resource_api import Attribute, BaseProvider, Planned, Registry, Runtime, TypeDefinition
from resource_api.model.values.errors import ManifestError
from resource_api.model.values.values import UNKNOWN
from resource_api.runtime.state_refresh import refresh
from tests.lifecycle.world import FIRST, acted, manifest, planned
from tests.registries import registry_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.lifecycle.world import Bench


def test_a_reference_to_an_ignored_attribute_yields_the_present_value(bench: Bench) -> None:
    """B shows the size of A, which was changed outside and is ignored: B gets the real one."""
    site: dict[str, Any] = {
        "Thing[a]": {"size": 1, "lifecycle": {"ignore_changes": ["size"]}},
        "Thing[b]": {"colour": "size ${Thing[a].size}"},
    }
    bench.apply(site)
    bench.world.things["thing"]["a"]["size"] = 7
    site["Thing[a]"]["size"] = 2
    plan = bench.plan(site)
    assert plan.steps[0].should["size"] == 7
    assert planned(plan) == {"Thing[b]": "update"}
    bench.apply(site)
    assert bench.world.things["thing"]["b"]["colour"] == "size 7"
    assert planned(bench.plan(site)) == {}


def test_a_replacement_sets_ignored_attributes_as_declared(bench: Bench) -> None:
    """A replacement has no former values to keep."""
    site: dict[str, Any] = {"Thing[a]": {"size": 1, "lifecycle": {"ignore_changes": ["size"]}}}
    bench.apply(site)
    site["Thing[a]"]["size"] = 2
    assert bench.plan(site, replace=("Thing[a]",)).steps[0].should["size"] == 2


def test_ignore_changes_applies_to_an_import(bench: Bench) -> None:
    """The resource is imported with its present value."""
    bench.put("thing", a={"size": 7, "colour": "red"})
    lifecycle = {"import": "a", "ignore_changes": ["size"]}
    report = bench.apply({"Thing[a]": {"size": 1, "colour": "blue", "lifecycle": lifecycle}})
    assert acted(report) == {"Thing[a]": ("import", "success")}
    assert bench.world.things["thing"]["a"] == {"size": 7, "colour": "blue", "serial": "S-a"}


def test_an_import_is_compared_after_it_was_read(bench: Bench) -> None:
    """It is read, then compared, then differences are set: one step, and the second run has none."""
    bench.put("thing", a={"size": 7})
    site = {"Thing[a]": {"size": 1, "lifecycle": {"import": "a"}}}
    plan = bench.plan(site)
    assert planned(plan) == {"Thing[a]": "import"}
    assert [(difference.is_, difference.should) for difference in plan.steps[0].decision.differences] == [(7, 1)]
    bench.apply(site)
    assert planned(bench.plan(site)) == {}


def test_an_import_needs_permission_to_replace(bench: Bench) -> None:
    """An ``init_only`` difference is no reason to delete a resource that should be imported."""
    bench.put("thing", a={"image": "x"})
    refused = bench.plan({"Thing[a]": {"image": "y", "lifecycle": {"import": "a"}}}).steps[0].decision
    assert "can only be set at creation" in refused.error


class Numbered:
    """A type whose provider assigns numbers: the next one to a new resource, the same to an existing one."""

    def __init__(self) -> None:
        """Start without resources, and with the number 10."""
        self.rows: dict[str, dict[str, Any]] = {}
        self.asked: list[tuple[str, bool]] = []
        self.numbers = itertools.count(10)
        here = self

        class Provider(BaseProvider):
            def get(self, context: Any) -> Any:  # noqa: ARG002
                return [{"name": name, "ensure": "present", **row} for name, row in here.rows.items()]

            def plan(self, context: Any, name: str, is_: Any, should: Mapping[str, Any]) -> Planned:  # noqa: ARG002
                here.asked.append((name, is_ is not None))
                if is_ is None:
                    return Planned(should, unknown=["number"])
                return Planned({**should, "number": is_["number"]}, replace=["image"])

            def set(self, context: Any, changes: Mapping[str, Any]) -> None:  # noqa: ARG002
                for name, (is_, should) in changes.items():
                    if should["ensure"] == "absent":
                        del here.rows[name]
                        continue
                    number = is_["number"] if is_ else next(here.numbers)
                    here.rows[name] = {"image": should.get("image"), "number": number}

        ticket = TypeDefinition(
            name="ticket",
            docs="A ticket.",
            features={"plan"},
            attributes={
                "name": Attribute("String", "Its name.", kind="namevar"),
                "ensure": Attribute("Enum[present, absent]", "Whether it exists.", default="present"),
                "image": Attribute("Optional[String]", "What is on it."),
                "number": Attribute("Optional[Integer]", "Its number.", kind="read_only"),
            },
        )
        self.runtime = Runtime(registry_of((ticket, Provider)), state="memory:", project="p")


def test_a_replacement_is_planned_a_second_time_without_the_old_one() -> None:
    """Unique values of the old one are not predicted for the new one: its provider is called as for a creation."""
    tickets = Numbered()
    resources: dict[str, Any] = {"Ticket[a]": {"image": "x", "lifecycle": FIRST}, "Ticket[b]": {"image": "x"}}
    assert tickets.runtime.apply(manifest(resources)).exit_code == 0
    assert tickets.rows["a"]["number"] == 10
    resources["Ticket[a]"]["image"] = "y"
    tickets.asked.clear()
    plan = tickets.runtime.plan(manifest(resources))
    assert tickets.asked == [("a", True), ("a", False), ("b", True)]
    assert plan.steps[0].decision.predicted == {"number": UNKNOWN}
    tickets.runtime.apply(manifest(resources))
    assert tickets.rows["a"] == {"image": "y", "number": 12}


def test_a_failed_prediction_for_the_new_one_keeps_the_old_one() -> None:
    """The second call of ``plan`` fails: nothing is deleted."""
    tickets = Numbered()
    resources: dict[str, Any] = {"Ticket[a]": {"image": "x", "lifecycle": FIRST}}
    tickets.runtime.apply(manifest(resources))
    rows = dict(tickets.rows)
    resources["Ticket[a]"]["image"] = "y"
    tickets.rows["a"] = rows["a"]
    provider = tickets.runtime.registry.provider("ticket")
    plan = provider.plan

    def refuse(self: Any, context: Any, name: str, is_: Any, should: Mapping[str, Any]) -> Any:
        if is_ is None:
            raise RuntimeError("no more tickets today")
        return plan(self, context, name, is_, should)

    provider.plan = refuse
    report = tickets.runtime.apply(manifest(resources))
    assert "no more tickets today" in report.steps[0].error
    assert tickets.rows == rows


def test_a_plan_can_be_made_while_changes_are_in_doubt(bench: Bench) -> None:
    """A killed run has left its intents: planning reads the results, and writes nothing."""
    with bench.troubled(a="late"):
        bench.killed({"Thing[a]": {"size": 1}, "Thing[b]": {}})
    assert bench.state.intents
    assert planned(bench.plan({"Thing[a]": {"size": 1}, "Thing[b]": {}})) == {"Thing[b]": "create"}
    assert bench.state.intents


def test_records_of_dependents_contain_a_new_title(bench: Bench) -> None:
    """The records of B, C and D name A by its new title, so that destroy finds the order."""
    for title in ("old", "new"):
        bench.apply(
            {
                f"Thing[{title}]": {"name": "a"},
                "Thing[b]": {"require": f"Thing[{title}]"},
                "Thing[c]": {"colour": f"${{Thing[{title}].serial}}"},
                "Thing[d]": {"lifecycle": {"deleted_with": f"Thing[{title}]"}},
            }
        )
    assert "Thing[old]" not in repr(bench.state.records)
    bench.destroy({})
    assert [name for verb, _, name in bench.world.calls if verb == "delete"] == ["c", "b", "a"]


def test_a_target_that_needs_a_missing_resource_is_an_error(bench: Bench) -> None:
    """B uses a value of A, which does not exist and is no target: A is not created."""
    site = {"Thing[a]": {}, "Thing[b]": {"colour": "${Thing[a].serial}"}}
    report = bench.apply(site, targets=("Thing[b]",))
    assert "not among the targets" in report.steps[0].error
    assert bench.names() == []
    assert bench.apply(site, targets=("Thing[b]",), with_dependencies=True).exit_code == 0


def test_a_target_keeps_an_orphan_that_it_depended_on(bench: Bench) -> None:
    """A is no longer declared and no target: both stay, and destroy still finds the order."""
    bench.apply({"Thing[a]": {}, "Thing[b]": {"require": "Thing[a]"}, "Thing[c]": {"require": "Thing[b]"}})
    bench.apply({"Thing[c]": {"size": 1}}, targets=("Thing[c]",), prune=True)
    assert bench.names() == ["a", "b", "c"]
    bench.destroy({})
    order = [name for verb, _, name in bench.world.calls if verb == "delete"]
    assert order.index("b") < order.index("a")


def test_an_external_resource_becomes_managed_without_a_creation(bench: Bench) -> None:
    """Its identity is its name, so it is the same resource; it existed before us, and is not deleted."""
    bench.put("thing", a={"size": 1})
    bench.apply({"Thing[a]": {"lifecycle": {"external": True}}})
    assert acted(bench.apply({"Thing[a]": {"size": 2}})) == {"Thing[a]": ("update", "success")}
    assert acted(bench.destroy({})) == {"Thing[a]": ("forget", "success")}
    assert bench.names() == ["a"]


def test_a_managed_resource_becomes_external_without_a_deletion(bench: Bench) -> None:
    """From then on it is only read."""
    bench.apply({"Thing[a]": {"size": 1}})
    bench.apply({"Thing[a]": {"size": 2, "lifecycle": {"external": True}}})
    assert bench.world.calls == []
    bench.destroy({})
    assert bench.names() == ["a"]


def test_after_a_refresh_without_a_dependency_destroy_works(bench: Bench) -> None:
    """A was deleted outside: no record of a dependent is lost, and the order of the others stays."""
    bench.apply({"Thing[a]": {}, "Thing[b]": {"require": "Thing[a]"}, "Thing[c]": {"require": "Thing[b]"}})
    del bench.world.things["thing"]["a"]
    refresh(bench.runtime, manifest({}))
    report = bench.destroy({})
    assert report.exit_code == 0
    assert [name for verb, _, name in bench.world.calls if verb == "delete"] == ["c", "b"]
    assert bench.state.records == {}


def test_a_dependent_that_cannot_be_deleted_keeps_its_source(bench: Bench) -> None:
    """B would be deleted before A and is not: A is not changed, and the next run does both."""
    site: dict[str, Any] = {
        "Thing[a]": {"image": "x", "lifecycle": FIRST},
        "Thing[b]": {"image": "${Thing[a].serial}", "lifecycle": FIRST},
    }
    bench.apply(site)
    site["Thing[a]"]["image"] = "y"
    with bench.troubled(b="raise"):
        assert acted(bench.apply(site)) == {"Thing[a]": ("replace", "skipped"), "Thing[b]": ("replace", "failed")}
    assert bench.world.things["thing"]["a"]["image"] == "x"
    bench.apply(site)
    assert [(verb, name) for verb, _, name in bench.world.calls] == [
        *(("delete", "b"), ("delete", "a")),
        *(("create", "a"), ("create", "b")),
    ]


def test_a_failed_comparison_fails_its_resource() -> None:
    """Pulumi assumes an update; here no step with unknown effects is carried out."""
    tickets = Numbered()
    resources: dict[str, Any] = {"Ticket[a]": {"image": "x", "lifecycle": FIRST}}
    tickets.runtime.apply(manifest(resources))
    resources["Ticket[a]"]["image"] = "y"

    def broken(*_: Any) -> Any:
        raise RuntimeError("not configured yet")

    tickets.runtime.registry.provider("ticket").plan = broken
    (step,) = tickets.runtime.plan(manifest(resources)).steps
    assert "plan failed: " in step.decision.error


def test_a_resource_cannot_be_declared_twice(bench: Bench) -> None:
    """Neither by its title nor by its identity."""
    with pytest.raises(ManifestError, match="same resource"):
        bench.apply({"Thing[a]": {}, "Thing[b]": {"name": "a"}})


def test_all_errors_of_a_check_are_reported() -> None:
    """Both errors of one resource and that of another, before anything is changed."""
    registry = Registry()
    touched = []

    class Provider(BaseProvider):
        def get(self, context: Any) -> Any:  # noqa: ARG002
            return []

        def set(self, context: Any, changes: Mapping[str, Any]) -> None:  # noqa: ARG002
            touched.extend(changes)

        def validate(self, context: Any, should: Mapping[str, Any]) -> list[str]:  # noqa: ARG002
            return [f"{name} is odd" for name in ("width", "height") if should[name] % 2]

    sides = {name: Attribute("Integer", "A side.", default=2) for name in ("width", "height")}
    names = {"name": Attribute("String", "Its name.", kind="namevar")}
    registry.register_type(TypeDefinition(name="tile", docs="A tile.", features={"validate"}, attributes=names | sides))
    registry.register_provider("tile", Provider)
    runtime = Runtime(registry, state="memory:")
    with pytest.raises(ManifestError) as caught:
        runtime.apply(manifest({"Tile[a]": {"width": 1, "height": 3}, "Tile[b]": {"width": 5}, "Tile[c]": {}}))
    assert [problem.message for problem in caught.value.problems] == ["width is odd", "height is odd", "width is odd"]
    assert touched == []
