"""The laws of ``retry`` for any failures: as many calls as are needed, and never more than declared."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lifecycle.world import Bench, acted

NAMES = "abcde"


class Failures(dict[tuple[str, str], str]):
    """The failures that changes meet, each only so many times."""

    def __init__(self, how: str, counts: dict[str, int]) -> None:
        """Let changes of things fail in one way."""
        super().__init__()
        self.how = how
        self.counts = dict(counts)

    def get(self, key: tuple[str, str], default: Any = None) -> Any:
        """Return the failure of the next change of a name, if any is left."""
        remaining = self.counts.get(key[1], 0)
        self.counts[key[1]] = remaining - 1
        return self.how if remaining > 0 else default


@settings(max_examples=80, deadline=None)
@given(
    tries=st.dictionaries(st.sampled_from(NAMES), st.integers(1, 4), min_size=1),
    counts=st.dictionaries(st.sampled_from(NAMES), st.integers(0, 5)),
    chained=st.sets(st.sampled_from(NAMES)),
    how=st.sampled_from(["raise", "fail", "half"]),
    parallel=st.sampled_from([1, 3]),
)
def test_each_name_is_tried_until_it_succeeds_or_has_no_try_left(
    *, tries: dict[str, int], counts: dict[str, int], chained: set[str], how: str, parallel: int
) -> None:
    """Alone, whatever its neighbours do; what requires it begins when it has succeeded, and not at all if it fails."""
    bench = Bench()
    names = sorted(tries)
    site: dict[str, Any] = {}
    for before, name in zip(["", *names], names, strict=False):
        site[f"Thing[{name}]"] = {"size": 1, "retry": {"tries": tries[name]}}
        if before and name in chained:
            site[f"Thing[{name}]"]["require"] = f"Thing[{before}]"
    bench.world.trouble = Failures(how, counts)
    report = bench.apply(site, parallel=parallel)
    ends, succeeded = acted(report), {}
    for before, name in zip(["", *names], names, strict=False):
        required = name not in chained or not before or succeeded[before]
        succeeded[name] = required and counts.get(name, 0) < tries[name]
        called = sum(1 for _, _, changed in bench.world.calls if changed == name)
        assert called == (min(counts.get(name, 0) + 1, tries[name]) if required else 0)
        status = "success" if succeeded[name] else "failed" if required else "skipped"
        assert ends[f"Thing[{name}]"][1] == status
    assert report.exit_code == (0 if all(succeeded.values()) else 1)
    errors = [line for line in bench.lines if line.startswith("err:")]
    assert len(errors) == sum(1 for _, status in ends.values() if status == "failed")
    warned = [line for line in bench.lines if ": try " in line]
    assert len(warned) == sum(
        min(counts.get(name, 0), tries[name] - 1) for name in names if ends[f"Thing[{name}]"][1] != "skipped"
    )


@settings(max_examples=40, deadline=None)
@given(
    failing=st.sets(st.sampled_from(NAMES)),
    handled=st.sets(st.sampled_from(NAMES), min_size=1),
    parallel=st.sampled_from([1, 3]),
    fail_fast=st.booleans(),
)
def test_a_handler_is_carried_out_exactly_if_one_of_its_failures_has_come(
    *, failing: set[str], handled: set[str], parallel: int, fail_fast: bool
) -> None:
    """With and without ``--fail-fast``, in order and side by side; otherwise the run is as without it."""
    site: dict[str, Any] = {f"Thing[{name}]": {"size": 1} for name in NAMES}
    site["Engine[rescue]"] = {"size": 1, "on_failure": [f"Thing[{name}]" for name in sorted(handled)]}
    bench, plain = Bench(), Bench()
    for item in (bench, plain):
        item.world.trouble = {("thing", name): "fail" for name in failing}
    plan = bench.plan(site)
    assert len(plan.steps) == len(NAMES)
    assert [list(names) for _, names in plan.failure_sources()] == [[f"Thing[{name}]" for name in sorted(handled)]]
    ends = acted(bench.apply(site, parallel=parallel, fail_fast=fail_fast))
    failed = {name for name in NAMES if ends[f"Thing[{name}]"][1] == "failed"}
    assert ("Engine[rescue]" in ends) == bool(failed & handled)
    assert bool(bench.world.things["engine"]) == bool(failed & handled)
    without = {name: body for name, body in site.items() if name != "Engine[rescue]"}
    expected = acted(plain.apply(without, parallel=parallel, fail_fast=fail_fast))
    assert {name: end for name, end in ends.items() if name != "Engine[rescue]"} == expected
