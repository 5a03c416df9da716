"""The cost of Terraform providers, in processor time and memory, which other load of the machine hardly changes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from benchmarks.measure import LAUNCH
from tests import command
from tests.peers.terraform_programs import Site, program

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

MANY: Final = 1000
#: The same calls as a run makes for resources that do not change, and nothing else.
BARE: Final = """
import json, sys
from resource_api.terraform import cty, schema
from resource_api.terraform.family import Family
family = Family("null", sys.argv[1], lambda *line: None)
kind = schema.object_type(schema.fields_of_resource(family.resource_schema("null_resource")["block"]))
process = family.process()
process.call("configure", None, config=cty.to_dynamic(("object", {}), {}))
for number in range(1000):
    values = {"id": "1", "triggers": {"a": str(number)}}
    name, config = {"type_name": "null_resource"}, cty.to_dynamic(kind, {**values, "id": None})
    process.call("validate", None, **name, config=config)
    raw = {"json": json.dumps(values).encode()}
    upgraded = process.call("upgrade", None, **name, version=0, raw_state=raw)["upgraded_state"]
    read = process.call("read", None, **name, current_state=upgraded)["new_state"]
    process.call("plan", None, **name, prior_state=read, config=config, proposed_new_state=read)
family.close()
"""


class Cost(NamedTuple):
    """Seconds of processor time with all children, and the largest memory in MiB."""

    seconds: float
    memory: float


def measured(site: Site, *arguments: str) -> Cost:
    """Return the least cost of three runs of the interpreter with these arguments.

    A small process starts them: a child inherits the peak memory of its parent, here of all tests.
    """
    costs = []
    for _ in range(3):
        argv = [*LAUNCH, sys.executable, "-P", *arguments]
        output = subprocess.run(argv, cwd=site.home, env=site.environment, capture_output=True, check=True).stdout
        code, seconds, memory, _elapsed = output.split()
        assert int(code) == 0
        costs.append(Cost(float(seconds), int(memory) / 1024))
    return Cost(min(cost.seconds for cost in costs), min(cost.memory for cost in costs))


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Return a directory without a key, and the precompiled code of the project."""
    site = Site(tmp_path)
    del site.environment["RESOURCE_API_KEY"]
    site.environment["PYTHONPATH"] = str(command.ROOT)
    return site


def test_a_plan_of_one_resource_costs_at_most_1_8_of_a_plan_without(site: Site) -> None:
    """The client, the start of the program, its schema and its calls."""
    site.write("null", "  Null_resource[one]: {triggers: {a: x}}\n")
    shutil.copy(site.home / "site.yaml", site.home / "null.yaml")
    (site.home / "plain.yaml").write_text(f"resources:\n  File[{site.home}/x]: {{ensure: directory}}\n")
    plain = measured(site, "-m", "resource_api", "plan", "plain.yaml")
    null = measured(site, "-m", "resource_api", "plan", "null.yaml")
    assert null.seconds <= 1.8 * plain.seconds, (plain, null)


def test_a_thousand_unchanged_resources_cost_at_most_1_5_of_their_calls(site: Site) -> None:
    """In at most 45 MiB."""
    site.write(
        "null", "".join(f"  Null_resource[r{number}]: {{triggers: {{a: '{number}'}}}}\n" for number in range(MANY))
    )
    code, text = site.run("apply", "site.yaml", "-q")
    assert code == 0, text
    bare = measured(site, "-c", BARE, str(program("null")))
    unchanged = measured(site, "-m", "resource_api", "apply", "site.yaml")
    assert unchanged.seconds <= 1.5 * bare.seconds, (bare, unchanged)
    assert unchanged.memory <= 45, unchanged
