"""Pulumi's engine, scenario by scenario, where no other file has it: steps, targets, refresh, what was cut."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from resource_api import Attribute, BaseProvider, Planned, Registry, Runtime, TypeDefinition
from resource_api.model.values.errors import ManifestError
from resource_api.runtime.refresh import refresh
from tests.lifecycle.world import acted, manifest, planned

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.lifecycle.world import Bench

FIRST = {"replace": "delete_first"}


def test_what_is_ignored_is_for_others_as_it_is(bench: Bench) -> None:
    """B shows the size of A, which somebody has changed and which is ignored: B gets the real one."""
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


def test_what_is_ignored_is_given_back_when_it_is_made_anew(bench: Bench) -> None:
    """A replacement has no former values to keep."""
    site: dict[str, Any] = {"Thing[a]": {"size": 1, "lifecycle": {"ignore_changes": ["size"]}}}
    bench.apply(site)
    site["Thing[a]"]["size"] = 2
    assert bench.plan(site, replace=("Thing[a]",)).steps[0].should["size"] == 2


def test_ignoring_holds_for_what_is_imported(bench: Bench) -> None:
    """It is taken over with the value that it has."""
    bench.put("thing", a={"size": 7, "colour": "red"})
    lifecycle = {"import": "a", "ignore_changes": ["size"]}
    report = bench.apply({"Thing[a]": {"size": 1, "colour": "blue", "lifecycle": lifecycle}})
    assert acted(report) == {"Thing[a]": ("import", "success")}
    assert bench.world.things["thing"]["a"] == {"size": 7, "colour": "blue", "serial": "S-a"}


def test_an_import_is_compared_only_when_it_was_read(bench: Bench) -> None:
    """First the thing is read, then compared, then what differs is set: one step, and the second run has none."""
    bench.put("thing", a={"size": 7})
    site = {"Thing[a]": {"size": 1, "lifecycle": {"import": "a"}}}
    plan = bench.plan(site)
    assert planned(plan) == {"Thing[a]": "import"}
    assert [(each.is_, each.should) for each in plan.steps[0].decision.differences] == [(7, 1)]
    bench.apply(site)
    assert planned(bench.plan(site)) == {}


def test_an_import_that_would_have_to_be_replaced_needs_leave(bench: Bench) -> None:
    """An ``init_only`` difference is no reason to delete what was only to be taken over."""
    bench.put("thing", a={"image": "x"})
    refused = bench.plan({"Thing[a]": {"image": "y", "lifecycle": {"import": "a"}}}).steps[0].decision
    assert "can only be set at creation" in refused.error


class Numbered:
    """A type whose provider numbers what it makes: the next number for a new one, the same for one that stays."""

    def __init__(self) -> None:
        """Begin with none, and with the number 10."""
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

        registry = Registry()
        registry.register_type(
            TypeDefinition(
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
        )
        registry.register_provider("ticket", Provider)
        self.runtime = Runtime(registry, state="memory:", project="p")


def test_a_replacement_is_planned_a_second_time_without_the_old_one() -> None:
    """What was unique to the old one is not predicted for the new one: its provider is asked as for a creation."""
    tickets = Numbered()
    resources: dict[str, Any] = {"Ticket[a]": {"image": "x", "lifecycle": FIRST}, "Ticket[b]": {"image": "x"}}
    assert tickets.runtime.apply(manifest(resources)).exit_code == 0
    assert tickets.rows["a"]["number"] == 10
    resources["Ticket[a]"]["image"] = "y"
    tickets.asked.clear()
    plan = tickets.runtime.plan(manifest(resources))
    assert tickets.asked == [("a", True), ("a", False)]
    assert "number" not in plan.steps[0].decision.predicted
    tickets.runtime.apply(manifest(resources))
    assert tickets.rows["a"] == {"image": "y", "number": 12}


def test_a_failing_check_of_the_new_one_leaves_the_old_one() -> None:
    """The second plan fails: nothing is deleted."""
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
            msg = "no more tickets today"
            raise RuntimeError(msg)
        return plan(self, context, name, is_, should)

    provider.plan = refuse
    report = tickets.runtime.apply(manifest(resources))
    assert "no more tickets today" in report.steps[0].error
    assert tickets.rows == rows


def test_a_plan_can_be_made_while_changes_are_in_doubt(bench: Bench) -> None:
    """A killed run has left its intents: planning reads what became of them, and writes nothing."""
    with bench.troubled(a="late"):
        bench.killed({"Thing[a]": {"size": 1}, "Thing[b]": {}})
    assert bench.state.intents
    assert planned(bench.plan({"Thing[a]": {"size": 1}, "Thing[b]": {}})) == {"Thing[b]": "create"}
    assert bench.state.intents


def test_a_new_title_is_known_to_all_who_depend_on_it(bench: Bench) -> None:
    """What is recorded of B, C and D names A by its new title, so that destroying finds the order."""
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


def test_a_target_that_needs_what_is_not_there_is_an_error(bench: Bench) -> None:
    """B takes a value of A, which does not exist and is no target: nothing is made in its place."""
    site = {"Thing[a]": {}, "Thing[b]": {"colour": "${Thing[a].serial}"}}
    report = bench.apply(site, targets=("Thing[b]",))
    assert "not among the targets" in report.steps[0].error
    assert bench.names() == []
    assert bench.apply(site, targets=("Thing[b]",), with_dependencies=True).exit_code == 0


def test_a_target_that_depended_on_what_is_undeclared_leaves_that(bench: Bench) -> None:
    """A is no longer declared and no target: both stay, and destroying still knows the order."""
    bench.apply({"Thing[a]": {}, "Thing[b]": {"require": "Thing[a]"}, "Thing[c]": {"require": "Thing[b]"}})
    bench.apply({"Thing[c]": {"size": 1}}, targets=("Thing[c]",), prune=True)
    assert bench.names() == ["a", "b", "c"]
    bench.destroy({})
    order = [name for verb, _, name in bench.world.calls if verb == "delete"]
    assert order.index("b") < order.index("a")


def test_what_was_external_becomes_managed_without_being_made_again(bench: Bench) -> None:
    """Identity is its name, so it is the same thing; it was there before us, and is not deleted for us."""
    bench.put("thing", a={"size": 1})
    bench.apply({"Thing[a]": {"lifecycle": {"external": True}}})
    assert acted(bench.apply({"Thing[a]": {"size": 2}})) == {"Thing[a]": ("update", "success")}
    assert acted(bench.destroy({})) == {"Thing[a]": ("forget", "success")}
    assert bench.names() == ["a"]


def test_what_was_managed_becomes_external_without_being_deleted(bench: Bench) -> None:
    """It is read and left alone from then on."""
    bench.apply({"Thing[a]": {"size": 1}})
    bench.apply({"Thing[a]": {"size": 2, "lifecycle": {"external": True}}})
    assert bench.world.calls == []
    bench.destroy({})
    assert bench.names() == ["a"]


def test_a_refresh_that_misses_a_dependency_leaves_a_state_that_can_be_destroyed(bench: Bench) -> None:
    """A was deleted by hand: nothing that depends on it is lost, and the order of the rest holds."""
    bench.apply({"Thing[a]": {}, "Thing[b]": {"require": "Thing[a]"}, "Thing[c]": {"require": "Thing[b]"}})
    del bench.world.things["thing"]["a"]
    refresh(bench.runtime, manifest({}))
    report = bench.destroy({})
    assert report.exit_code == 0
    assert [name for verb, _, name in bench.world.calls if verb == "delete"] == ["c", "b"]
    assert bench.state.records == {}


def test_a_dependent_that_fails_to_go_keeps_what_it_was_made_from(bench: Bench) -> None:
    """B would go before A and does not: A is not touched, and the next run does both."""
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


def test_a_provider_that_cannot_compare_fails_its_resource_instead_of_updating_it() -> None:
    """Pulumi assumes an update; here nothing is done of which nobody can say what it would do."""
    tickets = Numbered()
    resources: dict[str, Any] = {"Ticket[a]": {"image": "x", "lifecycle": FIRST}}
    tickets.runtime.apply(manifest(resources))
    resources["Ticket[a]"]["image"] = "y"

    def broken(*_: Any) -> Any:
        msg = "not configured yet"
        raise RuntimeError(msg)

    tickets.runtime.registry.provider("ticket").plan = broken
    (step,) = tickets.runtime.plan(manifest(resources)).steps
    assert "plan failed: " in step.decision.error


def test_one_name_cannot_stand_twice(bench: Bench) -> None:
    """Neither by its title nor by what it is."""
    with pytest.raises(ManifestError, match="same resource"):
        bench.apply({"Thing[a]": {}, "Thing[b]": {"name": "a"}})


def test_every_fault_of_a_check_is_told() -> None:
    """Both faults of one resource and that of another, before anything is touched."""
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
    named = {"name": Attribute("String", "Its name.", kind="namevar")}
    registry.register_type(TypeDefinition(name="tile", docs="A tile.", features={"validate"}, attributes=named | sides))
    registry.register_provider("tile", Provider)
    runtime = Runtime(registry, state="memory:")
    with pytest.raises(ManifestError) as caught:
        runtime.apply(manifest({"Tile[a]": {"width": 1, "height": 3}, "Tile[b]": {"width": 5}, "Tile[c]": {}}))
    assert [problem.message for problem in caught.value.problems] == ["width is odd", "height is odd", "width is odd"]
    assert touched == []
