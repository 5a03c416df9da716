"""Drift: where the system has moved away from what was last recorded, told apart from a changed manifest.

Of managed attributes and of existence only; ``read_only`` values change by themselves. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.model.change import Difference, exists
from resource_api.model.codec import Sealed, digest_secret, seal_secrets
from resource_api.model.secrets import holds_secret
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.values import Sensitive, same_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from resource_api.model.entry import Entry
    from resource_api.model.record import Record
    from resource_api.model.step import Step
    from resource_api.model.type_definition import TypeDefinition
    from resource_api.prior.match import Prior


class Drift(NamedTuple):
    """One resource that is not as it was when it was last recorded."""

    reference: str
    changes: Sequence[Difference]


def drift(
    prior: Prior, seen: Callable[[Entry], tuple[Mapping[str, Any] | None, str]], entries: Iterable[Entry]
) -> list[Drift]:
    """Give what has drifted among ``entries``, which have been read, where they are recorded."""
    found = []
    for entry in entries if prior.records else ():
        record = prior.records.get(entry.index)
        if record is None or "imperative" in entry.definition.features or record.key != entry.key:
            continue
        row, failure = seen(entry)
        if row is record.is_ or failure:
            continue
        if changes := drifted_attributes(entry.definition, record, row, prior.state.salt):
            found.append(Drift(str(entry.reference), changes))
    return found


def drifted_attributes(
    definition: TypeDefinition, record: Record, row: Mapping[str, Any] | None, salt: bytes
) -> list[Difference]:
    """Compare what is with what was recorded: existence, then the attributes that were managed, or imported."""
    was, is_ = exists(record.is_), exists(row)
    if was != is_:
        words = {True: "present", False: "absent"}
        before = (record.is_ or {}).get("ensure", words[was]) if was else "absent"
        after = (row or {}).get("ensure", words[is_]) if is_ else "absent"
        return [Difference("ensure", before, after)]
    if record.is_ is None or row is None or record.is_.items() <= row.items():
        return []
    changes = []
    for attribute in definition.managed:
        recorded = attribute in record.should or attribute in record.is_
        if not recorded or attribute in definition.write_only:
            continue
        before, after = record.is_.get(attribute), row.get(attribute)
        if before is not after and not same_value(before, after) and before != _as_kept(before, after, salt):
            changes.append(Difference(attribute, before, Sensitive(after) if holds_secret(before) else after))
    return changes


def corrective(step: Step, record: Record, salt: bytes) -> bool:
    """Whether a step mends drift: what is declared equals what was recorded as asked, and the system has moved."""
    definition = step.definition
    for attribute in definition.managed:
        declared, asked = step.should.get(attribute), record.should.get(attribute)
        if attribute in definition.write_only and declared is not None:
            declared = digest_secret(declared, salt)
        if not same_value(declared, asked) and seal_secrets(declared, salt) != asked:
            return False
    return bool(drifted_attributes(definition, record, step.is_, salt)) or _seen_before(step, record, salt)


def _seen_before(step: Step, record: Record, salt: bytes) -> bool:
    """Whether what differs had moved before it was last recorded: it was as asked, and a refresh has read it since."""
    if record.status != "ready" or not step.decision.differences:
        return False
    return bool(drifted_attributes(step.definition, record._replace(is_=record.should), record.is_, salt))


def _as_kept(before: Any, value: Any, salt: bytes) -> Any:
    """Give a value in the form in which one was recorded: a secret that is one only by reference comes back plain."""
    return digest_secret(value, salt) if isinstance(before, Sealed) else seal_secrets(value, salt)
