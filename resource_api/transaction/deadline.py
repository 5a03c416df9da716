"""The time limit of a provider's ``set`` or ``refresh``: when a call must have ended, by ``timeout`` of its resource.

A resource with a timeout has a call of its own (``segments``). The call's programs and workers obey the deadline.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from resource_api.transaction.operation_run import OperationRun


def deadline(runs: Sequence[OperationRun]) -> float | None:
    """Return when a call must have ended, in seconds of ``time.monotonic``; None: there is no time limit."""
    timeout = runs[0].step.entry.timeout(str(runs[0].decision.action)) if len(runs) == 1 else None
    return None if timeout is None else time.monotonic() + timeout
