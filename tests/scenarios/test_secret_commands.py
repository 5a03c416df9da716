"""What a key makes possible on the command line: revealing, carrying elsewhere, saving plans, changing keys."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

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
        """Lay it out; nothing is recorded."""
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
        given = ["-i", "password=@word"] if "site.yaml" in arguments else []
        return subprocess.run(
            [sys.executable, "-P", "-m", "resource_api", *arguments, *given],
            cwd=self.path,
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    def ok(self, *arguments: str, key: str = "") -> str:
        """Give what a command that works prints."""
        done = self.run(*arguments, *(["--key", f"file:{key}"] if key else []))
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout

    def fails(self, code: int, *arguments: str, key: str = "") -> str:
        """Give what a command that fails with ``code`` says."""
        done = self.run(*arguments, *(["--key", f"file:{key}"] if key else []))
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        assert SECRET not in done.stdout + done.stderr
        return done.stderr

    def exported(self, key: str = "") -> dict[str, Any]:
        """Give the exported state."""
        document: dict[str, Any] = json.loads(self.ok("state", "export", key=key))
        return document

    def doors(self) -> dict[str, Any]:
        """Give what is there."""
        doors: dict[str, Any] = json.loads((self.path / "world/doors.json").read_text(encoding="utf-8"))
        return doors


@pytest.fixture
def house(tmp_path: Path) -> House:
    """Give a house."""
    return House(tmp_path)


class TestRevealing:
    """``output --reveal``."""

    def test_with_a_key_outputs_can_be_shown(self, house: House) -> None:
        """And are not, unless asked for."""
        house.ok("apply", "site.yaml", key="key")
        assert house.ok("output", key="key") == "password: <sensitive>\nplain: 1\n"
        assert house.ok("output", "password", "--reveal", key="key") == f"{SECRET}\n"
        assert json.loads(house.ok("output", "--reveal", "--json", key="key")) == {"password": SECRET, "plain": 1}

    def test_without_one_they_cannot(self, house: House) -> None:
        """Only a digest is there."""
        house.ok("apply", "site.yaml")
        assert "only a digest is recorded without a key" in house.fails(1, "output", "--reveal")

    def test_an_output_called_like_a_secret_input_is_secret(self, house: House) -> None:
        """Whatever it was made of: a provider may have given back what it was given."""
        text = MANIFEST.replace("password: ${inputs.password}\n  plain", 'password: "plain text"\n  plain')
        (house.path / "site.yaml").write_text(text, encoding="utf-8")
        assert "password: <sensitive>" in house.ok("apply", "site.yaml", key="key")
        assert house.ok("output", "password", key="key") == '"<sensitive>"\n'
        assert house.ok("output", "password", "--reveal", key="key") == "plain text\n"


class TestDeleting:
    """What a deletion needs."""

    def test_a_secret_parameter_is_there_with_a_key(self, house: House) -> None:
        """When the manifest does not say it any more."""
        house.ok("apply", "site.yaml", key="key")
        (house.path / "empty.yaml").write_text("project: house\nresources: {}\n", encoding="utf-8")
        done = house.run("apply", "empty.yaml", "--prune", "-d", "--key", "file:key")
        assert "1 deleted" in done.stdout
        assert SECRET not in done.stdout + done.stderr
        assert SECRET in (house.path / "world/deleted").read_text(encoding="utf-8")

    def test_and_left_out_without_one(self, house: House) -> None:
        """A digest is no value."""
        house.ok("apply", "site.yaml")
        (house.path / "empty.yaml").write_text("project: house\nresources: {}\n", encoding="utf-8")
        house.ok("apply", "empty.yaml", "--prune")
        assert "login" not in (house.path / "world/deleted").read_text(encoding="utf-8")

    @pytest.mark.parametrize("key", ["key", ""], ids=["encrypted", "digests"])
    def test_a_provider_gets_the_secrets_that_it_was_configured_with(self, house: House, key: str) -> None:
        """From state with a key, when no manifest names it any more; without one they must be given."""
        (house.path / "site.yaml").write_text(GUARDED, encoding="utf-8")
        house.ok("apply", "site.yaml", key=key)
        assert (house.path / "world/gates").read_text(encoding="utf-8") == "north"
        if key:
            assert "1 deleted" in house.ok("apply", "none.yaml", "--prune", key=key)
            assert (house.path / "world/gates").read_text(encoding="utf-8") == ""
        else:
            assert "only a digest is kept" in house.fails(1, "apply", "none.yaml", "--prune")

    def test_they_are_recorded_once_there_is_a_key(self, house: House) -> None:
        """By an apply that changes nothing else."""
        (house.path / "site.yaml").write_text(GUARDED, encoding="utf-8")
        house.ok("apply", "site.yaml")
        house.ok("state", "rekey", key="key")
        assert "1 unchanged" in house.ok("apply", "site.yaml", key="key")
        assert "1 deleted" in house.ok("apply", "none.yaml", "--prune", key="key")


class TestExporting:
    """A stack as a document."""

    def test_it_is_sealed_and_comes_back(self, house: House) -> None:
        """On another machine, under another name, with the same key."""
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
    def test_one_that_was_altered_is_refused(self, house: House, change: Any) -> None:
        """Any part of it; nothing is written."""
        house.ok("apply", "site.yaml", key="key")
        document = house.exported("key")
        change(document)
        (house.path / "export.json").write_text(json.dumps(document), encoding="utf-8")
        house.env["RESOURCE_API_STATE"] = f"sqlite:{house.path}/elsewhere/state.db"
        assert "altered without its key" in house.fails(74, "state", "import", "export.json", key="key")
        assert house.ok("state", "list", key="key") == ""

    def test_one_without_a_key_is_taken_only_by_force_where_there_is_one(self, house: House) -> None:
        """Nothing proves it; its digests come along."""
        house.ok("apply", "site.yaml")
        (house.path / "export.json").write_text(json.dumps(house.exported()), encoding="utf-8")
        house.env["RESOURCE_API_STATE"] = f"sqlite:{house.path}/elsewhere/state.db"
        said = house.fails(65, "state", "import", "export.json", key="key")
        assert "is not encrypted, and a key is named; --force imports it" in said
        house.ok("state", "import", "export.json", "--force", key="key")
        assert " updated" not in house.ok("apply", "site.yaml", key="key")
        assert house.ok("output", "password", "--reveal", key="key") == f"{SECRET}\n"


class TestPlans:
    """A saved plan that holds secrets."""

    def test_it_is_carried_out_with_the_key(self, house: House) -> None:
        """What it shows and what it hides; the manifest and the input are not needed any more."""
        house.ok("plan", "site.yaml", "-o", "plan.json", key="key")
        saved = (house.path / "plan.json").read_text(encoding="utf-8")
        assert SECRET not in saved
        assert json.loads(saved)["manifest"].keys() == {"sealing", "box"}
        (house.path / "site.yaml").unlink()
        (house.path / "word").unlink()
        assert "1 created" in house.ok("apply", "plan.json", key="key")
        assert house.doors()["front"]["colour"] == f"key {SECRET}"

    def test_without_a_key_it_is_not_saved(self, house: House) -> None:
        """Also where the secret stands in the manifest and nothing of it is among the targets."""
        assert "cannot be saved without a key" in house.fails(1, "plan", "site.yaml", "-o", "plan.json")
        text = "project: house\nresources:\n  Door[a]: {password: %s}\n  Door[b]: {pin: %s}\n  Door[c]: {}\n"
        (house.path / "clear.yaml").write_text(text % (SECRET, SECRET), encoding="utf-8")
        said = house.fails(1, "plan", "clear.yaml", "-o", "plan.json", "--target", "Door[c]")
        assert "Door[a] holds one" in said
        assert not (house.path / "plan.json").exists()

    def test_only_the_key_opens_it(self, house: House) -> None:
        """None and another one do not."""
        house.ok("plan", "site.yaml", "-o", "plan.json", key="key")
        assert "plan.json is encrypted; name its key" in house.fails(64, "apply", "plan.json")
        assert "it is another key" in house.fails(74, "apply", "plan.json", key="other")
        assert not (house.path / "world/doors.json").exists()

    def test_one_that_was_altered_is_refused(self, house: House) -> None:
        """What it shows is bound to what it does."""
        house.ok("plan", "site.yaml", "-o", "plan.json", key="key")
        document = json.loads((house.path / "plan.json").read_text(encoding="utf-8"))
        other = house.ok("plan", "site.yaml", "-o", "plan2.json", "--replace", "Door[front]", key="key")
        assert other
        second = json.loads((house.path / "plan2.json").read_text(encoding="utf-8"))
        for altered in (
            {**document, "steps": []},
            {**document, "project": "other"},
            {**document, "drift": [1]},
            {**document, "manifest": {**document["manifest"], "box": second["manifest"]["box"]}},
            {**document, "manifest": {**document["manifest"], "sealing": second["manifest"]["sealing"]}},
        ):
            (house.path / "plan.json").write_text(json.dumps(altered), encoding="utf-8")
            assert "altered" in house.fails(74, "apply", "plan.json", key="key")
        assert not (house.path / "world/doors.json").exists()

    def test_with_a_key_a_plan_without_one_is_refused(self, house: House) -> None:
        """Somebody could have taken the encryption off, and put a manifest of their own into it."""
        (house.path / "plain.yaml").write_text(
            'project: house\nresources: {"Door[a]": {colour: red}}\n', encoding="utf-8"
        )
        house.ok("plan", "plain.yaml", "-o", "plan.json")
        assert "is not encrypted, and a key is named; plan again" in house.fails(65, "apply", "plan.json", key="key")
        house.ok("apply", "plan.json")

    def test_it_is_stale_when_a_secret_has_moved(self, house: House) -> None:
        """Though the document shows none, and both look alike."""
        house.ok("apply", "site.yaml", key="key")
        house.give("another-word-0815")
        house.ok("plan", "site.yaml", "-o", "plan.json", key="key")
        doors = house.doors()
        doors["front"]["password"] = "somebody-elses"
        (house.path / "world/doors.json").write_text(json.dumps(doors), encoding="utf-8")
        assert "Door[front] changed since it was made" in house.fails(65, "apply", "plan.json", key="key")


class TestChangingKeys:
    """``state rekey``."""

    def test_a_state_without_a_key_gets_one(self, house: House) -> None:
        """Its secrets are kept from the next apply on, which needs to change nothing for it."""
        house.ok("apply", "site.yaml")
        assert "'resource-api state rekey' encrypts it" in house.fails(64, "apply", "site.yaml", key="key")
        assert "name the key with --key" in house.fails(64, "state", "rekey")
        assert "encrypted with file:key, serial 3" in house.ok("state", "rekey", key="key")
        assert "only a digest" in house.fails(1, "output", "password", "--reveal", key="key")
        assert " updated" not in house.ok("apply", "site.yaml", key="key")
        assert house.ok("output", "password", "--reveal", key="key") == f"{SECRET}\n"
        before = house.exported("key")["serial"]
        assert " updated" not in house.ok("apply", "site.yaml", key="key")
        assert house.exported("key")["serial"] == before

    def test_another_key_opens_it_from_then_on(self, house: House) -> None:
        """The one before does not; what is recorded is the same."""
        house.ok("apply", "site.yaml", key="key")
        house.ok("state", "rekey", "--to", "file:other", key="key")
        assert "it is another key" in house.fails(74, "output", "--reveal", key="key")
        assert house.ok("output", "password", "--reveal", key="other") == f"{SECRET}\n"
        assert " updated" not in house.ok("apply", "site.yaml", key="other")
        assert "every row is intact" in house.ok("state", "check", key="other")

    def test_a_new_data_key_leaves_no_ciphertext_as_it_was(self, house: House) -> None:
        """Under the same key: for when the old state has got into wrong hands."""
        house.ok("apply", "site.yaml", key="key")
        before = self.boxes(house)
        house.ok("state", "rekey", key="key")
        assert before
        assert not before & self.boxes(house)
        raw = (house.path / "state/state.db").read_bytes()
        assert not any(box.encode() in raw for box in before)

    def test_what_is_kept_of_older_states_can_be_dropped(self, house: House) -> None:
        """Generations are as they were; without them only the present state is left."""
        house.ok("apply", "site.yaml", key="key")
        before = self.boxes(house)
        house.ok("state", "rekey", "--to", "file:other", key="key")
        assert any(box.encode() in (house.path / "state/state.db.2").read_bytes() for box in before)
        house.ok("state", "rekey", "--drop-generations", key="other")
        assert sorted(path.name for path in (house.path / "state").glob("state.db.[0-9]")) == ["state.db.1"]
        files = [path.read_bytes() for path in (house.path / "state").iterdir()]
        assert not any(box.encode() in content for box in before for content in files)

    def test_encryption_can_be_given_up(self, house: House) -> None:
        """Digests are left, and nothing looks changed."""
        house.ok("apply", "site.yaml", key="key")
        assert "not encrypted any more" in house.ok("state", "rekey", "--decrypt", key="key")
        assert not self.boxes(house)
        assert " updated" not in house.ok("apply", "site.yaml")
        assert "only a digest" in house.fails(1, "output", "--reveal")

    def test_it_is_refused_without_the_key_of_now(self, house: House) -> None:
        """None, a wrong one; wishes that contradict each other; and where there is nothing."""
        assert "nothing is recorded" in house.fails(64, "state", "rekey", key="key")
        house.ok("apply", "site.yaml", key="key")
        assert "is encrypted; name its key" in house.fails(64, "state", "rekey", "--to", "file:other")
        assert "another key" in house.fails(74, "state", "rekey", key="other")
        assert "do not go together" in house.fails(64, "state", "rekey", "--decrypt", "--to", "file:other", key="key")
        assert "kept in memory" in house.fails(
            64, "state", "rekey", "--project", "house", "--state", "memory:", key="key"
        )
        assert house.ok("output", "password", "--reveal", key="key") == f"{SECRET}\n"

    def boxes(self, house: House) -> set[str]:
        """Give every ciphertext in the database."""
        with closing(sqlite3.connect(house.path / "state/state.db")) as connection:
            tables = ("SELECT body FROM stack", "SELECT body FROM resource")
            rows = [body for query in tables for (body,) in connection.execute(query)]
        found: set[str] = set()
        for row in rows:
            json.loads(row, object_hook=lambda each: found.add(each["box"]) if "box" in each else None)
        return found


class TestOtherCommands:
    """What does not use the state does not need its key."""

    def test_single_resources_are_changed_without_a_key(self, house: House) -> None:
        """Whether an encrypted state has them cannot be said then; with the key it is."""
        house.ok("apply", "site.yaml", key="key")
        house.ok("resource", "door", "front", "colour=red")
        done = house.run("resource", "door", "front", "colour=blue", "--key", "file:key")
        assert "is recorded in stack 'default' of 'house'" in done.stderr

    def test_history_and_recovery_need_none(self, house: House) -> None:
        """They hold no secret."""
        house.ok("apply", "site.yaml", key="key")
        for command in ("history", "check", "recover"):
            house.ok("state", command)

    def test_a_passphrase_reaches_no_child(self, house: House) -> None:
        """It is taken out of the environment before anything is run."""
        house.env |= {"RESOURCE_API_PASSPHRASE": "correct-horse-battery", "RESOURCE_API_KEY": "passphrase:"}
        text = "project: p\nresources:\n  Exec[env]: {command: [/bin/sh, -c, env > world/env], cwd: %s}\n"
        (house.path / "run.yaml").write_text(text % house.path, encoding="utf-8")
        house.ok("apply", "run.yaml")
        assert "correct-horse" not in (house.path / "world/env").read_text(encoding="utf-8")
        assert house.ok("output", "--json") == "{}\n"
