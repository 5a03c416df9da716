"""What becomes of a resource from its creation to its deletion, and what a provider is given on the way."""

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
    """One change, one line, one call; the provider is told that nothing was there."""
    done = bench.apply(A, "--detailed-exitcodes")
    assert done.code == 2
    assert bench.things("widget") == {"a": {"colour": "red", "size": 3, "serial": "S-a"}}
    declared = {"name": "a", "ensure": "present", "force": False, "colour": "red", "size": 3}
    assert bench.calls("widget", "set") == [{"a": [None, declared]}]
    assert done.lines == ["Notice: Widget[a]: Successfully created"]
    expected = "1 created, 0 unchanged."
    assert re.fullmatch(r"Applied in \d+\.\d s: " + re.escape(expected) + "\n", done.out)


def test_a_second_run_changes_nothing(bench: Bench) -> None:
    """What is as it should be is left alone, without a word on stderr."""
    bench.apply(A)
    again = bench.apply(A, "--detailed-exitcodes")
    assert (again.code, again.err) == (0, "")
    assert len(bench.calls("widget", "set")) == 1
    assert "1 unchanged" in again.out


def test_a_creation_is_one_change(bench: Bench) -> None:
    """Of what did not exist nothing else is compared."""
    (end,) = bench.stream(A).events("step_end")
    assert (end["action"], end["status"]) == ("create", "success")
    assert [each["attribute"] for each in end["changes"]] == ["ensure"]


def test_two_differing_attributes_are_one_call(bench: Bench) -> None:
    """Each attribute has its line, the provider is asked once, and gets what is and what should be."""
    bench.put("widget", a={"colour": "blue", "size": 1, "serial": "S-a", "image": "oak"})
    done = bench.stream(A, "--detailed-exitcodes")
    assert done.code == 2
    changes = done.ends()["Widget[a]"]["changes"]
    assert [(each["attribute"], each["is"], each["should"]) for each in changes] == [
        ("size", 1, 3),
        ("colour", "blue", "red"),
    ]
    is_ = {"name": "a", "ensure": "present", "colour": "blue", "size": 1, "serial": "S-a", "image": "oak"}
    should = {"name": "a", "ensure": "present", "force": False, "colour": "red", "size": 3}
    assert bench.calls("widget", "set") == [{"a": [is_, should]}]
    assert bench.things("widget")["a"] == {"colour": "red", "size": 3, "serial": "S-a", "image": "oak"}
    assert "Notice: Widget[a]: size changed from 1 to 3" in done.lines
    assert "Notice: Widget[a]: colour changed from blue to red" in done.lines


def test_absent_is_deleted_once(bench: Bench) -> None:
    """The deletion asks for ``ensure: absent``; a second one has nothing to do."""
    bench.put("widget", a={"size": 3})
    gone = "resources: {'Widget[a]': {ensure: absent}}"
    done = bench.apply(gone, "--detailed-exitcodes")
    assert (done.code, done.lines) == (2, ["Notice: Widget[a]: Successfully deleted"])
    assert bench.things("widget") == {}
    ((is_, should),) = bench.calls("widget", "set")[0].values()
    assert is_["size"] == 3
    assert should["ensure"] == "absent"
    assert bench.apply(gone, "--detailed-exitcodes").code == 0
    assert len(bench.calls("widget", "set")) == 1


def test_nothing_is_mandatory_of_what_should_be_absent(bench: Bench) -> None:
    """Who wants a thing gone need not say how it looks."""
    bench.type(
        "strict_thing",
        """
        "name": Attribute("String", "n", kind="namevar"),
        "ensure": Attribute("Enum[present, absent]", "e", default="present"), "size": Attribute("Integer", "s"),
        """,
        provider="def get(self, context): return []\ndef create(self, context, name, should): pass",
    )
    assert bench.apply("resources: {'Strict_thing[a]': {ensure: absent}}").code == 0
    assert bench.apply("resources: {'Strict_thing[a]': {}}").code == 65


def test_a_parameter_alone_is_no_reason_to_change(bench: Bench) -> None:
    """Parameters steer; they are not compared."""
    bench.put("widget", a={"colour": "red", "size": 3})
    done = bench.apply("resources: {'Widget[a]': {colour: red, size: 3, force: true}}", "--detailed-exitcodes")
    assert done.code == 0
    assert bench.calls("widget", "set") == []


def test_a_parameter_goes_with_a_change(bench: Bench) -> None:
    """It is among what should be, and never among what is."""
    bench.put("widget", a={"colour": "red"})
    bench.apply("resources: {'Widget[a]': {colour: blue, force: true}}")
    ((is_, should),) = bench.calls("widget", "set")[0].values()
    assert should["force"] is True
    assert "force" not in is_


def test_what_is_not_declared_is_left_alone(bench: Bench) -> None:
    """``null`` is the same as saying nothing: unmanaged, and no default applies."""
    bench.put("widget", a={"colour": "red", "size": 3})
    assert bench.apply("resources: {'Widget[a]': {colour: null}}", "--detailed-exitcodes").code == 0
    missing = bench.apply("resources: {'Widget[b]': {ensure: null, size: 1}}", "--detailed-exitcodes")
    assert missing.code == 0
    assert "b" not in bench.things("widget")


def test_without_ensure_what_exists_is_managed(bench: Bench) -> None:
    """Nothing is created or deleted when nobody speaks of existence."""
    bench.put("widget", a={"colour": "red"})
    done = bench.stream("resources: {'Widget[a]': {ensure: null, colour: blue}}")
    assert done.ends()["Widget[a]"]["action"] == "update"
    assert bench.things("widget")["a"]["colour"] == "blue"


def test_lists_and_mappings_are_compared_whole(bench: Bench) -> None:
    """Equal ones are no change, however deep; another order of a list is one, another order of keys is none."""
    bench.put("widget", a={"parts": ["x", "y"], "labels": {"p": 1, "q": 2}})
    same = "resources: {'Widget[a]': {parts: [x, y], labels: {q: 2, p: 1}}}"
    assert bench.apply(same, "--detailed-exitcodes").code == 0
    turned = bench.stream("resources: {'Widget[a]': {parts: [y, x], labels: {p: 1, q: 3}}}")
    changes = turned.ends()["Widget[a]"]["changes"]
    assert {each["attribute"]: each["should"] for each in changes} == {"parts": ["y", "x"], "labels": {"p": 1, "q": 3}}


def test_comparison_is_exact(bench: Bench) -> None:
    """A word is not a truth, though both may stand there; nothing is compared as text."""
    bench.put("widget", a={"mixed": True})
    done = bench.stream("resources: {'Widget[a]': {mixed: 'true'}}", "--detailed-exitcodes")
    assert done.code == 2
    assert done.ends()["Widget[a]"]["changes"] == [
        {"attribute": "mixed", "is": True, "should": "true", "message": None}
    ]
    assert bench.things("widget")["a"]["mixed"] == "true"


def test_no_resource_shares_a_default_with_another(bench: Bench) -> None:
    """A provider that changes what it was given changes it for nobody else."""
    bench.type(
        "box",
        """
        "name": Attribute("String", "n", kind="namevar"),
        "ensure": Attribute("Enum[present, absent]", "e", default="present"),
        "items": Attribute("Array[String]", "i", kind="parameter", default=[]),
        """,
        provider="""
        made = {}
        def get(self, context): return [{"name": name, "ensure": "present"} for name in self.made]
        def create(self, context, name, should):
            context.notice(name, message=f"items {should['items']}")
            should["items"].append(name)
            self.made[name] = True
        """,
    )
    done = bench.apply("resources: {'Box[a]': {}, 'Box[b]': {}}")
    assert done.code == 0
    assert "Notice: Box[a]: items []" in done.lines
    assert "Notice: Box[b]: items []" in done.lines


def test_what_a_provider_is_given_cannot_be_replaced(bench: Bench) -> None:
    """``changes``, ``is_`` and ``should`` are read-only: what the runtime compares with stays its own."""
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
    done = bench.apply("resources: {'Probe[a]': {size: 1}}")
    assert done.code == 0
    assert sum("refused" in line for line in done.lines) == 2


def test_what_is_missing_of_a_type_that_cannot_be_created_is_an_error(bench: Bench) -> None:
    """Settings are configured, never created; the others of their type go on."""
    bench.put("setting", port={"value": 80})
    done = bench.apply(
        "resources: {'Setting[port]': {value: 8080}, 'Setting[host]': {value: x}}", "--detailed-exitcodes"
    )
    assert done.code == 6
    assert bench.things("setting") == {"port": {"key": "port", "value": 8080}}
    assert any(line.startswith("Error: Setting[host]: does not exist") for line in done.lines)


def test_a_type_without_ensure_says_what_changed(bench: Bench) -> None:
    """What the provider does not report, the runtime does."""
    bench.put("setting", port={"value": 80})
    done = bench.apply("resources: {'Setting[port]': {value: 8080}}")
    assert done.lines == ["Notice: Setting[port]: value changed from 80 to 8080"]


def test_a_row_that_says_absent_is_the_same_as_no_row(bench: Bench) -> None:
    """A provider may list what does not exist; ``is_`` is None all the same."""
    bench.probe(
        """
        def get(self, context):
            return list(self._rows().values()) or [{"name": "a", "ensure": "absent"}]
        def set(self, context, changes):
            context.notice(f"is {changes['a'].is_}")
            self._done(changes)
        """
    )
    done = bench.apply("resources: {'Probe[a]': {size: 1}}")
    assert done.code == 0
    assert "Notice: probe: is None" in done.lines


def test_a_row_without_ensure_exists(bench: Bench) -> None:
    """What is listed is there, unless it says otherwise."""
    bench.probe("def get(self, context): return [{'name': 'a', 'size': 1}]\ndef set(self, context, changes): pass")
    assert bench.apply("resources: {'Probe[a]': {size: 1}}", "--detailed-exitcodes").code == 0


def test_any_other_ensure_is_presence(bench: Bench) -> None:
    """Of a type that cannot be absent, ``ensure`` is a property like others: here of what runs or is stopped."""
    bench.put("daemon", web={"ensure": "stopped"})
    done = bench.stream("resources: {'Daemon[web]': {}}")
    assert done.ends()["Daemon[web]"]["action"] == "update"
    assert bench.things("daemon")["web"] == {"ensure": "running"}


def test_the_namevar_may_be_given_beside_the_title(bench: Bench) -> None:
    """The title is the user's name, shown in messages; the namevar is what the provider gets."""
    done = bench.apply("resources: {'Widget[the first one]': {name: a, size: 1}}")
    assert done.code == 0
    assert list(bench.things("widget")) == ["a"]
    assert done.lines == ["Notice: Widget[the first one]: Successfully created"]


def test_resources_run_in_the_order_of_the_manifest(bench: Bench) -> None:
    """Consecutive ones of one type are one call, in their order."""
    bench.apply("resources: {'Widget[c]': {}, 'Widget[a]': {}, 'Widget[b]': {}}")
    (call,) = bench.calls("widget", "set")
    assert list(call) == ["c", "a", "b"]


def test_an_empty_manifest_does_nothing(bench: Bench) -> None:
    """There is nothing to do, and that is success."""
    done = bench.apply("resources: {}", "--detailed-exitcodes")
    assert (done.code, done.err) == (0, "")
