"""Relationships: order, notification, refresh and runnable resources."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

#: A provider whose resources last as long as the run.
MADE = """
made = []
def get(self, context): return [{"name": n, "ensure": "present"} for n in self.made]
def create(self, context, name, should): self.made.append(name)
"""


def order(bench: Bench, manifest: str, *options: str) -> list[str]:
    """Return the references in the order in which the steps ended."""
    result = bench.stream(manifest, *options)
    assert result.code == 0, result
    return [end["reference"] for end in result.events("step_end")]


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        ("'Widget[z]': {require: 'Widget[y]'}, 'Widget[a]': {}, 'Widget[y]': {}", "ayz"),
        ("'Widget[z]': {}, 'Widget[a]': {before: 'Widget[z]'}", "az"),
        ("'Widget[z]': {require: ['Widget[a]', 'Widget[b]']}, 'Widget[b]': {}, 'Widget[a]': {}", "baz"),
        ("'Widget[z]': {subscribe: 'Widget[a]'}, 'Widget[a]': {}", "az"),
        ("'Widget[z]': {}, 'Widget[a]': {notify: 'Widget[z]'}", "az"),
        ("'Widget[c]': {}, 'Widget[b]': {}, 'Widget[a]': {}", "cba"),
        ("'Widget[z]': {require: 'widget[a]'}, 'widget[a]': {}", "az"),
    ],
)
def test_relationships_change_the_declared_order(bench: Bench, manifest: str, expected: str) -> None:
    """Resources run in the declared order except where a relationship requires another."""
    assert order(bench, f"resources: {{{manifest}}}") == [f"Widget[{name}]" for name in expected]


def test_relationships_order_different_types(bench: Bench) -> None:
    """A chain of ``require`` over two types is respected."""
    manifest = "resources: {'Widget[z]': {require: 'Token[1]'}, 'Token[1]': {require: 'Widget[a]'}, 'Widget[a]': {}}"
    assert order(bench, manifest) == ["Widget[a]", "Token[1]", "Widget[z]"]


@pytest.mark.parametrize("word", ["require", "before", "notify", "subscribe"])
def test_an_unknown_reference_is_refused(bench: Bench, word: str) -> None:
    """The error has the line and the nearest title, and no provider is called."""
    result = bench.apply(f"resources:\n  Widget[abc]: {{}}\n  Widget[b]:\n    {word}: Widget[abd]\n")
    assert result.code == 65
    assert "site.yaml:4:5: Widget[b]: " in result.err
    assert "Widget[abd]" in result.err
    assert "did you mean 'Widget[abc]'?" in result.err
    assert bench.calls("widget") == []


@pytest.mark.parametrize(
    ("manifest", "names"),
    [
        ("'Widget[a]': {require: 'Widget[a]'}", ["Widget[a] => Widget[a]"]),
        ("'Widget[a]': {require: 'Widget[b]'}, 'Widget[b]': {require: 'Widget[a]'}", ["Widget[a]", "Widget[b]"]),
        (
            "'Widget[a]': {colour: '${Widget[b].serial}'}, 'Widget[b]': {colour: '${Widget[a].serial}'}",
            ["Widget[a]", "Widget[b]"],
        ),
        (
            "'Widget[x]': {}, 'Widget[a]': {before: 'Token[1]'}, 'Token[1]': {notify: 'Widget[a]'}",
            ["Widget[a]", "Token[1]"],
        ),
    ],
)
def test_a_cycle_is_refused_and_shown(bench: Bench, manifest: str, names: list[str]) -> None:
    """A cycle exits 65 with its members, and no provider is called."""
    result = bench.apply(f"resources: {{{manifest}}}")
    assert result.code == 65
    assert "cycle" in result.err
    assert "=>" in result.err
    for name in names:
        assert name in result.err
    assert bench.calls("widget") == []


def test_an_automatic_relationship_orders_what_is_in_the_catalog(bench: Bench) -> None:
    """``autorequires`` by constants and attributes orders declared resources and ignores others."""
    bench.type(
        "follower",
        bench.NAMED + '"source": Attribute("Optional[Variant[String, Array[String]]]", "s", kind="parameter"),',
        provider=MADE,
        autorequires={"widget": ["$source", "always"], "nosuch": "x"},
    )
    manifest = """
    resources:
      Follower[f]: {source: [a, missing]}
      Widget[z]: {}
      Widget[a]: {}
      Widget[always]: {}
    """
    result = order(bench, manifest)
    assert result.index("Widget[a]") < result.index("Follower[f]")
    assert result.index("Widget[always]") < result.index("Follower[f]")
    assert result == ["Widget[z]", "Widget[a]", "Widget[always]", "Follower[f]"] or result.index("Follower[f]") == 3


def test_autobefore_and_autonotify_lead_to_later_resources(bench: Bench) -> None:
    """Both order; only ``autonotify`` causes a refresh."""
    bench.type(
        "leader",
        bench.NAMED + '"tells": Attribute("Optional[String]", "t", kind="parameter"),',
        provider=MADE,
        autobefore={"widget": "late"},
        autonotify={"daemon": "$tells"},
    )
    bench.put("daemon", web={"ensure": "running"})
    result = order(bench, "resources: {'Widget[late]': {}, 'Daemon[web]': {}, 'Leader[l]': {tells: web}}")
    assert result == ["Leader[l]", "Widget[late]", "Daemon[web]"]
    assert bench.calls("daemon", "refresh") == [["web"]]


def test_an_automatic_relationship_yields_to_an_explicit_one(bench: Bench) -> None:
    """The dropped relationship is logged at debug, and a cycle of automatic ones is an error."""
    bench.type(
        "circle",
        bench.NAMED + '"next": Attribute("Optional[String]", "s", kind="parameter"),',
        provider=MADE,
        autorequires={"circle": "$next"},
    )
    result = bench.stream("resources: {'Circle[a]': {next: b, before: 'Circle[b]'}, 'Circle[b]': {}}", "-d")
    assert [end["reference"] for end in result.events("step_end")] == ["Circle[a]", "Circle[b]"]
    assert any(line.startswith("Debug: ") and "Circle[b] before Circle[a]" in line for line in result.lines)
    cycle = bench.apply("resources: {'Circle[a]': {next: b}, 'Circle[b]': {next: c}, 'Circle[c]': {next: a}}")
    assert cycle.code == 65
    assert "cycle" in cycle.err


def test_an_automatic_relationship_is_reversed_for_deletions(bench: Bench) -> None:
    """A resource that is required automatically is deleted after the one that requires it."""
    bench.type(
        "tenant",
        bench.NAMED,
        provider="""
        gone = []
        def get(self, context): return [{"name": n, "ensure": "present"} for n in "ab" if n not in self.gone]
        def delete(self, context, name): self.gone.append(name)
        """,
        autorequires={"widget": "house"},
    )
    bench.put("widget", house={"size": 1})
    manifest = "resources: {'Widget[house]': {ensure: absent}, 'Tenant[a]': {ensure: absent}}"
    assert order(bench, manifest) == ["Tenant[a]", "Widget[house]"]


WEB = "'Daemon[web]': {}"


def test_notify_refreshes_once_after_a_change(bench: Bench) -> None:
    """Two notifications cause one refresh, and its line names both sources."""
    bench.put("daemon", web={"ensure": "running"})
    manifest = f"resources: {{'Widget[a]': {{notify: 'Daemon[web]'}}, 'Widget[b]': {{notify: 'Daemon[web]'}}, {WEB}}}"
    result = bench.stream(manifest, "--detailed-exitcodes")
    assert result.code == 2
    assert bench.calls("daemon", "refresh") == [["web"]]
    assert result.ends()["Daemon[web]"]["action"] == "refresh"
    assert result.events("summary")[0]["refreshed"] == 1
    (line,) = [line for line in result.lines if "Daemon[web]" in line]
    assert "Widget[a]" in line
    assert "Widget[b]" in line
    bench.apply(manifest)
    assert len(bench.calls("daemon", "refresh")) == 1


def test_subscribe_and_autosubscribe_do_the_same(bench: Bench) -> None:
    """``subscribe`` and an automatic subscription each cause a refresh."""
    bench.put("daemon", web={"ensure": "running"}, mail={"ensure": "running"})
    bench.apply(
        """
        resources:
          Daemon[web]: {subscribe: "Widget[a]"}
          Daemon[mail]: {reads: [b, c]}
          Widget[a]: {}
          Widget[b]: {}
        """
    )
    assert [name for call in bench.calls("daemon", "refresh") for name in call] == ["web", "mail"]


def test_require_and_before_cause_no_refresh(bench: Bench) -> None:
    """``before`` orders two resources without a refresh."""
    bench.put("daemon", web={"ensure": "running"})
    bench.apply("resources: {'Widget[a]': {before: 'Daemon[web]'}, 'Daemon[web]': {}}")
    assert bench.calls("daemon", "refresh") == []


def test_an_unchanged_or_failed_resource_notifies_nothing(bench: Bench) -> None:
    """Neither an unchanged nor a failed resource causes a refresh."""
    bench.put("daemon", web={"ensure": "running"})
    bench.put("widget", a={"size": 1})
    bench.apply(f"resources: {{'Widget[a]': {{size: 1, notify: 'Daemon[web]'}}, {WEB}}}")
    result = bench.stream(f"resources: {{'Widget[bad]': {{notify: 'Daemon[web]'}}, {WEB}}}")
    assert result.ends()["Daemon[web]"]["status"] == "skipped"
    assert bench.calls("daemon", "refresh") == []


def test_a_failing_refresh_fails_the_resource(bench: Bench) -> None:
    """The error has the reason, dependents are skipped, and the exit code is 6."""
    bench.put("daemon", bad={"ensure": "running"}, web={"ensure": "running"})
    result = bench.stream(
        """
        resources:
          Widget[a]: {notify: ["Daemon[bad]", "Daemon[web]"]}
          Daemon[bad]: {}
          Daemon[web]: {}
          Token[1]: {require: "Daemon[bad]"}
        """,
        "--detailed-exitcodes",
    )
    assert result.code == 6
    ends = result.ends()
    assert (ends["Daemon[bad]"]["action"], ends["Daemon[bad]"]["status"]) == ("refresh", "failed")
    assert "it does not listen" in ends["Daemon[bad]"]["error"]
    assert ends["Daemon[web]"]["status"] == "success"
    assert ends["Token[1]"]["status"] == "skipped"


def test_notifying_a_type_without_refresh_only_orders(bench: Bench) -> None:
    """The plan states that ``notify`` and ``subscribe`` only order such a resource."""
    for manifest in (
        "resources: {'Widget[a]': {}, 'Token[1]': {subscribe: 'Widget[a]'}}",
        "resources: {'Widget[a]': {notify: 'Token[1]'}, 'Token[1]': {}}",
    ):
        planned = bench.plan(manifest)
        assert planned.code == 0
        assert "cannot be refreshed: notify and subscribe only order" in planned.out


def test_an_unchanged_resource_that_cannot_be_refreshed_is_shown_where_it_is_notified(bench: Bench) -> None:
    """That it will not be refreshed matters most there; in a noop run and a saved plan too, and only with a cause."""
    note = "  Token[1] (cannot be refreshed: notify and subscribe only order)\n"
    site = "resources: {'Widget[a]': {size: SIZE}, 'Token[1]': {subscribe: 'Widget[a]'}}"
    bench.apply(site.replace("SIZE", "1"))
    assert "Token" not in bench.plan(site.replace("SIZE", "1")).out
    planned = bench.plan(site.replace("SIZE", "2"), "-o", "plan.json")
    assert note in planned.out, planned
    assert "Plan: 1 to update; 1 unchanged." in planned.out
    assert bench.run("show", "plan.json").out == planned.out
    noop = bench.apply(site.replace("SIZE", "2"), "--noop")
    assert note.replace("(", "(noop; ") in noop.out, noop
    assert "Token" not in bench.plan(site.replace("SIZE", "2, noop: true")).out


def test_the_plan_shows_a_refresh_and_its_cause(bench: Bench) -> None:
    """A refresh has its own sign and names the notifying resource."""
    bench.put("daemon", web={"ensure": "running"})
    planned = bench.plan(f"resources: {{'Widget[a]': {{notify: 'Daemon[web]'}}, {WEB}}}")
    (line,) = [line for line in planned.out.splitlines() if "Daemon[web]" in line]
    assert line.startswith("! Daemon[web]")
    assert "Widget[a]" in line
    assert "1 to refresh" in planned.out


def test_a_refreshed_resource_refreshes_its_subscribers(bench: Bench) -> None:
    """A refresh counts as a change for subscribers."""
    bench.put("daemon", web={"ensure": "running"}, proxy={"ensure": "running"})
    bench.apply(
        """
        resources:
          Widget[a]: {notify: "Daemon[web]"}
          Daemon[web]: {}
          Daemon[proxy]: {subscribe: "Daemon[web]"}
        """
    )
    assert [name for call in bench.calls("daemon", "refresh") for name in call] == ["web", "proxy"]


def test_a_missing_resource_is_not_refreshed(bench: Bench) -> None:
    """A notified resource that does not exist is not refreshed."""
    bench.apply("resources: {'Widget[a]': {notify: 'Daemon[web]'}, 'Daemon[web]': {ensure: null}}")
    assert bench.calls("daemon", "refresh") == []


def test_a_due_resource_runs_in_a_separate_call(bench: Bench) -> None:
    """A due resource is run and counts as a change, and one that is not due is not run."""
    result = bench.stream("resources: {'Errand[a]': {says: x}, 'Errand[b]': {awaits: never}}", "--detailed-exitcodes")
    assert result.code == 2
    assert bench.calls("errand", "set") == [["a", 1, "x"]]
    assert {name: end["action"] for name, end in result.ends().items()} == {"Errand[a]": "run"}


def test_due_is_evaluated_right_before_the_run(bench: Bench) -> None:
    """A change of an earlier resource can make a later one due."""
    result = bench.stream("resources: {'Widget[w]': {}, 'Errand[a]': {awaits: w}}")
    assert result.ends()["Errand[a]"]["status"] == "success"
    assert bench.calls("errand", "set") == [["a", 1, None]]


def test_a_failed_run_is_not_repeated(bench: Bench) -> None:
    """A failing run is called once, the next resource runs, and dependents are skipped."""
    result = bench.stream("resources: {'Errand[bad]': {}, 'Errand[c]': {}, 'Token[1]': {require: 'Errand[bad]'}}")
    assert result.code == 1
    assert [call[0] for call in bench.calls("errand", "set")] == ["bad", "c"]
    assert result.ends()["Errand[bad]"]["error"] == "nobody was at home"
    assert result.ends()["Token[1]"]["status"] == "skipped"


def test_a_notified_resource_that_is_not_due_is_refreshed(bench: Bench) -> None:
    """A notified resource that is not due is refreshed and not run."""
    bench.apply("resources: {'Widget[w]': {notify: 'Errand[a]'}, 'Errand[a]': {awaits: never}}")
    assert bench.calls("errand", "refresh") == [["a"]]
    assert bench.calls("errand", "set") == []


def test_a_due_resource_counts_as_a_change_under_noop(bench: Bench) -> None:
    """A due resource under ``--noop`` is not run, and the exit code is 2."""
    result = bench.apply("resources: {'Errand[a]': {}}", "--noop", "--detailed-exitcodes")
    assert result.code == 2
    assert bench.calls("errand", "set") == []
