"""Identity: moves, former names, forgetting, importing, and the ownership of resources."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from resource_api.model.values.errors import ManifestError, ResourceError, UsageError
from resource_api.runtime.import_resources import import_resources
from resource_api.runtime.state_refresh import refresh
from tests.lifecycle.world import FIRST, acted, calls, manifest, planned

if TYPE_CHECKING:
    from tests.lifecycle.world import Bench


def test_another_title_of_the_same_resource_is_a_move(bench: Bench) -> None:
    """Shown as unchanged with its former title; afterwards state contains the new title."""
    bench.apply({"Thing[a]": {"size": 1}})
    site = {"Thing[front]": {"name": "a", "size": 1}}
    (step,) = bench.plan(site).steps
    assert (str(step.action), step.previous) == ("same", "Thing[a]")
    assert acted(bench.apply(site, prune=True)) == {}
    assert bench.names() == ["a"]
    assert [str(record.reference) for record in bench.state.records.values()] == ["Thing[front]"]
    (step,) = bench.plan(site).steps
    assert step.previous == ""


def test_a_resource_can_be_moved_and_changed_at_once(bench: Bench) -> None:
    """It is updated under its new title, and stays ours."""
    bench.apply({"Thing[a]": {"size": 1}})
    assert acted(bench.apply({"Thing[front]": {"name": "a", "size": 2}})) == {"Thing[front]": ("update", "success")}
    record = bench.record("Thing[front]")
    assert record is not None
    assert record.owned


def test_a_title_that_another_resource_gets_is_no_dependency_of_its_former_one(bench: Bench) -> None:
    """What required the other resource requires it by its new title, and not itself."""
    bench.apply({"Engine[w]": {"name": "c"}, "Engine[t]": {"name": "a", "require": "Engine[w]"}})
    bench.apply({"Engine[t]": {"name": "c"}})
    record = bench.record("Engine[a]")
    assert record is not None
    assert list(record.requires) == ["Engine[t]"]
    assert calls(bench) == ""
    (step,) = bench.plan({"Engine[t]": {"name": "c"}}, prune=True).steps[1:]
    assert (str(step.reference), [str(reference) for reference in step.depends_on]) == ("Engine[a]", ["Engine[t]"])


def test_two_resources_can_swap_their_titles(bench: Bench) -> None:
    """The identity is the name; nothing is created or deleted."""
    bench.apply({"Thing[x]": {"name": "a"}, "Thing[y]": {"name": "b"}})
    assert acted(bench.apply({"Thing[y]": {"name": "a"}, "Thing[x]": {"name": "b"}}, prune=True)) == {}
    assert {key[1]: record.title for key, record in bench.state.records.items()} == {"a": "y", "b": "x"}


def test_a_declared_move_to_another_name_keeps_the_old_resource(bench: Bench) -> None:
    """Two names are two resources: the new one is created, and the old one stays recorded until it is pruned."""
    bench.apply({"Thing[a]": {}})
    moved = [{"from": "Thing[a]", "to": "Thing[b]"}]
    bench.apply({"Thing[b]": {}}, moved=moved)
    assert bench.names() == ["a", "b"]
    assert {key[1] for key in bench.state.records} == {"a", "b"}
    bench.apply({"Thing[b]": {}}, moved=moved, prune=True)
    assert bench.names() == ["b"]


def test_a_declared_move_to_another_name_replaces_if_allowed(bench: Bench) -> None:
    """With permission to replace, the old one is deleted and the new one created."""
    bench.apply({"Thing[a]": {}})
    site = {"Thing[b]": {"lifecycle": {"replace": "delete_first"}}}
    moved = [{"from": "Thing[a]", "to": "Thing[b]"}]
    assert planned(bench.plan(site, moved=moved)) == {"Thing[b]": "replace"}
    bench.apply(site, moved=moved)
    assert bench.names() == ["b"]
    assert len(bench.state.records) == 1


def test_a_former_name_finds_a_resource_that_was_renamed_outside(bench: Bench) -> None:
    """Under its new name it is ours, and the old record is dropped."""
    bench.apply({"Thing[a]": {"size": 1}})
    bench.world.things["thing"]["b"] = bench.world.things["thing"].pop("a")
    site = {"Thing[b]": {"size": 1, "lifecycle": {"aliases": ["a"]}}}
    assert acted(bench.apply(site)) == {}
    record = bench.record("Thing[b]")
    assert record is not None
    assert record.owned
    assert bench.record("Thing[a]") is None


@pytest.mark.parametrize("cause", ["noop", "prerequisite", "interrupt", "error in the plan", "target"])
def test_a_former_name_finds_a_resource_again_whose_step_was_not_done(bench: Bench, cause: str) -> None:
    """Its record stays until it is written under the new name: otherwise the resource would not be ours any more."""
    bench.apply({"Thing[a]": {"size": 1}})
    bench.world.things["thing"]["b"] = bench.world.things["thing"].pop("a")
    change: dict[str, Any] = {"size": 2, "lifecycle": {"aliases": ["a"]}}
    before: dict[str, Any] = {"Engine[e]": {}} if cause in {"prerequisite", "interrupt"} else {}
    bench.world.trouble = {("engine", "e"): "crash" if cause == "interrupt" else "fail"}
    variants = {"noop": {"noop": True}, "prerequisite": {"require": "Engine[e]"}, "error in the plan": {"image": "new"}}
    bench.world.things["thing"]["b"]["image"] = "old"
    bench.apply(
        {**before, "Thing[b]": change | variants.get(cause, {}), "Thing[c]": {}},
        **({"targets": ["Thing[c]"]} if cause == "target" else {}),
    )
    assert bench.world.things["thing"]["b"]["size"] == 1
    bench.world.trouble = {}
    assert acted(bench.apply({"Thing[b]": change, "Thing[c]": {}}))["Thing[b]"] == ("update", "success")
    assert bench.record("Thing[a]") is None
    record = bench.record("Thing[b]")
    assert record is not None
    assert record.owned


@pytest.mark.parametrize("cause", ["requested", "tainted", "fixed value"])
def test_a_resource_found_by_a_former_name_is_replaced_under_its_own(bench: Bench, cause: str) -> None:
    """It is deleted before it is created again; where that fails, the next run creates it."""
    bench.apply({"Thing[a]": {"image": "old"}})
    bench.world.things["thing"]["b"] = bench.world.things["thing"].pop("a")
    if cause == "tainted":
        bench.mend(("thing", "a"), "taint")
    site = {"Thing[b]": {"image": "new" if cause == "fixed value" else "old", "lifecycle": {"aliases": ["a"], **FIRST}}}
    with bench.troubled(b="unmade"):
        report = bench.apply(site, replace=["Thing[b]"] if cause == "requested" else [])
    assert (acted(report), calls(bench)) == ({"Thing[b]": ("replace", "failed")}, "-b +b")
    assert {key: (record.status, record.owned) for key, record in bench.state.records.items()} == {
        ("thing", "b"): ("pending", True)
    }
    assert acted(bench.apply(site)) == {"Thing[b]": ("create", "success")}
    assert list(bench.state.records) == [("thing", "b")]


def test_a_former_name_of_a_resource_that_is_no_target_stays_recorded(bench: Bench) -> None:
    """Also where a target's change is to replace it: the next run finds it, and replaces it."""
    bench.apply({"Engine[e]": {"size": 1}, "Thing[a]": {}})
    bench.world.things["thing"]["b"] = bench.world.things["thing"].pop("a")
    lifecycle = {"aliases": ["a"], "replace_triggered_by": ["Engine[e]"], **FIRST}
    site = {"Engine[e]": {"size": 2}, "Thing[b]": {"lifecycle": lifecycle}}
    bench.apply(site, targets=["Engine[e]"])
    assert {key[1]: record.status for key, record in bench.state.records.items()} == {"e": "ready", "a": "tainted"}
    bench.apply(site)
    assert (calls(bench), {key[1] for key in bench.state.records}) == ("-b +b", {"e", "b"})


def test_a_former_name_that_cannot_be_read_fails_its_resource(bench: Bench) -> None:
    """It may still exist: then it is another resource, which stays recorded as ours."""
    bench.apply({"Thing[a]": {}})
    moved = [{"from": "Thing[a]", "to": "Thing[b]"}]
    bench.world.unreadable = {("thing", "a")}
    (step,) = bench.apply({"Thing[b]": {}}, moved=moved).steps
    assert step.error == "Thing[a], which it was before, cannot be read: cannot look at a"
    assert (bench.names(), list(bench.state.records)) == (["a"], [("thing", "a")])
    bench.world.unreadable = set()
    assert acted(bench.apply({"Thing[b]": {}}, moved=moved, prune=True)).keys() == {"Thing[a]", "Thing[b]"}
    assert bench.names() == ["b"]


def test_two_resources_with_one_former_name_are_an_error(bench: Bench) -> None:
    """Only one of them can be the recorded one; nothing is changed."""
    bench.apply({"Thing[a]": {}})
    before = bench.state
    site = {"Thing[b]": {"lifecycle": {"aliases": ["a"]}}, "Thing[c]": {"lifecycle": {"aliases": ["a"]}}}
    with pytest.raises(ManifestError, match=r"Thing\[c\]: Thing\[a\] has become Thing\[b\] already"):
        bench.apply(site)
    assert (bench.names(), bench.state) == (["a"], before)


def test_several_records_for_one_alias_are_an_error(bench: Bench) -> None:
    """Which of them is meant is unknown; nothing is changed."""
    bench.apply({"Thing[a]": {}, "Thing[b]": {}})
    before = bench.state
    with pytest.raises(
        ManifestError, match=r"several that are recorded have a former name of it: Thing\[a\], Thing\[b\]"
    ):
        bench.apply({"Thing[c]": {"lifecycle": {"aliases": ["a", "Thing[b]"]}}})
    assert (bench.names(), bench.state) == (["a", "b"], before)


@pytest.mark.parametrize("alias", ["a", "Thing[a]", "urn:resource:default::world::thing::a"])
def test_a_former_name_is_a_title_a_reference_or_a_urn(bench: Bench, alias: str) -> None:
    """All three find the record."""
    bench.apply({"Thing[a]": {}})
    bench.world.things["thing"]["b"] = bench.world.things["thing"].pop("a")
    assert acted(bench.apply({"Thing[b]": {"lifecycle": {"aliases": [alias]}}})) == {}
    assert [key[1] for key in bench.state.records] == ["b"]


@pytest.mark.parametrize("alias", ["urn:resource:x", "Thing[a", "[a]"])
def test_an_invalid_former_name_is_an_error(bench: Bench, alias: str) -> None:
    """Before anything is done."""
    with pytest.raises(ManifestError, match=r"lifecycle\.aliases"):
        bench.plan({"Thing[b]": {"lifecycle": {"aliases": [alias]}}})


def test_records_that_refer_to_a_former_name_are_updated(bench: Bench) -> None:
    """Also those of resources that are no targets: they are deleted in the right order later."""
    site: dict[str, Any] = {
        "Thing[c]": {},
        "Thing[a]": {"require": "Thing[c]", "lifecycle": {"deleted_with": "Thing[c]"}},
        "Thing[b]": {"colour": "${Thing[c].serial}"},
    }
    bench.apply(site)
    bench.apply({"Thing[new]": {"name": "c"}})
    records = bench.state.records
    assert list(records["thing", "a"].requires) == ["Thing[new]"]
    assert records["thing", "a"].lifecycle.deleted_with == "Thing[new]"
    assert list(records["thing", "b"].requires) == ["Thing[new]"]
    assert records["thing", "b"].value_requires == {"colour": ["Thing[new]"]}
    bench.destroy({})
    assert [name for _, _, name in bench.world.calls] == ["b", "c"]


def test_a_targeted_move_updates_the_records_of_others(bench: Bench) -> None:
    """Declared resources that are no targets refer to the new name; a noop run updates nothing."""
    bench.apply({"Thing[a]": {}, "Thing[b]": {"require": "Thing[a]"}})
    site = {"Thing[new]": {"name": "a"}, "Thing[b]": {"require": "Thing[new]"}}
    bench.apply(site, targets=("Thing[new]",), noop=True)
    assert list(bench.state.records["thing", "b"].requires) == ["Thing[a]"]
    bench.apply(site, targets=("Thing[b]",))
    assert bench.state.records["thing", "a"].title == "a"
    bench.apply(site, targets=("Thing[new]",))
    assert bench.state.records["thing", "a"].title == "new"
    assert list(bench.state.records["thing", "b"].requires) == ["Thing[new]"]


def test_swapped_titles_keep_the_recorded_dependencies(bench: Bench) -> None:
    """A name in state means the resource that had it when it was written."""
    bench.apply({"Thing[x]": {"name": "a"}, "Thing[y]": {"name": "b"}, "Thing[t]": {"require": "Thing[x]"}})
    bench.apply({"Thing[y]": {"name": "a"}, "Thing[x]": {"name": "b"}})
    assert list(bench.state.records["thing", "t"].requires) == ["Thing[y]"]


def test_one_title_is_one_resource_in_state(bench: Bench) -> None:
    """A record whose title another resource has taken is called by its name; records that depend on it follow."""
    bench.apply({"Thing[web]": {"name": "w1"}, "Thing[t]": {"require": "Thing[web]"}})
    bench.apply({"Thing[web]": {"name": "w2"}})
    references = {key[1]: str(record.reference) for key, record in bench.state.records.items()}
    assert references == {"w1": "Thing[w1]", "w2": "Thing[web]", "t": "Thing[t]"}
    assert list(bench.state.records["thing", "t"].requires) == ["Thing[w1]"]
    plan = bench.plan({"Thing[web]": {"name": "w3"}}, prune=True)
    assert sorted(planned(plan)) == ["Thing[t]", "Thing[w1]", "Thing[w2]", "Thing[web]"]


def test_a_move_from_a_declared_resource_is_an_error(bench: Bench) -> None:
    """One resource cannot be two."""
    with pytest.raises(ManifestError):
        bench.apply({"Thing[a]": {}, "Thing[b]": {}}, moved=[{"from": "Thing[a]", "to": "Thing[b]"}])


def test_removed_forgets_and_does_not_delete(bench: Bench) -> None:
    """Also under ``--prune``, and once is enough."""
    bench.apply({"Thing[a]": {}, "Thing[b]": {}})
    report = bench.apply({"Thing[b]": {}}, removed=["Thing[a]"], prune=True)
    assert acted(report) == {"Thing[a]": ("forget", "success")}
    assert bench.names() == ["a", "b"]
    assert acted(bench.apply({"Thing[b]": {}}, removed=["Thing[a]"], prune=True)) == {}


def _replaced_once(bench: Bench, *, dead: bool = False) -> dict[str, Any]:
    """Replace ``Thing[web]`` create-first and fail to delete the old one, or die before; return its manifest."""
    site: dict[str, Any] = {"Thing[web]": {"name": "w1", "lifecycle": {"replace": "create_first"}}, "Thing[o]": {}}
    bench.apply(site)
    site["Thing[web]"]["name"] = "w2"
    with bench.troubled(w1="kill" if dead else "raise"):
        bench.killed(site) if dead else bench.apply(site)
    assert bench.names() == ["o", "w1", "w2"]
    return site


@pytest.mark.parametrize("dead", [False, True])
@pytest.mark.parametrize("options", [{}, {"prune": True}])
def test_removed_forgets_what_a_replacement_has_left(bench: Bench, options: dict[str, Any], *, dead: bool) -> None:
    """Both the new one and the old one that could not be deleted, without any call."""
    site = _replaced_once(bench, dead=dead)
    del site["Thing[web]"]
    report = bench.apply(site, removed=["Thing[web]"], **options)
    assert {(action, status) for action, status in acted(report).values()} == {("forget", "success")}
    assert (calls(bench), bench.names(), list(bench.state.records)) == ("", ["o", "w1", "w2"], [("thing", "o")])
    assert acted(bench.apply(site, removed=["Thing[web]"], **options)) == {}


def test_what_a_replacement_has_left_is_forgotten_under_the_present_name(bench: Bench) -> None:
    """The resource was moved in between, and its old one still could not be deleted."""
    site = _replaced_once(bench)
    site["Thing[new]"] = site.pop("Thing[web]")
    with bench.troubled(w1="raise"):
        bench.apply(site)
    del site["Thing[new]"]
    report = bench.apply(site, removed=["Thing[new]"])
    assert {action for action, _ in acted(report).values()} == {"forget"}
    assert (calls(bench), bench.names()) == ("", ["o", "w1", "w2"])


@pytest.mark.parametrize(("title", "dead"), [("web", False), ("web", True), ("new", False)])
def test_what_a_replacement_has_left_is_selected_with_its_resource(bench: Bench, title: str, *, dead: bool) -> None:
    """Its name means the old one too, in exclusions and targets; the name of the old one means that alone."""
    site = _replaced_once(bench, dead=dead)
    site[f"Thing[{title}]"] = site.pop("Thing[web]")
    assert planned(bench.plan(site, excludes=[f"Thing[{title}]"])) == {}
    assert planned(bench.plan(site, targets=["Thing[o]"])) == {}
    if not dead:
        assert planned(bench.plan(site, excludes=["Thing[w1]"])) == {}
        assert planned(bench.plan(site, targets=["Thing[w1]"])) == {"Thing[w1]": "delete"}
    bench.apply(site, excludes=[f"Thing[{title}]"], prune=True)
    assert bench.names() == ["o", "w1", "w2"]
    bench.apply(site, targets=[f"Thing[{title}]"])
    assert bench.names() == ["o", "w2"]


def test_a_refresh_leaves_out_what_an_excluded_resource_has_replaced(bench: Bench) -> None:
    """What has become of it is recorded only where the resource is read."""
    site = _replaced_once(bench)
    for rows in bench.world.things["thing"].values():
        rows["serial"] = "new"
    for options, changed in (
        ({"excludes": ["Thing[web]"]}, {"Thing[o]"}),
        ({"targets": ["Thing[web]"]}, {"Thing[web]", "Thing[w1]"}),
        ({"targets": ["Thing[w1]"]}, {"Thing[w1]"}),
    ):
        assert set(refresh(bench.runtime, manifest(site), noop=True, **options).references) == changed


def test_what_a_replacement_has_left_of_another_is_deleted(bench: Bench) -> None:
    """Only what is listed is forgotten with all that it has left."""
    site = _replaced_once(bench)
    del site["Thing[o]"]
    bench.apply(site, removed=["Thing[o]"])
    assert bench.names() == ["o", "w2"]


@pytest.mark.parametrize("how", ["moved", "alias"])
def test_the_source_of_a_move_that_is_removed_is_forgotten(bench: Bench, how: str) -> None:
    """It does not become the target, which is a resource of its own, and it stays in the world."""
    bench.apply({"Thing[a]": {"lifecycle": {"protect": True}}})
    bench.world.things["thing"].pop("a")  # otherwise it is not a move
    site: dict[str, Any] = {"Thing[b]": {"lifecycle": {"aliases": ["a"]} if how == "alias" else {}}}
    moved = [{"from": "Thing[a]", "to": "Thing[b]"}] if how == "moved" else []
    assert acted(bench.apply(site, moved=moved, removed=["Thing[a]"])) == {
        "Thing[a]": ("forget", "success"),
        "Thing[b]": ("create", "success"),
    }
    record = bench.record("Thing[b]")
    assert record is not None
    assert (list(bench.state.records), record.lifecycle.protect) == ([("thing", "b")], False)


def test_a_former_title_of_a_declared_resource_cannot_be_in_removed(bench: Bench) -> None:
    """The resource has only moved: it is as declared as under its former title."""
    bench.apply({"Thing[old]": {"name": "a"}})
    with pytest.raises(ManifestError, match=r"Thing\[old\] is removed, and is still declared as Thing\[new\]"):
        bench.apply({"Thing[new]": {"name": "a"}}, removed=["Thing[old]"])
    assert bench.record("Thing[old]") is not None
    assert acted(bench.apply({"Thing[new]": {"name": "a"}})) == {}


@pytest.mark.parametrize(
    ("moves", "message"),
    [
        (["aa"], r"Thing\[a\] has moved to itself$"),
        (["xy", "yx"], r"Thing\[x\] has moved to itself, by way of Thing\[y\]$"),
        (["xy", "yz", "zx"], r"Thing\[z\] has moved to itself, by way of Thing\[x\]$"),
        (["xy", "xz"], r"Thing\[x\] has moved to two names$"),
    ],
)
def test_moves_in_a_circle_and_a_name_that_moved_twice_are_errors(bench: Bench, moves: list[str], message: str) -> None:
    """A chain of moves is accepted."""
    moved = [{"from": f"Thing[{source}]", "to": f"Thing[{target}]"} for source, target in moves]
    with pytest.raises(ManifestError) as error:
        bench.apply({"Thing[a]": {}}, moved=moved)
    assert any(re.search(message, problem.message) for problem in error.value.problems)
    bench.apply(
        {"Thing[z]": {}}, moved=[{"from": "Thing[x]", "to": "Thing[y]"}, {"from": "Thing[y]", "to": "Thing[z]"}]
    )


def test_removed_needs_no_reading(bench: Bench) -> None:
    """No provider is called."""
    bench.apply({"Thing[a]": {}})
    bench.world.unreadable = {"thing"}
    assert acted(bench.apply({}, removed=["Thing[a]"])) == {"Thing[a]": ("forget", "success")}
    assert bench.state.records == {}


def test_an_existing_resource_is_not_ours(bench: Bench) -> None:
    """It is recorded and managed; destroy forgets and reports it."""
    bench.put("thing", a={"size": 1})
    site = {"Thing[a]": {"size": 2}, "Thing[b]": {}}
    bench.apply(site)
    assert {key[1]: record.owned for key, record in bench.state.records.items()} == {"a": False, "b": True}
    plan = bench.runtime.plan_destroy(manifest(site))
    assert planned(plan) == {"Thing[a]": "forget", "Thing[b]": "delete"}
    bench.destroy(site)
    assert (bench.names(), bench.state.records) == (["a"], {})


@pytest.mark.parametrize("owned", [True, False])
def test_the_manifest_can_declare_the_ownership(bench: Bench, owned: bool) -> None:  # noqa: FBT001 - the one parameter
    """``owned`` overrides the history, both ways."""
    bench.put("thing", a={})
    bench.apply({"Thing[a]": {"lifecycle": {"owned": owned}}, "Thing[b]": {"lifecycle": {"owned": owned}}})
    bench.destroy({})
    assert bench.names() == ([] if owned else ["a", "b"])


def test_a_second_run_does_not_change_the_ownership(bench: Bench) -> None:
    """An update is no creation."""
    bench.put("thing", a={"size": 1})
    bench.apply({"Thing[a]": {"size": 2}})
    bench.apply({"Thing[a]": {"size": 3}})
    bench.destroy({})
    assert bench.names() == ["a"]


def test_an_adopted_resource_that_is_created_again_is_ours(bench: Bench) -> None:
    """We have created it, whoever created the one before."""
    bench.put("thing", a={"size": 1})
    bench.apply({"Thing[a]": {"size": 1}})
    bench.world.things["thing"].clear()
    bench.apply({"Thing[a]": {"size": 1}})
    bench.destroy({})
    assert bench.names() == []


def test_an_import_makes_an_existing_resource_ours(bench: Bench) -> None:
    """Imported once; then it is unchanged, and destroyed with the others."""
    bench.put("thing", a={"size": 1})
    site = {"Thing[a]": {"size": 1, "lifecycle": {"import": "a"}}}
    assert acted(bench.apply(site)) == {"Thing[a]": ("import", "success")}
    assert acted(bench.apply(site)) == {}
    bench.destroy({})
    assert bench.names() == []


def test_an_import_that_differs_is_imported_and_updated(bench: Bench) -> None:
    """As Pulumi's code does, contrary to its documentation."""
    bench.put("thing", a={"size": 1})
    site = {"Thing[a]": {"size": 2, "lifecycle": {"import": "a"}}}
    assert acted(bench.apply(site)) == {"Thing[a]": ("import", "success")}
    assert bench.world.things["thing"]["a"]["size"] == 2


IMAGE: dict[str, Any] = {"Thing[a]": {"image": "y", "lifecycle": {"import": "a", "replace": "delete_first"}}}


def test_an_import_that_must_be_replaced_is_imported_first(bench: Bench) -> None:
    """The plan shows both, and afterwards nothing is left to do."""
    bench.put("thing", a={"image": "x"})
    plan = bench.plan(IMAGE)
    assert planned(plan) == {"Thing[a]": "replace"}
    assert plan.steps[0].decision.reasons == ("imported first",)
    assert acted(bench.apply(IMAGE)) == {"Thing[a]": ("replace", "success")}
    assert bench.world.things["thing"]["a"]["image"] == "y"
    assert planned(bench.plan(IMAGE)) == {}
    bench.destroy({})
    assert bench.names() == []


@pytest.mark.parametrize("verb", ["delete", "create"])
def test_an_import_whose_replacement_fails_is_ours_and_replaced_later(bench: Bench, verb: str) -> None:
    """Whether its deletion or its creation fails."""
    bench.put("thing", a={"image": "x"})
    change = bench.world.change

    def failing(kind: str, name: str, is_: Any, should: dict[str, Any], context: Any) -> None:
        if ("delete" if should["ensure"] == "absent" else "create") == verb:
            raise RuntimeError(f"no {verb}")
        change(kind, name, is_, should, context)

    bench.world.change = failing  # type: ignore[method-assign]
    assert acted(bench.apply(IMAGE)) == {"Thing[a]": ("replace", "failed")}
    bench.world.change = change  # type: ignore[method-assign]
    record = bench.record("Thing[a]")
    assert record is not None
    assert record.owned
    bench.apply(IMAGE)
    assert bench.world.things["thing"]["a"]["image"] == "y"
    assert planned(bench.plan(IMAGE)) == {}


@pytest.mark.parametrize("how", ["kill", "late"])
def test_an_import_whose_replacement_is_interrupted_is_completed_later(bench: Bench, how: str) -> None:
    """Killed before or after the deletion."""
    bench.put("thing", a={"image": "x"})
    with bench.troubled(a=how):
        bench.killed(IMAGE)
    bench.apply(IMAGE)
    assert bench.world.things["thing"]["a"]["image"] == "y"
    assert planned(bench.plan(IMAGE)) == {}


def test_a_noop_run_imports_nothing(bench: Bench) -> None:
    """Not even if it would then be replaced."""
    bench.put("thing", a={"image": "x"})
    assert acted(bench.apply(IMAGE, noop=True)) == {"Thing[a]": ("replace", "noop")}
    assert bench.state.records == {}


def test_an_import_that_does_not_exist_is_not_created_by_a_replacement(bench: Bench) -> None:
    """Permission to replace is no permission to create."""
    assert "does not exist" in bench.plan(IMAGE).steps[0].decision.error


def test_an_import_of_nothing_is_an_error(bench: Bench) -> None:
    """It is not created instead, and state does not change."""
    assert acted(bench.apply({"Thing[a]": {"lifecycle": {"import": "a"}}})) == {"Thing[a]": ("import", "failed")}
    assert (bench.names(), bench.state.records) == ([], {})
    (outcome,) = import_resources(bench.runtime, manifest({"Thing[a]": {}}), ["Thing[a]"], None)
    assert (outcome.status, "does not exist" in outcome.error) == ("missing", True)


@pytest.mark.parametrize("there", ["two", "t"])
def test_an_import_of_another_name_is_an_error(bench: Bench, there: str) -> None:
    """Nothing is imported instead, and the message shows what to write; that is then imported."""
    bench.put("thing", **{there: {"size": 1}})
    wrong = {"Thing[t]": {"lifecycle": {"import": "two"}}}
    with pytest.raises(ManifestError, match="it is declared as t, not two; to import that, write name: two too"):
        bench.apply(wrong)
    assert bench.state.records == {}
    right = {"Thing[t]": {"name": there, "lifecycle": {"import": there}}}
    assert acted(bench.apply(right)) == {"Thing[t]": ("import", "success")}


def test_the_command_imports_a_declared_resource(bench: Bench) -> None:
    """Afterwards it is ours; a second time is no error; an undeclared resource is one."""
    bench.put("thing", a={"size": 1})
    source = manifest({"Thing[a]": {"size": 1, "password": "secret1"}})
    assert [outcome.status for outcome in import_resources(bench.runtime, source, ["Thing[a]"], None)] == ["imported"]
    assert [outcome.status for outcome in import_resources(bench.runtime, source, ["Thing[a]"], None)] == ["recorded"]
    assert "secret1" not in repr(bench.state)
    with pytest.raises(UsageError, match="not declared"):
        import_resources(bench.runtime, source, ["Thing[b]"], None)
    bench.destroy({})
    assert bench.names() == []


def test_an_external_resource_is_read_and_never_changed(bench: Bench) -> None:
    """Its values can be referred to; if it is missing, that is an error; destroy keeps it."""
    site: dict[str, Any] = {
        "Thing[a]": {"size": 7, "lifecycle": {"external": True}},
        "Thing[b]": {"colour": "${Thing[a].serial}"},
    }
    assert acted(bench.apply(site)) == {"Thing[a]": ("read", "failed"), "Thing[b]": ("create", "skipped")}
    bench.put("thing", a={"size": 1, "serial": "X"})
    bench.apply(site)
    assert bench.world.things["thing"] == {
        "a": {"size": 1, "serial": "X"},
        "b": {"colour": "X", "serial": "S-b"},
    }
    bench.destroy(site)
    assert bench.names() == ["a"]


def test_a_resource_forgotten_from_state_is_adopted(bench: Bench) -> None:
    """It exists, so it is adopted and not ours."""
    bench.apply({"Thing[a]": {}})
    bench.mend(("thing", "a"), "forget")
    assert acted(bench.apply({"Thing[a]": {}})) == {}
    record = bench.record("Thing[a]")
    assert record is not None
    assert not record.owned


def test_a_refresh_records_drift_and_changes_nothing(bench: Bench) -> None:
    """State follows the world; the world is not changed, and the next plan still corrects the drift."""
    site = {"Thing[a]": {"size": 1}, "Thing[b]": {"size": 1}}
    bench.apply(site)
    bench.world.things["thing"]["a"]["size"] = 5
    del bench.world.things["thing"]["b"]
    assert refresh(bench.runtime, manifest(site)).references == ["Thing[a]", "Thing[b]"]
    records = {key[1]: record for key, record in bench.state.records.items()}
    assert records["a"].is_ is not None
    assert records["a"].is_["size"] == 5
    assert records["b"].is_ is None
    assert refresh(bench.runtime, manifest(site)).references == []
    assert planned(bench.plan(site)) == {"Thing[a]": "update", "Thing[b]": "create"}


def test_a_refresh_keeps_the_records_of_unreadable_resources(bench: Bench) -> None:
    """It names them; readable ones are written."""
    bench.apply({"Thing[a]": {"size": 1}, "Engine[e]": {}})
    bench.world.unreadable = {"engine"}
    bench.world.things["thing"]["a"]["size"] = 5
    with pytest.raises(ResourceError, match=r"Engine\[e\]"):
        refresh(bench.runtime, manifest({}))
    records = {key[1]: record for key, record in bench.state.records.items()}
    assert records["a"].is_ is not None
    assert records["a"].is_["size"] == 5
    assert records["e"].is_ is not None


def test_a_record_of_a_missing_type_fails_to_be_destroyed(bench: Bench) -> None:
    """The message tells how to restore the type or forget the record; the other resources are deleted."""
    bench.apply({"Thing[a]": {}, "Engine[e]": {}})
    del bench.registry._types["thing"]
    del bench.registry._providers["thing"]
    report = bench.destroy({})
    assert acted(report) == {"Thing[a]": ("delete", "failed"), "Engine[e]": ("delete", "success")}
    (failed,) = [step for step in report.steps if step.status == "failed"]
    assert "unknown type 'Thing'" in failed.error
    assert "state rm 'Thing[a]'" in failed.error
    assert bench.names() == ["a"]
    assert [key[1] for key in bench.state.records] == ["a"]
