"""Who comes before whom, who is refreshed, and what cannot be ordered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench


def order(bench: Bench, manifest: str, *options: str) -> list[str]:
    """Give the references in the order in which they were made."""
    done = bench.stream(manifest, *options)
    assert done.code == 0, done
    return [end["reference"] for end in done.events("step_end")]


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
def test_relationships_correct_the_order_of_the_file(bench: Bench, manifest: str, expected: str) -> None:
    """And nothing else does."""
    assert order(bench, f"resources: {{{manifest}}}") == [f"Widget[{name}]" for name in expected]


def test_relationships_hold_among_types(bench: Bench) -> None:
    """A chain through several of them."""
    manifest = "resources: {'Widget[z]': {require: 'Token[1]'}, 'Token[1]': {require: 'Widget[a]'}, 'Widget[a]': {}}"
    assert order(bench, manifest) == ["Widget[a]", "Token[1]", "Widget[z]"]


@pytest.mark.parametrize("word", ["require", "before", "notify", "subscribe"])
def test_an_unknown_reference_is_refused(bench: Bench, word: str) -> None:
    """With its line and the nearest; nothing is applied."""
    done = bench.apply(f"resources:\n  Widget[abc]: {{}}\n  Widget[b]:\n    {word}: Widget[abd]\n")
    assert done.code == 65
    assert "site.yaml:4:5: Widget[b]: " in done.err
    assert "Widget[abd]" in done.err
    assert "did you mean 'Widget[abc]'?" in done.err
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
    """Before anything runs, also what has nothing to do with it."""
    done = bench.apply(f"resources: {{{manifest}}}")
    assert done.code == 65
    assert "cycle" in done.err
    assert "=>" in done.err
    for name in names:
        assert name in done.err
    assert bench.calls("widget") == []


def test_an_automatic_relationship_orders_what_is_in_the_catalog(bench: Bench) -> None:
    """By a constant, by an attribute, by a list; what is not there is ignored."""
    bench.type(
        "follower",
        """
        "name": Attribute("String", "n", kind="namevar"),
        "ensure": Attribute("Enum[present, absent]", "e", default="present"),
        "source": Attribute("Optional[Variant[String, Array[String]]]", "s", kind="parameter"),
        """,
        provider="""
        made = []
        def get(self, context): return [{"name": n, "ensure": "present"} for n in self.made]
        def create(self, context, name, should): self.made.append(name)
        """,
        autorequires={"widget": ["$source", "always"], "nosuch": "x"},
    )
    manifest = """
    resources:
      Follower[f]: {source: [a, missing]}
      Widget[z]: {}
      Widget[a]: {}
      Widget[always]: {}
    """
    found = order(bench, manifest)
    assert found.index("Widget[a]") < found.index("Follower[f]")
    assert found.index("Widget[always]") < found.index("Follower[f]")
    assert found == ["Widget[z]", "Widget[a]", "Widget[always]", "Follower[f]"] or found.index("Follower[f]") == 3


def test_it_gives_way_to_an_explicit_one(bench: Bench) -> None:
    """With a word at debug; among themselves automatic ones can make a cycle."""
    bench.type(
        "circle",
        """
        "name": Attribute("String", "n", kind="namevar"),
        "ensure": Attribute("Enum[present, absent]", "e", default="present"),
        "next": Attribute("Optional[String]", "s", kind="parameter"),
        """,
        provider="""
        made = []
        def get(self, context): return [{"name": n, "ensure": "present"} for n in self.made]
        def create(self, context, name, should): self.made.append(name)
        """,
        autorequires={"circle": "$next"},
    )
    done = bench.stream("resources: {'Circle[a]': {next: b, before: 'Circle[b]'}, 'Circle[b]': {}}", "-d")
    assert [end["reference"] for end in done.events("step_end")] == ["Circle[a]", "Circle[b]"]
    assert any(line.startswith("Debug: ") and "Circle[b] before Circle[a]" in line for line in done.lines)
    cycle = bench.apply("resources: {'Circle[a]': {next: b}, 'Circle[b]': {next: c}, 'Circle[c]': {next: a}}")
    assert cycle.code == 65
    assert "cycle" in cycle.err


def test_it_turns_round_where_what_it_requires_is_to_become_absent(bench: Bench) -> None:
    """What was needed goes after what needed it."""
    bench.type(
        "tenant",
        """
        "name": Attribute("String", "n", kind="namevar"),
        "ensure": Attribute("Enum[present, absent]", "e", default="present"),
        """,
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


# Refresh

WEB = "'Daemon[web]': {}"


def test_notify_refreshes_once_after_a_change(bench: Bench) -> None:
    """However many have changed; the line names them."""
    bench.put("daemon", web={"ensure": "running"})
    manifest = f"resources: {{'Widget[a]': {{notify: 'Daemon[web]'}}, 'Widget[b]': {{notify: 'Daemon[web]'}}, {WEB}}}"
    done = bench.stream(manifest, "--detailed-exitcodes")
    assert done.code == 2
    assert bench.calls("daemon", "refresh") == [["web"]]
    assert done.ends()["Daemon[web]"]["action"] == "refresh"
    assert done.events("summary")[0]["refreshed"] == 1
    (line,) = [line for line in done.lines if "Daemon[web]" in line]
    assert "Widget[a]" in line
    assert "Widget[b]" in line
    bench.apply(manifest)
    assert len(bench.calls("daemon", "refresh")) == 1


def test_subscribe_and_autosubscribe_do_the_same(bench: Bench) -> None:
    """From the other side, and by themselves."""
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


def test_require_and_before_refresh_nobody(bench: Bench) -> None:
    """They only order."""
    bench.put("daemon", web={"ensure": "running"})
    bench.apply("resources: {'Widget[a]': {before: 'Daemon[web]'}, 'Daemon[web]': {}}")
    assert bench.calls("daemon", "refresh") == []


def test_what_is_unchanged_or_failed_notifies_nobody(bench: Bench) -> None:
    """And what has only just been started is refreshed all the same, when notified."""
    bench.put("daemon", web={"ensure": "running"})
    bench.put("widget", a={"size": 1})
    bench.apply(f"resources: {{'Widget[a]': {{size: 1, notify: 'Daemon[web]'}}, {WEB}}}")
    done = bench.stream(f"resources: {{'Widget[bad]': {{notify: 'Daemon[web]'}}, {WEB}}}")
    assert done.ends()["Daemon[web]"]["status"] == "skipped"
    assert bench.calls("daemon", "refresh") == []


def test_a_failing_refresh_fails_the_resource(bench: Bench) -> None:
    """With its reason; its dependents are skipped; exit 6."""
    bench.put("daemon", bad={"ensure": "running"}, web={"ensure": "running"})
    done = bench.stream(
        """
        resources:
          Widget[a]: {notify: ["Daemon[bad]", "Daemon[web]"]}
          Daemon[bad]: {}
          Daemon[web]: {}
          Token[1]: {require: "Daemon[bad]"}
        """,
        "--detailed-exitcodes",
    )
    assert done.code == 6
    ends = done.ends()
    assert (ends["Daemon[bad]"]["action"], ends["Daemon[bad]"]["status"]) == ("refresh", "failed")
    assert "it does not listen" in ends["Daemon[bad]"]["error"]
    assert ends["Daemon[web]"]["status"] == "success"
    assert ends["Token[1]"]["status"] == "skipped"


def test_who_cannot_be_refreshed_is_only_ordered_and_the_plan_says_so(bench: Bench) -> None:
    """Also when notified from the other side."""
    for manifest in (
        "resources: {'Widget[a]': {}, 'Token[1]': {subscribe: 'Widget[a]'}}",
        "resources: {'Widget[a]': {notify: 'Token[1]'}, 'Token[1]': {}}",
    ):
        planned = bench.plan(manifest)
        assert planned.code == 0
        assert "cannot be refreshed: notify and subscribe only order" in planned.out


def test_the_plan_says_who_is_refreshed_and_by_whom(bench: Bench) -> None:
    """With its own mark."""
    bench.put("daemon", web={"ensure": "running"})
    planned = bench.plan(f"resources: {{'Widget[a]': {{notify: 'Daemon[web]'}}, {WEB}}}")
    (line,) = [line for line in planned.out.splitlines() if "Daemon[web]" in line]
    assert line.startswith("! Daemon[web]")
    assert "Widget[a]" in line
    assert "1 to refresh" in planned.out


def test_a_refreshed_resource_refreshes_its_subscribers(bench: Bench) -> None:
    """A refresh counts as a change."""
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


def test_a_missing_target_of_deletion_is_not_refreshed(bench: Bench) -> None:
    """What does not exist has nothing to read again."""
    bench.apply("resources: {'Widget[a]': {notify: 'Daemon[web]'}, 'Daemon[web]': {ensure: null}}")
    assert bench.calls("daemon", "refresh") == []


# Imperative types


def test_what_is_due_runs_each_in_a_call_of_its_own(bench: Bench) -> None:
    """And counts as a change; it is never read back."""
    done = bench.stream("resources: {'Errand[a]': {says: x}, 'Errand[b]': {when: never}}", "--detailed-exitcodes")
    assert done.code == 2
    assert bench.calls("errand", "set") == [["a", 1, "x"]]
    assert {name: end["action"] for name, end in done.ends().items()} == {"Errand[a]": "run"}


def test_whether_it_is_due_is_asked_right_before_its_turn(bench: Bench) -> None:
    """What an earlier resource does may make it due; the reason is told."""
    done = bench.stream("resources: {'Widget[w]': {}, 'Errand[a]': {when: w}}")
    assert done.ends()["Errand[a]"]["status"] == "success"
    assert bench.calls("errand", "set") == [["a", 1, None]]


def test_a_failed_errand_is_not_tried_again(bench: Bench) -> None:
    """One call, one failure, the next one goes on."""
    done = bench.stream("resources: {'Errand[bad]': {}, 'Errand[c]': {}, 'Token[1]': {require: 'Errand[bad]'}}")
    assert done.code == 1
    assert [call[0] for call in bench.calls("errand", "set")] == ["bad", "c"]
    assert done.ends()["Errand[bad]"]["error"] == "nobody was at home"
    assert done.ends()["Token[1]"]["status"] == "skipped"


def test_an_errand_is_refreshed_instead_of_run(bench: Bench) -> None:
    """One that is not due by itself but was notified."""
    bench.apply("resources: {'Widget[w]': {notify: 'Errand[a]'}, 'Errand[a]': {when: never}}")
    assert bench.calls("errand", "refresh") == [["a"]]
    assert bench.calls("errand", "set") == []


def test_an_errand_under_noop_is_told(bench: Bench) -> None:
    """It would run."""
    done = bench.apply("resources: {'Errand[a]': {}}", "--noop", "--detailed-exitcodes")
    assert done.code == 2
    assert bench.calls("errand", "set") == []
