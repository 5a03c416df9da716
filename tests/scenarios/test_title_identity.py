"""Types whose resources have a name in manifests only (``identity="title"``, contract §10.9)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

MANIFEST = "resources:\n  Probe[a]: {size: 1}\n"
#: Objects with numbers that the API chooses; each creation is counted by a line of a file.
PROVIDER = """
def get(self, context, names=None):
    if names is None:
        raise CannotList("objects have no names")
    rows = self._rows()
    for name in names:
        row = rows.get((context.private(name) or {}).get("id", ""))
        if row:
            yield {**row, "name": name}

def set(self, context, changes):
    for name, (is_, should) in changes.items():
        with context.processing(name, is_ or {}, should):
            rows = self._rows()
            number = (context.private(name) or {"id": f"n{len(rows)}"})["id"]
            if should["ensure"] == "absent":
                del rows[number]
                self._file().write_text(json.dumps(rows))
                continue
            self._put(number, {**(is_ or {}), **should})
            if is_ is None and os.environ.get("HANG"):
                Path(os.environ["HANG"]).touch()
                import time
                time.sleep(60)
            context.store_private(name, {"id": number})
"""


@pytest.fixture
def api(bench: Bench) -> Bench:
    """Return a bench with such a type, and a state in a file."""
    bench.probe(PROVIDER, features=("simple_get_filter",), identity="title")
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    return bench


def kill_while_creating(api: Bench) -> None:
    """Kill an apply after the object was made, and before its number was stored."""
    marker = api.home / "created"
    argv = [sys.executable, "-P", "-m", "resource_api", "apply", str(api.write("site.yaml", MANIFEST))]
    process = subprocess.Popen(
        argv, cwd=api.home, env=api.environment | {"HANG": str(marker)}, stderr=subprocess.DEVNULL
    )
    end = time.monotonic() + 20
    while not marker.exists() and time.monotonic() < end:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert marker.exists()


@pytest.mark.parametrize("keyword", ["moved: [{from: 'Probe[a]', to: 'Probe[b]'}]\n", ""], ids=["moved", "aliases"])
def test_a_renamed_resource_is_the_same_object(api: Bench, keyword: str) -> None:
    """Neither a second object nor a deletion, also with ``--prune``."""
    api.apply(MANIFEST)
    lifecycle = "" if keyword else ", lifecycle: {aliases: ['Probe[a]']}"
    renamed = f"{keyword}resources:\n  Probe[b]: {{size: 1{lifecycle}}}\n"
    for _ in range(2):
        outcome = api.apply(renamed, "--prune")
        assert outcome.code == 0, outcome.err
        assert list(api.things("probe")) == ["n0"]
    assert api.run("destroy", "site.yaml", "--yes").code == 0
    assert api.things("probe") == {}


@pytest.mark.parametrize("isolate", ["", "1"], ids=["here", "in_a_worker"])
def test_after_a_kill_in_a_creation_nothing_is_created_again(api: Bench) -> None:
    """Plan, apply and destroy fail and name both ways out, until one is taken."""
    kill_while_creating(api)
    state = f"--state sqlite:{api.home}/state.db"
    message = (
        'Probe[a]: an interrupted run may have created it, and it cannot be found by its name: "resource-api import'
        f" MANIFEST 'Probe[a]' ID {state}\" takes it over; if it was not created,"
        f" \"resource-api state rm 'Probe[a]' {state}\""
    )
    for command in (("plan",), ("apply",), ("apply",), ("destroy", "--yes")):
        outcome = api.run(*command, "site.yaml")
        assert outcome.code == 1
        assert message in outcome.out + outcome.err
        assert list(api.things("probe")) == ["n0"]
    removed = api.run("state", "rm", "Probe[a]", "--project", "site")
    assert (removed.code, removed.out) == (0, "forgotten: Probe[a]\n")
    assert api.run("apply", "site.yaml").code == 0
    assert "1 unchanged" in api.run("apply", "site.yaml").out


def test_an_undeclared_creation_in_doubt_is_not_forgotten(api: Bench) -> None:
    """``--prune`` of it fails too."""
    kill_while_creating(api)
    outcome = api.apply("project: site\nresources: {}\n", "--prune")
    assert outcome.code == 1
    assert "an interrupted run may have created it" in outcome.err


def test_such_a_type_has_one_namevar(bench: Bench) -> None:
    """Two of them, or another word, are refused where the type is loaded."""
    bench.probe("def set(self, context, changes): pass", identity="name")
    assert "identity must be 'title' or None, not 'name'" in bench.validate(MANIFEST).err
    bench.type(
        "probe",
        '"a": Attribute("String", "a", kind="namevar"), "b": Attribute("String", "b", kind="namevar")',
        provider="def set(self, context, changes): pass",
        identity="title",
    )
    assert "a type with identity='title' has one namevar, which is the title" in bench.validate(MANIFEST).err


IMPORTING = (
    PROVIDER
    + """
def import_(self, context, name, id):
    if id not in self._rows():
        raise ResourceError(f"the API has no object {id}")
    context.store_private(name, {"id": id})
    return {**self._rows()[id], "name": name}
"""
)


@pytest.fixture
def importing(bench: Bench) -> Bench:
    """Return a bench with such a type that can import, an object of another person, and a state in a file."""
    bench.probe(IMPORTING, features=("simple_get_filter", "import"), identity="title")
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    (bench.things_of / "probe.json").write_text('{"x7": {"name": "?", "ensure": "present", "size": 1}}')
    return bench


@pytest.mark.parametrize("isolate", ["", "1"], ids=["here", "in_a_worker"])
def test_the_command_imports_by_an_id(importing: Bench) -> None:
    """Afterwards the object is ours, read by its number; an unknown id fails with the provider's words."""
    importing.write("site.yaml", MANIFEST)
    refused = importing.run("import", "site.yaml", "Probe[a]", "nope")
    assert refused.code == 1
    assert "Probe[a] cannot be imported: the API has no object nope" in refused.err
    assert importing.run("import", "site.yaml", "Probe[a]", "x7").code == 0
    assert "1 unchanged" in importing.run("apply", "site.yaml").out
    assert importing.run("destroy", "site.yaml", "--yes").code == 0
    assert importing.things("probe") == {}


@pytest.mark.parametrize("isolate", ["", "1"], ids=["here", "in_a_worker"])
def test_a_declared_import_takes_an_id(importing: Bench) -> None:
    """The plan reads the object, the apply records and changes it, and later runs ignore the line."""
    declared = "resources:\n  Probe[a]: {size: 2, lifecycle: {import: x7}}\n"
    assert "size: 1 → 2" in importing.plan(declared).out
    assert "1 imported" in importing.apply(declared).out
    assert {number: row["size"] for number, row in importing.things("probe").items()} == {"x7": 2}
    for text in (declared, declared.replace(", lifecycle: {import: x7}", "")):
        assert "1 unchanged" in importing.apply(text).out
    refused = importing.apply(declared.replace("Probe[a]", "Probe[b]").replace("x7", "nope"))
    assert refused.code == 1
    assert "the API has no object nope" in refused.err


@pytest.mark.parametrize("recorded", [False, True], ids=["intended", "recorded"])
def test_an_import_ends_the_doubt_about_a_creation(importing: Bench, *, recorded: bool) -> None:
    """The object that an interrupted run has made is taken over by its number, also after a failed destruction."""
    kill_while_creating(importing)
    if recorded:
        assert importing.run("destroy", "site.yaml", "--yes").code == 1
    assert importing.run("plan", "site.yaml").code == 1
    assert importing.run("import", "site.yaml", "Probe[a]", "n1").code == 0
    assert "1 unchanged" in importing.run("apply", "site.yaml").out
    assert set(importing.things("probe")) == {"x7", "n1"}
