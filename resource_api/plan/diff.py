"""Compare one resource attribute by attribute: which attributes are not as they should be.

Exact on canonical values. A provider's own comparison is used if it has one; write-only values are compared with the
digest of what was last set. Pure.
"""

from __future__ import annotations

from itertools import repeat
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from resource_api.model.change import Difference, compared_value, diff, exists
from resource_api.model.implied_secrets import conceal_like, holds_secret
from resource_api.model.sealed_secrets import digest_secret
from resource_api.model.values.columnar import are_flat
from resource_api.model.values.errors import reason
from resource_api.model.values.text import show
from resource_api.model.values.values import Sensitive, copy_resource, is_unknown, same_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from resource_api.model.entry import Entry
    from resource_api.model.provider_functions import ProviderFunctions
    from resource_api.plan.decision_inputs import DecisionInputs

    Resource = Mapping[str, Any]


class ComparisonError(Exception):
    """The provider's own comparison or plan failed, or returned something that is not allowed."""


def compare(
    entry: Entry, is_: Resource, should: Resource, functions: ProviderFunctions, inputs: DecisionInputs | None = None
) -> list[Difference]:
    """Return every difference, ``ensure`` first; ``inputs`` None: write-only values count as set.

    Raises ``ComparisonError``.
    """
    if functions.insync is None:
        found = diff(entry.definition, is_, should)
    else:
        found = list(_compare_by_provider(entry, is_, should, functions))
    if inputs is not None and entry.definition.write_only:
        found += _compare_write_only(entry, should, inputs)
    recorded = inputs.record.should if inputs is not None and inputs.record is not None else {}
    return [_hide_secret(difference, recorded.get(difference.attribute)) for difference in found]


def _hide_secret(difference: Difference, recorded: Any) -> Difference:
    """Make secret in the present value what is secret in the wanted or in the recorded one."""
    if difference.is_ is None or not (holds_secret(difference.should) or holds_secret(recorded)):
        return difference
    return difference._replace(is_=conceal_like(conceal_like(difference.is_, difference.should), recorded))


def equal_places(pairs: Sequence[tuple[Entry, Resource]], functions: ProviderFunctions) -> Iterator[int]:
    """Yield the places of the (entry, row) of one type that certainly do not differ; the others must be compared."""
    compared = list(_compared_attributes([entry.should for entry, _ in pairs], functions.definition.compared))
    answers: Iterable[Any] = repeat(repeat(None))
    if functions.insync is not None:
        # A provider must not change its arguments: it gets read-only views or, of nested values, copies.
        flat = are_flat([row for _, row in pairs]) and are_flat([entry.should for entry, _ in pairs])
        protect = MappingProxyType if flat else copy_resource
        answers = functions.insync(
            (entry.name, names, protect(row), protect(entry.should))
            for (entry, row), names in zip(pairs, compared, strict=True)
        )
    # Not strict: without a provider's comparison the answers are endless.
    for place, ((entry, row), names, verdicts) in enumerate(zip(pairs, compared, answers, strict=False)):
        if isinstance(verdicts, Exception):
            continue
        for name, verdict in zip(names, verdicts, strict=False):
            if verdict is not True:
                value, should = row.get(name), entry.should[name]
                if verdict is not None or not (value is should or same_value(value, should)):
                    break
        else:
            yield place


def _compared_attributes(resources: Sequence[Resource], compared: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the attributes to compare of each resource; resources with the same attributes share a list."""
    known: dict[tuple[str, ...], list[str]] = {}
    for shape in map(tuple, resources):
        found = known.get(shape)
        if found is None:
            found = known[shape] = [name for name in compared if name in shape]
        yield found


def _compare_by_provider(
    entry: Entry, is_: Resource, should: Resource, functions: ProviderFunctions
) -> Iterator[Difference]:
    copies = copy_resource(is_), copy_resource(should)
    for attribute in entry.definition.compared:
        if attribute not in should:
            continue
        value, wanted = is_.get(attribute), should[attribute]
        if is_unknown(wanted):
            yield Difference(attribute, value, wanted)
            continue
        verdict, message = _call_insync(entry, attribute, copies, functions)
        value = compared_value(entry.definition, attribute, value, wanted)
        if verdict is None:
            verdict = value is wanted or same_value(value, wanted)
        if not verdict:
            yield Difference(attribute, value, wanted, message)


def _compare_write_only(entry: Entry, should: Resource, inputs: DecisionInputs) -> Iterator[Difference]:
    recorded = inputs.record.should if inputs.record is not None else {}
    for attribute in sorted(entry.definition.write_only):
        # Of an ephemeral value no digest is recorded: like a parameter it is no reason for a change.
        if attribute not in should or attribute in entry.ephemeral:
            continue
        value = should[attribute]
        if is_unknown(value) or recorded.get(attribute) != digest_secret(value, inputs.salt):
            yield Difference(attribute, Sensitive(None), value)


def absence_differs(entry: Entry, is_: Resource, should: Resource, functions: ProviderFunctions) -> bool:
    """Return whether the provider's own comparison finds that an absent resource is not yet absent as it should be.

    A provider may distinguish several kinds of absence, such as removed and purged.
    """
    return (
        not exists(should)
        and functions.insync is not None
        and _call_insync(entry, "ensure", (copy_resource(is_), copy_resource(should)), functions)[0] is False
    )


def _call_insync(
    entry: Entry, attribute: str, states: tuple[Resource, Resource], functions: ProviderFunctions
) -> tuple[bool | None, str]:
    assert functions.insync is not None
    (answers,) = functions.insync([(entry.name, (attribute,), *states)])
    if isinstance(answers, Exception):
        msg = f"insync of '{attribute}' failed: {reason(answers)}"
        raise ComparisonError(msg) from answers
    (answer,) = answers
    if answer is None or answer is True or answer is False:
        return answer, ""
    if isinstance(answer, tuple) and len(answer) == 2 and answer[0] is False:  # noqa: PLR2004 - (False, message)
        return False, str(answer[1])
    msg = f"insync of '{attribute}' must return True, False, None or (False, message), not {show(answer)}"
    raise ComparisonError(msg)
