"""From the values that a resource is given to what it should be: checked, canonical, identified.

Data types, ``canonicalize`` on copies, data types again, ``validate``. The
catalog does this for many resources at once; it is repeated for a single resource when values become known at its turn.
Pure: what providers answer comes in as plain functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values.columnar import are_flat, column_groups
from resource_api.model.values.errors import Problem, reason
from resource_api.model.values.values import SCALAR_TYPES, UNKNOWN, Sensitive, is_unknown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.model.attribute import AttributeSet
    from resource_api.model.provider_functions import ProviderFunctions
    from resource_api.model.type_definition import Resource, TypeDefinition


#: The kinds of a column that is all text.
_TEXT: Final = {str}


def fill_defaults(definition: AttributeSet, given: Resource) -> Resource:
    """Fill the type's defaults, each a fresh copy, into what is declared, in place; ``null``: not declared, no default.

    A default may be ``None``: then that is what should be.
    """
    nulls = [name for name, value in given.items() if value is None] if None in given.values() else ()
    for name, attribute in definition.defaults:
        if name not in given:
            given[name] = attribute.default if type(attribute.default) in SCALAR_TYPES else attribute.fresh_default()
    for name in nulls:
        del given[name]
    for name in definition.sensitive:
        if name in given and given[name] is not UNKNOWN and not isinstance(given[name], Sensitive):
            given[name] = Sensitive(given[name])
    return given


def find_suspect(tools: ProviderFunctions, resources: Sequence[Mapping[str, Any]]) -> set[int]:
    """Give the places of the resources that may not be as their type declares, told for thousands at once.

    All others have only declared attributes, all that are mandatory, and accepted values.
    """
    definition, familiar = tools.definition, tools.familiar
    accepts, whole = definition.accepts, definition.unrestricted_types
    found: set[int] = set()
    for places, columns in column_groups(resources):
        if not (columns.keys() <= accepts.keys() and columns.keys() >= set(definition.mandatory)):
            found.update(places)
            continue
        for name, column in columns.items():
            kinds = set(map(type, column))
            if kinds <= whole[name]:
                continue
            if kinds == _TEXT:
                new = set(column).difference(familiar.get(name, ()))
                refused = {text for text in new if not accepts[name](text)}
                familiar.setdefault(name, set()).update(new - refused)
                found.update(place for place, text in zip(places, column, strict=True) if text in refused)
            else:
                found.update(place for place, v in zip(places, column, strict=True) if type(v) not in whole[name])
    return found


def check_values(definition: AttributeSet, resource: Mapping[str, Any]) -> list[Problem]:
    """Check the known values of one resource against their data types; jsonschema explains what is refused."""
    accepts, whole = definition.accepts, definition.unrestricted_types
    problems = []
    for name, value in resource.items():
        if type(value) in whole[name] or value is UNKNOWN or accepts[name](value):
            continue
        if isinstance(value, Sensitive) and name not in definition.sensitive and accepts[name](value.reveal()):
            continue
        from resource_api.model.datatypes import json_schema as schemas  # noqa: PLC0415 - the slow path: only what is refused is explained

        for path, message in schemas.explain(definition.attributes[name].datatype, value):
            place = "".join(f"[{step}]" for step in path)
            problems.append(Problem(name, f"{name}{place} {message}", code="type_mismatch"))
    return problems


def missing_attributes(definition: TypeDefinition, should: Mapping[str, Any]) -> list[Problem]:
    """Name the mandatory attributes that are not declared; nothing is mandatory for what should be absent."""
    if not definition.mandatory or should.get("ensure") == "absent":
        return []
    return [
        Problem(None, f"attribute '{name}' is missing; it is mandatory", code="missing_attribute")
        for name in definition.mandatory
        if name not in should
    ]


def canonicalize(
    tools: ProviderFunctions, resources: Sequence[Resource]
) -> tuple[list[Resource], dict[int, list[Problem]]]:
    """Give the canonical form of each resource of one type, and by place the problems of those that have any.

    An exception of the provider for all of them is looked for one by one, so that it is the problem of the resource
    that causes it and of no other.
    """
    definition = tools.definition
    problems = {}
    for place in sorted(find_suspect(tools, resources)):
        resource = resources[place]
        if found := [*check_values(definition, resource), *missing_attributes(definition, resource)]:
            problems[place] = found
    good = [place for place in range(len(resources)) if place not in problems]
    canonical = list(resources)
    if tools.canonicalize is not None and good:
        settled, wrong = _canonicalize(tools, [resources[place] for place in good])
        for place, resource in zip(good, settled, strict=True):
            canonical[place] = resource
        problems |= {good[number]: found for number, found in wrong.items()}
    if tools.validate is not None:
        valid = [place for place in good if place not in problems]
        for place, answer in zip(valid, tools.validate([canonical[place] for place in valid]), strict=True):
            if answer:
                problems[place] = _told(answer)
    return canonical, problems


def _canonicalize(
    tools: ProviderFunctions, resources: list[Resource]
) -> tuple[list[Resource], dict[int, list[Problem]]]:
    """Canonicalize together; when that raises, each on its own. Only answers that are not plain need a second look."""
    known = resources if are_flat(resources) else [_known(resource) for resource in resources]
    assert tools.canonicalize is not None
    answers: list[Any]
    try:
        answers = list(tools.canonicalize(known))
        odd = find_suspect(tools, answers)
        pairs = zip(resources, answers, strict=True)
        odd.update(place for place, (before, after) in enumerate(pairs) if after.keys() != before.keys())
    except Exception:  # noqa: BLE001 - looked for one by one
        answers = [_alone(tools, resource) for resource in known]
        odd = set(range(len(answers)))
    problems = {}
    for place in odd:
        answers[place], found = _accept(tools.definition, resources[place], answers[place])
        if found:
            problems[place] = found
    return answers, problems


def _alone(tools: ProviderFunctions, resource: Resource) -> Resource | Exception:
    assert tools.canonicalize is not None
    try:
        return tools.canonicalize([resource])[0]
    except Exception as error:  # noqa: BLE001 - becomes a problem of this resource
        return error


def _known(resource: Resource) -> Resource:
    """Leave out what is not known: no provider receives an unknown."""
    return {key: value for key, value in resource.items() if not is_unknown(value)}


def _accept(
    definition: TypeDefinition, before: Resource, after: Resource | Exception
) -> tuple[Resource, list[Problem]]:
    """Check what ``canonicalize`` gave and has not left as it was; what it left out as unknown comes back."""
    if isinstance(after, Exception):
        return before, [Problem(None, f"canonicalize failed: {reason(after)}", code="canonicalize")]
    if after.keys() != before.keys():
        if strange := after.keys() - before.keys():
            what = ", ".join(map(repr, sorted(strange, key=str)))
            return before, [Problem(None, f"canonicalize added what is not declared: {what}", code="canonicalize")]
        for key in before.keys() - after.keys():
            if not is_unknown(before[key]):
                return before, [Problem(key, f"canonicalize dropped '{key}'", code="canonicalize")]
            after[key] = before[key]
    changed = {key: value for key, value in after.items() if value is not before[key]}
    if (lost := first_unknown(changed)) is not None:
        return before, [Problem(lost, f"canonicalize has made '{lost}' unknown", code="canonicalize")]
    return after, check_values(definition, changed)


def first_unknown(resource: Mapping[str, Any]) -> str | None:
    """Give the first attribute with a value that says that it is not known: only the runtime can say so."""
    return next((key for key, value in resource.items() if is_unknown(value)), None)


def _told(answer: list[Problem] | Exception) -> list[Problem]:
    """Give the problems that ``validate`` has found, or that it is one itself."""
    if isinstance(answer, Exception):
        return [Problem(None, f"validate failed: {reason(answer)}", code="validate")]
    return [problem._replace(code="validate" if problem.code == "invalid" else problem.code) for problem in answer]
