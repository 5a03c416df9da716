"""The lifecycle of a resource from creation to deletion, and the arguments of its provider."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

A = """
resources:
  Widget[a]: {colour: red, size: 3}
"""


def test_what_is_declared_and_missing_is_created(bench: Bench) -> None:
    """A missing resource is created by one call with ``is_`` None, and logged by one line."""
    result = bench.apply(A, "--detailed-exitcodes")
    assert result.code == 2
    assert bench.things("widget") == {"a": {"colour": "red", "size": 3, "serial": "S-a"}}
    declared = {"name": "a", "ensure": "present", "force": False, "colour": "red", "size": 3}
    assert bench.calls("widget", "set") == [{"a": [None, declared]}]
    assert result.lines == ["Notice: Widget[a]: Successfully created"]
    expected = "1 created, 0 unchanged."
    assert re.fullmatch(r"Applied in \d+\.\d s: " + re.escape(expected) + "\n", result.out)


def test_a_second_run_changes_nothing(bench: Bench) -> None:
    """A second run is silent on stderr and does not call ``set``."""
    bench.apply(A)
    again = bench.apply(A, "--detailed-exitcodes")
    assert (again.code, again.err) == (0, "")
    assert len(bench.calls("widget", "set")) == 1
    assert "1 unchanged" in again.out


def test_a_creation_is_one_change(bench: Bench) -> None:
    """A creation reports ``ensure`` as its only change."""
    (end,) = bench.stream(A).events("step_end")
    assert (end["action"], end["status"]) == ("create", "success")
    assert [change["attribute"] for change in end["changes"]] == ["ensure"]


def test_two_differing_attributes_are_one_call(bench: Bench) -> None:
    """Each attribute has a line, and ``set`` is called once with the actual and the declared values."""
    bench.put("widget", a={"colour": "blue", "size": 1, "serial": "S-a", "image": "oak"})
    result = bench.stream(A, "--detailed-exitcodes")
    assert result.code == 2
    changes = result.ends()["Widget[a]"]["changes"]
    assert [(change["attribute"], change["is"], change["should"]) for change in changes] == [
        ("size", 1, 3),
        ("colour", "blue", "red"),
    ]
    is_ = {"name": "a", "ensure": "present", "colour": "blue", "size": 1, "serial": "S-a", "image": "oak"}
    should = {"name": "a", "ensure": "present", "force": False, "colour": "red", "size": 3}
    assert bench.calls("widget", "set") == [{"a": [is_, should]}]
    assert bench.things("widget")["a"] == {"colour": "red", "size": 3, "serial": "S-a", "image": "oak"}
    assert "Notice: Widget[a]: size changed from 1 to 3" in result.lines
    assert "Notice: Widget[a]: colour changed from blue to red" in result.lines


def test_absent_is_deleted_once(bench: Bench) -> None:
    """``ensure: absent`` deletes the resource, and a second run does not call ``set``."""
    bench.put("widget", a={"size": 3})
    gone = "resources: {'Widget[a]': {ensure: absent}}"
    result = bench.apply(gone, "--detailed-exitcodes")
    assert (result.code, result.lines) == (2, ["Notice: Widget[a]: Successfully deleted"])
    assert bench.things("widget") == {}
    ((is_, should),) = bench.calls("widget", "set")[0].values()
    assert is_["size"] == 3
    assert should["ensure"] == "absent"
    assert bench.apply(gone, "--detailed-exitcodes").code == 0
    assert len(bench.calls("widget", "set")) == 1


def test_an_absent_resource_needs_no_mandatory_attribute(bench: Bench) -> None:
    """A mandatory attribute is required only where the resource is to be present."""
    bench.type(
        "strict_thing",
        bench.NAMED + '"size": Attribute("Integer", "s"),',
        provider="def get(self, context): return []\ndef create(self, context, name, should): pass",
    )
    assert bench.apply("resources: {'Strict_thing[a]': {ensure: absent}}").code == 0
    assert bench.apply("resources: {'Strict_thing[a]': {}}").code == 65


def test_a_parameter_alone_causes_no_update(bench: Bench) -> None:
    """A parameter is not compared."""
    bench.put("widget", a={"colour": "red", "size": 3})
    result = bench.apply("resources: {'Widget[a]': {colour: red, size: 3, force: true}}", "--detailed-exitcodes")
    assert result.code == 0
    assert bench.calls("widget", "set") == []


def test_a_parameter_that_get_returns_is_not_compared(bench: Bench) -> None:
    """It has no present value: a provider that returns one causes no update."""
    bench.type(
        "probe",
        bench.NAMED + '"way": Attribute("Optional[String]", "w", kind="parameter"),',
        provider="""
        def get(self, context): return [{"name": "a", "ensure": "present", "way": "loud"}]
        def set(self, context, changes): raise RuntimeError("nothing is to be changed")
        """,
        base="BaseProvider",
    )
    result = bench.apply("resources: {'Probe[a]': {way: quiet}}", "--detailed-exitcodes")
    assert (result.code, result.err) == (0, "")


def test_a_parameter_is_passed_with_a_change(bench: Bench) -> None:
    """A parameter is in ``should`` and not in ``is_``."""
    bench.put("widget", a={"colour": "red"})
    bench.apply("resources: {'Widget[a]': {colour: blue, force: true}}")
    ((is_, should),) = bench.calls("widget", "set")[0].values()
    assert should["force"] is True
    assert "force" not in is_


def test_what_is_not_declared_is_left_alone(bench: Bench) -> None:
    """``null`` leaves an attribute unmanaged, and no default applies to it."""
    bench.put("widget", a={"colour": "red", "size": 3})
    assert bench.apply("resources: {'Widget[a]': {colour: null}}", "--detailed-exitcodes").code == 0
    missing = bench.apply("resources: {'Widget[b]': {ensure: null, size: 1}}", "--detailed-exitcodes")
    assert missing.code == 0
    assert "b" not in bench.things("widget")


def test_without_ensure_what_exists_is_managed(bench: Bench) -> None:
    """With ``ensure: null`` an existing resource is updated."""
    bench.put("widget", a={"colour": "red"})
    result = bench.stream("resources: {'Widget[a]': {ensure: null, colour: blue}}")
    assert result.ends()["Widget[a]"]["action"] == "update"
    assert bench.things("widget")["a"]["colour"] == "blue"


def test_lists_and_mappings_are_compared_whole(bench: Bench) -> None:
    """The order of a list is significant, and the order of keys is not."""
    bench.put("widget", a={"parts": ["x", "y"], "labels": {"p": 1, "q": 2}})
    same = "resources: {'Widget[a]': {parts: [x, y], labels: {q: 2, p: 1}}}"
    assert bench.apply(same, "--detailed-exitcodes").code == 0
    turned = bench.stream("resources: {'Widget[a]': {parts: [y, x], labels: {p: 1, q: 3}}}")
    changes = turned.ends()["Widget[a]"]["changes"]
    assert {change["attribute"]: change["should"] for change in changes} == {
        "parts": ["y", "x"],
        "labels": {"p": 1, "q": 3},
    }


def test_comparison_is_exact(bench: Bench) -> None:
    """The string ``true`` differs from the boolean ``True``."""
    bench.put("widget", a={"mixed": True})
    result = bench.stream("resources: {'Widget[a]': {mixed: 'true'}}", "--detailed-exitcodes")
    assert result.code == 2
    assert result.ends()["Widget[a]"]["changes"] == [
        {"attribute": "mixed", "is": True, "should": "true", "message": None}
    ]
    assert bench.things("widget")["a"]["mixed"] == "true"


def test_no_resource_shares_a_default_with_another(bench: Bench) -> None:
    """A provider that changes a default value does not change it for another resource."""
    bench.type(
        "box",
        bench.NAMED + '"items": Attribute("Array[String]", "i", kind="parameter", default=[]),',
        provider="""
        made = {}
        def get(self, context): return [{"name": name, "ensure": "present"} for name in self.made]
        def create(self, context, name, should):
            context.notice(name, message=f"items {should['items']}")
            should["items"].append(name)
            self.made[name] = True
        """,
    )
    result = bench.apply("resources: {'Box[a]': {}, 'Box[b]': {}}")
    assert result.code == 0
    assert "Notice: Box[a]: items []" in result.lines
    assert "Notice: Box[b]: items []" in result.lines


def test_what_a_provider_is_given_cannot_be_replaced(bench: Bench) -> None:
    """A write to ``changes`` or to ``should`` raises an exception."""
    bench.probe(
        """
        def set(self, context, changes):
            for name, change in changes.items():
                for spoil in (lambda: changes.__setitem__(name, None), lambda: change.should.update(size=9)):
                    try:
                        spoil()
                    except Exception as error:
                        context.notice(name, message=f"refused {type(error).__name__}")
            self._done(changes)
        """
    )
    result = bench.apply("resources: {'Probe[a]': {size: 1}}")
    assert result.code == 0
    assert sum("refused" in line for line in result.lines) == 2


def test_a_missing_resource_without_ensure_is_an_error(bench: Bench) -> None:
    """A resource of a type without ``ensure`` cannot be created, and others of its type are updated."""
    bench.put("setting", port={"value": 80})
    result = bench.apply(
        "resources: {'Setting[port]': {value: 8080}, 'Setting[host]': {value: x}}", "--detailed-exitcodes"
    )
    assert result.code == 6
    assert bench.things("setting") == {"port": {"key": "port", "value": 8080}}
    assert any(line.startswith("Error: Setting[host]: does not exist") for line in result.lines)


def test_a_type_without_ensure_logs_its_change(bench: Bench) -> None:
    """The runtime logs a change that the provider does not report."""
    bench.put("setting", port={"value": 80})
    result = bench.apply("resources: {'Setting[port]': {value: 8080}}")
    assert result.lines == ["Notice: Setting[port]: value changed from 80 to 8080"]


def test_a_type_without_absent_is_forgotten_because_of_its_type(bench: Bench) -> None:
    """It is not said that such a resource was there before, which a daemon of a unit from the same manifest was not."""
    bench.put("daemon", a={"ensure": "stopped"})
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    bench.apply("resources: {'Daemon[a]': {}}")
    result = bench.run("destroy", "site.yaml", "--noop")
    assert ". Daemon[a] (resources of this type are configured, not deleted" in result.out, result


def test_a_row_with_ensure_absent_is_the_same_as_no_row(bench: Bench) -> None:
    """``is_`` is None for a row with ``ensure: absent``."""
    bench.probe(
        """
        def get(self, context):
            return list(self._rows().values()) or [{"name": "a", "ensure": "absent"}]
        def set(self, context, changes):
            context.notice(f"is {changes['a'].is_}")
            self._done(changes)
        """
    )
    result = bench.apply("resources: {'Probe[a]': {size: 1}}")
    assert result.code == 0
    assert "Notice: probe: is None" in result.lines


def test_a_row_without_ensure_exists(bench: Bench) -> None:
    """A row without ``ensure`` is a present resource."""
    bench.probe("def get(self, context): return [{'name': 'a', 'size': 1}]\ndef set(self, context, changes): pass")
    assert bench.apply("resources: {'Probe[a]': {size: 1}}", "--detailed-exitcodes").code == 0


def test_an_ensure_without_absent_is_a_property(bench: Bench) -> None:
    """A change of ``ensure`` in a type that cannot be absent is an update."""
    bench.put("daemon", web={"ensure": "stopped"})
    result = bench.stream("resources: {'Daemon[web]': {}}")
    assert result.ends()["Daemon[web]"]["action"] == "update"
    assert bench.things("daemon")["web"] == {"ensure": "running"}


def test_the_namevar_may_be_given_beside_the_title(bench: Bench) -> None:
    """Messages show the title, and the provider receives the namevar."""
    result = bench.apply("resources: {'Widget[the first one]': {name: a, size: 1}}")
    assert result.code == 0
    assert list(bench.things("widget")) == ["a"]
    assert result.lines == ["Notice: Widget[the first one]: Successfully created"]


def test_resources_run_in_the_order_of_the_manifest(bench: Bench) -> None:
    """Consecutive resources of one type are one call, in the declared order."""
    bench.apply("resources: {'Widget[c]': {}, 'Widget[a]': {}, 'Widget[b]': {}}")
    (call,) = bench.calls("widget", "set")
    assert list(call) == ["c", "a", "b"]


def test_an_empty_manifest_does_nothing(bench: Bench) -> None:
    """A manifest without resources exits 0 with nothing on stderr."""
    result = bench.apply("resources: {}", "--detailed-exitcodes")
    assert (result.code, result.err) == (0, "")
