"""The ``plan`` of a provider with this feature, checked against the rules of a plan.

A declared value is planned as declared, or as it is where the two mean the same; a value that nothing declares, as
anything of its data type (``AssertPlanValid`` in OpenTofu). Pure.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from resource_api.catalog.canonicalize import check_values
from resource_api.model.provider_functions import Planned
from resource_api.model.values.errors import reason
from resource_api.model.values.text import show_attribute
from resource_api.model.values.values import UNKNOWN, is_unknown, may_be, same_value
from resource_api.plan.diff import ComparisonError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from resource_api.model.entry import Entry
    from resource_api.model.provider_functions import ProviderFunctions
    from resource_api.model.type_definition import TypeDefinition


def predict(
    entry: Entry, is_: Mapping[str, Any] | None, should: Mapping[str, Any], functions: ProviderFunctions
) -> Planned:
    """Return the provider's plan of a resource; nothing if it has no ``plan``.

    Raises ``ComparisonError`` if the method fails or its result breaks a rule.
    """
    if functions.plan is None:
        return Planned()
    try:
        answer = functions.plan(entry.name, is_, should)
    except Exception as error:  # a method of a provider may raise anything
        msg = f"plan failed: {reason(error)}"
        raise ComparisonError(msg) from error
    if not isinstance(answer, Planned) or not hasattr(answer.state, "items"):
        msg = f"plan must return Planned(state, unknown, replace, delete_first), not {type(answer).__name__}"
        raise ComparisonError(msg)
    for field, value in (("unknown", answer.unknown), ("replace", answer.replace)):
        if not _are_names(value):
            msg = f"plan must give {field} as a list of attributes, not {type(value).__name__}"
            raise ComparisonError(msg)
    if problems := list(_broken_rules(entry.definition, answer, is_ or {}, should)):
        msg = f"the plan of its provider '{entry.definition.instance}' is wrong: {'; '.join(problems)}"
        raise ComparisonError(msg)
    return answer


def predicted_values(planned: Planned, should: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the planned values that are not declared, ``UNKNOWN`` for those that only the change will yield."""
    if not (planned.state or planned.unknown):
        return {}
    known = {name: UNKNOWN if is_unknown(value) else value for name, value in planned.state.items()}
    known |= dict.fromkeys(planned.unknown, UNKNOWN)
    return {name: value for name, value in known.items() if name not in should}


def kept_attributes(planned: Planned, is_: Mapping[str, Any], should: Mapping[str, Any]) -> frozenset[str]:
    """Return the attributes that are planned as they are, because what is declared means the same."""
    return frozenset(
        name
        for name, value in planned.state.items()
        if name in should and name in is_ and same_value(value, is_[name]) and not same_value(value, should[name])
    )


def stable_values(definition: TypeDefinition, is_: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the values that an update of a resource must not change; one that is null may still be set."""
    return {name: is_[name] for name in definition.stable if is_.get(name) is not None}


def _are_names(value: Any) -> bool:
    return isinstance(value, Collection) and not isinstance(value, str) and all(isinstance(name, str) for name in value)


def _broken_rules(
    definition: TypeDefinition, planned: Planned, is_: Mapping[str, Any], should: Mapping[str, Any]
) -> Iterator[str]:
    for name in dict.fromkeys((*planned.state, *planned.unknown, *_attributes_of(planned.replace))):
        if name not in definition.attributes:
            yield f"there is no attribute '{name}'"
    for name in planned.unknown:
        if not is_unknown(should.get(name, UNKNOWN)):
            yield f"'{name}' is planned as not yet known, but declared"
    for name, value in {} if planned.replace else stable_values(definition, is_).items():
        if name in planned.unknown:
            yield f"'{name}' is planned as not yet known, but stable"
        elif not same_value(planned.state.get(name, value), value):
            foreseen, other = _texts(definition, name, planned.state[name], value)
            yield f"'{name}' is planned as {foreseen}, but it is {other} and stable"
    for name, value in planned.state.items():
        if name in definition.attributes and name not in planned.unknown:
            yield from _broken_value_rules(definition, name, value, is_, should)


def _attributes_of(places: Collection[str]) -> list[str]:
    if not places:
        return []
    from resource_api.model.values.nested import attribute_of

    return list(map(attribute_of, places))


def _broken_value_rules(
    definition: TypeDefinition, name: str, value: Any, is_: Mapping[str, Any], should: Mapping[str, Any]
) -> Iterator[str]:
    if name in should:
        kept = name in is_ and same_value(value, is_[name])
        if not (kept or may_be(value, should[name])):
            planned, other = _texts(definition, name, value, should[name])
            yield f"'{name}' is planned as {planned}, but declared as {other}"
    elif name == "ensure" or name not in {*definition.compared, *definition.read_only}:
        if not same_value(value, is_.get(name)):
            planned, other = _texts(definition, name, value, is_.get(name))
            yield f"'{name}' is planned as {planned}, but it is {other} and not declared"
    elif not (is_unknown(value) or same_value(value, is_.get(name))) and check_values(definition, {name: value}):
        planned, _ = _texts(definition, name, value, None)
        yield f"'{name}' is planned as {planned}, which its data type {definition.attributes[name].type} refuses"


def _texts(definition: TypeDefinition, name: str, planned: Any, other: Any) -> tuple[str, str]:
    if name in definition.secret:
        return "<sensitive>", "another value"
    return show_attribute(planned), show_attribute(other)
