"""What a job does on a host: every command as it is here, once, with the same messages; over pipes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import venv
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import tomlkit

from resource_api.fleet import job as jobs
from resource_api.fleet import job_inputs
from resource_api.fleet.archives import Archives, SentArchive, package_archive
from resource_api.fleet.connections import Host
from resource_api.fleet.job import HostJob, with_id
from resource_api.manifest.input_values import FileInput, TextInput
from resource_api.model.values.errors import ManifestError
from resource_api.state.lock import Lock
from resource_api.system.filesystem.code_trust import CodeTrust
from tests.command import run
from tests.fleet.pipe_connections import PipeConnections
from tests.fleet.sent_documents import sent_documents

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.process

#: Types whose resources are listed without long programs.
QUICK: Final = "alternatives,cron,group,host,hostname,logrotate_rule,resolver,sudo_rule,timezone,user"
HOST: Final = {"name": "web1", "groups": ["web", "eu"], "address": "10.0.0.1"}
SITE: Final = """\
project: web
inputs:
  greeting: {type: String, default: hello}
  size: {type: Integer, default: 1}
  password: {type: "Sensitive[String]", default: hunter2}
resources:
  File[${inputs.greeting}]:
    path: %s/motd
    content: "${host.name} ${host.address} ${host.groups[1]} ${inputs.greeting} ${inputs.size}\\n"
outputs:
  where: %s/motd
  secret: ${inputs.password}
"""


class Machine:
    """A directory with a manifest, and the host that carries jobs for it out."""

    def __init__(self, directory: Path, archive: SentArchive, cache: str) -> None:
        """Write the manifest."""
        self.directory, self.archive, self.cache = directory, archive, cache
        self.motd = directory / "motd"
        self.write(SITE % (directory, directory))

    def write(self, text: str, name: str = "site.yaml") -> str:
        """Write a manifest and return its path."""
        (self.directory / name).write_text(text)
        return str(self.directory / name)

    def job(
        self, command: str = "apply", *, site: str | None = "site.yaml", run: str = "1", **arguments: Any
    ) -> HostJob:
        """Return a job for the manifest."""
        read = [] if site is None else job_inputs.read_documents(str(self.directory / site))
        inputs: Mapping[str, Any] = arguments.pop("inputs", {})
        options = {"state": f"sqlite:{self.directory}/state/state.db", **arguments}
        job = HostJob(
            command,
            run,
            payload=self.archive.digest,
            documents=[jobs.document_fields(item) for item in read],
            files=job_inputs.file_contents(read, inputs, CodeTrust()),
            inputs=inputs,
            host=HOST,
            options=options,
            operator="ops@laptop",
        )
        return with_id(job)

    def documents(self, job: HostJob, python: str | None = None) -> list[Mapping[str, Any]]:
        """Return what the host sends for a job; ``python``: its interpreter, if not that of the tests."""
        return sent_documents(
            PipeConnections(Archives(self.archive), cache=self.cache), Host("web1", python=python), job
        )

    def result(self, command: str, **arguments: Any) -> Any:
        """Return the document of a command that reads."""
        documents = self.documents(self.job(command, **arguments))
        assert documents[-1]["code"] == 0, documents
        return next(item["document"] for item in documents if item["type"] == "result")

    def refusal(self, job: HostJob) -> tuple[int, str]:
        """Return the exit code and the first problem of a job that was refused."""
        documents = self.documents(job)
        assert documents[-1]["status"] == "refused", documents
        refused = next(item for item in documents if item["type"] == "refused")
        assert refused["exit_code"] == documents[-1]["code"]
        return refused["exit_code"], refused["problems"][0]["message"]


@pytest.fixture
def machine(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """Return a host with an empty state; its cache is shared."""
    shared = tmp_path_factory.getbasetemp().parent
    return Machine(tmp_path, package_archive(str(shared / "payload")), str(shared / "cache"))


def summary(mapping: list[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the summary of a run."""
    return next(item for item in mapping if item["type"] == "summary")


def test_every_command_answers_as_it_does_here(machine: Machine) -> None:
    """An apply, and then every other command about what it did."""
    inputs = {"greeting": TextInput("good day"), "size": TextInput("3"), "password": FileInput("s3cret-value")}
    documents = machine.documents(machine.job(inputs=inputs))
    assert machine.motd.read_text() == "web1 10.0.0.1 eu good day 3\n"
    assert summary(documents)["created"] == 1
    assert "s3cret-value" not in str(documents)
    assert machine.result("validate", inputs=inputs) == {
        "valid": True,
        "resources": 1,
        "left_out": [],
        "diagnostics": [],
    }
    assert [step["action"] for step in machine.result("plan", inputs=inputs)["steps"]] == ["same"]
    assert machine.result("output", site=None) == {"where": str(machine.motd), "secret": "<sensitive>"}
    assert machine.result("output", site=None, name="where") == str(machine.motd)
    assert [item["reference"] for item in machine.result("state", site=None, subcommand="list")] == ["File[good day]"]
    assert machine.result("state", site=None, subcommand="check")["found"][0].endswith("state.db: every row is intact")
    assert [value["command"] for value in machine.result("state", site=None, subcommand="history")] == ["apply"]
    wrong = machine.job("state", site=None, subcommand="copy")
    assert machine.refusal(wrong) == (64, "'state copy' cannot be asked of other hosts")
    incomplete = machine.job("state", site=None, subcommand="mv")
    assert machine.refusal(incomplete) == (64, "the job lacks the option 'source'")
    machine.motd.unlink()
    assert machine.result("refresh", inputs=inputs, run="2")["refreshed"] == ["File[good day]"]
    gone = machine.documents(machine.job("destroy", inputs=inputs, run="3"))
    assert (summary(gone)["forgotten"], gone[-1]["code"]) == (1, 0)


def test_a_host_answers_the_commands_that_read_the_machine_and_its_runs(machine: Machine) -> None:
    """With the documents that these commands print there."""
    machine.write(f"project: web\nresources:\n  File[{machine.motd}]: {{content: hi}}\n")
    machine.documents(machine.job())
    (run,) = machine.result("history", site=None)
    report = machine.result("report", site=None, run=run["run"])
    assert (report["run"], report["summary"]["created"]) == (run["run"], 1)
    assert machine.result("facts", site=None, name="kernel") == "Linux"


def test_the_documents_are_those_of_the_command(machine: Machine) -> None:
    """What ``apply --json`` writes here and what a host sends are the same, but for times and the id of the run."""
    site = machine.write(f"project: web\nresources:\n  File[{machine.motd}]: {{content: hi}}\n")
    local = run(["apply", site, "--json", "--state", "memory:"], cwd=machine.directory, env={}, text=True)
    assert local.returncode == 0, local.stderr
    machine.motd.unlink()
    documents = machine.documents(machine.job(state="memory:"))
    output = [json.loads(line) for line in local.stdout.splitlines()]
    assert [_timeless(item) for item in documents[1:-1]] == [_timeless(value) for value in output]


def _timeless(document: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in {"timestamp", "run", "seconds"}}


def test_resources_are_listed_selected_and_changed(machine: Machine) -> None:
    """By name, by pattern and by filter; a change is verified and shown."""
    (root,) = machine.result("resource", site=None, type_name="user", name="root")
    assert (root["title"], root["uid"]) == ("root", 0)
    result = machine.result("resource", site=None, type_name="user", name="ro*", filters=["uid < 1"])
    assert [item["title"] for item in result] == ["root"]
    both = machine.result("resource", site=None, type_name="user,group")
    assert {"User[root]", "Group[root]"} <= {value["reference"] for value in both}
    config = machine.job("resource", site=None, type_name="user", config=["a=b"])
    assert machine.refusal(config) == (
        64,
        "--config cannot be given to other hosts; declare the provider in a manifest, and name it with --manifest",
    )
    assert machine.refusal(machine.job("resource", site=None, type_name="zzz"))[0] == 64
    changes = [f"path={machine.motd}", "content=hi"]
    changed = machine.documents(machine.job("resource", site=None, type_name="file", name="motd", changes=changes))
    assert summary(changed)["created"] == 1
    assert machine.motd.read_text() == "hi"
    wrong = machine.job("resource", site=None, type_name="file", name="/x", changes=["colour=red"])
    assert machine.refusal(wrong) == (64, "File[/x]: unknown attribute 'colour'")
    secret = machine.job("resource", site=None, type_name="user", name="root", changes=["password=@/etc/hostname"])
    refused = "password is sensitive and cannot be given to other hosts like this"
    assert machine.refusal(secret) == (64, f"{refused}; make it an input of a manifest")


def test_a_job_is_done_once(machine: Machine) -> None:
    """Delivered again, its report is sent again; after a newer one it is superseded, and so is another of its run."""
    job = machine.job(run="5")
    first = machine.documents(job)
    machine.motd.unlink()
    again = machine.documents(job)
    assert not machine.motd.exists()
    assert [item for item in again if item["type"] in {"step_end", "summary"}] == [
        value for value in first if value["type"] in {"step_end", "summary"}
    ]
    second = "another job of this run was given to this host, as where two names select it; nothing was done"
    assert machine.refusal(machine.job(run="5", inputs={"greeting": "bye"})) == (75, second)
    assert not machine.motd.exists()
    assert machine.documents(machine.job(run="6"))[-1]["code"] == 0
    assert machine.motd.exists()
    code, message = machine.refusal(job)
    assert (code, message.startswith("ops@laptop has given this host a newer job at 2")) == (75, True), message
    assert message.endswith(" UTC; nothing was done; give the command again to go on")


def test_a_job_waits_for_another_one_of_its_stack(machine: Machine) -> None:
    """Or is refused, naming who runs; one of another stack is not concerned."""
    machine.documents(machine.job(run="1"))
    lock = Lock(f"{machine.directory}/state/jobs/web--default")
    with lock.held(0):
        lock.write_holder("apply of another machine")
        code, message = machine.refusal(machine.job(run="2"))
        assert code == 75
        assert message.startswith(f"state is locked: pid {os.getpid()} (")
        assert "has been running 'apply of another machine' since" in message
        assert machine.documents(machine.job(run="2", stack="blue"))[-1]["code"] == 0
    assert machine.documents(machine.job(run="2"))[-1]["code"] == 0


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "it is damaged, or others can write to it; remove it, and every job is taken as a new one"),
        (
            '{"id": 1, "generation": 1, "report": null}',
            "it is damaged, or others can write to it; remove it, and every job is taken as a new one",
        ),
    ],
)
def test_a_damaged_journal_is_not_guessed(machine: Machine, content: str, reason: str) -> None:
    """Nothing is done; the message names the remedy."""
    machine.documents(machine.job(run="1"))
    journal = machine.directory / "state" / "jobs" / "web--default.json"
    journal.write_text(content)
    assert machine.refusal(machine.job(run="2")) == (74, f"{journal}: {reason}")


def test_the_journal_stands_beside_the_state(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where ``~`` in the state's URL is the home of the host's user."""
    monkeypatch.setenv("HOME", str(machine.directory))
    assert machine.documents(machine.job(state="sqlite:~/own/state.db"))[-1]["code"] == 0
    assert (machine.directory / "own" / "jobs" / "web--default.json").is_file()
    assert not (machine.directory / "~").exists()
    assert not Path("~").exists()


def test_a_journal_that_others_can_open_is_refused(machine: Machine) -> None:
    """Its directory must be this user's alone."""
    machine.documents(machine.job(run="1"))
    jobs = machine.directory / "state" / "jobs"
    jobs.chmod(0o755)
    assert machine.refusal(machine.job(run="2")) == (
        74,
        f"{jobs}: must be a directory that only its owner can open, and no link",
    )


def test_a_problem_has_the_place_in_the_file_that_was_sent(machine: Machine) -> None:
    """File, line and column of a YAML file are known where there is no YAML."""
    machine.write("project: web\nresources:\n  File[/x]:\n    content: [1]\n")
    documents = machine.documents(machine.job())
    (problem,) = next(item["problems"] for item in documents if item["type"] == "refused")
    assert (problem["file"], problem["line"], problem["column"]) == (str(machine.directory / "site.yaml"), 4, 5)


def test_a_wrong_manifest_is_refused_where_it_is_sent_from() -> None:
    """What is no YAML is not sent at all."""
    with pytest.raises(ManifestError):
        job_inputs.read_documents("/nonexistent/site.yaml")


def test_a_python_manifest_asks_the_facts_of_the_host(machine: Machine) -> None:
    """It is executed there, with what it includes and the assets that it names."""
    machine.write(f"resources:\n  File[{machine.directory}/included]: {{content: hi}}\n", "other.yaml")
    (machine.directory / "motd.txt").write_text("from a file\n")
    machine.write(
        f"""
PROJECT = "web"
INCLUDE = ["other.yaml"]


def manifest(m):
    m.file("{machine.motd}", content=m.host.name + " " + m.facts.os.family)
    m.file("{machine.directory}/copied", content=m.asset(file="motd.txt"))
""",
        "site.py",
    )
    assert machine.documents(machine.job(site="site.py"))[-1]["code"] == 0
    assert machine.motd.read_text() == "web1 Debian"
    assert (machine.directory / "included").read_text() == "hi"
    assert (machine.directory / "copied").read_text() == "from a file\n"


def test_assets_and_archives_come_from_where_the_job_does(machine: Machine) -> None:
    """Also those whose names have the host's name in them, and directories; one that is missing is a problem."""
    tree = machine.directory / "tree"
    (tree / "bin").mkdir(parents=True)
    (tree / "bin" / "run").write_text("#!/bin/sh\n")
    (tree / "bin" / "run").chmod(0o755)
    (machine.directory / "web1.conf").write_text("mine\n")
    machine.write(
        f"project: web\nresources:\n"
        f"  File[{machine.motd}]:\n    content: {{asset: {{file: '${{host.name}}.conf'}}}}\n"
        f"  Archive[{machine.directory}/out]:\n    source: {{archive: {{directory: tree}}}}\n"
    )
    job = machine.job()
    shutil.rmtree(tree)
    (machine.directory / "web1.conf").unlink()
    assert machine.documents(job)[-1]["code"] == 0
    assert machine.motd.read_text() == "mine\n"
    assert (machine.directory / "out" / "bin" / "run").stat().st_mode & 0o777 == 0o755
    code, message = machine.refusal(machine.job(run="2"))
    assert (code, message) == (
        65,
        "web1.conf is not among the files that were sent with the manifest; is it there, and readable?",
    )


def test_a_text_that_is_too_long_for_an_event_is_cut(machine: Machine) -> None:
    """The run is carried out and told; only what is shown is cut."""
    machine.write(f"project: web\nresources:\n  File[{machine.motd}]:\n    content: {'é' * 400_000}\n")
    documents = machine.documents(machine.job())
    assert documents[-1]["code"] == 0, documents
    assert machine.motd.stat().st_size == 800_000
    assert "… (400000 characters)" in str(documents)


def test_a_run_goes_on_when_nobody_reads_it(machine: Machine) -> None:
    """A signal that the end of a connection may send does not end it either."""
    go, begun = machine.directory / "go", machine.directory / "begun"
    machine.write(
        f"project: web\nresources:\n"
        f"  Exec[wait]:\n    command: [/bin/sh, -c, 'touch {begun}; until [ -e {go} ]; do sleep 0.01; done']\n"
        f"  File[{machine.motd}]: {{content: hi}}\n"
    )
    connections = PipeConnections(Archives(machine.archive), cache=machine.cache)
    connections.start(Host("web1"), machine.job())
    while not begun.exists():
        connections.next_event(0.05)
    os.kill(connections.pid("web1"), signal.SIGHUP)
    connections.close()
    go.touch()
    assert summary(machine.documents(machine.job(run="2", lock_timeout=60.0)))["exit_code"] == 0
    assert machine.motd.read_text() == "hi"


def test_types_use_the_libraries_of_the_host(machine: Machine) -> None:
    """Those of a virtual environment too; never one that others can change."""
    environment = machine.directory / "venv"
    venv.create(environment, symlinks=True)
    libraries = next(environment.glob("lib/python3*/site-packages"))
    shutil.copytree(Path(tomlkit.__file__).parent, libraries / "tomlkit")
    (libraries / "any.pth").write_text("import os; os._exit(7)\n")
    path = machine.directory / "a.toml"
    path.write_text("# kept\na = 1\n")
    setting = f"  Toml_setting[{path}:a]: {{value: 2}}\n"
    machine.write(f"project: web\nresources:\n{setting}outputs: {{memory: '${{facts.memory}}'}}\n")
    libraries.chmod(0o777)
    documents = machine.documents(machine.job(), str(environment / "bin" / "python"))
    assert "the manifest needs the Python library tomlkit, which this host lacks; " in str(documents)
    libraries.chmod(0o755)
    documents = machine.documents(machine.job(run="2"), str(environment / "bin" / "python"))
    assert (summary(documents)["updated"], path.read_text()) == (1, "# kept\na = 2\n"), documents


def test_bundled_types_are_read_as_they_are_here(machine: Machine) -> None:
    """With nothing but the data that was sent; every type with ``FAULTS_ALL_POINTS``, otherwise the quick ones."""
    chosen = ["--all"] if os.environ.get("FAULTS_ALL_POINTS") else [QUICK]
    local = run(["resource", *chosen, "--json"], cwd=machine.directory, env={}, text=True)
    requested = {"every_type": True} if chosen == ["--all"] else {"type_name": QUICK}
    assert machine.result("resource", site=None, **requested) == json.loads(local.stdout)
