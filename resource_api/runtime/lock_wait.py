"""Wait for the lock of the state, and show who holds it meanwhile."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from resource_api.model.values.errors import StateLocked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from resource_api.provider.progress import ActivityDisplay
    from resource_api.state.store import StateStore
    from resource_api.system.log import Log

#: Seconds of one attempt, after which is looked again who holds the lock.
_ATTEMPT: Final = 0.2


class LockWait:
    """The wait for a lock, as it is shown."""

    place = verb = ""
    subject = "waiting for the lock of the state"

    def __init__(self, error: StateLocked, log: Log) -> None:
        """Begin now, with the first refusal."""
        self.started = time.monotonic()
        self.error = error
        self._log = log

    @property
    def detail(self) -> str:
        """Who holds the lock."""
        return self.error.holder

    def log(self, seconds: int) -> None:
        """Log a notice that it still goes on."""
        self._log.write("notice", "", f"still {self.subject}: {self.detail} ({seconds} s)")


@contextmanager
def held(store: StateStore, command: str, seconds: float, progress: ActivityDisplay, log: Log) -> Iterator[None]:
    """Hold the lock of a store for one run of ``command``, waiting up to ``seconds``. Raise ``StateLocked``."""
    until = time.monotonic() + seconds
    with ExitStack() as stack:
        try:
            stack.enter_context(store.lock(command, 0.0))
        except StateLocked as error:
            wait = LockWait(error, log)
            with progress.waiting(wait) as show:
                while not _acquired(stack, store, command, until, wait):
                    show()
        yield


def _acquired(stack: ExitStack, store: StateStore, command: str, until: float, wait: LockWait) -> bool:
    """Try for a while to hold the lock; return whether it is held. Raise ``StateLocked`` when the time is over."""
    left = until - time.monotonic()
    try:
        stack.enter_context(store.lock(command, max(0.0, min(_ATTEMPT, left))))
    except StateLocked as error:
        wait.error = error
        if left <= _ATTEMPT:
            raise
        return False
    return True
