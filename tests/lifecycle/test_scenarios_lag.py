"""A world that shows a change late: nothing is disowned, created twice or left behind."""

from __future__ import annotations

import time
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from resource_api import Attribute, BaseProvider, Runtime, TypeDefinition
from resource_api.model.report import StepEnd
from resource_api.render import json as documents
from resource_api.state.store import StackName
from resource_api.system.log import ForwardedLog
from tests.lifecycle.world import Kill, MortalStore, acted
from tests.registries import registry_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from resource_api.model.report import Event

_ATTRIBUTES = {
    "name": Attribute("String", kind="namevar"),
    "ensure": Attribute("Enum[present, absent]", default="present"),
    "size": Attribute("Optional[Integer]"),
}


class Cloud:
    """Buckets that can be seen some time after they were changed; its clock is that of the machine."""

    def __init__(self, lag: float = 0.0, settle: float = 5.0) -> None:
        """Start without buckets; ``lag`` in seconds."""
        self.lag, self.settle = lag, settle
        self.buckets: dict[str, dict[str, Any]] = {}
        #: What there was at which time, the newest last.
        self.history: list[tuple[float, dict[str, dict[str, Any]]]] = [(float("-inf"), {})]
        self.calls: list[tuple[str, str]] = []
        self.reads = 0
        self.failing_reads = 0
        self.fuse: int | None = None
        self.trouble: dict[str, str] = {}
        self.store = MortalStore()
        self.lines: list[str] = []
        self.events: list[Event] = []
        self.runtime = self._runtime()

    def _runtime(self) -> Runtime:
        log = ForwardedLog("notice", lambda line: self.lines.append(f"{line.level}: {line.subject}: {line.text}"))
        definition = TypeDefinition(
            name="bucket", attributes=_ATTRIBUTES, features={"simple_get_filter"}, settle=self.settle
        )
        registry = registry_of((definition, self._provider()))
        return Runtime(registry, state=self.store, project="cloud", log=log, on_event=self.events.append)

    def _provider(self) -> type[BaseProvider]:
        cloud = self

        class Provider(BaseProvider):
            def get(self, _context: Any, names: Collection[str] | None = None) -> list[dict[str, Any]]:
                return cloud.read(names)

            def set(self, context: Any, changes: Mapping[str, Any]) -> None:
                for name, (is_, should) in changes.items():
                    verb = "delete" if should["ensure"] == "absent" else "update" if is_ else "create"
                    with getattr(context, {"create": "creating", "update": "updating", "delete": "deleting"}[verb])(
                        name
                    ):
                        cloud.call(verb, name, dict(should), context)

        return Provider

    def read(self, names: Collection[str] | None) -> list[dict[str, Any]]:
        """Return the buckets as they are seen now."""
        self.reads += 1
        self._burn()
        if self.failing_reads and self.calls:
            self.failing_reads -= 1
            raise RuntimeError("503")
        observed = next(buckets for at, buckets in reversed(self.history) if at <= time.monotonic() - self.lag)
        return [{"name": name, **observed[name]} for name in (observed if names is None else names) if name in observed]

    def call(self, verb: str, name: str, should: dict[str, Any], context: Any) -> None:
        """Change a bucket; the API refuses to make one that exists already, and to change one that does not."""
        self._burn()
        if self.trouble.get(name) == "unmade" and verb == "create":
            raise RuntimeError("503")
        assert verb == "delete" or (name in self.buckets) == (verb == "update"), f"{verb} of {name}"
        self.calls.append((verb, name))
        if verb == "delete":
            self.buckets.pop(name, None)
        else:
            self.buckets[name] = {**self.buckets.get(name, {}), "size": should.get("size", 0)}
        if self.trouble.get(name) == "half":
            self.buckets[name]["size"] = -1
        self.history.append((time.monotonic(), deepcopy(self.buckets)))
        self._burn()
        if self.trouble.get(name) == "tainted":
            context.failed(name, message="broken", tainted=True)

    def _burn(self) -> None:
        """Be killed once as many events have happened as the fuse is long."""
        if self.fuse is not None:
            self.fuse -= 1
            if self.fuse < 0:
                self.store.dead = True
                raise Kill

    def wait(self) -> None:
        """Wait until all is seen as it is."""
        time.sleep(self.lag)

    def apply(self, resources: Mapping[str, Any], **options: Any) -> Any:
        """Apply buckets; lines, events and calls are those of this run."""
        self.lines.clear()
        self.events.clear()
        self.calls.clear()
        return self.runtime.apply({"resources": dict(resources)}, **options)

    def destroy(self) -> Any:
        """Destroy all that is recorded."""
        self.lines.clear()
        self.calls.clear()
        return self.runtime.destroy({"resources": {}})

    def revive(self) -> None:
        """Start a new process after a kill."""
        self.store.dead, self.store.fuse, self.fuse = False, -1, None
        self.runtime = self._runtime()

    @property
    def records(self) -> dict[str, tuple[str, bool]]:
        """Title → status and ownership, as recorded."""
        state = self.store.load(StackName("cloud", "default"))
        return {record.title: (record.status, record.owned) for record in state.records.values()}

    def ends(self) -> list[dict[str, Any]]:
        """Return the documents of the ended steps of the last run."""
        return [documents.step_end(event.report) for event in self.events if isinstance(event, StepEnd)]


SITE = {"Bucket[a]": {"size": 1}, "Bucket[b]": {"size": 2}}


def test_a_change_that_is_seen_late_has_succeeded() -> None:
    """A creation, an update and a deletion are waited for, and each is called once."""
    cloud = Cloud(lag=0.4)
    assert cloud.apply(SITE).exit_code == 0
    assert cloud.records == {"a": ("ready", True), "b": ("ready", True)}
    assert cloud.apply(SITE).summary.changed == 0
    assert cloud.apply({**SITE, "Bucket[a]": {"size": 9}}).summary.updated == 1
    assert cloud.apply({**SITE, "Bucket[a]": {"ensure": "absent"}}).summary.deleted == 1
    assert cloud.destroy().exit_code == 0
    assert (cloud.buckets, cloud.records) == ({}, {})


def test_no_success_is_said_before_it_is_seen() -> None:
    """The error stands in its place, and says what becomes of it."""
    cloud = Cloud(lag=5, settle=0.2)
    report = cloud.apply({"Bucket[a]": {}})
    assert (report.exit_code, report.summary.failed, report.summary.created) == (1, 1, 0)
    assert not any("uccessfully created" in line for line in cloud.lines)
    (end,) = cloud.ends()
    assert (end["status"], end["unconfirmed"]) == ("failed", True)
    assert end["error"].startswith("did not converge: ensure is absent, should be present; it was reported as created")


@pytest.mark.parametrize("settle", [0.0, 0.3])
def test_a_creation_that_was_not_seen_is_ours_once_it_is(settle: float) -> None:
    """The next run reads it, makes it ready, and does not create it again; destroy deletes it."""
    cloud = Cloud(lag=1.0, settle=settle)
    assert cloud.apply({"Bucket[a]": {"size": 1}}).exit_code == 1
    assert cloud.records == {"a": ("unconfirmed", True)}
    assert cloud.calls == [("create", "a")]
    cloud.wait()
    plan = cloud.runtime.plan({"resources": {"Bucket[a]": {"size": 1}}})
    assert (plan.summary.changed, list(plan.drift)) == (0, [])
    assert cloud.apply({"Bucket[a]": {"size": 1}}).exit_code == 0
    assert (cloud.records, cloud.calls) == ({"a": ("ready", True)}, [])
    cloud.lag = 0
    assert (cloud.destroy().exit_code, cloud.buckets, cloud.records) == (0, {}, {})


def test_the_next_run_waits_as_long_as_the_world_may_lag() -> None:
    """A name that an earlier run created counts as absent only after that time: it is not created twice."""
    cloud = Cloud(lag=0.6, settle=1.2)
    cloud.fuse = 2  # one read, and the call
    with pytest.raises(Kill):
        cloud.apply({"Bucket[a]": {"size": 1}})
    cloud.revive()
    assert list(cloud.buckets) == ["a"]
    assert cloud.apply({"Bucket[a]": {"size": 1}}).exit_code == 0
    assert (cloud.records, cloud.calls) == ({"a": ("ready", True)}, [])


def test_destroy_waits_for_what_a_killed_run_has_created() -> None:
    """What nobody has seen yet is deleted too."""
    cloud = Cloud(lag=0.6, settle=1.2)
    cloud.fuse = 2
    with pytest.raises(Kill):
        cloud.apply({"Bucket[a]": {}})
    cloud.revive()
    assert (cloud.destroy().exit_code, cloud.buckets, cloud.records) == (0, {}, {})


def test_a_creation_that_never_appears_is_forgotten_with_a_warning() -> None:
    """After the time that the world may lag it is absent for good."""
    cloud = Cloud(lag=3600, settle=0.3)
    cloud.apply({"Bucket[a]": {}})
    cloud.buckets.clear()
    report = cloud.destroy()
    assert (report.exit_code, cloud.records) == (0, {})
    assert cloud.lines == ["warning: Bucket[a]: forgotten: its creation was not confirmed, and it does not exist"]


def test_a_read_that_fails_meanwhile_is_repeated() -> None:
    """An API that is overloaded for a moment does not fail the resource."""
    cloud = Cloud(lag=0.1)
    cloud.failing_reads = 3
    assert cloud.apply(SITE).exit_code == 0


def test_other_values_than_before_and_than_asked_end_the_waiting() -> None:
    """They will not become what was asked."""
    cloud = Cloud(lag=0.1, settle=20)
    cloud.apply({"Bucket[a]": {"size": 1}})
    cloud.trouble = {"a": "half"}
    began = time.monotonic()
    report = cloud.apply({"Bucket[a]": {"size": 2}})
    assert (report.exit_code, cloud.records["a"]) == (1, ("partial", True))
    assert time.monotonic() - began < 10


def test_what_a_provider_calls_tainted_is_replaced_by_the_next_run() -> None:
    """Delete first; with ``replace: never`` or ``protect`` it fails, and says how to keep it."""
    cloud = Cloud()
    cloud.trouble = {"a": "tainted"}
    assert cloud.apply({"Bucket[a]": {"size": 1}}).exit_code == 1
    assert cloud.records == {"a": ("tainted", True)}
    cloud.trouble = {}
    for lifecycle, word in (({"replace": "never"}, "lifecycle.replace is never"), ({"protect": True}, "is protected")):
        (step,) = cloud.runtime.plan({"resources": {"Bucket[a]": {"size": 1, "lifecycle": lifecycle}}}).steps
        assert word in step.error
        assert step.error.endswith("state untaint 'Bucket[a]'")
    assert acted(cloud.apply({"Bucket[a]": {"size": 1}})) == {"Bucket[a]": ("replace", "success")}
    assert cloud.calls == [("delete", "a"), ("create", "a")]


def test_a_resource_that_was_deleted_for_its_replacement_is_not_waited_for() -> None:
    """Its deletion was seen, and the creation has failed: the next run makes it at once."""
    cloud = Cloud(settle=20)
    cloud.apply({"Bucket[a]": {"size": 1}})
    cloud.trouble = {"a": "unmade"}
    assert cloud.apply({"Bucket[a]": {"size": 1}}, replace=["Bucket[a]"]).exit_code == 1
    assert cloud.records == {"a": ("pending", True)}
    cloud.trouble, began = {}, time.monotonic()
    assert cloud.apply({"Bucket[a]": {"size": 1}}).exit_code == 0
    assert time.monotonic() - began < 10


def test_a_type_without_settle_is_read_once_after_a_change() -> None:
    """Nothing waits where nothing can lag."""
    cloud = Cloud(settle=0)
    cloud.apply(SITE)
    assert cloud.reads == 2


_RUNS: list[dict[str, Any]] = [
    SITE,
    {"Bucket[a]": {"size": 5}, "Bucket[b]": {"size": 2}},
    {"Bucket[a]": {"ensure": "absent"}, "Bucket[c]": {"size": 3}},
]


@pytest.mark.parametrize("fuse", range(24))
def test_a_kill_at_any_call_orphans_nothing_and_makes_nothing_twice(fuse: int) -> None:
    """Create, update, delete; the run that was killed is run again, and destroy leaves nothing."""
    cloud = Cloud(lag=0.05, settle=0.5)
    cloud.fuse = fuse
    for run in (*(partial(cloud.apply, site) for site in _RUNS), cloud.destroy):
        try:
            report = run()
        except Kill:
            cloud.revive()
            report = run()
        assert report.exit_code == 0
        assert all(owned for _, owned in cloud.records.values())
    assert (cloud.buckets, cloud.records) == ({}, {})
