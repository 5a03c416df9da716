"""Replacement: its conditions, its order, and its dependents."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from resource_api.model.record import Commit
from resource_api.model.report import StepEnd, StepStart
from resource_api.model.values.errors import UsageError
from resource_api.state.store import StackName
from tests.lifecycle.world import FIRST, acted, calls, planned

if TYPE_CHECKING:
    from tests.lifecycle.world import Bench


def test_changing_init_only_is_an_error_unless_replacing_is_allowed(bench: Bench) -> None:
    """Both values are named, in plan and apply alike, and nothing is changed. Terraform replaces without permission."""
    bench.apply({"Thing[a]": {"image": "x"}})
    site = {"Thing[a]": {"image": "y"}}
    (step,) = bench.plan(site).steps
    assert "it is x and should be y" in step.decision.error
    assert acted(bench.apply(site)) == {"Thing[a]": ("update", "failed")}
    assert bench.world.calls == []
    assert bench.world.things["thing"]["a"]["image"] == "x"


def test_a_resource_with_another_init_only_value_can_be_deleted(bench: Bench) -> None:
    """A deletion does not compare attributes."""
    bench.apply({"Thing[a]": {"image": "x"}})
    assert acted(bench.apply({"Thing[a]": {"ensure": "absent", "image": "y"}})) == {"Thing[a]": ("delete", "success")}


def test_a_replacement_is_two_calls_and_one_step(bench: Bench) -> None:
    """Delete, then create without ``is``; one report, counted once, with one start and one end."""
    bench.apply({"Thing[a]": {"image": "x"}})
    site = {"Thing[a]": {"image": "y", "lifecycle": FIRST}}
    plan = bench.plan(site)
    assert planned(plan) == {"Thing[a]": "replace"}
    assert plan.summary.replaced == 1
    assert tuple(plan.steps[0].decision.replaces_because) == ("image",)
    report = bench.apply(site)
    assert acted(report) == {"Thing[a]": ("replace", "success")}
    assert report.summary.replaced == 1
    assert [type(event).__name__ for event in bench.events if isinstance(event, (StepStart, StepEnd))] == [
        "StepStart",
        "StepEnd",
    ]
    assert calls(bench) == "-a +a"


def test_two_replacements_delete_in_reverse_and_create_in_order(bench: Bench) -> None:
    """B depends on A: B is deleted first and created last."""
    site: dict[str, Any] = {
        "Thing[a]": {"image": "x", "lifecycle": FIRST},
        "Thing[b]": {"image": "x", "require": "Thing[a]", "lifecycle": FIRST},
    }
    bench.apply(site)
    site["Thing[a]"]["image"] = site["Thing[b]"]["image"] = "y"
    bench.apply(site)
    assert calls(bench) == "-b -a +a +b"


def test_a_dependent_that_is_only_updated_comes_last(bench: Bench) -> None:
    """C uses A, which is replaced: A is deleted and created, then C is updated."""
    site: dict[str, Any] = {
        "Thing[a]": {"image": "x", "lifecycle": FIRST},
        "Thing[c]": {"size": 1, "require": "Thing[a]"},
    }
    bench.apply(site)
    site["Thing[a]"]["image"], site["Thing[c]"]["size"] = "y", 2
    bench.apply(site)
    assert calls(bench) == "-a +a ~c"


def test_create_first_with_a_new_name_creates_before_it_deletes(bench: Bench) -> None:
    """The new one is created, its dependents are updated, then the old one is deleted."""
    site: dict[str, Any] = {
        "Thing[web]": {"name": "w1", "lifecycle": {"replace": "create_first"}},
        "Thing[c]": {"colour": "${Thing[web].serial}"},
    }
    bench.apply(site)
    site["Thing[web]"]["name"] = "w2"
    assert planned(bench.plan(site)) == {"Thing[web]": "replace", "Thing[c]": "update"}
    bench.apply(site)
    assert calls(bench) == "+w2 ~c -w1"
    assert bench.names() == ["c", "w2"]
    assert planned(bench.plan(site, prune=True)) == {}


def test_create_first_needs_another_name(bench: Bench) -> None:
    """Two resources of one name cannot exist at once; that is an error, not a delete-first."""
    bench.apply({"Thing[a]": {"image": "x"}})
    (step,) = bench.plan({"Thing[a]": {"image": "y", "lifecycle": {"replace": "create_first"}}}).steps
    assert "same name" in step.decision.error


def test_delete_first_with_a_new_name_deletes_before_it_creates(bench: Bench) -> None:
    """The old one is deleted, then the new one created."""
    site: dict[str, Any] = {"Thing[web]": {"name": "w1", "lifecycle": FIRST}}
    bench.apply(site)
    site["Thing[web]"]["name"] = "w2"
    bench.apply(site)
    assert calls(bench) == "-w1 +w2"
    assert len(bench.state.records) == 1


@pytest.mark.parametrize("lifecycle", [{}, {"replace": "never"}])
def test_a_new_name_without_permission_creates_a_second_resource(bench: Bench, lifecycle: dict[str, Any]) -> None:
    """The first is no longer declared: reported by its name, and deleted only by ``--prune``."""
    bench.apply({"Thing[web]": {"name": "w1"}})
    bench.apply({"Thing[web]": {"name": "w2", "lifecycle": lifecycle}})
    assert bench.names() == ["w1", "w2"]
    assert "notice: Thing[w1]: is recorded but no longer declared; --prune deletes it" in bench.lines
    assert acted(bench.apply({"Thing[web]": {"name": "w2"}}, prune=True)) == {"Thing[w1]": ("delete", "success")}
    assert bench.names() == ["w2"]


def test_a_title_that_is_declared_absent_under_a_new_name_replaces_nothing(bench: Bench) -> None:
    """The old resource is no longer declared: this is said, and it is pruned."""
    bench.apply({"Thing[t]": {"name": "a"}})
    site = {"Thing[t]": {"name": "b", "ensure": "absent", "lifecycle": FIRST}}
    bench.apply(site)
    assert bench.lines == ["notice: Thing[a]: is recorded but no longer declared; --prune deletes it"]
    assert acted(bench.apply(site, prune=True)) == {"Thing[a]": ("delete", "success")}
    assert (bench.names(), bench.state.records) == ([], {})


def test_a_create_first_whose_creation_fails_keeps_the_old_one(bench: Bench) -> None:
    """Nothing is deleted; the next run tries again."""
    site: dict[str, Any] = {"Thing[web]": {"name": "w1", "lifecycle": {"replace": "create_first"}}}
    bench.apply(site)
    site["Thing[web]"]["name"] = "w2"
    with bench.troubled(w2="raise"):
        assert bench.apply(site).exit_code == 1
    assert bench.names() == ["w1"]
    assert planned(bench.plan(site)) == {"Thing[web]": "replace"}
    bench.apply(site)
    assert bench.names() == ["w2"]


def test_a_create_first_whose_deletion_fails_deletes_later(bench: Bench) -> None:
    """The old one stays recorded as to be deleted; later runs delete it without ``--prune``."""
    site: dict[str, Any] = {"Thing[web]": {"name": "w1", "lifecycle": {"replace": "create_first"}}}
    bench.apply(site)
    site["Thing[web]"]["name"] = "w2"
    with bench.troubled(w1="raise"):
        report = bench.apply(site)
    assert (report.exit_code, bench.names()) == (1, ["w1", "w2"])
    assert len(bench.state.records) == 2
    assert set(planned(bench.plan(site)).values()) == {"delete"}
    bench.apply(site)
    assert (bench.names(), len(bench.state.records)) == (["w2"], 1)


def test_a_create_first_whose_old_one_is_gone_leaves_no_record_of_it(bench: Bench) -> None:
    """There is nothing to delete, and nothing is left to do for the next run."""
    bench.apply({"Thing[t]": {"name": "a"}})
    bench.world.things["thing"].clear()
    site = {"Thing[t]": {"name": "b", "lifecycle": {"replace": "create_first"}}}
    report = bench.apply(site)
    assert (acted(report), report.summary.replaced) == ({"Thing[t]": ("replace", "success")}, 1)
    assert [key[1] for key in bench.state.records] == ["b"]
    assert acted(bench.apply(site)) == {}


def left_over(bench: Bench, dependent: dict[str, Any]) -> None:
    """Replace the thing called web under a dependent, so that the old one cannot be deleted."""
    site: dict[str, Any] = {
        "Thing[web]": {"name": "w1", "lifecycle": {"replace": "create_first"}},
        "Thing[c]": {"colour": "${Thing[web].serial}", **dependent},
    }
    bench.apply(site)
    site["Thing[web]"]["name"] = "w2"
    with bench.troubled(w1="raise"):
        assert bench.apply(site).exit_code == 1
    assert bench.names() == ["c", "w1", "w2"]


def test_an_old_resource_that_was_not_deleted_has_its_own_reference(bench: Bench) -> None:
    """The title belongs to its successor."""
    left_over(bench, {})
    names = {str(record.reference): record.name for record in bench.state.records.values()}
    assert names == {"Thing[web]": "w2", "Thing[w1]": "w1", "Thing[c]": "c"}
    assert bench.state.records["thing", "c"].requires == ["Thing[web]"]


def test_a_protected_dependent_keeps_the_new_one_and_not_the_old_one(bench: Bench) -> None:
    """The deletion of the old one waits for nothing, that of the new one for its dependent."""
    left_over(bench, {"lifecycle": {"protect": True}})
    report = bench.destroy({})
    assert acted(report) == {
        "Thing[w1]": ("delete", "success"),
        "Thing[c]": ("delete", "failed"),
        "Thing[web]": ("delete", "skipped"),
    }
    assert bench.names() == ["c", "w2"]


@pytest.mark.parametrize("order", [1, -1])
def test_records_of_one_title_resolve_to_the_present_one(bench: Bench, order: int) -> None:
    """State that an earlier version has written, with the two records in any order."""
    left_over(bench, {"lifecycle": {"protect": True}})
    name = StackName("world", "default")
    records = dict(bench.state.records)
    records["thing", "w1"] = records["thing", "w1"]._replace(title="web")
    bench.store.commit(name, Commit(drop=list(records)))
    bench.store.commit(name, Commit(put=list(records.values())[::order]))
    assert acted(bench.destroy({}))["Thing[web]"] == ("delete", "skipped")
    assert bench.names() == ["c", "w2"]


def test_the_old_one_stays_while_a_dependent_cannot_be_updated(bench: Bench) -> None:
    """The dependent may still use the old one, also in a later run."""
    site: dict[str, Any] = {
        "Thing[web]": {"name": "w1", "lifecycle": {"replace": "create_first"}},
        "Thing[c]": {"colour": "${Thing[web].serial}"},
    }
    bench.apply(site)
    site["Thing[web]"]["name"] = "w2"
    for _ in range(2):
        with bench.troubled(c="raise"):
            bench.apply(site)
        assert bench.names() == ["c", "w1", "w2"]
    bench.apply(site)
    assert bench.names() == ["c", "w2"]


def test_destroy_deletes_a_dependent_before_the_new_one(bench: Bench) -> None:
    """As if the old one did not exist."""
    left_over(bench, {})
    bench.destroy({})
    gone = [name for _, _, name in bench.world.calls]
    assert gone.index("c") < gone.index("w2")
    assert bench.names() == []


def test_a_delete_first_whose_deletion_fails_changes_nothing_else(bench: Bench) -> None:
    """The next run deletes and creates."""
    site: dict[str, Any] = {"Thing[a]": {"image": "x", "lifecycle": FIRST}}
    bench.apply(site)
    site["Thing[a]"]["image"] = "y"
    with bench.troubled(a="raise"):
        assert acted(bench.apply(site)) == {"Thing[a]": ("replace", "failed")}
    assert bench.world.things["thing"]["a"]["image"] == "x"
    assert acted(bench.apply(site)) == {"Thing[a]": ("replace", "success")}


def test_a_delete_first_whose_deletion_had_no_effect_deletes_later(bench: Bench) -> None:
    """Both are changed in one call, and the creation has succeeded: the old one stays ours."""
    bench.apply({"Thing[t]": {"name": "a"}})
    site = {"Thing[t]": {"name": "b", "lifecycle": FIRST}}
    with bench.troubled(a="lie"):
        report = bench.apply(site)
    assert (acted(report), bench.names()) == ({"Thing[t]": ("replace", "failed")}, ["a", "b"])
    assert {key[1]: (record.status, record.owned) for key, record in bench.state.records.items()} == {
        "a": ("replaced", True),
        "b": ("ready", True),
    }
    assert acted(bench.apply(site)) == {"Thing[a]": ("delete", "success")}
    assert bench.names() == ["b"]


def test_a_delete_first_whose_creation_fails_is_created_next_time(bench: Bench) -> None:
    """State shows that the old one was deleted, and the resource is still ours."""
    site: dict[str, Any] = {"Thing[a]": {"image": "x", "lifecycle": FIRST}}
    bench.apply(site)
    site["Thing[a]"]["image"] = "y"
    bench.store.fuse = -1
    created = bench.world.change

    def change(kind: str, name: str, is_: Any, should: dict[str, Any], context: Any) -> None:
        if should.get("ensure") == "present":
            raise RuntimeError("no more of these")
        created(kind, name, is_, should, context)

    bench.world.change = change  # type: ignore[method-assign]
    assert acted(bench.apply(site)) == {"Thing[a]": ("replace", "failed")}
    bench.world.change = created  # type: ignore[method-assign]
    assert bench.names() == []
    assert acted(bench.apply(site)) == {"Thing[a]": ("create", "success")}
    record = bench.record("Thing[a]")
    assert record is not None
    assert record.owned


def test_a_requested_replacement_needs_no_difference(bench: Bench) -> None:
    """``--replace`` needs no permission, but ``never`` refuses it; a name that matches nothing is an error."""
    site: dict[str, Any] = {"Thing[a]": {}}
    bench.apply(site)
    plan = bench.plan(site, replace=("Thing[a]",))
    assert plan.steps[0].decision.reasons == ("asked for by --replace",)
    assert acted(bench.apply(site, replace=("Thing[a]",))) == {"Thing[a]": ("replace", "success")}
    site["Thing[a]"]["lifecycle"] = {"replace": "never"}
    assert acted(bench.apply(site, replace=("Thing[a]",))) == {"Thing[a]": ("replace", "failed")}
    with pytest.raises(UsageError, match="matches no resource"):
        bench.apply(site, replace=("Thing[b]",))


@pytest.mark.parametrize(
    ("selection", "names"),
    [
        ({"targets": ("Thing[b]",)}, "--target Thing[b]"),
        ({"excludes": ("Thing[a]",)}, "--exclude Thing[a]"),
        ({"tags": {"b"}, "skip_tags": {"c"}}, "--tags b --skip-tags c"),
    ],
)
def test_a_requested_replacement_must_be_selected(bench: Bench, selection: dict[str, Any], names: str) -> None:
    """A pattern of which something is selected replaces that; one that nothing is left of would do nothing."""
    site: dict[str, Any] = {"Thing[a]": {}, "Thing[b]": {}}
    bench.apply(site)
    with pytest.raises(UsageError, match=re.escape(f"--replace Thing[a] is left out by {names}")):
        bench.apply(site, replace=("Thing[a]",), **selection)
    assert planned(bench.plan(site, replace=("Thing[*]",), **selection)) == {"Thing[b]": "replace"}


def test_a_requested_replacement_of_a_new_resource_is_a_creation(bench: Bench) -> None:
    """A resource that does not exist cannot be replaced."""
    assert acted(bench.apply({"Thing[a]": {}}, replace=("Thing[a]",))) == {"Thing[a]": ("create", "success")}


def test_a_trigger_replaces_when_the_named_resource_changes(bench: Bench) -> None:
    """A change of B replaces A; without a change nothing happens."""
    site: dict[str, Any] = {"Thing[b]": {"size": 1}, "Thing[a]": {"lifecycle": {"replace_triggered_by": ["Thing[b]"]}}}
    bench.apply(site)
    assert acted(bench.apply(site)) == {}
    site["Thing[b]"]["size"] = 2
    assert acted(bench.apply(site)) == {"Thing[b]": ("update", "success"), "Thing[a]": ("replace", "success")}


def test_replace_on_changes_replaces_instead_of_updating(bench: Bench) -> None:
    """``replace_on_changes`` turns an update into a replacement; another attribute is updated."""
    lifecycle = {"replace_on_changes": ["size"]}
    bench.apply({"Thing[a]": {"size": 1, "lifecycle": lifecycle}})
    assert planned(bench.plan({"Thing[a]": {"size": 2, "lifecycle": lifecycle}})) == {"Thing[a]": "replace"}
    assert planned(bench.plan({"Thing[a]": {"size": 1, "colour": "red", "lifecycle": lifecycle}})) == {
        "Thing[a]": "update"
    }


def test_an_ignored_attribute_is_set_by_a_replacement(bench: Bench) -> None:
    """``ignore_changes`` hides a difference; a replacement for another reason uses the declared value."""
    site: dict[str, Any] = {"Thing[a]": {"size": 1, "lifecycle": {"ignore_changes": ["size"]}}}
    bench.apply(site)
    site["Thing[a]"]["size"] = 2
    assert planned(bench.plan(site)) == {}
    bench.apply(site, replace=("Thing[a]",))
    assert bench.world.things["thing"]["a"]["size"] == 2


def test_a_type_that_cannot_be_created_is_not_replaced(bench: Bench) -> None:
    """Settings are only configured: a requested replacement of one is an error."""
    bench.put("setting", s={"value": 1})
    assert acted(bench.apply({"Setting[s]": {"value": 1}}, replace=("Setting[s]",))) == {
        "Setting[s]": ("replace", "failed")
    }


def test_a_tainted_resource_is_replaced_once(bench: Bench) -> None:
    """The reason is shown; afterwards it is ready."""
    site = {"Thing[a]": {"size": 1}}
    bench.apply(site)
    bench.mend(("thing", "a"), "taint")
    plan = bench.plan(site)
    assert planned(plan) == {"Thing[a]": "replace"}
    assert plan.steps[0].decision.reasons == ("tainted",)
    bench.apply(site)
    assert planned(bench.plan(site)) == {}


def test_a_tainted_or_requested_imperative_resource_is_run_once_though_it_is_not_due(bench: Bench) -> None:
    """The reason is shown; afterwards it is ready."""
    site: dict[str, Any] = {"Thing[a]": {"size": 1}, "Job[j]": {}, "Job[k]": {"size": "${Thing[a].size}"}}
    bench.apply(site)
    bench.world.undue.update(("j", "k"))
    assert planned(bench.plan(site)) == {}
    bench.mend(("job", "j"), "taint")
    plan = bench.plan(site, replace=("Job[k]",))
    assert planned(plan) == {"Job[j]": "run", "Job[k]": "run"}
    assert [step.decision.reasons for step in plan.steps[1:]] == [("tainted",), ("asked for by --replace",)]
    report = bench.apply(site, replace=("Job[k]",))
    assert acted(report) == {"Job[j]": ("run", "success"), "Job[k]": ("run", "success")}
    record = bench.record("Job[j]")
    assert record is not None
    assert (record.status, planned(bench.plan(site))) == ("ready", {})


def test_a_tainted_resource_that_cannot_be_replaced_says_how_it_is_kept(bench: Bench) -> None:
    """Settings are only configured, and what is retained is never deleted."""
    site = {"Setting[s]": {"value": 1}, "Thing[a]": {"size": 1, "lifecycle": {"retain": True}}}
    bench.put("setting", s={"value": 1})
    bench.apply(site)
    for kind, name in (("setting", "s"), ("thing", "a")):
        bench.mend((kind, name), "taint")
    for step in bench.plan(site).steps:
        assert step.decision.error.endswith(f"; to keep it as it is: state untaint '{step.reference}'")


def test_a_forbidden_replacement_changes_nothing_of_its_chain(bench: Bench) -> None:
    """A is protected and would be replaced: B, which would be deleted before A, stays."""
    site: dict[str, Any] = {
        "Thing[a]": {"image": "x", "lifecycle": {**FIRST, "protect": True}},
        "Thing[b]": {"image": "x", "require": "Thing[a]", "lifecycle": FIRST},
    }
    bench.apply(site)
    site["Thing[a]"]["image"] = site["Thing[b]"]["image"] = "y"
    report = bench.apply(site)
    assert acted(report) == {"Thing[a]": ("replace", "failed"), "Thing[b]": ("replace", "skipped")}
    assert bench.world.calls == []


def test_dependents_of_init_only_values_are_replaced_with_their_source(bench: Bench) -> None:
    """A is replaced and gets another number; B was created from that number and is replaced, C only requires A."""
    site: dict[str, Any] = {
        "Thing[a]": {"image": "x", "lifecycle": FIRST},
        "Thing[b]": {"image": "${Thing[a].serial}", "lifecycle": FIRST},
        "Thing[c]": {"image": "z", "require": "Thing[a]", "lifecycle": FIRST},
    }
    bench.apply(site)
    site["Thing[a]"]["image"] = "y"
    assert planned(bench.plan(site)) == {"Thing[a]": "replace", "Thing[b]": "replace"}
    bench.apply(site)
    assert bench.world.things["thing"]["b"]["image"] == "S-a"
    assert planned(bench.plan(site)) == {}


@pytest.mark.parametrize(
    ("lifecycle", "trouble", "ends"),
    [
        (FIRST, {"w2": "raise"}, {"Thing[web]": ("replace", "failed"), "Thing[c]": ("update", "skipped")}),
        (
            {"replace": "create_first"},
            {"c": "raise"},
            {"Thing[web]": ("replace", "skipped"), "Thing[c]": ("update", "failed")},
        ),
    ],
)
def test_one_half_of_a_replacement_is_a_change(
    bench: Bench, lifecycle: dict[str, Any], trouble: dict[str, str], ends: dict[str, Any]
) -> None:
    """The step has not succeeded and does not count, but something was changed."""
    site: dict[str, Any] = {
        "Thing[web]": {"name": "w1", "lifecycle": lifecycle},
        "Thing[c]": {"colour": "${Thing[web].name}"},
    }
    bench.apply(site)
    site["Thing[web]"]["name"] = "w2"
    with bench.troubled(**trouble):
        report = bench.apply(site)
    assert acted(report) == ends
    assert (report.summary.changed, report.changed) == (0, True)
