"""Parallel calls: only relationships order, and the result of every schedule is that of a sequential run."""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING, Any, Final, Self

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from resource_api import Attribute, BaseProvider, Command, Registry, Runtime, TypeDefinition
from resource_api.state.store import MemoryStore, StackName
from resource_api.system.log import ForwardedLog, line
from tests.registries import registry_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from pathlib import Path
    from types import TracebackType

    from resource_api.model.report import RunReport

PROJECT: Final = "side"
_ATTRIBUTES: Final = {
    "ensure": Attribute("Enum[present, absent]", "Whether it exists.", default="present"),
    "name": Attribute("String", "What it is called.", kind="namevar"),
    "size": Attribute("Optional[Integer]", "How big it is."),
    "near": Attribute("Optional[String]", "The number of another."),
    "number": Attribute("Optional[String]", "Known once it is made.", kind="read_only"),
}
_ORDERED: Final = ("name", "size")
FEATURES: Final[Mapping[str, set[str]]] = {
    "wide": {"parallel", "simple_get_filter", "refreshable"},
    "narrow": {"simple_get_filter", "refreshable"},
    "whole": {"parallel"},
    "errand": {"imperative", "parallel"},
    "tool": set(),
}


class Conductor:
    """Holds every call to a provider, and lets them continue one by one in an order drawn from a seed."""

    def __init__(self, seed: int | None = None, *, together: int = 1) -> None:
        """Let calls continue at once unless there is a ``seed``; wait until ``together`` calls have started."""
        self._together = together
        self._random = random.Random(seed)  # noqa: S311 - chance is what is wanted
        self._open = seed is None
        self._change = threading.Condition()
        self._waiting: list[threading.Event] = []
        self.live: dict[str, int] = {}
        self.peak: dict[str, int] = {}
        self._ended = False

    def __enter__(self) -> Self:
        """Start to control calls."""
        self._thread = threading.Thread(target=self._conduct, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Let all calls continue."""
        with self._change:
            self._ended = True
            self._change.notify_all()
        self._thread.join()

    def enter(self, kind: str) -> None:
        """Start a call, and wait until it may continue."""
        mine = threading.Event()
        with self._change:
            for counted in (kind, "all"):
                self.live[counted] = self.live.get(counted, 0) + 1
                self.peak[counted] = max(self.peak.get(counted, 0), self.live[counted])
            self._waiting.append(mine)
            self._change.notify_all()
        if not self._open:
            assert mine.wait(20)

    def leave(self, kind: str) -> None:
        """End a call."""
        with self._change:
            for counted in (kind, "all"):
                self.live[counted] -= 1

    def _conduct(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: len(self._waiting) >= self._together or self._ended)
                if self._ended:
                    for item in self._waiting:
                        item.set()
                    return
            time.sleep(0.0005)  # who else is about to arrive
            with self._change:
                self._together = 1
                self._waiting.pop(self._random.randrange(len(self._waiting))).set()


class Side:
    """A world whose providers wait for the conductor, and the runtime that changes it."""

    def __init__(self, conductor: Conductor | None = None, level: str = "notice") -> None:
        """Start with an empty world."""
        self.things: dict[str, dict[str, dict[str, Any]]] = {kind: {} for kind in FEATURES}
        self.calls: list[tuple[str, list[str]]] = []
        self.failing: Collection[str] = ()
        self.conductor = conductor or Conductor()
        self.lines: list[str] = []
        self.store = MemoryStore()
        registry = Registry()
        for kind, features in FEATURES.items():
            attributes = {name: value for name, value in _ATTRIBUTES.items() if kind != "errand" or name in _ORDERED}
            registry.register_type(
                TypeDefinition(name=kind, docs="One of them.", attributes=attributes, features=features)
            )
            registry.register_provider(kind, self._provider(kind, features))
        log = ForwardedLog(level, lambda event: self.lines.append(line(event)))
        self.runtime = Runtime(registry, state=self.store, log=log)

    def _provider(self, kind: str, features: Collection[str]) -> type[BaseProvider]:
        side = self

        class Provider(BaseProvider):
            def get(self, context: Any, names: Any = None) -> Iterator[Mapping[str, Any]]:  # noqa: ARG002
                side.look(kind, names)
                if kind == "tool" and "kit" not in side.things["narrow"]:
                    raise RuntimeError("there is no kit")
                rows = dict(side.things[kind])
                for name in rows if names is None else names:
                    if name in rows:
                        yield {"name": name, "ensure": "present", **rows[name]}

            def set(self, context: Any, changes: Mapping[str, Any]) -> None:
                side.calls.append((kind, list(changes)))
                side.conductor.enter(kind)
                try:
                    for name, (_, should) in changes.items():
                        side.change(kind, name, should, context)
                finally:
                    side.conductor.leave(kind)

        extra: dict[str, Any] = {}
        if "refreshable" in features:
            extra["refresh"] = lambda _self, _context, names: side.calls.append((f"refresh {kind}", list(names)))
        if "imperative" in features:
            extra["due"] = lambda *_arguments: True
        return type("Provider", (Provider,), extra)

    def look(self, kind: str, names: Collection[str] | None) -> None:
        """Return what a provider reads."""

    def change(self, kind: str, name: str, should: Mapping[str, Any], context: Any) -> None:
        """Create or delete one resource."""
        if name in self.failing:
            context.failed(name, message="does not want to")
        elif should.get("ensure") == "absent":
            self.things[kind].pop(name, None)
        else:
            stored = {key: value for key, value in should.items() if key not in {"name", "ensure"}}
            self.things[kind][name] = {**stored, "number": f"N-{name}"}

    def stand(self, resources: Mapping[str, Any], numbers: Collection[int]) -> None:
        """Make some of the resources exist, by their numbers."""
        for number, reference in enumerate(resources):
            kind, name = reference.rstrip("]").lower().split("[")
            if number in numbers:
                self.things[kind][name] = {"size": number, "number": f"N-{name}"}

    def apply(self, resources: Mapping[str, Any], **options: Any) -> RunReport:
        """Apply."""
        return self.runtime.apply({"project": PROJECT, "resources": resources}, **options)

    def destroy(self, **options: Any) -> RunReport:
        """Destroy."""
        return self.runtime.destroy({"project": PROJECT, "resources": {}}, **options)

    @property
    def recorded(self) -> dict[Any, Any]:
        """The records, without their order and times."""
        state = self.store.load(StackName(PROJECT, "default"))
        records = {key: record._replace(last_run=bool(record.last_run)) for key, record in state.records.items()}
        return {"records": records, "owed": dict(state.owed), "intents": dict(state.intents)}


def ends(report: RunReport) -> set[tuple[str, str, str]]:
    """Return the outcome of each resource."""
    return {(step.reference, str(step.action), step.status) for step in report.steps}


@st.composite
def catalogs(draw: st.DrawFn) -> dict[str, dict[str, Any]]:
    """Generate resources with all kinds of relationships to earlier ones."""
    kinds = draw(st.lists(st.sampled_from(["wide", "narrow", "whole", "errand"]), min_size=1, max_size=10))
    resources: dict[str, dict[str, Any]] = {}
    for number, kind in enumerate(kinds):
        values: dict[str, Any] = {"size": number}
        for relation in ("require", "subscribe"):
            chosen = draw(st.lists(st.sampled_from(sorted(resources)), unique=True, max_size=2)) if resources else []
            if chosen:
                values[relation] = chosen
        rest = [reference for reference in resources if not reference.startswith("Errand")]
        if rest and kind != "errand" and draw(st.booleans()):
            values["near"] = "${" + draw(st.sampled_from(rest)) + ".number}"
        resources[f"{kind.capitalize()}[r{number}]"] = values
    return resources


#: Without parallel calls, r4 is in one call with r3, which it waits for.
SKIPPED_IN_A_CALL: Final[dict[str, dict[str, Any]]] = {
    "Errand[r0]": {"size": 0},
    "Errand[r1]": {"size": 1},
    "Wide[r2]": {"size": 2},
    "Narrow[r3]": {"size": 3},
    "Narrow[r4]": {"size": 4, "subscribe": ["Errand[r0]", "Narrow[r3]"], "near": "${Wide[r2].number}"},
}


@given(
    catalogs(),
    st.sets(st.integers(0, 9), max_size=2),
    st.sets(st.integers(0, 9), max_size=5),
    st.integers(0, 2**32),
    st.integers(2, 4),
)
@example(SKIPPED_IN_A_CALL, {3}, {2, 4}, 0, 3)
def test_any_schedule_has_the_result_of_a_sequential_run(
    resources: dict[str, Any], failing: set[int], standing: set[int], seed: int, parallel: int
) -> None:
    """World, records and outcomes are the same, for creations and deletions."""
    one = Side()
    with Conductor(seed) as conductor:
        side = Side(conductor)
        for world in (one, side):
            world.stand(resources, standing)
        one.failing = side.failing = {f"r{number}" for number in failing}
        assert ends(side.apply(resources, parallel=parallel)) == ends(one.apply(resources))
        one.failing = side.failing = ()
        assert (side.things, side.recorded) == (one.things, one.recorded)
        assert ends(side.apply(resources, parallel=parallel)) == ends(one.apply(resources))
        assert (side.things, side.recorded) == (one.things, one.recorded)
        assert ends(side.destroy(parallel=parallel)) == ends(one.destroy())
        assert (side.things, side.recorded) == (one.things, one.recorded)
        assert conductor.peak.get("narrow", 0) <= 1
        assert conductor.peak.get("all", 0) <= parallel


def test_a_segment_of_a_parallel_provider_is_split_into_n_calls() -> None:
    """A segment is split into equal parts; each call is verified by reading its own resources."""
    with Conductor(1, together=4) as conductor:
        side = Side(conductor)
        report = side.apply({f"Wide[{number}]": {} for number in range(40)}, parallel=4)
    assert report.summary.created == 40
    assert sorted(len(names) for _, names in side.calls) == [10, 10, 10, 10]
    assert conductor.peak["wide"] == 4


def test_a_saved_plan_may_be_applied_in_parallel() -> None:
    """The number of parallel calls is not part of a plan."""
    with Conductor(1, together=4) as conductor:
        side = Side(conductor)
        plan = side.runtime.plan({"project": PROJECT, "resources": {f"Wide[{number}]": {} for number in range(8)}})
        report = side.runtime.apply(plan, parallel=4)
    assert (report.summary.created, len(side.calls), conductor.peak["wide"]) == (8, 4, 4)


def test_dependent_resources_stay_in_one_call() -> None:
    """Chains are not split, so that a failure in one skips only its own dependents."""
    side = Side()
    side.failing = {"a0"}
    chains = {
        f"Wide[{chain}{number}]": {"require": f"Wide[{chain}{number - 1}]"} if number else {}
        for chain in "abcd"
        for number in range(3)
    }
    report = side.apply(chains, parallel=4)
    assert sorted(names for _, names in side.calls) == [[f"{c}{n}" for n in range(3)] for c in "abcd"]
    assert (report.summary.created, report.summary.failed, report.summary.skipped) == (9, 1, 2)


_BY_WAY_OF_B: Final[Mapping[str, Any]] = {
    "Wide[a]": {},
    "Wide[b]": {"require": "Wide[a]"},
    "Wide[c]": {"require": "Wide[b]"},
    "Narrow[d]": {"require": "Wide[b]"},
}


def test_an_unchanged_resource_still_orders_those_around_it() -> None:
    """Nothing is to be done with ``b``: still ``c``, of its type, and ``d`` wait for ``a``."""
    side = Side()
    side.things["wide"]["b"] = {}
    ended: list[str] = []

    def change(kind: str, name: str, should: Mapping[str, Any], context: Any) -> None:
        if name == "a":
            time.sleep(0.2)
        Side.change(side, kind, name, should, context)
        ended.append(name)

    side.change = change  # type: ignore[method-assign]
    assert side.apply(_BY_WAY_OF_B, parallel=3).summary.created == 3
    assert ended == ["a", "c", "d"]


@pytest.mark.parametrize("parallel", [1, 3])
def test_an_indirect_dependent_of_a_failure_is_skipped(parallel: int) -> None:
    """``a`` fails and ``b`` is unchanged: a resource that requires ``b`` is skipped, in that call and after it."""
    side = Side()
    side.things["wide"]["b"] = {}
    side.failing = {"a"}
    report = side.apply(_BY_WAY_OF_B, parallel=parallel)
    assert {step.reference: step.status for step in report.steps} == {
        "Wide[a]": "failed",
        "Wide[b]": "skipped",
        "Wide[c]": "skipped",
        "Narrow[d]": "skipped",
    }
    assert side.things["wide"].keys() == {"b"}
    assert not side.things["narrow"]


def test_different_types_run_in_parallel() -> None:
    """A provider without the feature ``parallel`` has one call at a time, in parallel with other types."""
    with Conductor(3, together=2) as conductor:
        side = Side(conductor)
        resources = {f"{kind}[{number}]": {} for number in range(4) for kind in ("Narrow", "Whole")}
        side.apply(resources, parallel=3)
    assert ("narrow", ["0", "1", "2", "3"]) in side.calls
    assert conductor.peak["all"] > 1
    assert conductor.peak["narrow"] == 1


def test_a_deferred_resource_waits_for_earlier_steps() -> None:
    """Without a relationship, the tool is still read only after the kit exists."""
    side = Side()
    report = side.apply({"Narrow[kit]": {}, "Tool[hammer]": {}, "Wide[w]": {}}, parallel=4)
    assert report.summary.created == 3
    assert [kind for kind, _ in side.calls].index("narrow") < [kind for kind, _ in side.calls].index("tool")


def test_a_failed_read_fails_only_its_own_resources() -> None:
    """The row of ``slow`` is valid, although ``bad``, of the same type, could not be read in the meantime."""
    side = Side()
    reading, failed = threading.Event(), threading.Event()

    def look(_kind: str, names: Collection[str] | None) -> None:
        if "slow" in (names or ()) and "slow" in side.things["wide"]:
            reading.set()
            assert failed.wait(5)
        if "bad" in (names or ()) and reading.is_set():
            threading.Timer(0.2, failed.set).start()
            raise RuntimeError("nobody answers")

    def change(kind: str, name: str, should: Mapping[str, Any], context: Any) -> None:
        if kind == "errand":
            assert reading.wait(5)
        Side.change(side, kind, name, should, context)

    side.look, side.change = look, change  # type: ignore[method-assign]
    report = side.apply({"Wide[slow]": {}, "Errand[e]": {}, "Wide[bad]": {"require": "Errand[e]"}}, parallel=3)
    assert {step.reference: step.status for step in report.steps} == {
        "Wide[slow]": "success",
        "Errand[e]": "success",
        "Wide[bad]": "failed",
    }


def test_a_failed_read_before_a_change_is_repeated_after_it() -> None:
    """``bad`` could not be read during the change; ``good``, which requires the change, is read again."""
    side = Side()
    reading, event = threading.Event(), threading.Event()

    def look(kind: str, names: Collection[str] | None) -> None:
        if "bad" in (names or ()) and "bad" in side.things["wide"]:
            reading.set()
            assert event.wait(5)
            raise RuntimeError("nobody answers")
        if kind == "narrow" and reading.is_set():
            event.set()
            time.sleep(0.2)

    def change(kind: str, name: str, should: Mapping[str, Any], context: Any) -> None:
        if kind == "errand":
            assert reading.wait(5)
        Side.change(side, kind, name, should, context)

    side.look, side.change = look, change  # type: ignore[method-assign]
    after = {"require": "Errand[e]"}
    report = side.apply({"Wide[bad]": {}, "Errand[e]": {}, "Narrow[n]": after, "Wide[good]": after}, parallel=2)
    assert {step.reference for step in report.steps if step.status == "failed"} == {"Wide[bad]"}


def test_fail_fast_starts_nothing_after_the_first_failure() -> None:
    """``--fail-fast``: running calls finish, the rest is skipped."""
    side = Side()
    side.failing = {"e0"}

    def change(kind: str, name: str, should: Mapping[str, Any], context: Any) -> None:
        if name != "e0":
            time.sleep(0.1)
        Side.change(side, kind, name, should, context)

    side.change = change  # type: ignore[method-assign]
    report = side.apply({f"Errand[e{number}]": {} for number in range(30)}, parallel=2, fail_fast=True)
    assert report.summary.failed == 1
    assert report.summary.skipped >= 25
    assert report.summary.failed + report.summary.skipped + report.summary.ran == 30


def test_a_base_exception_ends_the_run_in_order() -> None:
    """Running calls finish and are recorded; nothing new starts; the next run does the rest."""
    side = Side()

    class Odd(BaseException):
        pass

    def change(kind: str, name: str, should: Mapping[str, Any], context: Any) -> None:
        if name == "0":
            raise Odd
        Side.change(side, kind, name, should, context)

    side.change = change  # type: ignore[method-assign]
    resources = {f"Wide[{n}]": {} for n in range(4)} | {"Narrow[last]": {"require": [f"Wide[{n}]" for n in range(4)]}}
    report = side.apply(resources, parallel=4)
    status = {step.reference: step.status for step in report.steps}
    assert (status["Wide[0]"], status["Narrow[last]"], report.exit_code) == ("failed", "skipped", 1)
    del side.change  # type: ignore[method-assign]
    assert side.apply(resources, parallel=4).exit_code == 0
    assert len(side.things["wide"]) == 4


def test_a_failed_write_ends_the_run_after_running_calls() -> None:
    """State that cannot be written is an error of the run, and no thread continues afterwards."""
    side = Side()

    class FullError(Exception):
        pass

    def refuse(*_arguments: Any) -> None:
        raise FullError

    side.store.commit = refuse  # type: ignore[method-assign,assignment]
    with pytest.raises(FullError):
        side.apply({f"Wide[{number}]": {} for number in range(8)}, parallel=4)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("call-") and _busy(thread)]


def test_a_thread_of_a_provider_runs_no_program_during_a_parallel_noop_call(tmp_path: Path) -> None:
    """The owner of a thread is unknown, so the rules of noop apply to it."""
    both = threading.Barrier(3)

    class Provider(BaseProvider):
        touch = Command("touch")

        def get(self, _context: Any) -> list[dict[str, Any]]:
            return []

        def set(self, _context: Any, changes: Mapping[str, Any], noop: bool) -> None:  # noqa: FBT001 - the contract's
            both.wait(5)
            if noop:
                thread = threading.Thread(target=lambda: [self.touch(tmp_path / name) for name in changes])
                thread.start()
                thread.join()
            both.wait(5)

    attributes = {name: _ATTRIBUTES[name] for name in ("ensure", "name")}
    features = {"parallel", "noop_handler"}
    registry = registry_of((TypeDefinition(name="it", docs="One.", attributes=attributes, features=features), Provider))
    resources = {"It[first]": {"noop": True}, "It[second]": {}, "It[third]": {}}
    Runtime(registry, state=MemoryStore()).apply({"project": PROJECT, "resources": resources}, parallel=3)
    assert (both.broken, list(tmp_path.iterdir())) == (False, [])


@pytest.fixture
def no_more_threads() -> Iterator[Callable[[], None]]:
    """Return a function after which this process cannot start another thread: its stack would be too large."""
    before = threading.stack_size()

    def exhaust() -> None:
        threading.stack_size(1 << 45)

    yield exhaust
    threading.stack_size(before)


def test_calls_share_threads_if_no_more_can_be_started(no_more_threads: Callable[[], None]) -> None:
    """A limit of the machine makes a run slower, not wrong."""
    side = Side()

    def change(kind: str, name: str, should: Mapping[str, Any], context: Any) -> None:
        no_more_threads()
        Side.change(side, kind, name, should, context)

    side.change = change  # type: ignore[method-assign]
    resources = {"Narrow[first]": {}} | {f"Wide[{number}]": {"require": "Narrow[first]"} for number in range(8)}
    assert side.apply(resources, parallel=4).summary.created == 9


def test_a_run_ends_with_an_error_if_no_thread_can_be_started(no_more_threads: Callable[[], None]) -> None:
    """Nothing waits for a call that is never made."""
    side = Side()
    no_more_threads()
    with pytest.raises(RuntimeError, match="thread"):
        side.apply({"Wide[a]": {}}, parallel=2)
    assert not side.calls


def _busy(thread: threading.Thread) -> bool:
    thread.join(2)
    return thread.is_alive()


def test_the_first_parallel_run_names_resources_that_lose_their_order() -> None:
    """Neighbours of different types without a relationship are named once for a stack, at info."""
    resources: dict[str, Any] = {"Wide[a]": {}, "Narrow[b]": {}, "Whole[c]": {"require": "Narrow[b]"}}
    side = Side(level="info")
    side.apply(resources, parallel=2)
    lines = [line for line in side.lines if "without a relationship" in line]
    expected = "stands after Wide[a] without a relationship; with --parallel either may come first"
    assert lines == [f"Info: Narrow[b]: {expected}"]
    side.things["narrow"].clear()
    side.things["wide"].clear()
    side.lines.clear()
    side.apply(resources, parallel=2)
    assert not [line for line in side.lines if "without a relationship" in line]


def test_many_neighbours_are_counted() -> None:
    """Twenty are named, the others are counted."""
    side = Side(level="info")
    side.apply({f"{kind}[{n}]": {} for n in range(15) for kind in ("Wide", "Narrow")}, parallel=2)
    lines = [line for line in side.lines if "without a relationship" in line]
    assert len(lines) == 21
    assert lines[-1] == "Info: 9 more resources stand after one of another type without a relationship"


@pytest.mark.parametrize("shape", ["chain", "fan", "free"])
def test_the_cost_of_the_schedule_is_linear(shape: str) -> None:
    """Four times the resources are at most about four times the calls of functions."""

    def work(count: int) -> int:
        side = Side()
        needs = {"chain": lambda n: f"Narrow[{n - 1}]" if n else [], "fan": lambda n: "Narrow[0]" if n else []}
        resources = {f"Narrow[{n}]": {"size": n, "require": needs.get(shape, lambda _n: [])(n)} for n in range(count)}
        side.apply(resources, parallel=2)
        plan = side.runtime.plan({"project": PROJECT, "resources": {k: v | {"size": -1} for k, v in resources.items()}})
        from resource_api.transaction.parallel import Schedule

        looked = 0

        def count_lines(_frame: Any, event: str, _argument: Any) -> Any:
            nonlocal looked
            looked += event == "line"
            return count_lines

        import sys

        before = sys.gettrace()
        sys.settrace(count_lines)
        try:
            schedule = Schedule(plan)
            while schedule.open:
                schedule.end(schedule.take())
        finally:
            sys.settrace(before)
        return looked

    assert work(400) < 4.5 * work(100)
