"""Combine conditions of a manifest: conjunction, alternative, negation, and whether two exclude each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.model.values.values import as_list

if TYPE_CHECKING:
    #: A condition of a manifest: one that always or never holds, or tests by reference.
    Condition = bool | dict[str, Any]


def all_of(conditions: list[Condition]) -> Condition:
    """Return the condition that holds if all of these do.

    It is one mapping with the tests of all, unless two test the same path: such a mapping cannot have both.
    """
    conditions = [condition for condition in conditions if condition is not True]
    if False in conditions:
        return False
    if len(conditions) < 2:  # noqa: PLR2004 - a pair
        return conditions[0] if conditions else True
    joined: dict[str, object] = {}
    for condition in conditions:
        if not isinstance(condition, dict) or joined.keys() & condition.keys():
            # A manifest has no key `all`: "a and b" is written as "not any of: not a, not b".
            return {"not": {"any": list(map(negated, conditions))}}
        joined |= condition
    return joined


def any_of(first: Condition, second: Condition) -> Condition:
    """Return the condition that holds if one of two does, in the shortest form.

    Two values of one path become ``{"path": ["a", "b"]}``, two lists of `any` one list, and others ``{"any": [...]}``.
    """
    if isinstance(first, dict) and isinstance(second, dict) and first.keys() == second.keys() and len(first) == 1:
        ((path, test),), (alternative,) = first.items(), second.values()
        values = [*as_list(test), *as_list(alternative)]
        # a test such as ``{"gt": 1}`` cannot stand in the list of a path, which has constants only
        if path == "any" or not any(isinstance(value, dict) for value in values):
            return {path: values}
    return {"any": [first, second]}


def negated(condition: Condition) -> Condition:
    """Return the condition that holds if another does not, without a double ``not``."""
    if isinstance(condition, bool):
        return not condition
    if len(condition) == 1:
        ((key, test),) = condition.items()
        if key == "not":
            inner: Condition = test
            return inner
        if isinstance(test, bool):
            return {key: not test}
    return {"not": condition}


def exclude(first: Condition, second: Condition) -> bool:
    """Return whether two conditions certainly never hold together.

    A manifest may then declare a resource twice, with other attributes under each condition.
    """
    if isinstance(first, bool) or isinstance(second, bool):
        return False
    for condition, alternatives in ((first, second), (second, first)):
        if alternatives.keys() == {"any"}:
            return all(exclude(condition, alternative) for alternative in alternatives["any"])
    if first == negated(second):
        return True
    return any(_differ(first[path], second[path]) for path in first.keys() & second.keys() - {"any", "not"})


def _differ(first: object, second: object) -> bool:
    """Return whether two tests of the same path, such as ``"a"`` and ``["b", "c"]``, certainly exclude each other.

    Each is a value, a list of alternatives, or a mapping; of mappings only ``{"not": test}`` excludes ``test``.
    """
    first_values, second_values = as_list(first), as_list(second)
    if any(isinstance(value, dict) for value in (*first_values, *second_values)):
        return first == {"not": second} or second == {"not": first}
    return not any(value in second_values for value in first_values)
