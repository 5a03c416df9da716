"""A saved plan's document → a plan that can be shown: nothing is compiled, read or compared.

What is shown are the steps of the document, which ``apply`` compares with those of a new plan before it does anything.
"""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from resource_api.model import codec
from resource_api.model.action import Action
from resource_api.model.attribute import Attribute
from resource_api.model.change import Difference, SideEffect
from resource_api.model.declaration import Declaration
from resource_api.model.entry import NO_META, Entry
from resource_api.model.options import Options
from resource_api.model.report import Summary
from resource_api.model.step import ADOPTED, Decision, Step
from resource_api.model.type_definition import TypeDefinition
from resource_api.model.values import reference
from resource_api.model.values.errors import DefinitionError
from resource_api.model.values.values import UNKNOWN, Sensitive
from resource_api.plan.drift import Drift
from resource_api.runtime.results import Plan
from resource_api.runtime.saved_plan import refused, state_difference

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from resource_api.plugins.registry import Registry
    from resource_api.state.store import StateStore


class ShownPlan(Plan):
    """The plan of a document, to be shown only; the counts are those of the document."""

    counts: Summary

    @property
    def summary(self) -> Summary:
        """The counts of the document."""
        return self.counts

    @property
    def blocked(self) -> Mapping[int, str]:
        """Nothing: the document has no causes of skipped steps."""
        return {}


def from_document(document: Mapping[str, Any], path: str, registry: Registry) -> ShownPlan:
    """Return the plan of a saved plan's document. Raise ``ManifestError`` where it is not as it was saved.

    ``registry`` says of an attribute whether it is a parameter; a type that it does not have has no parameters.
    """
    try:
        steps = [_step(registry, number, each) for number, each in enumerate(document["steps"])]
        indexes = {str(step.reference): step.entry.index for step in steps}
        subscribed: dict[int, list[int]] = {}
        requires = {
            number: [indexes[name] for name in each["depends_on"] if name in indexes]
            for number, each in enumerate(document["steps"])
        }
        for number, each in enumerate(document["steps"]):
            for name in each["notifies"]:
                if name in indexes:
                    subscribed.setdefault(indexes[name], []).append(number)
        drift = [_drift(each) for each in document["drift"]]
        numbers: dict[str, Any] = {name: int(count) for name, count in document["summary"].items()}
        counts = Summary(**numbers | {"noop": bool(numbers.get("noop"))})
        outputs = [
            _output(name, each, document.get("unknown", ()))
            for name, each in document.get("output_changes", {}).items()
        ]
        used = {(each["stack"], each["output"]): None for each in document.get("stacks", ())}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise refused(path, f"this is not a plan as it was saved: {type(error).__name__}: {error}") from error
    entries, scope = [step.entry for step in steps], SimpleNamespace(stack_outputs=used)
    catalog: Any = SimpleNamespace(subscribes=subscribed, requires=requires, entries=entries, scope=scope)
    prior: Any = SimpleNamespace(orphans={}, state=None)
    plan = ShownPlan(catalog, prior, Options(), steps, drift=drift, output_changes=outputs)
    plan.counts = counts
    return plan


def refreshed(document: Mapping[str, Any]) -> tuple[Sequence[Drift], Sequence[Difference]]:
    """Return the resources and outputs that the document of a refresh names. Raise for one of another form."""
    outputs = [_output(name, each, ()) for name, each in (document.get("output_changes") or {}).items()]
    return [_drift(each) for each in document.get("changes") or ()], outputs


def find_stale(document: Mapping[str, Any], store: StateStore) -> str:
    """Return why the recorded state is another than the plan saw; empty: it is the same."""
    from resource_api.state.store import StackName

    state = store.load(StackName(str(document["project"]), str(document["stack"])).checked())
    return state_difference(document, state.lineage, state.serial)


def _step(registry: Registry, number: int, saved: Mapping[str, Any]) -> Step:
    parent = saved["parent"] or ""
    named = reference.parse(str(saved["reference"]).removeprefix(f"{parent}/"))
    definition = _definition(registry, named.type)
    entry = Entry(Declaration(named.type, named.title, {}, {}, parent=parent), definition)
    entry.index = number
    entry.should = {name: _value(value) for name, value in saved["should"].items()}
    entry.written = tuple(
        name for name, value in entry.should.items() if _declared(definition.attributes.get(name), value)
    )
    lifecycle = NO_META.lifecycle._replace(replace=saved["options"].get("replace"))
    entry.meta = NO_META._replace(lifecycle=lifecycle)
    deferred = next((each[10:] for each in saved["reasons"] if each.startswith("deferred: ")), "")
    decision = Decision(
        Action[saved["action"].upper()],
        [_difference(each, saved["unknown"]) for each in saved["changes"]],
        [each for each in saved["reasons"] if not (each.startswith("deferred: ") or each == ADOPTED)],
        saved.get("error") or "",
        saved["replaces_because"],
    )
    effects = saved.get("side_effects", ())
    return Step(
        entry,
        None if saved["is"] is None else {name: _value(value) for name, value in saved["is"].items()},
        entry.should,
        decision,
        noop=bool(saved["options"]["noop"]),
        refreshed_by=saved["refreshed_by"],
        deferred=deferred,
        previous=saved["previous"] or "",
        side_effects=None if effects is None else tuple(map(SideEffect.from_document, effects)),
    )


def _definition(registry: Registry, name: str) -> TypeDefinition:
    try:
        return registry.type(name)
    except DefinitionError:
        return TypeDefinition(name=name, attributes={"name": Attribute("Optional[Scalar]", kind="namevar")})


def _declared(attribute: Attribute | None, value: Any) -> bool:
    """Return whether a value is not just the default of its attribute."""
    return attribute is None or attribute.default != value


def _difference(saved: Mapping[str, Any], unknown: list[str]) -> Difference:
    should = UNKNOWN if saved["attribute"] in unknown and saved["should"] is None else _value(saved["should"])
    return Difference(saved["attribute"], _value(saved["is"]), should, saved["message"] or "")


def _output(name: str, saved: Mapping[str, Any], unknown: Collection[str]) -> Difference:
    return Difference(str(name), _value(saved["is"]), UNKNOWN if name in unknown else _value(saved["should"]))


def _drift(saved: Mapping[str, Any]) -> Drift:
    changes = [Difference(each["attribute"], _value(each["was"]), _value(each["is"])) for each in saved["changes"]]
    return Drift(str(saved["reference"]), changes)


def _value(saved: Any) -> Any:
    """Return a value of the document; contents and what was masked are what they were."""
    if saved == "<sensitive>":
        return Sensitive(saved)
    return codec.decode(json.dumps(saved)) if isinstance(saved, (dict, list)) else saved
