"""Copy stacks from one store to another: both locked and verified, one stack after the other, each whole or not at all.

A copy that was cut is completed by the next one, which leaves the stacks alone that are there already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from resource_api.model.values.errors import ManifestError, Problem, StateError
from resource_api.model.values.start_up import NamedTuple
from resource_api.runtime.recorded_stack import finishing
from resource_api.state import export

if TYPE_CHECKING:
    from collections.abc import Sequence

    from resource_api.model.record import StackState
    from resource_api.state.store import StackName, Store


class CopiedStack(NamedTuple):
    """A stack in the target after the copy; ``status`` is ``copied`` or ``unchanged``."""

    project: str
    stack: str
    serial: int
    resources: int
    status: str


def copy_stacks(
    source: Store, target: Store, names: Sequence[StackName], url: str, timeout: float
) -> list[CopiedStack]:
    """Copy stacks with lineage, serial, resources, outputs, owed refreshes and open intents; return them.

    The history of the target gets a line for each that was copied.

    ``url`` is the target's, for messages. ``timeout``: seconds to wait for each lock. Raise ``ManifestError`` where the
    target has a stack of another lineage or a newer one, before anything is copied, and ``StateError``.
    """
    source.check()
    with source.lock("state copy", timeout), target.lock("state copy", timeout):
        for store in (source, target):
            for name in names:
                store.claim(name, timeout)
        states = {name: source.load(name) for name in names}
        problems = [
            Problem(None, f"{name} {reason}; nothing was copied", file=url, code="stale")
            for name, state in states.items()
            if (reason := export.replacement_problem(target.load(name), state))
        ]
        if problems:
            raise ManifestError(problems)
        copied = [_copy(target, name, state, url) for name, state in states.items()]
    target.check()
    return copied


def _copy(target: Store, name: StackName, state: StackState, url: str) -> CopiedStack:
    """Copy a stack unless it is there, and read it again. Raise ``StateError`` if it differs then."""
    status = "unchanged"
    if not _are_equal(target.load(name), state):
        with finishing(target, name, "state copy"):
            target.overwrite(name, state)
        status = "copied"
        if not _are_equal(target.load(name), state):
            msg = f"{url}: {name} is not as it was copied"
            raise StateError(msg)
    return CopiedStack(*name, state.serial, len(state.records), status)


def _are_equal(state: StackState, other: StackState) -> bool:
    """Whether two states have the same content; of secrets only the digests are compared."""
    return state.intents == other.intents and export.to_document(state) == export.to_document(other)
