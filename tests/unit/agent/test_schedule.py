"""Law F12: an agent's runs never overlap, none is missed, and those of many machines are spread."""

from __future__ import annotations

import math
import random
from collections import Counter
from itertools import pairwise, takewhile
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api.agent.run_schedule import (
    CATCH_UP,
    POLL,
    PROMPT,
    AgentSchedule,
    Moment,
    Stopped,
    next_run,
    run_until_stopped,
    schedule,
    slot_after,
)

DAY = 86400.0
PERIOD = 1800.0
DAYS = 1000


class Event(NamedTuple):
    """Something that happens to a machine: ``jump`` of its clock, ``sleep`` (it is suspended) or ``outage`` (off)."""

    at: float
    kind: str
    seconds: float


class Simulated:
    """A machine whose true time passes only in sleeps and runs."""

    def __init__(self, events: list[Event], durations: Any, end: float) -> None:
        """Let events happen until ``end``; runs take ``durations``, one after another."""
        self.true, self.skew, self.booted = 0.0, 1.7e9, 0.0
        self.events = sorted(events, reverse=True)
        self.durations = durations
        self.end = end
        #: Begin and end of each run, and of each time when the machine could not run, by true time.
        self.runs: list[tuple[float, float]] = []
        self.away: list[tuple[float, float]] = []

    def now(self) -> Moment:
        return Moment(self.true + self.skew, self.true - self.booted)

    def sleep(self, seconds: float) -> None:
        until = self.true + seconds
        while self.events and self.events[-1].at <= until:
            event = self.events.pop()
            self.true = max(self.true, event.at)
            if event.kind == "jump":
                self.skew += event.seconds
                continue
            self.away.append((self.true, self.true + event.seconds))
            self.true += event.seconds
            if event.kind == "outage":
                self.booted = self.true
                raise Restarted
            # A sleep does not last longer because the machine was suspended, nor shorter.
            until += event.seconds
        self.true = until
        if self.true >= self.end:
            raise Stopped(15)

    def run(self) -> None:
        began = self.true
        self.true += next(self.durations)
        self.runs.append((began, self.true))


class Restarted(Exception):  # noqa: N818
    """The machine was off and is on again."""


def simulate(times: AgentSchedule, events: list[Event], durations: Any, end: float) -> Simulated:
    """Return a machine after a simulation; an agent that starts again knows when its last run ended by the wall."""
    machine = Simulated(events, durations, end)
    ended: float | None = None
    while True:
        try:
            assert run_until_stopped(times, machine, ended, lambda _: None) == 15
        except Restarted:
            ended = None if not machine.runs else machine.now().boot - (machine.true - machine.runs[-1][1])
        else:
            return machine


def check(times: AgentSchedule, machine: Simulated) -> None:
    """Fail if two runs overlap, or if the machine could have run and did not for a period and the time to catch up."""
    bound = times.period + times.delay + POLL + PROMPT
    passed = 0
    for (_, ended), (began, _) in pairwise([(0.0, 0.0), *machine.runs, (machine.true, machine.true)]):
        assert began >= ended
        while passed < len(machine.away) and machine.away[passed][1] <= ended:
            passed += 1
        after = (machine.away[number] for number in range(passed, len(machine.away)))
        between = [*takewhile(lambda item, until=began: item[0] < until, after)]
        away = sum(min(end, began) - max(start, ended) for start, end in between)
        # Each time away can end in a new wait for catching up, which the next one interrupts.
        assert began - ended - away <= bound + len(between) * (times.delay + POLL), (began, ended, away)


def test_a_long_life_is_without_overlap_and_missed_periods() -> None:
    """A thousand days of clock jumps, suspension, outages, and runs that last longer than the period."""
    chance = random.Random(12)  # noqa: S311 - a simulation
    events = [
        Event(chance.uniform(0, DAYS * DAY), kind, chance.choice((1, -1) if kind == "jump" else (1,)) * length)
        for kind, mean in (("jump", 3600.0), ("sleep", 3 * 3600.0), ("outage", 6 * 3600.0))
        for length in (chance.expovariate(1 / mean) for _ in range(DAYS))
    ]

    def durations() -> Any:
        while True:
            yield chance.choice((0.2, 20.0, 900.0, 2.5 * PERIOD))

    times = schedule("machine", "web", PERIOD)
    machine = simulate(times, events, durations(), DAYS * DAY)
    check(times, machine)
    assert len(machine.runs) > DAYS * 10


TIMES = st.floats(0, DAY / 2)
EVENTS = st.lists(
    st.builds(Event, TIMES, st.just("jump"), st.floats(-DAY / 4, DAY / 4))
    | st.builds(Event, TIMES, st.sampled_from(["sleep", "outage"]), st.floats(0, DAY / 4)),
    max_size=6,
)


@given(
    EVENTS,
    st.lists(st.floats(0, 3 * PERIOD), min_size=1, max_size=5),
    st.sampled_from([60.0, PERIOD, DAY / 4]),
    st.none() | st.floats(0, DAY),
    st.text(max_size=5),
)
def test_no_life_has_overlap_or_missed_periods(
    events: list[Event], lengths: list[float], period: float, splay: float | None, name: str
) -> None:
    """Whatever happens, and whatever the period is."""
    times = schedule(name, "web", period, splay)
    endless = (lengths[number % len(lengths)] for number in range(10**9))
    check(times, simulate(times, events, endless, DAY / 2))


@given(st.floats(0, 4e9), st.floats(60, DAY), st.floats(0, 1))
def test_the_next_slot_is_within_a_period(wall: float, period: float, share: float) -> None:
    """And it is always the same slots."""
    times = AgentSchedule(period, share * period, 0.0)
    result = slot_after(times, wall)
    assert wall < result <= wall + period * (1 + 1e-9)
    turns = (result - times.offset) / period
    assert math.isclose(turns, round(turns), abs_tol=1e-4)


def test_a_run_is_at_its_slot() -> None:
    """A quiet machine runs at the same second of each period."""
    times = schedule("machine", "web", PERIOD)
    machine = simulate(times, [], iter([7.0] * 100), DAY)
    seconds = [(began + 1.7e9 - times.offset) % PERIOD for began, _ in machine.runs]
    assert all(min(second, PERIOD - second) < 0.01 for second in seconds[1:])
    assert [next_run(times, Moment(100.0, 50.0), 50.0).catch_up for _ in range(2)] == [None, None]


@pytest.mark.parametrize("hosts", [10_000])
def test_many_machines_are_spread(hosts: int) -> None:
    """No second has more than three times the mean and its root, in a period and when all catch up."""
    all_times = [schedule(f"machine {number}", "web", PERIOD) for number in range(hosts)]
    for starts, spread in (
        ([times.offset for times in all_times], PERIOD),
        ([next_run(times, Moment(5e8, 1e6), None).seconds for times in all_times], CATCH_UP),
        ([next_run(times, Moment(5e8, 1e6), 1e6 - 7200).seconds for times in all_times], CATCH_UP),
    ):
        seconds = Counter(map(int, starts))
        mean = hosts / spread
        assert max(starts) <= spread
        assert max(seconds.values()) <= 3 * mean + math.sqrt(mean)


def test_a_splay_bounds_the_spread() -> None:
    """Without one all run at the beginning of the period, and catch up at once."""
    assert schedule("machine", "web", PERIOD, 0.0) == AgentSchedule(PERIOD, 0.0, 0.0)
    assert all(schedule(str(number), "web", PERIOD, 60.0).offset < 60 for number in range(100))
    assert schedule("a", "web", PERIOD) != schedule("b", "web", PERIOD) != schedule("b", "db", PERIOD)
