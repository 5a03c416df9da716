"""``purge``: what a type lists and nobody declares is deleted last, within its limit (contract §10.7)."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.waiting import wait_until

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench, Outcome

SITE = """
    project: shop
    resources:
      Widget[kept]: {size: 1}
    purge: [{type: Widget, at_most: %s}]
"""


@pytest.fixture
def strays(bench: Bench) -> Bench:
    """Return a bench with a state, and three widgets that nobody declares beside one that is declared."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home / 'state.db'}"
    bench.put("widget", kept={"size": 1}, one={"size": 1}, two={"size": 2}, three={"size": 3, "colour": "red"})
    return bench


def widgets(bench: Bench) -> list[str]:
    """Return the names of the existing widgets."""
    return sorted(bench.things("widget"))


def deleted(result: Outcome) -> dict[str, str]:
    """Return the status of each deletion of a run, by reference."""
    return {name: end["status"] for name, end in result.ends().items() if end["action"] == "delete"}


@pytest.mark.parametrize("option", [(), ("--parallel", "4")])
@pytest.mark.parametrize("isolate", ["", "1"], ids=["here", "in_a_worker"])
def test_what_nobody_declares_is_deleted(strays: Bench, isolate: str, option: tuple[str, ...]) -> None:
    """Recorded or not; what is declared stays, and a second run has nothing to do."""
    strays.environment["RESOURCE_API_ISOLATE"] = isolate
    result = strays.stream(SITE % 3, "--detailed-exitcodes", *option)
    assert result.code == 2, result.err
    assert (widgets(strays), len(deleted(result))) == (["kept"], 3)
    assert result.events("summary")[0]["deleted"] == 3
    assert strays.apply(SITE % 3, "--detailed-exitcodes").code == 0
    assert strays.run("state", "list", "--project", "shop").out.splitlines() == ["Widget[kept]"]


def test_the_plan_shows_it_and_changes_nothing(strays: Bench) -> None:
    """As deletions with the reason ``purged``, in text, in JSON, in a saved plan and under noop."""
    plan = strays.home / "plan.json"
    result = strays.plan(SITE % 5, "-o", str(plan))
    assert "- Widget[one] (purged)" in result.out.splitlines()
    assert result.out.splitlines()[-1] == "Plan: 3 to delete; 1 unchanged."
    steps = json.loads(plan.read_text())["steps"]
    assert {step["reference"] for step in steps if step["reasons"] == ["purged"] and step["action"] == "delete"} == {
        "Widget[one]",
        "Widget[two]",
        "Widget[three]",
    }
    assert strays.apply(SITE % 5, "--noop", "--detailed-exitcodes").code == 2
    assert len(widgets(strays)) == 4
    assert strays.run("apply", plan).code == 0
    assert widgets(strays) == ["kept"]


def test_a_saved_plan_is_stale_when_the_list_has_grown(strays: Bench) -> None:
    """It deletes what it shows and nothing else: 65."""
    plan = strays.home / "plan.json"
    strays.plan(SITE % 9, "-o", str(plan))
    strays.put("widget", four={})
    refused = strays.run("apply", plan)
    assert (refused.code, "stale" in refused.err, len(widgets(strays))) == (65, True, 5)


@pytest.mark.parametrize("command", ["plan", "apply", "noop"])
def test_more_than_at_most_fails_before_anything_is_changed(strays: Bench, command: str) -> None:
    """The message names them and the place of the entry: exit 1."""
    text = (SITE % 2).replace("size: 1", "size: 7")
    result = strays.plan(text) if command == "plan" else strays.apply(text, *(["--noop"] if command == "noop" else []))
    assert result.code == 1
    first = result.lines[0].partition("site.yaml:")[2]
    assert first == (
        "4:9: purge of Widget: would delete 3 resources, and at_most is 2: Widget[one], Widget[two], Widget[three]; "
        "raise at_most, or declare or except what is to stay"
    )
    assert strays.things("widget")["kept"] == {"size": 1}


@pytest.mark.parametrize(
    ("rule", "remaining"),
    [
        ("at_most: 1, except: ['t*']", {"two", "three"}),
        ("at_most: 2, except: [one]", {"one"}),
        ("at_most: 1, except: ['o?e', two]", {"one", "two"}),
        ("at_most: 1, where: {colour: red}", {"one", "two"}),
        ("at_most: 1, where: {size: {lt: 2}}", {"two", "three"}),
        ("at_most: 2, where: {size: [2, 3]}", {"one"}),
        ("at_most: 2, where: {colour: {exists: false}}", {"three"}),
        ("at_most: 1, where: {name: {matches: /^tw/}}", {"one", "three"}),
        ("at_most: 1, where: {colour: {matches: /r/}, size: {ge: 3}}", {"one", "two"}),
        ("at_most: 3, when: false", {"one", "two", "three"}),
        ("at_most: 3, when: {inputs.purging: true}", set()),
        ("at_most: 3, when: {inputs.purging: false}", {"one", "two", "three"}),
    ],
)
def test_what_an_entry_spares(strays: Bench, rule: str, remaining: set[str]) -> None:
    """Titles and patterns, tests of attributes, conditions; ``at_most`` counts after them."""
    text = f"""
    project: shop
    inputs: {{purging: {{default: true}}}}
    resources: {{"Widget[kept]": {{}}}}
    purge: [{{type: widget, {rule}}}]
    """
    result = strays.apply(text)
    assert (result.code, set(widgets(strays))) == (0, {"kept", *remaining}), result.err


def test_an_entry_that_is_left_out_is_told(strays: Bench) -> None:
    """As resources and outputs are, with the reason and the line."""
    strays.write("left.yaml", "project: shop\nresources: {}\npurge: [{type: widget, at_most: 1, when: false}]\n")
    line = "Left out: purge of Widget: when is false (left.yaml:3)"
    assert line in strays.run("validate", "left.yaml").out
    assert line in strays.run("plan", "left.yaml", "-v").out
    graph = strays.run("graph", "left.yaml", "--json").document
    assert graph["left_out"] == [{"reference": "purge of Widget", "why": "when is false (left.yaml:3)"}]


@pytest.mark.parametrize(
    "options",
    [("--target", "Widget[kept]"), ("--exclude", "Token[1]"), ("--tags", "kept"), ("--skip-tags", "none")],
)
def test_a_part_of_a_manifest_purges_nothing(strays: Bench, options: tuple[str, str]) -> None:
    """Nor is anything counted."""
    text = (SITE % 0).replace("purge:", "  Token[1]: {}\n    purge:")
    assert strays.apply(text, *options).code == 0
    assert len(widgets(strays)) == 4


def test_what_is_protected_stays(strays: Bench) -> None:
    """What another stack records, and what its own record protects, retains or only reads; and ``removed``."""
    declared = """
    project: shop
    resources:
      Widget[one]: {size: 1, lifecycle: {protect: true}}
      Widget[two]: {size: 2, lifecycle: {retain: true}}
      Widget[read]: {lifecycle: {external: true}}
      Widget[gone]: {}
      Widget[ours]: {}
    """
    strays.put("widget", read={}, gone={})
    assert strays.apply(declared).code == 0
    assert strays.apply("project: other\nresources: {'Widget[three]': {size: 3}}").code == 0
    text = (
        "project: shop\nresources: {}\nremoved: ['Widget[gone]', 'Widget[listed]']\npurge: [{type: Widget, at_most: 9}]"
    )
    strays.put("widget", listed={})
    result = strays.stream(text, "-v")
    assert result.code == 0, result.err
    assert deleted(result) == {"Widget[kept]": "success", "Widget[ours]": "success"}
    assert set(widgets(strays)) == {"one", "two", "three", "read", "gone", "listed"}
    assert "Info: Widget[three]: is not purged: it is recorded by project other, stack default" in result.lines


def test_a_stack_that_cannot_be_read_stops_it(strays: Bench) -> None:
    """It is not known what that records: exit 1 before anything is changed."""
    key = strays.home / "key"
    strays.run("new", "key", key)
    second = strays.write("other.yaml", "project: other\nresources: {'Widget[three]': {size: 3}}")
    result = strays.run("apply", second, "--key", f"file:{key}")
    assert result.code == 0, result.err
    refused = strays.apply(SITE % 9)
    assert (refused.code, len(widgets(strays))) == (1, 4), refused.err
    assert "it is not known what project other, stack default records" in refused.err


@pytest.mark.parametrize("trouble", ["failed", "skipped"])
def test_a_run_with_a_failure_purges_nothing(strays: Bench, trouble: str) -> None:
    """Each deletion is reported as skipped; also that of a failed plan, and with ``--prune-always``."""
    site = {"failed": "Widget[bad]: {}", "skipped": "Widget[bad]: {}\n      Token[1]: {require: 'Widget[bad]'}"}
    text = (SITE % 5).replace("purge:", f"  {site[trouble]}\n    purge:")
    for option in ((), ("--prune-always",), ("--parallel", "3")):
        result = strays.stream(text, *option)
        assert (result.code, set(deleted(result).values())) == (1, {"skipped"}), result.err
    protected = "project: p\nresources: {'Widget[one]': {ensure: absent, lifecycle: {protect: true}}}\n"
    result = strays.stream(protected + "purge: [{type: Widget, at_most: 9}]")
    assert result.code == 1
    assert len(widgets(strays)) == 4


def test_it_comes_last_and_prune_deletes_once(strays: Bench) -> None:
    """After what ``--prune`` deletes; what both delete is one step."""
    assert strays.apply("project: shop\nresources: {'Token[1]': {}, 'Widget[ours]': {}}").code == 0
    text = "project: shop\nresources: {'Widget[kept]': {size: 5}}\npurge: [{type: Widget, at_most: 9}]"
    result = strays.stream(text, "--prune")
    assert result.code == 0, result.err
    order = list(result.ends())
    assert order[0] == "Widget[kept]"
    assert set(order[1:3]) == {"Token[1]", "Widget[ours]"}
    assert sorted(order[3:]) == ["Widget[one]", "Widget[three]", "Widget[two]"]
    assert strays.run("state", "list", "--project", "shop").out.splitlines() == ["Widget[kept]"]


def test_what_was_there_before_us_is_purged_where_prune_forgets(strays: Bench) -> None:
    """An adopted widget is not ours: ``--prune`` alone forgets it, ``purge`` deletes it."""
    assert strays.apply("project: shop\nresources: {'Widget[one]': {size: 1}, 'Widget[kept]': {size: 1}}").code == 0
    result = strays.stream(SITE % 9, "--prune")
    assert (result.code, widgets(strays)) == (0, ["kept"]), result.err
    assert strays.run("state", "list", "--project", "shop").out.splitlines() == ["Widget[kept]"]


def test_what_is_left_out_is_purged(strays: Bench) -> None:
    """A resource whose condition does not hold is as if it were not declared; one for a failure is declared."""
    text = """
    project: shop
    resources:
      Widget[one]: {when: false}
      Widget[two]: {on_failure: "Widget[kept]"}
      Widget[kept]: {}
    purge: [{type: Widget, at_most: 9}]
    """
    result = strays.stream(text)
    assert (result.code, widgets(strays)) == (0, ["kept", "two"]), result.err


def test_destroy_purges_nothing(strays: Bench) -> None:
    """It deletes what is ours."""
    strays.apply("project: shop\nresources: {'Widget[mine]': {}}")
    site = strays.write("site.yaml", SITE % 9)
    assert strays.run("destroy", site, "--yes").code == 0
    assert widgets(strays) == ["kept", "one", "three", "two"]


LISTED = """
    def _note(self, what):
        with Path(os.environ["BENCH"], "probe.calls").open("a") as file:
            file.write(what + "\\n")
    def get(self, context, names=None):
        lists = Path(os.environ["BENCH"], "lists")
        if names is None:
            lists.write_text(str(int(lists.read_text()) + 1 if lists.exists() else 1))
        number = int(lists.read_text()) if lists.exists() else 0
        how = os.environ.get("HOW", "")
        if names is None and how == "cannot":
            raise CannotList("there is no list")
        if names is None and (how == "broken" or (how == "breaks" and number > 1)):
            raise OSError("the list is broken")
        rows = dict(self._rows())
        if how == "grows" and number > 1:
            rows["new"] = {"name": "new", "ensure": "present"}
        if how == "shrinks" and number > 1:
            rows.pop("a", None)
        if how == "changes" and number > 1 and "a" in rows:
            rows["a"] = rows["a"] | {"size": 9}
        return [row for name, row in rows.items() if names is None or name in names]
    def set(self, context, changes):
        for name, (is_, should) in changes.items():
            rows = self._rows()
            if should["ensure"] == "absent":
                rows.pop(name)
            else:
                rows[name] = dict(should)
            copy = self._file().with_suffix(".new")
            copy.write_text(json.dumps(rows))
            copy.replace(self._file())
            self._note(f"{name} {should['ensure']}")
            if os.environ.get("NAP"):
                import time
                time.sleep(float(os.environ["NAP"]))
"""


@pytest.fixture
def listed(bench: Bench) -> Bench:
    """Return a bench with a type whose list changes from one ``get`` to the next, and two resources."""
    bench.probe(LISTED, features=("simple_get_filter",))
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home / 'state.db'}"
    bench.put("probe", a={"name": "a", "ensure": "present", "size": 1}, b={"name": "b", "ensure": "present", "size": 1})
    return bench


PROBES = "project: p\nresources: {'Probe[c]': {}, 'Widget[w]': {}}\npurge: [{type: Probe, at_most: 9%s}]"


@pytest.mark.parametrize(
    ("how", "rule", "remaining"),
    [
        ("", "", {"c"}),
        ("grows", "", {"c"}),
        ("shrinks", "", {"a", "c"}),
        ("changes", ", where: {size: 1}", {"a", "c"}),
    ],
)
def test_only_what_both_lists_have_is_deleted(listed: Bench, how: str, rule: str, remaining: set[str]) -> None:
    """That of the plan and that at the turn, with the attributes of the second."""
    listed.environment["HOW"] = how
    result = listed.stream(PROBES % rule)
    assert (result.code, set(listed.things("probe"))) == (0, remaining), result.err
    assert result.events("summary")[0]["deleted"] == len({"a", "b"} - remaining)


def test_a_list_that_fails_at_the_turn_purges_nothing(listed: Bench) -> None:
    """Each deletion fails with the reason: exit 1; what is declared is done."""
    listed.environment["HOW"] = "breaks"
    result = listed.stream(PROBES % "")
    assert (result.code, set(deleted(result).values()), set(listed.things("probe"))) == (1, {"failed"}, {"a", "b", "c"})
    assert "cannot be listed again: the list is broken" in result.ends()["Probe[a]"]["error"]


def test_a_type_that_cannot_list_is_refused(listed: Bench) -> None:
    """``CannotList``: 65 at its entry, before anything is changed."""
    listed.environment["HOW"] = "cannot"
    result = listed.apply(PROBES % "")
    assert (result.code, listed.things("widget")) == (65, {})
    assert result.lines[0].endswith("3:9: purge of Probe: cannot be listed: there is no list; take this entry away")


def test_a_list_that_fails_in_the_plan(listed: Bench) -> None:
    """An earlier step may help: then a warning, and nothing is purged in this run; else exit 1."""
    listed.environment["HOW"] = "broken"
    result = listed.apply(PROBES % "")
    assert (result.code, set(listed.things("probe"))) == (0, {"a", "b", "c"}), result.err
    assert "cannot be listed yet, so that nothing of it is purged in this run: the list is broken" in result.err
    again = listed.apply(PROBES % "")
    assert (again.code, set(listed.things("probe"))) == (1, {"a", "b", "c"})
    assert "purge of Probe: cannot be listed: the list is broken" in again.err


@pytest.mark.parametrize("seconds", [0.0, 0.6])
def test_a_run_that_is_killed_deletes_at_most_once(listed: Bench, seconds: float) -> None:
    """The intent of a deletion is resolved; the next run deletes the rest, and nothing twice."""
    site = listed.write("site.yaml", PROBES % "")
    words = [sys.executable, "-m", "resource_api", "apply", str(site)]
    environment = listed.environment | {"NAP": "0.5"}
    process = subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True)
    calls = listed.things_of / "probe.calls"
    wait_until(lambda: calls.exists() and "absent" in calls.read_text())
    time.sleep(seconds)
    process.kill()
    process.communicate(timeout=20)
    result = listed.run("apply", site)
    assert (result.code, set(listed.things("probe"))) == (0, {"c"}), result.err
    deletions = [line for line in calls.read_text().splitlines() if "absent" in line]
    assert sorted(deletions) == ["a absent", "b absent"]
    assert listed.run("apply", site, "--detailed-exitcodes").code == 0
    assert {record["reference"] for record in listed.run("state", "export").document["resources"]} == {
        "Probe[c]",
        "Widget[w]",
    }


def test_python_manifests_have_it(strays: Bench) -> None:
    """``PURGE`` at the top of the module."""
    text = "PROJECT = 'shop'\nPURGE = [{'type': 'Widget', 'at_most': 3}]\ndef manifest(m):\n    m.widget('kept')\n"
    result = strays.run("apply", strays.write("site.py", text))
    assert (result.code, widgets(strays)) == (0, ["kept"]), result.err


CONDITION = "write true, false, ${inputs.NAME} or a mapping such as {facts.os.family: Debian}"
MISTAKES = [
    ("purge: {type: Widget}", "1:1: purge must be a list"),
    ("purge: [Widget]", "1:9: an item of purge must be a mapping; as in {type: Cron, at_most: 10}"),
    ("purge: [{at_most: 1}]", "1:9: purge needs type, the name of a type; as in {type: Cron, at_most: 10}"),
    ("purge: [{type: Widget}]", "1:9: purge needs at_most; the number of resources that one run may delete"),
    (
        "purge: [{type: Widget, at_most: '1'}]",
        "1:24: at_most must be a whole number, 0 or more; the number of resources that one run may delete",
    ),
    (
        "purge: [{type: 'Widget[a]', at_most: 1}]",
        "1:10: type must be the name of a type, without [...]; as in {type: Cron, at_most: 10}",
    ),
    (
        "purge: [{type: Widget, at_most: 1, exept: [a]}]",
        "1:36: unknown key 'exept'; did you mean 'except'?",
    ),
    ("purge: [{type: Widget, at_most: 1, except: a}]", '1:36: except must be a list of strings; write ["a"]'),
    ("purge: [{type: Widgit, at_most: 1}]", "1:10: unknown type 'Widgit'; did you mean 'widget'?"),
    ("purge: [{type: Errand, at_most: 1}]", "1:10: Errand cannot be purged: what it does cannot be listed"),
    (
        "purge: [{type: Setting, at_most: 1}]",
        "1:10: Setting cannot be purged: resources of this type are configured, not deleted",
    ),
    (
        "purge: [{type: Widget, at_most: 1, provider: west}]",
        "1:36: unknown provider 'west'; name it under providers:",
    ),
    (
        "purge: [{type: Widget, at_most: 1, where: {sise: 1}}]",
        "1:44: unknown attribute 'sise'; did you mean 'size'?",
    ),
    (
        "purge: [{type: Widget, at_most: 1, where: {force: true}}]",
        "1:44: 'force' is never read, so it cannot be tested",
    ),
    (
        "purge: [{type: Account, at_most: 1, where: {password: x}}]",
        "1:45: 'password' is a secret, and a deletion would tell it; test another attribute",
    ),
    (
        "purge: [{type: Widget, at_most: 1, where: [size]}]",
        "1:36: where must be a mapping of attributes to tests; as in where: {size: {lt: 10}}",
    ),
    (
        "purge: [{type: Widget, at_most: 1, where: {size: {les: 1}}}]",
        "1:51: unknown key 'les'; did you mean 'le'?",
    ),
    (
        "purge: [{type: Widget, at_most: 1, when: maybe}]",
        f"1:36: a condition must be true, false, a reference or a mapping; this is a text; {CONDITION}",
    ),
    (
        "purge: [{type: Widget, at_most: 1, when: {inputs.x: 1}}]",
        "1:43: ${inputs.x}: unknown input 'x'",
    ),
    (
        "purge:\n- {type: Widget, at_most: 1}\n- {type: widget, at_most: 1}",
        "3:3: Widget is purged twice; first at site.yaml:2:3",
    ),
]


@pytest.mark.parametrize(("manifest", "expected"), MISTAKES, ids=[expected[:44] for _, expected in MISTAKES])
def test_a_mistake_is_told_with_its_place(bench: Bench, manifest: str, expected: str) -> None:
    """Before anything is listed: 65."""
    result = bench.validate(manifest)
    outcome = result.lines[0].partition("site.yaml:")[2].replace(f"{bench.home}/", "")
    assert (result.code, outcome) == (65, expected), result.err


def test_a_test_that_does_not_fit_a_value_is_told(strays: Bench) -> None:
    """A text against a number: 65 with the remedy, nothing touched."""
    result = strays.apply("resources: {}\npurge: [{type: Widget, at_most: 9, where: {size: '1'}}]")
    assert (result.code, len(widgets(strays))) == (65, 4)
    assert "purge of Widget: where: the value is the number 1" in result.err
    assert "write it without quotes" in result.err


def test_a_configured_provider_is_listed(bench: Bench) -> None:
    """The one that ``provider`` names, and no other."""
    bench.type(
        "gauge",
        bench.NAMED,
        provider="""
        def configure(self, context, config):
            self.place = config["place"]
        def _file(self):
            return Path(os.environ["BENCH"], self.place)
        def _rows(self):
            return json.loads(self._file().read_text()) if self._file().exists() else []
        def get(self, context, names=None):
            return [{"name": name, "ensure": "present"} for name in self._rows()]
        def create(self, context, name, should):
            self._file().write_text(json.dumps([*self._rows(), name]))
        def delete(self, context, name):
            self._file().write_text(json.dumps([other for other in self._rows() if other != name]))
        """,
        config={},
    )
    types = bench.modules / "types" / "gauge.py"
    types.write_text(types.read_text().replace("config={}", "config={'place': Attribute('String', 'p')}"))
    for word in ("east", "west"):
        (bench.things_of / word).write_text('["kept", "stray"]')
    text = """
    providers: {east: {type: gauge, config: {place: east}}, west: {type: gauge, config: {place: west}}}
    resources: {"Gauge[kept]": {provider: west}}
    purge: [{type: Gauge, at_most: 1, provider: west}]
    """
    assert bench.apply(text).code == 0
    assert [(bench.things_of / name).read_text() for name in ("east", "west")] == ['["kept", "stray"]', '["kept"]']
    refused = bench.validate(text.replace(", provider: west}]", "}]"))
    assert refused.code == 65
    message = "purge of Gauge: the configuration of its provider: 'place' is missing"
    assert refused.lines[0].partition("site.yaml:")[2].startswith(f"3:9: {message}"), refused.err
