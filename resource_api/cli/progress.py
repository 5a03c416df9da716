"""Progress of a run: live lines at the bottom of a terminal, elsewhere a notice after 5 s and every 30 s.

Live lines are replaced; other output is written above them. Three control sequences of ECMA-48 are used: to the line's
start, up, and erase to the end of the screen. One thread shows all running calls; it begins with the first.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import contextmanager, suppress
from threading import RLock
from typing import TYPE_CHECKING, Final

from resource_api.model.values.text import escape
from resource_api.render.columns import cut, cut_inside, width

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from resource_api.provider.context import Activity


#: Seconds that output waits for the lines: a signal handler may write in the middle of their change.
_LOCK_PATIENCE: Final = 0.2
#: The size of a terminal that does not know its own.
_SIZE: Final = (80, 24)


class LiveLines:
    """The lines at the bottom of one terminal that are replaced; without control characters, and never wrapped."""

    def __init__(self, descriptor: int) -> None:
        """Use the terminal at ``descriptor``; nothing is written yet."""
        self._descriptor = descriptor
        #: The lines on the terminal now, none while they are hidden.
        self._lines: Sequence[str] = ()
        self._lock = RLock()
        #: Whether no line is shown any more, after the end or a failed write.
        self._closed = False

    @property
    def size(self) -> tuple[int, int]:
        """The present width and height, in characters, for lines that fit; a usual size if the terminal has none."""
        try:
            columns, rows = os.get_terminal_size(self._descriptor)
        except OSError:
            return _SIZE
        return columns or _SIZE[0], rows or _SIZE[1]

    def show(self, lines: Sequence[str]) -> None:
        """Replace the lines on the terminal by new ones.

        Nothing is written after ``close``, or while this process is in the background, where a write could stop it.
        """
        with self._locked():
            if self._closed or not self._in_foreground():
                return
            if list(lines) != list(self._lines):
                # Before they are written: a signal handler that comes meanwhile erases them.
                before, self._lines = self._lines, lines
                self._write(self._erasure(before) + "\r\n".join(lines))

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Erase the lines, for output of whole lines in the block, and write them again below it."""
        with self._locked():
            hidden, self._lines = self._lines, ()
            if hidden:
                self._write(self._erasure(hidden))
            try:
                yield
            finally:
                if hidden and not self._closed:
                    self._lines = hidden
                    self._write("\r\n".join(hidden))

    def close(self) -> None:
        """Erase the lines and show none any more. Safe in a signal handler."""
        with self._locked():
            self.show(())
            self._closed = True

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock, so that threads do not mix their text; go on without it after a short wait.

        In a signal handler the holder may be the interrupted code of the same thread, which cannot release it.
        """
        acquired = self._lock.acquire(timeout=_LOCK_PATIENCE)
        try:
            yield
        finally:
            if acquired:
                self._lock.release()

    def _erasure(self, lines: Sequence[str]) -> str:
        """Return the control sequences that erase ``lines``: to the start of the first row, and erase all below.

        A window that was made narrower has wrapped a line into more rows.
        """
        if not lines:
            return ""
        columns, _ = self.size
        rows = sum(max(1, -(-width(line) // columns)) for line in lines)
        cursor_up = f"\x1b[{rows - 1}A" if rows > 1 else ""
        return f"{cursor_up}\r\x1b[J"

    def _write(self, text: str) -> None:
        """Write to the terminal; after an error show nothing more: a run must not fail because of its display."""
        data = text.encode("utf-8", "backslashreplace")
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError:
            self._closed = True

    def _in_foreground(self) -> bool:
        """Return whether this process is in the foreground of its terminal: in the background a write could stop it."""
        with suppress(OSError):  # it is not the terminal that controls this process
            return os.tcgetpgrp(self._descriptor) == os.getpgrp()
        return True


#: Seconds between two updates.
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
_JOIN_PATIENCE: Final = 1.0


class ProgressDisplay:
    """Shows the activities of one run, such as calls of providers and waits for a lock, while they go on."""

    def __init__(
        self, lines: LiveLines | None, mask: Callable[[str], str] = str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Show activities by ``lines``, or for None by notices in the log; ``mask`` masks the secrets in live lines."""
        self._lines = lines
        self._mask = mask
        self._clock = clock
        #: When the next notice about each activity is due.
        self._due: dict[Activity, float] = {}
        self._thread: threading.Thread | None = None
        #: Held while the thread is started: several calls may begin at once.
        self._start_lock = threading.Lock()
        self._closed = threading.Event()

    @contextmanager
    def running(self, activity: Activity) -> Iterator[None]:
        """Show an activity, such as a provider's call, while the block runs.

        The block itself is busy, so a thread draws, which the first activity starts.
        """
        if self._thread is None:
            self._start_thread()
        with self._registered(activity):
            yield

    @contextmanager
    def waiting(self, activity: Activity) -> Iterator[Callable[[], None]]:
        """Show a wait while the block runs, at each call of the yielded function: a wait needs no thread."""
        with self._registered(activity):
            yield self.update

    @contextmanager
    def _registered(self, activity: Activity) -> Iterator[None]:
        """Register an activity, which each ``update`` shows while the block runs; then erase its line, if it had one.

        This is the common part of ``running``, for which a thread calls ``update``, and of ``waiting``, where the
        waiting code does.
        """
        self._due[activity] = activity.started + _FIRST
        try:
            yield
        finally:
            del self._due[activity]
            if self._lines is not None and self._clock() - activity.started >= _SHORT:
                self.update()

    def update(self) -> None:
        """Show all activities that have lasted long enough: as live lines, or without a terminal as due notices."""
        time_now = self._clock()
        if self._lines is not None:
            columns, rows = self._lines.size
            activities = [activity for activity in list(self._due) if time_now - activity.started >= _SHORT]
            lines = [self._line(activity, time_now, columns - 1) for activity in activities]
            if len(lines) >= rows:
                lines = [*lines[: rows - 2], f"… {len(lines) - rows + 2} more"]
            self._lines.show(lines)
            return
        for activity, due in list(self._due.items()):
            if time_now >= due and activity in self._due:  # another thread may have ended it meanwhile
                # The next notice is due at a multiple of the interval, however late this one is.
                self._due[activity] = due + _NEXT * ((time_now - due) // _NEXT + 1)
                activity.log(int(time_now - activity.started))

    def _line(self, activity: Activity, time_now: float, columns: int) -> str:
        """Return ``[3/14] Package[nginx] installing … 12 s: DETAIL``, in ``columns`` at most.

        If these are too few, first the detail is cut or left out, then the name is cut.
        """
        prefix = f"[{activity.place}] " if activity.place else ""
        end = f" {activity.verb} … " if activity.verb else " … "
        end += f"{int(time_now - activity.started)} s"
        name = escape(self._mask(activity.subject))
        line = cut(prefix + cut(name, max(_LEAST, columns - width(prefix + end))) + end, columns)
        room = columns - width(line) - 2
        detail = escape(self._mask(activity.detail).strip()) if room >= _LEAST else ""
        if not detail:
            return line
        return f"{line}: {cut_inside(detail, room) if room > _WIDE else cut(detail, room)}"

    def close(self) -> None:
        """End the thread, and erase the lines; show nothing any more.

        The wait for the thread is short, because it may hang in a write to a terminal that was stopped.
        """
        self._closed.set()
        if self._thread is not None:
            self._thread.join(_JOIN_PATIENCE)
        self.erase()

    def erase(self) -> None:
        """Erase the live lines and show none any more. Safe in a signal handler."""
        if self._lines is not None:
            self._lines.close()

    def _start_thread(self) -> None:
        """Start the thread that updates the display, once; signals are left to the main thread."""
        with self._start_lock:
            if self._thread is not None or self._closed.is_set():
                return
            thread = threading.Thread(target=self._run, daemon=True, name="progress")
            # A signal that the kernel delivers to this thread would not interrupt a wait of the main thread.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            try:
                thread.start()
                self._thread = thread
            except RuntimeError:  # the system has no more threads: nothing is shown
                self._closed.set()
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _run(self) -> None:
        """Update the display until it is closed; this is the function of the thread."""
        while not self._closed.wait(_TICK):
            # The activities are read while calls change them: an error of that must not end up on the terminal.
            with suppress(Exception):
                self.update()
