"""Attribute by attribute: what of a resource is not as it should be.

Exact on canonical values, ``ensure`` first; the provider's own comparison decides where it wants to; what is written
and never read back is compared with the digest of what was last set. Pure.
"""

from __future__ import annotations

from itertools import repeat
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from resource_api.model.change import Difference, diff, exists
from resource_api.model.codec import digest_secret
from resource_api.model.secrets import holds_secret
from resource_api.model.values.columnar import are_flat
from resource_api.model.values.errors import reason
from resource_api.model.values.text import show
from resource_api.model.values.values import UNKNOWN, Sensitive, copy_resource, same_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from resource_api.model.entry import Entry
    from resource_api.model.provider_functions import ProviderFunctions
    from resource_api.model.step import DecisionInputs


class ComparisonError(Exception):
    """The provider's own comparison failed or gave nonsense."""


def compare(
    entry: Entry,
    is_: Mapping[str, Any],
    should: Mapping[str, Any],
    tools: ProviderFunctions,
    known: DecisionInputs | None = None,
) -> list[Difference]:
    """Give every difference. Raises ``ComparisonError`` when the provider's comparison fails.

    Without ``known`` (after a ``set``) what cannot be read back is taken as set.
    """
    found = diff(entry.definition, is_, should) if tools.insync is None else list(_asked(entry, is_, should, tools))
    if known is not None and entry.definition.write_only:
        found += _unread(entry, should, known)
    recorded = known.record.should if known is not None and known.record is not None else {}
    return [_veiled(difference, recorded.get(difference.attribute)) for difference in found]


def _veiled(difference: Difference, recorded: Any) -> Difference:
    """Give a difference whose present value is as secret as what is to take its place, or what was last asked for."""
    if difference.is_ is None or not (holds_secret(difference.should) or holds_secret(recorded)):
        return difference
    return difference._replace(is_=Sensitive(difference.is_))


def equal_places(pairs: Sequence[tuple[Entry, Mapping[str, Any]]], tools: ProviderFunctions) -> Iterator[int]:
    """Give the places of the (entry, row) of one type that certainly do not differ; what raises or is unclear may."""
    wanted = list(_wanted([entry.should for entry, _ in pairs], tools.definition.compared))
    answers: Iterable[Any] = repeat(repeat(None))
    if tools.insync is not None:
        # What a comparison changes in what it gets is nobody else's: it may not, or gets copies.
        flat = are_flat([row for _, row in pairs]) and are_flat([entry.should for entry, _ in pairs])
        lent = MappingProxyType if flat else copy_resource
        answers = tools.insync(
            (entry.name, names, lent(row), lent(entry.should))
            for (entry, row), names in zip(pairs, wanted, strict=True)
        )
    # Of the pairs first: the last of them ends it, whoever answers.
    for place, ((entry, row), names, verdicts) in enumerate(zip(pairs, wanted, answers, strict=False)):
        if isinstance(verdicts, Exception):
            continue
        for name, verdict in zip(names, verdicts, strict=False):
            if verdict is not True:
                value, should = row.get(name), entry.should[name]
                if verdict is not None or not (value is should or same_value(value, should)):
                    break
        else:
            yield place


def _wanted(resources: Sequence[Mapping[str, Any]], compared: Sequence[str]) -> Iterator[Sequence[str]]:
    """Give what of each resource is compared: of those with the same attributes the same."""
    known: dict[tuple[str, ...], list[str]] = {}
    for shape in map(tuple, resources):
        found = known.get(shape)
        if found is None:
            found = known[shape] = [name for name in compared if name in shape]
        yield found


def _asked(
    entry: Entry, is_: Mapping[str, Any], should: Mapping[str, Any], tools: ProviderFunctions
) -> Iterator[Difference]:
    shown = copy_resource(is_), copy_resource(should)
    for attribute in entry.definition.compared:
        if attribute not in should:
            continue
        value, wanted = is_.get(attribute), should[attribute]
        if wanted is UNKNOWN:
            yield Difference(attribute, value, UNKNOWN)
            continue
        verdict, message = _ask(entry, attribute, shown, tools)
        if verdict is None:
            verdict = value is wanted or same_value(value, wanted)
        if not verdict:
            yield Difference(attribute, value, wanted, message)


def _unread(entry: Entry, should: Mapping[str, Any], known: DecisionInputs) -> Iterator[Difference]:
    recorded = known.record.should if known.record is not None else {}
    for attribute in sorted(entry.definition.write_only):
        if attribute not in should:
            continue
        value = should[attribute]
        if value is UNKNOWN or recorded.get(attribute) != digest_secret(value, known.salt):
            yield Difference(attribute, Sensitive(None), value)


def absence_differs(entry: Entry, is_: Mapping[str, Any], should: Mapping[str, Any], tools: ProviderFunctions) -> bool:
    """Whether the provider's own comparison says that an absence is not yet the one that is wanted."""
    return (
        not exists(should)
        and tools.insync is not None
        and _ask(entry, "ensure", (copy_resource(is_), copy_resource(should)), tools)[0] is False
    )


def _ask(
    entry: Entry, attribute: str, states: tuple[Mapping[str, Any], Mapping[str, Any]], tools: ProviderFunctions
) -> tuple[bool | None, str]:
    assert tools.insync is not None
    (answers,) = tools.insync([(entry.name, (attribute,), *states)])
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
