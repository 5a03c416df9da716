"""The changes that an imperative resource would make, and the values that its run yields."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

ATTRIBUTES = (
    "'name': Attribute('String', 'Name.', kind='namevar'), 'result': Attribute('String', 'Result.', kind='read_only')"
)
PROVIDER = """
def get(self, context, names=None):
    return [{"name": name, "result": f"{name} {'done' if self.path(name).exists() else 'missing'}"} for name in names]
def path(self, name):
    return Path(os.environ["BENCH"], name)
def due(self, context, name, should):
    changes = [("path (content)", "a\\n" * 3, "a\\n" * 3 + "b\\n")]
    return False if self.path(name).exists() else (True, "is missing", changes)
def set(self, context, changes):
    for name in changes:
        with context.updating(name):
            self.path(name).touch()
"""
MANIFEST = "project: p\nresources: {'Chore[a]': {}, 'Widget[w]': {colour: 'it is ${Chore[a].result}'}}"


@pytest.fixture
def chores(bench: Bench) -> Bench:
    """Return a bench with an imperative type that yields a value, and a state."""
    features = ["imperative", "simple_get_filter"]
    bench.type("chore", ATTRIBUTES, provider=PROVIDER, base="BaseProvider", features=features)
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home / 'state.db'}"
    return bench


@pytest.mark.parametrize("isolation", [(), ("--isolate",)], ids=["here", "worker"])
def test_the_plan_shows_the_changes_that_due_tells(chores: Bench, isolation: tuple[str, ...]) -> None:
    """As text and in JSON, also from a provider in a worker."""
    planned = chores.plan(MANIFEST, *isolation)
    assert "~ Chore[a] (is missing)\n    path (content) changed (+1 -0 lines)\n" in planned.out
    assert "      +b\n" in planned.out
    (change,) = chores.plan(MANIFEST, "--json", *isolation).document["steps"][0]["changes"]
    assert (change["attribute"], change["is"]) == ("path (content)", "a\na\na\n")


def test_the_values_of_a_run_are_known_after_it(chores: Bench) -> None:
    """To others in the same run, and in the next one, in which it is not due."""
    assert "(known after apply)" in chores.plan(MANIFEST).out
    assert ": 1 created, 1 run, 0 unchanged." in chores.apply(MANIFEST).out
    assert "2 unchanged" in chores.apply(MANIFEST).out
    assert "colour: it is a done" in chores.run("resource", "widget", "w").out


def test_due_cannot_change_the_declared_values(chores: Bench) -> None:
    """It gets a copy of them, also of lists, as every method does."""
    chores.type(
        "chore",
        "'name': Attribute('String', 'Name.', kind='namevar'), 'words': Attribute('Array[String]', 'Words.')",
        provider="""
        def get(self, context):
            return []
        def due(self, context, name, should):
            should["words"].append("more")
            return True
        def set(self, context, changes):
            for name, change in changes.items():
                context.notice(name, message=" ".join(change.should["words"]))
        """,
        base="BaseProvider",
        features=["imperative"],
    )
    assert "Notice: Chore[a]: one\n" in chores.apply("project: p\nresources: {'Chore[a]': {words: [one]}}").err


def test_a_wrong_answer_of_due_fails_the_resource(chores: Bench) -> None:
    """With the forms that are allowed."""
    chores.type(
        "chore",
        ATTRIBUTES,
        provider=PROVIDER.replace('(True, "is', '(1, "is'),
        base="BaseProvider",
        features=["imperative", "simple_get_filter"],
    )
    planned = chores.plan(MANIFEST)
    assert "due must return True, False, (True, why) or (True, why, changes), not tuple" in planned.err
