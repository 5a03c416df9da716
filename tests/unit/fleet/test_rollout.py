"""The laws of a rollout: its batches, its threshold, and how many hosts are touched before it stops (F5)."""

from __future__ import annotations

import random
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api.fleet import run as fleet_run
from resource_api.fleet.run import Rollout, RolloutStep, RunProgress, Share

SHARES: Final = st.one_of(
    st.integers(1, 40).map(Share), st.integers(1, 100).map(lambda percent: Share(percent, percent=True))
)
PLANS: Final = st.builds(
    fleet_run.make_rollout,
    st.integers(1, 300),
    st.integers(1, 60),
    st.none() | st.lists(SHARES, min_size=1, max_size=4),
    st.none() | st.one_of(st.integers(0, 20).map(Share), SHARES),
)


class Run:
    """Hosts that end in any order; ``bad`` ones fail."""

    def __init__(self, plan: Rollout, bad: set[int], choose: random.Random) -> None:
        """Run to the end, and keep what was decided on the way."""
        self.started, self.failed, self.most = 0, 0, 0
        self.asked, self.decisions = list[int](), list[RolloutStep]()
        self.running = list[int]()
        self.batches = list[tuple[int, int]]()
        progress = RunProgress()
        while not (decision := fleet_run.decide(plan, progress)).finished:
            self.decisions.append(decision)
            if decision.ask:
                self.asked.append(decision.ask)
                progress = progress._replace(allowed=progress.allowed + 1)
                continue
            self.running += range(self.started, self.started + decision.start)
            self.started += decision.start
            self.most = max(self.most, len(self.running))
            assert self.running, "nothing runs, and nothing is done"
            host = self.running.pop(choose.randrange(len(self.running)))
            self.batches.append((fleet_run.batch_of(plan, host), len(self.asked) + 1))
            self.failed += host in bad
            progress = progress._replace(started=self.started, ended=progress.ended + 1, failed=self.failed)
        self.stop = decision.stop


@given(plan=PLANS, bad=st.sets(st.integers(0, 299)), choose=st.randoms(use_true_random=False))
def test_a_run_touches_no_more_than_the_bound_and_those_that_run(
    plan: Rollout, bad: set[int], choose: random.Random
) -> None:
    """Whatever ends when: after the failure that is one too many no host is started, and what runs is waited for."""
    run = Run(plan, bad, choose)
    assert run.most <= plan.at_once
    assert not run.running
    if plan.bound is None:
        assert run.started == plan.total
        assert not run.stop
    else:
        assert run.failed <= plan.bound + plan.at_once
        assert run.started == plan.total or (run.failed > plan.bound and run.stop)


@given(plan=PLANS, choose=st.randoms(use_true_random=False))
def test_a_batch_begins_when_the_one_before_has_ended(plan: Rollout, choose: random.Random) -> None:
    """Without failures all hosts are started, batch after batch, and a permission is asked for between two."""
    run = Run(plan, set(), choose)
    assert run.started == plan.total
    assert all(batch == current for batch, current in run.batches)
    assert run.asked == list(range(1, len(plan.ends)))


@given(total=st.integers(1, 5000), arguments=st.lists(SHARES, min_size=1, max_size=5))
def test_the_batches_are_all_hosts_and_none_is_empty(total: int, arguments: list[Share]) -> None:
    """A share that would be less than one host is one host; the last batch takes what is left."""
    sizes = fleet_run.batch_sizes(total, arguments)
    assert sum(sizes) == total
    assert min(sizes) > 0
    assert sizes[0] == min(max(arguments[0].of(total), 1), total)


def test_shares_are_of_all_hosts_and_the_last_repeats() -> None:
    """Not of the hosts that are left."""
    assert fleet_run.batch_sizes(50, fleet_run.parse_batches("1,10%,40%")) == [1, 5, 20, 20, 4]


def test_batches_stop_at_the_first_failure_unless_more_are_allowed() -> None:
    """Without batches and without a threshold nothing stops a run."""
    whole = [Share(100, percent=True)]
    assert fleet_run.make_rollout(200, 5, None, None).bound is None
    assert fleet_run.make_rollout(200, 5, whole, None).bound == 0
    assert fleet_run.make_rollout(200, 5, whole, Share(1, percent=True)).bound == 2
    assert fleet_run.make_rollout(200, 5, None, Share(3)).bound == 3


def test_a_halted_run_starts_nothing_and_waits() -> None:
    """An interrupt, a refused permission: no host is started, what runs ends."""
    plan = fleet_run.make_rollout(10, 4, None, None)
    assert fleet_run.decide(plan, RunProgress(4, 1, 0, halted="interrupted")) == RolloutStep(stop="interrupted")
    assert fleet_run.decide(plan, RunProgress(4, 4, 0, halted="interrupted")) == RolloutStep(
        stop="interrupted", finished=True
    )
    assert fleet_run.decide(plan, RunProgress(10, 10, 0, halted="interrupted")) == RolloutStep(finished=True)


@pytest.mark.parametrize("text", ["", "-1", "101%", "1.5", "%", "ten", "5 %"])
def test_a_wrong_share_is_refused(text: str) -> None:
    """It is a number of hosts or a share from 0 % to 100 %."""
    with pytest.raises(ValueError, match="is neither a number of hosts nor a share of them from 0% to 100%"):
        fleet_run.parse_share(text)


def test_a_batch_of_nothing_is_refused() -> None:
    """It would never end."""
    with pytest.raises(ValueError, match="a batch has at least one host"):
        fleet_run.parse_batches("1,0%")


def simulate(batches: str, stop_after: str, at_once: int, seed: int) -> Run:
    """Run 10,000 hosts of which nearly a third would fail."""
    choose = random.Random(seed)  # noqa: S311 - the same hosts fail in each run
    bad = {number for number in range(10_000) if choose.random() < 0.3}
    return Run(
        fleet_run.make_rollout(10_000, at_once, fleet_run.parse_batches(batches), fleet_run.parse_share(stop_after)),
        bad,
        choose,
    )


def test_of_ten_thousand_hosts_one_at_a_time_breaks_one() -> None:
    """30 % would break; one failed host is enough to stop."""
    assert [simulate("1,1%,10%,100%", "0", 1, seed).failed for seed in range(5)] == [1] * 5


def test_of_ten_thousand_hosts_one_percent_breaks_one_percent() -> None:
    """30 % would break, and 100 may: what breaks beyond them was running by then."""
    for seed in range(3):
        assert 101 <= simulate("1,1%,10%,100%", "1%", 50, seed).failed <= 100 + 50
        assert simulate("1,1%,10%,100%", "1%", 1, seed).failed == 101
