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

    def __init__(self) -> None:
        """Start with empty harbours."""
        self.ships: dict[str, dict[str, dict[str, Any]]] = {}
        self.calls: list[str] = []
        here = self

        class Provider(BaseProvider):
            def configure(self, context: Any, config: Mapping[str, Any]) -> None:  # noqa: ARG002
                if config["harbour"] == "closed":
                    msg = "no way in"
                    raise RuntimeError(msg)
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
                        ships[name] = {"flag": should.get("flag")}

        ship = TypeDefinition(
            name="ship",
            docs="A ship.",
            config={"harbour": Attribute("String", "Where it lies.")},
            attributes={
                "name": Attribute("String", "Its name.", kind="namevar"),
                "ensure": Attribute("Enum[present, absent]", "Whether it exists.", default="present"),
                "flag": Attribute("Optional[String]", "What it flies.", kind="init_only"),
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
    (failed,) = [each for each in report.steps if each.status == "failed"]
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
