"""The laws of every carrier, as a test class that an author inherits. Needs pytest.

What is carried is real: jobs that run on a host, whose provider does what the law is about. How a host is reached and
killed is each carrier's own.
"""

# ruff: noqa: S101, PLR2004 - a law is an assertion, and a number in it is the law itself

from __future__ import annotations

import time
from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from resource_api.fleet.carriers.carrier import Host
from resource_api.fleet.payload import Payloads
from resource_api.testing.carrier_examples import Trial, trial

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from contextlib import AbstractContextManager

    from resource_api.fleet.carriers.carrier import Carrier

#: Seconds within which every event of these laws comes, also on a machine with other work.
_PATIENCE: Final = 60.0
_THREE: Final[Mapping[str, Mapping[str, Any]]] = {"a": {}, "b": {}, "c": {}}
#: What a host may send that is no event, and why it is refused.
_LIES: Final = {
    "no frame": "RApi {\n",
    "no object": "RApi []\n",
    "an unknown kind": 'RApi {"kind":"job"}\n',
    "an unknown type": 'RApi {"kind":"event","document":{"type":"host_end"}}\n',
    "its own end": 'RApi {"kind":"event","document":{"type":"end","status":"ended","code":0}}\n',
    "no type": 'RApi {"kind":"event","document":{"type":["log"]}}\n',
    "no exit code": 'RApi {"kind":"end","code":true}\n',
    "an archive": 'RApi {"kind":"need","digests":"0"}\n',
    "no number": 'RApi {"kind":"event","document":{"type":"log","seconds":NaN}}\n',
    "too deep": "RApi " + "[" * 100_000 + "\n",
    "too long": "RApi " + "x" * (1 << 20) + "\n",
}


class CarrierCompliance:
    """The laws of every carrier; a subclass implements ``opened``, ``unreachable`` and ``kill``."""

    def opened(self, payloads: Payloads) -> AbstractContextManager[Carrier]:
        """Return a context manager with a new carrier of these archives."""
        raise NotImplementedError

    def host(self, name: str) -> Host:
        """Return a host that the carrier reaches."""
        return Host(name)

    def unreachable(self) -> Host:
        """Return a host called ``gone`` that nothing reaches."""
        raise NotImplementedError

    def kill(self, carrier: Carrier, name: str) -> None:
        """Kill the process of a job on a host."""
        raise NotImplementedError

    @pytest.fixture
    def trial(self, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Trial:
        """Return what jobs need; the archive of the package is made once for all tests."""
        return trial(tmp_path, tmp_path_factory.getbasetemp().parent / "payload")

    def events(self, carrier: Carrier, hosts: Iterable[str]) -> dict[str, list[Mapping[str, Any]]]:
        """Return the documents of each host up to its end; check that each has one, and none comes after it."""
        found: dict[str, list[Mapping[str, Any]]] = {name: [] for name in hosts}
        waiting, deadline = set(found), time.monotonic() + _PATIENCE
        while waiting:
            event = carrier.next_event(max(0.0, deadline - time.monotonic()))
            assert event is not None, f"nothing came of {waiting}"
            assert event.host in waiting, f"{event} after its end"
            found[event.host].append(event.document)
            if event.document["type"] == "end":
                waiting.discard(event.host)
        assert carrier.next_event(0) is None
        return found

    def run(self, trial: Trial, resources: Mapping[str, Mapping[str, Any]], **options: Any) -> list[Mapping[str, Any]]:
        """Return the documents of one job on one host."""
        with self.opened(trial.payloads) as carrier:
            carrier.start(self.host("web1"), trial.job(resources, **options))
            return self.events(carrier, ["web1"])["web1"]

    def test_events_keep_their_order_and_have_one_end(self, trial: Trial) -> None:
        """Each step begins before it ends, in the order of the manifest; ``hello`` is the first, ``end`` the last."""
        found = self.run(trial, _THREE)
        steps = [(each["type"], each["reference"]) for each in found if each["type"].startswith("step_")]
        assert [reference for kind, reference in steps if kind == "step_end"] == [
            f"Effect[{trial.place('web1')}/{name}]" for name in _THREE
        ]
        assert Counter(steps).most_common(1)[0][1] == 1
        assert found[0]["type"] == "hello"
        assert found[-2]["type"] == "summary"
        assert found[-1] == {"type": "end", "status": "ended", "code": 0, "error": None}

    def test_hosts_go_on_side_by_side(self, trial: Trial) -> None:
        """One that waits for another one ends, because that one ends meanwhile."""
        with self.opened(trial.payloads) as carrier:
            other = f"{trial.place('web2')}/a"
            carrier.start(self.host("web1"), trial.job({"a": {"wait": other}}))
            carrier.start(self.host("web2"), trial.job({"a": {}}, host="web2"))
            found = self.events(carrier, ["web1", "web2"])
        assert [found[name][-1]["code"] for name in found] == [0, 0]

    def test_nothing_is_lost_of_a_flood(self, trial: Trial) -> None:
        """Every line of a host that logs 10 MB comes, in its order, also where they are read late; others end first."""
        with self.opened(trial.payloads) as carrier:
            carrier.start(self.host("web1"), trial.job({"a": {"lines": 10_000}}))
            carrier.start(self.host("web2"), trial.job({"a": {}}, host="web2"))
            time.sleep(0.5)
            found = self.events(carrier, ["web1", "web2"])
        lines = [each["message"] for each in found["web1"] if each["type"] == "log"]
        logged = [line.split()[0] for line in lines if "xx" in line]
        assert logged == [str(number) for number in range(10_000)]
        assert [found[name][-1]["code"] for name in found] == [0, 0]

    @pytest.mark.parametrize("lie", _LIES)
    def test_what_is_no_event_ends_its_host(self, trial: Trial, lie: str) -> None:
        """In doubt, because the job was sent."""
        found = self.run(trial, {"a": {"raw": _LIES[lie]}})
        assert (found[-1]["status"], found[-1]["code"]) == ("lost", None)
        assert found[-1]["error"].startswith("it sent what is no event: ")

    def test_a_host_that_lies_fails_alone(self, trial: Trial) -> None:
        """Another one, which has its end later, ends well."""
        go = f"{trial.place('web2')}/go"
        with self.opened(trial.payloads) as carrier:
            carrier.start(self.host("web1"), trial.job({"a": {"raw": _LIES["no frame"]}}))
            carrier.start(self.host("web2"), trial.job({"a": {"wait": go}}, host="web2"))
            while (event := carrier.next_event(_PATIENCE)) is not None and event.document["type"] != "end":
                pass
            Path(go).touch()
            found = self.events(carrier, ["web2"])
        assert event is not None
        assert (event.host, event.document["status"]) == ("web1", "lost")
        assert found["web2"][-1]["code"] == 0

    def test_a_document_counts_for_the_host_that_sent_it(self, trial: Trial) -> None:
        """A document that names another host counts for the one on whose channel it came."""
        lie = 'RApi {"kind":"event","document":{"type":"log","host":"web2","message":"mine"}}\n'
        assert "mine" in [each.get("message") for each in self.run(trial, {"a": {"raw": lie}})]

    def test_lines_between_the_frames_are_passed_over(self, trial: Trial) -> None:
        """What programs of a login print is no event."""
        found = self.run(trial, {"a": {"raw": "Welcome to web1!\n"}})
        assert found[-1]["code"] == 0

    def test_an_interrupt_ends_the_run_after_its_segment(self, trial: Trial) -> None:
        """What is being done ends, the rest is skipped, and the events of both come, with the code of an interrupt."""
        go = f"{trial.place('web1')}/go"
        resources = {"a": {"wait": go}, "b": {"require": f"Effect[{trial.place('web1')}/a]"}}
        with self.opened(trial.payloads) as carrier:
            carrier.start(self.host("web1"), trial.job(resources))
            self.await_event(carrier, "step_start")
            carrier.interrupt("web1")
            self.await_event(carrier, "log")
            Path(go).touch()
            found = self.events(carrier, ["web1"])["web1"]
        assert found[-1] == {"type": "end", "status": "ended", "code": 130, "error": None}
        assert [each["status"] for each in found if each["type"] == "step_end"] == ["success", "skipped"]
        assert trial.effects("web1") == ["a present"]

    def test_an_abandoned_run_ends_by_itself(self, trial: Trial) -> None:
        """Its end comes at once, in doubt; all of it is done, once, and the next run finds it so."""
        go = f"{trial.place('web1')}/go"
        with self.opened(trial.payloads) as carrier:
            carrier.start(self.host("web1"), trial.job({"a": {"wait": go}, "b": {}}))
            self.await_event(carrier, "step_start")
            carrier.abandon("web1")
            found = self.events(carrier, ["web1"])["web1"]
            assert found[-1]["status"] == "lost"
        Path(go).touch()
        again = self.run(trial, {"a": {}, "b": {}}, generation=2, lock_timeout=_PATIENCE)
        assert again[-2]["unchanged"] == 2
        assert trial.effects("web1") == ["a present", "b present"]

    def test_a_host_that_cannot_be_reached_has_its_end(self, trial: Trial) -> None:
        """Nothing is raised; the end says why; another host is not concerned."""
        with self.opened(trial.payloads) as carrier:
            carrier.start(self.unreachable(), trial.job({"a": {}}, host="gone"))
            carrier.start(self.host("web1"), trial.job({"a": {}}))
            found = self.events(carrier, ["gone", "web1"])
        (only,) = found["gone"]
        assert (only["status"], only["code"]) == ("unreachable", None)
        assert only["error"]
        assert found["web1"][-1]["code"] == 0

    def test_a_wrong_manifest_is_refused(self, trial: Trial) -> None:
        """Nothing is done; the problems come with their places."""
        found = self.run(trial, {"a": {"colour": "red"}})
        assert (found[-1]["status"], found[-1]["code"]) == ("refused", 65)
        (refused,) = [each for each in found if each["type"] == "refused"]
        assert refused["problems"][0]["message"].startswith("unknown attribute 'colour'")
        assert trial.effects("web1") == []

    def test_an_archive_that_was_altered_is_not_executed(self, trial: Trial) -> None:
        """The job is never sent."""
        altered = trial.modules._replace(digest=sha256(trial.directory.encode()).hexdigest())
        with self.opened(Payloads(trial.package, altered)) as carrier:
            carrier.start(self.host("web1"), trial._replace(modules=altered).job({"a": {}}))
            (only,) = self.events(carrier, ["web1"])["web1"]
        assert (only["status"], only["error"]) == ("unreachable", "what has arrived has another digest")
        assert trial.effects("web1") == []

    def test_a_process_that_is_killed_leaves_its_host_in_doubt(self, trial: Trial) -> None:
        """The end says ``lost``, before and after other events; the next run resolves it, and does nothing twice."""
        found = self.run(trial, {"a": {}, "b": {"die": True}})
        assert found[-1]["status"] == "lost"
        again = self.run(trial, {"a": {}, "b": {}}, generation=2)
        assert again[-1]["code"] == 0
        assert trial.effects("web1") == ["a present", "b present"]

    def test_a_job_that_was_killed_is_resolved_by_itself(self, trial: Trial) -> None:
        """Killed between two effects and delivered again, it does what is left; delivered once more, nothing."""
        go = f"{trial.place('web1')}/go"
        job = trial.job({"a": {}, "b": {"wait": go}}, lock_timeout=_PATIENCE)
        with self.opened(trial.payloads) as carrier:
            carrier.start(self.host("web1"), job)
            deadline = time.monotonic() + _PATIENCE
            while not trial.effects("web1") and time.monotonic() < deadline:
                carrier.next_event(0.05)
            self.kill(carrier, "web1")
            assert self.events(carrier, ["web1"])["web1"][-1]["status"] == "lost"
        Path(go).touch()
        for _ in range(2):
            with self.opened(trial.payloads) as carrier:
                carrier.start(self.host("web1"), job)
                assert self.events(carrier, ["web1"])["web1"][-1]["code"] == 0
        assert sorted(trial.effects("web1")) == ["a present", "b present"]

    def test_nothing_comes_after_close(self, trial: Trial) -> None:
        """A carrier that is closed with runs under way frees what it holds, and they end by themselves."""
        go = f"{trial.place('web1')}/go"
        with self.opened(trial.payloads) as carrier:
            carrier.start(self.host("web1"), trial.job({"a": {"wait": go}}))
            self.await_event(carrier, "step_start")
        Path(go).touch()
        again = self.run(trial, {"a": {}}, generation=2, lock_timeout=_PATIENCE)
        assert again[-2]["unchanged"] == 1

    def await_event(self, carrier: Carrier, kind: str) -> Mapping[str, Any]:
        """Return the next document of a type, whatever comes before it."""
        deadline = time.monotonic() + _PATIENCE
        while (event := carrier.next_event(max(0.0, deadline - time.monotonic()))) is not None:
            assert event.document["type"] != "end", event
            if event.document["type"] == kind:
                return event.document
        msg = f"no {kind} came"
        raise AssertionError(msg)
