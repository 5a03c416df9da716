"""What is shown of a run while it goes on: live lines on a terminal, elsewhere a notice after 5 s and every 30 s.

One thread shows all running calls; it begins with the first. How lines are replaced is in ``live_lines``.
"""

from __future__ import annotations

import signal
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from resource_api.cli.live_lines import cut, cut_inside, width
from resource_api.model.values.text import escape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from resource_api.cli.live_lines import LiveLines
    from resource_api.provider.progress import Activity

#: Seconds between two looks at what is running.
_TICK: Final = 0.1
#: Seconds after which a call has a live line; most calls end before.
_SHORT: Final = 0.3
#: Seconds until the first notice about a call, and from each to the next.
_FIRST, _NEXT = 5.0, 30.0
#: The least columns in which the name of a resource, or a detail, says anything.
_LEAST: Final = 12
#: The columns from which on a detail shows its end too: a lock's holder stands there.
_WIDE: Final = 40
#: Seconds that the end of a run waits for the thread, which may be writing to a terminal that was stopped.
_PATIENCE: Final = 1.0


class ProgressDisplay:
    """Shows the activities of one run."""

    def __init__(
        self,
        lines: LiveLines | None,
        mask: Callable[[str], str] = str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Show activities by ``lines``; None: by notices. ``mask`` masks the secrets in live lines."""
        self._lines = lines
        self._mask = mask
        self._clock = clock
        #: When the next notice about each activity is due.
        self._due: dict[Activity, float] = {}
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._closed = threading.Event()

    @contextmanager
    def running(self, activity: Activity) -> Iterator[None]:
        """Show an activity while the block runs."""
        if self._thread is None:
            self._start_thread()
        with self._shown(activity):
            yield

    @contextmanager
    def waiting(self, activity: Activity) -> Iterator[Callable[[], None]]:
        """Show a wait while the block runs, whenever what is yielded is called: a wait needs no thread."""
        with self._shown(activity):
            yield self.update

    @contextmanager
    def _shown(self, activity: Activity) -> Iterator[None]:
        self._due[activity] = activity.started + _FIRST
        try:
            yield
        finally:
            del self._due[activity]
            if self._lines is not None and self._clock() - activity.started >= _SHORT:
                self.update()

    def update(self) -> None:
        """Show what is running now."""
        now = self._clock()
        if self._lines is not None:
            columns, rows = self._lines.size
            activities = [activity for activity in list(self._due) if now - activity.started >= _SHORT]
            lines = [self._line(activity, now, columns - 1) for activity in activities]
            self._lines.show(lines if len(lines) < rows else [*lines[: rows - 2], f"… {len(lines) - rows + 2} more"])
            return
        for activity, due in list(self._due.items()):
            if now >= due and activity in self._due:
                self._due[activity] = due + _NEXT * ((now - due) // _NEXT + 1)
                activity.log(int(now - activity.started))

    def _line(self, activity: Activity, now: float, columns: int) -> str:
        """Return ``[3/14] Package[nginx] installing … 12 s: DETAIL``; the name is cut first, the seconds are not."""
        place = f"[{activity.place}] " if activity.place else ""
        end = f" {activity.verb} … " if activity.verb else " … "
        end += f"{int(now - activity.started)} s"
        subject = escape(self._mask(activity.subject))
        line = cut(place + cut(subject, max(_LEAST, columns - width(place + end))) + end, columns)
        room = columns - width(line) - 2
        detail = escape(self._mask(activity.detail).strip()) if room >= _LEAST else ""
        return f"{line}: {(cut_inside if room > _WIDE else cut)(detail, room)}" if detail else line

    def close(self) -> None:
        """End the thread; nothing is shown any more."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join(_PATIENCE)
        self.erase()

    def erase(self) -> None:
        """Erase the live lines and show none any more. Safe in a signal handler."""
        if self._lines is not None:
            self._lines.close()

    def _start_thread(self) -> None:
        with self._starting:
            if self._thread is not None or self._closed.is_set():
                return
            thread = threading.Thread(target=self._run, daemon=True, name="progress")
            # A signal that the kernel delivers to this thread would not interrupt what the main thread waits for.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            try:
                thread.start()
                self._thread = thread
            except RuntimeError:  # the system has no more threads: nothing is shown
                self._closed.set()
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _run(self) -> None:
        while not self._closed.wait(_TICK):
            # What is shown is read while the call changes it: what goes wrong here must not end up on the terminal.
            with suppress(Exception):
                self.update()
