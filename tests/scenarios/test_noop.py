"""Noop: ``--noop``, ``noop:`` and the environment variable report all changes and make none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

THREE = "resources: {'Widget[a]': {size: 2}, 'Widget[b]': {}, 'Widget[c]': {ensure: absent}}"


def fill(bench: Bench) -> None:
    """Create a resource to update and one to delete."""
    bench.put("widget", a={"size": 1}, c={"size": 1})


@pytest.mark.parametrize("way", ["--noop", "RESOURCE_API_NOOP"])
def test_nothing_is_changed_and_everything_is_reported(bench: Bench, way: str) -> None:
    """Each change has an event, ``set`` is not called, and the exit code is that of ``apply``."""
    fill(bench)
    manifest = bench.write("site.yaml", THREE)
    if way == "--noop":
        result = bench.run("apply", manifest, "--noop", "--json", "--detailed-exitcodes")
    else:
        result = bench.run("apply", manifest, "--json", "--detailed-exitcodes", RESOURCE_API_NOOP="1")
    assert result.code == 2
    assert bench.calls("widget", "set") == []
    ends = result.ends()
    assert {name: (end["action"], end["status"]) for name, end in ends.items()} == {
        "Widget[a]": ("update", "noop"),
        "Widget[b]": ("create", "noop"),
        "Widget[c]": ("delete", "noop"),
    }
    assert ends["Widget[a]"]["changes"] == [{"attribute": "size", "is": 1, "should": 2, "message": None}]
    assert [change["attribute"] for change in ends["Widget[b]"]["changes"]] == ["ensure"]
    (summary,) = result.events("summary")
    assert (summary["created"], summary["updated"], summary["deleted"], summary["noop"]) == (1, 1, 1, True)


@pytest.mark.parametrize("more", [[], ["-v"], ["--detailed-exitcodes"]])
def test_a_noop_run_is_its_plan(bench: Bench, more: list[str]) -> None:
    """Stdout is the plan with its counts, the log says nothing of it again, and nothing is called applied."""
    fill(bench)
    result = bench.apply(THREE, "--noop", *more)
    assert (result.code, result.err) == (2 if "--detailed-exitcodes" in more else 0, "")
    assert result.out.splitlines()[-1] == "Plan: 1 to create, 1 to update, 1 to delete; 0 unchanged."
    assert result.out.replace(" (noop)", "") == bench.plan(THREE, *[item for item in more if item == "-v"]).out


def test_a_noop_run_of_destroy_is_its_plan(bench: Bench) -> None:
    """No line says that a resource is not declared: it may be."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    assert bench.apply(THREE).code == 0
    result = bench.run("destroy", "site.yaml", "--noop")
    assert (result.code, result.err, "no longer declared" in result.out) == (0, "", False)
    assert result.out.splitlines()[-1] == "Plan: 2 to delete; 0 unchanged."
    saved = bench.run("plan", "site.yaml", "--destroy", "--json").document
    assert [step["reasons"] for step in saved["steps"]] == [[], []]
    assert "no longer declared" not in bench.run("destroy", "site.yaml", "--yes").out


def test_the_lines_end_in_noop(bench: Bench) -> None:
    """A ``noop_handler`` and commands that are skipped; what cannot be planned, and a failure, are errors."""
    bench.probe(
        """
        true = Command("/bin/true")
        def set(self, context, changes, *, noop):
            for name in changes:
                self.true(name)
                if name == "b":
                    context.failed(name, "no way")
                else:
                    context.updated(name, "would do it")
        """,
        features=("noop_handler",),
    )
    result = bench.apply("resources: {'Probe[a]': {}, 'Probe[b]': {}, 'Widget[c]': {require: 'Probe[b]'}}", "--noop")
    assert result.code == 1
    assert result.lines == [
        "Notice: probe: Skipping '/bin/true a' (noop)",
        "Notice: Probe[a]: would do it (noop)",
        "Notice: probe: Skipping '/bin/true b' (noop)",
        "Error: Probe[b]: no way",
    ]
    assert result.out.splitlines()[-1] == "Plan: 3 to create; 0 unchanged."


def test_without_a_change_noop_is_silent(bench: Bench) -> None:
    """A noop run without a change exits 0 with nothing on stderr."""
    bench.put("widget", a={"size": 1})
    result = bench.apply("resources: {'Widget[a]': {size: 1}}", "--noop", "--detailed-exitcodes")
    assert (result.code, result.err) == (0, "")


def test_one_resource_may_be_noop(bench: Bench) -> None:
    """A resource with ``noop: true`` is reported only, and the others are changed."""
    result = bench.stream("resources: {'Widget[a]': {noop: true}, 'Widget[b]': {}}")
    assert {name: end["status"] for name, end in result.ends().items()} == {"Widget[a]": "noop", "Widget[b]": "success"}
    assert list(bench.things("widget")) == ["b"]
    assert "Notice: Widget[a]: created (noop)" in result.lines
    (summary,) = result.events("summary")
    assert (summary["created"], summary["unchanged"], summary["noop"]) == (1, 1, False)


def test_a_noop_resource_does_not_count_as_a_change(bench: Bench) -> None:
    """``apply``, ``plan`` and ``--noop`` exit 0 when only a resource with ``noop: true`` differs."""
    manifest = "resources: {'Widget[a]': {noop: true}}"
    assert bench.apply(manifest, "--detailed-exitcodes").code == 0
    planned = bench.plan(manifest, "--detailed-exitcodes")
    assert (planned.code, planned.out.splitlines()[0]) == (0, "+ Widget[a] (noop)")
    assert planned.out.endswith("Plan: nothing to do; 1 unchanged.\n")
    assert bench.apply(manifest, "--noop", "--detailed-exitcodes").code == 0


def test_an_unreadable_resource_is_reported_as_planned_under_noop(bench: Bench) -> None:
    """A read that an earlier step may make possible does not fail a noop run."""
    bench.probe(
        """
        def get(self, context, names=None):
            if not Path("way").exists():
                raise RuntimeError("no way yet")
            return list(self._rows().values())
        def set(self, context, changes): self._done(changes)
        """
    )
    manifest = f"resources: {{'File[{bench.home}/way]': {{content: ''}}, 'Probe[a]': {{}}}}"
    reported = bench.apply(manifest, "--noop", "--detailed-exitcodes")
    assert reported.code == 2, reported
    assert "~ Probe[a] (noop)\n    (decided at its turn: no way yet (providers/probe.py:" in reported.out
    assert " failed" not in reported.out
    assert not (bench.home / "way").exists()
    waits = f"resources: {{'File[{bench.home}/way]': {{content: '', noop: true}}, 'Probe[a]': {{}}}}"
    assert "Probe[a]: no way yet" in bench.apply(waits, "--noop").err
    assert bench.apply(manifest).code == 0
    assert list(bench.things("probe")) == ["a"]


def test_the_flag_wins_over_noop_false(bench: Bench) -> None:
    """``--noop`` takes precedence over ``noop: false``."""
    assert bench.apply("resources: {'Widget[a]': {noop: false}}", "--noop").code == 0
    assert bench.things("widget") == {}


def test_a_noop_resource_sends_no_notification(bench: Bench) -> None:
    """A resource that is noop refreshes no subscriber."""
    bench.put("daemon", web={"ensure": "running"})
    manifest = "resources: {'Widget[a]': {noop: true, notify: 'Daemon[web]'}, 'Daemon[web]': {}}"
    assert bench.apply(manifest).code == 0
    assert bench.calls("daemon", "refresh") == []


def test_a_noop_resource_does_not_block_dependents(bench: Bench) -> None:
    """The dependents of a noop resource are applied."""
    result = bench.apply("resources: {'Widget[a]': {noop: true}, 'Token[1]': {require: 'Widget[a]'}}")
    assert result.code == 0
    assert list(bench.things("token")) == ["1"]


def test_a_reference_to_an_unknown_value_of_a_noop_resource_is_noop(bench: Bench) -> None:
    """A resource that needs a value of a noop resource is reported as noop and does not fail."""
    result = bench.stream("resources: {'Widget[a]': {noop: true}, 'Token[1]': {tint: '${Widget[a].serial}'}}")
    assert result.code == 0
    assert {name: end["status"] for name, end in result.ends().items()} == {"Widget[a]": "noop", "Token[1]": "noop"}
    assert bench.things("token") == {}


def test_noop_reports_a_chain_of_unknown_values(bench: Bench) -> None:
    """A value that depends on a planned creation is shown as known after apply."""
    result = bench.apply("resources: {'Widget[a]': {}, 'Token[1]': {tint: '${Widget[a].serial}'}}", "--noop")
    assert result.code == 0
    assert "(known after apply)" in result.out


def test_the_plan_is_shown(bench: Bench) -> None:
    """A noop run prints the plan and its counts on stdout."""
    fill(bench)
    result = bench.apply(THREE, "--noop")
    assert "~ Widget[a]" in result.out
    assert "    size: 1 → 2" in result.out
    assert "+ Widget[b]" in result.out
    assert "- Widget[c]" in result.out
    assert "Plan: 1 to create, 1 to update, 1 to delete; 0 unchanged." in result.out


def test_commands_are_skipped_and_report_success(bench: Bench) -> None:
    """A command in a noop handler is not run unless it is ``read_only``, and its exit code is 0."""
    bench.probe(
        """
        touch = Command("touch")
        echo = Command("/bin/echo", read_only=True)
        def set(self, context, changes, *, noop=False):
            for name, change in changes.items():
                result = self.touch.attempt(os.environ["BENCH"] + "/touched")
                echoed = self.echo('hi').stdout.strip()
                context.notice(name, message=f"noop {noop} {context.noop} {result.exit_code} {echoed}")
            if not noop:
                self._done(changes)
        """,
        features=("noop_handler",),
    )
    manifest = "resources: {'Probe[a]': {size: 1}}"
    result = bench.apply(manifest, "--noop")
    assert result.code == 0
    assert any(line.startswith("Notice: Probe[a]: noop True True 0 hi") for line in result.lines)
    assert not (bench.things_of / "touched").exists()
    assert f"Notice: Probe[a]: Skipping 'touch {bench.things_of}/touched' (noop)" in result.lines
    assert result.out.splitlines()[-1] == "Plan: 1 to create; 0 unchanged."
    real = bench.apply(manifest)
    assert any(line.startswith("Notice: Probe[a]: noop False False 0 hi") for line in real.lines)
    assert (bench.things_of / "touched").exists()


def test_a_noop_handler_is_called_for_one_noop_resource(bench: Bench) -> None:
    """Resources with ``noop: true`` are passed in a separate call, and a failure in it fails the resource."""
    bench.probe(
        """
        def set(self, context, changes, *, noop=False):
            context.notice(f"asked for {sorted(changes)} noop {noop}")
            if "c" in changes:
                context.failed("c", message="it would not work")
            if not noop:
                self._done(changes)
        """,
        features=("noop_handler",),
    )
    result = bench.stream("resources: {'Probe[a]': {noop: true}, 'Probe[b]': {}, 'Probe[c]': {noop: true}}")
    assert sorted(line for line in result.lines if "asked for" in line) == [
        "Notice: probe: asked for ['a', 'c'] noop True",
        "Notice: probe: asked for ['b'] noop False",
    ]
    assert {name: end["status"] for name, end in result.ends().items()} == {
        "Probe[a]": "noop",
        "Probe[b]": "success",
        "Probe[c]": "failed",
    }


def test_a_noop_handler_is_not_called_for_unchanged_resources(bench: Bench) -> None:
    """An unchanged resource causes no call of the noop handler."""
    bench.probe("def set(self, context, changes, *, noop=False): 1 / 0", features=("noop_handler",))
    bench.put("probe", a={"name": "a", "ensure": "present"})
    assert bench.apply("resources: {'Probe[a]': {}}", "--noop").code == 0


def test_messages_of_a_noop_handler_are_marked(bench: Bench) -> None:
    """The change lines of a noop handler end in ``(noop)``."""
    bench.probe(
        "def set(self, context, changes, *, noop=False):\n"
        "    with context.creating('a'):\n        context.attribute_changed('size', None, 1)",
        features=("noop_handler",),
    )
    result = bench.apply("resources: {'Probe[a]': {size: 1}}", "--noop")
    lines = [line for line in result.lines if "Probe[a]" in line]
    assert lines
    assert all(line.endswith(" (noop)") for line in lines)


def test_resource_shows_actual_values_after_a_noop_change(bench: Bench) -> None:
    """``resource --noop`` prints the unchanged values and logs the change with ``(noop)``."""
    bench.put("widget", a={"size": 1})
    result = bench.run("resource", "widget", "a", "size=2", "--noop")
    assert result.code == 0
    assert "size: 1" in result.out
    assert "size changed from 1 to 2 (noop)" in result.err


def test_a_refresh_is_reported_under_noop(bench: Bench) -> None:
    """A refresh is reported with its cause, and ``refresh`` is not called."""
    bench.put("daemon", web={"ensure": "running"})
    manifest = "resources: {'Widget[a]': {notify: 'Daemon[web]'}, 'Daemon[web]': {}}"
    result = bench.stream(manifest, "--noop")
    assert result.ends()["Daemon[web]"]["action"] == "refresh"
    assert result.ends()["Daemon[web]"]["status"] == "noop"
    assert any("Daemon[web]" in line and "Widget[a]" in line and line.endswith("(noop)") for line in result.lines)
    assert bench.calls("daemon", "refresh") == []


@pytest.mark.parametrize(
    ("listeners", "refreshed"),
    [
        ("'Daemon[d]': {ensure: running}", 1),
        ("'Daemon[d]': {ensure: running, noop: true}", 0),
        ("'Daemon[d]': {}", 1),
        ("'Errand[d]': {}", 1),
        ("'Errand[d]': {}, 'Daemon[d]': {ensure: running, subscribe: 'Errand[d]'}", 2),
    ],
    ids=["updated", "noop", "only", "run", "chain"],
)
def test_the_counts_of_plan_noop_and_apply_are_equal(bench: Bench, listeners: str, refreshed: int) -> None:
    """A resource that is changed and refreshed counts as both."""
    bench.put("daemon", d={"ensure": "stopped"})
    notified = listeners.split("'")[1]
    manifest = bench.write("site.yaml", f"resources: {{'Widget[w]': {{notify: '{notified}'}}, {listeners}}}")
    planned = bench.run("plan", manifest, "--json").document["summary"]
    assert planned["refreshed"] == refreshed
    for options in (["--noop"], []):
        (summary,) = bench.run("apply", manifest, "--json", *options).events("summary")
        assert {**planned, "noop": bool(options)}.items() <= summary.items()
