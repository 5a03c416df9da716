"""Reading again until a change can be seen: the world of a type may lag behind a ``set`` that reported success.

Pauses double from 0.1 s to 5 s, and the last read is at the end of ``settle`` seconds. What is still missing then is
decided by the caller.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from resource_api.model.type_definition import Name, TypeDefinition
    from resource_api.snapshot.snapshot import Snapshot

#: The first pause and the longest one, in seconds.
_FIRST: Final = 0.1
_LONGEST: Final = 5.0
#: How often an interrupt is looked for, in seconds.
_TICK: Final = 0.05


def read_until_settled(
    snapshot: Snapshot, definition: TypeDefinition, unsettled: Callable[[], Sequence[Name]], seconds: float
) -> None:
    """Read names of a type again until ``unsettled`` returns none, or ``seconds`` have passed.

    ``unsettled`` judges by the last read. An interrupt of the run ends the waiting at once.
    """
    run = snapshot.providers.run
    deadline, pause = time.monotonic() + seconds, _FIRST
    while names := unsettled():
        remaining = deadline - time.monotonic()
        if remaining <= 0 or not _pause(snapshot, min(pause, remaining)):
            return
        pause = min(2 * pause, _LONGEST)
        with run.log.bind(phase="verify"):
            snapshot.read_again(definition, names)


def _pause(snapshot: Snapshot, seconds: float) -> bool:
    """Wait while other threads of the run go on; return False as soon as the run is interrupted."""
    run, until = snapshot.providers.run, time.monotonic() + seconds
    with run.provider_call():
        while not run.cancelled and (remaining := until - time.monotonic()) > 0:
            time.sleep(min(_TICK, remaining))
    return not run.cancelled


def remaining_seconds(changed_at: str, settle: float) -> float:
    """Return the seconds, from 0 to ``settle``, until a change of that time (ISO 8601) must be visible."""
    passed = (datetime.now(UTC) - datetime.fromisoformat(changed_at)).total_seconds()
    return min(settle, max(0.0, settle - passed))
