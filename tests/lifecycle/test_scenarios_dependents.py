"""Which dependents a delete-first replacement includes: those created from it, and those that vanish with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from resource_api.model.action import Action
from tests.lifecycle.world import FIRST, acted, calls, planned

if TYPE_CHECKING:
    from tests.lifecycle.world import Bench


def made_from(*sources: str) -> dict[str, Any]:
    """Return a thing with an ``init_only`` value that refers to the names of others, which are always known."""
    return {"image": " ".join(f"${{Thing[{source}].name}}" for source in sources), "lifecycle": FIRST}


def shows(*sources: str) -> dict[str, Any]:
    """Return a thing with a value of others that can be updated."""
    return {"colour": " ".join(f"${{Thing[{source}].serial}}" for source in sources), "lifecycle": FIRST}


def twelve(image: str) -> dict[str, Any]:
    """Return the twelve resources of Pulumi's own test: the first two dependents of A, C and D are created from it.

    Pulumi's providers, and properties that replace, are ``init_only`` values here.
    """
    return {
        "Thing[A]": {"image": image, "lifecycle": FIRST},
        "Thing[B]": made_from("A"),
        "Thing[C]": made_from("A"),
        "Thing[D]": shows("A"),
        "Thing[E]": made_from("C"),
        "Thing[F]": made_from("C"),
        "Thing[G]": shows("C"),
        "Thing[H]": made_from("D"),
        "Thing[I]": made_from("D"),
        "Thing[J]": shows("D"),
        "Thing[K]": made_from("F", "G"),
        "Thing[L]": shows("F", "G"),
    }


def test_of_twelve_resources_six_are_replaced(bench: Bench) -> None:
    """A is replaced: B and C with it, E and F with C, K with F; the others stay, and keep their values."""
    bench.apply(twelve("x"))
    plan = bench.plan(twelve("y"))
    assert {name for name, action in planned(plan).items() if action == "replace"} == {
        f"Thing[{letter}]" for letter in "ABCEFK"
    }
    bench.apply(twelve("y"))
    gone = [name for verb, _, name in bench.world.calls if verb == "delete"]
    assert set(gone) == set("ABCEFK")
    assert gone[-1] == "A"
    assert gone.index("K") < gone.index("F") < gone.index("C")
    assert gone.index("E") < gone.index("C")
    assert planned(bench.plan(twelve("y"))) == {}


def test_only_the_dependent_with_an_init_only_value_is_replaced_too(bench: Bench) -> None:
    """B only requires A, C is created from A, D from B: A and C are replaced, B and D stay."""
    site: dict[str, Any] = {
        "Thing[a]": {"image": "x", "lifecycle": FIRST},
        "Thing[b]": {"require": "Thing[a]", "lifecycle": FIRST},
        "Thing[c]": {"image": "${Thing[a].serial}", "lifecycle": FIRST},
        "Thing[d]": {"image": "${Thing[b].serial}", "lifecycle": FIRST},
    }
    bench.apply(site)
    site["Thing[a]"]["image"] = "y"
    assert planned(bench.plan(site)) == {"Thing[a]": "replace", "Thing[c]": "replace"}
    bench.apply(site)
    assert calls(bench) == "-c -a +a +c"


def test_the_reason_names_the_source(bench: Bench) -> None:
    """Nothing of C differs, so its values alone would not explain its replacement."""
    bench.apply({"Thing[a]": {"image": "x", "lifecycle": FIRST}, "Thing[c]": made_from("a")})
    plan = bench.plan({"Thing[a]": {"image": "y", "lifecycle": FIRST}, "Thing[c]": made_from("a")})
    decision = plan.steps[1].decision
    assert decision.reasons == ("image comes from Thing[a], which is replaced",)
    assert tuple(decision.replaces_because) == ("image",)


@pytest.mark.parametrize(
    ("lifecycle", "words"),
    [
        ({}, "lifecycle.replace: delete_first would replace it"),
        ({"replace": "never"}, "lifecycle.replace is never"),
        ({"replace": "create_first"}, "same name"),
        ({"replace": "delete_first", "protect": True}, "is protected"),
        ({"replace": "delete_first", "retain": True}, "is retained"),
    ],
)
def test_a_dependent_that_must_not_be_replaced_keeps_its_source(
    bench: Bench, lifecycle: dict[str, Any], words: str
) -> None:
    """It is an error of the dependent, found in the plan, and nothing of the chain is changed."""
    site: dict[str, Any] = {
        "Thing[a]": {"image": "x", "lifecycle": FIRST},
        "Thing[b]": {"image": "${Thing[a].serial}", "lifecycle": lifecycle},
        "Thing[c]": {},
    }
    bench.apply(site)
    site["Thing[a]"]["image"], site["Thing[c]"]["size"] = "y", 1
    steps = {str(step.reference): step for step in bench.plan(site).steps}
    assert words in steps["Thing[b]"].decision.error
    assert acted(bench.apply(site)) == {
        "Thing[a]": ("replace", "skipped"),
        "Thing[b]": ("replace", "failed"),
        "Thing[c]": ("update", "success"),
    }
    assert calls(bench) == "~c"


def test_an_unknown_value_of_a_changed_source_needs_no_permission(bench: Bench) -> None:
    """A is only updated: the dependent is decided right before its step, and nothing differs then."""
    site: dict[str, Any] = {"Thing[a]": {"size": 1}, "Thing[b]": {"image": "${Thing[a].serial}"}}
    bench.apply(site)
    site["Thing[a]"]["size"] = 2
    assert acted(bench.apply(site)) == {"Thing[a]": ("update", "success")}


def test_replace_on_changes_replaces_a_dependent_too(bench: Bench) -> None:
    """It applies to a value that is unknown while its source is deleted, and is sufficient permission."""
    site: dict[str, Any] = {
        "Thing[a]": {"image": "x", "lifecycle": FIRST},
        "Thing[b]": {"colour": "${Thing[a].name}", "lifecycle": {"replace_on_changes": ["colour"]}},
    }
    bench.apply(site)
    site["Thing[a]"]["image"] = "y"
    bench.apply(site)
    assert calls(bench) == "-b -a +a +b"


def test_an_ignored_value_replaces_no_dependent(bench: Bench) -> None:
    """A resource is not created from a value that is ignored."""
    site: dict[str, Any] = {
        "Thing[a]": {"image": "x", "lifecycle": FIRST},
        "Thing[b]": {"image": "${Thing[a].name}", "lifecycle": {**FIRST, "ignore_changes": ["image"]}},
    }
    bench.apply(site)
    site["Thing[a]"]["image"] = "y"
    assert planned(bench.plan(site)) == {"Thing[a]": "replace"}


def test_a_create_first_replacement_includes_no_dependents(bench: Bench) -> None:
    """One of the two always exists: a dependent whose value stays the same stays."""
    lifecycle = {"replace": "create_first"}
    site: dict[str, Any] = {
        "Thing[a]": {"name": "a1", "image": "x", "lifecycle": lifecycle},
        "Thing[b]": {"image": "${Thing[a].image}", "lifecycle": FIRST},
    }
    bench.apply(site)
    site["Thing[a]"]["name"] = "a2"
    bench.apply(site)
    assert calls(bench) == "+a2 -a1"


def test_a_former_dependent_stays(bench: Bench) -> None:
    """B was created from A and is declared without it now: the declaration decides."""
    bench.apply({"Thing[a]": {"image": "x", "lifecycle": FIRST}, "Thing[b]": made_from("a")})
    bench.apply({"Thing[b]": {"image": "a", "lifecycle": FIRST}, "Thing[a]": {"image": "y", "lifecycle": FIRST}})
    assert calls(bench) == "-a +a"


def test_a_noop_replacement_includes_no_dependents(bench: Bench) -> None:
    """A is only shown, so B stays, as ``--noop`` says; without A's own ``noop`` both are shown there."""
    site: dict[str, Any] = {"Thing[a]": {"image": "x", "lifecycle": FIRST}, "Thing[b]": made_from("a")}
    bench.apply(site)
    site["Thing[a]"].update(image="y", noop=True)
    for options in ({}, {"noop": True}):
        assert acted(bench.apply(site, **options)) == {"Thing[a]": ("replace", "noop")}
    del site["Thing[a]"]["noop"]
    assert acted(bench.apply(site, noop=True)) == {"Thing[a]": ("replace", "noop"), "Thing[b]": ("replace", "noop")}


def test_a_resource_deleted_with_its_host_is_created_again_with_it(bench: Bench) -> None:
    """B is replaced when A is, after A was created again, and without a call for its deletion."""
    site: dict[str, Any] = {
        "Thing[b]": {"lifecycle": {"deleted_with": "Thing[a]"}},
        "Thing[a]": {"image": "x", "lifecycle": FIRST},
    }
    bench.apply(site)
    site["Thing[a]"]["image"] = "y"
    plan = bench.plan(site)
    assert planned(plan) == {"Thing[a]": "replace", "Thing[b]": "replace"}
    assert plan.steps[1].decision.reasons == ("goes with Thing[a], which is replaced",)
    remove = bench.world.change

    def change(kind: str, name: str, is_: Any, should: dict[str, Any], context: Any) -> None:
        remove(kind, name, is_, should, context)
        if should.get("ensure") == "absent" and name == "a":
            del bench.world.things["thing"]["b"]

    bench.world.change = change  # type: ignore[method-assign]
    bench.world.calls.clear()
    assert bench.runtime.apply({"project": "world", "resources": site}).exit_code == 0
    assert calls(bench) == "-a +a +b"
    assert bench.names() == ["a", "b"]


def vanishing(bench: Bench, guest: str, host: str) -> None:
    """Make a thing vanish when its host is deleted."""
    change = bench.world.change

    def vanish(kind: str, name: str, is_: Any, should: dict[str, Any], context: Any) -> None:
        change(kind, name, is_, should, context)
        if should.get("ensure") == "absent" and name == host and name not in bench.names():
            bench.world.things["thing"].pop(guest, None)

    bench.world.change = vanish  # type: ignore[method-assign]


@pytest.mark.parametrize("parallel", [1, 4])
@pytest.mark.parametrize("required", [False, True])
def test_deleted_with_a_create_first_host_is_created_after_the_deletion(
    bench: Bench, parallel: int, *, required: bool
) -> None:
    """The new host is created, the old one deleted, then B created: no call for its deletion."""
    lifecycle = {"replace": "create_first"}
    guest: dict[str, Any] = {"lifecycle": {"deleted_with": "Thing[host]"}}
    guest |= {"require": "Thing[host]"} if required else {}
    bench.apply({"Thing[host]": {"name": "h1", "lifecycle": lifecycle}, "Thing[b]": guest})
    vanishing(bench, "b", "h1")
    site = {
        "Thing[host]": {"name": "h2", "lifecycle": lifecycle},
        "Thing[b]": guest,
        "Thing[c]": {"require": "Thing[b]"},
    }
    bench.world.calls.clear()
    assert bench.runtime.apply({"project": "world", "resources": site}, parallel=parallel).exit_code == 0
    assert calls(bench) == "+h2 -h1 +b +c"
    assert bench.names() == ["b", "c", "h2"]
    assert acted(bench.apply(site)) == {}


def assert_guest_goes_with_its_old_host(bench: Bench, site: dict[str, Any]) -> None:
    """Apply what is left: the old host is deleted, B created, and then nothing is left to do."""
    vanishing(bench, "b", "h1")
    bench.world.calls.clear()
    assert bench.runtime.apply({"project": "world", "resources": site}).exit_code == 0
    assert calls(bench) == "-h1 +b"
    assert acted(bench.apply(site)) == {}


@pytest.mark.parametrize("again", ["deleted", "cut"])
def test_deleted_with_waits_for_the_deletion_of_the_old_host(bench: Bench, again: str) -> None:
    """The old host could not be deleted, or the run was killed before: B stays, and the next run does the rest."""
    lifecycle = {"replace": "create_first"}
    guest: dict[str, Any] = {"lifecycle": {"deleted_with": "Thing[host]"}}
    bench.apply({"Thing[host]": {"name": "h1", "lifecycle": lifecycle}, "Thing[b]": guest})
    site = {"Thing[host]": {"name": "h2", "lifecycle": lifecycle}, "Thing[b]": guest}
    with bench.troubled(h1="raise" if again == "deleted" else "kill"):
        if again == "cut":
            bench.killed(site)
        else:
            assert acted(bench.apply(site))["Thing[b]"] == ("replace", "skipped")
    assert bench.names() == ["b", "h1", "h2"]
    assert_guest_goes_with_its_old_host(bench, site)


def test_deleted_with_waits_for_the_old_host_under_another_title(bench: Bench) -> None:
    """The host has another title in the next run, in which its former one is deleted: B goes with that all the same."""
    lifecycle = {"replace": "create_first"}
    guest: dict[str, Any] = {"lifecycle": {"deleted_with": "Thing[host]"}}
    bench.apply({"Thing[host]": {"name": "h1", "lifecycle": lifecycle}, "Thing[b]": guest})
    with bench.troubled(h1="raise"):
        bench.apply({"Thing[host]": {"name": "h2", "lifecycle": lifecycle}, "Thing[b]": guest})
    guest = {"lifecycle": {"deleted_with": "Thing[server]"}}
    site = {"Thing[server]": {"name": "h2", "lifecycle": lifecycle}, "Thing[b]": guest}
    assert_guest_goes_with_its_old_host(bench, site)


def test_a_protected_resource_keeps_its_host(bench: Bench) -> None:
    """Nothing of the chain is changed."""
    site: dict[str, Any] = {
        "Thing[a]": {"image": "x", "lifecycle": FIRST},
        "Thing[b]": {"require": "Thing[a]", "lifecycle": {"deleted_with": "Thing[a]", "protect": True}},
    }
    bench.apply(site)
    site["Thing[a]"]["image"] = "y"
    assert acted(bench.apply(site)) == {"Thing[a]": ("replace", "skipped"), "Thing[b]": ("replace", "failed")}
    assert bench.world.calls == []


def test_nothing_is_deleted_before_its_successor_can_be_created(bench: Bench) -> None:
    """B is replaced and needs A, whose change fails: B stays, because it could not be created again."""
    site: dict[str, Any] = {
        "Thing[a]": {"size": 1},
        "Engine[e]": {},
        "Thing[b]": {"image": "x", "require": "Thing[a]", "lifecycle": FIRST},
    }
    bench.apply(site)
    site["Thing[a]"]["size"], site["Thing[b]"]["image"] = 2, "y"
    with bench.troubled(a="raise"):
        assert acted(bench.apply(site)) == {"Thing[a]": ("update", "failed"), "Thing[b]": ("replace", "skipped")}
    assert bench.world.things["thing"]["b"]["image"] == "x"


def test_a_chain_through_an_unchanged_resource_is_ordered(bench: Bench) -> None:
    """B is created from A and needs X, which needs A: B is deleted first, then A; X stays between their creations."""
    site: dict[str, Any] = {
        "Thing[a]": {"image": "x", "lifecycle": FIRST},
        "Thing[x]": {"size": 1, "require": "Thing[a]"},
        "Thing[b]": {"image": "${Thing[a].name}", "require": "Thing[x]", "lifecycle": FIRST},
    }
    bench.apply(site)
    site["Thing[a]"]["image"], site["Thing[x]"]["size"] = "y", 2
    bench.apply(site)
    assert calls(bench) == "-b -a +a ~x +b"


def test_the_plan_of_a_replaced_dependent_is_a_creation(bench: Bench) -> None:
    """Its provider receives nothing of the old resource."""
    bench.apply({"Thing[a]": {"image": "x", "lifecycle": FIRST}, "Thing[c]": made_from("a")})
    observed = []
    remove = bench.world.change

    def change(kind: str, name: str, is_: Any, should: dict[str, Any], context: Any) -> None:
        observed.append((name, is_, should["ensure"]))
        remove(kind, name, is_, should, context)

    bench.world.change = change  # type: ignore[method-assign]
    bench.apply({"Thing[a]": {"image": "y", "lifecycle": FIRST}, "Thing[c]": made_from("a")})
    assert [(name, is_) for name, is_, ensure in observed if ensure == "present"] == [("a", None), ("c", None)]
    assert {step.action for step in bench.plan({"Thing[a]": {"image": "y"}, "Thing[c]": made_from("a")}).steps} == {
        Action.SAME
    }


def test_a_target_is_not_replaced_without_its_dependents(bench: Bench) -> None:
    """B would have to be replaced with A and is no target: nothing is changed, and the message names the option."""
    site: dict[str, Any] = {
        "Thing[a]": {"image": "x", "lifecycle": FIRST},
        "Thing[b]": made_from("a"),
        "Thing[c]": {"require": "Thing[a]"},
    }
    bench.apply(site)
    site["Thing[a]"]["image"] = "y"
    report = bench.apply(site, targets=("Thing[a]",))
    assert "would take Thing[b] along, which is not among the targets" in report.steps[0].error
    assert bench.world.calls == []
    bench.apply(site, targets=("Thing[a]", "Thing[b]"))
    assert calls(bench) == "-b -a +a +b"
    site["Thing[a]"]["image"] = "z"
    bench.apply(site, targets=("Thing[a]",), with_dependents=True)
    assert calls(bench) == "-b -a +a +b"


def test_settings_and_external_resources_are_not_replaced_too(bench: Bench) -> None:
    """A setting cannot be deleted and created again, and an external resource is never changed."""
    bench.put("setting", s={"value": 1})
    bench.put("thing", e={"image": "a"})
    site: dict[str, Any] = {
        "Thing[a]": {"image": "x", "lifecycle": FIRST},
        "Setting[s]": {"value": 1, "require": "Thing[a]", "lifecycle": {"deleted_with": "Thing[a]"}},
        "Thing[e]": {"image": "${Thing[a].name}", "lifecycle": {"external": True}},
    }
    bench.apply(site)
    site["Thing[a]"]["image"] = "y"
    bench.apply(site, targets=("Thing[a]",))
    assert calls(bench) == "-a +a"
    site["Thing[a]"]["image"] = "z"
    assert acted(bench.apply(site)) == {"Thing[a]": ("replace", "success")}
