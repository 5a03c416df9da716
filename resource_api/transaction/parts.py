"""The parts of one transaction that its stages share. Values only: each part is documented in its own module."""

from __future__ import annotations

from typing import TYPE_CHECKING

from resource_api.model.values._namedtuple import NamedTuple

if TYPE_CHECKING:
    from resource_api.plan.planner import Plan
    from resource_api.snapshot.snapshot import Snapshot
    from resource_api.transaction.events import Events
    from resource_api.transaction.recorder import NoRecorder, Recorder
    from resource_api.transaction.refreshes import Refreshes
    from resource_api.transaction.results import Results


class Parts(NamedTuple):
    """What re-evaluating and carrying out a segment read and write."""

    plan: Plan
    #: What was read; its ``providers`` are those of this run.
    snapshot: Snapshot
    results: Results
    refreshes: Refreshes
    events: Events
    recorder: Recorder | NoRecorder
