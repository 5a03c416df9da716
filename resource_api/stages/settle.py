"""From the values that a resource is given to what it should be: checked, canonical, identified.

Data types, ``canonicalize`` on copies, data types again, ``validate``. The
catalog does this for whole types at once; it is repeated for a single resource when values become known at its turn.
Pure: what providers answer comes in as plain functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.nouns import schemas
from resource_api.nouns.errors import Problem, reason
from resource_api.nouns.values import UNKNOWN, Sensitive, is_flat, is_unknown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.nouns.definition import Resource, TypeDefinition
    from resource_api.nouns.tools import Tools


#: So many texts of an attribute are remembered as accepted: modes and owners are few, and what is many is no gain.
_FEW: Final = 64


def fill(definition: TypeDefinition, given: Mapping[str, Any]) -> Resource:
    """Give what is declared with the type's defaults, each a fresh copy; ``null``: not declared, no default."""
    should = {key: value for key, value in given.items() if value is not None}
    for name, attribute in definition.defaults:
        if name not in given:
            should[name] = attribute.fresh_default()
    for name in definition.sensitive:
        if name in should and should[name] is not UNKNOWN and not isinstance(should[name], Sensitive):
            should[name] = Sensitive(should[name])
    return should


def check(definition: TypeDefinition, resource: Mapping[str, Any]) -> list[Problem]:
    """Check known values against their data types; the fast path decides, jsonschema explains."""
    accepts, whole, familiar = definition.accepts, definition.whole, definition.familiar
    problems = []
    for name, value in resource.items():
        kind = type(value)
        if kind in whole[name] or (kind is str and value in familiar[name]) or value is UNKNOWN:
            continue
        if accepts[name](value):
            if kind is str and len(familiar[name]) < _FEW:
                familiar[name].add(value)
            continue
        if isinstance(value, Sensitive) and name not in definition.sensitive and accepts[name](value.reveal()):
            continue
        for path, message in schemas.explain(definition.attributes[name].datatype, value):
            place = "".join(f"[{step}]" for step in path)
            problems.append(Problem(name, f"{name}{place} {message}", code="type_mismatch"))
    return problems


def missing(definition: TypeDefinition, should: Mapping[str, Any]) -> list[Problem]:
    """Name the mandatory attributes that are not declared; nothing is mandatory for what should be absent."""
    if not definition.mandatory or should.get("ensure") == "absent":
        return []
    return [
        Problem(None, f"attribute '{name}' is missing; it is mandatory", code="missing_attribute")
        for name in definition.mandatory
        if name not in should
    ]


def settle(tools: Tools, resources: Sequence[Resource]) -> tuple[list[Resource], list[list[Problem]]]:
    """Give the canonical form of each resource of one type, and each one's problems.

    An exception of the provider for all of them is looked for one by one, so that it is the problem of the resource
    that causes it and of no other.
    """
    definition = tools.definition
    problems = [[*check(definition, resource), *missing(definition, resource)] for resource in resources]
    good = [index for index, found in enumerate(problems) if not found]
    canonical = list(resources)
    if tools.canonicalize is not None and good:
        for index, (resource, found) in zip(
            good, _canonicalize(tools, [resources[index] for index in good]), strict=True
        ):
            canonical[index] = resource
            problems[index] = found
    if tools.validate is not None:
        for index in good:
            problems[index] = problems[index] or _validate(tools, canonical[index])
    return canonical, problems


def _canonicalize(tools: Tools, resources: list[Resource]) -> list[tuple[Resource, list[Problem]]]:
    """Canonicalize together; when that raises, each on its own."""
    known = [resource if is_flat(resource) else _known(resource) for resource in resources]
    assert tools.canonicalize is not None
    try:
        answers: list[Resource | Exception] = list(tools.canonicalize(known))
    except Exception:  # noqa: BLE001 - looked for one by one
        answers = [_alone(tools, resource) for resource in known]
    return [_accept(tools.definition, *pair) for pair in zip(resources, answers, strict=True)]


def _alone(tools: Tools, resource: Resource) -> Resource | Exception:
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
    return after, check(definition, {key: value for key, value in after.items() if value is not before[key]})


def _validate(tools: Tools, should: Resource) -> list[Problem]:
    assert tools.validate is not None
    try:
        found = tools.validate(should)
    except Exception as error:  # noqa: BLE001 - becomes a problem of this resource
        return [Problem(None, f"validate failed: {reason(error)}", code="validate")]
    return found and [
        problem._replace(code="validate" if problem.code == "invalid" else problem.code) for problem in found
    ]
