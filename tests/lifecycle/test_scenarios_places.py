"""Places in values: a part that replaces, members that nobody declares, and every member by ``*``."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest

from resource_api import Attribute, ManifestError, Planned, Runtime, SimpleProvider, TypeDefinition
from resource_api.model.values.values import Sensitive, declared_part, parse_place, with_present
from tests.lifecycle.world import planned
from tests.registries import registry_of

if TYPE_CHECKING:
    from collections.abc import Mapping


class Service:
    """A runtime with the type ``item``, to whose ``body`` the service adds a number and a counter of changes."""

    def __init__(self, *, immutable: tuple[str, ...] = ()) -> None:
        """Begin with no item."""
        self.bodies: dict[str, dict[str, Any]] = {}
        self.created = 0
        service = self

        class Provider(SimpleProvider):
            def get(self, context: Any) -> Any:  # noqa: ARG002
                for name, body in service.bodies.items():
                    yield {"name": name, "body": deepcopy(body), "number": body["number"]}

            def create(self, context: Any, name: str, should: Mapping[str, Any]) -> None:  # noqa: ARG002
                service.created += 1
                service.bodies[name] = {"number": service.created, "changes": 0, **should["body"]}

            def update(self, context: Any, name: str, should: Mapping[str, Any]) -> None:  # noqa: ARG002
                body = service.bodies[name]
                service.bodies[name] = {**body, **should["body"], "changes": body["changes"] + 1}

            def delete(self, context: Any, name: str) -> None:  # noqa: ARG002
                del service.bodies[name]

            def plan(self, context: Any, name: str, is_: Any, should: Any) -> Planned:  # noqa: ARG002
                return Planned(replace=immutable)

        definition = TypeDefinition(
            name="item",
            docs="An item.",
            attributes={
                "name": Attribute("String", "Its name.", kind="namevar"),
                "ensure": Attribute("Enum[present, absent]", "Whether it exists.", default="present"),
                "body": Attribute("Hash[String, Any]", "Its fields.", default={}, merged=True),
                "number": Attribute("Optional[Integer]", "Its number.", kind="read_only"),
            },
            features={"plan"},
        )
        self.runtime = Runtime(registry_of((definition, Provider)), state="memory:")

    def plan(self, **items: Any) -> Any:
        """Plan items."""
        return self.runtime.plan(manifest(items))

    def apply(self, **items: Any) -> Any:
        """Apply items."""
        return self.runtime.apply(manifest(items))


def manifest(items: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest of items."""
    return {"project": "web", "resources": {f"Item[{name}]": values for name, values in items.items()}}


def test_members_that_nobody_declares_are_no_difference_and_no_drift() -> None:
    """Of a merged attribute: they change by themselves, and the plan shows the declared ones alone."""
    service = Service()
    body = {"region": "eu", "tags": {"a": 1}}
    assert service.apply(x={"body": body}).exit_code == 0
    service.bodies["x"] |= {"changes": 9, "tags": {"a": 1, "b": 2}}
    assert str(service.plan(x={"body": body})) == "Plan: nothing to do; 1 unchanged."
    service.bodies["x"]["region"] = "us"
    text = str(service.plan(x={"body": body}))
    assert "~ Item[x] (drift)" in text or "# Item[x] has drifted: body.region was eu, is us" in text
    assert "    body.region: us → eu" in text
    assert "number" not in text
    assert "changes" not in text


def test_the_log_names_the_parts_that_were_changed(caplog: pytest.LogCaptureFixture) -> None:
    """Neither the rest of the value, nor what only the other side has."""
    caplog.set_level("INFO")
    service = Service()
    service.bodies["x"] = {"region": "eu", "size": 1, "number": 7, "changes": 0}
    report = service.apply(x={"body": {"region": "us", "size": 2, "new": True}})
    assert report.exit_code == 0
    assert "body.region changed from eu to us; body.size changed from 1 to 2; body.new changed from (none) to true" in (
        caplog.text
    )
    assert "number" not in caplog.text


def test_a_secret_part_stays_hidden_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """The parts beside it are named."""
    caplog.set_level("INFO")
    service = Service()
    service.bodies["x"] = {"word": "former-word", "size": 1, "number": 7, "changes": 0}
    plan = service.plan(x={"body": {"word": Sensitive("later-word"), "size": 2}})
    assert "body.size: 1 → 2" in str(plan)
    assert service.apply(x={"body": {"word": Sensitive("later-word"), "size": 2}}).exit_code == 0
    assert "body.size changed from 1 to 2" in caplog.text
    assert not any(word in f"{plan}{caplog.text}" for word in ("former-word", "later-word"))


@pytest.mark.parametrize("way", ["manifest", "provider"])
def test_a_part_of_a_value_can_need_a_replacement(way: str) -> None:
    """By ``replace_on_changes`` or the provider's plan; a change of another part is an update."""
    service = Service(immutable=("body.region", "body.disks[*].type") if way == "provider" else ())
    body: dict[str, Any] = {"region": "eu", "size": 1, "disks": [{"type": "ssd", "size": 1}]}
    lifecycle = {"replace_on_changes": ["body.region", "body.disks[*].type"]} if way == "manifest" else {}
    service.apply(x={"body": body})
    for change, action, path in [
        ({"size": 2}, "update", ""),
        ({"disks": [{"type": "ssd", "size": 2}]}, "update", ""),
        ({"region": "us"}, "replace", "body.region"),
        ({"disks": [{"type": "hdd", "size": 1}]}, "replace", "body.disks[*].type"),
    ]:
        plan = service.plan(x={"body": body | change, "lifecycle": lifecycle})
        assert planned(plan) == {"Item[x]": action}
        assert (f"# a change of {path} replaces it" in str(plan)) is bool(path)
    number = service.bodies["x"]["number"]
    report = service.apply(x={"body": {**body, "region": "us"}, "lifecycle": lifecycle})
    assert (report.summary.replaced, service.bodies["x"]["number"]) == (1, number + 1)


def test_a_part_that_replaces_can_be_forbidden_or_ignored() -> None:
    """As a whole attribute can."""
    service = Service(immutable=("body.region",))
    service.apply(x={"body": {"region": "eu"}})
    expected = {"body": {"region": "us"}}
    report = service.apply(x={**expected, "lifecycle": {"replace": "never"}})
    assert "body.region" in str(report.steps[0].error)
    assert planned(service.plan(x={**expected, "lifecycle": {"ignore_changes": ["body.region"]}})) == {}
    assert planned(service.plan(x={**expected, "lifecycle": {"ignore_changes": ["*"]}})) == {}
    assert service.bodies["x"]["region"] == "eu"


def test_an_unknown_part_alone_replaces_nothing_for_certain() -> None:
    """It may turn out to be equal; a known part that differs decides."""
    service = Service(immutable=("body.region", "body.zone"))
    body = {"region": 2, "zone": "a"}
    service.apply(x={"body": body})
    late = {"region": "${Item[y].number}", "zone": "a"}
    plan = service.plan(y={}, x={"body": late})
    assert planned(plan) == {"Item[y]": "create", "Item[x]": "update"}
    assert (
        "if body.region changes; fails then: its provider cannot change body.region in place; lifecycle.replace"
        in str(plan)
    )
    plan = service.plan(y={}, x={"body": {**late, "zone": "b"}})
    assert planned(plan) == {"Item[y]": "create", "Item[x]": "replace"}
    report = service.apply(y={}, x={"body": late})
    assert (report.exit_code, service.bodies["x"]["number"]) == (0, 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("body.*", {"a": 1, "b": [{"c": 1, "d": 1}]}),
        ("body.b[*].c", {"a": 2, "b": [{"c": 1, "d": 2}], "new": 2}),
        ("body['b'][*]['c']", {"a": 2, "b": [{"c": 1, "d": 2}], "new": 2}),
        ("body.b.*", {"a": 2, "b": [{"c": 1, "d": 1}], "new": 2}),
        ("body['*']", {"a": 2, "b": [{"c": 2, "d": 2}], "new": 2}),
    ],
)
def test_a_star_is_every_member(text: str, expected: Any) -> None:
    """Of a hash or an array; a key that is a star stands in quotes."""
    is_ = {"a": 1, "b": [{"c": 1, "d": 1}]}
    should = {"a": 2, "b": [{"c": 2, "d": 2}], "new": 2}
    assert with_present(should, is_, parse_place(text)[1]) == expected


def test_a_wrong_place_that_replaces_is_refused() -> None:
    """With the place in the manifest, and the names that exist."""
    service = Service()
    for text, message in [("bdy.region", "unknown attribute 'bdy'"), ("body..x", "is no place in an attribute")]:
        with pytest.raises(ManifestError, match=r"lifecycle\.replace_on_changes") as caught:
            service.plan(x={"lifecycle": {"replace_on_changes": [text]}})
        assert message in str(caught.value)


@pytest.mark.parametrize(
    ("is_", "should", "part"),
    [
        ({"a": 1, "b": 2}, {"a": 3}, {"a": 1}),
        ({"a": 1}, {"b": None}, {"b": None}),
        ({"a": {"x": 1, "y": 2}}, {"a": {"y": 3}}, {"a": {"y": 2}}),
        ([{"a": 1, "id": 7}], [{"a": 1}], [{"a": 1}]),
        ([{"a": 1, "id": 7}], [], [{"a": 1, "id": 7}]),
        (None, {"a": 1}, None),
    ],
)
def test_the_declared_part_has_the_declared_members(is_: Any, should: Any, part: Any) -> None:
    """At any depth; one that is not there is null."""
    assert declared_part(is_, should) == part
