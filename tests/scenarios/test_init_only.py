"""``init_only`` attributes and replacement: a change is an error unless a replacement is allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

OTHER = "resources: {'Widget[a]': {image: elm, size: 2}, 'Widget[b]': {}}"


def test_it_is_set_at_creation_and_left_alone_when_equal(bench: Bench) -> None:
    """An ``init_only`` attribute is set at creation, and an equal value is unchanged in the next run."""
    manifest = "resources: {'Widget[a]': {image: oak}}"
    assert bench.apply(manifest).code == 0
    assert bench.things("widget")["a"]["image"] == "oak"
    assert bench.apply(manifest, "--detailed-exitcodes").code == 0


@pytest.mark.parametrize("strict", ["error", "warning", "off"])
def test_changing_it_fails_that_resource_at_every_level(bench: Bench, strict: str) -> None:
    """The error names both values, no other attribute is changed, and other resources are applied."""
    bench.put("widget", a={"image": "oak", "size": 1})
    done = bench.apply(OTHER, "--strict", strict, "--detailed-exitcodes")
    assert done.code == 6
    (line,) = [line for line in done.lines if line.startswith("Error: Widget[a]: ")]
    assert "image" in line
    assert "oak" in line
    assert "elm" in line
    assert "size changed" not in done.err
    assert bench.things("widget")["a"] == {"image": "oak", "size": 1}
    assert "b" in bench.things("widget")


def test_plan_and_noop_report_the_same_error(bench: Bench) -> None:
    """``plan`` and ``--noop`` report the error, and the plan is not applicable."""
    bench.put("widget", a={"image": "oak"})
    planned = bench.plan(OTHER, "--json")
    assert planned.code == 1
    assert planned.document["applicable"] is False
    step = next(each for each in planned.document["steps"] if each["reference"] == "Widget[a]")
    assert "oak" in step["error"]
    noop = bench.apply(OTHER, "--noop", "--detailed-exitcodes")
    assert noop.code in {4, 6}
    assert "Error: Widget[a]: " in noop.err
    assert bench.calls("widget", "set") == []


def test_a_saved_plan_of_it_is_refused_with_its_reference(bench: Bench) -> None:
    """The plan could not be carried out when it was made, and nothing is touched."""
    bench.put("widget", a={"image": "oak"})
    assert bench.plan(OTHER, "-o", "plan.json").code == 1
    done = bench.run("apply", "plan.json")
    why = "the plan is stale: it is not applicable, because Widget[a] could not be planned; plan again"
    assert (done.code, done.err) == (65, f"plan.json: {why}\n")
    assert bench.things("widget") == {"a": {"image": "oak"}}


def test_setting_it_where_it_was_undefined_is_an_error(bench: Bench) -> None:
    """An ``init_only`` attribute that the existing resource does not have cannot be set."""
    bench.put("widget", a={"size": 1})
    done = bench.apply(OTHER)
    assert done.code == 1
    assert "(none)" in done.err
    assert "elm" in done.err


def test_it_is_no_obstacle_to_deletion(bench: Bench) -> None:
    """A resource is deleted although the declared ``init_only`` value differs."""
    bench.put("widget", a={"image": "oak"})
    assert bench.apply("resources: {'Widget[a]': {ensure: absent, image: elm}}").code == 0
    assert bench.things("widget") == {}


def test_delete_first_replaces_it_in_two_calls(bench: Bench) -> None:
    """``set`` is called once to delete and once to create, and there is one ``step_end``."""
    bench.put("widget", a={"image": "oak", "size": 1})
    done = bench.stream(
        "resources: {'Widget[a]': {image: elm, size: 2, lifecycle: {replace: delete_first}}}", "--detailed-exitcodes"
    )
    assert done.code == 2
    gone, made = bench.calls("widget", "set")
    assert gone["a"][0]["image"] == "oak"
    assert gone["a"][1]["ensure"] == "absent"
    assert made["a"][0] is None
    assert made["a"][1]["ensure"] == "present"
    assert bench.things("widget") == {"a": {"image": "elm", "size": 2, "serial": "S-a"}}
    (end,) = done.events("step_end")
    assert (end["action"], end["status"]) == ("replace", "success")
    assert done.events("summary")[0]["replaced"] == 1


def test_a_replacement_reports_how_the_new_resource_differs(bench: Bench) -> None:
    """A run and a noop run say the same; the run has the value that the plan did not know."""
    bench.put("widget", a={"image": "oak", "size": 1})
    site = """
    resources:
      Widget[b]: {size: 3}
      Widget[a]: {image: elm, colour: "${Widget[b].serial}", size: 2, lifecycle: {replace: delete_first}}
    """
    noop, done = (
        {each["attribute"]: (each["is"], each["should"]) for each in run.ends()["Widget[a]"]["changes"]}
        for run in (bench.stream(site, "--noop"), bench.stream(site))
    )
    assert noop == {"size": (1, 2), "colour": (None, None), "image": ("oak", "elm")}
    assert done == {**noop, "colour": (None, "S-b")}


def test_the_plan_shows_the_replacement_reason(bench: Bench) -> None:
    """The plan names the attribute with its old and its new value."""
    bench.put("widget", a={"image": "oak", "size": 1})
    done = bench.plan("resources: {'Widget[a]': {image: elm, lifecycle: {replace: delete_first}}}")
    assert done.code == 0
    assert done.out.startswith("-/+ Widget[a]")
    assert "image: oak → elm" in done.out
    assert "1 to replace" in done.out
    (why,) = [line for line in done.out.splitlines() if "image" in line and "replace" in line]
    assert why


@pytest.mark.parametrize("replace", ["delete_first", "create_first"])
def test_replace_does_not_replace_an_unchanged_resource(bench: Bench, replace: str) -> None:
    """``lifecycle: {replace: ...}`` only allows a replacement."""
    bench.put("widget", a={"image": "oak"})
    manifest = f"resources: {{'Widget[a]': {{image: oak, lifecycle: {{replace: {replace}}}}}}}"
    assert bench.apply(manifest, "--detailed-exitcodes").code == 0


def test_never_refuses_every_replacement(bench: Bench) -> None:
    """``replace: never`` takes precedence over ``replace_on_changes``."""
    bench.put("widget", a={"colour": "red"})
    lifecycle = "lifecycle: {replace: never, replace_on_changes: [colour]}"
    done = bench.apply(f"resources: {{'Widget[a]': {{colour: blue, {lifecycle}}}}}")
    assert done.code == 1
    assert "never" in done.err
    assert bench.things("widget") == {"a": {"colour": "red"}}


def test_a_change_may_require_a_replacement(bench: Bench) -> None:
    """``replace_on_changes`` replaces the resource, with the deletion first."""
    bench.put("widget", a={"colour": "red"})
    done = bench.stream("resources: {'Widget[a]': {colour: blue, lifecycle: {replace_on_changes: [colour]}}}")
    assert done.code == 0
    assert done.ends()["Widget[a]"]["action"] == "replace"
    assert bench.things("widget")["a"] == {"colour": "blue", "serial": "S-a"}


@pytest.mark.parametrize("replacement", ["", "replace_on_changes: [image]", "replace: never"])
def test_a_requested_replacement_allows_an_init_only_change(bench: Bench, replacement: str) -> None:
    """A requested replacement sets a new ``init_only`` value, and ``never`` refuses it."""
    bench.put("widget", a={"image": "oak"})
    options = () if replacement.startswith("replace_on") else ("--replace", "Widget[a]")
    done = bench.apply(f"resources: {{'Widget[a]': {{image: elm, lifecycle: {{{replacement}}}}}}}", *options)
    assert (done.code, bench.things("widget")["a"]["image"]) == ((1, "oak") if "never" in replacement else (0, "elm"))


def test_the_command_line_replaces_what_it_names(bench: Bench) -> None:
    """``--replace`` replaces an unchanged resource and creates a missing one."""
    bench.put("widget", a={"colour": "red"})
    manifest = "resources: {'Widget[a]': {colour: red}, 'Widget[b]': {}}"
    done = bench.apply(manifest, "--replace", "Widget[a]", "--replace", "Widget[b]", "--json")
    assert done.code == 0
    assert {name: end["action"] for name, end in done.ends().items()} == {"Widget[a]": "replace", "Widget[b]": "create"}


def test_create_first_needs_another_name(bench: Bench) -> None:
    """``create_first`` with the same name is an error, and nothing is deleted."""
    bench.put("widget", a={"image": "oak"})
    done = bench.apply("resources: {'Widget[a]': {image: elm, lifecycle: {replace: create_first}}}")
    assert done.code in {1, 65}
    assert bench.things("widget") == {"a": {"image": "oak"}}


def test_a_protected_resource_is_neither_deleted_nor_replaced(bench: Bench) -> None:
    """``protect`` refuses a deletion and a replacement before ``set`` is called."""
    bench.put("widget", a={"image": "oak"})
    for declared in ("ensure: absent", "image: elm"):
        lifecycle = "lifecycle: {protect: true, replace: delete_first}"
        done = bench.apply(f"resources: {{'Widget[a]': {{{declared}, {lifecycle}}}}}")
        assert done.code == 1
        assert "protect" in done.err
    assert bench.calls("widget", "set") == []


def test_what_is_retained_is_forgotten_instead_of_deleted(bench: Bench) -> None:
    """``retain`` removes the record and leaves the resource, and the next runs have nothing to do."""
    state = ("--state", f"sqlite:{bench.home}/state.db")
    assert bench.apply("resources: {'Widget[a]': {image: oak}}", *state).code == 0
    absent = "resources: {'Widget[a]': {ensure: absent, lifecycle: {retain: true}}}"
    done = bench.stream(absent, *state)
    assert done.code == 0
    assert done.ends()["Widget[a]"]["action"] == "forget"
    assert "a" in bench.things("widget")
    for _ in range(2):
        again = bench.stream(absent, *state, "--detailed-exitcodes")
        assert (again.code, again.ends()) == (0, {})


def test_ignored_changes_cause_no_update(bench: Bench) -> None:
    """A difference in an attribute of ``ignore_changes`` is no change."""
    bench.put("widget", a={"colour": "red", "size": 1})
    done = bench.apply(
        "resources: {'Widget[a]': {colour: blue, size: 1, lifecycle: {ignore_changes: [colour]}}}",
        "--detailed-exitcodes",
    )
    assert done.code == 0


def test_ignored_attributes_are_not_set_with_others(bench: Bench) -> None:
    """An update of another attribute leaves an ignored attribute at its value."""
    bench.put("widget", a={"colour": "red", "size": 1})
    done = bench.apply("resources: {'Widget[a]': {colour: blue, size: 2, lifecycle: {ignore_changes: [colour]}}}")
    assert done.code == 0
    assert bench.things("widget")["a"] == {"colour": "red", "size": 2}


def test_external_resources_are_read_and_never_changed(bench: Bench) -> None:
    """The values of an external resource can be used in references, and a missing one is an error."""
    bench.put("widget", a={"colour": "red", "serial": "S-7"})
    done = bench.apply(
        """
        resources:
          Widget[a]: {colour: blue, lifecycle: {external: true}}
          Widget[b]: {colour: "${Widget[a].serial}"}
        """
    )
    assert done.code == 0
    assert bench.things("widget")["a"]["colour"] == "red"
    assert bench.things("widget")["b"]["colour"] == "S-7"
    assert bench.apply("resources: {'Widget[c]': {lifecycle: {external: true}}}").code == 1


def test_an_unknown_name_among_ignored_attributes_is_refused(bench: Bench) -> None:
    """``ignore_changes`` with an attribute that the type does not have is an error."""
    done = bench.apply("resources:\n  Widget[a]:\n    lifecycle: {ignore_changes: [clour]}\n")
    assert done.code == 65
    assert "clour" in done.err
