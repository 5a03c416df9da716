"""Encrypted secrets on the command line: revealing, exporting, saved plans and key changes."""

from __future__ import annotations

import json
import os
import re
import shlex
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests import command

if TYPE_CHECKING:
    import subprocess

ROOT: Final = Path(__file__).resolve().parents[2]
SECRET: Final = "sesame-street-4711"

TYPE: Final = '''
"""Doors."""
from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="door",
    docs="Doors.",
    attributes={
        "name": Attribute("String", "Which.", kind="namevar"),
        "ensure": Attribute("Enum[present, absent]", "Whether it is there.", default="present"),
        "colour": Attribute("Optional[String]", "How it looks."),
        "password": Attribute("Optional[Sensitive[String]]", "What opens it."),
        "pin": Attribute("Optional[Sensitive[String]]", "What is never read.", write_only=True),
        "login": Attribute("Optional[Sensitive[String]]", "What it takes to change it.", kind="parameter"),
    },
)
'''
PROVIDER: Final = """
import json
import os
from pathlib import Path

from resource_api import SimpleProvider

DOORS = Path(os.environ["DOORS"])


class Provider(SimpleProvider):
    def get(self, context):
        return [{"name": name, **row} for name, row in self._all().items()]

    def create(self, context, name, should):
        self._put(name, {**self._all().get(name, {}), **self._plain(should)})

    update = create

    def delete(self, context, name):
        raise NotImplementedError

    def set(self, context, changes):
        for name, (_, should) in changes.items():
            if should["ensure"] == "absent":
                (DOORS / "deleted").write_text(repr(sorted(self._plain(should).items())))
                self._put(name, None)
            else:
                self.create(context, name, should)

    def _plain(self, should):
        plain = {key: getattr(value, "reveal", lambda value=value: value)() for key, value in should.items()}
        hidden = () if should["ensure"] == "absent" else ("name", "pin")
        return {key: value for key, value in plain.items() if key not in hidden}

    def _all(self):
        file = DOORS / "doors.json"
        rows = json.loads(file.read_text()) if file.exists() else {}
        shown = ("ensure", "colour", "password")
        return {name: {key: row[key] for key in shown if key in row} for name, row in rows.items()}

    def _put(self, name, row):
        rows = {**self._all(), name: row}
        (DOORS / "doors.json").write_text(json.dumps({key: value for key, value in rows.items() if value is not None}))
"""
GATE: Final = '''
"""Gates."""
from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="gate",
    docs="Gates.",
    config={"token": Attribute("Sensitive[String]", "What lets one in.")},
    attributes={
        "name": Attribute("String", "Which.", kind="namevar"),
        "ensure": Attribute("Enum[present, absent]", "Whether it is there.", default="present"),
    },
)
'''
GATES: Final = """
import os
from pathlib import Path

from resource_api import BaseProvider

GATES = Path(os.environ["DOORS"]) / "gates"


class Provider(BaseProvider):
    def configure(self, context, config):
        self.token = config["token"].reveal()

    def get(self, context):
        if self.token != os.environ["TOKEN"]:
            raise RuntimeError("nobody is let in")
        return [{"name": name} for name in (GATES.read_text().split() if GATES.exists() else [])]

    def set(self, context, changes):
        for name, (_, should) in changes.items():
            names = {each["name"] for each in self.get(context)} - {name}
            GATES.write_text(" ".join(sorted(names | ({name} if should["ensure"] == "present" else set()))))
"""
GUARDED: Final = """
project: gates
inputs:
  password: {type: "Sensitive[String]"}
providers:
  guard: {type: gate, config: {token: "${inputs.password}"}}
resources:
  Gate[north]: {provider: guard}
"""
MANIFEST: Final = """
project: house
inputs:
  password: {type: "Sensitive[String]"}
resources:
  Door[front]:
    password: ${inputs.password}
    login: ${inputs.password}
    colour: "key ${inputs.password}"
outputs:
  password: ${inputs.password}
  plain: 1
"""


class House:
    """A directory with a type, a manifest, keys, and the command."""

    def __init__(self, path: Path) -> None:
        """Write the files, with nothing recorded."""
        self.path = path
        for name, text in (
            *(("types/door.py", TYPE), ("providers/door.py", PROVIDER), ("site.yaml", MANIFEST)),
            *(("types/gate.py", GATE), ("providers/gate.py", GATES), ("none.yaml", "project: gates\nresources: {}\n")),
        ):
            (path / name).parent.mkdir(exist_ok=True)
            (path / name).write_text(text, encoding="utf-8")
        (path / "world").mkdir()
        self.give(SECRET)
        self.env = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "DOORS": str(path / "world"),
            "TOKEN": SECRET,
            "RESOURCE_API_MODULE_PATH": str(path),
            "RESOURCE_API_STATE": f"sqlite:{path}/state/state.db",
        }
        for name in ("key", "other"):
            self.ok("new", "key", name)

    def give(self, secret: str) -> None:
        """Set the input."""
        (self.path / "word").write_text(secret, encoding="utf-8")

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command."""
        options = ["-i", "password=@word"] if "site.yaml" in arguments else []
        return command.run([*arguments, *options], cwd=self.path, env=self.env, text=True)

    def ok(self, *arguments: str, key: str = "") -> str:
        """Return the output of a command that must succeed."""
        result = self.run(*arguments, *(["--key", f"file:{key}"] if key else []))
        assert result.returncode == 0, (arguments, result.stdout, result.stderr)
        return result.stdout

    def fails(self, code: int, *arguments: str, key: str = "") -> str:
        """Return the error of a command that must fail with ``code``."""
        result = self.run(*arguments, *(["--key", f"file:{key}"] if key else []))
        assert result.returncode == code, (result.returncode, result.stdout, result.stderr)
        assert SECRET not in result.stdout + result.stderr
        return result.stderr

    def exported(self, key: str = "") -> dict[str, Any]:
        """Return the exported state."""
        document: dict[str, Any] = json.loads(self.ok("state", "export", key=key))
        return document

    def doors(self) -> dict[str, Any]:
        """Return the existing doors."""
        doors: dict[str, Any] = json.loads((self.path / "world/doors.json").read_text(encoding="utf-8"))
        return doors


@pytest.fixture
def house(tmp_path: Path) -> House:
    """Return a house."""
    return House(tmp_path)


class TestRevealing:
    """``output --reveal``."""

    def test_with_a_key_outputs_can_be_revealed(self, house: House) -> None:
        """With a key ``output --reveal`` shows a secret, and ``output`` hides it."""
        house.ok("apply", "site.yaml", key="key")
        assert house.ok("output", key="key") == "password: <sensitive>\nplain: 1\n"
        assert house.ok("output", "password", "--reveal", key="key") == f"{SECRET}\n"
        assert json.loads(house.ok("output", "--reveal", "--json", key="key")) == {"password": SECRET, "plain": 1}

    def test_without_a_key_outputs_cannot_be_revealed(self, house: House) -> None:
        """Without a key ``output --reveal`` fails, because only a digest is recorded."""
        house.ok("apply", "site.yaml")
        assert "only a digest is recorded without a key" in house.fails(1, "output", "--reveal")

    def test_an_output_named_like_a_secret_input_is_secret(self, house: House) -> None:
        """An output with the name of a secret input is hidden, whatever its value."""
        text = MANIFEST.replace("password: ${inputs.password}\n  plain", 'password: "plain text"\n  plain')
        (house.path / "site.yaml").write_text(text, encoding="utf-8")
        assert "password: <sensitive>" in house.ok("apply", "site.yaml", key="key")
        assert house.ok("output", "password", key="key") == "<sensitive>\n"
        assert house.ok("output", "password", "--reveal", key="key") == "plain text\n"


class TestDeleting:
    """Secrets that a deletion needs."""

    def test_a_deletion_receives_a_secret_parameter_with_a_key(self, house: House) -> None:
        """With a key an undeclared resource is deleted with its recorded secret parameter."""
        house.ok("apply", "site.yaml", key="key")
        (house.path / "empty.yaml").write_text("project: house\nresources: {}\n", encoding="utf-8")
        result = house.run("apply", "empty.yaml", "--prune", "-d", "--key", "file:key")
        assert "1 deleted" in result.stdout
        assert SECRET not in result.stdout + result.stderr
        assert SECRET in (house.path / "world/deleted").read_text(encoding="utf-8")

    def test_a_deletion_has_no_secret_parameter_without_a_key(self, house: House) -> None:
        """Without a key the recorded secret parameter is not passed to the deletion."""
        house.ok("apply", "site.yaml")
        (house.path / "empty.yaml").write_text("project: house\nresources: {}\n", encoding="utf-8")
        house.ok("apply", "empty.yaml", "--prune")
        assert "login" not in (house.path / "world/deleted").read_text(encoding="utf-8")

    @pytest.mark.parametrize("key", ["key", ""], ids=["encrypted", "digests"])
    def test_an_undeclared_provider_gets_its_recorded_secrets(self, house: House, key: str) -> None:
        """With a key the recorded configuration is complete, and without one the deletion fails."""
        (house.path / "site.yaml").write_text(GUARDED, encoding="utf-8")
        house.ok("apply", "site.yaml", key=key)
        assert (house.path / "world/gates").read_text(encoding="utf-8") == "north"
        if key:
            assert "1 deleted" in house.ok("apply", "none.yaml", "--prune", key=key)
            assert (house.path / "world/gates").read_text(encoding="utf-8") == ""
        else:
            assert "only a digest is kept" in house.fails(1, "apply", "none.yaml", "--prune")

    def test_provider_secrets_are_recorded_after_rekey(self, house: House) -> None:
        """An apply without changes records the secrets of a provider after the state was encrypted."""
        (house.path / "site.yaml").write_text(GUARDED, encoding="utf-8")
        house.ok("apply", "site.yaml")
        house.ok("state", "rekey", key="key")
        assert "1 unchanged" in house.ok("apply", "site.yaml", key="key")
        assert "1 deleted" in house.ok("apply", "none.yaml", "--prune", key="key")


class TestExporting:
    """Export and import of a stack."""

    def test_an_encrypted_export_can_be_imported(self, house: House) -> None:
        """The export contains no secret and is imported elsewhere under another name with the same key."""
        house.ok("apply", "site.yaml", key="key")
        document = house.exported("key")
        assert document["salt"] == ""
        assert SECRET not in json.dumps(document)
        (house.path / "export.json").write_text(json.dumps(document, indent=4), encoding="utf-8")
        house.env["RESOURCE_API_STATE"] = f"sqlite:{house.path}/elsewhere/state.db"
        assert "is encrypted; name its key" in house.fails(64, "state", "import", "export.json")
        assert "another key" in house.fails(74, "state", "import", "export.json", key="other")
        house.ok("state", "import", "export.json", "--project", "cottage", key="key")
        assert house.ok("output", "password", "--reveal", key="key") == f"{SECRET}\n"
        assert " updated" not in house.ok("apply", "site.yaml", "--project", "cottage", key="key")

    @pytest.mark.parametrize(
        "change",
        [
            lambda document: document["resources"][0].update(owned=False),
            lambda document: document.update(serial=99),
            lambda document: document["resources"][0]["should"].update(
                login=document["resources"][0]["should"]["password"]
            ),
            lambda document: document.pop("sealed_salt"),
            lambda document: document["resources"].clear(),
        ],
        ids=["plain", "serial", "moved", "unproven", "emptied"],
    )
    def test_an_altered_document_is_refused(self, house: House, change: Any) -> None:
        """A change of any part of an export is detected, and nothing is written."""
        house.ok("apply", "site.yaml", key="key")
        document = house.exported("key")
        change(document)
        (house.path / "export.json").write_text(json.dumps(document), encoding="utf-8")
        house.env["RESOURCE_API_STATE"] = f"sqlite:{house.path}/elsewhere/state.db"
        assert "altered without its key" in house.fails(74, "state", "import", "export.json", key="key")
        assert house.ok("state", "list", key="key") == ""

    def test_an_unencrypted_export_needs_force_where_a_key_is_named(self, house: House) -> None:
        """Without ``--force`` the import is refused; with it the digests are imported."""
        house.ok("apply", "site.yaml")
        (house.path / "export.json").write_text(json.dumps(house.exported()), encoding="utf-8")
        house.env["RESOURCE_API_STATE"] = f"sqlite:{house.path}/elsewhere/state.db"
        error = house.fails(65, "state", "import", "export.json", key="key")
        assert "is not encrypted, and a key is named; --force imports it" in error
        house.ok("state", "import", "export.json", "--force", key="key")
        assert " updated" not in house.ok("apply", "site.yaml", key="key")
        assert house.ok("output", "password", "--reveal", key="key") == f"{SECRET}\n"


class TestPlans:
    """Saved plans with secrets."""

    def test_an_encrypted_plan_is_applied_with_the_key(self, house: House) -> None:
        """The plan contains no secret and is applied without the manifest and the input file."""
        house.ok("plan", "site.yaml", "-o", "plan.json", key="key")
        saved = (house.path / "plan.json").read_text(encoding="utf-8")
        assert SECRET not in saved
        assert json.loads(saved)["manifest"].keys() == {"sealing", "box"}
        (house.path / "site.yaml").unlink()
        (house.path / "word").unlink()
        assert "1 created" in house.ok("apply", "plan.json", key="key")
        assert house.doors()["front"]["colour"] == f"key {SECRET}"

    def test_a_plan_with_secrets_is_not_saved_without_a_key(self, house: House) -> None:
        """A secret in the manifest prevents saving, also when it belongs to no target."""
        assert "cannot be saved without a key" in house.fails(1, "plan", "site.yaml", "-o", "plan.json")
        text = "project: house\nresources:\n  Door[a]: {password: %s}\n  Door[b]: {pin: %s}\n  Door[c]: {}\n"
        (house.path / "clear.yaml").write_text(text % (SECRET, SECRET), encoding="utf-8")
        error = house.fails(1, "plan", "clear.yaml", "-o", "plan.json", "--target", "Door[c]")
        assert "Door[a] holds one" in error
        assert not (house.path / "plan.json").exists()

    def test_an_encrypted_plan_needs_its_key(self, house: House) -> None:
        """No key and another key are refused, and nothing is changed."""
        house.ok("plan", "site.yaml", "-o", "plan.json", key="key")
        assert "plan.json is encrypted; name its key" in house.fails(64, "apply", "plan.json")
        assert "it is another key" in house.fails(74, "apply", "plan.json", key="other")
        assert not (house.path / "world/doors.json").exists()

    def test_an_altered_document_is_refused(self, house: House) -> None:
        """A change of any part of an encrypted plan is detected, and nothing is changed."""
        house.ok("plan", "site.yaml", "-o", "plan.json", key="key")
        document = json.loads((house.path / "plan.json").read_text(encoding="utf-8"))
        another = house.ok("plan", "site.yaml", "-o", "plan2.json", "--replace", "Door[front]", key="key")
        assert another
        second = json.loads((house.path / "plan2.json").read_text(encoding="utf-8"))
        for altered in (
            {**document, "steps": []},
            {**document, "project": "other"},
            {**document, "complete": not document["complete"]},
            {**document, "manifest": {**document["manifest"], "box": second["manifest"]["box"]}},
            {**document, "manifest": {**document["manifest"], "sealing": second["manifest"]["sealing"]}},
        ):
            (house.path / "plan.json").write_text(json.dumps(altered), encoding="utf-8")
            assert "altered" in house.fails(74, "apply", "plan.json", key="key")
        assert not (house.path / "world/doors.json").exists()

    def test_an_unencrypted_plan_is_refused_where_a_key_is_named(self, house: House) -> None:
        """An unencrypted plan is refused with ``--key`` and applied without it."""
        (house.path / "plain.yaml").write_text(
            'project: house\nresources: {"Door[a]": {colour: red}}\n', encoding="utf-8"
        )
        house.ok("plan", "plain.yaml", "-o", "plan.json")
        assert "is not encrypted, and a key is named; plan again" in house.fails(65, "apply", "plan.json", key="key")
        house.ok("apply", "plan.json")

    def test_a_plan_is_stale_when_a_secret_changed(self, house: House) -> None:
        """A secret that changed in the system makes the plan stale."""
        house.ok("apply", "site.yaml", key="key")
        house.give("another-word-0815")
        house.ok("plan", "site.yaml", "-o", "plan.json", key="key")
        doors = house.doors()
        doors["front"]["password"] = "somebody-elses"
        (house.path / "world/doors.json").write_text(json.dumps(doors), encoding="utf-8")
        assert "Door[front] changed since it was made" in house.fails(65, "apply", "plan.json", key="key")


class TestChangingKeys:
    """``state rekey``."""

    def test_an_unencrypted_state_can_be_encrypted(self, house: House) -> None:
        """``state rekey`` encrypts the state, and the next apply records the secrets once."""
        house.ok("apply", "site.yaml")
        refused = house.fails(64, "apply", "site.yaml", key="key")
        assert "name the key with --key" in house.fails(64, "state", "rekey")
        proposed = re.search(r"'resource-api (state rekey .*)' encrypts it", refused)
        assert proposed
        assert proposed[1].startswith("state rekey --state sqlite:")
        assert "encrypted with file:key, serial 3" in house.ok(*shlex.split(proposed[1]))
        assert "only a digest" in house.fails(1, "output", "password", "--reveal", key="key")
        assert " updated" not in house.ok("apply", "site.yaml", key="key")
        assert house.ok("output", "password", "--reveal", key="key") == f"{SECRET}\n"
        before = house.exported("key")["serial"]
        assert " updated" not in house.ok("apply", "site.yaml", key="key")
        assert house.exported("key")["serial"] == before

    def test_the_key_can_be_replaced(self, house: House) -> None:
        """After ``rekey --to`` only the new key is accepted, and the records are the same."""
        house.ok("apply", "site.yaml", key="key")
        house.ok("state", "rekey", "--to", "file:other", key="key")
        assert "it is another key" in house.fails(74, "output", "--reveal", key="key")
        assert house.ok("output", "password", "--reveal", key="other") == f"{SECRET}\n"
        assert " updated" not in house.ok("apply", "site.yaml", key="other")
        verified = house.ok("state", "check", key="other")
        assert "every row is intact" in verified
        assert "this key does not open it: it was made with another one" in verified
        assert "damaged" not in verified

    def test_rekey_replaces_every_ciphertext(self, house: House) -> None:
        """``state rekey`` under the same key leaves no former ciphertext in the database."""
        house.ok("apply", "site.yaml", key="key")
        before = self.boxes(house)
        house.ok("state", "rekey", key="key")
        assert before
        assert not before & self.boxes(house)
        raw = (house.path / "state/state.db").read_bytes()
        assert not any(box.encode() in raw for box in before)

    def test_former_generations_can_be_dropped(self, house: House) -> None:
        """``rekey --drop-generations`` removes the former generations with their ciphertexts."""
        house.ok("apply", "site.yaml", key="key")
        before = self.boxes(house)
        house.ok("state", "rekey", "--to", "file:other", key="key")
        assert any(box.encode() in (house.path / "state/state.db.2").read_bytes() for box in before)
        house.ok("state", "rekey", "--drop-generations", key="other")
        assert sorted(path.name for path in (house.path / "state").glob("state.db.[0-9]")) == ["state.db.1"]
        files = [path.read_bytes() for path in (house.path / "state").rglob("*") if path.is_file()]
        assert not any(box.encode() in content for box in before for content in files)

    def test_a_state_can_be_decrypted(self, house: House) -> None:
        """``rekey --decrypt`` leaves digests, and the next apply updates nothing."""
        house.ok("apply", "site.yaml", key="key")
        assert "not encrypted any more" in house.ok("state", "rekey", "--decrypt", key="key")
        assert not self.boxes(house)
        assert " updated" not in house.ok("apply", "site.yaml")
        assert "only a digest" in house.fails(1, "output", "--reveal")

    def test_rekey_is_refused_without_the_current_key(self, house: House) -> None:
        """A missing or wrong key, contradicting options and an empty state are refused."""
        assert "nothing is recorded" in house.fails(64, "state", "rekey", key="key")
        house.ok("apply", "site.yaml", key="key")
        assert "is encrypted; name its key" in house.fails(64, "state", "rekey", "--to", "file:other")
        assert "another key" in house.fails(74, "state", "rekey", key="other")
        assert "do not go together" in house.fails(64, "state", "rekey", "--decrypt", "--to", "file:other", key="key")
        in_memory = ("--project", "house", "--state", "memory:")
        assert "nothing is recorded" in house.fails(64, "state", "rekey", *in_memory, key="key")
        assert house.ok("output", "password", "--reveal", key="key") == f"{SECRET}\n"

    def boxes(self, house: House) -> set[str]:
        """Return every ciphertext in the database."""
        with closing(sqlite3.connect(house.path / "state/state.db")) as connection:
            tables = ("SELECT body FROM stack", "SELECT body FROM resource")
            rows = [body for query in tables for (body,) in connection.execute(query)]
        names: set[str] = set()
        for row in rows:
            json.loads(row, object_hook=lambda item: names.add(item["box"]) if "box" in item else None)
        return names


class TestOtherCommands:
    """Commands that need no key."""

    def test_single_resources_are_changed_without_a_key(self, house: House) -> None:
        """``resource`` needs no key, and with the key it warns that the resource is recorded."""
        house.ok("apply", "site.yaml", key="key")
        house.ok("resource", "door", "front", "colour=red")
        result = house.run("resource", "door", "front", "colour=blue", "--key", "file:key")
        assert "is recorded in stack 'default' of 'house'" in result.stderr

    def test_single_resources_are_changed_with_the_key_of_another_stack(self, house: House) -> None:
        """A stack that the key does not open is skipped, as one without a key is."""
        house.ok("apply", "site.yaml", key="key")
        house.ok("new", "key", "another")
        house.ok("resource", "door", "front", "colour=red", "--key", "file:another")

    def test_history_and_recovery_need_no_key(self, house: House) -> None:
        """``history``, ``check`` and ``recover`` work on an encrypted state without a key."""
        house.ok("apply", "site.yaml", key="key")
        for name in ("history", "check", "recover"):
            house.ok("state", name)

    def test_a_passphrase_reaches_no_child(self, house: House) -> None:
        """The passphrase variable is not in the environment of a child process."""
        house.env |= {"RESOURCE_API_PASSPHRASE": "correct-horse-battery", "RESOURCE_API_KEY": "passphrase:"}
        text = "project: p\nresources:\n  Exec[env]: {command: [/bin/sh, -c, env > world/env], cwd: %s}\n"
        (house.path / "run.yaml").write_text(text % house.path, encoding="utf-8")
        house.ok("apply", "run.yaml")
        assert "correct-horse" not in (house.path / "world/env").read_text(encoding="utf-8")
        assert house.ok("output", "--json") == "{}\n"
