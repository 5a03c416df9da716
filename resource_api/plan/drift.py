"""Drift: how the system differs from what was last recorded, independent of the present manifest.

Only managed attributes and existence count; ``read_only`` values change by themselves. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.model.change import Difference, compared_value, ensure_of, exists
from resource_api.model.implied_secrets import conceal_like, holds_secret
from resource_api.model.sealed_secrets import digest_secret, seal_secrets
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.values import same_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from resource_api.model.entry import Entry
    from resource_api.model.planner_queries import Observation
    from resource_api.model.record import Record
    from resource_api.model.step import Step
    from resource_api.model.type_definition import TypeDefinition
    from resource_api.prior.match import Prior


class Drift(NamedTuple):
    """One resource that differs from what was last recorded."""

    reference: str
    changes: Sequence[Difference]


def find_drift(prior: Prior, observation: Callable[[Entry], Observation], entries: Iterable[Entry]) -> list[Drift]:
    """Return the drift of those ``entries`` that are recorded."""
    found = []
    for entry in entries if prior.records else ():
        record = prior.records.get(entry.index)
        if record is None or "imperative" in entry.definition.features or record.key != entry.key:
            continue
        row, failure = observation(entry)
        if row is record.is_ or failure:
            continue
        if changes := drifted_attributes(entry.definition, record, row, prior.state.salt):
            found.append(Drift(str(entry.reference), changes))
    return found


def drifted_attributes(
    definition: TypeDefinition, record: Record, row: Mapping[str, Any] | None, salt: bytes
) -> list[Difference]:
    """Return how a row differs from its record: in existence, else in attributes that were managed or imported."""
    if record.status == "unconfirmed":
        return []  # nobody has seen it: there is nothing that it can have drifted from
    if exists(record.is_) != exists(row):
        return [Difference("ensure", ensure_of(record.is_), ensure_of(row))]
    if record.is_ is None or row is None or record.is_.items() <= row.items():
        return []
    changes = []
    for attribute in definition.managed:
        recorded = attribute in record.should or attribute in record.is_
        if not recorded or attribute in definition.write_only:
            continue
        declared = record.should.get(attribute)
        before, after = (
            compared_value(definition, attribute, state.get(attribute), declared) for state in (record.is_, row)
        )
        if before is not after and not same_value(before, after) and before != _as_recorded(before, after, salt):
            shown = _as_recorded(before, after, salt) if holds_secret(before) else after
            changes.append(Difference(attribute, before, shown))
    return changes


def is_corrective(step: Step, record: Record, salt: bytes) -> bool:
    """Return whether a step corrects drift: the declaration equals the recorded one, and the system has changed."""
    definition = step.definition
    for attribute in definition.managed:
        if attribute in step.entry.ephemeral:
            continue
        declared, recorded = step.should.get(attribute), record.should.get(attribute)
        if attribute in definition.write_only and declared is not None:
            declared = digest_secret(declared, salt)
        if not same_value(declared, recorded) and seal_secrets(declared, salt) != recorded:
            return False
    return bool(drifted_attributes(definition, record, step.is_, salt)) or _drifted_before(step, record, salt)


def _drifted_before(step: Step, record: Record, salt: bytes) -> bool:
    """Return whether the drift was recorded already, by a refresh after the last apply."""
    if record.status != "ready" or not step.decision.differences:
        return False
    return bool(drifted_attributes(step.definition, record._replace(is_=record.should), record.is_, salt))


def _as_recorded(before: Any, value: Any, salt: bytes) -> Any:
    """Return a value in the form in which ``before`` was recorded: plain, or sealed as a secret."""
    return seal_secrets(conceal_like(value, before), salt)
