"""One run after another, each a process of its own: what sleeps between them is small, and survives what they do.

An upgrade of this program is used from the next run on. Signals are waited for, never handled: none comes at a wrong
moment. The first one that ends the agent lets its running run end in order, as that of ``apply``.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

from resource_api.agent.schedule import Now, next_run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from resource_api.agent.schedule import Schedule

#: Seconds after which a clock that has been set, or a machine that was suspended, is noticed.
POLL: Final = 60.0
#: Seconds of the shortest sleep: a shorter one might not move a clock.
SHORTEST: Final = 0.001
_ENDS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(Exception):  # noqa: N818 - reads as what it says
    """A signal has ended the agent."""

    def __init__(self, number: int) -> None:
        """Keep the number of the signal."""
        super().__init__(number)
        self.number = number


class Machine(Protocol):
    """What the loop needs of the machine that it is on."""

    def now(self) -> Now:
        """Return the time."""

    def sleep(self, seconds: float) -> None:
        """Sleep, not longer. Raise ``Stopped`` when the agent is to end."""

    def run(self) -> None:
        """Converge once, and wait until that has ended, however it ends. Raise ``Stopped`` as ``sleep``."""


def run_until_stopped(times: Schedule, machine: Machine, ended: float | None, on_wait: Callable[[float], None]) -> int:
    """Run at the times of a schedule until ``machine`` raises ``Stopped``; return the number of the signal.

    ``ended``: when the last run ended, by the boot clock, None if unknown. ``on_wait`` is called with the seconds until
    the next run, once before each.
    """
    catch_up: float | None = None
    announced = False
    try:
        while True:
            seconds, catch_up = next_run(times, machine.now(), ended, catch_up)
            if seconds > 0:
                if not announced:
                    on_wait(seconds)
                    announced = True
                machine.sleep(min(max(seconds, SHORTEST), POLL))
                continue
            machine.run()
            ended, catch_up, announced = machine.now().boot, None, False
    except Stopped as stopped:
        return stopped.number


class ThisMachine:
    """Runs a command of this program as a process; the thread that makes it waits for signals."""

    def __init__(self, arguments: Sequence[str]) -> None:
        """Run ``resource-api ARGUMENTS``; from now on the signals that end the agent wait until it looks for them."""
        # Without -P the owner of the working directory could give the program other modules.
        self._argv = [sys.executable, "-P", "-m", "resource_api", *arguments]
        self._ends = {number for number in _ENDS if signal.getsignal(number) is not signal.SIG_IGN}
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._before = signal.pthread_sigmask(signal.SIG_BLOCK, {*self._ends, signal.SIGCHLD})

    def now(self) -> Now:
        """Return the time."""
        return now()

    def sleep(self, seconds: float) -> None:
        """Sleep without using the processor. Raise ``Stopped``."""
        if (came := signal.sigtimedwait(self._ends, seconds)) is not None:
            raise Stopped(came.si_signo)

    def run(self) -> None:
        """Run the command; signals are passed on to it. Raise ``Stopped`` after its end if one came."""
        nothing = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
        try:
            # In a group of its own: Ctrl-C on a terminal comes to it from here alone.
            pid = os.posix_spawn(
                self._argv[0],
                self._argv,
                os.environ,
                file_actions=nothing,
                setpgroup=0,
                setsigmask=self._before,
                setsigdef=[*self._ends, signal.SIGCHLD],
            )
        except OSError as error:
            sys.stderr.write(f"resource-api: a run cannot be started: {error.strerror}\n")
            return
        ended = 0
        while os.waitpid(pid, os.WNOHANG) == (0, 0):
            number = signal.sigwaitinfo({*self._ends, signal.SIGCHLD}).si_signo
            if number != signal.SIGCHLD:
                ended = number
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
        if ended:
            raise Stopped(ended)


def now() -> Now:
    """Return the time by both clocks."""
    return Now(time.time(), time.clock_gettime(time.CLOCK_BOOTTIME))


def machine_id() -> str:
    """Return what tells this machine from all others (machine-id(5)); its host name where it has none."""
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        with suppress(OSError), open(path, encoding="ascii", errors="replace") as file:
            if found := file.read(64).strip():
                return found
    return os.uname().nodename


def boot_id() -> str:
    """Return what tells this start of the machine from others, empty if that is not known (random(4))."""
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()
    return ""
