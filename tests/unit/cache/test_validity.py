"""What could make a kept conclusion say less, more or other than a whole plan would."""

from __future__ import annotations

import importlib
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.unit.cache.site import CachedSite

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

GAUGES: Final = Path(__file__).parents[2] / "scenarios" / "gauges"
_IN_ORDER: Final = "Plan: 0 to create, 0 to update, 0 to replace, 0 to delete; 6 unchanged."


@pytest.fixture
def site(tmp_path: Path) -> CachedSite:
    """Give a site with a type of its own, whose provider says and raises what it is told to."""
    made = CachedSite(tmp_path, modules=tmp_path / "own")
    shutil.copytree(GAUGES, made.modules)
    made.put("gauge", {name: {"about": name} for name in "abcdef"})
    return made


def _gauges(**more: Mapping[str, Any]) -> dict[str, Any]:
    return {f"Gauge[{name}]": {"about": name, **more.get(name, {})} for name in "abcdef"}


def _gauges_but_f() -> dict[str, Any]:
    return {name: body for name, body in _gauges().items() if name != "Gauge[f]"}


def _settle(site: CachedSite, resources: Mapping[str, Any], **sections: Any) -> None:
    """Have a run know that ``resources`` are in order."""
    site.write(resources, **sections)
    site.settle()
    site.run()


def _disagree(site: CachedSite) -> None:
    """Have the provider compare in another way."""
    provider = site.modules / "providers" / "gauge.py"
    provider.write_text(provider.read_text().replace("else None", "else False"))


def test_what_a_provider_learns_of_what_is_declared_it_knows_when_it_reads(site: CachedSite) -> None:
    """``latest`` of a package is such: its candidate is looked up because somebody wants it."""
    _settle(site, _gauges(a={"ensure": "latest"}))
    for kind in ("plan", "noop", "apply"):
        seen = site.run(kind)
        assert seen.cached_unchanged == 5
        assert seen.plan == [_IN_ORDER]


def test_what_is_secret_is_masked_before_anything_is_read(site: CachedSite) -> None:
    """Whatever a provider says of what it finds."""
    site.put("gauge", {**site.things("gauge"), "says": "found sesame"})
    site.write(_gauges(), inputs={"word": {"type": "Sensitive[String]"}})
    seen = [site.run(inputs={"word": "sesame"}) for _ in range(3)]
    assert [each.log for each in seen] == [["Warning: Gauge[gauges]: found <sensitive>"]] * 3
    assert seen[-1].cached_unchanged == 6


def test_what_is_wrong_with_a_manifest_is_said_before_anything_is_read(site: CachedSite) -> None:
    """A provider that has much to say is not asked for nothing."""
    site.write(_gauges(), inputs={"word": {"type": "String"}})
    for _ in range(3):
        assert site.run(inputs={"word": "x"}).end.startswith("0 ")
    site.put("gauge", {**site.things("gauge"), "says": "here I am"})
    seen = site.run()
    assert seen.end.startswith("ManifestError")
    assert seen.log == []


def test_a_warning_of_what_is_declared_is_given_in_every_run(site: CachedSite) -> None:
    """Though what it warns of has not changed."""
    site.put("gauge", {**site.things("gauge"), "a": {"about": "loud"}})
    site.write(_gauges(a={"about": "loud"}))
    said = [site.run().log for _ in range(4)]
    assert said == [["Warning: Gauge[a]: is loud"] * len(said[0])] * 4


def test_what_cannot_be_read_is_asked_and_said_once(site: CachedSite) -> None:
    """A provider that warns before it raises has warned once; the failure is the one of its type."""
    _settle(site, _gauges())
    site.put("gauge", {**site.things("gauge"), "says": "so slow", "raises": "no answer"})
    seen = site.run()
    assert sum("so slow" in line for line in seen.log) == 1
    assert sum("no answer" in line for line in seen.log) == 6


@pytest.mark.parametrize("later", [True, False])
def test_what_runs_in_workers_is_not_known_to_be_the_same(site: CachedSite, *, later: bool) -> None:
    """Its code is not loaded here, nor what it imports."""
    site.isolate = True
    _settle(site, _gauges())
    site.isolate = later
    _disagree(site)
    assert "6 to update" in site.run("plan").plan[-1]


def test_a_type_may_declare_something_else_elsewhere(site: CachedSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its file is code, which may ask the environment for a default."""
    path = site.modules / "types" / "gauge.py"
    text = path.read_text().replace('"What it is about."', '"What it is about.", default=os.environ["ABOUT"]')
    path.write_text(text.replace("from resource_api", "import os\n\nfrom resource_api", 1))
    monkeypatch.setenv("ABOUT", "a")
    site.put("gauge", {name: {"about": "a"} for name in "abcdef"})
    _settle(site, {f"Gauge[{name}]": {} for name in "abcdef"})
    assert site.run().cached_unchanged == 6
    monkeypatch.setenv("ABOUT", "b")
    assert "6 to update" in site.run("plan").plan[-1]


def test_a_module_may_come_before_another(site: CachedSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a provider imports something, the first of several directories may come to have it too."""
    near, far = site.root / "near", site.root / "far"
    for place in (far, near):
        place.mkdir()
        monkeypatch.syspath_prepend(place)
    (far / "verdict_of_gauges.py").write_text("EQUAL = None\n")
    provider = site.modules / "providers" / "gauge.py"
    text = provider.read_text().replace("else None", "else verdict_of_gauges.EQUAL")
    provider.write_text(text.replace("import json\n", "import json\n\nimport verdict_of_gauges\n", 1))
    _settle(site, _gauges())
    assert site.run().cached_unchanged == 6
    (near / "verdict_of_gauges.py").write_text("EQUAL = False\n")
    sys.modules.pop("verdict_of_gauges")
    importlib.invalidate_caches()
    assert "6 to update" in site.run("plan").plan[-1]


@pytest.mark.parametrize("within", [False, True], ids=["at module level", "in a function"])
def test_code_that_providers_share_is_part_of_it(site: CachedSite, within: bool) -> None:  # noqa: FBT001 - a parameter
    """A changed file of ``lib/`` is a changed provider, wherever it is imported."""
    shared = site.modules / "lib" / "verdict.py"
    shared.parent.mkdir()
    shared.write_text("EQUAL = None\n")
    provider = site.modules / "providers" / "gauge.py"
    text = provider.read_text().replace("else None", "else EQUAL")
    place = '"""Compare the latest with what was looked up."""\n' if within else "import json\n"
    assert place in text
    indent = "        " if within else ""
    provider.write_text(text.replace(place, f"{place}{indent}from lib.verdict import EQUAL\n", 1))
    _settle(site, _gauges())
    assert site.run().cached_unchanged == 6
    shared.write_text("EQUAL = False\n")
    assert "6 to update" in site.run("plan").plan[-1]


def test_code_that_was_replaced_meanwhile_is_not_what_concluded(site: CachedSite) -> None:
    """Whoever installs a new version while a run reads the system has it used by the next one."""
    _settle(site, _gauges())
    shutil.rmtree(site.kept)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("resource_api.plan.planner.decide_in_bulk", _after(lambda: _disagree(site)))
        assert site.run().end.startswith("0 ")
    assert "6 to update" in site.run("plan").plan[-1]


def _after(happens: Callable[[], None]) -> Callable[..., Any]:
    from resource_api.plan.bulk_decisions import decide_in_bulk  # noqa: PLC0415 - as it was

    def then(*arguments: Any) -> Any:
        happens()
        return decide_in_bulk(*arguments)

    return then


@pytest.mark.parametrize("link", ["symlink_to", "hardlink_to"])
def test_a_file_of_two_names_may_become_two_files(site: CachedSite, link: str) -> None:
    """It is read once, whatever it is called; then the other is another."""
    part, other = site.root / "part.json", site.root / "other.json"
    part.write_text('{"resources": {"Gauge[f]": {"about": "f"}}}')
    getattr(other, link)(part)
    _settle(site, _gauges_but_f(), include=["part.json", "other.json"])
    other.unlink()
    other.write_text('{"resources": {"Gauge[g]": {}}}')
    assert "+ Gauge[g]" in "".join(site.run("plan").plan)


def test_a_part_that_has_come_to_lie_elsewhere_is_refused(site: CachedSite) -> None:
    """A link that leads out of the manifest's directory, though to the same bytes."""
    part, other = site.root / "site" / "part.json", site.root / "part.json"
    part.parent.mkdir()
    site.manifest = part.parent / "site.json"
    part.write_text('{"resources": {"Gauge[f]": {"about": "f"}}}')
    _settle(site, _gauges_but_f(), include=["part.json"])
    assert site.run().cached_unchanged == 6
    part.rename(other)
    part.symlink_to(other)
    assert "leads out" in site.run("plan").end


def test_what_is_kept_of_many_manifests_is_bounded(site: CachedSite) -> None:
    """Whoever unpacks a manifest into a new directory for each run fills no disk."""
    _settle(site, _gauges())
    for number in range(20):
        site.manifest = site.root / f"site{number}.json"
        site.write(_gauges())
        site.run()
    assert len(list(site.kept.iterdir())) == 17
    site.run()
    assert site.run().cached_unchanged == 6


def test_nothing_is_written_where_somebody_else_may_have_led_us(site: CachedSite) -> None:
    """A link in the place of what is kept leads nowhere."""
    _settle(site, _gauges())
    shutil.rmtree(site.kept)
    elsewhere = site.root / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    site.kept.symlink_to(elsewhere)
    _settle(site, _gauges())
    assert list(elsewhere.iterdir()) == []
