"""The feature ``plan``: predictions of a provider obey rules, are used by other resources, and must come true."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from resource_api import Attribute, BaseProvider, Planned, Runtime, TypeDefinition
from resource_api.model.values.errors import DefinitionError
from resource_api.model.values.values import UNKNOWN
from resource_api.system.log import ForwardedLog
from tests.lifecycle.world import acted, planned
from tests.registries import registry_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from resource_api.model.report import LogEvent
    from resource_api.plan.planner import ExecutionPlan


class Shelf:
    """A runtime with the type ``cup``, whose provider predicts as the test sets."""

    def __init__(self, *, stable: bool = False) -> None:
        """Predict the true number of every cup; with ``stable`` nothing: its type says that updates keep it."""
        self.rows: dict[str, dict[str, Any]] = {}
        self.foresee: Callable[[str, Mapping[str, Any] | None, Mapping[str, Any]], Any] = lambda name, _is, should: (
            Planned() if stable else Planned({**should, "number": f"N-{name}-{should.get('size')}"})
        )
        #: Row that is to be stored → the one that is.
        self.store: Callable[[dict[str, Any]], dict[str, Any] | None] = dict
        self.requests: list[Mapping[str, Any]] = []
        self.events: list[LogEvent] = []
        shelf = self

        class Provider(BaseProvider):
            def get(self, context: Any) -> Any:  # noqa: ARG002
                return [{"name": name, "ensure": "present", **row} for name, row in shelf.rows.items()]

            def plan(
                self,
                context: Any,  # noqa: ARG002
                name: str,
                is_: Mapping[str, Any] | None,
                should: Mapping[str, Any],
            ) -> Any:
                return shelf.foresee(name, is_, should)

            def set(self, context: Any, changes: Mapping[str, Any]) -> None:  # noqa: ARG002
                for name, (is_, should) in changes.items():
                    if should["ensure"] == "absent":
                        del shelf.rows[name]
                        continue
                    shelf.requests.append(should)
                    stored = {key: value for key, value in should.items() if key in {"size", "colour", "ports"}}
                    row = shelf.store({**(shelf.rows[name] if is_ else {}), **stored})
                    if row is not None:
                        shelf.rows[name] = {**row, "number": f"N-{name}-{row.get('size')}"}

        cup = TypeDefinition(
            name="cup",
            docs="A cup.",
            features={"plan"},
            attributes={
                "name": Attribute("String", "Its name.", kind="namevar"),
                "ensure": Attribute("Enum[present, absent]", "Whether it exists.", default="present"),
                "size": Attribute("Optional[Integer]", "How big it is."),
                "colour": Attribute("Optional[String]", "Its colour."),
                "ports": Attribute("Optional[Array[Hash[String, Data]]]", "Its ports."),
                "number": Attribute("Optional[String]", "Its number.", kind="read_only", stable=stable),
            },
        )
        log = ForwardedLog("debug", self.events.append)
        self.runtime = Runtime(registry_of((cup, Provider)), log=log)

    def plan(self, **resources: Any) -> ExecutionPlan:
        """Plan cups."""
        return self.runtime.plan(site(resources))

    def apply(self, **resources: Any) -> Any:
        """Apply cups."""
        return self.runtime.apply(site(resources))


def site(resources: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest of cups."""
    return {"project": "shelf", "resources": {f"Cup[{name}]": values for name, values in resources.items()}}


@pytest.fixture
def shelf() -> Shelf:
    """Return an empty shelf."""
    return Shelf()


def test_a_predicted_value_is_known_to_others_in_the_plan(shelf: Shelf) -> None:
    """A read_only value is not unknown, for creations and updates."""
    resources = {"a": {"size": 1}, "b": {"colour": "${Cup[a].number}"}}
    assert shelf.plan(**resources).steps[1].should["colour"] == "N-a-1"
    assert shelf.apply(**resources).exit_code == 0
    resources["a"]["size"] = 2  # type: ignore[assignment] # a number among texts
    assert shelf.plan(**resources).steps[1].should["colour"] == "N-a-2"
    shelf.apply(**resources)
    assert shelf.rows["b"]["colour"] == "N-a-2"
    assert planned(shelf.plan(**resources)) == {}


def test_an_attribute_that_a_prediction_names_unknown_is_unknown(shelf: Shelf) -> None:
    """Also if the prediction contains a value for it."""
    shelf.foresee = lambda _name, _is, should: Planned({**should, "number": "N"}, unknown=["number"])
    assert shelf.plan(a={"size": 1}, b={"colour": "${Cup[a].number}"}).steps[1].should["colour"] is UNKNOWN


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Planned({"size": 5}), "'size' is planned as 5, but declared as 2"),
        (Planned({"colour": 3}), "'colour' is planned as 3, which its data type Optional[String] refuses"),
        (Planned({"name": "b"}), "'name' is planned as b, but declared as a"),
        (Planned({"weight": 1}), "no attribute 'weight'"),
        (Planned(unknown=["size"]), "'size' is planned as not yet known, but declared"),
        (Planned({"number": 7}), "'number' is planned as 7, which its data type Optional[String] refuses"),
        (Planned(replace=["weight"]), "no attribute 'weight'"),
        (None, "plan must return Planned"),
        ({"size": 2}, "plan must return Planned"),
        (Planned(3), "plan must give state as a mapping of attributes to values, not int"),  # type: ignore[arg-type] # wrong on purpose
        (Planned(replace=True), "plan must give replace as a list of attributes, not bool"),  # type: ignore[arg-type] # wrong on purpose
        (Planned(unknown="number"), "plan must give unknown as a list of attributes, not str"),
        (ZeroDivisionError("oops"), "plan failed: ZeroDivisionError: oops"),
    ],
)
def test_an_invalid_prediction_fails_its_resource_and_changes_nothing(shelf: Shelf, answer: Any, words: str) -> None:
    """It is detected in the plan; other resources of the type are applied."""
    shelf.rows = {"a": {"size": 1, "colour": "blue", "number": "N-a-1"}}

    def foresee(name: str, _is: Any, should: Mapping[str, Any]) -> Any:
        if name != "a":
            return Planned(should)
        if isinstance(answer, Exception):
            raise answer
        return answer

    shelf.foresee = foresee
    assert words in shelf.plan(a={"size": 2}).steps[0].decision.error
    assert acted(shelf.apply(a={"size": 2}, b={})) == {"Cup[a]": ("update", "failed"), "Cup[b]": ("create", "success")}
    assert shelf.rows["a"]["size"] == 1


def test_a_predicted_value_of_a_wrong_type_is_an_error_of_the_provider(shelf: Shelf) -> None:
    """Not of the line that refers to it."""
    shelf.foresee = lambda _name, _is, should: Planned({**should, "number": 7} if "size" in should else should)
    steps = shelf.plan(a={"size": 1}, b={"colour": "${Cup[a].number}"}).steps
    assert "the plan of its provider 'cup' is wrong: 'number' is planned as 7" in steps[0].decision.error
    assert steps[1].decision.error == ""


def test_a_prediction_must_come_true(shelf: Shelf) -> None:
    """Otherwise the resource fails, with both values; it is recorded as it is."""
    shelf.foresee = lambda _name, _is, should: Planned({**should, "number": "N-7"})
    (report,) = shelf.apply(a={"size": 1}).steps
    assert report.status == "failed"
    assert "number is N-a-1, should be N-7" in report.error


def test_a_prediction_that_differs_from_the_plan_fails(shelf: Shelf) -> None:
    """Other resources were planned with the first prediction."""
    requested = []

    def foresee(_name: str, _is: Any, should: Mapping[str, Any]) -> Planned:
        requested.append(1)
        return Planned({**should, "number": f"N-{len(requested)}"})

    shelf.foresee = foresee
    (report,) = shelf.apply(a={"size": 1}).steps
    assert "plans number otherwise than before" in report.error
    assert shelf.rows == {}


def test_a_provider_can_require_a_replacement_unless_that_is_never(shelf: Shelf) -> None:
    """That is sufficient permission; unchanged attributes are no reason; ``delete_first`` must be stated."""
    shelf.foresee = lambda _name, _is, should: Planned(should, replace=["size"], delete_first=True)
    shelf.apply(a={"size": 1})
    assert planned(shelf.plan(a={"size": 1, "colour": "red"})) == {"Cup[a]": "update"}
    never = {"size": 2, "lifecycle": {"replace": "never"}}
    assert "lifecycle.replace is never" in shelf.plan(a=never).steps[0].decision.error
    decision = shelf.plan(a={"size": 2}).steps[0].decision
    assert decision.reasons == ("its provider cannot change size in place",)
    assert tuple(decision.replaces_because) == ("size",)
    assert acted(shelf.apply(a={"size": 2})) == {"Cup[a]": ("replace", "success")}
    first = {"size": 3, "lifecycle": {"replace": "create_first"}}
    assert "delete first" in shelf.plan(a=first).steps[0].decision.error


def test_a_stable_value_is_known_over_an_update_and_unknown_over_a_replacement() -> None:
    """Without a word of the provider; the update fails if the provider changes it, naming it and both values."""
    shelf = Shelf(stable=True)
    resources: dict[str, Any] = {"a": {"size": 1}, "b": {"colour": "${Cup[a].number}"}}
    assert shelf.plan(**resources).steps[1].should["colour"] is UNKNOWN
    shelf.apply(**resources)
    assert planned(shelf.plan(**{**resources, "a": {"size": 1, "colour": "red"}})) == {"Cup[a]": "update"}
    assert shelf.apply(**{**resources, "a": {"size": 1, "colour": "red"}}).exit_code == 0
    replaced = {**resources, "a": {"size": 1, "colour": "blue", "lifecycle": {"replace_on_changes": ["colour"]}}}
    assert planned(shelf.plan(**replaced)) == {"Cup[a]": "replace", "Cup[b]": "update"}
    first, second = shelf.apply(a={"size": 2}, b={"colour": "${Cup[a].number}"}).steps
    assert first.error == "did not keep number, which is stable: it was N-a-1 and is N-a-2"
    assert second.status != "failed"
    assert shelf.rows["b"]["colour"] == "N-a-1"


def test_an_undeclared_property_can_be_predicted(shelf: Shelf) -> None:
    """It is shown in the plan, known to others, and must come true; one that will be another is unknown."""
    shelf.foresee = lambda _name, _is, should: Planned({"colour": "red", **should})
    resources = {"a": {"size": 1}, "b": {"colour": "${Cup[a].colour}"}}
    plan = shelf.plan(**resources)
    assert plan.steps[1].should["colour"] == "red"
    assert " colour: (none) → red (predicted)" in str(plan)
    expected = {"attribute": "colour", "is": None, "should": "red", "message": None, "kind": "add"}
    assert plan.to_dict()["steps"][0]["predicted"] == [expected]
    assert shelf.apply(a={"size": 1}).steps[0].error == "did not converge: colour is (none), should be red"
    shelf.rows["a"]["colour"] = "blue"
    shelf.foresee = lambda _name, _is, should: Planned(should, unknown={"colour"} - should.keys())
    plan = shelf.plan(a={"size": 2}, b={"colour": "${Cup[a].colour}"})
    assert " colour: blue → (known after apply) (predicted)" in str(plan)
    assert plan.steps[1].should["colour"] is UNKNOWN
    shelf.apply(a={"size": 2}, b={"colour": "${Cup[a].colour}"})
    assert shelf.rows["b"]["colour"] == "blue"


def test_a_declared_value_can_be_planned_as_it_is(shelf: Shelf) -> None:
    """It means the same: nothing differs, and ``set`` gets the present value; a reference is to what is declared."""
    shelf.rows = {"a": {"size": 1, "colour": "Red"}}
    shelf.foresee = lambda _name, is_, should: Planned(
        {**should, "colour": is_["colour"]} if is_ and is_["colour"].lower() == should["colour"] else should
    )
    assert planned(shelf.plan(a={"size": 1, "colour": "red"})) == {}
    assert planned(shelf.plan(a={"size": 1, "colour": "blue"})) == {"Cup[a]": "update"}
    resources = {"a": {"size": 2, "colour": "red"}, "b": {"colour": "${Cup[a].colour}"}}
    (change,) = shelf.plan(**resources).steps[0].changes
    assert change.attribute == "size"
    assert shelf.apply(**resources).exit_code == 0
    assert (shelf.rows["a"]["colour"], shelf.rows["b"]["colour"]) == ("Red", "red")
    assert planned(shelf.plan(a={"size": 2, "colour": "red"})) == {}


def test_a_prediction_must_not_contradict_stable() -> None:
    """Neither with another value nor with none; for what is replaced it may."""
    shelf = Shelf(stable=True)
    shelf.rows = {"a": {"size": 1, "number": "N-a-1"}}
    shelf.foresee = lambda _name, _is, should: Planned({**should, "number": "N-a-2"})
    assert "'number' is planned as N-a-2, but it is N-a-1 and stable" in shelf.plan(a={"size": 2}).steps[0].error
    shelf.foresee = lambda _name, _is, should: Planned(should, unknown=["number"])
    assert "'number' is planned as not yet known, but stable" in shelf.plan(a={"size": 2}).steps[0].error
    shelf.foresee = lambda _name, _is, should: Planned({**should, "number": "N"}, replace=["size"])
    assert planned(shelf.plan(a={"size": 2})) == {"Cup[a]": "replace"}


def test_only_a_read_only_attribute_can_be_stable() -> None:
    """What is set changes when it is set."""
    attributes = {"name": Attribute("String", kind="namevar"), "size": Attribute("Integer", stable=True)}
    with pytest.raises(DefinitionError, match="attribute 'size': only a read_only attribute can be stable"):
        TypeDefinition(name="cup", docs="A cup.", attributes=attributes)


def test_a_creation_that_cannot_be_planned_is_shown_as_one(shelf: Shelf) -> None:
    """In the plan and in the report: by what it would have been."""
    shelf.foresee = lambda _name, _is, _should: Planned({"weight": 1})
    (step,) = shelf.plan(a={"size": 1}).to_dict()["steps"]
    assert (step["action"], "no attribute 'weight'" in step["error"]) == ("create", True)
    assert acted(shelf.apply(a={"size": 1})) == {"Cup[a]": ("create", "failed")}


def test_a_provider_that_plans_is_asked_although_nothing_declared_differs(shelf: Shelf) -> None:
    """What it changes besides is shown by its attribute, done, and silent in the next run."""
    shelf.rows = {"a": {"size": 1, "colour": "blue", "number": "N-a-1"}}
    shelf.foresee = lambda name, _is, _should: Planned(changes=["colour"] if "colour" in shelf.rows[name] else [])
    (step,) = shelf.plan(a={"size": 1}).steps
    assert [(change.attribute, change.is_, change.should) for change in step.changes] == [("colour", "blue", None)]
    shelf.store = lambda row: {"size": row["size"]}
    assert acted(shelf.apply(a={"size": 1})) == {"Cup[a]": ("update", "success")}
    assert "colour" not in shelf.rows["a"]
    assert planned(shelf.plan(a={"size": 1})) == {}


def test_a_change_of_an_undeclared_attribute_must_come_true_and_can_be_ignored(shelf: Shelf) -> None:
    """The value that stays is named; ``ignore_changes`` leaves it alone, and ``set`` gets the present one."""
    shelf.rows = {"a": {"size": 1, "colour": "blue", "number": "N-a-1"}}
    shelf.foresee = lambda _name, _is, _should: Planned(changes=["colour"])
    report = shelf.apply(a={"size": 1})
    assert report.steps[0].error == "did not converge: colour is blue, should be (none)"
    report = shelf.apply(a={"size": 2, "lifecycle": {"ignore_changes": ["colour"]}})
    assert acted(report) == {"Cup[a]": ("update", "success")}
    assert (shelf.rows["a"]["size"], shelf.requests[-1]["colour"]) == (2, "blue")


def test_members_that_a_provider_completes_are_no_difference(shelf: Shelf) -> None:
    """The plan shows the completed value, the result has it, and the next plan is silent."""

    def foresee(_name: str, _is: Any, should: Mapping[str, Any]) -> Planned:
        return Planned({"ports": [{**port, "uid": f"u{port['number']}"} for port in should["ports"]]})

    def store(row: dict[str, Any]) -> dict[str, Any]:
        return {**row, "ports": [{**port, "uid": f"u{port['number']}"} for port in row["ports"]]}

    shelf.foresee, shelf.store = foresee, store
    assert shelf.apply(a={"ports": [{"number": 80}]}).exit_code == 0
    assert planned(shelf.plan(a={"ports": [{"number": 80}]})) == {}
    (step,) = shelf.plan(a={"ports": [{"number": 81}]}).steps
    assert step.changes[0].should == [{"number": 81, "uid": "u81"}]
    assert shelf.apply(a={"ports": [{"number": 81}]}).exit_code == 0
    assert planned(shelf.plan(a={"ports": [{"number": 81}]})) == {}


def test_a_tolerant_plan_need_not_come_true(shelf: Shelf) -> None:
    """Broken rules and other results are lines for debugging; a resource that is missing fails nevertheless."""
    shelf.foresee = lambda _name, _is, _should: Planned({"size": 7, "number": "N-7"}, tolerant=True)
    shelf.store = lambda row: {**row, "size": 5}
    assert shelf.apply(a={"size": 1}).exit_code == 0
    assert (shelf.rows["a"]["size"], shelf.rows["a"]["number"]) == (5, "N-a-5")
    lines = [event.text for event in shelf.events]
    assert "planned: 'size' is planned as 7, but declared as 1" in lines
    assert "the result differs from the plan: size is 5, should be 1; number is N-a-5, should be N-7" in lines
    shelf.store = lambda _row: None
    assert shelf.apply(b={"size": 1}).exit_code == 1
