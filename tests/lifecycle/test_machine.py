"""Random manifests, worlds and failing, lying or killed providers: no run violates the invariants."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from resource_api.model.record import NO_LIFECYCLE
from resource_api.model.values.errors import ResourceError
from resource_api.runtime.state_refresh import refresh
from tests.lifecycle.world import Bench, Kill, acted, manifest, planned

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api.model.record import Record

KEYS = [
    ("setting", "s"),
    ("thing", "tool"),
    ("thing", "a"),
    ("engine", "e"),
    ("thing", "b"),
    ("gadget", "g"),
    ("thing", "c"),
    ("job", "j"),
    ("engine", "f"),
    ("thing", "d"),
]
THINGS = [key for key in KEYS if key[0] == "thing"]
ENSURABLE = [key for key in KEYS if key[0] in {"thing", "engine", "gadget"}]
LIFECYCLES: list[dict[str, Any]] = [
    {},
    {"protect": True},
    {"protect": False},
    {"retain": True},
    {"owned": True},
    {"owned": False},
    {"ignore_changes": ["size"]},
    {"replace": "delete_first"},
    {"replace": "delete_first", "replace_on_changes": ["size"]},
    {"replace": "never"},
    {"replace": "create_first"},
]
Key = tuple[str, str]


class Wanted(NamedTuple):
    """One declaration; relationships to undeclared resources are omitted when it is written."""

    title: str
    values: dict[str, Any]
    requires: frozenset[Key] = frozenset()
    notifies: frozenset[Key] = frozenset()
    colour_of: Key | None = None
    #: What it is made from, and which of its values says so.
    image_of: Key | None = None
    image_by: str = "name"
    lifecycle: dict[str, Any] = {}  # noqa: RUF012 - never changed
    triggered_by: Key | None = None
    deleted_with: Key | None = None


class Lifecycle(RuleBasedStateMachine):
    """A user who changes the manifest, a world that drifts, and runs of every kind."""

    def __init__(self) -> None:
        """Start with an empty manifest, world and state."""
        super().__init__()
        self.bench = Bench()
        self.site: dict[Key, Wanted] = {}
        self.turned = False

    # The manifest

    @rule(key=st.sampled_from(KEYS), size=st.sampled_from([None, 1, 2]), absent=st.integers(0, 7))
    def declare(self, key: Key, size: int | None, absent: int) -> None:
        """Declare a resource, or change its declared values."""
        values: dict[str, Any] = {} if size is None else {"value" if key[0] == "setting" else "size": size}
        if absent == 0 and key in ENSURABLE:
            values["ensure"] = "absent"
        before = self.site.get(key, Wanted(self._free(key[0], key[1]), {}))
        self.site[key] = before._replace(values=values)

    @rule(key=st.sampled_from(THINGS), image=st.sampled_from(["x", "y"]))
    def fix(self, key: Key, image: str) -> None:
        """Declare an ``init_only`` value of a thing."""
        if key in self.site:
            self.site[key] = self.site[key]._replace(values={**self.site[key].values, "image": image})

    @rule(key=st.sampled_from(THINGS), word=st.sampled_from(["secret1", "secret2"]))
    def lock_up(self, key: Key, word: str) -> None:
        """Declare a password of a thing."""
        if key in self.site:
            self.site[key] = self.site[key]._replace(values={**self.site[key].values, "password": word})

    @rule(key=st.sampled_from(KEYS))
    def undeclare(self, key: Key) -> None:
        """Remove a declaration."""
        self.site.pop(key, None)

    @rule(key=st.sampled_from(KEYS), title=st.sampled_from(["new", ""]))
    def retitle(self, key: Key, title: str) -> None:
        """Rename a resource, or restore its first title."""
        if key in self.site:
            self.site[key] = self.site[key]._replace(title=self._free(key[0], f"{title}{key[1]}"))

    @rule(key=st.sampled_from(ENSURABLE), second=st.sampled_from(ENSURABLE))
    def rename(self, key: Key, second: Key) -> None:
        """Change the name of a declaration, so that its title means another resource."""
        if key in self.site and second not in self.site and key[0] == second[0]:
            self.site[second] = self.site.pop(key)

    def _free(self, kind: str, title: str) -> str:
        while title in {expected.title for key, expected in self.site.items() if key[0] == kind}:
            title += "+"
        return title

    @rule(key=st.sampled_from(KEYS), lifecycle=st.sampled_from(LIFECYCLES))
    def live(self, key: Key, lifecycle: dict[str, Any]) -> None:
        """Declare the lifecycle of a resource."""
        names = {"ignore_changes", "replace_on_changes"} & lifecycle.keys()
        if key in self.site and not (names and key[0] in {"setting", "job"}):
            self.site[key] = self.site[key]._replace(lifecycle=lifecycle)

    @rule(data=st.data(), how=st.sampled_from(["requires", "notifies", "colour_of", "triggered_by", "deleted_with"]))
    @precondition(lambda self: len(self.site) > 1)
    def relate(self, data: st.DataObject, how: str) -> None:
        """Make a resource depend on another that precedes it in the present order."""
        names = sorted(self.site, key=KEYS.index, reverse=self.turned)
        later = data.draw(st.integers(1, len(names) - 1))
        first, then = names[data.draw(st.integers(0, later - 1))], names[later]
        expected = self.site[first if how == "notifies" else then]
        if how == "colour_of":
            if first[0] == then[0] == "thing":
                self.site[then] = expected._replace(colour_of=first)
        elif how in {"triggered_by", "deleted_with"}:
            self.site[then] = expected._replace(**{how: first})
        elif how == "notifies":
            self.site[first] = expected._replace(notifies=expected.notifies | {then})
        else:
            self.site[then] = expected._replace(requires=expected.requires | {first})

    @rule(data=st.data(), value=st.sampled_from(["name", "serial"]))
    @precondition(lambda self: len(self.site.keys() & set(THINGS)) > 1)
    def make_from(self, data: st.DataObject, value: str) -> None:
        """Make an ``init_only`` value of a thing refer to another that precedes it."""
        names = sorted(self.site.keys() & set(THINGS), key=KEYS.index, reverse=self.turned)
        later = data.draw(st.integers(1, len(names) - 1))
        first = names[data.draw(st.integers(0, later - 1))]
        self.site[names[later]] = self.site[names[later]]._replace(image_of=first, image_by=value)

    @rule()
    def turn(self) -> None:
        """Remove all dependencies, and reverse the order of later ones."""
        self.turned = not self.turned
        for key, expected in self.site.items():
            self.site[key] = Wanted(expected.title, expected.values, lifecycle=expected.lifecycle)

    def resources(self) -> dict[str, Any]:
        """Return the manifest's resources."""
        written: dict[str, Any] = {}
        for key, expected in self.site.items():
            values = dict(expected.values)
            lifecycle = dict(expected.lifecycle)
            if requires := self._references(expected.requires):
                values["require"] = requires
            if notifies := self._references(expected.notifies):
                values["notify"] = notifies
            if expected.colour_of in self.site and self.site[expected.colour_of].values.get("ensure") != "absent":
                values["colour"] = "${" + self.reference(expected.colour_of) + ".serial}"
            if expected.image_of in self.site and self.site[expected.image_of].values.get("ensure") != "absent":
                values["image"] = "${" + f"{self.reference(expected.image_of)}.{expected.image_by}" + "}"
            if expected.triggered_by in self.site:
                lifecycle["replace_triggered_by"] = [self.reference(expected.triggered_by)]
            if expected.deleted_with in self.site:
                lifecycle["deleted_with"] = self.reference(expected.deleted_with)
            if lifecycle:
                values["lifecycle"] = lifecycle
            if expected.title != key[1]:
                values["name"] = key[1]
            written[self.reference(key)] = values
        return written

    def reference(self, key: Key) -> str:
        """Return the reference of a resource in the manifest."""
        return f"{key[0].capitalize()}[{self.site[key].title}]"

    def _references(self, keys: frozenset[Key]) -> list[str]:
        return [self.reference(key) for key in sorted(keys) if key in self.site]

    # The world

    @rule(key=st.sampled_from([key for key in KEYS if key[0] != "job"]), how=st.integers(0, 2))
    def drift(self, key: Key, how: int) -> None:
        """Change a resource outside of the program."""
        rows = self.bench.world.things[key[0]]
        if how == 0:
            rows.pop(key[1], None)
        else:
            rows[key[1]] = {**rows.get(key[1], {}), "value" if key[0] == "setting" else "size": how + 7}

    @rule(
        key=st.sampled_from(KEYS),
        subject=st.sampled_from(["fail", "raise", "lie", "half", "unmade", "crash", "kill", "late", ""]),
    )
    def trouble(self, key: Key, subject: str) -> None:
        """Make changes of a resource fail from now on."""
        self.bench.world.trouble[key] = subject

    @rule(kind=st.sampled_from(["thing", "engine", "setting"]))
    def hide(self, kind: str) -> None:
        """Make a type unreadable from now on, or readable again."""
        self.bench.world.unreadable ^= {kind}

    @rule()
    def calm(self) -> None:
        """Remove all failures."""
        self.bench.world.trouble.clear()
        self.bench.world.unreadable.clear()

    # Runs

    def _run(self, verb: str, **options: Any) -> Any:
        """Run and return the report, or None if the run was killed."""
        try:
            return getattr(self.bench, verb)(self.resources(), **options)
        except Kill:
            self.bench.revive()
            return None

    @rule(prune=st.booleans(), fail_fast=st.booleans(), parallel=st.sampled_from([1, 3]))
    def apply(self, prune: bool, fail_fast: bool, parallel: int) -> None:  # noqa: FBT001 - drawn by name
        """Apply everything."""
        report = self._run("apply", prune=prune, fail_fast=fail_fast, parallel=parallel)
        if report is not None:
            self._check_converged(report)

    @rule(data=st.data(), how=st.sampled_from(["targets", "excludes", "replace"]), wide=st.booleans())
    @precondition(lambda self: self.site)
    def apply_some(self, data: st.DataObject, how: str, wide: bool) -> None:  # noqa: FBT001 - drawn by name
        """Apply targets, exclude some, or replace some."""
        key = data.draw(st.sampled_from(sorted(self.site)))
        before = self.bench.state.records
        report = self._run("apply", **{how: (self.reference(key),)}, with_dependents=wide and how == "targets")
        if report is not None and how == "targets" and not wide:
            rest = {k: r for k, r in before.items() if k != key}
            entries = {k: r for k, r in self.bench.state.records.items() if k != key}
            if self.reference(key) in {str(record.reference) for record in rest.values()}:
                # References are unique: the target takes that of another record, which gets a title of its own.
                rest, entries = map(_without_names, (rest, entries))
            assert entries == rest

    @rule(prune=st.booleans())
    def with_recovery(self, prune: bool) -> None:  # noqa: FBT001 - drawn by name
        """Check that a noop run lists what a run without failures does."""
        self.calm()
        plan = self.bench.plan(self.resources(), prune=prune)
        messages = self.bench.apply(self.resources(), noop=True, prune=prune)
        report = self.bench.apply(self.resources(), prune=prune)
        before, after = acted(messages), acted(report)
        vague = {str(step.reference) for step in plan.steps if step.unknown or step.deferred}
        titles = [str(step.reference) for step in plan.steps]
        vague |= {title for title in titles if titles.count(title) > 1}
        for reference, action in planned(plan).items():
            assert reference in vague or before[reference][0] == action or before[reference][1] != "noop"
        for reference, (action, status) in after.items():
            if reference not in vague and status == "success":
                assert before.get(reference, ("",))[0] == action, (reference, before, after)
        for reference, (action, status) in before.items():
            if reference not in vague and status == "noop" and after.get(reference, ("", ""))[1] != "skipped":
                assert reference in after, (reference, before, after)
                assert after[reference][0] == action or action == "refresh"
        self._check_converged(report)

    def _check_converged(self, report: Any) -> None:
        """Plan again: only failed steps are left."""
        again = self.bench.plan(self.resources())
        bad = {item.reference for item in report.steps if item.status in {"failed", "skipped"}}
        moving = planned(again)
        for step in again.steps:
            reference = str(step.reference)
            if reference in bad or step.entry.type == "job" or step.decision.error or step.deferred:
                continue
            expected = self.site.get((step.entry.type, step.entry.name))
            assert expected is not None, f"{reference} is not declared and has not gone"
            rest = (expected.colour_of, expected.image_of, expected.triggered_by, expected.deleted_with)
            sources = {self.reference(k) for k in rest if k in self.site}
            if not sources & moving.keys() and not set(step.refreshed_by) & moving.keys():
                assert reference not in moving, f"{reference} has not converged: {moving[reference]} {step.decision}"

    @rule(parallel=st.sampled_from([1, 3]))
    def destroy(self, parallel: int) -> None:
        """Destroy everything; what is left was not ours, or could not be deleted."""
        ours = {k for k, r in self.bench.state.records.items() if r.owned and not r.lifecycle.retain}
        ours |= {key for key, intent in self.bench.state.intents.items() if intent.makes}
        before = self.bench.world.copy()
        report = self._run("destroy", parallel=parallel)
        if report is None:
            return
        for kind, rows in before.items():
            for name in rows:
                gone = name not in self.bench.world.things[kind]
                assert not gone or (kind, name) in ours, f"{kind} {name} was not ours"
        if not report.exit_code:
            assert not self.bench.state.records

    @rule()
    def refresh(self) -> None:
        """Refresh the state."""
        try:
            refresh(self.bench.runtime, manifest(self.resources()))
        except ResourceError:
            return
        for key, record in self.bench.state.records.items():
            if key[0] != "job":
                assert (self.bench.world.row(key) is None) == (record.is_ is None)

    @rule(key=st.sampled_from(KEYS), how=st.sampled_from(["forget", "taint"]))
    def forget_or_taint(self, key: Key, how: str) -> None:
        """Edit the state.

        The key is drawn from all: which records a killed parallel run leaves depends on its threads, and what is drawn
        must not (hypothesis raises ``FlakyStrategyDefinition``).
        """
        if key in self.bench.state.records:
            self.bench.mend(key, how)

    @rule(fuse=st.integers(0, 4), prune=st.booleans(), parallel=st.sampled_from([1, 3]))
    def killed(self, fuse: int, prune: bool, parallel: int) -> None:  # noqa: FBT001 - drawn by name
        """Kill a run at a write; the next run converges without help."""
        self.calm()
        self.bench.store.fuse = fuse
        report = self._run("apply", prune=prune, parallel=parallel)
        if report is None:
            report = self._run("apply", prune=prune)
            assert report is not None
            self._check_converged(report)
        self.bench.store.fuse = -1


def _without_names(records: Mapping[Any, Record]) -> dict[Any, Record]:
    """Return records without what titles are part of."""
    nameless = {"title": "", "requires": (), "value_requires": {}, "lifecycle": NO_LIFECYCLE}
    return {key: record._replace(**nameless) for key, record in records.items()}


Lifecycle.TestCase.settings = settings(
    stateful_step_count=30,
    deadline=None,
    print_blob=True,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
TestLifecycle = Lifecycle.TestCase


class Unsteady(RuleBasedStateMachine):
    """The rules that look at records, in runs that leave other records each time, as a killed parallel run may."""

    def __init__(self) -> None:
        """Start with a bench without records."""
        super().__init__()
        self.bench = Bench()

    @rule()
    def apply(self) -> None:
        """Apply some of the resources, by chance."""
        keys = [key for key in ENSURABLE if os.urandom(1)[0] % 2]
        self.bench.apply({f"{kind.capitalize()}[{name}]": {} for kind, name in keys})

    forget_or_taint = Lifecycle.forget_or_taint


def test_the_schedule_of_threads_decides_nothing_that_is_drawn() -> None:
    """Hypothesis may repeat a prefix of any example, and must draw the same after it."""
    run_state_machine_as_test(Unsteady, settings=settings(stateful_step_count=4, deadline=None, database=None))
