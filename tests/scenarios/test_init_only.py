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
    result = bench.apply(OTHER, "--strict", strict, "--detailed-exitcodes")
    assert result.code == 6
    (line,) = [line for line in result.lines if line.startswith("Error: Widget[a]: ")]
    assert "image" in line
    assert "oak" in line
    assert "elm" in line
    assert "size changed" not in result.err
    assert bench.things("widget")["a"] == {"image": "oak", "size": 1}
    assert "b" in bench.things("widget")


def test_plan_and_noop_report_the_same_error(bench: Bench) -> None:
    """``plan`` and ``--noop`` report the error, and the plan is not applicable."""
    bench.put("widget", a={"image": "oak"})
    planned = bench.plan(OTHER, "--json")
    assert planned.code == 1
    assert planned.document["applicable"] is False
    step = next(item for item in planned.document["steps"] if item["reference"] == "Widget[a]")
    assert "oak" in step["error"]
    noop = bench.apply(OTHER, "--noop", "--detailed-exitcodes")
    assert noop.code in {4, 6}
    assert "Error: Widget[a]: " in noop.err
    assert bench.calls("widget", "set") == []


def test_a_saved_plan_of_it_is_refused_with_its_reference(bench: Bench) -> None:
    """The plan could not be carried out when it was made, and nothing is touched."""
    bench.put("widget", a={"image": "oak"})
    assert bench.plan(OTHER, "-o", "plan.json").code == 1
    result = bench.run("apply", "plan.json")
    reason = "the plan is stale: it is not applicable, because Widget[a] could not be planned; plan again"
    assert (result.code, result.err) == (65, f"plan.json: {reason}\n")
    assert bench.things("widget") == {"a": {"image": "oak"}}


def test_setting_it_where_it_was_undefined_is_an_error(bench: Bench) -> None:
    """An ``init_only`` attribute that the existing resource does not have cannot be set."""
    bench.put("widget", a={"size": 1})
    result = bench.apply(OTHER)
    assert result.code == 1
    assert "(none)" in result.err
    assert "elm" in result.err


def test_it_is_no_obstacle_to_deletion(bench: Bench) -> None:
    """A resource is deleted although the declared ``init_only`` value differs."""
    bench.put("widget", a={"image": "oak"})
    assert bench.apply("resources: {'Widget[a]': {ensure: absent, image: elm}}").code == 0
    assert bench.things("widget") == {}


def test_delete_first_replaces_it_in_two_calls(bench: Bench) -> None:
    """``set`` is called once to delete and once to create, and there is one ``step_end``."""
    bench.put("widget", a={"image": "oak", "size": 1})
    result = bench.stream(
        "resources: {'Widget[a]': {image: elm, size: 2, lifecycle: {replace: delete_first}}}", "--detailed-exitcodes"
    )
    assert result.code == 2
    gone, created = bench.calls("widget", "set")
    assert gone["a"][0]["image"] == "oak"
    assert gone["a"][1]["ensure"] == "absent"
    assert created["a"][0] is None
    assert created["a"][1]["ensure"] == "present"
    assert bench.things("widget") == {"a": {"image": "elm", "size": 2, "serial": "S-a"}}
    (end,) = result.events("step_end")
    assert (end["action"], end["status"]) == ("replace", "success")
    assert result.events("summary")[0]["replaced"] == 1


def test_a_replacement_reports_how_the_new_resource_differs(bench: Bench) -> None:
    """A run and a noop run say the same; the run has the value that the plan did not know."""
    bench.put("widget", a={"image": "oak", "size": 1})
    site = """
    resources:
      Widget[b]: {size: 3}
      Widget[a]: {image: elm, colour: "${Widget[b].serial}", size: 2, lifecycle: {replace: delete_first}}
    """
    noop, result = (
        {change["attribute"]: (change["is"], change["should"]) for change in run.ends()["Widget[a]"]["changes"]}
        for run in (bench.stream(site, "--noop"), bench.stream(site))
    )
    assert noop == {"size": (1, 2), "colour": (None, None), "image": ("oak", "elm")}
    assert result == {**noop, "colour": (None, "S-b")}


def test_the_plan_shows_the_replacement_reason(bench: Bench) -> None:
    """The plan names the attribute with its old and its new value."""
    bench.put("widget", a={"image": "oak", "size": 1})
    result = bench.plan("resources: {'Widget[a]': {image: elm, lifecycle: {replace: delete_first}}}")
    assert result.code == 0
    assert result.out.startswith("-/+ Widget[a]")
    assert "image: oak → elm" in result.out
    assert "1 to replace" in result.out
    (reason,) = [line for line in result.out.splitlines() if "image" in line and "replace" in line]
    assert reason


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
    result = bench.apply(f"resources: {{'Widget[a]': {{colour: blue, {lifecycle}}}}}")
    assert result.code == 1
    assert "never" in result.err
    assert bench.things("widget") == {"a": {"colour": "red"}}


def test_a_change_may_require_a_replacement(bench: Bench) -> None:
    """``replace_on_changes`` replaces the resource, with the deletion first."""
    bench.put("widget", a={"colour": "red"})
    result = bench.stream("resources: {'Widget[a]': {colour: blue, lifecycle: {replace_on_changes: [colour]}}}")
    assert result.code == 0
    assert result.ends()["Widget[a]"]["action"] == "replace"
    assert bench.things("widget")["a"] == {"colour": "blue", "serial": "S-a"}


@pytest.mark.parametrize("replacement", ["", "replace_on_changes: [image]", "replace: never"])
def test_a_requested_replacement_allows_an_init_only_change(bench: Bench, replacement: str) -> None:
    """A requested replacement sets a new ``init_only`` value, and ``never`` refuses it."""
    bench.put("widget", a={"image": "oak"})
    options = () if replacement.startswith("replace_on") else ("--replace", "Widget[a]")
    result = bench.apply(f"resources: {{'Widget[a]': {{image: elm, lifecycle: {{{replacement}}}}}}}", *options)
    assert (result.code, bench.things("widget")["a"]["image"]) == ((1, "oak") if "never" in replacement else (0, "elm"))


def test_the_command_line_replaces_what_it_names(bench: Bench) -> None:
    """``--replace`` replaces an unchanged resource and creates a missing one."""
    bench.put("widget", a={"colour": "red"})
    manifest = "resources: {'Widget[a]': {colour: red}, 'Widget[b]': {}}"
    result = bench.apply(manifest, "--replace", "Widget[a]", "--replace", "Widget[b]", "--json")
    assert result.code == 0
    assert {name: end["action"] for name, end in result.ends().items()} == {
        "Widget[a]": "replace",
        "Widget[b]": "create",
    }


def test_create_first_needs_another_name(bench: Bench) -> None:
    """``create_first`` with the same name is an error, and nothing is deleted."""
    bench.put("widget", a={"image": "oak"})
    result = bench.apply("resources: {'Widget[a]': {image: elm, lifecycle: {replace: create_first}}}")
    assert result.code in {1, 65}
    assert bench.things("widget") == {"a": {"image": "oak"}}


def test_a_protected_resource_is_neither_deleted_nor_replaced(bench: Bench) -> None:
    """``protect`` refuses a deletion and a replacement before ``set`` is called."""
    bench.put("widget", a={"image": "oak"})
    for declared in ("ensure: absent", "image: elm"):
        lifecycle = "lifecycle: {protect: true, replace: delete_first}"
        result = bench.apply(f"resources: {{'Widget[a]': {{{declared}, {lifecycle}}}}}")
        assert result.code == 1
        assert "protect" in result.err
    assert bench.calls("widget", "set") == []


def test_what_is_retained_is_forgotten_instead_of_deleted(bench: Bench) -> None:
    """``retain`` removes the record and leaves the resource, and the next runs have nothing to do."""
    state = ("--state", f"sqlite:{bench.home}/state.db")
    assert bench.apply("resources: {'Widget[a]': {image: oak}}", *state).code == 0
    absent = "resources: {'Widget[a]': {ensure: absent, lifecycle: {retain: true}}}"
    result = bench.stream(absent, *state)
    assert result.code == 0
    assert result.ends()["Widget[a]"]["action"] == "forget"
    assert "a" in bench.things("widget")
    for _ in range(2):
        again = bench.stream(absent, *state, "--detailed-exitcodes")
        assert (again.code, again.ends()) == (0, {})


def test_ignored_changes_cause_no_update(bench: Bench) -> None:
    """A difference in an attribute of ``ignore_changes`` is no change."""
    bench.put("widget", a={"colour": "red", "size": 1})
    result = bench.apply(
        "resources: {'Widget[a]': {colour: blue, size: 1, lifecycle: {ignore_changes: [colour]}}}",
        "--detailed-exitcodes",
    )
    assert result.code == 0


def test_ignored_attributes_are_not_set_with_others(bench: Bench) -> None:
    """An update of another attribute leaves an ignored attribute at its value."""
    bench.put("widget", a={"colour": "red", "size": 1})
    result = bench.apply("resources: {'Widget[a]': {colour: blue, size: 2, lifecycle: {ignore_changes: [colour]}}}")
    assert result.code == 0
    assert bench.things("widget")["a"] == {"colour": "red", "size": 2}


def test_external_resources_are_read_and_never_changed(bench: Bench) -> None:
    """The values of an external resource can be used in references, and a missing one is an error."""
    bench.put("widget", a={"colour": "red", "serial": "S-7"})
    result = bench.apply(
        """
        resources:
          Widget[a]: {colour: blue, lifecycle: {external: true}}
          Widget[b]: {colour: "${Widget[a].serial}"}
        """
    )
    assert result.code == 0
    assert bench.things("widget")["a"]["colour"] == "red"
    assert bench.things("widget")["b"]["colour"] == "S-7"
    assert bench.apply("resources: {'Widget[c]': {lifecycle: {external: true}}}").code == 1


def test_an_unknown_name_among_ignored_attributes_is_refused(bench: Bench) -> None:
    """``ignore_changes`` with an attribute that the type does not have is an error."""
    result = bench.apply("resources:\n  Widget[a]:\n    lifecycle: {ignore_changes: [clour]}\n")
    assert result.code == 65
    assert "clour" in result.err
