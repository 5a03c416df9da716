"""The laws of connections to hosts, as a class that the tests of each kind of connection inherit.

Jobs really run, with a provider that misbehaves as the law requires. The subclass connects to hosts and kills them.
"""

from __future__ import annotations

import time
from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from resource_api.fleet import job as jobs
from resource_api.fleet.archives import Archives, SentArchive, modules_archive, package_archive
from resource_api.fleet.connections import Host
from resource_api.fleet.job import HostJob, with_id
from resource_api.manifest.read import read_mapping
from resource_api.model.values.start_up import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from contextlib import AbstractContextManager

    from resource_api.fleet.connections import HostConnections

#: Seconds within which all events arrive, also on a busy machine.
_PATIENCE: Final = 60.0
_THREE: Final[Mapping[str, Mapping[str, object]]] = {"a": {}, "b": {}, "c": {}}
#: Invalid output of hosts by the reason of its refusal.
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
    """The laws of connections to hosts; a subclass implements ``opened``, ``unreachable`` and ``kill``."""

    def opened(self, payloads: Archives) -> AbstractContextManager[HostConnections]:
        """Return a context manager with new connections that send these archives."""
        raise NotImplementedError

    def host(self, name: str) -> Host:
        """Return a host that can be reached."""
        return Host(name)

    def unreachable(self) -> Host:
        """Return a host called ``gone`` that nothing reaches."""
        raise NotImplementedError

    def kill(self, connections: HostConnections, name: str) -> None:
        """Kill the process of a job on a host."""
        raise NotImplementedError

    @pytest.fixture
    def trial(self, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Trial:
        """Return a trial; the archive of the package is shared by all tests."""
        return trial(tmp_path, tmp_path_factory.getbasetemp().parent / "payload")

    def events(self, connections: HostConnections, hosts: Iterable[str]) -> dict[str, list[Mapping[str, Any]]]:
        """Return the documents of each host up to its end; check that no document follows."""
        documents: dict[str, list[Mapping[str, object]]] = {name: [] for name in hosts}
        waiting, deadline = set(documents), time.monotonic() + _PATIENCE
        while waiting:
            event = connections.next_event(max(0.0, deadline - time.monotonic()))
            assert event is not None, f"no event of {waiting} arrived"
            assert event.host in waiting, f"{event} after its end"
            documents[event.host].append(event.document)
            if event.document["type"] == "end":
                waiting.discard(event.host)
        assert connections.next_event(0) is None
        return documents

    def run(
        self, trial: Trial, resources: Mapping[str, Mapping[str, object]], **options: Any
    ) -> list[Mapping[str, Any]]:
        """Return the documents of one job on one host; ``resources``: name → attributes of the type ``effect``."""
        with self.opened(trial.payloads) as connections:
            connections.start(self.host("web1"), trial.job(resources, **options))
            return self.events(connections, ["web1"])["web1"]

    def test_events_keep_their_order_and_have_one_end(self, trial: Trial) -> None:
        """Each step begins before it ends, in the order of the manifest; ``hello`` is the first, ``end`` the last."""
        documents = self.run(trial, _THREE)
        steps = [(step["type"], step["reference"]) for step in documents if step["type"].startswith("step_")]
        assert [reference for kind, reference in steps if kind == "step_end"] == [
            f"Effect[{trial.directory_of('web1')}/{name}]" for name in _THREE
        ]
        assert Counter(steps).most_common(1)[0][1] == 1
        assert documents[0]["type"] == "hello"
        assert documents[-2]["type"] == "summary"
        assert documents[-1] == {"type": "end", "status": "ended", "code": 0, "error": None}

    def test_hosts_go_on_side_by_side(self, trial: Trial) -> None:
        """One that waits for another one ends, because that one ends meanwhile."""
        with self.opened(trial.payloads) as connections:
            effect = f"{trial.directory_of('web2')}/a"
            connections.start(self.host("web1"), trial.job({"a": {"wait": effect}}))
            connections.start(self.host("web2"), trial.job({"a": {}}, host="web2"))
            documents = self.events(connections, ["web1", "web2"])
        assert [documents[name][-1]["code"] for name in documents] == [0, 0]

    def test_nothing_is_lost_of_a_flood(self, trial: Trial) -> None:
        """Every line of a host that logs 10 MB comes, in its order, also where they are read late; others end first."""
        with self.opened(trial.payloads) as connections:
            connections.start(self.host("web1"), trial.job({"a": {"lines": 10_000}}))
            connections.start(self.host("web2"), trial.job({"a": {}}, host="web2"))
            time.sleep(0.5)
            documents = self.events(connections, ["web1", "web2"])
        lines = [line["message"] for line in documents["web1"] if line["type"] == "log"]
        logged = [line.split()[0] for line in lines if "xx" in line]
        assert logged == [str(number) for number in range(10_000)]
        assert [documents[name][-1]["code"] for name in documents] == [0, 0]

    @pytest.mark.parametrize("lie", _LIES)
    def test_what_is_no_event_ends_its_host(self, trial: Trial, lie: str) -> None:
        """The host is in doubt, because the job was sent."""
        documents = self.run(trial, {"a": {"raw": _LIES[lie]}})
        assert (documents[-1]["status"], documents[-1]["code"]) == ("lost", None)
        assert documents[-1]["error"].startswith("it sent what is no event: ")

    def test_a_host_that_lies_fails_alone(self, trial: Trial) -> None:
        """Another one, which has its end later, ends well."""
        go = f"{trial.directory_of('web2')}/go"
        with self.opened(trial.payloads) as connections:
            connections.start(self.host("web1"), trial.job({"a": {"raw": _LIES["no frame"]}}))
            connections.start(self.host("web2"), trial.job({"a": {"wait": go}}, host="web2"))
            while (event := connections.next_event(_PATIENCE)) is not None and event.document["type"] != "end":
                pass
            Path(go).touch()
            documents = self.events(connections, ["web2"])
        assert event is not None
        assert (event.host, event.document["status"]) == ("web1", "lost")
        assert documents["web2"][-1]["code"] == 0

    def test_a_document_counts_for_the_host_that_sent_it(self, trial: Trial) -> None:
        """A document that names another host counts for the one on whose channel it came."""
        lie = 'RApi {"kind":"event","document":{"type":"log","host":"web2","message":"mine"}}\n'
        assert "mine" in [document.get("message") for document in self.run(trial, {"a": {"raw": lie}})]

    def test_lines_between_the_frames_are_passed_over(self, trial: Trial) -> None:
        """The output of login programs is no event."""
        documents = self.run(trial, {"a": {"raw": "Welcome to web1!\n"}})
        assert documents[-1]["code"] == 0

    def test_an_interrupt_ends_the_run_after_its_segment(self, trial: Trial) -> None:
        """The current change ends, the rest is skipped, events of both arrive, and the code is an interrupt's."""
        go = f"{trial.directory_of('web1')}/go"
        resources = {"a": {"wait": go}, "b": {"require": f"Effect[{trial.directory_of('web1')}/a]"}}
        with self.opened(trial.payloads) as connections:
            connections.start(self.host("web1"), trial.job(resources))
            self.await_event(connections, "step_start")
            connections.interrupt("web1")
            self.await_event(connections, "log")
            Path(go).touch()
            documents = self.events(connections, ["web1"])["web1"]
        assert documents[-1] == {"type": "end", "status": "ended", "code": 130, "error": None}
        assert [step["status"] for step in documents if step["type"] == "step_end"] == ["success", "skipped"]
        assert trial.effects("web1") == ["a present"]

    def test_an_abandoned_run_ends_by_itself(self, trial: Trial) -> None:
        """Its end arrives at once, in doubt; everything is done once, and the next run changes nothing."""
        go = f"{trial.directory_of('web1')}/go"
        with self.opened(trial.payloads) as connections:
            connections.start(self.host("web1"), trial.job({"a": {"wait": go}, "b": {}}))
            self.await_event(connections, "step_start")
            connections.abandon("web1")
            documents = self.events(connections, ["web1"])["web1"]
            assert documents[-1]["status"] == "lost"
        Path(go).touch()
        again = self.run(trial, {"a": {}, "b": {}}, run="2", lock_timeout=_PATIENCE)
        assert again[-2]["unchanged"] == 2
        assert trial.effects("web1") == ["a present", "b present"]

    def test_hosts_that_are_abandoned_at_once_have_their_ends(self, trial: Trial) -> None:
        """Each has exactly one, also before anything was done for it."""
        hosts = [self.unreachable()._replace(name=f"gone{number}") for number in range(20)]
        job = trial.job({"a": {}}, host="gone")
        with self.opened(trial.payloads) as connections:
            for host in hosts:
                connections.start(host, job)
                connections.abandon(host.name)
            documents = self.events(connections, [host.name for host in hosts])
        assert {document["status"] for (document,) in documents.values()} == {"unreachable"}

    def test_a_host_that_cannot_be_reached_has_its_end(self, trial: Trial) -> None:
        """Nothing is raised; the end says why; another host is not concerned."""
        with self.opened(trial.payloads) as connections:
            connections.start(self.unreachable(), trial.job({"a": {}}, host="gone"))
            connections.start(self.host("web1"), trial.job({"a": {}}))
            documents = self.events(connections, ["gone", "web1"])
        (only,) = documents["gone"]
        assert (only["status"], only["code"]) == ("unreachable", None)
        assert only["error"]
        assert documents["web1"][-1]["code"] == 0

    def test_a_wrong_manifest_is_refused(self, trial: Trial) -> None:
        """Nothing is done; the problems have their positions."""
        documents = self.run(trial, {"a": {"colour": "red"}})
        assert (documents[-1]["status"], documents[-1]["code"]) == ("refused", 65)
        (refused,) = [document for document in documents if document["type"] == "refused"]
        assert refused["problems"][0]["message"].startswith("unknown attribute 'colour'")
        assert trial.effects("web1") == []

    def test_an_archive_that_was_altered_is_not_executed(self, trial: Trial) -> None:
        """The job is never sent."""
        altered = trial.modules._replace(digest=sha256(trial.directory.encode()).hexdigest())
        with self.opened(Archives(trial.package, altered)) as connections:
            connections.start(self.host("web1"), trial._replace(modules=altered).job({"a": {}}))
            (only,) = self.events(connections, ["web1"])["web1"]
        assert (only["status"], only["error"]) == ("unreachable", "what has arrived has another digest")
        assert trial.effects("web1") == []

    def test_a_process_that_is_killed_leaves_its_host_in_doubt(self, trial: Trial) -> None:
        """The end says ``lost``, before and after other events; the next run resolves it, and does nothing twice."""
        documents = self.run(trial, {"a": {}, "b": {"die": True}})
        assert documents[-1]["status"] == "lost"
        again = self.run(trial, {"a": {}, "b": {}}, run="2")
        assert again[-1]["code"] == 0
        assert trial.effects("web1") == ["a present", "b present"]

    def test_a_job_that_was_killed_is_resolved_by_itself(self, trial: Trial) -> None:
        """Killed between two effects and delivered again, it does the rest; delivered once more, nothing."""
        go = f"{trial.directory_of('web1')}/go"
        job = trial.job({"a": {}, "b": {"wait": go}}, lock_timeout=_PATIENCE)
        with self.opened(trial.payloads) as connections:
            connections.start(self.host("web1"), job)
            deadline = time.monotonic() + _PATIENCE
            while not trial.effects("web1") and time.monotonic() < deadline:
                connections.next_event(0.05)
            self.kill(connections, "web1")
            assert self.events(connections, ["web1"])["web1"][-1]["status"] == "lost"
        Path(go).touch()
        for _ in range(2):
            with self.opened(trial.payloads) as connections:
                connections.start(self.host("web1"), job)
                assert self.events(connections, ["web1"])["web1"][-1]["code"] == 0
        assert sorted(trial.effects("web1")) == ["a present", "b present"]

    def test_nothing_comes_after_close(self, trial: Trial) -> None:
        """Runs that are under way when the connections are closed end by themselves."""
        go = f"{trial.directory_of('web1')}/go"
        with self.opened(trial.payloads) as connections:
            connections.start(self.host("web1"), trial.job({"a": {"wait": go}}))
            self.await_event(connections, "step_start")
        Path(go).touch()
        again = self.run(trial, {"a": {}}, run="2", lock_timeout=_PATIENCE)
        assert again[-2]["unchanged"] == 1

    def await_event(self, connections: HostConnections, kind: str) -> Mapping[str, object]:
        """Return the next document of a type."""
        deadline = time.monotonic() + _PATIENCE
        while (event := connections.next_event(max(0.0, deadline - time.monotonic()))) is not None:
            assert event.document["type"] != "end", event
            if event.document["type"] == kind:
                return event.document
        raise AssertionError(f"no {kind} came")


_TYPE: Final = '''"""Files whose provider misbehaves."""

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="effect",
    docs="A file.",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether it exists.", default="present"),
        "path": Attribute("String", "Where it is.", kind="namevar"),
        "lines": Attribute("Integer", "So many lines of 1000 characters are logged.", kind="parameter", default=0),
        "raw": Attribute("Optional[String]", "Written to every pipe that this process has.", kind="parameter"),
        "wait": Attribute("Optional[String]", "The change ends when this file exists.", kind="parameter"),
        "die": Attribute("Boolean", "The process is killed before the change.", kind="parameter", default=False),
    },
    features={"simple_get_filter"},
)
'''

_PROVIDER: Final = '''"""Files whose provider misbehaves."""

import contextlib
import os
import signal
import stat
import time

from resource_api import BaseProvider


class Provider(BaseProvider):
    def get(self, context, names=None):
        return [{"path": name, "ensure": "present"} for name in names or () if os.path.exists(name)]

    def set(self, context, changes):
        for name, change in changes.items():
            should = change.should
            for number in range(should["lines"]):
                context.notice(name, message=f"{number} " + "x" * 1000)
            if should.get("raw"):
                for descriptor in range(3, 32):
                    with contextlib.suppress(OSError):
                        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                            os.write(descriptor, should["raw"].encode())
            if should["die"]:
                os.kill(os.getpid(), signal.SIGKILL)
            while should.get("wait") and not os.path.exists(should["wait"]):
                time.sleep(0.01)
            if should["ensure"] == "absent":
                os.unlink(name)
            else:
                os.close(os.open(name, os.O_CREAT | os.O_EXCL, 0o600))
            with open(os.path.dirname(name) + "/.effects", "a") as file:
                file.write(f"{name} {should['ensure']}\\n")
'''


class Trial(NamedTuple):
    """A directory for state and effects, and the archives for jobs."""

    directory: str
    package: SentArchive
    modules: SentArchive

    @property
    def payloads(self) -> Archives:
        """The archives of its jobs."""
        return Archives(self.package, self.modules)

    def job(
        self,
        resources: Mapping[str, Mapping[str, object]],
        *,
        host: str = "web1",
        run: str = "1",
        command: str = "apply",
        **options: object,
    ) -> HostJob:
        """Return a job for resources ``NAME`` of the type ``effect`` in a directory of the host's own."""
        directory = self.directory_of(host)
        Path(directory).mkdir(exist_ok=True)
        declared = {f"Effect[{directory}/{name}]": dict(body) for name, body in resources.items()}
        document = read_mapping({"project": "trial", "resources": declared}, "trial.yaml")
        job = HostJob(
            command,
            run,
            payload=self.package.digest,
            modules=self.modules.digest,
            documents=[jobs.document_fields(document)],
            host={"name": host, "groups": [], "address": host},
            options={"state": f"sqlite:{directory}/state.db", **options},
        )
        return with_id(job)

    def directory_of(self, host: str) -> str:
        """Return the directory of a host: its files, its state, its effects."""
        return f"{self.directory}/{host}"

    def effects(self, host: str) -> list[str]:
        """Return the effects on a host, as ``NAME present``, in their order."""
        record = Path(self.directory_of(host), ".effects")
        lines = record.read_text(encoding="utf-8").splitlines() if record.exists() else []
        return [line.removeprefix(f"{self.directory_of(host)}/") for line in lines]


def trial(directory: Path, cache: Path) -> Trial:
    """Return a trial in an empty directory; ``cache``: the directory for the archive of this package."""
    for kind, text in (("types", _TYPE), ("providers", _PROVIDER)):
        (directory / "modules" / kind).mkdir(parents=True)
        (directory / "modules" / kind / "effect.py").write_text(text)
    modules = modules_archive([str(directory / "modules")], lambda path: (Path(path).read_bytes(), Path(path).stat()))
    if modules is None:
        raise ValueError("there are no modules")
    return Trial(str(directory), package_archive(str(cache)), modules)
