"""Ways in which a cached conclusion could print less, more or other than a whole plan, each prevented."""

from __future__ import annotations

import importlib
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from resource_api.cache import incremental_plan
from tests.unit.cache.site import CachedSite

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

GAUGES: Final = Path(__file__).parents[2] / "scenarios" / "gauges"
_IN_ORDER: Final = "Plan: nothing to do; 6 unchanged."


@pytest.fixture
def site(tmp_path: Path) -> CachedSite:
    """Return a site with a type of its own, whose provider logs and raises what its file of things names."""
    cached_site = CachedSite(tmp_path, modules=tmp_path / "own")
    shutil.copytree(GAUGES, cached_site.modules)
    # A run does not rely on code that is hardly older than itself, which a file system in memory makes possible.
    time.sleep(2 * incremental_plan._CLOCK_TICK / 1e9)
    cached_site.put("gauge", {name: {"about": name} for name in "abcdef"})
    return cached_site


def _gauges(**more: Mapping[str, Any]) -> dict[str, Any]:
    return {f"Gauge[{name}]": {"about": name, **more.get(name, {})} for name in "abcdef"}


def _gauges_but_f() -> dict[str, Any]:
    return {name: body for name, body in _gauges().items() if name != "Gauge[f]"}


def _cache(site: CachedSite, resources: Mapping[str, Any], **sections: Any) -> None:
    """Apply ``resources`` until their conclusion is cached."""
    site.write(resources, **sections)
    site.converge()
    site.run()


def _compare_otherwise(site: CachedSite) -> None:
    """Make the provider compare in another way."""
    provider = site.modules / "providers" / "gauge.py"
    provider.write_text(provider.read_text().replace("else None", "else False"))


def test_a_provider_has_compiled_what_is_declared_before_it_reads(site: CachedSite) -> None:
    """The candidate of a package is looked up only where ``latest`` is declared."""
    _cache(site, _gauges(a={"ensure": "latest"}))
    for kind in ("plan", "noop", "apply"):
        observed = site.run(kind)
        assert observed.cached_unchanged == 5
        assert observed.plan == [_IN_ORDER]


def test_secrets_are_masked_before_anything_is_read(site: CachedSite) -> None:
    """A provider may log a secret that it finds."""
    site.put("gauge", {**site.things("gauge"), "says": "found sesame"})
    site.write(_gauges(), inputs={"word": {"type": "Sensitive[String]"}})
    observed = [site.run(inputs={"word": "sesame"}) for _ in range(3)]
    warned = [[line for line in item.log if line.startswith("Warning: ")] for item in observed]
    assert warned == [["Warning: Gauge[gauges]: found <sensitive>"]] * 3
    assert observed[-1].cached_unchanged == 6


def test_a_wrong_manifest_is_refused_before_anything_is_read(site: CachedSite) -> None:
    """Then no provider is called, and none logs anything."""
    site.write(_gauges(), inputs={"word": {"type": "String"}})
    for _ in range(3):
        assert site.run(inputs={"word": "x"}).end.startswith("0 ")
    site.put("gauge", {**site.things("gauge"), "says": "here I am"})
    observed = site.run()
    assert observed.end.startswith("ManifestError")
    assert observed.log == []


def test_a_warning_about_a_declaration_is_printed_in_every_run(site: CachedSite) -> None:
    """Also while the declaration stays the same."""
    site.put("gauge", {**site.things("gauge"), "a": {"about": "loud"}})
    site.write(_gauges(a={"about": "loud"}))
    message = [[line for line in site.run().log if line.startswith("Warning: ")] for _ in range(4)]
    assert message == [["Warning: Gauge[a]: is loud"] * len(message[0])] * 4


def test_a_failing_read_is_made_and_reported_once(site: CachedSite) -> None:
    """A provider that warns before it raises has warned once; every resource of its type fails."""
    _cache(site, _gauges())
    site.put("gauge", {**site.things("gauge"), "says": "so slow", "raises": "no answer"})
    observed = site.run()
    assert sum("so slow" in line for line in observed.log) == 1
    assert sum("no answer" in line for line in observed.log) == 6


@pytest.mark.parametrize("later", [True, False])
def test_a_run_with_workers_is_not_cached(site: CachedSite, *, later: bool) -> None:
    """The code of a worker is not loaded in this process, nor what it imports."""
    site.isolate = True
    _cache(site, _gauges())
    site.isolate = later
    _compare_otherwise(site)
    assert "6 to update" in site.run("plan").plan[-1]


def test_a_type_that_declares_something_else_ends_validity(site: CachedSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of a type is code, which may take a default from the environment."""
    path = site.modules / "types" / "gauge.py"
    text = path.read_text().replace('"What it is about."', '"What it is about.", default=os.environ["ABOUT"]')
    path.write_text(text.replace("from resource_api", "import os\n\nfrom resource_api", 1))
    monkeypatch.setenv("ABOUT", "a")
    site.put("gauge", {name: {"about": "a"} for name in "abcdef"})
    _cache(site, {f"Gauge[{name}]": {} for name in "abcdef"})
    assert site.run().cached_unchanged == 6
    monkeypatch.setenv("ABOUT", "b")
    assert "6 to update" in site.run("plan").plan[-1]


def test_a_module_that_shadows_another_ends_validity(site: CachedSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """An import of a provider may be found in an earlier directory of the search path later."""
    near, far = site.root / "near", site.root / "far"
    for path in (far, near):
        path.mkdir()
        monkeypatch.syspath_prepend(path)
    (far / "verdict_of_gauges.py").write_text("EQUAL = None\n")
    provider = site.modules / "providers" / "gauge.py"
    text = provider.read_text().replace("else None", "else verdict_of_gauges.EQUAL")
    provider.write_text(text.replace("import json\n", "import json\n\nimport verdict_of_gauges\n", 1))
    _cache(site, _gauges())
    assert site.run().cached_unchanged == 6
    (near / "verdict_of_gauges.py").write_text("EQUAL = False\n")
    sys.modules.pop("verdict_of_gauges")
    importlib.invalidate_caches()
    assert "6 to update" in site.run("plan").plan[-1]


@pytest.mark.parametrize("within", [False, True], ids=["at module level", "in a function"])
def test_a_changed_file_of_shared_code_ends_validity(site: CachedSite, within: bool) -> None:  # noqa: FBT001 - a parameter
    """A changed file of ``lib/`` is a changed provider, wherever it is imported."""
    shared = site.modules / "lib" / "verdict.py"
    shared.parent.mkdir()
    shared.write_text("EQUAL = None\n")
    provider = site.modules / "providers" / "gauge.py"
    text = provider.read_text().replace("else None", "else EQUAL")
    path = '"""Compare ``latest`` with the looked-up value."""\n' if within else "import json\n"
    assert path in text
    indent = "        " if within else ""
    provider.write_text(text.replace(path, f"{path}{indent}from lib.verdict import EQUAL\n", 1))
    _cache(site, _gauges())
    assert site.run().cached_unchanged == 6
    shared.write_text("EQUAL = False\n")
    assert "6 to update" in site.run("plan").plan[-1]


def test_code_that_is_replaced_during_a_run_is_not_relied_on(site: CachedSite) -> None:
    """A version that is installed during a run is used by the next run."""
    _cache(site, _gauges())
    shutil.rmtree(site.cache_directory)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("resource_api.plan.planner.decide_in_bulk", _after(lambda: _compare_otherwise(site)))
        assert site.run().end.startswith("0 ")
    assert "6 to update" in site.run("plan").plan[-1]


def _after(happens: Callable[[], None]) -> Callable[..., Any]:
    from resource_api.plan.decide import decide_in_bulk

    def then(*arguments: Any) -> Any:
        happens()
        return decide_in_bulk(*arguments)

    return then


@pytest.mark.parametrize("link", ["symlink_to", "hardlink_to"])
def test_a_file_that_is_included_under_two_names_is_not_cached(site: CachedSite, link: str) -> None:
    """It is read once; later the two names may lead to two files."""
    part, path = site.root / "part.json", site.root / "other.json"
    part.write_text('{"resources": {"Gauge[f]": {"about": "f"}}}')
    getattr(path, link)(part)
    _cache(site, _gauges_but_f(), include=["part.json", "other.json"])
    path.unlink()
    path.write_text('{"resources": {"Gauge[g]": {}}}')
    assert "+ Gauge[g]" in "".join(site.run("plan").plan)


def test_an_included_file_that_leads_outside_is_refused(site: CachedSite) -> None:
    """A link out of the manifest's directory, even to the same bytes."""
    part, path = site.root / "site" / "part.json", site.root / "part.json"
    part.parent.mkdir()
    site.manifest = part.parent / "site.json"
    part.write_text('{"resources": {"Gauge[f]": {"about": "f"}}}')
    _cache(site, _gauges_but_f(), include=["part.json"])
    assert site.run().cached_unchanged == 6
    part.rename(path)
    part.symlink_to(path)
    assert "leads out" in site.run("plan").end


def test_the_number_of_cache_entries_is_bounded(site: CachedSite) -> None:
    """Manifests in ever new directories fill no disk."""
    _cache(site, _gauges())
    for number in range(20):
        site.manifest = site.root / f"site{number}.json"
        site.write(_gauges())
        site.run()
    assert len(list(site.cache_directory.iterdir())) == 17
    site.run()
    assert site.run().cached_unchanged == 6


def test_a_link_in_the_place_of_the_cache_is_not_followed(site: CachedSite) -> None:
    """Nothing is written where the link leads."""
    _cache(site, _gauges())
    shutil.rmtree(site.cache_directory)
    elsewhere = site.root / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    site.cache_directory.symlink_to(elsewhere)
    _cache(site, _gauges())
    assert list(elsewhere.iterdir()) == []
