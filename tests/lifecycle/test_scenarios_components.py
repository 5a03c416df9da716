"""Components: groups of resources that are declared as one, and metaparameters that apply to all of them."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from resource_api import Attribute, ComponentDefinition, DefinitionError, Sensitive
from resource_api.model.values.errors import ManifestError, UsageError
from resource_api.render import json as documents
from resource_api.render import plan as plan_text
from tests.lifecycle.world import Bench, acted, manifest, planned

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

HOUSE = ComponentDefinition(
    name="house",
    docs="Two things and an engine.",
    inputs={
        "size": Attribute("Integer[1]", "How big.", default=1),
        "colour": Attribute("Optional[String]", "How it looks."),
        "key": Attribute("Optional[Sensitive[String]]", "Opens it."),
    },
    outputs={"serial": "The number of its wall.", "size": "How big it is."},
)


def house(m: Any) -> None:
    """Declare a wall, a roof that depends on it, and an engine."""
    wall = m.thing("wall", name=f"{m.title}-wall", size=m.inputs.size, colour=m.inputs.colour, password=m.inputs.key)
    m.thing("roof", name=f"{m.title}-roof", colour=wall.serial, require=wall)
    m.engine(f"{m.title}-engine", size=m.inputs.size, require="Thing[roof]")
    m.output("serial", wall.serial)
    m.output("size", m.inputs.size)


WALL, ROOF, ENGINE = "House[a]/Thing[wall]", "House[a]/Thing[roof]", "House[a]/Engine[a-engine]"


@pytest.fixture
def bench() -> Bench:
    """Return a bench in which houses can be declared."""
    bench = Bench()
    bench.registry.register_component(HOUSE, house)
    return bench


def add(bench: Bench, name: str, build: Callable[[Any], object], **inputs: str) -> None:
    """Register a component whose inputs are given as data types."""
    attributes = {word: Attribute(datatype, word) for word, datatype in inputs.items()}
    bench.registry.register_component(ComponentDefinition(name=name, docs=name, inputs=attributes), build)


def problems(bench: Bench, resources: Mapping[str, Any]) -> str:
    """Return the problems of a manifest of these resources."""
    with pytest.raises(ManifestError) as caught:
        bench.plan(resources)
    return str(caught.value)


def test_a_component_is_expanded_to_its_resources(bench: Bench) -> None:
    """They have its position and contain its name, and a second run finds them in sync."""
    site = {"Setting[s]": {}, "House[a]": {"size": 3}}
    bench.put("setting", s={})
    assert acted(bench.apply(site)) == dict.fromkeys((WALL, ROOF, ENGINE), ("create", "success"))
    assert bench.world.things["thing"]["a-wall"]["size"] == 3
    assert bench.world.things["thing"]["a-roof"]["colour"] == "S-a-wall"
    assert acted(bench.apply(site)) == {}
    assert "notice: House[a]/Thing[wall]: created" not in bench.lines


def test_urns_and_records_contain_the_component(bench: Bench) -> None:
    """The chain of types, and the chain of titles."""
    plan = bench.plan({"House[a]": {}})
    assert plan.steps[0].urn == "urn:resource:default::world::house$thing::a::wall"
    bench.apply({"House[a]": {}})
    record = bench.state.records["thing", "a-wall"]
    assert (str(record.reference), record.parent, record.title) == (WALL, "House[a]", "wall")


def test_two_uses_of_a_component_share_no_title(bench: Bench) -> None:
    """The walls of both are two walls; a third wall is the manifest's own."""
    bench.apply({"House[a]": {}, "House[b]": {}, "Thing[wall]": {}})
    assert bench.names() == ["a-roof", "a-wall", "b-roof", "b-wall", "wall"]


def test_two_components_cannot_declare_the_same_resource(bench: Bench) -> None:
    """An identity belongs to one declaration."""
    add(bench, "hut", lambda m: m.thing("wall"))
    assert "is the same resource as Hut[a]/Thing[wall]" in problems(bench, {"Hut[a]": {}, "Hut[b]": {}})


def test_an_input_may_be_unknown(bench: Bench) -> None:
    """It is passed on, also in text, in a list and through a second component."""

    def street(m: Any) -> None:
        first = m.house("first", colour=m.inputs.colour)
        m.thing("sign", name="sign", colour=m.text("see {0}, {1}", first.serial, m.inputs.colour))

    add(bench, "street", street, colour="String")
    site = {"Thing[t]": {}, "Street[x]": {"colour": "like ${Thing[t].serial}"}}
    bench.apply(site)
    assert bench.world.things["thing"]["first-wall"]["colour"] == "like S-t"
    assert bench.world.things["thing"]["sign"]["colour"] == "see S-first-wall, like S-t"
    assert acted(bench.apply(site)) == {}
    record = bench.record("Street[x]/Thing[sign]")
    assert record is not None
    assert record.value_requires == {"colour": ["Street[x]/House[first]/Thing[wall]", "Thing[t]"]}


def test_outputs_are_values_with_a_name(bench: Bench) -> None:
    """They keep their data type, may be unknown, and a user of one comes after the whole component."""
    site = {"Thing[t]": {"colour": "${House[a].serial}", "size": "${House[a].size}"}, "House[a]": {"size": 4}}
    bench.apply(site, outputs={"serial": "${House[a].serial}"})
    assert bench.world.things["thing"]["t"] == {"colour": "S-a-wall", "size": 4, "serial": "S-t"}
    assert bench.state.outputs == {"serial": "S-a-wall"}
    assert [name for verb, _, name in bench.world.calls if verb == "create"][-1] == "t"


@pytest.mark.parametrize(
    ("resources", "says"),
    [
        ({"House[a]": {"sise": 1}}, "House[a]: unknown input 'sise'; did you mean 'size'?"),
        ({"House[a]": {"size": 0}}, "House[a]: size must be an integer of at least 1"),
        ({"House[a]": {"size": None}}, "House[a]: input 'size' is missing"),
        ({"House[a]": {"colour": "${inputs.x}"}}, "House[a]: ${inputs.x}: unknown input 'x'"),
        ({"House[a::b]": {}}, "the title of a component cannot hold '::'"),
        ({"House[a]b]": {}}, "the title of a component cannot hold ']'"),
        ({"House[a:]": {}}, "the title of a component cannot end with a colon"),
        (
            {"House[a]": {"lifecycle": {"ignore_changes": ["size"]}}},
            "lifecycle.ignore_changes applies to single resources",
        ),
        ({"House[a]": {"require": "Thing[x]"}}, "House[a]: require: unknown resource 'Thing[x]'"),
        ({"Thing[x]": {"require": "House[a]"}}, "require: unknown resource 'House[a]'"),
        ({"House[a]": {}, "Thing[x]": {"colour": "${House[a].seriel}"}}, "unknown output 'seriel'; did you mean"),
        ({"House[a]": {}, "Thing[x]": {"colour": "${House[b].serial}"}}, "unknown resource 'House[b]'"),
        ({"House[a]": {"require": f"{WALL}"}}, f"dependency cycle: {WALL} => {WALL}"),
        ({"House[a]": {"alias": "c"}, "House[b]": {"alias": "c"}}, "House[b]: the alias 'c' is taken"),
    ],
)
def test_an_error_in_a_declaration_has_its_position(bench: Bench, resources: Mapping[str, Any], says: str) -> None:
    """As for any resource."""
    assert says in problems(bench, resources)


def test_a_mandatory_input_must_be_given(bench: Bench) -> None:
    """Reported once, for the component."""
    add(bench, "hut", lambda m: m.thing(m.title, size=m.inputs.size), size="Integer")
    assert problems(bench, {"Hut[a]": {}}) == "<mapping>: Hut[a]: input 'size' is missing; it is mandatory"


def test_a_recursive_component_is_an_error_with_the_chain(bench: Bench) -> None:
    """Also through another component."""
    add(bench, "one", lambda m: m.two("x"))
    add(bench, "two", lambda m: m.one("y"))
    assert "a component cannot hold itself: One[a] => Two[x] => One[y]" in problems(bench, {"One[a]": {}})


def test_components_nested_too_deep_are_an_error(bench: Bench) -> None:
    """The hundredth within another is the last."""
    for number in range(102):
        add(bench, f"c{number}", partial(_hold, f"c{number + 1}"))
    add(bench, "c102", lambda m: m.thing(m.title))
    assert "components are nested deeper than 100" in problems(bench, {"C0[a]": {}})


def _hold(inner: str, m: Any) -> None:
    getattr(m, inner)("a")


def test_an_exception_in_a_build_is_reported_with_its_line(bench: Bench) -> None:
    """As in a Python manifest; references to it are not errors too, and another use of it may be valid."""

    def hut(m: Any) -> None:
        m.thing(m.title, size=10 // m.inputs.size)
        m.output("odd", 1)

    add(bench, "hut", hut, size="Integer")
    site = {"Hut[a]": {"size": 0}, "Thing[t]": {"require": "Hut[a]", "colour": "${Hut[a].odd}"}}
    (line,) = problems(bench, site).splitlines()
    assert __file__ in line
    assert "Hut[a]: ZeroDivisionError" in line or "division" in line
    message = problems(bench, {"Hut[b]": {"size": 1}, "Thing[t]": {"size": "${Hut[b].odd}"}})
    line = hut.__code__.co_firstlineno + 2
    assert message == f"{__file__}:{line}:9: Hut[b]: sets an output 'odd' that it does not declare"


def test_a_declared_output_must_be_set(bench: Bench) -> None:
    """Users of the output rely on it; it is reported at the function, once, and not where it is used."""

    def hut(m: Any) -> None:
        m.thing("x")

    definition = ComponentDefinition(name="hut", docs="A hut.", outputs={"door": "The door."})
    bench.registry.register_component(definition, hut)
    message = problems(bench, {"Thing[t]": {"colour": "${Hut[a].door}"}, "Hut[a]": {}})
    text = f"{__file__}:{hut.__code__.co_firstlineno}:1"
    assert message == f"{text}: Hut[a]: declares an output 'door' and does not set it"


def test_a_wrong_output_is_reported_where_it_is_set(bench: Bench) -> None:
    """Once, whether it is used or not, also through the output of a component around it."""

    def hut(m: Any) -> None:
        m.output("door", m.thing("x").door)

    def yard(m: Any) -> None:
        m.output("door", m.hut("b").door)

    for name, build in (("hut", hut), ("yard", yard)):
        outputs = {"door": "The door."}
        bench.registry.register_component(ComponentDefinition(name=name, docs="A part.", outputs=outputs), build)
    message = problems(bench, {"Thing[t]": {"colour": "${Yard[a].door}"}, "Yard[a]": {}})
    line = hut.__code__.co_firstlineno + 1
    location = "Yard[a]/Hut[b]: output 'door': ${Yard[a]/Hut[b]/Thing[x].door}"
    assert message == f"{__file__}:{line}:9: {location}: unknown attribute 'door'"


def test_a_wrong_input_is_reported_where_it_is_given(bench: Bench) -> None:
    """Once, whatever passes it on: a resource of the component, a component within it, an output."""

    def hut(m: Any) -> None:
        m.thing("x", colour=m.inputs.colour)

    def yard(m: Any) -> None:
        m.hut("b", colour=m.inputs.colour)
        m.output("colour", m.inputs.colour)

    for name, build, outputs in (("hut", hut, {}), ("yard", yard, {"colour": "The colour."})):
        inputs = {"colour": Attribute("String")}
        definition = ComponentDefinition(name=name, docs="A part.", inputs=inputs, outputs=outputs)
        bench.registry.register_component(definition, build)
    message = problems(
        bench, {"Yard[a]": {"colour": "${Thing[z].colour}"}, "Thing[t]": {"colour": "${Yard[a].colour}"}}
    )
    assert message == "<mapping>: Yard[a]: ${Thing[z].colour}: unknown resource 'Thing[z]'; did you mean 'Thing[t]'?"


def test_an_error_in_its_resources_has_their_position(bench: Bench) -> None:
    """The line of the component's file, and the full name."""
    add(bench, "hut", lambda m: m.thing("wall", sise=1))
    message = problems(bench, {"Hut[a]": {}})
    assert __file__ in message
    assert "Hut[a]/Thing[wall]: unknown attribute 'sise'; did you mean 'size'?" in message


def test_a_build_cannot_compare_unknown_values(bench: Bench) -> None:
    """The resources of a component do not depend on the results of a run."""
    add(bench, "hut", lambda m: m.thing("x" if m.inputs.colour else "y"), colour="String")
    site = {"Thing[t]": {}, "Hut[a]": {"colour": "${Thing[t].serial}"}}
    assert "is not known yet and cannot be tested" in problems(bench, site)


# What is said of a component is said of all that it has made


@pytest.mark.parametrize("how", ["require", "subscribe"])
def test_a_dependent_of_a_component_waits_for_all_its_resources(bench: Bench, how: str) -> None:
    """It is skipped if any of them fails."""
    site = {"Thing[t]": {how: "House[a]"}, "House[a]": {}}
    with bench.troubled(**{"a-wall": "fail"}):
        report = bench.apply(site)
    assert acted(report)["Thing[t]"] == ("create", "skipped")
    bench.apply(site)
    assert bench.names() == ["a-roof", "a-wall", "t"]


def test_all_resources_of_a_component_wait_for_its_dependencies(bench: Bench) -> None:
    """None of them is started if a dependency fails."""
    site = {"House[a]": {"require": "Thing[t]"}, "Thing[t]": {}}
    with bench.troubled(t="fail"):
        report = bench.apply(site)
    assert {end for _, end in acted(report).values()} == {"failed", "skipped"}
    assert bench.names() == []


def test_a_component_can_require_another(bench: Bench) -> None:
    """All resources of one come before all of the other."""
    bench.apply({"House[a]": {"require": "House[b]"}, "House[b]": {}})
    calls = [name for verb, _, name in bench.world.calls if verb == "create"]
    assert [name[0] for name in calls] == ["b"] * 3 + ["a"] * 3


def test_a_component_notifies_and_is_notified(bench: Bench) -> None:
    """A change of any of its resources refreshes; a refresh reaches all that can be refreshed."""
    site = {"Engine[e]": {"subscribe": "House[a]"}, "House[a]": {"subscribe": "Thing[t]"}, "Thing[t]": {}}
    bench.apply(site)
    bench.world.things["thing"]["a-roof"]["colour"] = "odd"
    report = bench.apply(site)
    assert acted(report) == {ROOF: ("update", "success"), "Engine[e]": ("refresh", "success")}
    bench.world.things["thing"]["t"]["size"] = 3
    site["Thing[t]"] = {"size": 1}
    assert acted(bench.apply(site))[ENGINE] == ("refresh", "success")


def test_its_resources_inherit_metaparameters(bench: Bench) -> None:
    """Their own win, but noop resources stay noop."""

    def hut(m: Any) -> None:
        m.thing("x", noop=False, tag="own", loglevel="debug", lifecycle={"protect": False})
        m.thing("y")

    add(bench, "hut", hut)
    message = {"noop": True, "tag": ["outer"], "loglevel": "info", "timeout": 7, "lifecycle": {"protect": True}}
    x, y = bench.plan({"Hut[a]": message}).catalog.entries
    assert (x.meta.noop, y.meta.noop) == (True, True)
    assert (x.meta.tags, y.meta.tags) == ({"own", "outer"}, {"outer"})
    assert (x.meta.loglevel, y.meta.loglevel) == ("debug", "info")
    assert (x.meta.timeout, y.meta.timeout) == (7, 7)
    assert (x.meta.lifecycle.protect, y.meta.lifecycle.protect) == (False, True)


def test_protection_of_a_component_protects_its_resources(bench: Bench) -> None:
    """Also after its declaration is removed."""
    bench.apply({"House[a]": {"lifecycle": {"protect": True}}})
    report = bench.apply({}, prune=True)
    assert {status for _, status in acted(report).values()} == {"failed"}
    assert bench.names() == ["a-roof", "a-wall"]


def test_a_change_of_a_component_triggers_a_replacement(bench: Bench) -> None:
    """As a change of a resource does."""
    site = {"House[a]": {}, "Thing[t]": {"lifecycle": {"replace_triggered_by": ["House[a]"]}}}
    bench.apply(site)
    site["House[a]"] = {"size": 2}
    assert planned(bench.plan(site))["Thing[t]"] == "replace"


@pytest.mark.parametrize(
    ("wish", "chosen"),
    [
        ({"targets": ("House[a]",)}, "a a a"),
        ({"targets": ("house[?]",)}, "a a a b b b"),
        ({"targets": ("House",), "excludes": ("House[b]",)}, "a a a"),
        ({"targets": ("House[a]/Thing[wall]",)}, "a"),
        ({"targets": ("Thing[wall]",)}, "a b"),
        ({"targets": ("urn:resource:default::world::house$thing::a::wall",)}, "a"),
        ({"targets": ("urn:resource:default::world::house::a",)}, "a a a"),
        ({"targets": ("Engine",)}, "a b"),
        ({"targets": ("House[a]/*",)}, "a a a"),
        ({"tags": frozenset({"house"})}, "a a a b b b"),
        ({"tags": frozenset({"a"})}, "a a a"),
        ({"skip_tags": frozenset({"house"})}, "t"),
    ],
)
def test_a_component_can_be_a_target(bench: Bench, wish: dict[str, Any], chosen: str) -> None:
    """All of it by its name, or one resource by its own."""
    plan = bench.plan({"House[a]": {}, "House[b]": {}, "Thing[t]": {}}, **wish)
    assert [str(step.name)[0] for step in plan.steps] == chosen.split()


def test_a_replacement_can_be_requested_for_a_component(bench: Bench) -> None:
    """For all its resources."""
    bench.apply({"House[a]": {}})
    plan = bench.plan({"House[a]": {}}, replace=("House[a]",))
    assert planned(plan) == dict.fromkeys((WALL, ROOF, ENGINE), "replace")
    for wrong, says in (("House[b]", "matches no resource"), ("urn:resource:x", "is not a URN")):
        with pytest.raises(UsageError, match=says):
            bench.plan({"House[a]": {}}, replace=(wrong,))


def test_pruning_a_component_deletes_dependents_first(bench: Bench) -> None:
    """Destroying does the same."""
    for verb in (lambda: bench.apply({}, prune=True), lambda: bench.destroy({})):
        bench.apply({"House[a]": {}, "Thing[t]": {"require": "House[a]"}})
        verb()
        assert [name for _, _, name in bench.world.calls] == ["t", "a-engine", "a-roof", "a-wall"]
        assert bench.state.records == {}


def test_an_alias_of_a_component_is_a_second_name(bench: Bench) -> None:
    """For relationships and outputs."""
    site = {"House[a]": {"alias": "home"}, "Thing[t]": {"require": "House[home]", "colour": "${House[home].serial}"}}
    bench.apply(site)
    assert bench.world.things["thing"]["t"]["colour"] == "S-a-wall"


def test_secrets_given_to_a_component_stay_secret(bench: Bench) -> None:
    """In plans, lines and state; also in text, if unknown, or passed on to an attribute that is no secret itself."""

    def safe(m: Any) -> None:
        assert isinstance(m.inputs.code, Sensitive)
        assert isinstance(m.inputs.later, Sensitive)
        m.thing("x", colour=m.text("code {0}", m.inputs.code))
        m.thing("y", colour=m.inputs.later)
        m.thing("z", colour=m.text("{0}!", m.inputs.later))

    add(bench, "safe", safe, code="Sensitive[String]", later="Sensitive[String]")
    site = {"Thing[t]": {}, "Safe[a]": {"code": "secret1", "later": "${Thing[t].serial}"}}
    plan = bench.plan(site)
    assert "secret1" not in "".join(plan_text.lines(plan)) + json.dumps(documents.plan(plan))
    bench.runtime.apply(manifest(site))
    rows = bench.world.things["thing"]
    assert [rows[name]["colour"].reveal() for name in "xyz"] == ["code secret1", "S-t", "S-t!"]
    assert "secret1" not in repr((bench.state, bench.lines))


def test_a_component_cannot_be_called_like_a_type(bench: Bench) -> None:
    """Nor like another component."""
    for name in ("thing", "house"):
        with pytest.raises(DefinitionError, match="registered already"):
            bench.registry.register_component(ComponentDefinition(name=name, docs=""), house)


@pytest.mark.parametrize(
    ("keywords", "says"),
    [
        ({"name": "A B"}, "the name 'A B' must be lower case"),
        ({"name": "x", "inputs": {"a": Attribute("String", kind="namevar")}}, "input 'a': an input has no kind"),
        ({"name": "x", "inputs": {"require": Attribute("String")}}, "input 'require': the name is reserved"),
        ({"name": "x", "inputs": {"a": Attribute("Strin")}}, "input 'a': data type 'Strin'"),
        ({"name": "x", "outputs": {"a": 1}}, "output 'a': the documentation must be a string"),
        ({"name": "x", "outputs": {"A": "x"}}, "output 'A': the name must be lower case"),
        ({"name": "x", "inputs": []}, "inputs must be a mapping"),
        ({"name": "x", "input": {}}, "unknown keyword 'input'; did you mean 'inputs'?"),
    ],
)
def test_all_errors_of_a_component_definition_are_reported(keywords: dict[str, Any], says: str) -> None:
    """When it is defined."""
    with pytest.raises(DefinitionError) as caught:
        ComponentDefinition(**keywords)
    assert says in str(caught.value)


def test_a_component_may_have_no_resources(bench: Bench) -> None:
    """Its dependents wait for nothing."""
    add(bench, "hut", lambda _m: None)
    assert acted(bench.apply({"Hut[a]": {}, "Thing[t]": {"require": "Hut[a]"}})) == {"Thing[t]": ("create", "success")}


def test_a_component_is_searched_once_for_each_type(bench: Bench) -> None:
    """A manifest without components searches once for each type."""
    requested: list[str] = []
    find = bench.registry.component
    bench.registry.component = lambda name: requested.append(name) or find(name)  # type: ignore[method-assign, func-returns-value]
    bench.runtime.compile(manifest({f"Thing[{n}]": {} for n in range(50)} | {"Engine[e]": {}}))
    assert requested == ["thing", "engine"]


# Names that components and their resources had


def test_moving_a_resource_into_a_component_changes_nothing(bench: Bench) -> None:
    """It is the same resource with a longer name. Moving it out changes nothing either."""
    for there in ({"Thing[wall]": {"name": "a-wall", "size": 1}}, {"House[a]": {}}, {"Thing[w]": {"name": "a-wall"}}):
        report = bench.apply(there)
        assert [end for end in acted(report).values() if end[0] != "create"] == []
    record = bench.state.records["thing", "a-wall"]
    assert (str(record.reference), record.owned) == ("Thing[w]", True)
    (step,) = [step for step in bench.plan({"House[a]": {}}).steps if str(step.reference) == WALL]
    assert (str(step.action), step.previous) == ("same", "Thing[w]")


@pytest.mark.parametrize("how", ["title", "reference", "urn", "moved"])
def test_a_renamed_component_keeps_its_resources(bench: Bench, how: str) -> None:
    """Its former name applies to all its resources; titles that begin with the component's are converted."""

    def row(m: Any) -> None:
        m.thing(f"{m.title}-left")
        m.house("right")

    add(bench, "row", row)
    bench.apply({"Row[old]": {}, "Thing[t]": {"require": "Row[old]"}})
    objects = bench.world.things["thing"]
    objects["new-left"] = objects.pop("old-left")
    alias = {"title": "old", "reference": "Row[old]", "urn": "urn:resource:default::world::row::old"}.get(how)
    site = {"Row[new]": {"lifecycle": {"aliases": [alias]}} if alias else {}}
    moved = [{"from": "Row[old]", "to": "Row[new]"}] if how == "moved" else []
    assert acted(bench.apply(site, moved=moved)) == {}
    assert {str(record.reference) for record in bench.state.records.values()} == {
        *("Row[new]/Thing[new-left]", "Row[new]/House[right]/Thing[wall]", "Row[new]/House[right]/Thing[roof]"),
        *("Row[new]/House[right]/Engine[right-engine]", "Thing[t]"),
    }
    assert bench.state.records["thing", "new-left"].owned
    assert all(name.startswith("Row[new]/") for name in bench.state.records["thing", "t"].requires)


def test_an_orphan_of_a_renamed_component_still_belongs_to_it(bench: Bench) -> None:
    """So that it can be pruned with the component."""
    created = ["x", "y"]

    def row(m: Any) -> None:
        for name in created:
            m.thing(name)

    add(bench, "row", row)
    bench.apply({"Row[old]": {}})
    del created[1]
    site = {"Row[new]": {"lifecycle": {"aliases": ["old"]}}}
    bench.apply(site)
    assert bench.state.records["thing", "y"].parent == "Row[new]"
    report = bench.apply(site, prune=True, targets=("Row[new]",))
    assert acted(report) == {"Row[new]/Thing[y]": ("delete", "success")}


def test_removed_forgets_all_resources_of_a_component(bench: Bench) -> None:
    """``removed`` applies to all of them."""
    bench.apply({"House[a]": {}, "Thing[t]": {}})
    report = bench.apply({"Thing[t]": {}}, removed=["House[a]"], prune=True)
    assert acted(report) == dict.fromkeys((WALL, ROOF, ENGINE), ("forget", "success"))
    assert bench.names() == ["a-roof", "a-wall", "t"]


@pytest.mark.parametrize("removed", ["Row[old]/Thing[y]", "Row[new]/Thing[y]"])
@pytest.mark.parametrize("how", ["moved", "alias"])
def test_a_part_of_a_renamed_component_is_forgotten_by_either_name(bench: Bench, how: str, removed: str) -> None:
    """``--prune`` would delete it otherwise; the other part is ours as before."""
    created = ["x", "y"]
    add(bench, "row", lambda m: [m.thing(name) for name in created] and None)
    bench.apply({"Row[old]": {}})
    del created[1]
    site: dict[str, Any] = {"Row[new]": {"lifecycle": {"aliases": ["old"]} if how == "alias" else {}}}
    moved = [{"from": "Row[old]", "to": "Row[new]"}] if how == "moved" else []
    report = bench.apply(site, moved=moved, removed=[removed], prune=True)
    assert {action for action, _ in acted(report).values()} == {"forget"}
    assert (bench.names(), list(bench.state.records)) == (["x", "y"], [("thing", "x")])


@pytest.mark.parametrize("removed", ["House[a]", WALL])
def test_a_component_that_is_still_declared_is_not_removed(bench: Bench, removed: str) -> None:
    """Nor is anything that it makes."""
    with pytest.raises(ManifestError, match="is removed, and still declared at"):
        bench.plan({"House[a]": {}}, removed=[removed])


def test_a_component_that_is_still_declared_cannot_be_moved(bench: Bench) -> None:
    """As with a resource."""
    with pytest.raises(ManifestError, match=r"House\[a\] is still declared"):
        bench.plan({"House[a]": {}, "House[b]": {}}, moved=[{"from": "House[a]", "to": "House[b]"}])


def test_an_intent_contains_the_component(bench: Bench) -> None:
    """After a kill the next run reports the full name, also if it is no longer declared."""
    with bench.troubled(**{"a-wall": "late"}):
        bench.killed({"House[a]": {}})
    report = bench.apply({}, prune=True)
    assert acted(report) == {WALL: ("delete", "success")}
    assert bench.names() == []


def test_a_build_cannot_change_the_system(bench: Bench, tmp_path: Path) -> None:
    """A write is refused at its line; reading is allowed."""
    (tmp_path / "text").write_text("blue")

    def hut(m: Any) -> None:
        m.thing("x", colour=(tmp_path / "text").read_text())
        (tmp_path / "written").write_text("x")

    add(bench, "hut", hut)
    message = problems(bench, {"Hut[a]": {}})
    assert __file__ in message
    assert "Hut[a]: a component must not change the system; refused: open" in message
    assert [path.name for path in tmp_path.iterdir()] == ["text"]


def test_triggers_of_a_component_and_of_its_resources_are_joined(bench: Bench) -> None:
    """An unknown one is reported once, for the component."""
    add(bench, "hut", lambda m: m.thing("x", lifecycle={"replace_triggered_by": ["Thing[b]"]}))
    site: dict[str, Any] = {
        "Thing[a]": {"size": 1},
        "Thing[b]": {"size": 1},
        "Hut[h]": {"lifecycle": {"replace_triggered_by": ["Thing[a]"]}},
    }
    bench.apply(site)
    for name in "ab":
        changed = {**site, f"Thing[{name}]": {"size": 2}}
        assert planned(bench.plan(changed))["Hut[h]/Thing[x]"] == "replace"
    site["Hut[h]"] = {"lifecycle": {"replace_triggered_by": ["Thing[q]"]}}
    (line,) = problems(bench, site).splitlines()
    assert line.startswith("<mapping>: Hut[h]: lifecycle: unknown resource 'Thing[q]'")


@pytest.mark.parametrize(
    ("host", "says"),
    [("House[a]", "House[a] is a component; name one of its resources"), ("nothing", "is not a reference")],
)
def test_deleted_with_names_a_resource_and_no_component(bench: Bench, host: str, says: str) -> None:
    """A component is never deleted itself."""
    for declared in ("Thing[t]", "House[b]"):
        (line,) = problems(bench, {"House[a]": {}, declared: {"lifecycle": {"deleted_with": host}}}).splitlines()
        assert says in line


def test_nothing_moves_to_a_resource_of_another_type(bench: Bench) -> None:
    """The record would stay where it is, without a word."""
    with pytest.raises(
        ManifestError, match=r"Thing\[x\] cannot have moved to Gadget\[new\]: a resource keeps its type"
    ):
        bench.plan({"Gadget[new]": {}}, moved=[{"from": "Thing[x]", "to": "Gadget[new]"}])


def test_moved_can_name_resources_of_components(bench: Bench) -> None:
    """After a resource was renamed outside, ``moved`` declares its former name; also one within a component."""
    bench.apply({"Thing[x]": {"size": 1}})
    objects = bench.world.things["thing"]
    objects["a-wall"] = objects.pop("x")
    bench.apply({"House[a]": {}}, moved=[{"from": "Thing[x]", "to": WALL}])
    assert bench.state.records["thing", "a-wall"].owned
    assert ("thing", "x") not in bench.state.records
    objects["y"] = objects.pop("a-wall")
    assert acted(bench.apply({"Thing[y]": {}}, moved=[{"from": WALL, "to": "Thing[y]"}])) == {}
    record = bench.record("Thing[y]")
    assert record is not None
    assert record.owned
