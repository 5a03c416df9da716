"""What of a resource's values is recorded: as recorded_inputs, as it should be, as it is, secrets sealed.

Whether anything is recorded, and what else a record says, is the recorder's business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.model.codec import digest_secret, seal_secrets
from resource_api.model.secrets import mark_secrets
from resource_api.model.values.columnar import are_flat
from resource_api.model.values.values import is_flat, is_secret, is_unknown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.model.entry import Entry
    from resource_api.model.type_definition import TypeDefinition
    from resource_api.transaction.operation_run import OperationRun

    #: The values of one resource as a record holds them: as written, as they should be, as they are; None: it is not.
    Kept = tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any] | None]


def are_plain(runs: Sequence[OperationRun]) -> bool:
    """Whether no value of any run is a secret, unknown, or holds anything else: nearly always; for all at once."""
    if any(definition.sensitive or definition.write_only for definition in {run.step.definition for run in runs}):
        return False
    states: list[Mapping[str, Any]] = []
    for run in runs:
        entry = run.step.entry
        states.append(run.should)
        # What is read or recorded_inputs as it should be has been looked at there.
        if run.is_ is not None and run.is_ is not run.should:
            states.append(run.is_)
        if type(entry.written) is dict or run.should is not entry.should:
            states.append(entry.inputs)
    return are_flat(states)


def as_it_is(run: OperationRun) -> Kept:
    """Give what is kept of a run all of whose values are plain."""
    should, row = run.should, run.is_
    if row is not None and row is not should:
        kept = run.step.definition.recorded_attributes
        row = {name: row[name] for name in row if name in should or name in kept}
    return run.step.entry.inputs, should, row


def keep(run: OperationRun, salt: bytes, *, failed: bool) -> Kept:
    """Give what is kept of a run; what was to be set and cannot be read back is not, where it has ``failed``."""
    definition, should, row = run.step.definition, run.should, run.is_
    is_ = None if row is None else _sealed(recorded_state(definition, should, row), salt)
    return recorded_inputs(run.step.entry, should, salt), _should(run, salt, failed=failed), is_


def recorded_inputs(entry: Entry, should: Mapping[str, Any], salt: bytes) -> Mapping[str, Any]:
    """Return the values of a resource as written, sealed; a value that is secret by its type was written in clear."""
    definition = entry.definition
    hidden = definition.sensitive | definition.write_only
    if not is_flat(should):
        hidden |= {name for name, value in should.items() if is_secret(value)}
    kept = _sealed(entry.inputs, salt)
    if hidden := hidden & kept.keys():
        return {**kept, **{name: digest_secret(entry.inputs[name], salt) for name in hidden}}
    return kept


def recorded_state(definition: TypeDefinition, should: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """Give what of a resource is kept: what is declared and what only it can tell; the rest is nobody's business.

    ``should`` may be as declared or as recorded: what is secret in it comes back plain from where it was put.
    """
    kept = definition.recorded_attributes
    return {
        name: value for name, value in mark_secrets(definition, row, should).items() if name in should or name in kept
    }


def _should(run: OperationRun, salt: bytes, *, failed: bool) -> Mapping[str, Any]:
    hidden = run.step.definition.write_only
    known = _sealed(run.should, salt)
    if hidden.isdisjoint(known):
        return known
    if failed:
        # Nobody can tell whether it was set: the next run sets it again.
        return {name: value for name, value in known.items() if name not in hidden}
    return {**known, **{name: digest_secret(run.should[name], salt) for name in hidden & known.keys()}}


def _sealed(values: Mapping[str, Any], salt: bytes) -> Mapping[str, Any]:
    """Give what is known of values, secrets sealed; what holds neither is kept as it is."""
    if is_flat(values):
        return values
    return {name: seal_secrets(value, salt) for name, value in values.items() if not is_unknown(value)}
