"""The agent's schedule, and the loop that carries it out.

Each run is a child process, so the loop stays small and survives a crash. An upgrade of this program takes effect with
the next run. Signals are waited for, never handled, so that none arrives at a wrong moment. The first one ends the loop
after the current run, which ends in order.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import time
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Protocol

from resource_api.model.values.start_up import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


#: Seconds over which machines spread their missed runs after a common outage.
CATCH_UP: Final = 300.0
#: Largest delay in seconds of a run that is not missed.
PROMPT: Final = 5.0
_WORD: Final = 8


class Moment(NamedTuple):
    """The time by two clocks, in seconds.

    ``wall``: since 1970; it jumps when it is set. ``boot``: since the machine started, including suspensions; it never
    jumps.
    """

    wall: float
    boot: float


class AgentSchedule(NamedTuple):
    """Runs at ``offset`` + n times ``period`` seconds since 1970, and ``delay`` seconds after a missed one."""

    period: float
    offset: float
    delay: float


class Wait(NamedTuple):
    """The seconds to wait; ``catch_up``: the time of a missed run's replacement by the boot clock, or None."""

    seconds: float
    catch_up: float | None = None


def schedule(machine: str, subject: str, period: float, splay: float | None = None) -> AgentSchedule:
    """Return the schedule of a machine, with a run within ``splay`` seconds of the beginning of each period.

    The time of a run within the period is a hash of machine and subject, which spreads the machines evenly, and so is
    the delay after a missed run. ``splay``: None for the whole period; ``subject`` distinguishes one machine's agents.
    """
    digest = sha256(f"{machine}\0{subject}".encode()).digest()
    share, another = (int.from_bytes(digest[at : at + _WORD], "big") / (1 << 64) for at in (0, _WORD))
    spread = period if splay is None else min(splay, period)
    return AgentSchedule(period, share * spread, another * min(spread, CATCH_UP))


def slot_after(times: AgentSchedule, wall: float) -> float:
    """Return the first time of a run after ``wall``, never equal to it by rounding."""
    number = math.floor((wall - times.offset) / times.period) + 1
    slot = times.offset + number * times.period
    return slot if slot > wall else slot + times.period


def next_run(times: AgentSchedule, moment: Moment, ended: float | None, catch_up: float | None = None) -> Wait:
    """Return the wait for the next run, which is due at 0.

    ``ended``: the end of the last run by the boot clock, None if unknown. ``catch_up``: that of the previous answer,
    None after a run. Times that pass during a run are not missed: the run delays the next one.
    """
    if catch_up is None:
        if ended is not None:
            # The end of the last run by the current wall clock.
            due = slot_after(times, moment.wall - (moment.boot - ended))
            if moment.wall - due <= PROMPT:
                return Wait(max(due - moment.wall, 0.0))
        catch_up = moment.boot + min(times.delay, slot_after(times, moment.wall) - moment.wall)
    return Wait(max(catch_up - moment.boot, 0.0), catch_up)


#: Seconds until a changed clock, or the end of a suspension, is noticed.
POLL: Final = 60.0
#: Shortest sleep in seconds: the clock might not advance in a shorter one.
SHORTEST: Final = 0.001
_ENDS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(Exception):  # noqa: N818 - no error
    """A signal ended the agent."""

    def __init__(self, number: int) -> None:
        """Keep the number of the signal."""
        super().__init__(number)
        self.number = number


class KilledRun(NamedTuple):
    """A run that a signal has ended: the kernel's for want of memory, or a user's."""

    signal: int
    #: The most memory that it had, in MiB.
    memory: int
    #: Its beginning in seconds since 1970.
    began: float

    def __str__(self) -> str:
        """Return the sentence about it."""
        name = signal.Signals(self.signal).name if self.signal in set(signal.Signals) else "unknown"
        return f"the run was ended by signal {self.signal} ({name}), with {self.memory} MiB of memory in use"


class AgentMachine(Protocol):
    """The clock, the sleep and the runs of the loop."""

    def now(self) -> Moment:
        """Return the time."""

    def sleep(self, seconds: float) -> None:
        """Sleep for at most ``seconds``. Raise ``Stopped`` for a signal."""

    def run(self) -> None:
        """Run once and wait for the end, whatever the result. Raise ``Stopped`` for a signal."""


def run_until_stopped(
    times: AgentSchedule, machine: AgentMachine, ended: float | None, on_wait: Callable[[float], None]
) -> int:
    """Run at the times of a schedule until ``machine`` raises ``Stopped``; return the number of the signal.

    ``ended``: the end of the last run by the boot clock, None if unknown. ``on_wait`` is called once before each run,
    with the seconds until it.
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
    """Runs a command of this program as a process; the creating thread waits for signals."""

    def __init__(self, arguments: Sequence[str], on_killed: Callable[[KilledRun], None]) -> None:
        """Run ``resource-api ARGUMENTS``; the signals that end the agent are blocked from now on.

        ``on_killed`` is called after a run that a signal has ended, which could record nothing.
        """
        self._on_killed = on_killed
        # Without -P the owner of the working directory could replace modules.
        self._argv = [sys.executable, "-P", "-m", "resource_api", *arguments]
        #: The signals that end the agent: one that is ignored, as by nohup(1), stays so.
        self._ends = {number for number in _ENDS if signal.getsignal(number) is not signal.SIG_IGN}
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # an ignored one is not sent
        self._previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {*self._ends, signal.SIGCHLD})

    def now(self) -> Moment:
        """Return the time."""
        return now()

    def sleep(self, seconds: float) -> None:
        """Sleep without using the processor. Raise ``Stopped``."""
        if (info := signal.sigtimedwait(self._ends, seconds)) is not None:
            raise Stopped(info.si_signo)

    def run(self) -> None:
        """Run the command and pass signals on to it. Raise ``Stopped`` after its end if one arrived."""
        began = time.time()
        no_input = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
        try:
            # In a process group of its own: Ctrl-C reaches it from here alone.
            pid = os.posix_spawn(
                self._argv[0],
                self._argv,
                os.environ,
                file_actions=no_input,
                setpgroup=0,
                setsigmask=self._previous_mask,
                setsigdef=[*self._ends, signal.SIGCHLD],
            )
        except OSError as error:  # the next time is waited for
            sys.stderr.write(f"resource-api: a run cannot be started: {error.strerror}\n")
            return
        ended = 0
        while not (result := os.wait4(pid, os.WNOHANG))[0]:  # (0, ...) while it runs
            number = signal.sigwaitinfo({*self._ends, signal.SIGCHLD}).si_signo
            if number != signal.SIGCHLD:
                ended = number
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
        _, status, usage = result
        if os.WIFSIGNALED(status):
            self._on_killed(KilledRun(os.WTERMSIG(status), usage.ru_maxrss >> 10, began))
        if ended:
            raise Stopped(ended)


def now() -> Moment:
    """Return the time by both clocks."""
    return Moment(time.time(), time.clock_gettime(time.CLOCK_BOOTTIME))
