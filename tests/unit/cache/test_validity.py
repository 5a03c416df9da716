"""What could make a kept conclusion say less, more or other than a whole plan would."""

from __future__ import annotations

import importlib
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.unit.cache.bench import Bench

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

GAUGES: Final = Path(__file__).parents[2] / "scenarios" / "gauges"
_IN_ORDER: Final = "Plan: 0 to create, 0 to update, 0 to replace, 0 to delete; 6 unchanged."


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Give a bench with a type of its own, whose provider says and raises what it is told to."""
    made = Bench(tmp_path, modules=tmp_path / "own")
    shutil.copytree(GAUGES, made.modules)
    made.put("gauge", {name: {"about": name} for name in "abcdef"})
    return made


def _gauges(**more: Mapping[str, Any]) -> dict[str, Any]:
    return {f"Gauge[{name}]": {"about": name, **more.get(name, {})} for name in "abcdef"}


def _gauges_but_f() -> dict[str, Any]:
    return {name: body for name, body in _gauges().items() if name != "Gauge[f]"}


def _settle(bench: Bench, resources: Mapping[str, Any], **sections: Any) -> None:
    """Have a run know that ``resources`` are in order."""
    bench.write(resources, **sections)
    bench.settle()
    bench.run()


def _disagree(bench: Bench) -> None:
    """Have the provider compare in another way."""
    provider = bench.modules / "providers" / "gauge.py"
    provider.write_text(provider.read_text().replace("else None", "else False"))


def test_what_a_provider_learns_of_what_is_declared_it_knows_when_it_reads(bench: Bench) -> None:
    """``latest`` of a package is such: its candidate is looked up because somebody wants it."""
    _settle(bench, _gauges(a={"ensure": "latest"}))
    for kind in ("plan", "noop", "apply"):
        seen = bench.run(kind)
        assert seen.standing == 5
        assert seen.plan == [_IN_ORDER]


def test_what_is_secret_is_masked_before_anything_is_read(bench: Bench) -> None:
    """Whatever a provider says of what it finds."""
    bench.put("gauge", {**bench.things("gauge"), "says": "found sesame"})
    bench.write(_gauges(), inputs={"word": {"type": "Sensitive[String]"}})
    seen = [bench.run(inputs={"word": "sesame"}) for _ in range(3)]
    assert [each.log for each in seen] == [["Warning: Gauge[gauges]: found <sensitive>"]] * 3
    assert seen[-1].standing == 6


def test_what_is_wrong_with_a_manifest_is_said_before_anything_is_read(bench: Bench) -> None:
    """A provider that has much to say is not asked for nothing."""
    bench.write(_gauges(), inputs={"word": {"type": "String"}})
    for _ in range(3):
        assert bench.run(inputs={"word": "x"}).end.startswith("0 ")
    bench.put("gauge", {**bench.things("gauge"), "says": "here I am"})
    seen = bench.run()
    assert seen.end.startswith("ManifestError")
    assert seen.log == []


def test_a_warning_of_what_is_declared_is_given_in_every_run(bench: Bench) -> None:
    """Though what it warns of has not changed."""
    bench.put("gauge", {**bench.things("gauge"), "a": {"about": "loud"}})
    bench.write(_gauges(a={"about": "loud"}))
    said = [bench.run().log for _ in range(4)]
    assert said == [["Warning: Gauge[a]: is loud"] * len(said[0])] * 4


def test_what_cannot_be_read_is_asked_and_said_once(bench: Bench) -> None:
    """A provider that warns before it raises has warned once; the failure is the one of its type."""
    _settle(bench, _gauges())
    bench.put("gauge", {**bench.things("gauge"), "says": "so slow", "raises": "no answer"})
    seen = bench.run()
    assert sum("so slow" in line for line in seen.log) == 1
    assert sum("no answer" in line for line in seen.log) == 6


@pytest.mark.parametrize("later", [True, False])
def test_what_runs_in_workers_is_not_known_to_be_the_same(bench: Bench, *, later: bool) -> None:
    """Its code is not loaded here, nor what it imports."""
    bench.isolate = True
    _settle(bench, _gauges())
    bench.isolate = later
    _disagree(bench)
    assert "6 to update" in bench.run("plan").plan[-1]


def test_a_type_may_declare_something_else_elsewhere(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its file is code, which may ask the environment for a default."""
    path = bench.modules / "types" / "gauge.py"
    text = path.read_text().replace('"What it is about."', '"What it is about.", default=os.environ["ABOUT"]')
    path.write_text(text.replace("from resource_api", "import os\n\nfrom resource_api", 1))
    monkeypatch.setenv("ABOUT", "a")
    bench.put("gauge", {name: {"about": "a"} for name in "abcdef"})
    _settle(bench, {f"Gauge[{name}]": {} for name in "abcdef"})
    assert bench.run().standing == 6
    monkeypatch.setenv("ABOUT", "b")
    assert "6 to update" in bench.run("plan").plan[-1]


def test_a_module_may_come_before_another(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a provider imports something, the first of several directories may come to have it too."""
    near, far = bench.root / "near", bench.root / "far"
    for place in (far, near):
        place.mkdir()
        monkeypatch.syspath_prepend(place)
    (far / "verdict_of_gauges.py").write_text("EQUAL = None\n")
    provider = bench.modules / "providers" / "gauge.py"
    text = provider.read_text().replace("else None", "else verdict_of_gauges.EQUAL")
    provider.write_text(text.replace("import json\n", "import json\n\nimport verdict_of_gauges\n", 1))
    _settle(bench, _gauges())
    assert bench.run().standing == 6
    (near / "verdict_of_gauges.py").write_text("EQUAL = False\n")
    sys.modules.pop("verdict_of_gauges")
    importlib.invalidate_caches()
    assert "6 to update" in bench.run("plan").plan[-1]


def test_code_that_was_replaced_meanwhile_is_not_what_concluded(bench: Bench) -> None:
    """Whoever installs a new version while a run reads the system has it used by the next one."""
    _settle(bench, _gauges())
    shutil.rmtree(bench.kept)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("resource_api.plan.planner.calm", _after(lambda: _disagree(bench)))
        assert bench.run().end.startswith("0 ")
    assert "6 to update" in bench.run("plan").plan[-1]


def _after(happens: Callable[[], None]) -> Callable[..., Any]:
    from resource_api.plan.unchanged import calm  # noqa: PLC0415 - as it was

    def then(*arguments: Any) -> Any:
        happens()
        return calm(*arguments)

    return then


@pytest.mark.parametrize("link", ["symlink_to", "hardlink_to"])
def test_a_file_of_two_names_may_become_two_files(bench: Bench, link: str) -> None:
    """It is read once, whatever it is called; then the other is another."""
    part, other = bench.root / "part.json", bench.root / "other.json"
    part.write_text('{"resources": {"Gauge[f]": {"about": "f"}}}')
    getattr(other, link)(part)
    _settle(bench, _gauges_but_f(), include=["part.json", "other.json"])
    other.unlink()
    other.write_text('{"resources": {"Gauge[g]": {}}}')
    assert "+ Gauge[g]" in "".join(bench.run("plan").plan)


def test_a_part_that_has_come_to_lie_elsewhere_is_refused(bench: Bench) -> None:
    """A link that leads out of the manifest's directory, though to the same bytes."""
    part, other = bench.root / "site" / "part.json", bench.root / "part.json"
    part.parent.mkdir()
    bench.manifest = part.parent / "site.json"
    part.write_text('{"resources": {"Gauge[f]": {"about": "f"}}}')
    _settle(bench, _gauges_but_f(), include=["part.json"])
    assert bench.run().standing == 6
    part.rename(other)
    part.symlink_to(other)
    assert "leads out" in bench.run("plan").end


def test_what_is_kept_of_many_manifests_is_bounded(bench: Bench) -> None:
    """Whoever unpacks a manifest into a new directory for each run fills no disk."""
    _settle(bench, _gauges())
    for number in range(20):
        bench.manifest = bench.root / f"site{number}.json"
        bench.write(_gauges())
        bench.run()
    assert len(list(bench.kept.iterdir())) == 17
    bench.run()
    assert bench.run().standing == 6


def test_nothing_is_written_where_somebody_else_may_have_led_us(bench: Bench) -> None:
    """A link in the place of what is kept leads nowhere."""
    _settle(bench, _gauges())
    shutil.rmtree(bench.kept)
    elsewhere = bench.root / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    bench.kept.symlink_to(elsewhere)
    _settle(bench, _gauges())
    assert list(elsewhere.iterdir()) == []
