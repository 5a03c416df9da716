"""The laws of a step: its changes to show."""

from __future__ import annotations

from resource_api.model.action import Action
from resource_api.model.attribute import Attribute
from resource_api.model.change import Difference
from resource_api.model.declaration import Declaration
from resource_api.model.entry import Entry
from resource_api.model.step import Decision, PlanContext, Step
from resource_api.model.type_definition import TypeDefinition

NAMES = ("content", "mode", "owner")
FILE = TypeDefinition(
    name="file",
    attributes={"path": Attribute("String", kind="namevar"), **{name: Attribute("String") for name in NAMES}},
)


def test_a_replacement_shows_each_changed_attribute_once() -> None:
    """It keeps the provider's explanation, and shows no declared value that stays."""
    entry = Entry(Declaration("file", "/etc/motd", {}, {}), FILE)
    is_ = {"path": "/etc/motd", "content": "a", "mode": "0644", "owner": "root"}
    explained = Difference("content", "a", "b", "content changed (+1 -1 lines)")
    should = {**is_, "content": "b", "mode": "0600"}
    decision, context = Decision(Action.REPLACE, [explained]), PlanContext(str, [entry], {}, dict)
    step = Step(entry, is_, should, decision, context=context)
    assert step.changes == (explained, Difference("mode", "0644", "0600"))
