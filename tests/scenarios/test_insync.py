"""``insync``: a provider that compares values itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

HAS = {"name": "a", "ensure": "present", "size": 1, "colour": "red"}
DECLARED = "resources: {'Probe[a]': {size: 2, colour: blue}}"


def compare(bench: Bench, body: str, manifest: str = DECLARED, *options: str) -> dict[str, list[tuple[object, ...]]]:
    """Return the changes of a run in which ``insync`` has the given body."""
    bench.put("probe", a=HAS)
    bench.probe(
        f"def insync(self, context, name, attribute, is_, should):\n    {body}\n"
        "def set(self, context, changes): self._done(changes)",
        features=("custom_insync",),
    )
    result = bench.stream(manifest, *options)
    assert result.code == 0, result
    return {
        name: [(change["attribute"], change["message"]) for change in end["changes"]]
        for name, end in result.ends().items()
    }


def test_true_is_in_sync_whatever_the_values(bench: Bench) -> None:
    """``True`` from ``insync`` means no change, although the values differ."""
    assert compare(bench, "return True") == {}


def test_none_means_the_usual_comparison(bench: Bench) -> None:
    """``None`` from ``insync`` compares that attribute in the default way."""
    assert compare(bench, "return None") == {"Probe[a]": [("size", None), ("colour", None)]}
    assert compare(bench, "return None if attribute == 'size' else True") == {"Probe[a]": [("size", None)]}


def test_false_is_a_change_although_the_values_are_equal(bench: Bench) -> None:
    """``False`` with a message causes an update, and the message is logged."""
    same = "resources: {'Probe[a]': {size: 1}}"
    bench.put("probe", a=HAS)
    bench.probe(
        """
        turned = False
        def insync(self, context, name, attribute, is_, should):
            return None if attribute != "size" or self._rows()["a"].get("colour") == "done" else (False, "it is stale")
        def set(self, context, changes): self._put("a", {**changes["a"].is_, "colour": "done"})
        """,
        features=("custom_insync",),
    )
    result = bench.apply(same)
    assert result.code == 0, result
    assert "Notice: Probe[a]: size: it is stale" in result.lines


def test_drift_that_no_value_shows_is_shown_by_its_message(bench: Bench) -> None:
    """The values are equal to the recorded ones: the step is marked as drift, and corrective; the saved plan too."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    flag = bench.home / "stale"
    bench.put("probe", a=HAS)
    bench.probe(
        f"""
        def insync(self, context, name, attribute, is_, should):
            return (False, "it is stale") if attribute == "size" and os.path.exists({str(flag)!r}) else None
        def set(self, context, changes):
            os.remove({str(flag)!r})
            self._done(changes)
        """,
        features=("custom_insync",),
    )
    same = "resources: {'Probe[a]': {size: 1}}"
    flag.touch()
    assert bench.plan(same).out.splitlines()[:2] == ["~ Probe[a]", "    size: it is stale"]  # never applied: no drift
    assert [end["corrective"] for end in bench.stream(same).ends().values()] == [False]
    flag.touch()
    plan = bench.plan(same, "-o", "later.json")
    assert plan.out.splitlines()[:2] == ["~ Probe[a] (drift)", "    size: it is stale"]
    assert bench.run("show", "later.json").out == plan.out
    assert [end["corrective"] for end in bench.stream(same).ends().values()] == [True]
    assert "\n      size: it is stale\n" in bench.run("history", "show").out
    assert bench.stream(same).ends() == {}


def test_a_changed_parameter_is_no_drift_although_no_value_differs(bench: Bench) -> None:
    """The manifest has changed, not the system."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    bench.type(
        "deep",
        bench.NAMED
        + '"size": Attribute("Integer", "s"), "depth": Attribute("Optional[Integer]", "d", kind="parameter"),',
        provider="""
        def get(self, context, names=None): return [{"name": "a", "ensure": "present", "size": 1}]
        def insync(self, context, name, attribute, is_, should):
            return (False, "not deep") if attribute == "size" and should.get("depth") else None
        def set(self, context, changes): pass
        """,
        base="BaseProvider",
        features=("custom_insync",),
    )
    assert bench.apply("resources: {'Deep[a]': {size: 1}}").code == 0
    plan = bench.plan("resources: {'Deep[a]': {size: 1, depth: 2}}")
    assert plan.out.splitlines()[:2] == ["~ Deep[a]", "    size: not deep"]


def test_it_receives_the_name_and_both_states(bench: Bench) -> None:
    """``insync`` is called for the declared properties only."""
    bench.put("probe", a=HAS)
    bench.probe(
        """
        def insync(self, context, name, attribute, is_, should):
            print(f"{name} {attribute} {is_['colour']} {should['size']}", file=sys.stderr)
            return True
        def set(self, context, changes): pass
        """,
        features=("custom_insync",),
    )
    result = bench.apply("resources: {'Probe[a]': {size: 2}}")
    assert result.lines == ["a ensure red 2", "a size red 2"]


def test_a_message_is_shown_in_plan_and_noop(bench: Bench) -> None:
    """The message of ``insync`` is in the plan, under noop too."""
    bench.put("probe", a=HAS)
    bench.probe(
        "def insync(self, context, name, attribute, is_, should):\n"
        "    return (False, 'too pale') if attribute == 'colour' else None\n"
        "def set(self, context, changes): pass",
        features=("custom_insync",),
    )
    manifest = "resources: {'Probe[a]': {colour: blue}}"
    assert "too pale" in bench.plan(manifest).out
    noop = bench.apply(manifest, "--noop")
    assert ("too pale" in noop.out, noop.err) == (True, "")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("1 / 0", "division by zero"),
        ("return 'yes'", "insync"),
        ("return (True, 'x')", "insync"),
        ("return 1", "insync"),
    ],
)
def test_a_failing_comparison_fails_its_resource(bench: Bench, body: str, words: str) -> None:
    """An exception or a wrong return value fails the resource, and its dependents are skipped."""
    bench.put("probe", a=HAS)
    bench.probe(
        f"def insync(self, context, name, attribute, is_, should):\n    {body}\n"
        "def set(self, context, changes): self._done(changes)",
        features=("custom_insync",),
    )
    result = bench.stream(
        "resources: {'Probe[a]': {size: 2}, 'Widget[a]': {require: 'Probe[a]'}}", "--detailed-exitcodes"
    )
    assert result.code == 4
    assert words in result.ends()["Probe[a]"]["error"]
    assert result.ends()["Widget[a]"]["status"] == "skipped"
    assert bench.things("probe") == {"a": HAS}


def test_insync_can_accept_a_superset(bench: Bench) -> None:
    """A provider can accept a list that contains all declared members."""
    bench.type(
        "crowd",
        bench.NAMED + '"members": Attribute("Array[String]", "m"),',
        provider="""
        def get(self, context): return [{"name": "a", "ensure": "present", "members": ["x", "y", "z"]}]
        def insync(self, context, name, attribute, is_, should):
            return set(should["members"]) <= set(is_["members"]) if attribute == "members" else None
        """,
        features=["custom_insync"],
    )
    assert bench.apply("resources: {'Crowd[a]': {members: [z, x]}}", "--detailed-exitcodes").code == 0
