"""``on_failure``: a resource that is carried out only if another one has failed in the run (contract §10.8)."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.waiting import wait_until

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench, Outcome

SITE = """
    project: rescue
    resources:
      Widget[{name}]: {{size: 1}}
      Token[1]: {{on_failure: "Widget[{name}]"}}
      Widget[other]: {{}}
"""


@pytest.fixture
def recorded(bench: Bench) -> Bench:
    """Return a bench with a state; the widget ``bad`` always fails."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home / 'state.db'}"
    return bench


def statuses(result: Outcome) -> dict[str, Any]:
    """Return the statuses of a run by reference."""
    return {name: end["status"] for name, end in result.ends().items()}


@pytest.mark.parametrize("option", [(), ("--fail-fast",), ("--parallel", "4"), ("--parallel", "3", "--fail-fast")])
@pytest.mark.parametrize("isolate", ["", "1"], ids=["here", "in_a_worker"])
def test_it_is_carried_out_if_the_other_has_failed(recorded: Bench, option: tuple[str, ...], isolate: str) -> None:
    """Also with ``--fail-fast``; the exit code stays the failure's."""
    recorded.environment["RESOURCE_API_ISOLATE"] = isolate
    result = recorded.stream(SITE.format(name="bad"), *option)
    assert result.code == 1
    assert statuses(result)["Token[1]"] == "success", result.err
    summary = result.events("summary")[0]
    assert (summary["failed"], list(recorded.things("token"))) == (1, ["1"])
    assert "Token[1]" in recorded.run("state", "list", "--project", "rescue").out.splitlines()


@pytest.mark.parametrize("option", [(), ("--parallel", "4")])
def test_otherwise_it_is_not_read_and_counts_as_nothing(recorded: Bench, option: tuple[str, ...]) -> None:
    """It has no step, and no event names it."""
    result = recorded.stream(SITE.format(name="good"), *option)
    assert (result.code, recorded.calls("token")) == (0, [])
    assert "Token[1]" not in result.out + result.err
    summary = result.events("summary")[0]
    assert (summary["created"], summary["unchanged"]) == (2, 0)
    again = recorded.stream(SITE.format(name="good"), "--detailed-exitcodes")
    assert (again.code, again.events("summary")[0]["unchanged"], recorded.calls("token")) == (0, 2, [])


def test_the_plan_shows_its_condition(recorded: Bench) -> None:
    """In text and in JSON, beside the steps and the counts; a saved plan is shown alike and applied alike."""
    result = recorded.plan(SITE.format(name="bad"))
    assert "? Token[1] (only if Widget[bad] fails)" in result.out.splitlines()
    assert result.out.splitlines()[-1] == "Plan: 2 to create; 0 unchanged."
    plan = recorded.home / "plan.json"
    document = recorded.plan(SITE.format(name="bad"), "--json", "-o", str(plan)).document
    assert document["only_if_failed"] == [{"reference": "Token[1]", "of": ["Widget[bad]"]}]
    assert [step["reference"] for step in document["steps"]] == ["Widget[bad]", "Widget[other]"]
    assert recorded.run("show", plan).out == result.out
    assert statuses(recorded.run("apply", plan, "--json"))["Token[1]"] == "success"


def test_a_failed_plan_and_noop_are_no_failures(recorded: Bench) -> None:
    """A protected resource that would be deleted fails without anything being done; noop resources never fail."""
    site = """
    project: rescue
    resources:
      Widget[a]: {lifecycle: {protect: true}}
      Token[1]: {on_failure: "Widget[a]"}
    """
    assert recorded.apply(site).code == 0
    refused = recorded.apply(site.replace("{lifecycle", "{ensure: absent, lifecycle"))
    assert (refused.code, recorded.calls("token")) == (1, [])
    noop = recorded.apply(SITE.format(name="bad"), "--noop")
    assert (noop.code, recorded.calls("token")) == (0, [])
    quiet = recorded.apply(SITE.format(name="bad").replace("{size: 1}", "{noop: true}"))
    assert (quiet.code, recorded.calls("token")) == (0, [])


def test_skipped_is_not_failed(recorded: Bench) -> None:
    """Only the failure itself is handled; that of a component is that of any of its resources."""
    recorded.write(
        "modules/components/pairs.py",
        """
        from resource_api import ComponentDefinition
        COMPONENT = ComponentDefinition(name="pairs", docs="Two widgets.")
        def build(m):
            first = m.widget("fine")
            m.widget("bad luck", require=first)
        """,
    )
    result = recorded.stream(
        """
        project: rescue
        resources:
          Widget[bad]: {}
          Widget[next]: {require: "Widget[bad]"}
          Token[1]: {on_failure: "Widget[next]"}
          Pairs[x]: {}
          Token[2]: {on_failure: ["Pairs[x]"]}
        """
    )
    outcome = statuses(result)
    assert "Token[1]" not in outcome
    assert (outcome["Token[2]"], outcome["Widget[next]"]) == ("success", "skipped")


def test_a_component_is_carried_out_as_a_whole(recorded: Bench) -> None:
    """Its resources inherit ``on_failure``; among themselves they may require each other."""
    recorded.write(
        "modules/components/alarm.py",
        """
        from resource_api import ComponentDefinition
        COMPONENT = ComponentDefinition(name="alarm", docs="Two tokens.")
        def build(m):
            m.token("2", require=m.token("1"))
            m.widget("inner", on_failure="Token[3]")
            m.token("3")
        """,
    )
    site = "project: rescue\nresources: {'Widget[%s]': {}, 'Alarm[all]': {on_failure: 'Widget[%s]'}}"
    good = recorded.stream(site % ("good", "good"))
    assert statuses(good) == {"Widget[good]": "success"}
    bad = statuses(recorded.stream(site % ("bad", "bad")))
    assert bad == {
        "Widget[bad]": "failed",
        "Alarm[all]/Token[1]": "success",
        "Alarm[all]/Token[2]": "success",
        "Alarm[all]/Token[3]": "success",
    }


def test_a_handler_may_fail_and_be_handled(recorded: Bench) -> None:
    """A chain: the second one is for the failure of the first."""
    site = """
    project: rescue
    resources:
      Widget[bad]: {}
      Widget[bad too]: {on_failure: "Widget[bad]"}
      Token[1]: {on_failure: "Widget[bad too]"}
      Widget[good]: {on_failure: "Widget[bad]", require: "Widget[other]"}
      Widget[other]: {}
    """
    result = statuses(recorded.stream(site))
    assert result == {
        "Widget[bad]": "failed",
        "Widget[bad too]": "failed",
        "Token[1]": "success",
        "Widget[other]": "success",
        "Widget[good]": "success",
    }


def test_it_is_for_the_last_try(recorded: Bench) -> None:
    """A failure that a further try has mended is none."""
    recorded.probe(
        """
        def set(self, context, changes):
            count = Path(os.environ["BENCH"], "count")
            tried = len(count.read_text()) if count.exists() else 0
            count.write_text("x" * (tried + 1))
            if tried < int(os.environ["FAILS"]):
                raise OSError("stuck")
            self._done(changes)
        """
    )
    site = "project: p\nresources: {'Probe[a]': {retry: {tries: 2}}, 'Token[1]': {on_failure: 'Probe[a]'}}"
    recorded.environment["FAILS"] = "1"
    assert statuses(recorded.stream(site)) == {"Probe[a]": "success"}
    recorded.environment["FAILS"] = "9"
    assert statuses(recorded.stream(site.replace("Probe[a]", "Probe[b]"))) == {
        "Probe[b]": "failed",
        "Token[1]": "success",
    }


def test_it_is_never_carried_out_after_an_interrupt(recorded: Bench) -> None:
    """Although the interrupted resource has failed."""
    recorded.probe(
        """
        def set(self, context, changes):
            import time
            Path(os.environ["BENCH"], "begun").touch()
            while not context.cancelled:
                time.sleep(0.05)
            raise OSError("interrupted")
        """
    )
    site = recorded.write("site.yaml", "project: p\nresources: {'Probe[a]': {}, 'Token[1]': {on_failure: 'Probe[a]'}}")
    words = [sys.executable, "-m", "resource_api", "apply", str(site), "--json"]
    environment = recorded.environment
    process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until((recorded.things_of / "begun").exists)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    ends = [event["reference"] for line in out.splitlines() if (event := json.loads(line))["type"] == "step_end"]
    assert (process.returncode, ends, recorded.calls("token")) == (130, ["Probe[a]"], []), err


def test_a_run_that_is_killed_in_a_handler_converges(recorded: Bench) -> None:
    """What was begun is ours; the next run without a failure reads nothing of it, and ``destroy`` deletes it."""
    recorded.probe(
        """
        def set(self, context, changes):
            import time
            self._done(changes)
            Path(os.environ["BENCH"], "begun").touch()
            time.sleep(float(os.environ["NAP"]))
        """
    )
    text = "project: p\nresources: {'Widget[bad]': {}, 'Probe[a]': {on_failure: 'Widget[bad]'}}"
    site = recorded.write("site.yaml", text)
    words = [sys.executable, "-m", "resource_api", "apply", str(site)]
    process = subprocess.Popen(words, env=recorded.environment | {"NAP": "60"}, stderr=subprocess.PIPE, text=True)
    wait_until((recorded.things_of / "begun").exists)
    time.sleep(0.2)
    process.kill()
    process.communicate(timeout=20)
    site.write_text(text.replace("bad", "good"))
    assert recorded.run("apply", site, NAP="0").code == 0
    records = {record["reference"]: record for record in recorded.run("state", "export").document["resources"]}
    assert (records["Probe[a]"]["status"], records["Probe[a]"]["owned"]) == ("unconfirmed", True)
    assert recorded.run("apply", site, "--detailed-exitcodes", NAP="0").code == 0
    site.write_text(text)
    again = recorded.run("apply", site, "--json", NAP="0")
    assert (again.code, statuses(again)) == (1, {"Widget[bad]": "failed"})
    assert "status" not in recorded.run("state", "show", "Probe[a]").out
    assert recorded.run("destroy", site, "--yes", NAP="0").code == 0


def test_what_a_handler_has_made_stays_ours(recorded: Bench) -> None:
    """While it is declared neither ``--prune`` nor a run without a failure touches it; without it ``--prune`` does."""
    recorded.apply(SITE.format(name="bad"))
    result = recorded.apply(SITE.format(name="good"), "--prune")
    assert (result.code, list(recorded.things("token"))) == (0, ["1"])
    gone = recorded.apply("project: rescue\nresources: {'Widget[good]': {}, 'Widget[other]': {}}", "--prune")
    assert (gone.code, recorded.things("token")) == (0, {})


def test_the_order_holds_with_replacements_and_targets(recorded: Bench) -> None:
    """It comes after both halves of a replacement; a target that cannot fail leaves it alone."""
    site = """
    project: rescue
    resources:
      Token[1]: {on_failure: "Widget[bad]"}
      Widget[bad]: {}
      Widget[made]: {image: "%s", lifecycle: {replace: delete_first}}
    """
    assert recorded.apply("project: rescue\nresources: {'Widget[made]': {image: a}, 'Widget[old]': {}}").code == 0
    result = recorded.stream(site % "b", "--prune-always")
    assert list(statuses(result)) == ["Widget[bad]", "Token[1]", "Widget[made]", "Widget[old]"], result.err
    alone = recorded.apply(site, "--target", "Token[1]", "--detailed-exitcodes")
    assert alone.code == 0


def test_what_is_left_out_cannot_fail(recorded: Bench) -> None:
    """Its handler is never carried out, nor that of a component without resources; with ``for_each`` each has one."""
    recorded.write(
        "modules/components/empty.py",
        """
        from resource_api import ComponentDefinition
        COMPONENT = ComponentDefinition(name="empty", docs="Nothing.")
        def build(m):
            pass
        """,
    )
    text = """
    project: rescue
    resources:
      Widget[bad]: {when: false}
      Empty[none]: {}
      Token[1]: {on_failure: "Widget[bad]"}
      Token[2]: {on_failure: "Empty[none]"}
      "Widget[bad ${each.key}]": {for_each: [a, b], retry: {tries: 2}}
      "Token[1${each.index}]": {for_each: [a, c], on_failure: "Widget[bad ${each.key}]"}
    """
    wrong = recorded.validate(text)
    assert (wrong.code, "unknown resource 'Widget[bad c]'" in wrong.err) == (65, True)
    result = recorded.stream(text.replace("[a, c]", "[a, b]"))
    assert statuses(result) == {
        "Widget[bad a]": "failed",
        "Widget[bad b]": "failed",
        "Token[10]": "success",
        "Token[11]": "success",
    }, result


ONLY = "is done only if Widget[a] fails, so nothing else can require it"
SAME = "; give it the same on_failure"
MISTAKES = [
    (
        "resources:\n  Widget[a]: {}\n  Token[1]: {on_failure: 'Widget[a]'}\n  Token[2]: {require: 'Token[1]'}\n",
        f"4:14: Token[2]: require: Token[1] {ONLY}{SAME}",
    ),
    (
        "resources:\n  Widget[a]: {}\n  Token[1]: {on_failure: 'Widget[a]', before: 'Token[2]'}\n  Token[2]: {}\n",
        f"3:39: Token[1]: before: Token[1] {ONLY}",
    ),
    (
        (
            "resources:\n  Widget[a]: {}\n  Widget[b]: {on_failure: 'Widget[a]'}\n"
            "  Widget[c]: {colour: '${Widget[b].serial}'}\n"
        ),
        f"4:15: Widget[c]: colour: Widget[b] {ONLY}{SAME}",
    ),
    (
        "resources:\n  Widget[a]: {}\n  Widget[b]: {on_failure: 'Widget[a]'}\noutputs:\n  o: ${Widget[b].serial}\n",
        f"5:3: output 'o': Widget[b] {ONLY}",
    ),
    (
        "resources:\n  Widget[a]: {}\n  Token[1]: {on_failure: 'Widget[a]', require: 'Widget[a]'}\n",
        "3:14: Token[1]: on_failure: it requires Widget[a], so it could never be done",
    ),
    (
        "resources:\n  Token[1]: {on_failure: 'Widget[a]'}\n",
        "2:14: Token[1]: on_failure: unknown resource 'Widget[a]'",
    ),
    (
        "resources:\n  Token[1]: {on_failure: 'Token[1]'}\n",
        "2:3: Token[1]: dependency cycle: Token[1] => Token[1]",
    ),
    (
        "resources:\n  Token[1]: {on_failure: {a: 1}}\n",
        "2:14: Token[1]: on_failure must be a reference such as Package[nginx]",
    ),
]


@pytest.mark.parametrize(("manifest", "expected"), MISTAKES, ids=[expected[:40] for _, expected in MISTAKES])
def test_a_mistake_is_told_with_its_place(bench: Bench, manifest: str, expected: str) -> None:
    """Before anything is read: 65."""
    result = bench.validate(manifest)
    assert (result.code, result.lines[0].partition("site.yaml:")[2]) == (65, expected), result.err
