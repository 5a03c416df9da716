"""The law of the types of documents: each has the keys of its schema, and requires those that the schema requires."""

from __future__ import annotations

from typing import Any, NotRequired, get_origin, get_type_hints

import pytest

from resource_api.model import json_documents
from resource_api.system import document_schema


def part(name: str, *keys: str) -> Any:
    """Return a part of a schema: of a property, of the items of a list, or of one of the common parts."""
    schema: Any = document_schema.load(name)
    for key in keys:
        schema = schema["items"] if key == "items" else schema["properties"][key]
    return schema


def keys_of(document: str) -> tuple[set[str], set[str]]:
    """Return the keys of a document, and those that it must have."""
    hints = get_type_hints(getattr(json_documents, document), include_extras=True)
    return set(hints), {key for key, hint in hints.items() if get_origin(hint) is not NotRequired}


def common(name: str) -> Any:
    """Return one of the parts that schemas share."""
    return document_schema.resolved({"$ref": f"common.json#/$defs/{name}"}, "common")


@pytest.mark.parametrize(
    ("document", "schema"),
    [
        ("PlanJson", part("plan")),
        ("PlanStepJson", part("plan", "steps", "items")),
        ("StepOptionsJson", part("plan", "steps", "items", "options")),
        ("RetryJson", part("plan", "steps", "items", "options", "retry")),
        ("StackOutputJson", part("plan", "stacks", "items")),
        ("FailureHandlerJson", part("plan", "only_if_failed", "items")),
        ("OutputChangeJson", part("plan", "output_changes")["additionalProperties"]),
        ("PlannedChangeJson", common("planned_change")),
        ("PathJson", common("planned_change")["properties"]["paths"]["items"]),
        ("SideEffectJson", common("side_effects")["items"]),
        ("ChangeJson", common("change")),
        ("DriftJson", common("drift")),
        ("DriftChangeJson", common("drift")["properties"]["changes"]["items"]),
        ("ProblemJson", common("problem")),
        ("RefreshJson", part("refresh")),
        ("RunJson", part("run")),
        ("RunStepJson", part("run", "steps", "items")),
        ("CallJson", part("run", "calls", "items")),
        ("NotificationJson", part("run", "notifications", "items")),
        ("OverviewJson", part("overview")),
        ("FinishedRunJson", part("overview", "last")),
        ("ChangedResourcesJson", part("overview", "last_change")),
        ("ChangedResourceJson", part("overview", "last_change", "resources", "items")),
        ("FailingResourceJson", part("overview", "failing", "items")),
        ("DriftedResourceJson", part("overview", "drift", "items")),
        ("SlowCallJson", part("overview", "slow", "items")),
        ("RehearsalJson", part("rehearse")),
        ("VerdictJson", part("rehearse", "verdicts", "items")),
        ("FindingJson", part("rehearse", "not_damaged", "items")),
        ("LastRunJson", part("agent-status", "last")),
        ("PauseJson", part("agent-status", "paused")),
        ("EffectJson", part("rehearse", "side_effects", "items")),
    ],
)
def test_a_document_has_the_keys_of_its_schema(document: str, schema: Any) -> None:
    """Otherwise a type would promise keys that a valid document lacks."""
    assert keys_of(document) == (set(schema["properties"]), set(schema["required"]))


def test_counts_are_those_of_a_plan_and_of_a_run() -> None:
    """A run has an exit code and an id beside them."""
    keys, required = keys_of("SummaryJson")
    assert keys_of("CountsJson") == (set(common("counts")["properties"]), set(common("counts")["required"]))
    assert required == keys_of("CountsJson")[1]
    assert keys >= set(part("run", "summary")["properties"])
