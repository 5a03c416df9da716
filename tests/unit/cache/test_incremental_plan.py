"""A cached conclusion is used where a whole plan would print the same, and is invalid otherwise."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from resource_api.cache.incremental_plan import row_digests
from resource_api.model.record import Commit, Intent
from tests.sampling import times
from tests.unit.cache.site import MODULES, CachedSite

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@pytest.fixture
def site(tmp_path: Path) -> CachedSite:
    """Return a site with four widgets in sync, whose conclusion is cached."""
    cached_site = CachedSite(tmp_path)
    cached_site.write({f"Widget[{name}]": {"size": size} for size, name in enumerate("abcd")})
    cached_site.converge()
    return cached_site


# The one law: there is no visible difference


#: The whole number in ``make test-all``.

#: Always declared and without references: others can refer to them without a cycle.
_FIXED: Final = "vwxyz"
_fixed: Final = st.sampled_from([f"Widget[{name}]" for name in _FIXED])
_plain: Final = st.builds(lambda size: {"size": size}, st.integers(0, 3))
_bodies: Final = st.fixed_dictionaries(
    {},
    optional={
        "size": st.integers(0, 3) | st.sampled_from(["${inputs.size}", "${values.size}"]),
        "colour": st.sampled_from(["red", "blue", "${widget[v].serial}", "${inputs.size} big"]),
        "parts": st.lists(st.sampled_from(["x", "y"]), max_size=2),
        "ensure": st.sampled_from(["present", "absent"]),
        "require": _fixed,
        "notify": st.sampled_from(["Daemon[d]", "Daemon[e]"]),
        "tag": st.just("blue"),
        "noop": st.sampled_from([True, False]),
        "lifecycle": st.sampled_from(
            [{"ignore_changes": ["size"]}, {"protect": True}, {"replace_triggered_by": ["Widget[v]"]}]
        ),
    },
)
_resources: Final = st.fixed_dictionaries(
    {
        **{f"Widget[{name}]": _plain for name in _FIXED},
        "Daemon[d]": st.sampled_from([{}, {"reads": "v"}, {"reads": ["a", "w"]}, {"subscribe": "Widget[x]"}]),
        "Daemon[e]": st.sampled_from([{}, {"require": "Widget[z]"}]),
    },
    optional={
        **{f"Widget[{name}]": _plain | _bodies for name in "abcde"},
        "Widget[${inputs.size}]": _bodies,
        "Setting[s]": st.sampled_from([{"value": 1}, {"value": "${inputs.size}"}, {"value": 1, "before": "Widget[y]"}]),
        "Pair[x-y]": st.just({"ensure": "present"}),
        "Errand[seldom]": st.just({"when": "never"}),
        "Shelf[s]": st.sampled_from(
            [{"boards": 2}, {"boards": "${inputs.size}"}, {"boards": 2, "before": "Widget[v]"}]
        ),
        "Shelf[t]": st.just({"boards": 1, "provider": "other"}),
    },
)
#: Which room is meant may depend on an input; a style is no reason to make anything anew.
_rooms: Final = st.sampled_from([{"room": "cellar"}, {"room": "${inputs.size}"}, {"style": "s${inputs.size}"}])
_providers: Final = st.fixed_dictionaries(
    {"other": _rooms.map(lambda config: {"type": "shelf", "config": config})},
    optional={"shelf": _rooms.map(lambda config: {"config": config})},
)
_sections: Final = st.fixed_dictionaries(
    {
        "inputs": st.just({"size": {"type": "Integer", "default": 1}}),
        "values": st.just({"size": "${inputs.size}"}),
        "providers": _providers,
    },
    optional={
        "defaults": st.sampled_from([{"Widget": {"weight": 2.5}}, {"Widget": {"colour": "c${inputs.size}"}}]),
        "outputs": st.sampled_from([{"o": "${inputs.size}"}, {"o": "${widget[v].serial}"}]),
        "removed": st.just(["Widget[gone]"]),
    },
)
_names: Final = st.sampled_from("abcde" + _FIXED)
_runs: Final = st.tuples(st.sampled_from(["apply", "apply", "noop", "plan"]), st.sampled_from([{}, {}, {"size": 2}]))
_actions: Final = st.one_of(
    st.tuples(st.just("run"), _runs),
    st.tuples(st.just("write"), st.tuples(_resources, _sections)),
    st.tuples(st.just("damage"), st.tuples(_names, st.sampled_from(["gone", "size", "serial", "strange"]))),
    st.tuples(st.just("run"), _runs),
)


def _damage(site: CachedSite, name: str, how: str) -> None:
    objects = site.things()
    if how == "gone":
        objects.pop(name, None)
    elif how == "strange":
        objects[name] = {"weight": 1.5, "serial": "S-?"}
    elif name in objects:
        objects[name][how] = 7 if how == "size" else "S-new"
    site.put("widget", objects)


@settings(max_examples=times(0.5), suppress_health_check=[HealthCheck.too_slow])
@given(first=_resources, sections=_sections, actions=st.lists(_actions, min_size=3, max_size=10))
def test_a_run_with_the_cache_is_like_one_without(first: Any, sections: Any, actions: list[Any]) -> None:
    """Whatever is declared, damaged and run: plan, log, result, things and records are those of whole plans."""
    with TemporaryDirectory(prefix="ra-test-", dir="/dev/shm") as directory:
        site = CachedSite(Path(directory) / "site")
        site.write(first, **sections)
        site.put("daemon", {name: {"ensure": "running"} for name in "de"})
        site.put("setting", {"s": {"value": 0}})
        for action, subject in [("run", ("apply", {}))] * 2 + actions + [("run", ("apply", {}))]:
            if action == "write":
                site.write(subject[0], **subject[1])
            elif action == "damage":
                _damage(site, *subject)
            else:
                _compare(site, *subject)


def _compare(site: CachedSite, kind: str, inputs: Mapping[str, Any]) -> None:
    """Run with and without the cache from the same beginning; continue from the run with it."""
    before, after = site.root.with_name("before"), site.root.with_name("after")
    shutil.copytree(site.root, before)
    cached = _outcome(site, kind, inputs, use_cache=True)
    site.root.rename(after)
    before.rename(site.root)
    whole = _outcome(site, kind, inputs, use_cache=False)
    shutil.rmtree(site.root)
    after.rename(site.root)
    assert cached == whole


def _outcome(site: CachedSite, kind: str, inputs: Mapping[str, Any], *, use_cache: bool) -> list[Any]:
    site.use_cache = use_cache
    observed = site.run(kind, inputs)
    event(f"left out: {observed.cached_unchanged > 0}")
    kinds = ("widget", "daemon", "setting", "pair", *(f"shelf-{room}" for room in ("hall", "cellar", 1, 2)))
    objects = [site.things(kind) for kind in kinds]
    return [observed._replace(cached_unchanged=0), objects, site.records()]


# What it saves


def test_a_resource_in_sync_is_only_read(site: CachedSite) -> None:
    """With a cached conclusion each type is read once, nothing is planned, and nothing is recorded."""
    before = site.records(), len(site.calls())
    for kind in ("apply", "noop", "plan"):
        observed = site.run(kind)
        assert observed.cached_unchanged == 4
        assert observed.plan == ["Plan: nothing to do; 4 unchanged."]
    assert site.records() == before[0]
    assert site.calls()[before[1] :] == ["get", "get", "get"]


def test_a_plan_that_leaves_resources_out_is_applied_whole(site: CachedSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may have changed since then, and none of them is taken for undeclared."""
    monkeypatch.setenv("BENCH", str(site.root / "things"))
    log: list[str] = []
    runtime = site.runtime(lambda event: log.append(event.text))
    plan = runtime.plan(str(site.manifest), use_cache=True)
    assert plan.cached_unchanged == 4
    things = site.things()
    site.put("widget", dict(list(things.items())[1:]))
    summary = runtime.apply(plan).summary
    assert (summary.created, summary.unchanged) == (1, 3)
    assert (site.things(), log) == (things, ["Successfully created"])


def test_resources_of_a_configured_provider_leave_others_out(site: CachedSite) -> None:
    """They are planned in every run, with their provider; the others need no plan."""
    providers = {"shelf": {"config": {"room": "cellar"}}}
    site.write({"Shelf[s]": {"boards": 2}, **{f"Widget[{name}]": {"size": 1} for name in "abcd"}}, providers=providers)
    site.converge()
    assert site.run().cached_unchanged == 4
    site.put("shelf-cellar", {"s": {"boards": 3}})
    observed = site.run("noop")
    assert (observed.cached_unchanged, "boards: 3 → 2" in "\n".join(observed.plan)) == (0, True)
    assert site.run().end.startswith("0 ")
    assert site.things("shelf-cellar") == {"s": {"boards": 2}}


def test_resources_of_one_of_several_providers_are_left_out(site: CachedSite) -> None:
    """As long as this machine chooses the same one."""
    site.write({"Lamp[desk]": {"on": True}, **{f"Widget[{name}]": {"size": 1} for name in "abcd"}})
    site.converge()
    assert site.run().cached_unchanged == 5


def test_a_cached_resource_costs_little_more_than_reading_it(site: CachedSite) -> None:
    """In calls of functions, those of C and of the provider included, for one more resource in sync."""
    cost = []
    for count in (50, 250):
        site.write({f"Widget[{number}]": {"size": 1, "colour": "red"} for number in range(count)})
        site.converge()
        cost.append(_calls(site))
    assert (cost[1] - cost[0]) / 200 <= 12


def _calls(site: CachedSite) -> int:
    """Count the calls of functions in a run that leaves out everything."""
    seen = 0

    def note(_frame: Any, happened: str, _argument: Any) -> None:
        nonlocal seen
        seen += happened in {"call", "c_call"}

    sys.setprofile(note)
    try:
        cached_unchanged = site.run().cached_unchanged
    finally:
        sys.setprofile(None)
    assert cached_unchanged == len(site.things())
    return seen


def test_a_drifted_resource_is_planned_alone(site: CachedSite) -> None:
    """A noop shows it and what was recorded; an apply makes a whole plan of what was read already."""
    site.put("widget", {**site.things(), "b": {"size": 7, "serial": "S-b"}})
    observed = site.run("noop")
    assert observed.cached_unchanged == 3
    assert "~ Widget[b] (drift; noop)" in observed.plan
    assert observed.end.startswith("0 Plan: 1 to update; 3 unchanged.")
    count = len(site.calls())
    assert site.run().cached_unchanged == 0
    assert site.calls()[count:] == ["get", "set", "get"]
    assert site.things()["b"]["size"] == 1


def test_a_listener_of_a_drifted_resource_is_planned_with_it(site: CachedSite) -> None:
    """Even if its own row is unchanged; the others that notify it are left out."""
    many = {f"Widget[{number}]": {"size": 1, "notify": "Daemon[d]"} for number in range(10)}
    site.write({**many, "Daemon[d]": {}})
    site.put("daemon", {"d": {"ensure": "running"}})
    site.converge()
    site.put("widget", {**site.things(), "3": {"size": 7, "serial": "S-3"}})
    observed = site.run("noop")
    assert observed.cached_unchanged == 9
    assert [line for line in observed.plan if "Daemon" in line] == ["! Daemon[d] (noop; refreshed by Widget[3])"]


def test_a_file_with_a_source_is_compared_in_every_run(site: CachedSite) -> None:
    """What a provider compares with another file is not in the row that it reads."""
    source, target, second = (site.root / name for name in ("source", "target", "other"))
    source.write_text("old")
    site.write(
        {f"File[{target}]": {"source": str(source)}, **{f"File[{second}{n}]": {"content": ""} for n in range(4)}}
    )
    site.converge()
    assert site.run().cached_unchanged == 4
    source.write_text("new")
    assert f"~ File[{target}]" in site.run("plan").plan[0]
    site.run()
    assert target.read_text() == "new"


def test_a_change_of_any_included_file_ends_validity(site: CachedSite) -> None:
    """In YAML too."""
    part = site.root / "part.yaml"
    part.write_text("resources: {'Widget[e]': {size: 1}, 'Widget[f]': {size: 1}}")
    site.manifest = site.root / "site.yaml"
    site.manifest.write_text("project: p\ninclude: [part.yaml]\nresources: {'Widget[a]': {size: 0}}")
    site.converge()
    assert site.run().cached_unchanged == 3
    part.write_text("resources: {'Widget[e]': {size: 2}, 'Widget[f]': {size: 1}}")
    assert "~ Widget[e]" in site.run("plan").plan


# What ends validity


def _touch(path: Path) -> None:
    path.write_text(path.read_text() + "\n")


def _readable_by_others(site: CachedSite) -> None:
    for path in site.cache_directory.iterdir():
        path.chmod(0o644)


def _owned_by_another_user(site: CachedSite) -> None:
    for path in site.cache_directory.iterdir():
        os.chown(path, 12345, -1)


def _behind_a_link(site: CachedSite) -> None:
    site.cache_directory.rename(site.root / "elsewhere")
    site.cache_directory.symlink_to(site.root / "elsewhere")


def _damaged(site: CachedSite) -> None:
    for path in site.cache_directory.iterdir():
        path.write_bytes(path.read_bytes()[:-3] + b"x]]")


def _removed(site: CachedSite) -> None:
    shutil.rmtree(site.cache_directory)


def _shadowed(site: CachedSite) -> None:
    site.modules = site.root / "nearer"
    shutil.copytree(MODULES, site.modules)


def _recorded_otherwise(site: CachedSite) -> None:
    with (store := site.runtime().store).lock("test", 0):
        name = store.stacks()[0]
        store.commit(name, Commit([next(iter(store.load(name).records.values()))._replace(title="other")]))


def _in_doubt(site: CachedSite) -> None:
    with (store := site.runtime().store).lock("test", 0):
        store.record_intents(store.stacks()[0], [Intent("run", "widget", "a", "a", "update")])


def _put_back(site: CachedSite) -> None:
    """Write another record under the same serial."""
    with (store := site.runtime().store).lock("test", 0):
        state = store.load(store.stacks()[0])
        records = {key: record._replace(owned=False) for key, record in state.records.items()}
        store.overwrite(store.stacks()[0], state._replace(records=records))


def _database_touched(site: CachedSite) -> None:
    path = site.root / "state" / "state.db"
    path.write_bytes(path.read_bytes())


@pytest.mark.parametrize(
    "how",
    [
        lambda site: _touch(site.manifest),
        _readable_by_others,
        pytest.param(_owned_by_another_user, marks=pytest.mark.skipif(os.geteuid() != 0, reason="needs root")),
        _behind_a_link,
        _damaged,
        _removed,
        _shadowed,
        _recorded_otherwise,
        _in_doubt,
        _put_back,
        _database_touched,
    ],
    ids=["manifest", "others", "owner", "link", "damage", "gone", "shadow", "record", "doubt", "serial", "database"],
)
def test_a_change_of_what_it_depends_on_ends_validity(site: CachedSite, how: Callable[[CachedSite], None]) -> None:
    """Also a cache that another user may have written: a whole plan is made."""
    assert site.run().cached_unchanged == 4
    how(site)
    observed = site.run("plan")
    assert observed.cached_unchanged == 0
    assert observed.plan[-1].endswith("4 unchanged.")


@pytest.mark.parametrize("kind", ["types", "providers"])
def test_changed_code_ends_validity(site: CachedSite, kind: str) -> None:
    """A changed provider or type may come to another result."""
    site.modules = site.root / "own"
    shutil.copytree(MODULES, site.modules)
    site.converge()
    assert site.run().cached_unchanged == 4
    _touch(site.modules / kind / "widget.py")
    assert site.run("plan").cached_unchanged == 0


@pytest.mark.parametrize("options", [{"targets": ("Widget[a]",)}, {"prune": True}, {"replace": ("Widget[a]",)}])
def test_options_that_change_the_plan_make_a_whole_one(site: CachedSite, options: Mapping[str, Any]) -> None:
    """Targets, pruning and requested replacements."""
    assert site.run("plan", **options).cached_unchanged == 0


def test_a_new_policy_is_asked_about_every_resource(site: CachedSite) -> None:
    """Also about those that are in sync."""
    site.modules = site.root / "own"
    shutil.copytree(MODULES, site.modules)
    site.converge()
    assert site.run().cached_unchanged == 4
    (site.modules / "policies").mkdir()
    (site.modules / "policies" / "small.py").write_text(
        "def resource(resource):\n    if resource.should.get('size') == 3:\n        yield 'too big'\n"
    )
    observed = site.run()
    assert observed.cached_unchanged == 0
    assert any("too big" in line for line in (*observed.plan, *observed.log, observed.end))


def test_a_missing_or_wrong_input_is_refused_in_every_run(site: CachedSite) -> None:
    """Also one that no resource uses."""
    site.write({f"Widget[{name}]": {} for name in "abcd"}, inputs={"word": {"type": "String"}})
    for _ in range(2):
        assert site.run(inputs={"word": "x"}).end.startswith("0 ")
    assert site.run(inputs={"word": "x"}).cached_unchanged == 4
    assert site.run().end.startswith("ManifestError")
    assert site.run(inputs={"word": 1}).end.startswith("ManifestError")


def test_a_title_from_an_input_may_not_be_that_of_a_left_out_resource(site: CachedSite) -> None:
    """A resource that is left out of the plan is still declared."""
    resources = {f"Widget[{name}]": {} for name in "abcd"}
    site.write({**resources, "Widget[${inputs.word}]": {}}, inputs={"word": {"type": "String"}})
    for _ in range(2):
        assert site.run(inputs={"word": "e"}).end.startswith("0 ")
    assert site.run(inputs={"word": "e"}).cached_unchanged == 4
    assert "declared twice" in site.run(inputs={"word": "a"}).end


def test_a_failing_provider_is_reported_once(site: CachedSite) -> None:
    """As in a whole plan."""
    (site.root / "things" / "widget.json").write_text("[")
    observed = site.run("plan")
    assert observed.cached_unchanged == 0
    assert sum("Widget[a]" in line for line in observed.plan) == 1


def test_no_secret_is_cached(site: CachedSite) -> None:
    """Neither a value nor its digest: resources with secrets are planned in every run."""
    path = site.root / "secret"
    site.write(
        {f"File[{path}]": {"content": "${inputs.word}"}, **{f"Widget[{name}]": {} for name in "abcd"}},
        inputs={"word": {"type": "Sensitive[String]"}},
    )
    for _ in range(3):
        assert site.run(inputs={"word": "sesame"}).end.startswith("0 ")
    text = b"".join(entry.read_bytes() for entry in site.cache_directory.iterdir())
    (digest,) = row_digests([{"content": "sesame"}])
    assert b"Widget[a]" in text
    assert b"sesame" not in text
    assert digest.encode() not in text
    assert {item.stat().st_mode & 0o777 for item in (site.cache_directory, *site.cache_directory.iterdir())} == {
        0o700,
        0o600,
    }


def test_nothing_of_an_encrypted_stack_is_cached(site: CachedSite) -> None:
    """Not even names."""
    key = site.root / "key"
    key.write_text("correct horse battery staple")
    key.chmod(0o600)
    shutil.rmtree(site.root / "state")
    site.key = f"passphrase:{key}"
    site.converge()
    assert site.run().cached_unchanged == 0
    assert not site.cache_directory.exists()
