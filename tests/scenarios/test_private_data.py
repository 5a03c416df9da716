"""Private data of providers: kept in the record, given back to the provider, shown on request only (contract §10.9)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

MANIFEST = "resources:\n  Probe[a]: {size: 1}\n"
#: The objects of an API that can be found by their numbers only, which the provider keeps as private data.
PROVIDER = """
def get(self, context, names=None):
    rows = self._rows()
    for name in names or ():
        data = context.private(name)
        row = rows.get(data["id"]) if data else None
        if row:
            if os.environ.get("TOUCH"):
                context.store_private(name, {**data, "seen": os.environ["TOUCH"]})
            yield {**row, "name": name}

def set(self, context, changes):
    for name, (is_, should) in changes.items():
        number = (context.private(name) or {"id": f"n{len(self._rows())}"})["id"]
        with context.processing(name, is_ or {}, should):
            data = {"id": number, "of": [1, {"deep": None}]}
            if os.environ.get("TOKEN"):
                data["token"] = Sensitive(os.environ["TOKEN"])
            context.store_private(name, data)
            rows = self._rows()
            if should["ensure"] == "absent":
                rows.pop(number)
                self._file().write_text(json.dumps(rows))
            else:
                self._put(number, {**(is_ or {}), **should})
            if os.environ.get("FAIL"):
                context.fail("the second half failed")
"""


@pytest.fixture(params=["", "1"], ids=["here", "in_a_worker"])
def isolate(request: pytest.FixtureRequest) -> str:
    """Return the isolation of providers."""
    return str(request.param)


@pytest.fixture
def api(bench: Bench) -> Bench:
    """Return a bench with a provider that keeps the numbers of its objects, and a state in a file."""
    bench.probe(PROVIDER, features=("simple_get_filter",))
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    return bench


def private(bench: Bench, reference: str = "Probe[a]", *options: str, **environment: str) -> Any:
    """Return the private data that ``state show --private`` prints."""
    outcome = bench.run("state", "show", reference, "--project", "site", "--private", "--json", *options, **environment)
    assert outcome.code == 0, outcome.err
    return outcome.document.get("private")


def test_a_resource_is_found_by_its_private_data(api: Bench) -> None:
    """Create, a silent second run, update and destroy of what can be found by a number only."""
    assert api.apply(MANIFEST).code == 0
    assert private(api) == {"id": "n0", "of": [1, {"deep": None}]}
    for _ in range(3):  # the last ones may rely on the conclusion of the one before
        assert "1 unchanged" in api.apply(MANIFEST).out
    assert api.apply(MANIFEST.replace("1", "2")).code == 0
    assert list(api.things("probe")) == ["n0"]
    assert api.run("destroy", "site.yaml", "--yes").code == 0
    assert api.things("probe") == {}
    assert api.run("state", "show", "Probe[a]", "--project", "site").code != 0


def test_it_is_shown_on_request_only(api: Bench) -> None:
    """Neither ``state show`` nor a plan has it; an export does, and its import brings it back."""
    api.apply(MANIFEST)
    output = api.run("state", "show", "Probe[a]", "--project", "site")
    assert "n0" not in output.out
    assert "private: {id: n0" in api.run("state", "show", "Probe[a]", "--project", "site", "--private").out
    assert "n0" not in api.run("plan", "site.yaml", "--json").out
    exported = api.run("state", "export", "--project", "site")
    assert json.loads(exported.out)["resources"][0]["private"]["id"] == "n0"
    (api.home / "export.json").write_text(exported.out)
    second = {"RESOURCE_API_STATE": f"sqlite:{api.home}/other.db"}
    assert api.run("state", "import", "export.json", **second).code == 0
    assert "1 unchanged" in api.run("apply", "site.yaml", **second).out


def test_it_follows_a_renamed_record(api: Bench) -> None:
    """``state mv`` is no new creation."""
    api.apply(MANIFEST)
    assert api.run("state", "mv", "Probe[a]", "Probe[b]", "--project", "site").code == 0
    assert "1 unchanged" in api.apply(MANIFEST.replace("[a]: {", "[b]: {name: a, ")).out
    assert private(api, "Probe[b]")["id"] == "n0"


def test_a_noop_run_stores_nothing(api: Bench) -> None:
    """The call may store; the record has the former content."""
    api.apply(MANIFEST)
    assert api.run("apply", api.write("site.yaml", MANIFEST.replace("1", "2")), "--noop", TOKEN="t").code == 0
    assert "token" not in private(api)


def test_a_failed_call_keeps_what_it_stored(api: Bench) -> None:
    """Half an object is found again, and completed."""
    assert api.run("apply", api.write("site.yaml", MANIFEST), FAIL="1").code == 1
    assert private(api)["id"] == "n0"
    assert api.apply(MANIFEST).code == 0
    assert list(api.things("probe")) == ["n0"]


def test_a_reading_stores_with_a_record_that_is_written_anyway(api: Bench) -> None:
    """A run without changes writes nothing; ``refresh`` does."""
    api.apply(MANIFEST)
    assert "1 unchanged" in api.run("apply", "site.yaml", TOUCH="run").out
    assert "seen" not in private(api)
    assert api.run("refresh", "site.yaml", TOUCH="refresh").code == 0
    assert private(api)["seen"] == "refresh"


def test_secrets_need_a_key_before_anything_is_created(api: Bench) -> None:
    """Without one the call fails with the command that makes one; with one they are encrypted and come back."""
    refused = api.run("apply", api.write("site.yaml", MANIFEST), TOKEN="hunter2-token")
    assert refused.code == 1
    assert "'resource-api new key PATH' makes one, and --key file:PATH names it" in refused.err
    assert api.things("probe") == {}
    assert api.run("new", "key", "key").code == 0
    key = ("--key", "file:key")
    api.environment["RESOURCE_API_STATE"] = f"sqlite:{api.home}/encrypted.db"
    assert api.run("apply", "site.yaml", *key, TOKEN="hunter2-token").code == 0
    assert b"hunter2" not in (api.home / "encrypted.db").read_bytes()
    output = api.run("state", "show", "Probe[a]", "--project", "site", "--private", *key)
    assert "hunter2" not in output.out
    assert "1 unchanged" in api.run("apply", "site.yaml", *key, TOKEN="hunter2-token").out


def test_a_type_with_private_secrets_is_refused_before_its_first_change(bench: Bench) -> None:
    """Neither plan nor apply goes on without a key; nothing was called, and with a key both do."""
    bench.probe(PROVIDER, features=("simple_get_filter", "private_secrets"))
    bench.write("site.yaml", MANIFEST)
    state = ("--state", f"sqlite:{bench.home}/state.db")
    message = (
        "Error: Probe[a]: its private data holds secrets, and the state has no key: 'resource-api new key PATH' makes"
        " one, and --key file:PATH names it"
    )
    for command in ("plan", "apply"):
        refused = bench.run(command, "site.yaml", *state)
        assert (refused.code, refused.lines) == (64, [message])
    assert bench.things("probe") == {}
    assert bench.run("new", "key", "key").code == 0
    assert bench.run("apply", "site.yaml", *state, "--key", "file:key", TOKEN="t").code == 0


def test_only_json_with_secrets_is_private_data(bench: Bench) -> None:
    """Another value fails the call; so does data of a resource that is not in it."""
    bench.probe(
        """
        def set(self, context, changes):
            if os.environ["CASE"] == "type":
                context.store_private("a", {"when": Path("/")})
            context.store_private("other", {})
        """
    )
    wrong = bench.run("apply", bench.write("site.yaml", MANIFEST), CASE="type")
    assert "private data must be JSON with Sensitive values, and contains a value of type PosixPath" in wrong.err
    assert "other is not among the changes of this call" in bench.run("apply", "site.yaml", CASE="name").err
