"""What changes do besides is in the plan and the report, and fails them where it undoes what is declared."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench, Outcome

#: A probe is a package: ``colour`` names the one that it needs. One goes with the other, and brings it. The file
#: ``surprise`` names one that ``side_effects`` does not know of before the second time that it is asked.
PACKAGES = """
def side_effects(self, context, changes):
    log = self._file().with_suffix(".calls")
    with open(log, "a") as file:
        print(json.dumps(["side_effects", list(changes)]), file=file)
    surprise = self._file().with_name("surprise")
    for name, (is_, should) in changes.items():
        colour = should.get("colour", "")
        if colour == "broken":
            raise ResourceError("no list of packages")
        if colour == "bug":
            raise KeyError("oops")
        if colour == "form":
            yield name, ("b", "remove")
        elif colour == "other":
            yield "elsewhere", SideEffect("b", "remove")
        elif colour == "verb":
            yield name, SideEffect("b", "Remove it")
        elif colour == "widget":
            yield name, SideEffect("w", "remove", type="widget")
        elif colour == "shrink":
            yield name, SideEffect("b", "shrink", state={"ensure": "present", "size": 1}, aliases=["b:any"])
        elif colour.startswith("many"):
            for number in range(12):
                yield name, SideEffect(f"p{number}", "install", state={"ensure": "present"})
        elif should["ensure"] == "absent":
            yield from ((name, SideEffect(other, "remove")) for other in self._needing(name))
            if surprise.exists() and len(log.read_text().splitlines()) > 1:
                yield name, SideEffect(surprise.read_text(), "remove")
        elif colour and colour not in self._rows():
            yield name, SideEffect(colour, "install", state={"ensure": "present"})

def set(self, context, changes):
    with open(self._file().with_suffix(".calls"), "a") as file:
        print(json.dumps(["set", list(changes)]), file=file)
    if "raises" in changes and len(changes) > 1:
        raise ResourceError("the transaction failed")
    self._done(changes)
    for name, (is_, should) in changes.items():
        gone = self._needing(name) if should["ensure"] == "absent" else []
        kept = {other: row for other, row in self._rows().items() if other not in gone}
        self._file().write_text(json.dumps(kept))
        if (colour := should.get("colour", "")).isalpha() and colour not in kept:
            self._put(colour, {"name": colour, "ensure": "present"})

def _needing(self, name):
    return [each["name"] for each in self._rows().values() if each.get("colour") == name]
"""


@pytest.fixture
def packages(bench: Bench) -> Bench:
    """Return a bench on which ``big`` needs ``base``."""
    bench.probe(PACKAGES, features=("side_effects",))
    bench.put("probe", base=present("base"), big=present("big", colour="base"))
    return bench


def present(name: str, **more: Any) -> dict[str, Any]:
    """Return a probe that exists."""
    return {"name": name, "ensure": "present", **more}


def there(bench: Bench) -> set[str]:
    """Return the probes that exist."""
    return {name for name, row in bench.things("probe").items() if row["ensure"] == "present"}


ABSENT = "resources: {'Probe[base]': {ensure: absent}}"
REMOVES_BIG = [{"name": "big", "action": "remove"}]


def test_a_plan_names_what_goes_besides(packages: Bench) -> None:
    """In its text and in the document of its step; nothing is changed."""
    assert "- Probe[base]\n    also removes big\n" in packages.plan(ABSENT).out.replace(
        "    ensure: present → absent\n", ""
    )
    (step,) = packages.plan(ABSENT, "--json").document["steps"]
    assert step["side_effects"] == REMOVES_BIG
    assert there(packages) == {"base", "big"}


def test_a_saved_plan_shows_what_goes_besides(packages: Bench) -> None:
    """Also as a page."""
    packages.plan(ABSENT, "-o", "later.json")
    assert "    also removes big\n" in packages.run("show", "later.json").out
    packages.plan(ABSENT, "--report", "page.html")
    assert "<p>also removes big</p>" in (packages.home / "page.html").read_text()


@pytest.mark.parametrize("isolate", ["", "1"], ids=["here", "in_a_worker"])
def test_a_run_reports_what_goes_besides(packages: Bench) -> None:
    """It is said before the change, and stands in the end of its step."""
    result = packages.stream(ABSENT)
    assert result.code == 0
    assert result.ends()["Probe[base]"]["side_effects"] == REMOVES_BIG
    assert next(event["message"] for event in result.events("log")) == "also removes big"
    assert there(packages) == set()


def test_noop_shows_what_would_go_besides(packages: Bench) -> None:
    """As a plan does."""
    result = packages.apply(ABSENT, "--noop")
    assert "also removes big" in result.out
    assert packages.stream(ABSENT, "--noop").ends()["Probe[base]"]["side_effects"] == REMOVES_BIG


def test_what_comes_besides_is_named_and_cut(packages: Bench) -> None:
    """Of many things that are created the first ten."""
    assert "    also installs base2\n" in packages.plan("resources: {'Probe[a]': {colour: base2}}").out
    out = packages.plan("resources: {'Probe[a]': {colour: many}}").out
    assert "    also installs p0, p1, p2, p3, p4, p5, p6, p7, p8, p9 and 2 more\n" in out


def test_what_is_declared_present_is_not_removed_besides(packages: Bench) -> None:
    """The plan and the run fail the step before anything is touched, with the place of the other declaration."""
    manifest = """
        resources:
          Probe[base]: {ensure: absent}
          Probe[big]: {colour: base}
          Widget[w]: {require: "Probe[base]"}
        """
    expected = (
        f"would also remove big, which Probe[big] declares as present ({packages.home}/site.yaml:3);"
        " to leave Probe[base] as it is, take its declaration away and list it under 'removed:'"
    )
    planned = packages.plan(manifest)
    assert planned.code == 1
    assert f"✗ Probe[base]: {expected}" in planned.out
    result = packages.stream(manifest)
    assert result.code == 1
    ends = result.ends()
    assert (ends["Probe[base]"]["status"], ends["Probe[base]"]["error"]) == ("failed", expected)
    assert ends["Probe[base]"]["side_effects"] == REMOVES_BIG
    assert ends["Widget[w]"]["status"] == "skipped"
    assert there(packages) == {"base", "big"}
    assert packages.calls("probe", "set") == []


@pytest.mark.parametrize(
    ("colour", "text"),
    [
        ("shrink", "Probe[b]: {size: 2}"),
        ("many", "Probe[p3]: {ensure: absent}"),
        ("widget", "Widget[w]: {}"),
    ],
)
def test_what_is_declared_otherwise_is_not_altered_besides(packages: Bench, colour: str, text: str) -> None:
    """Another value, a thing that is to be absent, and a thing of another type; what is not declared is free."""
    packages.put("probe", **packages.things("probe"), b=present("b", size=2))
    result = packages.apply(f"resources:\n  Probe[a]: {{colour: {colour}}}\n  {text}\n")
    assert result.code == 1
    assert "Probe[a]: would also " in result.err
    assert packages.apply(f"resources: {{'Probe[a]': {{colour: {colour}}}}}").code == 0


def test_what_its_own_turn_changes_later_is_altered_before(packages: Bench) -> None:
    """A resource that the same run brings to its declared value afterwards is no contradiction."""
    packages.put("probe", **packages.things("probe"), b=present("b", size=3))
    result = packages.apply("resources:\n  Probe[a]: {colour: shrink}\n  Widget[w]: {}\n  Probe[b]: {size: 2}\n")
    assert result.code == 0, result


def test_a_thing_is_found_by_its_other_names(packages: Bench) -> None:
    """A provider gives the names that the same thing can be declared by."""
    result = packages.plan("resources:\n  Probe[a]: {colour: shrink}\n  'Probe[b:any]': {ensure: absent}\n")
    assert "✗ Probe[a]: would also shrink b, which Probe[b:any] declares otherwise" in result.out


def test_one_that_is_to_go_too_is_no_contradiction(packages: Bench) -> None:
    """Both are declared absent, in one call or in two."""
    for between in ("", "Widget[w]: {}\n  "):
        packages.put("probe", base=present("base"), big=present("big", colour="base"))
        result = packages.apply(
            f"resources:\n  Probe[base]: {{ensure: absent}}\n  {between}Probe[big]: {{ensure: absent}}\n"
        )
        assert result.code == 0, result
        assert there(packages) == set()


def test_the_rest_of_a_call_goes_on(packages: Bench) -> None:
    """Only the resource with the forbidden side effect fails, and the rest is asked about without it."""
    manifest = "resources:\n  Probe[base]: {ensure: absent}\n  Probe[x]: {}\n  Probe[big]: {}\n"
    result = packages.apply(manifest)
    assert (result.code, there(packages)) == (1, {"base", "big", "x"})
    assert packages.calls("probe", "side_effects") == [["base", "x"], ["x"]]
    assert packages.calls("probe", "set") == [["x"]]


def test_what_depends_on_a_refused_resource_of_the_same_call_is_skipped(packages: Bench) -> None:
    """As it is when the provider fails it."""
    manifest = "resources:\n  Probe[base]: {ensure: absent}\n  Probe[x]: {require: 'Probe[base]'}\n  Probe[big]: {}\n"
    result = packages.stream(manifest)
    assert result.ends()["Probe[x]"]["status"] == "skipped"
    assert there(packages) == {"base", "big"}


def test_one_by_one_each_is_asked_again(packages: Bench) -> None:
    """A transaction that fails is tried by resource, and alone a resource may do more."""
    manifest = "resources:\n  Probe[raises]: {}\n  Probe[x]: {colour: base2}\n"
    assert packages.apply(manifest).code == 0
    assert packages.calls("probe", "side_effects") == [["raises", "x"], ["raises"], ["x"]]


STATE = ("--state", "sqlite:state.db")


def destroyed(bench: Bench, *options: str) -> Outcome:
    """Destroy the stack of the manifest."""
    return bench.run("destroy", bench.home / "site.yaml", "--yes", *STATE, *options)


def test_destroy_removes_nothing_that_is_not_ours(packages: Bench) -> None:
    """A deletion that nobody declared would take a stranger's package with it: it fails, in the plan too."""
    packages.put("probe", big=present("big"))
    packages.things_of.joinpath("probe.json").write_text(json.dumps({}))
    packages.apply("resources: {'Probe[base]': {}}", *STATE)
    packages.put("probe", big=present("big", colour="base"))
    reason = (
        "Probe[base]: would also remove big, which is not ours; to leave Probe[base] as it is, take its declaration"
        " away and list it under 'removed:'"
    )
    assert reason in packages.run("destroy", packages.home / "site.yaml", "--noop", *STATE).out
    result = destroyed(packages)
    assert (result.code, reason in result.err, there(packages)) == (1, True, {"base", "big"})
    result = packages.apply("resources: {'Widget[w]': {}}", "--prune", *STATE)
    assert (result.code, reason in result.err, there(packages)) == (1, True, {"base", "big"})
    result = packages.apply("resources: {'Widget[w]': {}}\nremoved: ['Probe[base]']", "--prune", *STATE)
    assert (result.code, there(packages)) == (0, {"base", "big"})


def test_destroy_removes_what_is_ours_besides(packages: Bench) -> None:
    """Both are deleted by the same run; with a target that leaves one out it fails."""
    packages.things_of.joinpath("probe.json").write_text(json.dumps({}))
    packages.apply("resources: {'Probe[base]': {}, 'Widget[w]': {}, 'Probe[big]': {colour: base}}", *STATE)
    result = destroyed(packages, "--target", "Probe[base]")
    assert "would also remove big, which this run is not to delete" in result.err
    assert destroyed(packages).code == 0
    assert there(packages) == set()


def test_a_saved_plan_does_no_more_than_it_shows(packages: Bench) -> None:
    """More is refused as a whole when it is seen before anything, and fails its resource at the turn."""
    assert packages.plan(ABSENT, "-o", "later.json").code == 0
    packages.put("probe", **packages.things("probe"), more=present("more", colour="base"))
    result = packages.run("apply", "later.json")
    assert (result.code, "the plan is stale: Probe[base] changed since it was made" in result.err) == (65, True)
    packages.things_of.joinpath("probe.json").write_text(
        json.dumps({"base": present("base"), "big": present("big", colour="base")})
    )
    assert packages.run("apply", "later.json").code == 0


def test_a_saved_plan_fails_where_the_turn_shows_more(packages: Bench) -> None:
    """What only the last question shows was not planned."""
    packages.things_of.joinpath("probe.calls").unlink(missing_ok=True)
    assert packages.plan(ABSENT, "-o", "later.json").code == 0
    packages.things_of.joinpath("probe.calls").unlink()
    packages.things_of.joinpath("surprise").write_text("late")
    result = packages.run("apply", "later.json")
    assert result.code == 1
    assert "Probe[base]: would also remove late, which was not planned; plan again" in result.err
    assert there(packages) == {"base", "big"}


@pytest.mark.parametrize("isolate", ["", "1"], ids=["here", "in_a_worker"])
@pytest.mark.parametrize(
    ("colour", "reason"),
    [
        ("broken", "no list of packages"),
        ("bug", "KeyError: 'oops' (providers/probe.py:"),
        ("form", "side_effects must return pairs of a name and a SideEffect, not "),
        ("other", "side_effects reports 'elsewhere', which is not among the changes"),
        ("verb", "a SideEffect has a name, a lower-case verb as action, a type and a state, not ('b', 'Remove it'"),
    ],
)
def test_what_cannot_be_told_is_left_open_in_a_plan_and_fails_the_call(
    packages: Bench, colour: str, reason: str
) -> None:
    """A plan says that the turn decides; there it is as if ``set`` had raised it."""
    manifest = f"resources: {{'Probe[a]': {{colour: {colour}}}}}"
    result = packages.plan(manifest, "-v")
    assert result.code == 0
    assert f"probe: cannot tell yet what else its changes do: {reason}" in result.err
    assert "(what else it does is known at its turn)" in result.out
    (step,) = packages.plan(manifest, "--json").document["steps"]
    assert step["side_effects"] is None
    result = packages.apply(manifest)
    assert (result.code, reason in result.err) == (1, True)
    assert packages.calls("probe", "set") == []


def test_what_cannot_be_told_of_one_is_told_of_the_others(packages: Bench) -> None:
    """A plan asks about the halves of a call that fails, and not for ever."""
    text = "".join(f"  Probe[p{number}]: {{}}\n" for number in range(5))
    manifest = f"resources:\n  Probe[a]: {{colour: broken}}\n{text}  Probe[base]: {{ensure: absent}}\n"
    steps = {step["reference"]: step["side_effects"] for step in packages.plan(manifest, "--json").document["steps"]}
    assert steps.pop("Probe[a]") is None
    assert steps == {f"Probe[p{number}]": [] for number in range(5)} | {"Probe[base]": REMOVES_BIG}
    packages.things_of.joinpath("probe.calls").unlink()
    many = "".join(f"  Probe[p{number}]: {{colour: broken}}\n" for number in range(100))
    assert packages.plan(f"resources:\n{many}").code == 0
    assert len(packages.calls("probe", "side_effects")) <= 16


def test_a_refused_change_is_a_warning_of_the_plan(packages: Bench) -> None:
    """With the reason, unless an earlier step may make the change possible."""
    manifest = "resources:\n  Probe[a]: {colour: broken}\n  Probe[b]: {}\n"
    refused = "Warning: Probe[a]: would fail now: no list of packages"
    assert refused in packages.plan(manifest).err
    assert "would fail" not in packages.plan(manifest.replace("Probe[a]", "Widget[w]: {}\n  Probe[a]")).err


def test_a_plan_asks_once_a_call_and_not_about_what_is_not_known(packages: Bench) -> None:
    """Each call that the run would make is asked about as a whole; an unknown value is known at its turn."""
    manifest = """
        resources:
          Probe[a]: {size: 1}
          Probe[b]: {size: 2}
          Widget[w]: {}
          Probe[c]: {size: 3}
          Probe[d]: {colour: "${Widget[w].serial}"}
          Probe[e]: {noop: true, colour: base2}
        """
    document = packages.plan(manifest, "--json").document
    assert packages.calls("probe", "side_effects") == [["a", "b"], ["c"]]
    effects = {step["reference"]: step.get("side_effects", "none") for step in document["steps"]}
    assert effects == {f"Probe[{name}]": None if name == "d" else [] for name in "abcde"} | {"Widget[w]": "none"}


def test_what_an_earlier_run_found_unchanged_is_declared_all_the_same(packages: Bench) -> None:
    """The plan is whole where a change has side effects."""
    packages.things_of.joinpath("probe.json").write_text(json.dumps({"big": present("big", colour="base")}))
    widgets = "".join(f"  Widget[w{number}]: {{}}\n" for number in range(5))
    manifest = f"project: p\nresources:\n  Probe[base]: {{ensure: absent}}\n{widgets}  Probe[big]: {{}}\n"
    for _ in range(3):
        assert packages.apply(manifest, *STATE).code == 0
    packages.put("probe", **packages.things("probe"), base=present("base"))
    result = packages.plan(manifest, *STATE)
    assert "✗ Probe[base]: would also remove big, which Probe[big] declares as present" in result.out


def test_an_apply_asks_only_at_the_turn(packages: Bench) -> None:
    """The plan of an apply is not shown."""
    assert packages.apply("resources: {'Probe[a]': {}}").code == 0
    assert len(packages.calls("probe", "side_effects")) == 1


#: A probe is a directory: all below it goes with it. ``colour`` is what else is asked for, and removed.
DIRECTORIES = """
def side_effects(self, context, changes):
    with open(self._file().with_suffix(".calls"), "a") as file:
        print(json.dumps(["side_effects", list(changes)]), file=file)
    for name, (is_, should) in changes.items():
        if is_ and is_.get("colour"):
            yield name, SideEffect(is_["colour"], "remove", "widget", asked=True)
        yield name, SideEffect(name, "remove", "probe", tree=True, dependent=True)

def set(self, context, changes):
    self._done(changes)
"""


@pytest.fixture
def directories(bench: Bench) -> Bench:
    """Return a bench with two directories."""
    bench.probe(DIRECTORIES, features=("side_effects", "side_effects_of_removals"))
    bench.put("probe", **{"/srv/a": present("/srv/a", colour="asked"), "/srv/b": present("/srv/b")})
    return bench


def test_a_type_may_be_asked_about_removals_alone(directories: Bench) -> None:
    """A creation and an update are not asked about, and their steps have no side effects."""
    manifest = "resources:\n  Probe[/srv/b]: {size: 1}\n  Probe[/srv/c]: {}\n  Probe[/srv/a]: {ensure: absent}\n"
    steps = {step["reference"]: step for step in directories.plan(manifest, "--json").document["steps"]}
    assert directories.calls("probe", "side_effects") == [["/srv/a"]]
    assert "side_effects" not in steps["Probe[/srv/b]"]
    assert steps["Probe[/srv/a]"]["side_effects"] == [{"name": "/srv/a", "action": "remove", "type": "probe"}]
    assert directories.apply(manifest).code == 0
    assert there(directories) == {"/srv/b", "/srv/c"}


@pytest.mark.parametrize(
    ("text", "refused"), [("/srv/a/x", True), ("/srv/a", True), ("/srv/ab", False), ("/srv", False)]
)
def test_what_is_declared_below_a_removed_path_stays(directories: Bench, text: str, refused: bool) -> None:  # noqa: FBT001 - a case
    """Things of every type that are named by a path in it, or by the same one."""
    manifest = f"resources:\n  Probe[/srv/a]: {{ensure: absent}}\n  Widget[{text}]: {{}}\n"
    result = directories.apply(manifest)
    assert (result.code, "/srv/a" in there(directories)) == (int(refused), refused), result
    assert (f"Probe[/srv/a] and all below it, which Widget[{text}] declares as present" in result.err) is refused


def test_what_was_asked_for_is_judged_and_not_shown(directories: Bench) -> None:
    """It must not undo a declaration."""
    absent = "Probe[/srv/a]: {ensure: absent}"
    assert "widget" not in directories.plan(f"resources: {{{absent}}}").out.lower()
    result = directories.apply(f"resources:\n  {absent}\n  Widget[asked]: {{}}\n")
    assert "Probe[/srv/a]: would remove Widget[asked], which Widget[asked] declares as present" in result.err


def test_what_the_run_removes_before_is_no_side_effect(packages: Bench) -> None:
    """It is gone when its turn comes; what it removes afterwards is one."""
    first = "resources:\n  Probe[big]: {ensure: absent}\n  Widget[w]: {}\n  Probe[base]: {ensure: absent}\n"
    steps = {step["reference"]: step for step in packages.plan(first, "--json").document["steps"]}
    assert steps["Probe[base]"]["side_effects"] == []
