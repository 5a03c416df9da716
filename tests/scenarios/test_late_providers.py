"""Providers that can be made only after an earlier resource of the same run has installed what they need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

TYPE = """
from resource_api import Attribute, TypeDefinition
TYPE = TypeDefinition(name="gauge", docs="Gauges.", attributes={
    "name": Attribute("String", "n", kind="namevar"),
    "ensure": Attribute("Enum[present, absent]", "e", default="present"),
    "unit": Attribute("String", "u", default="mm"),
}, features={"canonicalize", "validate"})
"""
PROVIDER = """
import json, os
from pathlib import Path
from resource_api import SimpleProvider
{top}
FILE = Path(os.environ["BENCH"], "gauges.json")

def rows():
    return json.loads(FILE.read_text()) if FILE.exists() else []

class Provider(SimpleProvider):
    def __init__(self):
        {init}
    def canonicalize(self, context, resources):
        return [{{**row, **{{key: row[key].lower() for key in ("name", "unit") if key in row}}}} for row in resources]
    def validate(self, context, should):
        return ["no such unit"] if should.get("unit") == "parsec" else []
    def get(self, context):
        return rows()
    def create(self, context, name, should):
        FILE.write_text(json.dumps([*(row for row in rows() if row["name"] != name), dict(should)]))
    update = create
    def delete(self, context, name):
        FILE.write_text(json.dumps([row for row in rows() if row["name"] != name]))
"""
#: What a provider needs: what it imports at its top, and what it does in ``__init__``.
NEEDS = {
    "a module of lib": ("from lib import scale", "pass"),
    "a module on a path of its own": (
        "import sys",
        "sys.path.insert(0, '{home}/modules/lib')\n        import scale\n        sys.path.pop(0)",
    ),
    "a program": ("", "assert os.path.exists('{home}/modules/lib/scale.py'), 'no scale'"),
}


@pytest.fixture
def late(bench: Bench) -> Bench:
    """Write a type whose provider needs a file that a manifest writes, and keep state."""
    bench.write("modules/types/gauge.py", TYPE)
    _write_provider(bench, "a module of lib")
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    return bench


def _write_provider(bench: Bench, needs: str) -> None:
    top, init = (text.replace("{home}", str(bench.home)) for text in NEEDS[needs])
    bench.write("modules/providers/gauge.py", PROVIDER.format(top=top, init=init))


def _site(bench: Bench, gauges: str) -> str:
    lib = f"{bench.modules}/lib"
    files = f"{{File[{lib}]: {{ensure: directory}}, File[{lib}/scale.py]: {{content: 'SIZE = 1'}}}}"
    site = "\n".join(f"  {line}" for line in [*files[1:-1].replace("}, ", "}\n").splitlines(), *gauges.splitlines()])
    return f"project: p\nresources:\n{site}\noutputs: {{unit: '${{Gauge[A].unit}}'}}\n"


def _remove_what_it_needs(bench: Bench) -> None:
    (bench.modules / "lib" / "scale.py").unlink()


@pytest.mark.parametrize("needs", NEEDS)
def test_a_provider_is_made_after_what_it_needs_is_installed(late: Bench, needs: str) -> None:
    """Plan and noop show its resources as decided at their turn; they are canonical then, also in references."""
    _write_provider(late, needs)
    site = _site(late, 'Gauge[A]: {unit: MM}\nGauge[b]: {unit: "${Gauge[A].unit}"}')
    assert late.plan(site).out.count("(decided at its turn: ") == 2
    noop = late.apply(site, "--noop")
    assert noop.code == 0
    assert "2 to update" in noop.out
    result = late.apply(site, "--parallel", "2")
    assert (result.code, "4 created, 0 unchanged" in result.out) == (0, True), result.err
    document = late.run("state", "show", "Gauge[A]", "--json").document
    assert (document["name"], document["should"]["unit"], document["inputs"]["unit"]) == ("a", "mm", "MM")
    assert "4 unchanged" in late.apply(site).out


def test_a_provider_that_nothing_installs_is_an_error_of_the_manifest(late: Bench) -> None:
    """Where no step before would do something, nothing is touched: 65, with the line of each resource."""
    late.write("modules/lib/other.py", "")
    failed = late.apply("project: p\nresources:\n  Gauge[a]: {}\n  Gauge[b]: {}\n")
    assert failed.code == 65
    assert ["site.yaml:3:3: Gauge[a]: " in line for line in failed.lines] == [True, False]
    assert "site.yaml:4:3: Gauge[b]: " in failed.lines[1]
    site = _site(late, "Gauge[a]: {}").replace("${Gauge[A].unit}", "none")
    assert late.apply(site, "--target", "Gauge[a]").code == 65
    assert late.validate(site).lines[0].split("site.yaml")[1].startswith(":5:3: Warning: Gauge[a]: ")


def test_what_is_wrong_with_a_resource_of_a_late_provider_fails_it_alone(late: Bench) -> None:
    """What ``validate`` says and a second name for one resource are found at their turn."""
    result = late.apply(_site(late, "Gauge[A]: {}\nGauge[x]: {unit: Parsec}\nGauge[a]: {}"))
    assert result.code == 1
    assert any(line.startswith("Error: Gauge[x]: no such unit") for line in result.lines)
    assert "Error: Gauge[A]: is the same resource as Gauge[a]" in result.lines
    assert "Applied" in result.out
    assert "3 created" in result.out


def test_a_recorded_resource_is_found_although_its_provider_cannot_be_made_yet(late: Bench) -> None:
    """It is neither drifted nor pruned, stays ours, and its plan is stale once its provider can be made."""
    site = _site(late, "Gauge[A]: {unit: MM}")
    assert late.apply(site).code == 0
    _remove_what_it_needs(late)
    planned = late.plan(site, "-o", "saved.json")
    assert "Gauge[A] has drifted" not in planned.out
    assert "1 created, 2 unchanged" in late.apply(site, "--prune").out
    assert late.run("state", "show", "Gauge[A]", "--json").document["owned"] is True
    assert late.run("apply", "saved.json").code == 65
    _remove_what_it_needs(late)
    assert "cannot be deleted" in late.run("destroy", "site.yaml", "--yes").err


def test_one_provider_canonicalizes_a_name_and_reads_its_resource(late: Bench) -> None:
    """``resource TYPE NAME`` is one transaction, and a provider is made once in each."""
    late.write("modules/providers/gauge.py", PROVIDER.format(top="import sys", init="print('made', file=sys.stderr)"))
    assert late.run("resource", "gauge", "A").lines.count("made") == 1
