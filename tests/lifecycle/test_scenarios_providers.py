"""Configured providers in plans: configuration, changes of provider, and replacements by a new configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from resource_api import Attribute, BaseProvider, Runtime, TypeDefinition
from tests.lifecycle.world import acted, planned
from tests.registries import registry_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Harbours:
    """A type whose resources are in the harbour that its provider is configured with."""

    def __init__(self, *, compares: bool = True) -> None:
        """Start with empty harbours; ``compares``: the provider tells whether a change of harbour loses ships."""
        self.ships: dict[str, dict[str, dict[str, Any]]] = {}
        self.calls: list[str] = []
        here = self

        class Provider(BaseProvider):
            def configure(self, context: Any, config: Mapping[str, Any]) -> None:  # noqa: ARG002
                if config["harbour"] == "closed":
                    raise RuntimeError("no way in")
                self.harbour = config["harbour"]
                here.calls.append(f"configure {self.harbour}")

            def diff_config(self, context: Any, is_: Mapping[str, Any], should: Mapping[str, Any]) -> Iterable[str]:  # noqa: ARG002
                return ["harbour"] if is_["harbour"] != should["harbour"] else []

            def get(self, context: Any) -> Any:  # noqa: ARG002
                ships = here.ships.setdefault(self.harbour, {})
                return [{"name": name, "ensure": "present", **row} for name, row in ships.items()]

            def set(self, context: Any, changes: Mapping[str, Any]) -> None:  # noqa: ARG002
                ships = here.ships.setdefault(self.harbour, {})
                for name, (_, should) in changes.items():
                    gone = should["ensure"] == "absent"
                    here.calls.append(f"{'-' if gone else '+'}{self.harbour}/{name}")
                    if gone:
                        del ships[name]
                    else:
                        ships[name] = {"flag": should.get("flag"), "berth": f"{self.harbour}{len(here.calls)}"}

        if not compares:
            del Provider.diff_config
        ship = TypeDefinition(
            name="ship",
            docs="A ship.",
            config={"harbour": Attribute("String", "Where it lies.")},
            attributes={
                "name": Attribute("String", "Its name.", kind="namevar"),
                "ensure": Attribute("Enum[present, absent]", "Whether it exists.", default="present"),
                "flag": Attribute("Optional[String]", "What it flies.", kind="init_only"),
                "berth": Attribute("Optional[String]", "Its number there.", kind="read_only"),
            },
        )
        self.runtime = Runtime(registry_of((ship, Provider)), state="memory:", project="p")

    def site(self, resources: Mapping[str, Any], **harbours: str) -> dict[str, Any]:
        """Return a manifest of ships, and of providers by name."""
        providers = {name: {"type": "ship", "config": {"harbour": harbour}} for name, harbour in harbours.items()}
        return {"project": "p", "providers": providers, "resources": dict(resources)}

    def apply(self, resources: Mapping[str, Any], **harbours: str) -> Any:
        """Apply them, and count calls from zero."""
        self.calls.clear()
        return self.runtime.apply(self.site(resources, **harbours))

    @property
    def moves(self) -> list[str]:
        """The creations and deletions of the last run, in order."""
        return [call for call in self.calls if call[0] in "+-"]


@pytest.fixture
def harbours() -> Harbours:
    """Return empty harbours."""
    return Harbours()


def test_a_provider_that_cannot_be_configured_fails_its_resources(harbours: Harbours) -> None:
    """With its reason; resources of another instance are created."""
    ships = {"Ship[a]": {"provider": "west"}, "Ship[b]": {"provider": "east"}}
    report = harbours.apply(ships, west="closed", east="open")
    assert acted(report)["Ship[b]"] == ("create", "success")
    (failed,) = [step for step in report.steps if step.status == "failed"]
    assert (failed.reference, "no way in" in failed.error) == ("Ship[a]", True)


def test_another_provider_is_another_resource(harbours: Harbours) -> None:
    """Without permission to replace, it is created there, and the old one stays until it is pruned."""
    harbours.apply({"Ship[a]": {"provider": "west"}}, west="w", east="e")
    harbours.apply({"Ship[a]": {"provider": "east"}}, west="w", east="e")
    assert harbours.moves == ["+e/a"]
    assert {harbour: list(ships) for harbour, ships in harbours.ships.items()} == {"w": ["a"], "e": ["a"]}


def test_another_provider_replaces_if_allowed(harbours: Harbours) -> None:
    """The old resource is deleted by the provider that created it."""
    lifecycle = {"replace": "delete_first"}
    harbours.apply({"Ship[a]": {"provider": "west", "lifecycle": lifecycle}}, west="w", east="e")
    harbours.apply({"Ship[a]": {"provider": "east", "lifecycle": lifecycle}}, west="w", east="e")
    assert harbours.moves == ["-w/a", "+e/a"]


def test_dependents_of_a_resource_of_a_replaced_provider_are_replaced_too(harbours: Harbours) -> None:
    """The configuration replaces A; B, in another harbour, was created from it."""
    ships = {
        "Ship[a]": {"provider": "west"},
        "Ship[b]": {"provider": "east", "flag": "${Ship[a].name}", "lifecycle": {"replace": "delete_first"}},
    }
    harbours.apply(ships, west="w1", east="e")
    plan = harbours.runtime.plan(harbours.site(ships, west="w2", east="e"))
    assert planned(plan) == {"Ship[a]": "replace", "Ship[b]": "replace"}
    harbours.apply(ships, west="w2", east="e")
    assert harbours.moves == ["-e/b", "-w1/a", "+w2/a", "+e/b"]
    assert planned(harbours.runtime.plan(harbours.site(ships, west="w2", east="e"))) == {}


def test_a_failing_configuration_keeps_the_resources_of_the_old_one(harbours: Harbours) -> None:
    """Nothing is deleted for a closed harbour; with an open one the resource is replaced."""
    ships = {"Ship[a]": {"provider": "west", "flag": "f"}}
    harbours.apply(ships, west="w1")
    closed = harbours.apply(ships, west="closed")
    assert closed.exit_code == 1
    assert harbours.moves == []
    harbours.apply(ships, west="w2")
    assert harbours.moves == ["-w1/a", "+w2/a"]


def carrier(flag: str, **of_boat: Any) -> dict[str, Any]:
    """Return a ship in which others lie: the provider ``inner`` is configured with its berth."""
    lifecycle = {"replace": "delete_first"}
    return {
        "Ship[carrier]": {"provider": "west", "flag": flag, "lifecycle": lifecycle},
        "Ship[boat]": {"provider": "inner", **of_boat},
    }


INNER = "${Ship[carrier].berth}"


@pytest.mark.parametrize("noop", [False, True])
def test_what_a_provider_has_made_is_not_put_out_of_reach(harbours: Harbours, noop: bool) -> None:  # noqa: FBT001
    """The source of its configuration is replaced: that fails in the plan, and nothing is touched."""
    assert harbours.apply(carrier("red"), west="w", inner=INNER).exit_code == 0
    before = {harbour: dict(ships) for harbour, ships in harbours.ships.items()}
    plan = harbours.runtime.plan(harbours.site(carrier("blue"), west="w", inner=INNER), noop=noop)
    error = next(step.decision.error for step in plan.steps if str(step.reference) == "Ship[carrier]")
    assert error.startswith("cannot be replaced: the provider 'inner' is configured with it, and Ship[boat], which")
    assert harbours.apply(carrier("blue"), west="w", inner=INNER).exit_code == 1
    assert (harbours.moves, harbours.ships) == ([], before)


def test_what_goes_with_the_source_of_the_configuration_is_made_anew() -> None:
    """``deleted_with`` says that it is gone with it: the new one is made where the provider leads then."""
    harbours = Harbours(compares=False)
    lifecycle = {"lifecycle": {"deleted_with": "Ship[carrier]"}}
    assert harbours.apply(carrier("red", **lifecycle), west="w", inner=INNER).exit_code == 0
    assert harbours.apply(carrier("blue", **lifecycle), west="w", inner=INNER).exit_code == 0
    assert [move.partition("/")[2] for move in harbours.moves] == ["carrier", "carrier", "boat"]
    assert harbours.apply(carrier("blue", **lifecycle), west="w", inner=INNER).changed is False


def test_nothing_is_out_of_reach_where_nothing_was_made(harbours: Harbours) -> None:
    """Neither the former content nor a configuration whose value is declared keeps the source."""
    ships = carrier("red")
    harbours.apply({"Ship[carrier]": ships["Ship[carrier]"]}, west="w")
    assert harbours.apply(carrier("blue"), west="w", inner=INNER).exit_code == 0


def test_what_could_not_be_read_has_not_drifted() -> None:
    """A provider that waits for a resource has read nothing: no drift, and what it would make corrects none."""
    harbours = Harbours(compares=False)
    lifecycle = {"lifecycle": {"deleted_with": "Ship[carrier]"}}
    harbours.apply(carrier("red", **lifecycle), west="w", inner=INNER)
    plan = harbours.runtime.plan(harbours.site(carrier("blue", **lifecycle), west="w", inner=INNER))
    boat = next(step for step in plan.steps if str(step.reference) == "Ship[boat]")
    assert (bool(boat.deferred), boat.corrective, list(plan.drift)) == (True, False, [])
    assert "drift" not in str(plan)
