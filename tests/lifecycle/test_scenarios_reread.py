"""A resource is read at its turn: what a change before it has done to it is seen, and mended, in the same run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api import Attribute, BaseProvider, Runtime, TypeDefinition
from resource_api.model.report import Drifted, StepEnd
from resource_api.render import json as documents
from resource_api.render import plan as plan_text
from resource_api.runtime import saved_plan
from tests.lifecycle.world import acted
from tests.registries import registry_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from resource_api.model.report import Event

_ATTRIBUTES = {
    "name": Attribute("String", kind="namevar"),
    "ensure": Attribute("Enum[present, absent]", default="present"),
    "size": Attribute("Optional[Integer]"),
    "origin": Attribute("Optional[String]", kind="init_only"),
    "serial": Attribute("Optional[Integer]", kind="read_only"),
    "facts": Attribute("Optional[Hash]", kind="read_only"),
}
#: Two types whose resources do more than they say; the second cannot be filtered, the third is noop'ed by a handler.
_TYPES = {
    "cause": TypeDefinition(name="cause", attributes=_ATTRIBUTES, features={"simple_get_filter", "refreshable"}),
    "leaf": TypeDefinition(name="leaf", attributes=_ATTRIBUTES, features={"simple_get_filter", "refreshable"}),
    "whole": TypeDefinition(name="whole", attributes=_ATTRIBUTES),
    "sham": TypeDefinition(name="sham", attributes=_ATTRIBUTES, features={"simple_get_filter", "noop_handler"}),
}


class Machine:
    """Resources in memory, what a change of one does to others, and the calls that were made."""

    def __init__(self) -> None:
        """Start without resources and effects."""
        self.rows: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in _TYPES}
        #: (type, name) → what happens besides, whenever that is set.
        self.effects: dict[tuple[str, str], Callable[[], object]] = {}
        self.reads: list[tuple[str, tuple[str, ...] | None]] = []
        self.sets: list[tuple[str, str]] = []
        self.refreshes: list[str] = []
        self.failing: set[tuple[str, str]] = set()
        self.unreadable: set[str] = set()
        self.events: list[Event] = []
        registry = registry_of(*((definition, self._provider(definition)) for definition in _TYPES.values()))
        self.runtime = Runtime(registry, state="memory:", project="turn", on_event=self.events.append)

    def _provider(self, definition: TypeDefinition) -> type[BaseProvider]:
        machine, kind = self, definition.name

        class Provider(BaseProvider):
            def get(self, _context: Any, names: Collection[str] | None = None) -> list[dict[str, Any]]:
                return machine.read(kind, names)

            def set(self, context: Any, changes: Mapping[str, Any]) -> None:
                machine.set(kind, changes, context)

            def refresh(self, _context: Any, names: Collection[str]) -> None:
                machine.refreshes.extend(names)
                for name in names:
                    machine.effects.get((kind, name), lambda: None)()

        class Sham(Provider):
            refresh = None

            def set(self, context: Any, changes: Mapping[str, Any], *, noop: bool = False) -> None:
                machine.set(kind, changes, context, noop=noop)

        if "noop_handler" in definition.features:
            return Sham
        if "refreshable" not in definition.features:
            del Provider.refresh
        return Provider

    def read(self, kind: str, names: Collection[str] | None) -> list[dict[str, Any]]:
        """Return the rows of a type, as its provider does."""
        self.reads.append((kind, None if names is None else tuple(names)))
        if kind in self.unreadable:
            raise RuntimeError(f"no {kind} can be read")
        rows = self.rows[kind]
        return [{"name": name, **rows[name]} for name in (rows if names is None else names) if name in rows]

    def set(self, kind: str, changes: Mapping[str, Any], context: Any, *, noop: bool = False) -> None:
        """Change resources, as their provider does."""
        for name, (_, should) in changes.items():
            self.sets.append((kind + (" noop" if noop else ""), name))
            if (kind, name) in self.failing:
                context.failed(name, message="does not work")
            elif not noop:
                self.change(kind, name, dict(should))

    def change(self, kind: str, name: str, should: dict[str, Any]) -> None:
        """Set a resource, and do what happens besides."""
        if should.pop("ensure", "present") == "absent":
            self.rows[kind].pop(name, None)
        else:
            del should["name"]
            self.rows[kind][name] = {**self.rows[kind].get(name, {}), **should}
        self.effects.get((kind, name), lambda: None)()

    def put(self, kind: str, name: str, **values: Any) -> Callable[[], object]:
        """Return a function that makes a resource exist with values."""
        return lambda: self.rows[kind].__setitem__(name, values)

    def apply(self, resources: Mapping[str, Any], **options: Any) -> Any:
        """Apply resources; calls and events are those of this run."""
        self.reads, self.sets, self.refreshes = [], [], []
        self.events.clear()
        return self.runtime.apply({"resources": dict(resources)}, **options)

    def ends(self) -> list[dict[str, Any]]:
        """Return the documents of the ended steps of the last run."""
        return [documents.step_end(event.report) for event in self.events if isinstance(event, StepEnd)]


@pytest.fixture
def machine() -> Machine:
    """Return a new machine."""
    return Machine()


@pytest.mark.parametrize("kind", ["leaf", "whole", "cause"])
def test_a_resource_that_an_earlier_change_creates_is_absent_after_the_first_run(machine: Machine, kind: str) -> None:
    """The change is counted and reported as any other, and the second run changes nothing."""
    machine.effects["cause", "a"] = machine.put(kind, "x", size=1)
    site = {"Cause[a]": {}, f"{kind.title()}[x]": {"ensure": "absent"}}
    if kind == "cause":
        site = {"Cause[a]": {}, "Leaf[between]": {}, "Cause[x]": {"ensure": "absent"}}
    report = machine.apply(site)
    assert (report.exit_code, report.summary.deleted) == (0, 1)
    assert "x" not in machine.rows[kind]
    (end,) = (end for end in machine.ends() if end["action"] == "delete")
    assert (end["late"], end["status"], end["changes"][0]["is"]) == (True, "success", "present")
    assert machine.apply(site).summary.changed == 0


def test_a_resource_that_an_earlier_change_removes_or_alters_is_restored(machine: Machine) -> None:
    """What is declared is there in the end; the change is corrective, and no drift."""
    site = {"Cause[a]": {"size": 1}, "Leaf[x]": {"size": 1}, "Leaf[y]": {"size": 1}}
    machine.apply(site)

    def spoil() -> None:
        del machine.rows["leaf"]["x"]
        machine.rows["leaf"]["y"] = {"size": 2}

    machine.effects["cause", "a"] = spoil
    report = machine.apply({**site, "Cause[a]": {"size": 2}})
    assert acted(report) == {
        "Cause[a]": ("update", "success"),
        "Leaf[x]": ("create", "success"),
        "Leaf[y]": ("update", "success"),
    }
    assert [end.get("late") for end in machine.ends()] == [None, True, True]
    assert [end["corrective"] for end in machine.ends()] == [False, True, True]
    assert not any(isinstance(event, Drifted) for event in machine.events)
    assert machine.rows["leaf"] == {"x": {"size": 1}, "y": {"size": 1}}
    assert machine.apply({**site, "Cause[a]": {"size": 2}}).summary.changed == 0


@pytest.mark.parametrize("size", [1, 2])
def test_a_resource_that_an_earlier_change_makes_is_ours_and_goes_with_it(machine: Machine, size: int) -> None:
    """A file that came with a package of the same manifest was not there before; destroy undoes what was done to it."""
    machine.effects["cause", "a"] = machine.put("leaf", "x", size=1)
    site = {"Cause[a]": {}, "Leaf[x]": {"size": size, "require": "Cause[a]"}}
    assert machine.apply(site).summary.updated == size - 1
    machine.effects.clear()
    machine.runtime.destroy({"resources": site})
    assert machine.sets[-2:] == [("leaf", "x"), ("cause", "a")]
    assert machine.rows["leaf"] == {}
    machine.rows["leaf"]["x"] = {"size": 1}
    machine.apply(site)
    machine.runtime.destroy({"resources": site})
    assert machine.rows["leaf"] == {"x": {"size": size}}


def test_a_value_that_comes_with_an_earlier_change_is_unknown_in_the_plan(machine: Machine) -> None:
    """Its resource is read again after what it requires; without such a step a missing value is an error."""
    machine.rows["leaf"]["x"] = {"size": 1, "facts": {}}
    machine.effects["cause", "a"] = lambda: machine.rows["leaf"]["x"].update(facts={"port": 80})
    leaf = {"size": 1, "require": "Cause[a]"}
    site = {"Cause[a]": {}, "Leaf[x]": leaf, "Whole[y]": {"size": "${Leaf[x].facts.port}"}}
    plan = machine.runtime.plan({"resources": site, "outputs": {"port": "${Leaf[x].facts.port}"}})
    assert "size: (none) → (known after apply)" in str(plan)
    assert "port: (none) → (known after apply)" in str(plan)
    assert machine.apply(site).exit_code == 0
    assert machine.rows["whole"]["y"]["size"] == 80
    machine.rows["leaf"]["x"]["facts"] = {}
    errors = [step.decision.error for step in machine.runtime.plan({"resources": site}).steps]
    assert errors == ["", "", "${Leaf[x].facts.port}: there is no 'port'; it is empty"]


def test_a_late_change_notifies(machine: Machine) -> None:
    """A service whose file an earlier change has spoilt is refreshed after the file is mended."""
    site = {"Cause[a]": {"size": 1}, "Leaf[x]": {"size": 1, "notify": "Leaf[z]"}, "Leaf[z]": {"size": 1}}
    machine.apply(site)
    machine.effects["cause", "a"] = machine.put("leaf", "x", size=7)
    report = machine.apply({**site, "Cause[a]": {"size": 2}})
    assert (report.summary.updated, report.summary.refreshed, machine.refreshes) == (2, 1, ["z"])


def test_a_refresh_is_a_change_too(machine: Machine) -> None:
    """What a restarted service does to a later resource is seen."""
    site = {"Cause[a]": {"size": 1, "notify": "Cause[b]"}, "Cause[b]": {}, "Leaf[x]": {"ensure": "absent"}}
    machine.apply(site)
    machine.effects["cause", "b"] = machine.put("leaf", "x")
    report = machine.apply({**site, "Cause[a]": {"size": 2, "notify": "Cause[b]"}})
    assert (report.exit_code, acted(report)["Leaf[x]"], machine.rows["leaf"]) == (0, ("delete", "success"), {})


def test_a_failed_change_is_a_change_too(machine: Machine) -> None:
    """A package that could not be installed may have left something."""
    machine.failing = {("cause", "a")}
    site = {"Cause[a]": {}, "Leaf[x]": {}}
    machine.apply({"Leaf[x]": {}})
    machine.apply(site)
    assert machine.reads.count(("leaf", ("x",))) == 2


def test_nothing_is_read_again_where_nothing_changes(machine: Machine) -> None:
    """A second run reads each type once; so does one that only forgets, imports, or is noop."""
    site = {f"{kind}[{number}]": {} for number in range(9) for kind in ("Cause", "Leaf")}
    machine.apply(site)
    machine.apply(site)
    assert len(machine.reads) == 2
    machine.put("cause", "i")()
    machine.apply({"Cause[i]": {"lifecycle": {"import": "i"}}, **site})
    assert len(machine.reads) == 2
    machine.apply({**site, "Cause[0]": {"size": 5}}, noop=True)
    assert len(machine.reads) == 2


def test_one_get_reads_all_of_a_type_up_to_the_next_planned_change(machine: Machine) -> None:
    """A thousand resources of two types that alternate are not read a thousand times."""
    pairs = {f"{kind}[{number}]": {} for number in range(500) for kind in ("Cause", "Leaf")}
    machine.apply(pairs)
    machine.apply({"Leaf[first]": {}, **pairs})
    assert len(machine.reads) <= 8
    assert machine.apply({"Leaf[second]": {}, **pairs, "Cause[499]": {"size": 4}}).summary.changed == 2
    assert len(machine.reads) <= 10


def test_a_type_without_filter_is_read_once_between_two_changes(machine: Machine) -> None:
    """All of it is read anyway."""
    site = {f"{kind}[{number}]": {} for number in range(50) for kind in ("Whole", "Leaf")}
    machine.apply(site)
    machine.apply({"Cause[a]": {}, **site})
    assert [kind for kind, _ in machine.reads].count("whole") == 2


def test_the_members_of_a_call_are_not_read_again_for_it(machine: Machine) -> None:
    """A set that changes one resource of its segment is verified for that one alone."""
    machine.apply({"Leaf[a]": {"size": 1}, "Leaf[b]": {}, "Leaf[c]": {}})
    machine.apply({"Leaf[a]": {"size": 2}, "Leaf[b]": {}, "Leaf[c]": {}})
    assert [names for _, names in machine.reads] == [("a", "b", "c"), ("a",)]


def test_a_late_change_is_a_change_for_those_after_it(machine: Machine) -> None:
    """What it spoils is mended as well."""
    site = {"Cause[a]": {"size": 1}, "Leaf[x]": {"ensure": "absent"}, "Whole[y]": {"size": 1}}
    machine.apply(site)
    machine.effects["cause", "a"] = machine.put("leaf", "x")
    machine.effects["leaf", "x"] = machine.put("whole", "y", size=9)
    report = machine.apply({**site, "Cause[a]": {"size": 2}})
    assert (report.summary.deleted, report.summary.updated, machine.rows["whole"]["y"]) == (1, 2, {"size": 1})


def test_what_must_be_skipped_is_not_read(machine: Machine) -> None:
    """Also not with others of its type that one call reads."""
    site = {"Cause[a]": {"size": 1}, "Leaf[x]": {}, "Whole[w]": {}, "Leaf[y]": {"require": "Cause[a]"}}
    machine.apply(site)
    machine.failing = {("cause", "a")}
    report = machine.apply({**site, "Cause[a]": {"size": 2}})
    assert (report.summary.failed, report.summary.skipped) == (1, 1)
    assert ("leaf", ("x",)) in machine.reads


def test_a_type_that_cannot_be_read_at_its_turn_fails_its_resources(machine: Machine) -> None:
    """They may not be as declared any more, and nobody can tell."""
    site = {"Cause[a]": {"size": 1}, "Leaf[x]": {}, "Leaf[y]": {}}
    machine.apply(site)
    machine.effects["cause", "a"] = lambda: machine.unreadable.add("leaf")
    report = machine.apply({**site, "Cause[a]": {"size": 2}})
    assert acted(report)["Leaf[y]"] == ("same", "failed")
    assert (report.exit_code, report.summary.failed, report.steps[-1].error) == (1, 2, "no leaf can be read")


@pytest.mark.parametrize(
    ("declared", "becomes", "error"),
    [
        ({"origin": "a", "lifecycle": {"replace": "delete_first"}}, {"origin": "b"}, "would be replaced; plan again"),
        ({"ensure": "absent", "lifecycle": {"protect": True}}, {}, "would be deleted; plan again"),
        ({"origin": "a"}, {"origin": "b"}, "'origin' can only be set at creation: it is b and should be a"),
    ],
)
def test_a_replacement_or_a_deletion_that_is_forbidden_needs_another_plan(
    machine: Machine, declared: dict[str, Any], becomes: dict[str, Any], error: str
) -> None:
    """Nothing is touched that the plan has not shown and the manifest does not want outright."""
    site = {"Cause[a]": {"size": 1}, "Leaf[x]": declared}
    machine.apply(site)
    machine.effects["cause", "a"] = machine.put("leaf", "x", **becomes)
    report = machine.apply({**site, "Cause[a]": {"size": 2}})
    assert (report.exit_code, report.steps[-1].reference) == (1, "Leaf[x]")
    assert report.steps[-1].error.startswith(error)
    assert machine.rows["leaf"] == {"x": becomes}


@pytest.mark.parametrize("kind", ["leaf", "sham"])
def test_a_noop_resource_that_has_become_different_is_reported_only(machine: Machine, kind: str) -> None:
    """A provider with a noop handler is called with ``noop``; nothing changes."""
    reference = f"{kind.title()}[x]"
    site = {"Cause[a]": {"size": 1}, reference: {"size": 1, "noop": True}}
    machine.put(kind, "x", size=1)()
    machine.apply(site)
    machine.effects["cause", "a"] = machine.put(kind, "x", size=2)
    report = machine.apply({**site, "Cause[a]": {"size": 2}})
    assert (acted(report)[reference], report.summary.unchanged) == (("update", "noop"), 0 + 1)
    assert machine.rows[kind]["x"] == {"size": 2}
    assert (("sham noop", "x") in machine.sets) is (kind == "sham")


def test_values_come_from_the_new_reading(machine: Machine) -> None:
    """A value that refers to a resource whose change was not planned has the value that is there now."""
    machine.put("leaf", "x", serial=1)()
    site = {"Cause[a]": {"size": 1}, "Leaf[x]": {}, "Leaf[y]": {"size": "${Leaf[x].serial}"}}
    machine.apply(site)
    machine.effects["cause", "a"] = machine.put("leaf", "x", serial=2)
    report = machine.apply({**site, "Cause[a]": {"size": 2}})
    assert (report.exit_code, machine.rows["leaf"]["y"]["size"]) == (0, 2)


def test_side_by_side_only_what_depends_on_a_change_is_read_again(machine: Machine) -> None:
    """At any distance, and declared or not: without a relationship there is no order."""
    site = {
        "Cause[a]": {"size": 1},
        "Whole[between]": {"require": "Cause[a]"},
        "Leaf[x]": {"size": 1, "require": "Whole[between]"},
        "Leaf[other]": {},
    }
    machine.apply(site)
    machine.effects["cause", "a"] = machine.put("leaf", "x", size=5)
    report = machine.apply({**site, "Cause[a]": {"size": 2}}, parallel=4)
    assert acted(report)["Leaf[x]"] == ("update", "success")
    assert [names for kind, names in machine.reads if kind == "leaf"][1:] == [("x",), ("x",)]


def test_a_plan_says_what_may_change(machine: Machine) -> None:
    """In its document, and for people with ``-v``; what depends on no step is not marked."""
    site = {
        "Cause[a]": {"size": 1},
        "Leaf[x]": {"require": "Cause[a]"},
        "Whole[y]": {"require": "Leaf[x]"},
        "Whole[notified]": {"subscribe": "Cause[a]"},
        "Leaf[free]": {},
    }
    machine.apply(site)
    plan = machine.runtime.plan({"resources": {**site, "Cause[a]": {"size": 2}}})
    steps = {step["reference"]: step.get("may_change") for step in plan.to_dict()["steps"]}
    dependents = dict.fromkeys(("Leaf[x]", "Whole[y]", "Whole[notified]"), True)
    assert steps == {"Cause[a]": None, "Leaf[free]": None, **dependents}
    assert "read again" not in str(plan)
    lines = list(plan_text.lines(plan, verbose=True))
    assert "  Leaf[x] (read again after Cause[a])" in lines
    assert "  Whole[y] (read again after Cause[a])" in lines
    notes = "cannot be refreshed: notify and subscribe only order; read again after Cause[a]"
    assert f"  Whole[notified] ({notes})" in lines


def _saved(machine: Machine, site: Mapping[str, Any], path: Path) -> Any:
    """Save the plan of resources and carry it out; return the report."""
    saved_plan.write(machine.runtime.plan({"resources": dict(site)}), str(path))
    machine.sets = []
    return machine.runtime.apply(str(path))


@pytest.mark.parametrize("declared", [{"size": 1}, {"ensure": "absent"}])
def test_a_saved_plan_does_what_it_has_pointed_to(machine: Machine, declared: dict[str, Any], tmp_path: Path) -> None:
    """A resource that depends on a step of it is created, updated, or deleted where that is declared."""
    site = {"Cause[a]": {"size": 1}, "Leaf[x]": {**declared, "require": "Cause[a]"}}
    machine.apply(site)
    machine.effects["cause", "a"] = machine.put("leaf", "x", size=3)
    report = _saved(machine, {**site, "Cause[a]": {"size": 2}}, tmp_path / "plan.json")
    assert report.exit_code == 0
    assert machine.rows["leaf"] == ({"x": {"size": 1}} if "size" in declared else {})


@pytest.mark.parametrize("between", [{"noop": True, "size": 7}, {"lifecycle": {"external": True}}, None])
def test_a_plan_points_to_what_depends_on_a_step_by_way_of_a_resource_that_is_left_alone(
    machine: Machine, between: dict[str, Any] | None, tmp_path: Path
) -> None:
    """One that is noop, only read, or no target."""
    site = {"Cause[a]": {"size": 1}, "Whole[y]": {}, "Leaf[x]": {"size": 1, "require": "Whole[y]"}}
    machine.apply(site)
    site |= {"Cause[a]": {"size": 2}, "Whole[y]": {**(between or {}), "require": "Cause[a]"}}
    targets = ["Cause[a]", "Leaf[x]"] if between is None else []
    path = tmp_path / "plan.json"
    plan = machine.runtime.plan({"resources": site}, targets=targets, out=path)
    assert "  Leaf[x] (read again after Cause[a])" in plan_text.lines(plan, verbose=True)
    machine.effects["cause", "a"] = machine.put("leaf", "x", size=3)
    assert machine.runtime.apply(str(path)).exit_code == 0
    assert machine.rows["leaf"]["x"]["size"] == 1


def test_a_saved_plan_fails_for_what_it_has_not_pointed_to(machine: Machine, tmp_path: Path) -> None:
    """Nothing in it said that this resource may change."""
    site = {"Cause[a]": {"size": 1}, "Leaf[x]": {"size": 1}}
    machine.apply(site)
    machine.effects["cause", "a"] = machine.put("leaf", "x", size=3)
    report = _saved(machine, {**site, "Cause[a]": {"size": 2}}, tmp_path / "plan.json")
    assert (report.exit_code, report.steps[-1].error) == (1, "is no longer as planned; plan again")
    assert machine.rows["leaf"] == {"x": {"size": 3}}


_KINDS = st.sampled_from(["cause", "leaf", "whole"])
_RESOURCES = st.lists(st.tuples(_KINDS, st.integers(0, 5)), min_size=1, max_size=12, unique=True)


@given(_RESOURCES, st.data())
def test_the_first_run_is_true_whatever_changes_do_besides(
    resources: list[tuple[str, int]], data: st.DataObject
) -> None:
    """In order, a second run has nothing to do, if no change spoils a resource before it or in its own call."""
    machine = Machine()
    states = st.sampled_from([{"size": 1}, {"size": 2}, {"ensure": "absent"}])
    site = {f"{kind.title()}[{number}]": dict(data.draw(states)) for kind, number in resources}
    for kind, number in data.draw(st.lists(st.sampled_from(resources), max_size=4)):
        machine.put(kind, str(number), size=data.draw(st.integers(1, 2)))()
    for position, (kind, number) in enumerate(resources):
        if later := [resource for resource in resources[position + 1 :] if resource[0] != kind]:
            victim, name = data.draw(st.sampled_from(later))
            machine.effects[kind, str(number)] = data.draw(
                st.sampled_from([machine.put(victim, str(name), size=7), _remove(machine, victim, str(name))])
            )
    assert machine.apply(site).exit_code == 0
    assert machine.apply(site).summary.changed == 0


def _remove(machine: Machine, kind: str, name: str) -> Callable[[], object]:
    return lambda: machine.rows[kind].pop(name, None)
