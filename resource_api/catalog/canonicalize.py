"""Compute the values that resources should have: type defaults, data types, canonical form.

The steps are: fill in the type's defaults, check data types, call the provider's ``canonicalize`` on copies, check data
types again, call ``validate`` (Puppet Resource API, "Provider Feature: canonicalize"). The catalog does this for many
resources at once; the transaction repeats it for one resource when pending values become known. Pure: the provider's
methods come in as plain functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.datatypes import messages
from resource_api.model.sealed_secrets import holds_secret
from resource_api.model.values.errors import Problem, WrongAnswer, reason
from resource_api.model.values.start_up import regex
from resource_api.model.values.values import (
    SCALAR_TYPES,
    UNKNOWN,
    Sensitive,
    are_flat,
    column_groups,
    is_unknown,
    place_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from resource_api.model.attribute import Attribute, AttributeSet
    from resource_api.model.datatypes.datatype import DataType
    from resource_api.model.provider_functions import ProviderFunctions
    from resource_api.model.type_definition import Resource, TypeDefinition

#: The types of a column that is all text.
_TEXT: Final = {str}
#: A title that is an integer of less than 64 bits.
_DIGITS: Final = regex(r"[0-9]{1,18}\Z")


def fill_defaults(definition: AttributeSet, resource: Resource) -> Resource:
    """Fill the type's defaults into ``resource``, in place, and wrap sensitive values; return it.

    An attribute declared null is not managed: it is removed and gets no default. Its key stays until the defaults are
    filled in, so that no default replaces it.
    """
    nulls = [name for name, value in resource.items() if value is None] if None in resource.values() else ()
    for name, attribute in definition.defaults:
        if name not in resource:  # resources share a scalar default; each gets its own copy of a list or mapping
            resource[name] = attribute.default if type(attribute.default) in SCALAR_TYPES else attribute.fresh_default()
    for name in nulls:
        del resource[name]
    for name in definition.sensitive:
        if name in resource:
            resource[name] = definition.attributes[name].datatype.conceal(resource[name])
    return resource


def find_suspect(provider: ProviderFunctions, resources: Sequence[Mapping[str, object]]) -> set[int]:
    """Return the indices of the resources that may violate their type; only these need the slow ``check_values``.

    All other resources are valid: they have only declared attributes, all mandatory ones, and accepted values. The
    values of one attribute are checked together for all resources that have it, which is fast for thousands of
    them. ``provider.accepted_texts`` caches accepted texts, so that a text is checked once in a run.
    """
    definition, accepted_texts = provider.definition, provider.accepted_texts
    accepts, unrestricted = definition.accepts, definition.unrestricted_types
    suspects: set[int] = set()
    for indices, columns in column_groups(resources):
        if not (columns.keys() <= accepts.keys() and columns.keys() >= set(definition.mandatory)):
            suspects.update(indices)
            continue
        for name, column in columns.items():
            kinds = set(map(type, column))
            if kinds <= unrestricted[name]:
                continue
            if kinds == _TEXT:
                new = set(column).difference(accepted_texts.get(name, ()))
                refused = {text for text in new if not accepts[name](text)}
                accepted_texts.setdefault(name, set()).update(new - refused)
                suspects.update(index for index, text in zip(indices, column, strict=True) if text in refused)
            else:
                suspects.update(
                    index for index, v in zip(indices, column, strict=True) if type(v) not in unrestricted[name]
                )
    return suspects


def check_values(
    definition: AttributeSet, resource: Mapping[str, object], written: Mapping[str, object] | None = None
) -> list[Problem]:
    """Return a problem for each known value of a resource that its data type refuses, with the reason.

    Unknown values are checked as soon as they are known. ``written`` has the values with their references, so that a
    message can quote ``${inputs.port}`` beside its wrong value.
    """
    accepts, unrestricted = definition.accepts, definition.unrestricted_types
    problems: list[Problem] = []
    for name, value in resource.items():
        if type(value) in unrestricted[name] or value is UNKNOWN or accepts[name](value):
            continue
        if isinstance(value, Sensitive) and name not in definition.sensitive and accepts[name](value.reveal()):
            continue  # a reference to a secret makes any attribute secret
        if _is_partly_known(definition.attributes[name].datatype, value):
            continue
        arguments = definition.attributes[name], value, (written or {}).get(name), definition.spelling(name)
        problems += explain_refusal(name, *arguments)
    return problems


def explain_refusal(
    name: str, attribute: Attribute, value: object, written: object, spelling: str = ""
) -> Iterator[Problem]:
    """Yield the reasons why the data type of an attribute refuses ``value``, for an error message.

    A namevar's value mostly comes from the title, which is one text: the hint has the form to declare a list or number.
    ``written``: the value with its references. ``spelling``: the attribute's name in manifests, if it differs.
    """
    hint = ""
    if attribute.kind == "namevar" and isinstance(value, str):
        if ", " in value:  # the title is '[web1, web2]', of a list in a text
            hint = (
                f"a title names one resource; for_each: [{value.strip('[]')}] declares one for each, as ${{each.value}}"
            )
        elif _DIGITS.match(value) and attribute.datatype.accepts(int(value)):
            hint = f"a title is a string; declare {spelling or name}: {value}"
    for path, message in messages.explain(attribute.datatype, value, attribute.must_be, written):
        yield Problem(name, f"{spelling or name}{place_text(path)} {message}", code="type_mismatch", hint=hint)


def _is_partly_known(datatype: DataType, value: object) -> bool:
    """Return whether a value has unknown parts and its known parts fit the data type.

    Such a value is accepted for now, and checked again as soon as all parts are known. A value that contains itself
    has endlessly many parts, and is not accepted.
    """
    try:
        return is_unknown(value) and datatype.accepts_known(value)
    except RecursionError:
        return False


def missing_attributes(definition: TypeDefinition, should: Mapping[str, object]) -> list[Problem]:
    """Return a problem for each undeclared mandatory attribute; none for an absent resource: it needs only a name."""
    if not definition.mandatory or should.get("ensure") == "absent":
        return []
    return [missing_attribute(definition, name) for name in definition.mandatory if name not in should]


def missing_attribute(definition: TypeDefinition, name: str) -> Problem:
    """Return the problem that a mandatory attribute is not declared."""
    message = f"attribute '{definition.spelling(name)}' is missing; it is mandatory"
    return Problem(None, message, code="missing_attribute")


def canonicalize(
    provider: ProviderFunctions,
    resources: Sequence[Resource],
    written: Callable[[int], Mapping[str, Any]] = lambda _index: {},
) -> tuple[list[Resource], dict[int, list[Problem]]]:
    """Return the canonical form of each resource of one type, and the problems by the resource's index.

    The provider's ``canonicalize`` is called once for all resources, or once for each if that raises, so that the
    exception is the problem of one resource. A resource with problems is returned unchanged. ``written`` returns the
    values, with their references, of the resource at an index.
    """
    definition = provider.definition
    problems = {}
    for index in sorted(find_suspect(provider, resources)):
        resource = resources[index]
        if errors := [*check_values(definition, resource, written(index)), *missing_attributes(definition, resource)]:
            problems[index] = errors
    valid = [index for index in range(len(resources)) if index not in problems]
    canonical = list(resources)
    if provider.canonicalize is not None and valid:
        answers, wrong = _call_canonicalize(provider, [resources[index] for index in valid])
        for index, resource in zip(valid, answers, strict=True):
            canonical[index] = resource
        problems |= {valid[number]: errors for number, errors in wrong.items()}
    if provider.validate is not None:
        _validate(provider, canonical, problems)
    return canonical, problems


def _validate(provider: ProviderFunctions, resources: Sequence[Resource], problems: dict[int, list[Problem]]) -> None:
    """Add to ``problems`` (resource's index → its problems) the answers of the provider's ``validate``.

    It gets only resources without a problem so far, so that an author need not check types and mandatory attributes.
    """
    assert provider.validate is not None
    definition = provider.definition
    # A resource whose title lacks a mandatory namevar is left out too: that is reported by itself.
    needed = {name for name in definition.namevars if not definition.attributes[name].datatype.optional}
    valid = [index for index, row in enumerate(resources) if index not in problems and needed <= row.keys()]
    for index, answer in zip(valid, provider.validate([resources[index] for index in valid]), strict=True):
        if answer:
            problems[index] = _validation_problems(definition, resources[index], answer)


def _call_canonicalize(
    provider: ProviderFunctions, resources: list[Resource]
) -> tuple[list[Resource], dict[int, list[Problem]]]:
    """Return the answers of the provider's ``canonicalize``, and the problems of these answers by index.

    The method is called once for all resources. If that raises, it is called once for each resource, so that the
    exception becomes the problem of the resource that causes it. For speed only the answers that ``find_suspect``
    returns are checked.
    """
    arguments = resources
    if not are_flat(resources):  # no provider receives an unknown value
        arguments = [{key: value for key, value in row.items() if not is_unknown(value)} for row in resources]
    assert provider.canonicalize is not None
    answers: list[Any]
    try:
        answers = list(provider.canonicalize(arguments))
        suspect = find_suspect(provider, answers)
        pairs = zip(resources, answers, strict=True)
        suspect.update(index for index, (before, after) in enumerate(pairs) if after.keys() != before.keys())
    except WrongAnswer as error:
        # The answer has a wrong shape, so every resource has the problem. A call for each would hide the mistake: a
        # method with 'return' in its loop answers with one resource, which is right for a single one.
        answers = [error] * len(resources)
        suspect = set(range(len(answers)))
    except Exception:  # noqa: BLE001 - repeated for each resource
        answers = [_call_for_one(provider, resource) for resource in arguments]
        suspect = set(range(len(answers)))
    problems = {}
    for index in suspect:
        answers[index], errors = _check_answer(provider.definition, resources[index], answers[index])
        if errors:
            problems[index] = errors
    # None means undeclared here too: resources of this kind do not have the attribute.
    return [_declared(resource) if None in resource.values() else resource for resource in answers], problems


def _declared(resource: Resource) -> Resource:
    """Return a resource without the attributes that are None, which means undeclared."""
    return {name: value for name, value in resource.items() if value is not None}


def _call_for_one(provider: ProviderFunctions, resource: Resource) -> Resource | Exception:
    """Return the answer of ``canonicalize`` for one resource, or the exception that it raises, as its problem."""
    assert provider.canonicalize is not None
    try:
        return provider.canonicalize([resource])[0]
    except Exception as error:  # noqa: BLE001 - becomes a problem of this resource
        return error


def _check_answer(
    definition: TypeDefinition, before: Resource, after: Resource | Exception
) -> tuple[Resource, list[Problem]]:
    """Return the answer of ``canonicalize`` for the resource ``before``, and the problems of this answer.

    The method may only change the form of values: an answer with more or fewer attributes is wrong, and is replaced by
    ``before``. The unknown values, which the provider does not receive, are added again.
    """
    if isinstance(after, Exception):
        return before, _failures(definition, before, "canonicalize", after)
    if after.keys() != before.keys():
        if added := after.keys() - before.keys():
            names = ", ".join(map(repr, sorted(added, key=str)))
            return before, [Problem(None, f"canonicalize added what is not declared: {names}", code="canonicalize")]
        for key in before.keys() - after.keys():
            if not is_unknown(before[key]):
                return before, [Problem(key, f"canonicalize dropped '{key}'", code="canonicalize")]
            after[key] = before[key]
    changed = {key: value for key, value in after.items() if value is not before[key]}
    if (lost := first_unknown(changed)) is not None:
        return before, [Problem(lost, f"canonicalize has made '{lost}' unknown", code="canonicalize")]
    # The declared values have been checked: what does not fit now is the method's.
    errors = [(error, f"canonicalize returned {error.message}") for error in check_values(definition, changed)]
    return after, [error._replace(message=message, code="canonicalize") for error, message in errors]


def failure(method: str, error: Exception) -> str:
    """Return the message about a method that raised, or returned an invalid answer."""
    return str(error) if isinstance(error, WrongAnswer) else f"{method} failed: {reason(error)}"


def _failures(
    definition: TypeDefinition, resource: Mapping[str, object], method: str, error: Exception
) -> list[Problem]:
    """Return the problems of a resource for which the provider's method ``method`` has raised ``error``.

    A secret in an attribute that is not ``sensitive`` is wrapped, which the method does not expect: its
    ``AttributeError`` or ``TypeError`` does not help the user, so the secret is reported instead.
    """
    secrets = [name for name, value in resource.items() if name not in definition.sensitive and holds_secret(value)]
    if secrets and isinstance(error, (AttributeError, TypeError)):
        texts = {name: f"{definition.spelling(name)} cannot be or contain a secret" for name in secrets}
        return [Problem(name, text, code=method) for name, text in texts.items()]
    return [Problem(None, failure(method, error), code=method)]


def first_unknown(resource: Mapping[str, object]) -> str | None:
    """Return the first attribute with an unknown value, which a provider must not return, or None."""
    return next((key for key, value in resource.items() if is_unknown(value)), None)


def _validation_problems(
    definition: TypeDefinition, resource: Mapping[str, object], answer: list[Problem] | Exception
) -> list[Problem]:
    """Return the problems of a resource from the answer of its provider's ``validate``, or from its exception.

    A problem without a code of its own, which has the default "invalid", gets the code "validate" for its origin.
    """
    if isinstance(answer, Exception):
        return _failures(definition, resource, "validate", answer)
    return [problem._replace(code="validate" if problem.code == "invalid" else problem.code) for problem in answer]
