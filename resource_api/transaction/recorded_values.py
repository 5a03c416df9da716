"""What of a resource's values is recorded: as written, as it should be, as it is, secrets sealed.

Whether anything is recorded, and what else a record says, is the recorder's business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.model.codec import seal, sealed
from resource_api.model.secrets import marked
from resource_api.model.values.columns import are_flat
from resource_api.model.values.values import is_flat, is_secret, is_unknown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.model.entry import Entry
    from resource_api.model.type_definition import TypeDefinition
    from resource_api.transaction.operation_run import Work

    #: The values of one resource as a record holds them: as written, as they should be, as they are; None: it is not.
    Kept = tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any] | None]


def are_plain(works: Sequence[Work]) -> bool:
    """Whether no value of any work is a secret, unknown, or holds anything else: nearly always; told for all."""
    if any(definition.sensitive or definition.write_only for definition in {work.step.definition for work in works}):
        return False
    states: list[Mapping[str, Any]] = []
    for work in works:
        entry = work.step.entry
        states.append(work.should)
        # What is read or written as it should be has been looked at there.
        if work.is_ is not None and work.is_ is not work.should:
            states.append(work.is_)
        if type(entry.spelt) is dict or work.should is not entry.should:
            states.append(entry.spelling)
    return are_flat(states)


def as_it_is(work: Work) -> Kept:
    """Give what is kept of a work all of whose values are plain."""
    should, row = work.should, work.is_
    if row is not None and row is not should:
        kept = work.step.definition.kept
        row = {name: row[name] for name in row if name in should or name in kept}
    return work.step.entry.spelling, should, row


def keep(work: Work, salt: bytes, *, failed: bool) -> Kept:
    """Give what is kept of a work; what was to be set and cannot be read back is not, where it has ``failed``."""
    definition, should, row = work.step.definition, work.should, work.is_
    is_ = None if row is None else _sealed(told(definition, should, row), salt)
    return written(work.step.entry, should, salt), _should(work, salt, failed=failed), is_


def written(entry: Entry, should: Mapping[str, Any], salt: bytes) -> Mapping[str, Any]:
    """Give the values of a resource as written, sealed; what is a secret by its type was written in clear."""
    definition = entry.definition
    hidden = definition.sensitive | definition.write_only
    if not is_flat(should):
        hidden |= {name for name, value in should.items() if is_secret(value)}
    kept = _sealed(entry.spelling, salt)
    if hidden := hidden & kept.keys():
        return {**kept, **{name: seal(entry.spelling[name], salt) for name in hidden}}
    return kept


def told(definition: TypeDefinition, should: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """Give what of a resource is kept: what is declared and what only it can tell; the rest is nobody's business.

    ``should`` may be as declared or as recorded: what is secret in it comes back plain from where it was put.
    """
    kept = definition.kept
    return {name: value for name, value in marked(definition, row, should).items() if name in should or name in kept}


def _should(work: Work, salt: bytes, *, failed: bool) -> Mapping[str, Any]:
    hidden = work.step.definition.write_only
    known = _sealed(work.should, salt)
    if hidden.isdisjoint(known):
        return known
    if failed:
        # Nobody can tell whether it was set: the next run sets it again.
        return {name: value for name, value in known.items() if name not in hidden}
    return {**known, **{name: seal(work.should[name], salt) for name in hidden & known.keys()}}


def _sealed(values: Mapping[str, Any], salt: bytes) -> Mapping[str, Any]:
    """Give what is known of values, secrets sealed; what holds neither is kept as it is."""
    if is_flat(values):
        return values
    return {name: sealed(value, salt) for name, value in values.items() if not is_unknown(value)}
