"""The queues of a real daemon: the laws of providers, and the runs of a user."""

from __future__ import annotations

from pathlib import Path

import pytest

from resource_api import Registry, Runtime
from resource_api.testing import ProviderCompliance

HOME = Path(__file__).resolve().parents[1]


class TestQueue(ProviderCompliance):
    """The laws, for queues of a daemon that runs."""

    type_name = "queue"
    module_path = (HOME,)
    listing_size = 30
    slowest_get = 0.5

    @pytest.fixture
    def config(self, queued):
        return queued.config

    @pytest.fixture
    def present(self):
        return {"name": "ra-test-a", "discipline": "lifo", "limit": 50, "pause": "5m", "consumers": ["b", "a"]}

    @pytest.fixture
    def updated(self, present):
        return {**present, "limit": 60, "consumers": ["a", "b", "c"]}

    @pytest.fixture
    def world(self, queued):
        return queued.file.read_text

    @pytest.fixture
    def neighbours(self):
        return "only the daemon's administrator writes its configuration file"


@pytest.fixture
def runtime(tmp_path):
    """Return a runtime with a state of its own."""
    return Runtime(Registry.from_path(HOME), state=f"sqlite:{tmp_path}/state.db")


@pytest.fixture
def manifest(queued):
    """Return a manifest that declares queues of the daemon."""

    def build(**resources):
        return {
            "project": "queues",
            "providers": {"queue": {"config": queued.config}},
            "resources": {f"Queue[{name}]": declared for name, declared in resources.items()},
        }

    return build


def actions(report):
    """Return the actions of a run, by reference."""
    return {step.reference: (str(step.action), step.status) for step in report.steps}


def test_a_queue_is_created_kept_corrected_and_deleted(queued, runtime, manifest):
    """The daemon has the declared queues after each run, a change by hand is drift, and noop changes nothing."""
    declared = manifest(mail={"limit": 500, "pause": "5m", "consumers": ["postfix"]})
    before = queued.file.read_text()
    assert runtime.apply(declared, noop=True).summary.created == 1
    assert queued.file.read_text() == before
    assert runtime.apply(declared).summary.created == 1
    mail = {"discipline": "fifo", "limit": 500, "pause": 300, "consumers": ["postfix"], "depth": 0}
    assert queued.request("status")["mail"] == mail
    assert queued.file.read_text().startswith(before)
    reloads = queued.request("reload")["reloads"]
    assert runtime.apply(declared).summary.changed == 0
    assert queued.request("reload")["reloads"] == reloads + 1

    queued.file.write_text(queued.file.read_text().replace("limit = 500", "limit = 9"))
    queued.request("reload")
    plan = runtime.plan(declared)
    [drift] = plan.drift
    assert (drift.reference, [change.attribute for change in drift.changes]) == ("Queue[mail]", ["limit"])
    assert runtime.apply(declared).summary.updated == 1
    assert queued.request("status")["mail"] == mail

    assert runtime.apply(manifest(mail={"ensure": "absent"})).summary.deleted == 1
    assert queued.file.read_text() == before
    assert list(queued.request("status")) == ["manual"]


def test_other_consumers_stay(queued, runtime, manifest):
    """Consumers that the manifest does not mention are no difference, and an update keeps them."""
    runtime.apply(manifest(shared={"consumers": ["one", "two"]}))
    assert runtime.apply(manifest(shared={"consumers": ["two"]})).summary.changed == 0
    assert runtime.apply(manifest(shared={"consumers": ["three"]})).summary.updated == 1
    assert queued.request("status")["shared"]["consumers"] == ["one", "three", "two"]
    assert runtime.apply(manifest(shared={"consumers": []})).summary.updated == 1
    assert queued.request("status")["shared"]["consumers"] == []
    runtime.apply(manifest(shared={"ensure": "absent"}))


def test_a_queue_with_messages_is_deleted_only_with_purge(queued, runtime, manifest):
    """The daemon refuses; its reason is reported, the file stays as it was, and other queues are not affected."""
    runtime.apply(manifest(full={"limit": 3}))
    queued.request("put", queue="full", message="hello")
    before = queued.file.read_text()
    report = runtime.apply(manifest(full={"ensure": "absent"}, other={"limit": 7}))
    [failed] = [step for step in report.steps if step.status == "failed"]
    assert failed.error.startswith("queued refuses to reload: queue full has 1 messages")
    assert queued.file.read_text() == f"{before}\n[queue other]\ndiscipline = fifo\nlimit = 7\n"
    report = runtime.apply(manifest(full={"ensure": "absent", "purge": True}, other={"ensure": "absent"}))
    assert report.summary.deleted == 2


def test_the_discipline_cannot_change(queued, runtime, manifest):
    """A change of it is an error, until the manifest requests a replacement."""
    runtime.apply(manifest(stack={"discipline": "lifo"}))
    report = runtime.apply(manifest(stack={"discipline": "fifo"}))
    assert report.exit_code == 1
    replaced = runtime.apply(manifest(stack={"discipline": "fifo", "lifecycle": {"replace": "delete_first"}}))
    assert replaced.summary.replaced == 1
    assert queued.request("status")["stack"]["discipline"] == "fifo"
    runtime.apply(manifest(stack={"ensure": "absent"}))


def test_a_listing_is_a_manifest_that_changes_nothing(queued, runtime, manifest, monkeypatch):
    """The output of ``resource queue`` can be applied: there is nothing to do."""
    runtime.apply(manifest(a={"limit": 1}, b={"pause": "1h"}))
    for name, value in queued.config.items():
        monkeypatch.setenv(f"QUEUED_{name.upper()}", value)
    listed = {row.pop("name"): row for row in runtime.resources("queue")}
    assert set(listed) == {"manual", "a", "b"}
    for row in listed.values():
        del row["depth"]
    again = runtime.apply(manifest(**listed))
    assert (again.exit_code, again.summary.changed) == (0, 0)
    runtime.apply(manifest(a={"ensure": "absent"}, b={"ensure": "absent"}))


def test_a_daemon_that_does_not_answer_is_no_empty_daemon(tmp_path, runtime):
    """Nothing is planned as a creation; the error says that it does not answer."""
    config = {"file": str(tmp_path / "queued.conf"), "socket": str(tmp_path / "queued.sock")}
    declared = {"project": "queues", "providers": {"queue": {"config": config}}, "resources": {"Queue[a]": {}}}
    report = runtime.apply(declared)
    assert report.exit_code == 1
    assert "queued does not answer" in report.steps[0].error


def test_a_notified_queue_is_reloaded(queued, runtime, manifest):
    """``notify`` leads to one more reload; queues can be refreshed."""
    declared = manifest(first={}, second={"subscribe": "Queue[first]"})
    runtime.apply(manifest(second={}))
    reloads = queued.request("reload")["reloads"]
    report = runtime.apply(declared)
    assert report.summary.refreshed == 1
    assert queued.request("reload")["reloads"] == reloads + 3
    runtime.apply(manifest(first={"ensure": "absent"}, second={"ensure": "absent"}))


def test_the_manifest_of_the_example_applies(queued, runtime):
    """``site.yaml`` creates its queues, and then changes nothing."""
    inputs = {"directory": str(queued.file.parent)}
    assert runtime.apply(HOME / "site.yaml", inputs).summary.created == 2
    assert runtime.apply(HOME / "site.yaml", inputs).summary.changed == 0
    assert runtime.destroy(HOME / "site.yaml", inputs).summary.deleted == 2
