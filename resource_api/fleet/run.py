"""A run over many hosts: the rollout decides which hosts start, and each host has one report.

``decide`` is pure. A host's behaviour affects only its own part of the run.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_right
from collections import Counter
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Final, Protocol

from resource_api.fleet.connections import ENDED, LOST, UNREACHABLE, end_event
from resource_api.fleet.merge import SUCCEEDED, UNEXPECTED, HostReport, describe_unexpected
from resource_api.model.values.errors import reason
from resource_api.model.values.start_up import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from resource_api.fleet.connections import Host, HostConnections, HostEvent
    from resource_api.fleet.job import HostJob
    from resource_api.fleet.ledger import Ledger
    from resource_api.fleet.merge import Merge

_SHARE: Final = re.compile(r"([0-9]{1,9})(%?)")
_WHOLE: Final = 100


class Share(NamedTuple):
    """A number of hosts, or a percentage of all hosts."""

    number: int
    percent: bool = False

    def of(self, total: int) -> int:
        """Return the number of hosts for ``total``, rounded down."""
        return total * self.number // _WHOLE if self.percent else self.number


class Rollout(NamedTuple):
    """The plan of a run: hosts are numbered from 0 and started in this order."""

    total: int
    #: The number of hosts up to the end of each batch.
    ends: Sequence[int]
    at_once: int
    #: The largest number of failed hosts before the run stops, or None.
    bound: int | None


class RunProgress(NamedTuple):
    """The progress of a run."""

    #: The numbers of hosts that started, ended and failed.
    started: int = 0
    ended: int = 0
    failed: int = 0
    #: The number of batches that may start: the first needs no permission.
    allowed: int = 1
    #: The reason of a stop by the user or a hook, or "".
    halted: str = ""


class RolloutStep(NamedTuple):
    """The next step of a run."""

    #: Number of hosts to start.
    start: int = 0
    #: The number, from 1, of the batch that ended, whose successor needs permission; or 0.
    ask: int = 0
    #: The reason to start no further host, or "".
    stop: str = ""
    #: Whether the run is finished.
    finished: bool = False


def parse_share(text: str) -> Share:
    """Return the number or share of hosts in an option such as ``--stop-after``, ``10%``. Raise ``ValueError``."""
    match = _SHARE.fullmatch(text.strip())
    if match is None or (match[2] and int(match[1]) > _WHOLE):
        raise ValueError(f"'{text}' is neither a number of hosts nor a share of them from 0% to 100%")
    return Share(int(match[1]), percent=bool(match[2]))


def parse_batches(text: str) -> list[Share]:
    """Return the numbers or shares in ``--batches``, ``1,10%,100%``, for ``batch_sizes``. Raise ``ValueError``."""
    shares = [parse_share(item) for item in text.split(",")]
    if not all(share.number for share in shares):
        raise ValueError(f"'{text}': a batch has at least one host")
    return shares


def batch_sizes(total: int, batches: Sequence[Share]) -> list[int]:
    """Return the sizes of the batches of ``--batches`` for ``total`` hosts, each at least 1.

    The last share is repeated until no host remains: for 25 hosts, ``1,40%`` gives the sizes 1, 10, 10 and 4.
    """
    sizes, remaining = list[int](), total
    while remaining:
        share = batches[min(len(sizes), len(batches) - 1)]
        sizes.append(min(max(share.of(total), 1), remaining))
        remaining -= sizes[-1]
    return sizes


def make_rollout(total: int, at_once: int, batches: Sequence[Share] | None, stop_after: Share | None) -> Rollout:
    """Return the rollout for the options of a run: the ends of its batches, and the failures that it allows.

    With batches the first failure stops the run unless ``stop_after`` allows more, so that a fault does not reach all
    hosts; without batches failures stop the run only with ``stop_after``.
    """
    bound = None if batches is None else 0
    if stop_after is not None:
        bound = stop_after.of(total)
    ends = list(accumulate(batch_sizes(total, batches or (Share(_WHOLE, percent=True),))))
    return Rollout(total, ends, at_once, bound)


def decide(plan: Rollout, progress: RunProgress) -> RolloutStep:
    """Return the next step of a run: start hosts, ask whether the next batch may begin, wait, or finish.

    At most ``at_once`` hosts run in parallel. When all hosts of a batch have ended, ``ask`` makes the caller ask the
    user or the user's command before the next batch. After a stop, the run finishes when its running hosts have ended.
    """
    running = progress.started - progress.ended
    if reason := _stopped(plan, progress):
        return RolloutStep(stop=reason, finished=not running)
    if progress.ended == plan.total:
        return RolloutStep(finished=True)
    limit = plan.ends[progress.allowed - 1]
    if progress.ended == limit:
        return RolloutStep(ask=progress.allowed)
    return RolloutStep(start=min(limit - progress.started, plan.at_once - running))


def _stopped(plan: Rollout, progress: RunProgress) -> str:
    """Return the reason to start no further host, or "".

    It is "" as well when all hosts are started, since nothing remains to be stopped.
    """
    if progress.started == plan.total:
        return ""
    if plan.bound is not None and progress.failed > plan.bound:
        count = progress.failed
        return f"{count} {'host has' if count == 1 else 'hosts have'} failed, and --stop-after allows {plan.bound}"
    return progress.halted


def batch_of(plan: Rollout, number: int) -> int:
    """Return the number, from 1, of the batch of a host."""
    return bisect_right(plan.ends, number) + 1


#: Seconds between checks of interrupts and limits without events.
_TICK: Final = 0.2
#: Seconds for a host to end after an interrupt.
GRACE: Final = 10.0
#: The number of hosts that are named as the slowest.
_NAMED: Final = 3
#: The effects of the user's first, second and third interrupt.
_STOP, _FINISH, _LEAVE = 1, 2, 3


class BatchReport(NamedTuple):
    """The results of the hosts of one batch."""

    #: Its number, from 1, and the number of batches.
    number: int
    of: int
    #: Status → number of its hosts.
    counts: Mapping[str, int]
    #: Number of hosts in the following batches.
    remaining: int
    #: Host → its status, in the order of their ends.
    outcomes: Mapping[str, str] = {}
    #: Whether the run ends with it, as after too many failures.
    last: bool = False


class BatchStart(NamedTuple):
    """The hosts of a batch that may begin."""

    #: Its number, from 1, and the number of batches.
    number: int
    of: int
    names: Sequence[str]
    #: Number of hosts in the following batches.
    remaining: int


class Observer(Protocol):
    """Receives the progress of a run."""

    def host_started(self, host: Host, batch: int) -> None:
        """A job was sent to a host."""

    def host_event(self, host: str, document: Mapping[str, object]) -> None:
        """A document arrived from a host."""

    def host_ended(self, report: HostReport) -> None:
        """A host ended; untouched hosts are reported at the end of the run."""

    def batch_ended(self, batch: BatchReport) -> None:
        """All hosts of a batch ended, or the run ends in it."""

    def next_batch(self, batch: BatchReport) -> str:
        """Return the reason not to start the next batch, or ""."""

    def before_batch(self, batch: BatchStart) -> str:
        """Return the reason not to start a batch, or ""; called before each one, the first included."""

    def interrupted(self, times: int) -> None:
        """The user's interrupt number ``times`` took effect."""

    def running(self, started: int, ended: int, failed: int, slowest: Mapping[str, float]) -> None:
        """Time passed, or a host ended; ``slowest``: the hosts that have run longest → their seconds."""


class _Running(NamedTuple):
    """A started host that did not end."""

    host: Host
    started: float
    batch: int


class FleetRun:
    """One run over hosts."""

    def __init__(
        self,
        names: Sequence[str],
        plan: Rollout,
        connections: HostConnections,
        job_for: Callable[[str], tuple[Host, HostJob]],
        *,
        merge: Merge,
        observer: Observer,
        record: tuple[Ledger, str] | None = None,
        host_timeout: float = 3600.0,
        ignored: Sequence[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Run on the hosts ``names`` in this order, in the batches of ``plan``.

        ``job_for`` makes a host's job right before it starts: not all at once. ``merge`` and ``observer`` receive the
        documents. ``record``: the ledger and the run's id in it. A host is interrupted ``host_timeout`` seconds after
        its start, by ``clock``. ``ignored``: statuses that do not count as failures.
        """
        self._names = names
        self._plan = plan
        self._connections = connections
        self._job_for = job_for
        self._merge = merge
        self._observer = observer
        self._ledger: Ledger | None
        self._ledger, self._run_id = record or (None, "")
        self._host_timeout = host_timeout
        self._successful = {*SUCCEEDED, *ignored}
        self._clock = clock
        #: Host → its start, the oldest first.
        self._running: dict[str, _Running] = {}
        #: Host that was interrupted after its timeout → the time to abandon it.
        self._late: dict[str, float] = {}
        self._progress = RunProgress()
        #: The numbers of the user's interrupts: arrived in the signal handler, and carried out by the loop.
        self._interrupts = self._handled = 0
        #: Host → its status, of the present batch.
        self._outcomes: dict[str, str] = {}
        #: Started hosts and reports that are not recorded yet, and the time of the last record.
        self._started: list[str] = []
        self._reports: list[HostReport] = []
        self._recorded = clock()

    def interrupt(self) -> None:
        """Count an interrupt of the user, which ``_handle_interrupt`` carries out; safe in a signal handler.

        After the first one no further host starts, the second one ends running hosts after their present operations,
        and the third one closes their connections.
        """
        self._interrupts += 1

    def run(self) -> str:
        """Run and return the reason of an early stop, or "".

        Every host has a report afterwards, also if an exception ends the run: running hosts are then reported as lost.
        """
        try:
            stop = self._loop()
        except BaseException as error:
            text = f"this run was ended: {reason(error, with_origin=False)}"
            for running in list(self._running.values()):
                self._end(running, end_event(running.host.name, LOST, None, text).document)
            self._finish(text)
            raise
        self._finish(stop)
        return stop

    def _loop(self) -> str:
        """Start hosts, wait for them and begin batches until the end; return the reason of an early stop, or "".

        ``decide``, a pure function, returns each step, and this loop carries it out. An interrupt of the user takes
        precedence over the step.
        """
        self._begin_batch(1)
        while not (decision := decide(self._plan, self._progress)).finished:
            if self._interrupts > self._handled:
                self._handle_interrupt()
            elif decision.ask:
                self._end_batch(decision.ask)
            elif decision.start:
                self._start(decision.start)
            else:
                self._wait()
        return decision.stop

    def _start(self, count: int) -> None:
        """Start the next ``count`` hosts in order.

        Their jobs are made only now, because the jobs of all hosts together could need much memory.
        """
        first = self._progress.started
        names = self._names[first : first + count]
        self._started += names
        for number, name in enumerate(names, first):
            host, job = self._job_for(name)
            batch = batch_of(self._plan, number)
            self._running[name] = _Running(host, self._clock(), batch)
            self._merge.begin(host)
            self._observer.host_started(host, batch)
            self._connections.start(host, job)
        self._progress = self._progress._replace(started=first + len(names))

    def _wait(self) -> None:
        """Process the next event of a host, or none after ``_TICK``; then check timeouts, record, and show progress.

        The wait is short, so that interrupts and timeouts take effect even if no host sends an event.
        """
        event = self._connections.next_event(_TICK)
        if event is not None:
            self._take(event)
        self._check_times()
        if self._clock() - self._recorded >= _TICK:
            self._write_record()
        now = self._clock()
        # Running hosts are in the order of their starts.
        slowest = {name: now - host.started for name, host in islice(self._running.items(), _NAMED)}
        self._observer.running(self._progress.started, self._progress.ended, self._progress.failed, slowest)

    def _take(self, event: HostEvent) -> None:
        """Record an event of a running host, or its end; a host is lost after an unusable event, as it is untrusted."""
        if (running := self._running.get(event.host)) is None:
            return
        if event.document["type"] == "end":
            self._end(running, event.document)
            return
        try:
            self._merge.add(event.host, event.document)
            self._observer.host_event(event.host, event.document)
        except UNEXPECTED as error:
            self._connections.abandon(event.host)
            message = f"it sent what is no event: {describe_unexpected(error)}"
            self._end(running, end_event(event.host, LOST, None, message).document)

    def _end(self, running: _Running, document: Mapping[str, object]) -> None:
        """Merge, record and report the end of a host's job, and count it for ``decide``.

        ``document``: the host's last one, of ``end_event``.
        """
        name = running.host.name
        del self._running[name]
        if self._late.pop(name, None) is not None:  # it was interrupted after its timeout
            document = {**document, "error": self._timeout_error(str(document.get("status"))) or document.get("error")}
        report = self._merge.end(running.host, document, self._clock() - running.started, running.batch)
        self._reports.append(report)
        self._outcomes[name] = report.status
        self._observer.host_ended(report)
        failed = self._progress.failed + (report.status not in self._successful)
        self._progress = self._progress._replace(ended=self._progress.ended + 1, failed=failed)

    def _timeout_error(self, status: str) -> str:
        """Return the error of a host that was interrupted after its timeout, with the option to change, or "".

        ``status``: that of its end. It shows whether the host has ended its run by itself, or was abandoned with or
        without a job.
        """
        seconds = f"{self._host_timeout:g} s"
        return {
            LOST: f"it did not end within {seconds}, see --host-timeout",
            UNREACHABLE: f"it could not be given the job within {seconds}",
            ENDED: f"told to end after {seconds}, see --host-timeout",
        }.get(status, "")

    def _end_batch(self, number: int) -> None:
        """Report the end of a batch, and begin the next one.

        Stop the run instead if the observer returns a reason: the failed command of ``--between``, or the user's no.
        """
        batch = self._batch_report(number)
        self._observer.batch_ended(batch)
        reason = self._observer.next_batch(batch)
        self._merge.next_batch()
        self._outcomes = {}
        if reason:
            self._halt(reason)
        else:
            self._begin_batch(number + 1)

    def _begin_batch(self, number: int) -> None:
        """Allow ``decide`` to start the hosts of a batch.

        Stop the run instead if the observer returns a reason, such as the failure of the user's command ``--before``.
        """
        if number > len(self._plan.ends):
            return
        first, end = (0, *self._plan.ends)[number - 1 : number + 1]
        start = BatchStart(number, len(self._plan.ends), self._names[first:end], self._plan.total - end)
        if reason := self._observer.before_batch(start):
            self._halt(reason)
        else:
            self._progress = self._progress._replace(allowed=number)

    def _halt(self, reason: str) -> None:
        """Start no further host, for the first such reason."""
        self._progress = self._progress._replace(halted=self._progress.halted or reason)

    def _batch_report(self, number: int, *, last: bool = False) -> BatchReport:
        """Return the report of the present batch for the observer, with the results so far; ``last``: the run ends."""
        remaining = self._plan.total - self._plan.ends[number - 1]
        counts = dict(Counter(self._outcomes.values()))
        return BatchReport(number, len(self._plan.ends), counts, remaining, self._outcomes, last)

    def _write_record(self) -> None:
        """Record started hosts and reports in the ledger, for ``--rerun``.

        A kill of this process loses those that are not recorded yet. ``--rerun`` repeats these hosts, which does no
        harm.
        """
        if self._ledger is not None and (self._started or self._reports):
            self._ledger.note(self._run_id, self._started, self._reports)
        self._started, self._reports, self._recorded = [], [], self._clock()

    def _handle_interrupt(self) -> None:
        """Carry out the user's next interrupt: stop the run, then end the running hosts, then abandon them.

        The signal handler has only counted the interrupts.
        """
        self._handled += 1
        if self._handled == _STOP:
            self._progress = self._progress._replace(halted="interrupted")
        for name in list(self._running):
            if self._handled == _FINISH:
                self._connections.interrupt(name)
            elif self._handled == _LEAVE:
                self._connections.abandon(name)
        self._observer.interrupted(self._handled)

    def _check_times(self) -> None:
        """Interrupt hosts after ``--host-timeout``, and abandon those that do not end within ``GRACE`` seconds.

        The running hosts are in the order of their starts, so the check ends at the first one within its time.
        """
        clock = self._clock()
        for name, running in self._running.items():
            if clock - running.started < self._host_timeout:
                break
            if name not in self._late:
                self._late[name] = clock + GRACE
                self._connections.interrupt(name)
            elif clock >= self._late[name]:
                self._late[name] = clock + GRACE  # not again at the next check: its end arrives as an event
                self._connections.abandon(name)

    def _finish(self, error: str) -> None:
        """Report the last batch, and the hosts that were not started, with ``error``; record the end of the run.

        An error of the ledger is raised only after these reports, so that the user gets them in any case.
        """
        first = self._progress.started
        untouched = [
            HostReport(name, "untouched", error=error, batch=batch_of(self._plan, number))
            for number, name in enumerate(self._names[first:], first)
        ]
        for report in untouched:
            self._merge.record(report)
        self._reports += untouched
        try:
            self._write_record()
            if self._ledger is not None:
                self._ledger.finish(self._run_id)
        finally:  # also if the ledger cannot be written
            if self._outcomes:
                self._observer.batch_ended(self._batch_report(self._progress.allowed, last=True))
            for report in untouched:
                self._observer.host_ended(report)
