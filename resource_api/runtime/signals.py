"""Signals: the first lets running calls finish, the second stops child processes, the third ends the process.

During a run a handler only sets a flag; it raises an exception only within a provider's call, never in code that writes
state.
"""

from __future__ import annotations

import os
import signal
import threading
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self

from resource_api.model.values.errors import STOPPED
from resource_api.provider.context import RunContext, current
from resource_api.system.log import LogBusyError
from resource_api.system.process import process

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType


#: The signals that end a run.
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

#: Seconds that a finished command waits for threads which a provider has left running.
_PATIENCE: Final = 2.0


class Interrupts:
    """A context in which signals stop the run in an orderly way; ``exit_code`` depends on the last signal."""

    def __init__(
        self,
        run: RunContext,
        before_exit: Callable[[], None] = lambda: None,
        *,
        again: str = "; press Ctrl-C again to stop it",
    ) -> None:
        """Stop ``run`` when a signal arrives; call ``before_exit`` before a signal ends the process.

        ``again``: the end of the message about the first signal, with the effect of the next one; "" if the user has no
        terminal here to send one.
        """
        self._run = run
        self._before_exit = before_exit
        self._again = again
        #: The caller's handlers, by signal, restored at the end.
        self._former_handlers: dict[int, Any] = {}
        self._signal_count = 0

    @property
    def exit_code(self) -> int:
        """130 after SIGINT, 143 after SIGTERM, 129 after SIGHUP; 1 when no signal came."""
        return 128 + self._run.signal if self._run.signal else 1

    @property
    def came(self) -> bool:
        """Whether a signal came."""
        return self._run.signal != 0

    def __enter__(self) -> Self:
        """Install the handlers; a signal that the caller ignores (``nohup``) stays ignored."""
        for number in SIGNALS:
            if (before := signal.getsignal(number)) is not signal.SIG_IGN:
                self._former_handlers[number] = before
                signal.signal(number, self._handle)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Restore the handlers."""
        for number, handler in self._former_handlers.items():
            signal.signal(number, handler)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        """Let the calls of an apply finish at the first signal, stop programs at the second, and exit at the third.

        Outside of an apply nothing is changed that should be finished, so the first signal stops programs already.
        """
        self._signal_count += 1
        self._run.signal = number
        self._run.cancel()
        if self._signal_count == 1 and self._run.applying:
            text = f"interrupted: finishing the current step{self._again}"
            write = partial(self._run.log.write, "warning", "", text)
            try:
                write()
            except LogBusyError:
                # The signal has come in the middle of a write to the very stream; another thread waits for its end.
                threading.Thread(target=copy_context().run, args=(write,), daemon=True).start()
        elif self._signal_count <= 2:  # noqa: PLR2004 - the second of three
            self._run.stop_soon()
            process.stop_all()
            # Between the calls of an apply, no exception may interrupt the recording of outcomes.
            if not self._run.applying or current.get() is not None:
                process.interrupt(STOPPED)
        else:
            self._before_exit()
            os._exit(self.exit_code)


def exit_despite_threads(code: int) -> None:
    """End the process with ``code`` after some seconds, even if a thread that a provider has left still runs.

    Python would wait for such a thread without limit. If the thread ends before, the timer ends with the process.
    """
    if all(thread.daemon or thread is threading.main_thread() for thread in threading.enumerate()):
        return
    timer = threading.Timer(_PATIENCE, os._exit, (code,))
    timer.daemon = True
    timer.start()
