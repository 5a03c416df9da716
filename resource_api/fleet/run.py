"""A run over many hosts: it starts them as the rollout decides, takes their answers, and has one report for each.

What one host does, or does not do, ends nothing but its own part of the run.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, Protocol

from resource_api.fleet import rollout
from resource_api.fleet.carriers import carrier as carriers
from resource_api.fleet.merge import SUCCEEDED, UNEXPECTED, why_unexpected
from resource_api.fleet.rollout import Progress
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import reason

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from resource_api.fleet.carriers.carrier import Carrier, Host, HostEvent
    from resource_api.fleet.job import Job
    from resource_api.fleet.ledger import Ledger
    from resource_api.fleet.merge import HostReport, Merge
    from resource_api.fleet.rollout import Rollout

#: Seconds after which interrupts and limits are looked at, if no event comes.
_TICK: Final = 0.2
#: Seconds that a host has to end after it was told to.
GRACE: Final = 10.0
#: How often the user can interrupt, and what each time does.
_STOP, _FINISH, _LEAVE = 1, 2, 3


class BatchReport(NamedTuple):
    """What has become of the hosts of one batch."""

    #: Its number, from 1, and how many there are.
    number: int
    of: int
    #: Status → how many of its hosts.
    counts: Mapping[str, int]
    #: How many hosts come after it.
    left: int


class Observer(Protocol):
    """Who is told what happens while it happens."""

    def host_started(self, host: Host, batch: int) -> None:
        """A job is on its way."""

    def host_event(self, host: str, document: Mapping[str, Any]) -> None:
        """A document has come from a host."""

    def host_ended(self, report: HostReport) -> None:
        """A host has ended; hosts that were never asked come at the end of the run."""

    def batch_ended(self, batch: BatchReport) -> None:
        """All hosts of a batch have ended, or the run ends in it."""

    def next_batch(self, batch: BatchReport) -> str:
        """Return why the next batch must not begin; empty: it may."""

    def interrupted(self, times: int) -> None:
        """The user has interrupted the run so many times, which has been obeyed."""

    def running(self, started: int, ended: int, failed: int) -> None:
        """Some time has passed, or a host has ended."""


class _Running(NamedTuple):
    """A host that was started and has not ended."""

    host: Host
    started: float
    batch: int


class FleetRun:
    """One run over hosts, each once."""

    def __init__(
        self,
        names: Sequence[str],
        plan: Rollout,
        carrier: Carrier,
        job_for: Callable[[str], tuple[Host, Job]],
        *,
        merge: Merge,
        observer: Observer,
        record: tuple[Ledger, str] | None = None,
        host_timeout: float = 3600.0,
        ignored: Sequence[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Go over ``names`` in this order; ``record``: the ledger and the run's id in it.

        ``ignored``: statuses that do not count as failures.
        """
        self._names = names
        self._plan = plan
        self._carrier = carrier
        self._job_for = job_for
        self._merge = merge
        self._observer = observer
        self._record = record
        self._host_timeout = host_timeout
        self._good = {*SUCCEEDED, *ignored}
        self._clock = clock
        self._running: dict[str, _Running] = {}
        #: The hosts that were told to end because of their time → when they are given up.
        self._late: dict[str, float] = {}
        self._progress = Progress()
        self._interrupts = self._obeyed = 0
        self._batch_counts: dict[str, int] = {}
        #: What the record does not have yet, and when it was written last.
        self._asked: list[str] = []
        self._answered: list[HostReport] = []
        self._recorded = clock()

    def interrupt(self) -> None:
        """Start no further host; called again: have hosts end after their segment; a third time: leave them.

        Safe in a signal handler.
        """
        self._interrupts += 1

    def run(self) -> str:
        """Go over the hosts and return why some were left out; empty: none was. Every host has a report then."""
        try:
            stop = self._loop()
        except BaseException as error:
            self._abandon_all(f"this run was ended: {reason(error, with_origin=False)}")
            raise
        self._leave_out(stop)
        return stop

    def _loop(self) -> str:
        while not (decision := rollout.decide(self._plan, self._progress)).done:
            if self._interrupts > self._obeyed:
                self._obey()
            elif decision.ask:
                self._ask(decision.ask)
            elif decision.start:
                self._start(decision.start)
            else:
                self._wait()
        return decision.stop

    def _start(self, count: int) -> None:
        first = self._progress.started
        names = self._names[first : first + count]
        self._asked += names
        for number, name in enumerate(names, first):
            host, job = self._job_for(name)
            batch = rollout.batch_of(self._plan, number)
            self._running[name] = _Running(host, self._clock(), batch)
            self._merge.begin(host)
            self._observer.host_started(host, batch)
            self._carrier.start(host, job)
        self._progress = self._progress._replace(started=first + len(names))

    def _wait(self) -> None:
        event = self._carrier.next_event(_TICK)
        if event is not None:
            self._take(event)
        self._check_times()
        if self._clock() - self._recorded >= _TICK:
            self._write_record()
        self._observer.running(self._progress.started, self._progress.ended, self._progress.failed)

    def _take(self, event: HostEvent) -> None:
        if (running := self._running.get(event.host)) is None:
            return
        if event.document["type"] == "end":
            self._end(running, event.document)
            return
        try:
            self._merge.add(event.host, event.document)
            self._observer.host_event(event.host, event.document)
        except UNEXPECTED as error:
            self._carrier.abandon(event.host)
            why = f"it sent what is no event: {why_unexpected(error)}"
            self._end(running, {"type": "end", "status": carriers.LOST, "code": None, "error": why})

    def _end(self, running: _Running, document: Mapping[str, Any]) -> None:
        name = running.host.name
        del self._running[name]
        if self._late.pop(name, None) is not None:
            document = {**document, "error": self._too_late(str(document.get("status"))) or document.get("error")}
        report = self._merge.end(running.host, document, self._clock() - running.started, running.batch)
        self._reported(report)
        failed = self._progress.failed + (report.status not in self._good)
        self._progress = self._progress._replace(ended=self._progress.ended + 1, failed=failed)

    def _too_late(self, status: str) -> str:
        """Return why a host that was told to end has not succeeded; empty: for another reason."""
        seconds = f"{self._host_timeout:g} s"
        return {
            carriers.LOST: f"it did not end within {seconds}",
            carriers.UNREACHABLE: f"it could not be given the job within {seconds}",
            carriers.ENDED: f"told to end after {seconds}, see --host-timeout",
        }.get(status, "")

    def _reported(self, report: HostReport) -> None:
        self._answered.append(report)
        self._batch_counts[report.status] = self._batch_counts.get(report.status, 0) + 1
        self._observer.host_ended(report)

    def _ask(self, number: int) -> None:
        batch = self._batch_report(number)
        self._observer.batch_ended(batch)
        reason = self._observer.next_batch(batch)
        self._merge.next_batch()
        self._batch_counts = {}
        allowed = number if reason else number + 1
        self._progress = self._progress._replace(allowed=allowed, halted=self._progress.halted or reason)

    def _batch_report(self, number: int) -> BatchReport:
        left = self._plan.total - self._plan.ends[number - 1]
        return BatchReport(number, len(self._plan.ends), dict(self._batch_counts), left)

    def _write_record(self) -> None:
        """Record what has happened since the last time: a kill loses so much, and such hosts are asked again."""
        if self._record is not None and (self._asked or self._answered):
            self._record[0].note(self._record[1], self._asked, self._answered)
        self._asked, self._answered = [], []
        self._recorded = self._clock()

    # What ends it early

    def _obey(self) -> None:
        self._obeyed += 1
        if self._obeyed == _STOP:
            self._progress = self._progress._replace(halted="interrupted")
        for name in list(self._running) if self._obeyed in {_FINISH, _LEAVE} else ():
            (self._carrier.interrupt if self._obeyed == _FINISH else self._carrier.abandon)(name)
        self._observer.interrupted(self._obeyed)

    def _check_times(self) -> None:
        """Tell hosts that have had their time to end, and give up those that do not; the oldest come first."""
        now = self._clock()
        for name, running in self._running.items():
            if now - running.started < self._host_timeout:
                break
            if name not in self._late:
                self._late[name] = now + GRACE
                self._carrier.interrupt(name)
            elif now >= self._late[name]:
                self._late[name] = now + GRACE
                self._carrier.abandon(name)

    def _abandon_all(self, why: str) -> None:
        """Report every host, after an error of ours."""
        lost = {"type": "end", "status": carriers.LOST, "code": None, "error": why}
        for running in list(self._running.values()):
            self._end(running, lost)
        self._leave_out(why)

    def _leave_out(self, why: str) -> None:
        """Report the hosts that were never asked, end the batch in which the run ends, and record the end."""
        names = self._names[self._progress.started :]
        before = self._progress.started
        numbers = {name: rollout.batch_of(self._plan, before + place) for place, name in enumerate(names)}
        self._merge.untouched(names, why, numbers.__getitem__)
        self._answered += map(self._merge.reports.__getitem__, names)
        self._write_record()
        if self._record is not None:
            self._record[0].finish(self._record[1])
        if self._batch_counts:
            self._observer.batch_ended(self._batch_report(self._progress.allowed))
        for name in names:
            self._observer.host_ended(self._merge.reports[name])
