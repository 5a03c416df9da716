"""Partial runs: targets, exclusions and tags."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

MANIFEST = """
resources:
  Widget[a]: {tag: blue}
  Widget[b]: {require: "Widget[a]", tag: [red, Round]}
  Token[1]: {require: "Widget[b]"}
  Token[2]: {}
  Widget[a*c]: {}
"""


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--target Widget[b]", "b"),
        ("--target widget[b]", "b"),
        ("--target Widget[b] --with-dependencies", "a b"),
        ("--target Widget[a] --with-dependents", "a b 1"),
        ("--target Widget[b] --with-dependencies --with-dependents", "a b 1"),
        ("--target Widget", "a b a*c"),
        ("--target token", "1 2"),
        ("--target Widget[?]", "a b"),
        ("--target Widget[a*]", "a a*c"),
        ("--target *[2]", "2"),
        ("--target Widget[a] --target Token[2]", "a 2"),
        ("--exclude Widget", "2"),
        ("--exclude Widget[b]", "a a*c 2"),
        ("--target Widget --exclude Widget[b]", "a a*c"),
        ("--tags blue", "a"),
        ("--tags blue,red", "a b"),
        ("--tags BLUE", "a"),
        ("--tags round", "b"),
        ("--tags widget", "a b a*c"),
        ("--tags 2", "2"),
        ("--skip-tags widget", "1 2"),
        ("--tags widget --skip-tags red", "a a*c"),
        ("--tags widget --target Widget[b] --target Token[1]", "b"),
        ("--tags nosuch", ""),
    ],
)
def test_options_select_exactly_these_resources(bench: Bench, options: str, expected: str) -> None:
    """The options select exactly the expected resources."""
    result = bench.stream(MANIFEST, *options.split())
    assert result.code == 0, result
    created = [end["reference"].split("[")[1].removesuffix("]") for end in result.events("step_end")]
    assert sorted(created) == sorted(expected.split())


@pytest.mark.parametrize("option", ["--target", "--exclude"])
@pytest.mark.parametrize(
    "name", ["Widget[x]", "Wdget[a]", "Widget[[ab]]", "[", "Widget[a", "Widget[]", "[a]", "Widget['a']", "9x[a]"]
)
def test_a_name_that_matches_nothing_is_wrong_usage(bench: Bench, option: str, name: str) -> None:
    """An option that matches no resource exits 64 and names it, and no provider is called."""
    result = bench.apply(MANIFEST, option, name)
    assert (result.code, result.out) == (64, "")
    assert name in result.err
    assert bench.calls("widget") == []


def test_the_nearest_name_is_offered(bench: Bench) -> None:
    """An unknown target gets a hint."""
    assert "did you mean 'Widget[" in bench.apply(MANIFEST, "--target", "Widget[q]").err


@pytest.mark.parametrize("option", ["--target", "--exclude", "--replace"])
def test_a_name_of_what_is_only_recorded_says_so_and_how_it_is_deleted(bench: Bench, option: str) -> None:
    """Whatever the option; with ``--prune`` the target is deleted, and nothing else."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    bench.apply("resources: {'Widget[a]': {}, 'Widget[b]': {}, 'Widget[c]': {}}")
    only = "resources: {'Widget[a]': {}}"
    result = bench.apply(only, option, "Widget[b]")
    advice = "without --prune nothing is done to it" if option == "--exclude" else "--prune deletes it"
    text = f"that is declared: Widget[b] is recorded but no longer declared; {advice}"
    assert (result.code, result.lines[-1]) == (64, f"Error: {option} Widget[b] matches no resource {text}")
    assert bench.apply(only, "--target", "Widget[b]", "--prune").code == 0
    assert sorted(bench.things("widget")) == ["a", "c"]


def test_a_pattern_of_what_is_only_recorded_names_the_resources(bench: Bench) -> None:
    """What was there before the first run would be forgotten; of many, some are named."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    bench.put("widget", **{"1": {"name": "1", "ensure": "present"}})
    names = ["1", "2", "3", "4", "5", "6", "7"]
    declared = ", ".join(f"'Widget[{name}]': {{}}" for name in names)
    assert bench.apply(f"resources: {{{declared}}}").code == 0
    result = bench.apply("resources: {'Token[1]': {}}", "--target", "Widget")
    text = ", ".join(f"Widget[{name}]" for name in names[:5])
    message = f"{text} and 2 more are recorded but no longer declared; --prune deletes or forgets them"
    assert result.lines == [f"Error: --target Widget matches no resource that is declared: {message}"]


@pytest.mark.parametrize("option", ["--target", "--exclude", "--replace"])
def test_the_urn_of_another_project_or_stack_is_refused(bench: Bench, option: str) -> None:
    """It is not taken for the resource of the same reference here; one of this stack is that resource."""
    second = "urn:resource:live::site::widget::a"
    result = bench.apply(MANIFEST, option, second)
    text = f"{option}: {second} is of project site, stack live; this is about project site, stack default"
    assert (result.code, result.lines[-1]) == (64, f"Error: {text}")
    assert bench.calls("widget") == []
    assert bench.apply(MANIFEST, option, second, "--stack", "live").code == 0


def test_a_plan_is_limited_the_same_way(bench: Bench) -> None:
    """A plan with a target has only its step and is not ``complete``."""
    planned = bench.plan(MANIFEST, "--target", "Token[2]", "--json").document
    assert [step["reference"] for step in planned["steps"]] == ["Token[2]"]
    assert planned["complete"] is False
    assert bench.plan(MANIFEST, "--json").document["complete"] is True


def test_values_of_excluded_resources_are_read(bench: Bench) -> None:
    """A reference to a resource that is no target uses its actual value, and a missing one fails the run."""
    manifest = "resources: {'Widget[a]': {}, 'Token[1]': {tint: '${Widget[a].serial}'}}"
    missing = bench.apply(manifest, "--target", "Token[1]")
    assert missing.code == 1
    assert "Widget[a]" in missing.err
    assert bench.things("token") == {}
    bench.put("widget", a={"serial": "S-9"})
    assert bench.apply(manifest, "--target", "Token[1]").code == 0
    assert bench.things("token")["1"]["tint"] == "S-9"


def test_an_excluded_resource_notifies_nothing(bench: Bench) -> None:
    """A resource that is no target causes no refresh."""
    bench.put("daemon", web={"ensure": "running"})
    manifest = "resources: {'Widget[a]': {notify: 'Daemon[web]'}, 'Daemon[web]': {}}"
    assert bench.apply(manifest, "--target", "Daemon[web]").code == 0
    assert bench.calls("daemon", "refresh") == []


def test_errors_of_excluded_resources_are_reported(bench: Bench) -> None:
    """An error in a resource that is no target refuses the manifest."""
    result = bench.apply("resources: {'Widget[a]': {}, 'Widget[b]': {size: big}}", "--target", "Widget[a]")
    assert result.code == 65


@pytest.mark.parametrize("option", ["--tags", "--skip-tags"])
@pytest.mark.parametrize("text", ["", ",", " , "])
@pytest.mark.parametrize("command", ["apply", "plan", "rehearse"])
def test_a_list_without_a_tag_is_wrong_usage(bench: Bench, command: str, option: str, text: str) -> None:
    """A variable of a script that is not set must not mean everything."""
    result = bench.run(command, bench.write("site.yaml", MANIFEST), option, text)
    assert (result.code, bench.things("widget")) == (64, {})
    assert f"Invalid value for '{option}': it names no tag" in result.err


@pytest.mark.parametrize(
    ("options", "code", "remaining"),
    [
        ("--tags red", 64, "a a*c b"),
        ("--skip-tags red", 64, "a a*c b"),
        ("--skip-tags widget,red", 64, "a a*c b"),
        ("--skip-tags widget", 0, "a a*c b"),
        ("--skip-tags a*c", 0, "a*c"),
        ("--tags a*c", 0, "a b"),
    ],
)
def test_what_is_destroyed_is_selected_by_type_and_title_alone(
    bench: Bench, options: str, code: int, remaining: str
) -> None:
    """Tags are not recorded: a deletion that they cannot prevent is refused."""
    stored = {"RESOURCE_API_STATE": f"sqlite:{bench.home}/state.db"}
    site = bench.write("site.yaml", MANIFEST)
    assert bench.run("apply", site, **stored).code == 0
    result = bench.run("destroy", site, *options.split(), "--yes", **stored)
    assert (result.code, " ".join(sorted(bench.things("widget")))) == (code, remaining), result
    messages = "nothing recorded has this type or title, and tags are not recorded; use --target or --exclude"
    assert (messages in result.err) == bool(code)


@pytest.mark.parametrize(
    ("options", "remaining"),
    [
        ("--skip-tags red", "a a*c b"),
        ("--skip-tags token", "a a*c b"),
        ("--tags red", "a a*c b"),
        ("--tags a*c", "a b"),
        ("--exclude Widget[b]", "a b"),
        ("--target Token", "a a*c b"),
    ],
)
def test_pruning_deletes_nothing_that_may_have_a_skipped_tag(bench: Bench, options: str, remaining: str) -> None:
    """Of what is no longer declared only the reference is recorded, which also tells type and title."""
    stored = {"RESOURCE_API_STATE": f"sqlite:{bench.home}/state.db"}
    assert bench.run("apply", bench.write("site.yaml", f"project: a{MANIFEST}"), **stored).code == 0
    site = bench.write("site.yaml", "project: a\nresources: {'Widget[a]': {}, 'Token[1]': {}, 'Token[2]': {}}\n")
    result = bench.run("apply", site, "--prune", *options.split(), **stored)
    assert (result.code, " ".join(sorted(bench.things("widget")))) == (0, remaining), result
    messages = "--skip-tags leaves alone what is no longer declared, because tags are not recorded: Widget["
    assert (messages in result.err) == ("--skip-tags" in options)


#: One title that other titles match, two aliases that do, and a component's.
WILD = """
resources:
  Widget[a*]: {}
  Widget[ab]: {}
  Widget[b]: {alias: "t?"}
  Widget[tx]: {}
"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Widget[a*]", "a*"),
        ("widget[a*]", "a*"),
        ("urn:resource:default::site::widget::a*", "a*"),
        ("Widget[t?]", "b"),
        ("Widget[a?]", "a* ab"),
        ("urn:resource:default::site::widget::a?", "a* ab"),
        ("Widget[*]", "a* ab b tx"),
    ],
)
@pytest.mark.parametrize("option", ["--target", "--exclude", "--replace"])
def test_a_name_that_a_resource_has_means_that_one_alone(bench: Bench, option: str, name: str, expected: str) -> None:
    """A title, an alias or a URN is no pattern where it is there, whichever option it is given to."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    manifest = WILD
    if option == "--replace":
        assert bench.apply(WILD).code == 0
    result = bench.stream(manifest, option, name)
    created = {end["reference"].removeprefix("Widget[").removesuffix("]") for end in result.events("step_end")}
    everything = {"a*", "ab", "b", "tx"}
    assert (result.code, created) == (
        0,
        everything - {*expected.split()} if option == "--exclude" else {*expected.split()},
    )


def test_what_is_destroyed_by_a_name_that_is_recorded_is_that_alone(bench: Bench) -> None:
    """What the name would match as a pattern stays."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    assert bench.apply(WILD).code == 0
    assert bench.run("destroy", "site.yaml", "--target", "Widget[a*]", "--yes").code == 0
    assert sorted(bench.things("widget")) == ["ab", "b", "tx"]
    assert bench.run("destroy", "site.yaml", "--target", "Widget[a*]", "--yes").code == 0
    assert sorted(bench.things("widget")) == ["b", "tx"]


def test_a_name_that_only_state_has_is_no_pattern_for_what_is_declared(bench: Bench) -> None:
    """The resource that it names is not declared, and the run says so instead of taking another one."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    assert bench.apply(WILD).code == 0
    result = bench.apply("resources: {'Widget[ab]': {size: 3}}", "--target", "Widget[a*]")
    assert (result.code, "Widget[a*] is recorded but no longer declared" in result.err) == (64, True)
    assert "size" not in bench.things("widget")["ab"]


@pytest.mark.parametrize(("name", "expected"), [("Widget[a*]", 1), ("Widget[t?]", 1), ("Widget[a?]", 2)])
def test_refresh_takes_the_same_names(bench: Bench, name: str, expected: int) -> None:
    """A title or an alias names itself alone there too."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    assert bench.apply(WILD).code == 0
    gone = {title: {"name": title, "ensure": "absent"} for title in bench.things("widget")}
    bench.put("widget", **gone)
    assert len(bench.run("refresh", "site.yaml", "--target", name, "--json").document["refreshed"]) == expected


def test_a_resource_that_is_called_like_a_pattern_is_listed_alone(bench: Bench) -> None:
    """Otherwise the pattern lists all that match it."""
    assert bench.apply(WILD).code == 0
    listed = bench.run("resource", "widget", "a*", "--json").document
    assert [item["title"] for item in listed] == ["a*"]
    listed = bench.run("resource", "widget", "*b", "--json").document
    assert [value["title"] for value in listed] == ["ab", "b"]


def test_a_urn_names_no_resource_of_the_same_title_in_a_component(bench: Bench) -> None:
    """A URN has the components around its resource; a title does not need them."""
    bench.write(
        "modules/components/site.py",
        """
        from resource_api import ComponentDefinition
        COMPONENT = ComponentDefinition(name="site", docs="Two widgets.", inputs={}, outputs={})

        def build(m):
            m.widget("a", name=f"{m.title}-a")
            m.widget("z", name=f"{m.title}-z")
        """,
    )
    manifest = "resources: {'Widget[a]': {}, 'Site[x]': {}, 'Site[x*]': {}}"
    for name, expected in (
        ("urn:resource:default::site::widget::a", ["Widget[a]"]),
        ("Widget[a]", ["Widget[a]"]),
        ("Widget[z]", ["Site[x*]/Widget[z]", "Site[x]/Widget[z]"]),
        ("Site[x*]", ["Site[x*]/Widget[a]", "Site[x*]/Widget[z]"]),
        ("urn:resource:default::site::site$widget::x*::a", ["Site[x*]/Widget[a]"]),
    ):
        result = bench.stream(manifest, "--target", name, "--noop")
        assert (result.code, sorted(result.ends())) == (0, expected), name


CHAIN = """
resources:
  Widget[base]: {}
  Widget[middle]: {require: "Widget[base]"}
  Token[10]: {tint: "${Widget[middle].serial}"}
  Widget[gone]: {ensure: absent, require: "Widget[base]"}
  Widget[free]: {}
  Setting[s]: {value: 1, subscribe: "Widget[base]"}
"""


@pytest.mark.parametrize("options", ["", "--prune", "--parallel 4", "--target Token[10] --with-dependencies"])
def test_what_needs_an_excluded_resource_that_is_not_there_is_left_out_and_named(bench: Bench, options: str) -> None:
    """Directly or not, with its values or only in order; what should be absent needs nothing."""
    bench.put("widget", gone={})
    result = bench.apply(CHAIN, "--exclude", "Widget[base]", *options.split())
    names = "Widget[middle], Token[10]" + ("" if "--target" in options else ", Setting[s]")
    expected = f"Warning: --exclude: Widget[base] is not there, and what needs it is left out too: {names}"
    assert (result.code, result.lines[0]) == (0, expected), result
    assert (bench.things("token"), bench.things("setting")) == ({}, {})
    assert sorted(bench.things("widget")) == (["gone"] if "--target" in options else ["free"])


def test_what_needs_an_excluded_resource_that_is_there_is_done(bench: Bench) -> None:
    """Whoever has made it, and however it differs; it stays as it is."""
    bench.put("widget", base={"size": 3})
    bench.put("setting", s={"value": 1})
    result = bench.apply(CHAIN.replace("Widget[base]: {}", "Widget[base]: {size: 9}"), "--exclude", "Widget[base]")
    assert (result.code, "is not there" in result.err) == (0, False), result
    assert (bench.things("widget")["base"]["size"], "10" in bench.things("token")) == (3, True)


def test_an_exclusion_that_leaves_out_more_says_so_in_plan_and_json(bench: Bench) -> None:
    """A plan shows the same, and its document is not complete."""
    result = bench.plan(CHAIN, "--exclude", "Widget[base]", "--exclude", "Widget[free]", "--json")
    assert "Widget[base] is not there, and what needs it is left out too: Widget[middle]," in result.err
    assert [step["reference"] for step in result.document["steps"]] == ["Widget[gone]"]
    assert result.document["complete"] is False
    events = bench.stream(CHAIN, "--exclude", "Widget[base]").events("diagnostic")
    assert [(event["severity"], event["code"]) for event in events] == [("warning", "exclude")]


def test_several_excluded_resources_that_are_not_there_are_told_in_one_warning(bench: Bench) -> None:
    """With all that needs one of them."""
    manifest = "resources: {'Widget[a]': {}, 'Widget[b]': {}, 'Token[1]': {require: ['Widget[a]', 'Widget[b]']}}"
    result = bench.apply(manifest, "--exclude", "Widget")
    text = "--exclude: Widget[a], Widget[b] are not there, and what needs them is left out too: Token[1]"
    assert (result.code, result.lines[0]) == (0, f"Warning: {text}")


def test_a_destruction_leaves_out_only_what_is_excluded(bench: Bench) -> None:
    """What is deleted needs nothing."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    bench.put("setting", s={"value": 1})
    assert bench.apply(CHAIN).code == 0
    (bench.things_of / "widget.json").write_text('{"middle": {}}', encoding="utf-8")
    result = bench.run("destroy", "site.yaml", "--exclude", "Widget[base]", "--yes")
    assert (result.code, bench.things("widget"), bench.things("token")) == (0, {}, {}), result


def test_an_excluded_resource_that_cannot_be_read_is_there_if_it_is_recorded(bench: Bench) -> None:
    """Otherwise nobody knows, and its dependents are left out."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    bench.probe(
        """
        def get(self, context, names=None):
            if os.environ.get("SICK"):
                raise RuntimeError("sick")
            return list(self._rows().values())

        def set(self, context, changes):
            self._done(changes)
        """
    )
    manifest = bench.write("site.yaml", "resources: {'Probe[a]': {}, 'Widget[b]': {require: 'Probe[a]'}}")
    words = ("apply", manifest, "--exclude", "Probe")
    assert "Probe[a] is not there" in bench.run(*words, SICK="1").err
    assert bench.things("widget") == {}
    assert bench.run("apply", manifest, "--target", "Probe").code == 0
    result = bench.run(*words, SICK="1")
    assert (result.code, list(bench.things("widget"))) == (0, ["b"]), result


@pytest.mark.parametrize(
    ("excluded", "message"),
    [
        ("Setting[s]: {value: 1}", "Setting[s] is not there, and what needs it is left out too: Widget[w]"),
        (
            "Widget[x]: {lifecycle: {external: true}}",
            "Widget[x] is not there, and what needs it is left out too: Widget[w]",
        ),
        ("Widget[x]: {ensure: absent}", ""),
        ("Errand[e]: {}", ""),
    ],
)
def test_an_exclusion_leaves_out_what_needs_any_resource_that_should_exist(
    bench: Bench, excluded: str, message: str
) -> None:
    """Also one that cannot be created; what is to be absent, and what only acts, is no such resource."""
    name = excluded.partition(":")[0]
    manifest = f"resources:\n  {excluded}\n  Widget[w]: {{require: '{name}'}}\n"
    result = bench.apply(manifest, "--exclude", name)
    assert (result.code, message in result.err, "w" in bench.things("widget")) == (0, True, not message), result
