"""The runs of an agent: their schedule, the loop that carries it out, the lock of one run, the record of the last one.

Each run is a child process, so the loop stays small and survives a crash. An upgrade of this program takes effect with
the next run. Signals are waited for, never handled, so that none arrives at a wrong moment. The first one ends the loop
after the current run, which ends in order. A recorded pause suspends the runs.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import time
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Protocol

from resource_api.agent.trust import make_directory
from resource_api.agent.verified_sources import SourceVersion, run_fields
from resource_api.model.values.errors import ResourceAPIError, StateLocked
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.text import escape
from resource_api.runtime import agent_status
from resource_api.state.lock import Lock, boot_id
from resource_api.system.filesystem import files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from resource_api.agent.verified_sources import Agent

#: Seconds over which machines spread their missed runs after a common outage.
CATCH_UP: Final = 300.0
#: Largest delay in seconds of a run that is not missed.
PROMPT: Final = 5.0
#: Bytes of a digest that are read as one fraction.
_FRACTION_BYTES: Final = 8
#: Seconds until a changed clock, or the end of a suspension, is noticed.
POLL: Final = 60.0
#: Shortest sleep in seconds: the clock might not advance in a shorter one.
SHORTEST: Final = 0.001
_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Moment(NamedTuple):
    """The time by two clocks, in seconds: ``wall`` since 1970, ``boot`` since the start, with suspensions.

    The wall clock jumps when it is set; the boot clock never does, so that it measures the time since the last run.
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

    A hash of machine and subject determines the time of a run within the period, and the delay after a missed run: the
    machines are spread evenly, and each keeps its times. ``splay``: None for the whole period. ``subject``
    distinguishes the agents of one machine.
    """
    digest = sha256(f"{machine}\0{subject}".encode()).digest()
    # Two fractions from 0 to 1.
    offset_share, delay_share = (
        int.from_bytes(digest[at : at + _FRACTION_BYTES], "big") / (1 << 64) for at in (0, _FRACTION_BYTES)
    )
    spread = period if splay is None else min(splay, period)
    return AgentSchedule(period, offset_share * spread, delay_share * min(spread, CATCH_UP))


def slot_after(times: AgentSchedule, wall: float) -> float:
    """Return the first time of a run after ``wall``.

    If rounding makes it ``wall`` itself, return the time after it, because the run would otherwise be repeated.
    """
    number = math.floor((wall - times.offset) / times.period) + 1
    slot = times.offset + number * times.period
    return slot if slot > wall else slot + times.period


def next_run(times: AgentSchedule, moment: Moment, ended: float | None, catch_up: float | None = None) -> Wait:
    """Return the seconds until the next run, 0 if it is due; after a missed run also the time of its replacement.

    A run is missed if the machine was off or suspended at its time. It is replaced after a delay, which differs between
    machines, so that not all begin at once. ``ended``: the end of the last run by the boot clock, None if unknown.
    ``catch_up``: the time of a replacement from the previous result, which later calls must not postpone; None after a
    run. Times that pass during a run are not missed: the schedule goes on after its end.
    """
    if catch_up is None:
        if ended is not None:
            # The end of the last run by the current wall clock.
            due = slot_after(times, moment.wall - (moment.boot - ended))
            if moment.wall - due <= PROMPT:  # in future, or so short ago that the run is late, but not missed
                return Wait(max(due - moment.wall, 0.0))
        # A time was missed, or may have been: the replacement must not come after the next time of the schedule.
        catch_up = moment.boot + min(times.delay, slot_after(times, moment.wall) - moment.wall)
    return Wait(max(catch_up - moment.boot, 0.0), catch_up)


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
        """Return the sentence about it for the log and the status; the memory shows whether the kernel lacked it."""
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

    ``machine`` has the clocks and the process, so that this loop can be tried without waiting. ``ended``: the end of
    the last run by the boot clock, None if unknown. ``on_wait`` is called once before each run that is not due yet,
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
                # In short sleeps: the next run is computed again in case that the clock was set, or the machine
                # suspended.
                machine.sleep(min(max(seconds, SHORTEST), POLL))
                continue
            machine.run()
            ended, catch_up, announced = machine.now().boot, None, False
    except Stopped as stopped:
        return stopped.number


class ThisMachine:
    """Runs a command of this program as a process; the creating thread waits for signals."""

    def __init__(self, arguments: Sequence[str], on_killed: Callable[[KilledRun], None]) -> None:
        """Prepare runs of ``resource-api ARGUMENTS``, and block the signals that end the agent.

        A blocked signal stays pending until this thread asks for it, so none is lost between two waits.
        ``on_killed`` is called after a run that a signal has ended, to record it: the run itself no longer could.
        """
        self._on_killed = on_killed
        # Without -P the owner of the working directory could replace modules.
        self._argv = [sys.executable, "-P", "-m", "resource_api", *arguments]
        #: The signals that end the agent: one that is ignored, as by nohup(1), stays so.
        self._stop_signals = {number for number in _STOP_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN}
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # an ignored one is not sent
        #: The signals that were blocked before, as they are again in each run.
        self._previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {*self._stop_signals, signal.SIGCHLD})

    def now(self) -> Moment:
        """Return the time."""
        return now()

    def sleep(self, seconds: float) -> None:
        """Sleep without using the processor. Raise ``Stopped``."""
        if (info := signal.sigtimedwait(self._stop_signals, seconds)) is not None:
            raise Stopped(info.si_signo)

    def run(self) -> None:
        """Run the command in a child process, and wait for its end.

        A signal that ends the agent is passed on to the child, which ends its run in order; then ``Stopped`` is raised.
        """
        began = time.time()
        try:
            pid = self._spawn()
        except OSError as error:  # the next time is waited for
            log_line(f"resource-api: a run cannot be started: {error.strerror}")
            return
        last_signal = 0
        while True:
            child, status, usage = os.wait4(pid, os.WNOHANG)
            if child:  # 0 while it runs; if it ends from here on, SIGCHLD is pending and ends the next wait
                break
            number = signal.sigwaitinfo({*self._stop_signals, signal.SIGCHLD}).si_signo
            if number != signal.SIGCHLD:
                last_signal = number
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
        if os.WIFSIGNALED(status):
            self._on_killed(KilledRun(os.WTERMSIG(status), usage.ru_maxrss >> 10, began))
        if last_signal:
            raise Stopped(last_signal)

    def _spawn(self) -> int:
        """Start the command and return its process id.

        It has a process group of its own, so that the terminal sends Ctrl-C to the agent alone, which passes it on. It
        starts with the signal mask from before the agent: a blocked signal could not end it.
        """
        return os.posix_spawn(
            self._argv[0],
            self._argv,
            os.environ,
            file_actions=[(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)],
            setpgroup=0,
            setsigmask=self._previous_mask,
            setsigdef=[*self._stop_signals, signal.SIGCHLD],
        )


def log_line(text: str) -> None:
    """Write a line of the agent's log to standard error at once; a full or closed log must not end the agent."""
    if sys.stderr is not None:  # otherwise descriptor 2 is closed, or another file
        with suppress(OSError):
            os.write(2, f"{escape(text)}\n".encode())


def now() -> Moment:
    """Return the time by both clocks."""
    return Moment(time.time(), time.clock_gettime(time.CLOCK_BOOTTIME))


@contextmanager
def locked(directory: str) -> Iterator[None]:
    """Hold the lock of an agent's directory, so that only one run uses it at a time.

    Raise ``StateError``, and ``StateLocked`` with a message that names the agent, if the holder of the lock is known.
    """
    lock = Lock(f"{directory}/agent")
    try:
        with lock.held(0.0):
            lock.write_holder("agent once")
            yield
    except StateLocked as error:
        if error.holder is None:
            raise
        raise StateLocked(f"{directory}: the agent is running: {error.holder}") from error


def record(agent: Agent, version: SourceVersion, document: Mapping[str, object], code: int, began: float) -> None:
    """Record the end of a run that ``began`` (since 1970), for ``agent status`` and the schedule. Raise ``OSError``.

    ``document``: the JSON document of the run; after an error it may have only ``summary`` and ``problems``.
    ``boot_id`` is recorded because ``ended_boot``, a time of the boot clock, is valid only until the machine restarts.
    """
    moment = now()
    run = {
        **version.fields,
        **_outcome_fields(document, version.directory),
        "exit_code": code,
        "period": agent.period,
        "started": began,
        "ended": moment.wall,
        "ended_boot": moment.boot,
        "boot_id": boot_id(),
    }
    _write(f"{agent.directory}/{agent_status.STATUS}", run)


def record_killed(agent: Agent, killed: KilledRun) -> None:
    """Record a run that a signal has ended as failed, because it could record nothing itself. Raise ``OSError``.

    The version that it applied is unknown: the fields of the previous run are repeated, or, without a previous run, the
    source is recorded as ``unreachable``.
    """
    fields = run_fields(agent, "unreachable")
    if (before := agent_status.last_run(agent.directory)) is not None:
        fields |= {name: before[name] for name in ("trust", "generation", "version", "signer")}
    version = SourceVersion(None, (), fields)
    record(agent, version, failed_document(killed), 128 + killed.signal, killed.began)


def failed_document(error: object) -> dict[str, Any]:
    """Return the document, for ``record``, of a run that ``error`` has ended before it had one."""
    return {"summary": {}, "problems": [{"severity": "error", "message": str(error)}]}


def _outcome_fields(document: Mapping[str, Any], directory: str | None) -> dict[str, object]:
    """Return the fields of ``agent status`` from a run's JSON document: its id, counts, drift and first failure.

    ``directory``: that of the version's files, None without a version. Problems are shown with paths relative to it,
    because it is a copy in the agent's own directory, whose path is of no use to the reader.
    """
    steps = document.get("steps") or ()
    failed = [f"{step['reference']}: {step['error']}" for step in steps if step["status"] == "failed"]
    errors = [problem for problem in document.get("problems") or () if problem["severity"] == "error"]
    failed += [f"{_location(problem, directory)}{problem['message']}" for problem in errors]
    return {
        "run": document.get("run") or "",
        "project": document.get("project") or "",
        "summary": dict(document["summary"]),
        "corrective": sum(bool(step.get("corrective")) for step in steps),
        "failure": failed[0] if failed else "",
    }


def _location(problem: Mapping[str, object], directory: str | None) -> str:
    """Return a problem's location, ``site.yaml:3:1: ``, beneath the source's ``directory``, or "" without a file."""
    file = problem.get("file")
    if not file:
        return ""
    parts = (str(file).removeprefix(f"{directory}/"), problem.get("line"), problem.get("column"))
    return "".join(f"{part}:" for part in parts if part) + " "


def last_end(directory: str) -> float | None:
    """Return the end of the last run by the current boot clock, to detect missed runs, or None if unknown.

    The boot clock starts anew with the machine: after a restart the end is computed from the recorded wall clock. An
    agent's directory that cannot be created or read raises no error here, because each run reports it.
    """
    try:
        make_directory(directory)
        run = agent_status.last_run(directory)
    except (ResourceAPIError, OSError):
        return None
    if run is None:
        return None
    if run["boot_id"] and run["boot_id"] == boot_id():
        return float(run["ended_boot"])
    wall, boot = now()
    # After the clock was set back, the time since the run is unknown.
    return boot - (wall - run["ended"]) if wall >= run["ended"] else None


def pause(directory: str, reason: str, since: float) -> None:
    """Suspend the runs of an agent until it is resumed. Raise ``OSError``."""
    _write(f"{directory}/{agent_status.PAUSED}", {"reason": reason, "since": since})


def resume(directory: str) -> bool:
    """End a recorded pause, so that runs are made again; return whether the agent was paused. Raise ``OSError``."""
    try:
        with files.Batch() as batch:
            batch.remove(f"{directory}/{agent_status.PAUSED}")
    except FileNotFoundError:
        return False
    return True


def _write(path: str, document: Mapping[str, object]) -> None:
    """Write a document of the agent durably, with its format version, in a file that only the owner can read."""
    text = json.dumps({"format": agent_status.FORMAT, **document}, indent=1, default=str)
    files.replace(path, text.encode() + b"\n", mode=0o600)
