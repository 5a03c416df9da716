"""The laws of repr: values of a plan and a report show one short line, whatever they contain."""

from __future__ import annotations

from resource_api.model.action import Action
from resource_api.model.attribute import Attribute
from resource_api.model.declaration import Declaration, Manifest
from resource_api.model.entry import Entry
from resource_api.model.record import StackState
from resource_api.model.report import RunReport, StepReport, Summary
from resource_api.model.step import Decision, Operation, PlanContext, Step
from resource_api.model.type_definition import TypeDefinition

FILE = TypeDefinition(name="file", attributes={"path": Attribute("String", kind="namevar")})
ENTRY = Entry(Declaration("file", "/etc/motd", {}, {}), FILE)
CONTEXT = PlanContext(str, [ENTRY] * 1000, {}, dict)
STEP = Step(ENTRY, None, {"path": "x" * 1000}, Decision(Action.CREATE), context=CONTEXT)


def test_a_step_shows_action_and_reference() -> None:
    """Neither its values nor the other entries of the plan."""
    assert repr(STEP) == "<Step create File[/etc/motd]>"
    assert repr(Operation(3, STEP)) == "<Operation 3: create File[/etc/motd]>"
    assert repr(Operation(4, STEP, removal=True)) == "<Operation 4: remove File[/etc/motd]>"
    assert repr(CONTEXT) == "<PlanContext: 1000 entries>"


def test_a_report_shows_counts() -> None:
    """Counts of 0 are left out."""
    summary = Summary(created=1, unchanged=12)
    steps = [StepReport(STEP, Action.CREATE, "success")] * 1000
    assert repr(steps[0]) == "<StepReport success: create File[/etc/motd]>"
    assert repr(RunReport(steps, summary)) == "<Report: 1 created, 12 unchanged>"
    assert (repr(summary), repr(Summary())) == ("<Summary: 1 created, 12 unchanged>", "<Summary: no resources>")


def test_manifests_and_states_show_their_size() -> None:
    """With the file, or with the name of the stack and the serial."""
    declarations = (ENTRY.declaration,) * 1000
    manifest = Manifest("site.yaml", "site", True, {}, {}, {}, {}, declarations, (), (), {}, ())  # noqa: FBT003 - a value
    assert repr(manifest) == "<Manifest site.yaml: 1000 resources>"
    assert repr(StackState("web", "default", serial=3)) == "<StackState web/default: serial 3, 0 records>"
