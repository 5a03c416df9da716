"""``python -m benchmarks.terraform_providers``: measure runs with a Terraform provider.

A plan of one resource is compared with a plan of a file, and a run of a thousand unchanged resources with the calls
that their provider answers in it. The figures are processor time with all children. The provider's program is
installed below ``.peers`` at first.
"""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from pathlib import Path

from benchmarks.measure import Command, Ratio, pairs
from tests.peers.terraform_programs import Site, program

PAIRS = 7
RESOURCES = 1000
#: The largest ratios and the peak memory, in MiB, that we aim at.
PLAN_AIM = 1.8
CALLS_AIM = 1.5
MEMORY_AIM = 45
#: The calls of a run whose resources do not change.
CALLS = """
import json, sys
from resource_api.terraform import cty, schema
from resource_api.terraform.family import Family
family = Family("null", sys.argv[1], lambda *line: None)
kind = schema.object_type(schema.fields_of_resource(family.resource_schema("null_resource")["block"]))
process = family.process()
process.call("configure", None, config=cty.to_dynamic(("object", {}), {}))
for number in range(int(sys.argv[2])):
    values = {"id": "1", "triggers": {"a": str(number)}}
    name, config = {"type_name": "null_resource"}, cty.to_dynamic(kind, {**values, "id": None})
    process.call("validate", None, **name, config=config)
    raw = {"json": json.dumps(values).encode()}
    upgraded = process.call("upgrade", None, **name, version=0, raw_state=raw)["upgraded_state"]
    read = process.call("read", None, **name, current_state=upgraded)["new_state"]
    process.call("plan", None, **name, prior_state=read, config=config, proposed_new_state=read)
family.close()
"""


def plan_of_one(site: Site) -> Ratio:
    """Return the cost of a plan of one resource as a multiple of a plan of a file."""
    site.write("null", "  Null_resource[one]: {triggers: {a: x}}\n")
    plain = site.home / "plain.yaml"
    plain.write_text(f"resources:\n  File[{site.home}/x]: {{ensure: directory}}\n")
    plan = partial(_command, site, "-m", "resource_api", "plan")
    return pairs(plan(str(plain)), plan(str(site.home / "site.yaml")), PAIRS)


def unchanged(site: Site) -> Ratio:
    """Return the cost of a run of ``RESOURCES`` unchanged resources as a multiple of its calls."""
    rows = [f"  Null_resource[r{number}]: {{triggers: {{a: '{number}'}}}}\n" for number in range(RESOURCES)]
    site.write("null", "".join(rows))
    code, text = site.run("apply", "site.yaml", "-q")
    if code != 0:
        raise RuntimeError(text)
    calls = _command(site, "-c", CALLS, str(program("null")), str(RESOURCES))
    return pairs(calls, _command(site, "-m", "resource_api", "apply", str(site.home / "site.yaml")), PAIRS)


def _command(site: Site, *arguments: str) -> Command:
    return Command((sys.executable, *arguments), site.environment)


def main() -> None:
    """Measure, and print a table."""
    sys.stdout.write("| run | beside | s | here, s | ratio | spread | MiB | aim |\n")
    sys.stdout.write("| --- | --- | --: | --: | --: | --- | --: | --- |\n")
    with tempfile.TemporaryDirectory(prefix="resource-api-bench-") as home:
        site = Site(Path(home))
        del site.environment["RESOURCE_API_KEY"]
        for name, beside, measured, aim in (
            ("plan of one resource", "plan of one file", plan_of_one(site), f"{PLAN_AIM}"),
            (f"{RESOURCES} unchanged", "their calls", unchanged(site), f"{CALLS_AIM}, {MEMORY_AIM} MiB"),
        ):
            figures = f"{measured.floor:.3f} | {measured.ours:.3f} | {measured.ratio:.2f}"
            spread = f"{measured.least:.2f} - {measured.greatest:.2f}"
            sys.stdout.write(f"| {name} | {beside} | {figures} | {spread} | {measured.memory:.0f} | {aim} |\n")


main()
