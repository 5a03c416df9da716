"""What is planned in every run is parsed once, and nothing of it is kept where there may be a secret."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from resource_api.cache.incremental_plan import saved_documents
from resource_api.manifest import read
from tests.unit.cache.site import CachedSite

if TYPE_CHECKING:
    from pathlib import Path

_TEXT = """\
inputs:
  size: {type: Integer, default: 1}
resources:
  Widget[a]: {size: 1}
  Widget[b]: {size: 1}
  Widget[c]: {size: 1}
  Widget[e]: {size: 1}
  Widget[f]: {size: 1}
  Widget[d]:
    require: Widget[a]
    size: ${inputs.size}
"""


@pytest.fixture
def site(tmp_path: Path) -> CachedSite:
    """Return a site with a manifest in YAML, of which one resource is planned in every run."""
    cached_site = CachedSite(tmp_path)
    cached_site.manifest = cached_site.manifest.with_suffix(".yaml")
    cached_site.manifest.write_text(_TEXT)
    return cached_site


def _kept(site: CachedSite) -> Any:
    """Return what is kept of the manifest."""
    (entry,) = (path for path in site.cache_directory.iterdir() if path.name != "left")
    return json.loads(entry.read_bytes().partition(b"\n")[2])[3]["rest"]


def test_what_is_planned_in_every_run_is_kept_with_what_it_names(site: CachedSite) -> None:
    """No other resource is."""
    site.converge()
    ((_, data, heads),) = _kept(site)
    assert list(data["resources"]) == list(heads["resources"]) == ["Widget[a]", "Widget[d]"]
    assert site.run().cached_unchanged == 4


def test_a_kept_part_has_the_position_of_the_file(site: CachedSite) -> None:
    """Those that the parser has found, and those for which the file is parsed again."""
    site.converge()
    (document,) = saved_documents(_kept(site))
    (whole,), _ = read.load_documents(str(site.manifest))
    for path in (("resources", "Widget[d]"), ("resources", "Widget[d]", "size"), ("inputs", "size", "default"), ("x",)):
        assert document.position(path) == whole.position(path)


def test_an_input_counts_that_is_not_in_the_manifest(site: CachedSite) -> None:
    """What is kept is what is written, not what it means."""
    site.converge()
    assert "1 to update" in site.run("plan", {"size": 2}).plan[-1]
    assert site.run("plan").plan == ["Plan: nothing to do; 6 unchanged."]


def test_an_affected_resource_is_read_from_the_file(site: CachedSite) -> None:
    """It is not among what is kept."""
    site.converge()
    site.put("widget", {**site.things(), "b": {"size": 7}})
    observed = site.run("plan")
    assert "1 to update" in observed.plan[-1]
    assert observed.cached_unchanged == 3


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("default: 1}", "default: 1}\n  word: {type: String, default: sesame, sensitive: true}"),
        ("default: 1}", "default: 1}\n  word: {type: 'Sensitive[String]', default: sesame}"),
        ("resources:", "outputs: {word: {value: ab, sensitive: true}}\nresources:"),
        ("resources:", "providers: {shelf: {config: {room: cellar}}}\nresources:"),
    ],
)
def test_nothing_is_kept_where_there_may_be_a_secret(site: CachedSite, old: str, new: str) -> None:
    """Not even of what is no secret."""
    site.manifest.write_text(_TEXT.replace(old, new))
    site.converge()
    assert _kept(site) is None
    assert site.run().cached_unchanged == 4
