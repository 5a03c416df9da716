"""The laws of a run over many hosts: each has one report, and none costs another anything (F4, F5, G3, G6)."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api.cli import exit_codes
from resource_api.fleet import merge as merging
from resource_api.fleet import run as fleet_run
from resource_api.fleet.connections import Host
from resource_api.fleet.ledger import Ledger
from resource_api.fleet.merge import Merge
from resource_api.fleet.run import FleetRun
from resource_api.model.values.errors import StateError, UsageError
from resource_api.state.lock import Lock
from tests.unit.fleet import simulated
from tests.unit.fleet.simulated import SimulatedConnections, Watcher

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from resource_api.fleet.job import HostJob

ONE: Final = [fleet_run.Share(1), fleet_run.Share(100, percent=True)]
ANY: Final = st.sampled_from(
    [simulated.changes, simulated.fails, simulated.is_unreachable, simulated.is_locked, simulated.is_silent]
)


class Done:
    """A run over simulated hosts, and what came of it."""

    def __init__(
        self,
        behaviours: Mapping[str, Any],
        *,
        at_once: int = 50,
        batches: Any = None,
        stop_after: Any = None,
        interrupts: tuple[int, ...] = (),
        obeys: bool = True,
        refuse: int = 0,
        record: Any = None,
        timeout: float = 60.0,
    ) -> None:
        """Go over the hosts; ``interrupts``: after how many events the user interrupts."""
        self.names = list(behaviours)
        self.connections = SimulatedConnections(behaviours.__getitem__, obeys=obeys)
        self.merge, self.watcher = Merge(), Watcher(refuse)
        plan = fleet_run.make_rollout(len(self.names), at_once, batches, stop_after)
        run = FleetRun(
            self.names,
            plan,
            self.connections,
            lambda name: (Host(name), simulated.JOB),
            merge=self.merge,
            observer=self.watcher,
            record=record,
            host_timeout=timeout,
            clock=lambda: self.connections.now,
        )
        events, take = 0, self.connections.next_event

        def next_event(seconds: float | None) -> Any:
            nonlocal events
            events += 1
            if events in interrupts:
                run.interrupt()
            return take(seconds)

        self.connections.next_event = next_event  # type: ignore[method-assign] # counts them
        self.stop = run.run()

    @property
    def statuses(self) -> dict[str, str]:
        """What has become of each host."""
        return {name: report.status for name, report in self.merge.reports.items()}


@given(
    behaviours=st.lists(ANY, min_size=1, max_size=12),
    at_once=st.integers(1, 12),
    batches=st.sampled_from([None, ONE]),
    interrupts=st.lists(st.integers(1, 40), max_size=3, unique=True),
    obeys=st.booleans(),
)
def test_every_host_has_one_report_whatever_happens(
    behaviours: list[Any], at_once: int, batches: Any, *, interrupts: list[int], obeys: bool
) -> None:
    """Hosts that fail, refuse, or are silent, and a user who interrupts at any time, once or three times."""
    names = {f"web{number}": behaviour for number, behaviour in enumerate(behaviours)}
    result = Done(names, at_once=at_once, batches=batches, interrupts=tuple(interrupts), obeys=obeys, timeout=30)
    assert sorted(result.merge.reports) == sorted(names)
    assert sorted(result.watcher.of("end")) == sorted(names)
    assert sum(result.merge.counts().values()) == len(names)
    assert result.connections.most <= at_once
    assert not result.connections.running
    grouped = [name for group in result.merge.groups for name in group.hosts]
    untouched = [name for name, status in result.statuses.items() if status == "untouched"]
    assert sorted([*grouped, *untouched]) == sorted(names)
    assert all(report.error for report in result.merge.reports.values() if report.status not in {"changed", "failed"})


def test_the_reason_of_a_refusal_is_cut() -> None:
    """The reports of many hosts keep theirs until the end."""

    def refuses(_host: Host, _job: HostJob) -> Iterator[tuple[float, Mapping[str, Any]]]:
        yield 0.1, {"type": "refused", "problems": [{"message": "no" * 400_000}]}
        yield 0.0, simulated.end("refused", 65)

    assert len(Done({"web1": refuses}).merge.reports["web1"].error) < 40_000


def test_a_ledger_that_another_command_is_making_is_waited_for(tmp_path: Path) -> None:
    """SQLite would refuse at once: the other one is about to set the journal mode."""
    path = tmp_path / "fleet.db"
    path.touch(0o600)
    with closing(sqlite3.connect(path)) as other, ThreadPoolExecutor() as pool:
        with Lock(str(path)).held(0):
            other.execute("BEGIN IMMEDIATE")
            opened = pool.submit(lambda: Ledger(str(tmp_path)).close())
            time.sleep(0.2)
            other.commit()
        opened.result(timeout=20)


def test_text_of_a_host_that_no_database_takes_ends_no_other_host(tmp_path: Path) -> None:
    """A name of a file that is no UTF-8, in the reason of a refusal."""

    def refuses(_host: Host, _job: HostJob) -> Iterator[tuple[float, Mapping[str, Any]]]:
        yield 0.1, {"type": "refused", "problems": [{"message": "/srv/caf\udce9: no such file"}]}
        yield 0.0, simulated.end("refused", 65)

    with closing(Ledger(str(tmp_path))) as ledger:
        record = ledger, ledger.begin({}, "digest", [("web1", b""), ("web2", b"")])
        assert Done({"web1": refuses, "web2": simulated.changes}, record=record).statuses == {
            "web1": "refused",
            "web2": "changed",
        }
        assert list(ledger.find("last").remaining) == ["web1"]


def test_each_outcome_has_a_status_and_a_reason() -> None:
    """Of what has not succeeded it is said why; a lost host is in doubt."""

    def is_lost(_host: Host, _job: HostJob) -> Iterator[tuple[float, Mapping[str, Any]]]:
        yield 0.1, simulated.end("lost", None, "connection reset by peer")

    def is_same(_host: Host, _job: HostJob) -> Iterator[tuple[float, Mapping[str, Any]]]:
        yield 0.1, simulated.summary(unchanged=3)
        yield 0.0, simulated.end()

    def is_odd(_host: Host, _job: HostJob) -> Iterator[tuple[float, Mapping[str, Any]]]:
        yield 0.1, simulated.end(code=7)

    result = Done({
        "web1": simulated.changes, "web2": is_same, "web3": simulated.fails, "web4": simulated.is_unreachable,
        "web5": simulated.is_locked, "web6": is_lost, "web7": is_odd, "web8": simulated.is_silent,
    }, timeout=5)  # fmt: skip
    assert {name: (report.status, report.error) for name, report in result.merge.reports.items()} == {
        "web1": ("changed", ""),
        "web2": ("unchanged", ""),
        "web3": ("failed", ""),
        "web4": ("unreachable", "unreachable: connection refused (web4:22)"),
        "web5": ("refused", "refused: apply (pid 7) holds the lock since 12:00"),
        "web6": ("failed", "in doubt: connection reset by peer; the job was sent, and the end did not come"),
        "web7": ("failed", "failed with exit code 7"),
        "web8": ("failed", "told to end after 5 s, see --host-timeout"),
    }


def test_the_first_interrupt_starts_no_host_and_lets_those_that_run_end() -> None:
    """What was not started is untouched, and the reason is the interrupt."""
    result = Done({f"web{n}": simulated.changes for n in range(9)}, at_once=3, interrupts=(2,))
    assert result.stop == "interrupted"
    assert list(result.statuses.values()) == ["changed"] * 3 + ["untouched"] * 6
    assert result.merge.reports["web8"].error == "interrupted"


def test_the_second_interrupt_has_hosts_end_and_the_third_leaves_them() -> None:
    """A host that does not obey is in doubt."""
    silent = {f"web{n}": simulated.is_silent for n in range(3)}
    assert {report.code for report in Done(silent, interrupts=(5, 6)).merge.reports.values()} == {130}
    remaining = Done(silent, interrupts=(5, 6, 7), obeys=False)
    assert {item.error for item in remaining.merge.reports.values()} == {
        "in doubt: abandoned; the job was sent, and the end did not come"
    }
    assert remaining.connections.now < 10


def test_a_host_that_takes_too_long_is_told_to_end_and_then_given_up() -> None:
    """It fails alone, after its time and ten seconds."""
    result = Done({"web1": simulated.is_silent, "web2": simulated.changes}, timeout=30, obeys=False)
    assert result.statuses == {"web2": "changed", "web1": "failed"}
    assert "it did not end within 30 s" in result.merge.reports["web1"].error
    assert 40 <= result.connections.now < 42


def test_a_host_that_cannot_be_given_its_job_in_time_is_unreachable_for_that_reason() -> None:
    """A login that takes for ever is no connection that was closed here."""

    def logs_in_slowly(_host: Host, _job: HostJob) -> Iterator[tuple[float, Mapping[str, Any]]]:
        yield 7.0, simulated.end("unreachable", None, "the connection was closed from here")

    result = Done({"web1": logs_in_slowly}, timeout=5, obeys=False)
    assert result.merge.reports["web1"].error == "unreachable: it could not be given the job within 5 s"


def test_a_host_in_doubt_names_its_last_step() -> None:
    """The one that it has begun and not ended: there an operator looks first."""

    def hangs(_host: Host, _job: HostJob) -> Iterator[tuple[float, Mapping[str, Any]]]:
        for kind, reference in (("step_start", "A[a]"), ("step_end", "A[a]"), ("step_start", "Exec[sleep]")):
            yield 0.1, {"type": kind, "reference": reference}

    result = Done({"web1": hangs}, timeout=5, obeys=False)
    assert result.merge.reports["web1"].error == (
        "in doubt: it did not end within 5 s, see --host-timeout; the job was sent, and the end did not come; its last"
        " step is Exec[sleep]"
    )


def test_a_failed_canary_stops_the_run() -> None:
    """One host is touched, each of the others says why it was not, and no further batch is announced."""
    result = Done({f"web{n}": simulated.fails for n in range(50)}, batches=ONE)
    assert [item.last for item in result.watcher.of("batch")] == [True]
    assert result.merge.counts() | {"failed": 1, "untouched": 49} == result.merge.counts()
    assert result.stop == "1 host has failed, and --stop-after allows 0"


def test_an_unreachable_host_counts_unless_it_is_ignored() -> None:
    """As a failure, for the threshold and for the exit code."""
    result = Done({"web1": simulated.is_unreachable, "web2": simulated.changes}, batches=ONE)
    assert result.statuses == {"web1": "unreachable", "web2": "untouched"}
    reports = Done({"web1": simulated.is_unreachable, "web2": simulated.changes}).merge.reports.values()
    assert exit_codes.of_hosts("apply", reports, detailed=False) == 1
    assert exit_codes.of_hosts("apply", reports, detailed=True) == 6
    assert exit_codes.of_hosts("apply", reports, detailed=True, ignored=("unreachable",)) == 2


def test_between_batches_the_next_one_may_be_refused() -> None:
    """The batch report says how many hosts follow."""
    result = Done({f"web{n}": simulated.changes for n in range(5)}, batches=fleet_run.parse_batches("1,2,2"), refuse=2)
    assert [(item.number, item.of, item.counts, item.remaining) for item in result.watcher.of("batch")] == [
        (1, 3, {"changed": 1}, 4),
        (2, 3, {"changed": 2}, 2),
    ]
    assert result.stop == "refused"
    assert list(result.statuses.values()) == ["changed"] * 3 + ["untouched"] * 2


@pytest.mark.parametrize(
    ("behaviours", "code", "detailed"),
    [
        ([simulated.changes], 0, 2),
        ([simulated.is_locked, simulated.changes], 75, 75),
        ([simulated.is_locked, simulated.fails], 1, 4),
        ([simulated.fails, simulated.changes], 1, 6),
    ],
)
def test_the_exit_code_is_that_of_one_host_if_it_can_be(behaviours: list[Any], code: int, detailed: int) -> None:
    """75 only if all that have not succeeded were locked."""
    reports = Done({f"web{n}": behaviour for n, behaviour in enumerate(behaviours)}).merge.reports.values()
    assert exit_codes.of_hosts("apply", reports, detailed=False) == code
    assert exit_codes.of_hosts("apply", reports, detailed=True) == detailed


def test_a_manifest_that_every_host_refuses_is_wrong() -> None:
    """Nothing was touched anywhere."""

    def refuses(_host: Host, _job: HostJob) -> Iterator[tuple[float, Mapping[str, Any]]]:
        yield 0.1, {"type": "refused", "problems": [{"file": "site.yaml", "line": 3, "message": "unknown type"}]}
        yield 0.0, simulated.end("refused", 65)

    reports = Done({"web1": refuses, "web2": refuses}).merge.reports
    assert reports["web1"].error == "refused: site.yaml:3: unknown type"
    assert exit_codes.of_hosts("apply", reports.values(), detailed=False) == 65
    mixed = Done({"web1": refuses, "web2": simulated.changes}).merge.reports
    assert exit_codes.of_hosts("apply", mixed.values(), detailed=False) == 1


# Hosts that misbehave


def test_silent_and_flooding_hosts_cost_the_others_no_time() -> None:
    """Forty hosts end when they would have ended alone, beside ten that never end and one that never stops."""

    def floods(_host: Host, _job: HostJob) -> Iterator[tuple[float, Mapping[str, Any]]]:
        for number in range(20_000):
            yield 0.00001, simulated.log(f"line {number} {'x' * 400}")
        yield 0.0, simulated.end("lost", None, "more than 1000000 events")

    good = {f"web{n}": simulated.changes for n in range(40)}
    alone = Done(good, at_once=40)
    bad = {**{f"bad{n}": simulated.is_silent for n in range(10)}, "flood": floods}
    ends: dict[str, float] = {}
    beside = Done({**bad, **good}, at_once=51, timeout=5)
    assert {beside.merge.reports[name].status for name in good} == {"changed"}
    ends = {name: beside.merge.reports[name].seconds for name in good}
    assert max(ends.values()) < 1.1 * max(report.seconds for report in alone.merge.reports.values())
    (flood,) = (group for group in beside.merge.groups if group.hosts == ["flood"])
    assert sum(map(len, flood.texts)) <= 256 * 1024
    assert flood.more == 20_000 - len(flood.texts)


def test_a_lying_host_speaks_for_itself_alone() -> None:
    """Its counts, its names, its types: what has not the right form counts as nothing."""

    def lies(_host: Host, _job: HostJob) -> Iterator[tuple[float, Mapping[str, Any]]]:
        yield 0.1, {"type": "host_end", "host": "web2", "status": "failed"}
        yield 0.1, {"type": "log", "level": "shout", "message": ["x"], "subject": {}}
        yield 0.1, {"type": "log", "level": "err", "message": {"a": 1}, "host": "web2"}
        yield 0.1, {"type": "refused", "problems": [3, {"message": 4}, {"message": "x"}]}
        yield 0.1, {"type": "result", "document": [1], "host": "web2"}
        yield 0.1, {"type": "summary", "updated": -1, "failed": "many", "created": True, "unchanged": 10**30}
        yield 0.1, simulated.end(code=None)

    result = Done({"web1": lies, "web2": simulated.changes})
    assert result.statuses == {"web1": "failed", "web2": "changed"}
    assert not any((result.merge.reports["web1"].summary or {}).values())


# Folding


def test_hosts_with_equal_answers_are_one_group_and_exceptions_stand_out() -> None:
    """Times do not matter, nor does the host's own name."""

    def greets(host: Host, _job: HostJob) -> Iterator[tuple[float, Mapping[str, Any]]]:
        yield 0.1, {**simulated.log(f"content is now 'I am {host.name}'"), "timestamp": host.name}
        yield 0.1, simulated.summary(updated=1)
        yield 0.0, simulated.end()

    behaviours = {f"web{n}": greets for n in range(1, 51)} | {"web18": simulated.fails, "web19": simulated.fails}
    result = Done(behaviours)
    assert [(group.status, len(group.hosts)) for group in result.merge.groups] == [("changed", 48), ("failed", 2)]
    assert result.merge.groups[0].documents()[0]["message"] == "content is now 'I am ${host.name}'"
    assert Done({"web1": greets}).merge.groups[0].documents()[0]["message"] == "content is now 'I am web1'"


def test_hosts_that_cannot_be_reached_for_the_same_reason_are_one_group() -> None:
    """Their addresses do not tell them apart; that of a single one is shown."""
    merge = Merge()
    for number in (1, 2):
        host = Host(f"web{number}", f"10.0.0.{number}")
        merge.begin(host)
        merge.end(host, simulated.end("unreachable", None, f"connection refused ({host.address}:22)"), 0.1, 1)
        (group,) = merge.groups
        location = "10.0.0.1" if number == 1 else "${host.address}"
        assert group.reason() == f"unreachable: connection refused ({location}:22)"
    assert merge.reports["web2"].error == "unreachable: connection refused (10.0.0.2:22)"


@pytest.mark.parametrize("name", ["web{}", "root@10.0.0.{}"])
@pytest.mark.parametrize("seen", ["${host.name} at ${host.address}", "http://${host.address}:22", "${host.address}0.1"])
@pytest.mark.parametrize("as_answer", [False, True])
def test_what_identifies_a_host_tells_no_results_apart(name: str, seen: str, *, as_answer: bool) -> None:
    """Each value of `${host.…}` that differs from host to host, in the log and in answers, whatever the length."""
    merge = Merge(lines=lambda answer: [str(answer["document"])[:32]])
    for number in (7, 18, 100):
        host = Host(name.format(number), f"10.0.0.{number}")
        text = seen.replace("${host.name}", host.name).replace("${host.address}", host.address)
        merge.begin(host)
        merge.add(host.name, {"type": "result", "document": text} if as_answer else simulated.log(text))
        merge.end(host, simulated.end(), 0.1, 1)
    texts = [group.documents(group.hosts[-1])[0]["document" if as_answer else "message"] for group in merge.groups]
    if seen.endswith("0.1"):
        assert texts == ["10.0.0.70.1", "10.0.0.180.1", "10.0.0.1000.1"]
    else:
        assert texts == [text]
        assert seen in str(merge.groups[0].documents()[0])


def test_a_name_within_another_name_is_no_name() -> None:
    """`web1` is not the beginning of `web10`."""

    def names_another(_host: Host, _job: HostJob) -> Iterator[tuple[float, Mapping[str, Any]]]:
        yield 0.1, simulated.log("waits for web10 and old.web1")
        yield 0.1, simulated.end()

    (group,) = Done({"web1": names_another}).merge.groups
    assert json.loads(group.texts[0])["message"] == "waits for web10 and old.web1"


@pytest.mark.parametrize("names", [["a", "b", "c"], ["db", "mx", "ns"], ["n", "r", "t"], ["message", "type", "web"]])
def test_a_name_does_not_count_however_short_it_is(names: list[str]) -> None:
    """Also at the beginning of a line, quoted or not, and where the name is a key of a document or of an escape."""
    text = "made for ${host.name}:\n${host.name}, '\\n${host.name}\\nx \\t'"

    def greets(host: Host, _job: HostJob) -> Iterator[tuple[float, Mapping[str, Any]]]:
        yield 0.1, simulated.log(text.replace("${host.name}", host.name))
        yield 0.1, simulated.end()

    (group,) = Done(dict.fromkeys(names, greets)).merge.groups
    assert group.documents()[0]["message"] == text
    assert group.documents(names[1])[0]["message"] == text.replace("${host.name}", names[1])


@pytest.mark.parametrize("seconds", [(1, 2, 3, 4), (4, 3, 2, 1), (2, 4, 1, 3)])
def test_a_name_that_is_a_word_tells_no_answers_apart(seconds: tuple[int, ...]) -> None:
    """What is equal word by word is one group, whichever host has ended first, and is shown as it is."""

    def greets(after: int, text: str) -> Any:
        return lambda _host, _job: iter([(after, simulated.log(text)), (0.0, simulated.end())])

    texts = {"web": "/srv/web", "app": "/srv/web", "a": "/srv/a", "b": "/srv/b"}
    behaviours = {name: greets(after, text) for (name, text), after in zip(texts.items(), seconds, strict=True)}
    merge = Done(behaviours, at_once=4).merge
    entries = {",".join(item.hosts): item.documents()[0]["message"] for item in merge.in_order(merge.groups)}
    assert entries == {"web,app": "/srv/web", "a,b": "/srv/${host.name}"}
    (group,) = (value for value in merge.groups if "app" in value.hosts)
    assert group.documents("app") == group.documents("web")


def _merged(outputs: Mapping[str, Any]) -> Merge:
    """Return the report of hosts that have changed nothing and have these outputs."""
    merge = Merge()
    for name, values in outputs.items():
        merge.begin(Host(name))
        merge.add(name, {"type": "outputs", "outputs": values})
        merge.end(Host(name), {"type": "end", "status": "ended", "code": 0}, 1.0, 1)
    return merge


def test_outputs_are_folded_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts that have the same, but for their names, are one group; what has no room is counted, lies are nothing."""
    same: dict[str, Any] = {name: {"url": f"https://{name}/", "b": 1} for name in ("web1", "web2")}
    result = _merged({**same, "web3": {"url": "https://web9/", "b": 1}, "web4": {}, "web5": [1], "web6": {"b": 1}})
    assert len(result.groups) == 1
    assert [(group.hosts, group.documents()) for group in result.outputs] == [
        (["web1", "web2"], [{"url": "https://${host.name}/", "b": 1}]),
        (["web3"], [{"url": "https://web9/", "b": 1}]),
        (["web6"], [{"b": 1}]),
    ]
    monkeypatch.setattr(merging, "_MAX_OF_ALL", 20)
    large = _merged({"web1": {"b": 1}, "web2": {"b": "x" * 20}, "web3": {"b": "y" * 20}})
    assert [(group.hosts, group.documents(), group.more) for group in large.outputs] == [
        (["web1"], [{"b": 1}], 0),
        (["web2", "web3"], [], 1),
    ]


def test_groups_have_the_order_of_the_selection() -> None:
    """Whichever host has ended first, two equal runs show the same."""

    def after(seconds: float, status: str) -> Any:
        return lambda _host, _job: iter([(seconds, simulated.end(status, 0 if status == "ended" else None, "x"))])

    result = Done({"web2": after(3, "ended"), "db1": after(1, "unreachable"), "db2": after(4, "unreachable"),
                 "web1": after(2, "ended")}, at_once=4)  # fmt: skip
    assert [group.hosts for group in result.merge.groups] == [["db1", "db2"], ["web1", "web2"]]
    assert [item.hosts for item in result.merge.in_order(result.merge.groups)] == [["web2", "web1"], ["db1", "db2"]]


def test_batches_are_folded_each_by_itself() -> None:
    """What is shown of a batch is about its hosts alone."""
    result = Done({f"web{n}": simulated.changes for n in range(4)}, batches=ONE)
    assert [group.hosts for group in result.merge.groups] == [["web0"], ["web1", "web2", "web3"]]


# The ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """Yield the ledger of a directory."""
    result = Ledger(str(tmp_path / "state"))
    yield result
    result.close()


def begin(ledger: Ledger, names: list[str]) -> str:
    """Begin a run of hosts."""
    return ledger.begin({"on": ["web"]}, "digest", [(name, b"inputs") for name in names])


def test_what_is_left_of_a_run_is_what_has_not_succeeded(ledger: Ledger) -> None:
    """Failed, unreachable, refused and untouched hosts, in the order of the run."""
    behaviours = {
        "web1": simulated.changes,
        "web2": simulated.fails,
        "web3": simulated.is_unreachable,
        "web4": simulated.is_locked,
        "web5": simulated.changes,
    }
    run = begin(ledger, list(behaviours))
    result = Done(behaviours, at_once=1, stop_after=fleet_run.Share(2), record=(ledger, run))
    assert result.statuses["web5"] == "untouched"
    outcome = ledger.find(run[:6])
    assert (outcome.id, outcome.request, outcome.digest) == (run, {"on": ["web"]}, "digest")
    assert outcome.remaining == dict.fromkeys(["web2", "web3", "web4", "web5"], b"inputs")
    assert ledger.find("last") == outcome


def test_hosts_that_never_began_have_their_end_where_the_ledger_fails(ledger: Ledger) -> None:
    """The run raises the error of the ledger, after each host and the last batch have been reported."""
    names = ["web1", "web2", "web3"]
    run = begin(ledger, names)
    connections, watcher = SimulatedConnections({"web1": simulated.changes}.__getitem__), Watcher()
    plan = fleet_run.make_rollout(len(names), 1, ONE, None)
    ledger.close()
    fleet = FleetRun(
        names,
        plan,
        connections,
        lambda name: (Host(name), simulated.JOB),
        merge=Merge(),
        observer=watcher,
        record=(ledger, run),
        clock=lambda: connections.now,
    )
    with pytest.raises(StateError):
        fleet.run()
    assert sorted(watcher.of("end")) == names
    assert [batch.last for batch in watcher.of("batch")][-1:] == [True]


def statuses(ledger: Ledger, run: str) -> list[tuple[str, bool, str | None]]:
    """Return for each host of a run whether it was asked, and what has become of it; None: it has not answered."""
    query = "SELECT name, asked IS NOT NULL, status FROM host WHERE run = ? ORDER BY position"
    with closing(sqlite3.connect(ledger.path)) as connection:
        return [(name, bool(requested), status) for name, requested, status in connection.execute(query, (run,))]


def test_a_controller_that_is_killed_leaves_what_it_had_asked_in_doubt(tmp_path: Path) -> None:
    """Who was asked and has not answered is left, and so is who was never asked."""
    script = (
        "import os, sys\n"
        "from resource_api.fleet.ledger import Ledger\n"
        "from resource_api.fleet.merge import HostReport\n"
        "ledger = Ledger(sys.argv[1])\n"
        "run = ledger.begin({}, 'd', [(f'web{n}', b'') for n in range(4)])\n"
        "ledger.note(run, ['web0', 'web1'], [HostReport('web0', 'changed')])\n"
        "print(run, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False, timeout=30
    )
    assert process.returncode == -signal.SIGKILL, process.stderr
    ledger = Ledger(str(tmp_path))
    run = process.stdout.strip()
    assert list(ledger.find(run).remaining) == ["web1", "web2", "web3"]
    assert statuses(ledger, run)[:3] == [("web0", True, "changed"), ("web1", True, None), ("web2", False, None)]
    ledger.close()


def test_an_unknown_run_is_refused(ledger: Ledger) -> None:
    """So are several that begin alike."""
    with pytest.raises(UsageError, match="there is no run 'abc' among the last 100 over several hosts"):
        ledger.find("abc")
    begin(ledger, ["a"])
    begin(ledger, ["a"])
    with pytest.raises(UsageError, match="2 runs begin with ''"):
        ledger.find("")


def test_the_newest_run_is_the_last_one_begun_whatever_the_clock_was(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``--rerun last`` must not repeat another run after the clock was set back, nor is the newest one forgotten."""
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: 4e9)
        for _ in range(100):
            begin(ledger, ["a"])
    newest = begin(ledger, ["a"])
    assert ledger.find("last").id == newest
    begin(ledger, ["a"])
    assert ledger.find(newest).id == newest


def test_old_runs_are_forgotten(ledger: Ledger) -> None:
    """The last hundred runs are kept."""
    first = begin(ledger, ["a"])
    runs = [begin(ledger, ["a"]) for _ in range(100)]
    assert ledger.find(runs[0]).id == runs[0]
    assert not statuses(ledger, first)
    assert ledger.key == ledger.key


def test_the_ledger_is_private_and_a_wrong_file_is_an_error(tmp_path: Path) -> None:
    """Nobody else can open it; a damaged one is named."""
    Ledger(str(tmp_path / "state")).close()
    assert (tmp_path / "state" / "fleet.db").stat().st_mode & 0o77 == 0
    (tmp_path / "fleet.db").write_bytes(b"no database at all, but long enough to be read as one" * 30)
    with pytest.raises(StateError, match=r"fleet\.db: file is not a database"):
        Ledger(str(tmp_path))
    (tmp_path / "fleet.db").unlink()
    ledger = Ledger(str(tmp_path))
    ledger._connection.execute("PRAGMA user_version=9")
    ledger.close()
    with pytest.raises(StateError, match="was written by a newer resource-api"):
        Ledger(str(tmp_path))
    (tmp_path / "fleet.db").chmod(0o666)
    with pytest.raises(StateError, match=r"fleet\.db: others can write to it"):
        Ledger(str(tmp_path))
    tmp_path.chmod(0o777)
    with pytest.raises(StateError, match=r"others can write to it; .* run: chmod go-w "):
        Ledger(str(tmp_path))
