"""Ephemeral inputs: what may be made from them, and that nothing of them is kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from resource_api.model.sealed_secrets import digest_secret

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

_SECRET = "one-hour-4711"
_INPUT = "project: p\ninputs: {token: {type: String, ephemeral: true}}\n"
_SITE = f"""{_INPUT}values: {{bearer: "Bearer ${{inputs.token}}"}}
resources:
  Door[a]: {{pin: "${{inputs.token}}", key: "${{values.bearer}}", note: NOTE}}
"""
_PYTHON = """
PROJECT = "p"
INPUTS = {"token": {"type": "String", "ephemeral": True}}

def manifest(m):
    m.door("a", pin=m.inputs.token, key=m.text("Bearer {0}", m.inputs.token), note="NOTE")
"""
_COMPONENT = """
from resource_api import Attribute, ComponentDefinition

COMPONENT = ComponentDefinition(
    name="login", docs="A login.", inputs={"token": Attribute("Sensitive[String]", "How to get in.")}
)


def build(m):
    m.door("a", pin=m.inputs.token, key=m.text("Bearer {0}", m.inputs.token), note="NOTE")
"""


_ATTRIBUTES = """
    "name": Attribute("String", "n", kind="namevar"),
    "ensure": Attribute("Enum[present, absent]", "e", default="present"),
    "note": Attribute("Optional[String]", "a"),
    "password": Attribute("Optional[Sensitive[String]]", "p"),
    "pin": Attribute("Optional[Sensitive[String]]", "i", write_only=True),
    "key": Attribute("Optional[String]", "k", kind="parameter"),
"""
_PROVIDER = """
    FILE = Path(os.environ["BENCH"], "door")

    def get(self, context):
        rows = json.loads(self.FILE.read_text()) if self.FILE.exists() else {}
        return [{"name": name, "ensure": "present", "note": row["note"]} for name, row in rows.items()]

    def create(self, context, name, should):
        self.FILE.write_text(json.dumps({name: {key: self.plain(value) for key, value in should.items()}}))

    update = create

    def plain(self, value):
        return value.reveal() if isinstance(value, Sensitive) else value

    def delete(self, context, name):
        self.FILE.unlink()
"""


@pytest.fixture(autouse=True)
def door(bench: Bench) -> None:
    """Write the type ``door``: a property, a secret one, one that is only written, and a parameter."""
    bench.type("door", _ATTRIBUTES, provider=_PROVIDER)


@pytest.fixture
def recording(bench: Bench) -> Bench:
    """Return a bench with a state."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state/state.db"
    bench.write("token", _SECRET)
    return bench


def _apply(bench: Bench, file: str, *options: str) -> str:
    result = bench.run("apply", file, "-i", "token=@token", *options)
    assert result.code == 0, result
    assert _SECRET not in result.out + result.err
    return result.out


def _made(bench: Bench) -> Any:
    return json.loads((bench.things_of / "door").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("file", "text"), [("site.yaml", _SITE), ("site.py", _PYTHON), ("modules/components/login.py", _COMPONENT)]
)
def test_nothing_of_an_ephemeral_input_is_kept(recording: Bench, file: str, text: str) -> None:
    """It reaches the provider with each change, is no reason for one, and no file of the state has it or its digest."""
    manifest, name = file, file
    if file.startswith("modules"):
        manifest = "site.yaml"
        recording.write(manifest, f'{_INPUT}resources: {{"Login[a]": {{token: "${{inputs.token}}"}}}}\n')
    recording.write(name, text.replace("NOTE", "x"))
    _apply(recording, manifest)
    assert _made(recording)["a"]["pin"] == _SECRET
    assert _made(recording)["a"]["key"] == f"Bearer {_SECRET}"
    recording.write("token", "another-one")
    assert "1 unchanged" in _apply(recording, manifest)
    recording.write(name, text.replace("NOTE", "y"))
    assert "1 updated" in _apply(recording, manifest)
    assert _made(recording)["a"]["pin"] == "another-one"
    exported = recording.run("state", "export").document
    salt = bytes.fromhex(exported["salt"])
    content = b"".join(path.read_bytes() for path in (recording.home / "state").rglob("*") if path.is_file())
    assert b"note" in content
    for secret in (_SECRET, f"Bearer {_SECRET}"):
        assert secret.encode() not in content
        assert digest_secret(secret, salt).digest.encode() not in content
    (record,) = (resource for resource in exported["resources"] if resource["type"] == "door")
    assert record["should"].keys() == {"name", "ensure", "note"}
    assert not list(Path(recording.home).rglob("*.converged/*"))


@pytest.mark.parametrize(
    ("body", "location"),
    [
        ("resources: {'Door[a]': {note: '${inputs.token}'}}", "Door[a]"),
        ("values: {v: {w: '${inputs.token}'}}\nresources: {'Door[a]': {note: 'x${values.v.w}'}}", "Door[a]"),
        ("resources: {'Door[a]': {password: '${inputs.token}'}}", "Door[a]"),
        ("resources: {'Login[a]': {token: '${inputs.token}'}}", "Login[a]/Door[a]"),
        ("resources: {}\noutputs: {o: '${inputs.token}'}", "output 'o'"),
    ],
)
def test_an_ephemeral_input_is_refused_where_it_would_be_recorded(bench: Bench, body: str, location: str) -> None:
    """In a property, through a named value or a component, and in an output: with the line."""
    bench.write("token", _SECRET)
    bench.write("modules/components/login.py", _COMPONENT.replace("pin=", "password="))
    bench.write("site.yaml", f"{_INPUT}{body}\n")
    result = bench.run("validate", "site.yaml", "-i", "token=@token")
    assert result.code == 65
    (line,) = result.lines
    assert f"{location}: " in line
    assert "the input 'token' is ephemeral, so that nothing of it is recorded: only parameters, " in line
    assert line[line.index(":") + 1].isdigit()


def test_a_value_that_is_made_from_an_ephemeral_input_cannot_be_referred_to(bench: Bench) -> None:
    """The other resource would record it."""
    bench.write("token", _SECRET)
    text = "resources: {'Door[b]': {note: '${Door[a].key}'}, 'Door[a]': {key: '${inputs.token}'}}"
    bench.write("site.yaml", f"{_INPUT}{text}\n")
    result = bench.run("validate", "site.yaml", "-i", "token=@token")
    assert (result.code, "${Door[a].key} is ephemeral: write the expression" in result.err) == (65, True)


def test_an_ephemeral_input_is_a_secret_and_must_be_given_in_every_run(recording: Bench) -> None:
    """It is refused on the command line, in a saved plan, and missing after it was given once."""
    recording.write("site.yaml", _SITE)
    refused = recording.run("apply", "site.yaml", "-i", f"token={_SECRET}")
    assert (refused.code, _SECRET in refused.err) == (64, False)
    saved = recording.run("plan", "site.yaml", "-i", "token=@token", "-o", "plan.json")
    assert (saved.code, (recording.home / "plan.json").exists()) == (1, False)
    assert "a plan with the ephemeral input 'token' cannot be saved: nothing of it is kept" in saved.err
    _apply(recording, "site.yaml")
    assert recording.run("apply", "site.yaml").code == 65
