"""What a replacement that deletes first takes along: what was made from it, what vanishes with it, nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from resource_api.model.change import Action
from tests.lifecycle.world import acted, planned

if TYPE_CHECKING:
    from tests.lifecycle.world import Bench

FIRST = {"replace": "delete_first"}


def calls(bench: Bench) -> str:
    """Give the changing calls of the last run, as ``-b +b``."""
    signs = {"create": "+", "delete": "-", "update": "~"}
    return " ".join(signs[verb] + name for verb, _, name in bench.world.calls if verb in signs)


def made_from(*sources: str) -> dict[str, Any]:
    """Give a thing that is made from others, by what is known of them all along: their names."""
    return {"image": " ".join(f"${{Thing[{source}].name}}" for source in sources), "lifecycle": FIRST}


def shows(*sources: str) -> dict[str, Any]:
    """Give a thing that takes a value of others that it can be given again."""
    return {"colour": " ".join(f"${{Thing[{source}].serial}}" for source in sources), "lifecycle": FIRST}


def twelve(image: str) -> dict[str, Any]:
    """Give the twelve of Pulumi's own test: of A, C and D the first two dependents are made from it, the third is not.

    What a provider is there to its resource, and a property that replaces, is here an ``init_only`` value.
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


def test_of_twelve_exactly_those_made_from_what_goes_are_replaced(bench: Bench) -> None:
    """A goes: B and C with it, E and F with C, K with F; the others stay, and no value of theirs is lost."""
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


def test_of_four_only_the_one_whose_value_replaces_goes_along(bench: Bench) -> None:
    """B only requires A, C is made from it, D is made from B: A and C are replaced, B and D stay."""
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


def test_the_reason_names_what_it_comes_from(bench: Bench) -> None:
    """Nothing of C differs, so its values alone would not explain it."""
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
def test_a_dependent_that_must_not_go_keeps_what_it_was_made_from(
    bench: Bench, lifecycle: dict[str, Any], words: str
) -> None:
    """It is an error of the dependent, found in the plan, and nothing of the chain is touched."""
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


def test_a_value_that_may_turn_out_the_same_needs_no_leave_while_its_source_stays(bench: Bench) -> None:
    """A is only changed: what is made from it is decided at its turn, and nothing differs then."""
    site: dict[str, Any] = {"Thing[a]": {"size": 1}, "Thing[b]": {"image": "${Thing[a].serial}"}}
    bench.apply(site)
    site["Thing[a]"]["size"] = 2
    assert acted(bench.apply(site)) == {"Thing[a]": ("update", "success")}


def test_a_change_that_is_declared_to_replace_goes_along(bench: Bench) -> None:
    """``replace_on_changes`` counts for a value that is not known while its source is away; that is leave enough."""
    site: dict[str, Any] = {
        "Thing[a]": {"image": "x", "lifecycle": FIRST},
        "Thing[b]": {"colour": "${Thing[a].name}", "lifecycle": {"replace_on_changes": ["colour"]}},
    }
    bench.apply(site)
    site["Thing[a]"]["image"] = "y"
    bench.apply(site)
    assert calls(bench) == "-b -a +a +b"


def test_what_is_ignored_takes_nobody_along(bench: Bench) -> None:
    """A value that is ignored is none that a resource was made from."""
    site: dict[str, Any] = {
        "Thing[a]": {"image": "x", "lifecycle": FIRST},
        "Thing[b]": {"image": "${Thing[a].name}", "lifecycle": {**FIRST, "ignore_changes": ["image"]}},
    }
    bench.apply(site)
    site["Thing[a]"]["image"] = "y"
    assert planned(bench.plan(site)) == {"Thing[a]": "replace"}


def test_a_replacement_that_creates_first_takes_nobody_along(bench: Bench) -> None:
    """There is always one: whoever is made from a value that stays the same stays."""
    lifecycle = {"replace": "create_first"}
    site: dict[str, Any] = {
        "Thing[a]": {"name": "a1", "image": "x", "lifecycle": lifecycle},
        "Thing[b]": {"image": "${Thing[a].image}", "lifecycle": FIRST},
    }
    bench.apply(site)
    site["Thing[a]"]["name"] = "a2"
    bench.apply(site)
    assert calls(bench) == "+a2 -a1"


def test_who_no_longer_depends_on_it_stays(bench: Bench) -> None:
    """B was made from A and is declared without it now: it is what is declared that counts."""
    bench.apply({"Thing[a]": {"image": "x", "lifecycle": FIRST}, "Thing[b]": made_from("a")})
    bench.apply({"Thing[b]": {"image": "a", "lifecycle": FIRST}, "Thing[a]": {"image": "y", "lifecycle": FIRST}})
    assert calls(bench) == "-a +a"


def test_a_noop_replacement_takes_nobody_along(bench: Bench) -> None:
    """A is looked at only, so B stays; under ``--noop`` both are shown."""
    site: dict[str, Any] = {"Thing[a]": {"image": "x", "lifecycle": FIRST}, "Thing[b]": made_from("a")}
    bench.apply(site)
    site["Thing[a]"].update(image="y", noop=True)
    assert acted(bench.apply(site)) == {"Thing[a]": ("replace", "noop")}
    del site["Thing[a]"]["noop"]
    assert acted(bench.apply(site, noop=True)) == {"Thing[a]": ("replace", "noop"), "Thing[b]": ("replace", "noop")}


def test_what_vanishes_with_a_host_is_made_again_with_it(bench: Bench) -> None:
    """B goes with A: it is replaced when A is, after A has come back, and nobody is asked to delete it."""
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
    """Let a thing vanish when the thing it lives in is deleted."""
    change = bench.world.change

    def vanish(kind: str, name: str, is_: Any, should: dict[str, Any], context: Any) -> None:
        change(kind, name, is_, should, context)
        if should.get("ensure") == "absent" and name == host and name not in bench.names():
            bench.world.things["thing"].pop(guest, None)

    bench.world.change = vanish  # type: ignore[method-assign]


@pytest.mark.parametrize("parallel", [1, 4])
@pytest.mark.parametrize("required", [False, True])
def test_what_vanishes_with_a_host_that_is_replaced_create_first_is_made_after_it_has_gone(
    bench: Bench, parallel: int, *, required: bool
) -> None:
    """The new host is created, the old one deleted, and B, which has gone with it, made: no call for its deletion."""
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


@pytest.mark.parametrize("again", ["deleted", "cut"])
def test_what_has_not_vanished_yet_waits_for_its_old_host(bench: Bench, again: str) -> None:
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
    vanishing(bench, "b", "h1")
    bench.world.calls.clear()
    assert bench.runtime.apply({"project": "world", "resources": site}).exit_code == 0
    assert calls(bench) == "-h1 +b"
    assert acted(bench.apply(site)) == {}


def test_a_protected_one_that_would_vanish_keeps_its_host(bench: Bench) -> None:
    """Nothing of the chain is touched."""
    site: dict[str, Any] = {
        "Thing[a]": {"image": "x", "lifecycle": FIRST},
        "Thing[b]": {"require": "Thing[a]", "lifecycle": {"deleted_with": "Thing[a]", "protect": True}},
    }
    bench.apply(site)
    site["Thing[a]"]["image"] = "y"
    assert acted(bench.apply(site)) == {"Thing[a]": ("replace", "skipped"), "Thing[b]": ("replace", "failed")}
    assert bench.world.calls == []


def test_nothing_goes_before_what_its_successor_needs_is_there(bench: Bench) -> None:
    """B is replaced and needs A, whose change fails: B stays as it was, instead of going and not coming back."""
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


def test_a_chain_through_one_that_stays_is_ordered_whole(bench: Bench) -> None:
    """B is made from A and needs X, which needs A: B goes first, then A, and they come back in order around X."""
    site: dict[str, Any] = {
        "Thing[a]": {"image": "x", "lifecycle": FIRST},
        "Thing[x]": {"size": 1, "require": "Thing[a]"},
        "Thing[b]": {"image": "${Thing[a].name}", "require": "Thing[x]", "lifecycle": FIRST},
    }
    bench.apply(site)
    site["Thing[a]"]["image"], site["Thing[x]"]["size"] = "y", 2
    bench.apply(site)
    assert calls(bench) == "-b -a +a ~x +b"


def test_the_plan_of_a_dependent_is_made_without_the_old_one(bench: Bench) -> None:
    """The replaced one is a creation for its provider: it is given nothing that was there."""
    bench.apply({"Thing[a]": {"image": "x", "lifecycle": FIRST}, "Thing[c]": made_from("a")})
    seen = []
    remove = bench.world.change

    def change(kind: str, name: str, is_: Any, should: dict[str, Any], context: Any) -> None:
        seen.append((name, is_, should["ensure"]))
        remove(kind, name, is_, should, context)

    bench.world.change = change  # type: ignore[method-assign]
    bench.apply({"Thing[a]": {"image": "y", "lifecycle": FIRST}, "Thing[c]": made_from("a")})
    assert [(name, is_) for name, is_, ensure in seen if ensure == "present"] == [("a", None), ("c", None)]
    assert {step.action for step in bench.plan({"Thing[a]": {"image": "y"}, "Thing[c]": made_from("a")}).steps} == {
        Action.SAME
    }


def test_a_target_is_not_replaced_without_what_was_made_from_it(bench: Bench) -> None:
    """B would have to go with A and is no target: nothing is touched, and the words say what to add."""
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


def test_what_is_only_configured_or_read_is_not_taken_along(bench: Bench) -> None:
    """A setting cannot be deleted and made again, and what is external is nobody's to replace."""
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
