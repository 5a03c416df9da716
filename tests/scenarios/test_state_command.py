"""The commands ``state`` and ``output``, and the export and import of a stack."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api.cli.main import COMMANDS, run
from resource_api.model.record import Commit, Record, RecordedLifecycle, StackState
from resource_api.model.sealed_secrets import digest_secret
from resource_api.model.values.errors import ManifestError
from resource_api.state import export as state_export
from resource_api.state.sqlite.store import SqliteStore
from resource_api.state.store import StackName
from resource_api.testing.state_compliance import attributes, content, record, records
from tests import command as forked

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parents[2]
WEB: Final = StackName("web", "default")
A, B = "File[/a]", "File[second]"


class Command:
    """Calls the command on one state."""

    def __init__(self, directory: str) -> None:
        """Keep state in ``directory``."""
        self.store = SqliteStore(f"{directory}/state.db")

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run ``resource-api`` in a separate process."""
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "RESOURCE_API_STATE": f"sqlite:{self.store.path}"}
        return forked.run(arguments, cwd=Path.cwd(), env=environment, text=True)

    def ok(self, *arguments: str) -> str:
        """Return the output of a command that must succeed."""
        result = self(*arguments)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def fails(self, code: int, *arguments: str) -> str:
        """Return the error of a command that must fail with ``code``."""
        result = self(*arguments)
        assert result.returncode == code, (result.returncode, result.stdout, result.stderr)
        assert "Traceback" not in result.stderr
        return result.stderr


@pytest.fixture
def empty() -> Iterator[Command]:
    """Return the command with nothing recorded."""
    with TemporaryDirectory(prefix="ra-test-", dir="/dev/shm") as directory:
        yield Command(directory)


@pytest.fixture
def command(empty: Command) -> Command:
    """Return the command with two files recorded, the second of which requires the first."""
    store = empty.store
    with store.lock("test", 0):
        secret = digest_secret("sesame", store.load(WEB).salt)
        second = record(
            "/b",
            title="second",
            requires=[A],
            value_requires={"content": [A]},
            lifecycle=RecordedLifecycle(deleted_with=A),
        )
        owed = {("service", "s"): [A]}
        store.commit(WEB, Commit([record("/a"), second._replace(should={"content": secret})], owed=owed))
        store.commit(WEB, Commit(outputs={"none": None, "sum": "12\n34", "list": [1], "password": {"inner": [secret]}}))
        store.finish_run(
            WEB, {"run": "r1", "command": "apply", "started": 0, "summary": {"created": 2, "exit_code": 1}}
        )
    return empty


def test_every_command_is_there() -> None:
    """``state`` has the documented subcommands and no others."""
    assert {"state", "output"} <= COMMANDS.keys()
    from resource_api.cli.commands.state import state

    documented = "check copy export history import list mv recover rekey rm show taint untaint"
    assert " ".join(sorted(state.commands)) == documented


def test_what_a_resource_has_replaced_goes_with_its_name(command: Command) -> None:
    """``show`` and ``untaint`` mean the resource that is there, ``mv`` renames it for both, and ``rm`` forgets both."""
    store = command.store
    old = record("/0", title="/0", status="replaced", successor=A, owned=True)
    with store.lock("test", 0):
        store.commit(WEB, Commit([old]))
    assert "status" not in command.ok("state", "show", A)
    assert f"successor: {A}" in command.ok("state", "show", "File[/0]")
    command.ok("state", "mv", A, "File[new]")
    assert command.ok("state", "rm", "File[new]").splitlines() == ["forgotten: File[new]", "forgotten: File[/0]"]
    assert command.ok("state", "list").splitlines() == [B]


class TestEmptyState:
    """Commands on a state without records."""

    def test_inspecting_an_empty_state_prints_nothing(self, empty: Command) -> None:
        """Listing an empty state is no error, and naming a resource or an output is one."""
        assert empty.ok("state", "list") == ""
        assert json.loads(empty.ok("state", "list", "--json")) == []
        assert empty.ok("output") == ""
        assert "nothing is recorded yet" in empty.ok("state", "check")
        assert "nothing is recorded yet" in empty.fails(64, "state", "show", A)
        assert "no output 'x'" in empty.fails(1, "output", "x")


class TestInspecting:
    """Commands that print records, outputs and runs."""

    def test_list_prints_references_in_order_of_creation(self, command: Command) -> None:
        """``state list`` prints one reference per line in the order of creation."""
        assert command.ok("state", "list").splitlines() == [A, B]
        assert [document["urn"] for document in json.loads(command.ok("state", "list", "--json"))] == [
            "urn:resource:default::web::file::/a",
            "urn:resource:default::web::file::second",
        ]

    def test_show_accepts_a_title_or_a_name(self, command: Command) -> None:
        """``state show`` hides secrets, and an unknown reference gets a hint."""
        text = command.ok("state", "show", B)
        assert text == command.ok("state", "show", "file[/b]")
        assert "content: <sensitive>" in text
        assert f"requires: [{A}]" in text
        assert json.loads(command.ok("state", "show", B, "--json"))["reference"] == B
        assert f"did you mean '{B}'" in command.fails(64, "state", "show", "File[secnd]")
        assert "is not a reference" in command.fails(64, "state", "show", "second")

    @pytest.mark.parametrize("text", ["urn:resource:default::blog::file::/a", "urn:resource:live::web::file::/a"])
    @pytest.mark.parametrize("words", ["show URN", "rm URN", "taint URN", "mv URN File[x]", "mv File[/a] URN"])
    def test_the_urn_of_another_project_or_stack_is_refused(self, command: Command, text: str, words: str) -> None:
        """It is not taken for the resource of the same reference here."""
        before = command.store.load(WEB)
        _, stack, project, *_ = text.replace("::", ":").split(":")[1:]
        message = f"{text} is of project {project}, stack {stack}; this is about project web, stack default"
        assert command.fails(64, "state", *words.replace("URN", text).split()) == f"Error: {message}\n"
        assert command.store.load(WEB) == before

    def test_output_prints_text_and_json(self, command: Command) -> None:
        """A text is printed as it is, other values as JSON, and a sensitive one cannot be revealed."""
        assert command.ok("output", "sum") == "12\n34\n"
        assert command.ok("output", "list") == "[1]\n"
        assert (command.ok("output", "none"), "none: null\n" in command.ok("output")) == ("null\n", True)
        assert json.loads(command.ok("output", "list", "--json")) == [1]
        assert "password: {inner: [<sensitive>]}" in command.ok("output")
        assert "sesame" not in command.ok("output", "--json")
        assert command.ok("output", "--reveal", "sum") == "12\n34\n"
        assert "cannot be revealed: password" in command.fails(1, "output", "--reveal", "password")
        assert "did you mean 'sum'?" in command.fails(1, "output", "sun")

    def test_history_lists_runs_and_state_commands(self, command: Command) -> None:
        """``state history`` lists each run and each ``state`` command."""
        command.ok("state", "taint", A)
        first, second = command.ok("state", "history").splitlines()
        assert first == "1970-01-01 00:00:00  r1  apply: 2 created (exit code 1)"
        assert second.endswith("state taint")
        assert json.loads(command.ok("state", "history", "--json"))[0]["run"] == "r1"

    def test_an_ambiguous_project_must_be_named(self, command: Command) -> None:
        """The only project is the default, and an ambiguous one is an error that names all."""
        with command.store.lock("test", 0):
            command.store.commit(StackName("db", "staging"), Commit([record("/x")]))
        assert command.ok("state", "list").splitlines() == [A, B]
        assert command.ok("state", "list", "--stack", "staging") == "File[/x]\n"
        assert "db (stack staging), web (stack default)" in command.fails(64, "state", "list", "--stack", "none")
        with command.store.lock("test", 0):
            command.store.commit(StackName("db", "default"), Commit([record("/y")]))
        for arguments in (["state", "list"], ["output"], ["state", "rm", A]):
            message = command.fails(64, *arguments)
            assert "several projects are recorded: db (stack default), web (stack default)" in message
        assert command.ok("state", "list", "--project", "db") == "File[/y]\n"

    def test_an_unknown_project_is_wrong_usage(self, command: Command) -> None:
        """It is not shown as an empty one; the nearest project or stack is named, or those that are recorded."""
        message = "Error: nothing is recorded of project 'wbe'; did you mean 'web'?\n"
        assert command.fails(64, "state", "list", "--project", "wbe") == message
        assert command.fails(64, "output", "--project", "other").endswith("'other'; recorded are: web\n")
        message = "Error: nothing is recorded of project 'web' in the stack 'defualt'; did you mean 'default'?\n"
        assert command.fails(64, "state", "list", "--project", "web", "--stack", "defualt") == message


class TestEditing:
    """Commands that change the records and not the system."""

    def test_rm_forgets(self, command: Command) -> None:
        """``state rm`` forgets all named resources, or none if one is not recorded."""
        assert "File[/zzz] is not recorded" in command.fails(64, "state", "rm", A, "File[/zzz]")
        assert command.store.load(WEB).serial == 2
        assert command.ok("state", "rm", A) == f"forgotten: {A}\n"
        assert command.ok("state", "list").splitlines() == [B]

    def test_mv_renames_everywhere(self, command: Command) -> None:
        """``state mv`` changes the title and every reference to it and keeps the order."""
        command.ok("state", "mv", A, "File[first]")
        state = command.store.load(WEB)
        first, second = state.records.values()
        assert (first.title, first.name) == ("first", "/a")
        assert second.requires == second.value_requires["content"] == [second.lifecycle.deleted_with] == ["File[first]"]
        assert list(state.owed.values()) == [["File[first]"]]
        assert "is recorded already" in command.fails(64, "state", "mv", B, "File[first]")
        assert "keeps its type" in command.fails(64, "state", "mv", B, "User[x]")

    def test_mv_refuses_control_characters(self, command: Command) -> None:
        """A new title with a control character is refused."""
        for odd in ("File[a\nb]", "File[a\x1b[31mb]"):
            assert "a title cannot hold the control character" in command.fails(64, "state", "mv", A, odd)
        assert command.ok("state", "list").splitlines() == [A, B]

    def test_a_recorded_control_character_is_escaped(self, command: Command) -> None:
        """A recorded title with a control character is printed escaped and can be renamed."""
        odd = "File[a\n\x1b[31mb]"
        with command.store.lock("test", 0):
            command.store.commit(WEB, Commit([record("/a")._replace(title="a\n\x1b[31mb")]))
        spelt = "File[a\\n\\x1b[31mb]"
        assert command.ok("state", "list").splitlines() == [spelt, B]
        assert (
            command.fails(64, "state", "untaint", odd)
            == f"Error: {spelt} is not tainted, partial or unconfirmed: its status is ready\n"
        )
        assert command.ok("state", "taint", odd) == f"written: {spelt}\n"
        command.ok("state", "mv", odd, A)
        assert command.ok("state", "list").splitlines() == [A, B]

    def test_taint_and_untaint(self, command: Command) -> None:
        """A second ``taint`` writes nothing, and ``untaint`` of a resource that is not tainted fails."""
        for _ in range(2):
            command.ok("state", "taint", A)
        assert command.store.load(WEB).records[record("/a").key].status == "tainted"
        assert command.store.load(WEB).serial == 3
        command.ok("state", "untaint", A)
        assert command.store.load(WEB).records[record("/a").key].status == "ready"
        assert "is not tainted" in command.fails(64, "state", "untaint", A)

    def test_the_lock_is_held(self, command: Command) -> None:
        """A command that writes is refused while another holds the lock, and one that reads is not."""
        with command.store.lock("a long run", 0):
            assert "running 'a long run'" in command.fails(75, "state", "rm", A)
            assert command.ok("state", "list").splitlines() == [A, B]

    def test_damage_is_reported_and_recovered(self, command: Command) -> None:
        """A damaged state exits 74 and names ``state recover``, which restores it."""
        path = Path(command.store.path)
        path.write_bytes(path.read_bytes()[:4096])
        for arguments in (["state", "list"], ["state", "check"], ["output"], ["state", "rm", A]):
            repair = f"'resource-api state recover --state sqlite:{path}'"
            assert f"{repair} restores the newest intact generation" in command.fails(74, *arguments)
        recovered = command.ok("state", "recover")
        assert f"restored: {path}.1: web/default at serial 2" in recovered
        assert "'resource-api refresh MANIFEST' reads" in recovered
        assert "every row is intact" in command.ok("state", "check")
        assert command.ok("state", "list").splitlines() == [A, B]


def test_a_run_is_shown_with_its_time(command: Command) -> None:
    """A resource that cannot be read back is shown with the time of its last run."""
    with command.store.lock("test", 0):
        ran = record("j", is_=None, last_run="2026-01-02T03:04:05+00:00")
        command.store.commit(WEB, Commit([ran]))
    text = command.ok("state", "show", "File[j]")
    assert "  last_run: 2026-01-02T03:04:05+00:00\n" in text
    assert "  is: not to be read back\n" in text
    assert json.loads(command.ok("state", "show", "File[j]", "--json"))["last_run"] == ran.last_run


class TestTransfer:
    """Export and import of a stack."""

    def test_an_exported_state_is_imported_identically(self, command: Command, tmp_path: Path) -> None:
        """An export is imported without a difference under its own or another name."""
        file = tmp_path / "web.json"
        file.write_text(command.ok("state", "export"))
        assert "sesame" not in file.read_text()
        with TemporaryDirectory(prefix="ra-test-", dir="/dev/shm") as directory:
            second = Command(directory)
            assert "2 resources, serial 2" in second.ok("state", "import", str(file))
            assert second.store.load(WEB) == command.store.load(WEB)
            assert second.ok("state", "export") == file.read_text()
            second.ok("state", "import", str(file), "--project", "copy", "--stack", "two")
            assert (
                content(second.store.load(StackName("copy", "two"))).split("\n")[5:]
                == (content(command.store.load(WEB)).split("\n")[5:])
            )

    def test_an_older_or_foreign_state_needs_force(self, command: Command, tmp_path: Path) -> None:
        """With ``--force`` such a state is imported under a higher serial."""
        old = tmp_path / "old.json"
        old.write_text(command.ok("state", "export"))
        command.ok("state", "import", str(old))
        assert command.store.load(WEB).serial == 2
        command.ok("state", "rm", A)
        assert "older than what is recorded, 3" in command.fails(65, "state", "import", str(old))
        stranger = {**json.loads(old.read_text()), "lineage": "ab" * 16, "serial": 9}
        path = tmp_path / "other.json"
        path.write_text(json.dumps(stranger))
        assert "another lineage" in command.fails(65, "state", "import", str(path))
        edited = {**json.loads(command.ok("state", "export")), "resources": []}
        path.write_text(json.dumps(edited))
        assert "other content under the serial 3" in command.fails(65, "state", "import", str(path))
        assert command.ok("state", "list").splitlines() == [B]
        assert "serial 4" in command.ok("state", "import", "--force", str(old))
        assert command.ok("state", "list").splitlines() == [A, B]
        path.write_text(json.dumps(stranger))
        assert "serial 10" in command.ok("state", "import", "--force", str(path))
        assert command.store.load(WEB).lineage == "ab" * 16
        assert command.store.check()

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"state_format": 2}, "format 2"),
            ({"project": "a b"}, "project must be a name"),
            ({"serial": True}, "serial must be an integer from 1"),
            ({"serial": 0}, "serial must be an integer from 1"),
            ({"salt": "xy"}, "salt must be hexadecimal digits"),
            ({"owed": [[1]]}, r"owed\[0\] must be a type, a name and a list of references"),
            ({"resources": [3]}, r"resources\[0\] must be a mapping"),
            ({"resources": [{}]}, r"resources\[0\]: title is missing"),
            ({"outputs": []}, "outputs must be a mapping"),
        ],
    )
    def test_a_wrong_document_is_refused(self, change: dict[str, Any], message: str) -> None:
        """A document with a wrong field raises ``ManifestError`` with the reason."""
        state = StackState("web", "default", "ab", 1, "site.yaml", b"salt", {record().key: record()})
        document = {**state_export.to_document(state), **change}
        with pytest.raises(ManifestError, match=message):
            state_export.from_document(json.dumps(document), "x.json")

    @pytest.mark.parametrize(
        "text", ["", "[]", "{", "{}", '{"state_format": 1}', "[" * 100_000, '{"$resource_api": "sealed"}']
    )
    def test_text_that_is_no_document_is_refused(self, text: str) -> None:
        """Text that is no exported state raises ``ManifestError``."""
        with pytest.raises(ManifestError):
            state_export.from_document(text, "x.json")

    @pytest.mark.parametrize("field", ["reference", "name", "requires", "is"])
    def test_a_wrong_resource_is_refused(self, field: str) -> None:
        """A wrong field of a resource, or two resources of one identity, raise ``ManifestError``."""
        state = StackState("web", "default", "ab", 1, "site.yaml", b"salt", {record().key: record()})
        document = state_export.to_document(state)
        document["resources"][0][field] = {"reference": "File[/b]", "name": {}, "requires": "x", "is": []}[field]
        with pytest.raises(ManifestError, match=r"resources\[0\]: |File\[/"):
            state_export.from_document(json.dumps(document), "x.json")
        document = state_export.to_document(state)
        document["resources"] *= 2
        with pytest.raises(ManifestError, match="are one resource"):
            state_export.from_document(json.dumps(document), "x.json")

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"urn": None}, r"resources\[0\]: urn must be a string"),
            ({"urn": "urn:resource:default::web::file::/b"}, r"File\[/a\]: 'urn' is .* make .*::/a"),
            ({"status": "foo"}, r"resources\[0\]: status must be one of ready, tainted"),
            ({"requires": ["/b"]}, r"File\[/a\]: 'requires': '/b' is not a reference"),
            ({"value_requires": {"content": [3]}}, r"resources\[0\]\.value_requires: content\[0\] must be a string"),
            ({"deleted_with": "File[]"}, r"File\[/a\]: 'deleted_with': .* empty title"),
            ({"successor": "File"}, r"File\[/a\]: 'successor': 'File' is not a reference"),
        ],
    )
    def test_contradicting_or_unknown_values_are_refused(
        self, empty: Command, tmp_path: Path, change: dict[str, Any], message: str
    ) -> None:
        """The import fails with the resource and the reason, and nothing is written."""
        state = StackState("web", "default", "ab", 1, "site.yaml", b"salt", {record().key: record()})
        document = state_export.to_document(state)
        document["resources"][0] |= change
        file = tmp_path / "x.json"
        file.write_text(json.dumps(document))
        assert re.search(message, empty.fails(65, "state", "import", str(file)))
        assert empty.store.stacks() == []

    @given(
        result=st.lists(
            records.filter(lambda item: item.title and item.name not in {"", ()}),
            max_size=4,
            unique_by=lambda item: item.key,
        ),
        outputs=attributes,
    )
    def test_any_state_survives_a_round_trip(self, result: list[Record], outputs: dict[str, Any]) -> None:
        """A generated state is equal after export and import, kinds of numbers included."""
        stored = {item.key: item for item in result if item.title[:1] + item.title[-1:] not in {"''", '""'}}
        state = StackState(
            "web", "x", "ab", 3, "site.yaml", b"salt", stored, {("file", ("a", "b")): ["x"]}, {}, outputs
        )
        again = state_export.from_document(json.dumps(state_export.to_document(state)), "x.json")
        assert content(again) == content(state)
        assert again == state


def test_a_missing_argument_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    """A subcommand without its argument exits 64 and names the argument."""
    assert run(["state", "show"]) == 64
    assert run(["state", "rm"]) == 64
    assert "REF" in capsys.readouterr().err
