"""Traces of runs over hosts: one trace, a span for each host, and its identity on the host (real hosts)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest

from resource_api.model.trace import TraceContext, parse_traceparent
from tests.fleet.ssh_fleet import SshFleet
from tests.otlp_receiver import receiving, silent

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fleet.sshd import Server

pytestmark = pytest.mark.process

ADDRESSES: Final = {"web1": "127.36.0.1", "web2": "127.36.0.2"}
PARENT: Final = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TYPE: Final = """
from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="trace",
    docs="Writes the identity of the span that it is part of.",
    attributes={
        "path": Attribute("String", "A file.", kind="namevar"),
        "ensure": Attribute("Enum[present, absent]", "Whether it is there.", default="present"),
    },
    features={"simple_get_filter"},
)
"""
PROVIDER: Final = """
import os
from pathlib import Path

from resource_api import SimpleProvider


class Provider(SimpleProvider):
    def get(self, context, names=None):
        return [{"path": name, "ensure": "present"} for name in names or () if Path(name).exists()]

    def create(self, context, name, should):
        Path(name).write_text(os.environ.get("TRACEPARENT", "none"))
"""
SITE: Final = """\
project: web
resources:
  Trace[/hosts/${host.address}/trace]: {}
  Exec[check]: {command: "test ${host.name} != web2", shell: true}
"""


@pytest.fixture
def fleet(tmp_path: Path, home: Path, server: Server) -> SshFleet:
    """Return hosts of which one fails and one cannot be reached."""
    result = SshFleet(tmp_path / "site", home, server, ADDRESSES)
    inventory = json.loads((result.site / "hosts.yaml").read_text())
    inventory["hosts"]["gone1"] = {"address": "127.36.0.3", "port": 1}
    (result.site / "hosts.yaml").write_text(json.dumps(inventory))
    for name, text in (("types/trace.py", TYPE), ("providers/trace.py", PROVIDER), ("site.yaml", SITE)):
        result.write(text, name)
    for address in ADDRESSES.values():
        server.run("rm", "-f", f"/hosts/{address}/trace")
    return result


def test_a_run_over_hosts_is_one_trace(fleet: SshFleet, server: Server) -> None:
    """Continued from CI and on hosts: what runs there knows the span of its host."""
    with receiving() as receiver:
        variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "TRACEPARENT": PARENT}
        result = fleet.run("apply", "site.yaml", "--on", "all", **variables)
    assert (result.code, result.err) == (1, "")
    (root,) = receiver.named("resource-api apply")
    assert f"00-{root.trace}-{root.parent}-01" == PARENT
    assert {span.trace for span in receiver.spans} == {root.trace}
    hosts = {span.attributes["host.name"]: span for span in receiver.below(root)}
    assert {name: span.attributes["resource_api.status"] for name, span in hosts.items()} == {
        "web1": "changed",
        "web2": "failed",
        "gone1": "unreachable",
    }
    assert hosts["web1"].error is None
    assert str(hosts["gone1"].error).startswith("unreachable: ")
    steps = {span.attributes["resource_api.reference"]: span for span in receiver.below(hosts["web2"])}
    assert {reference.partition("[")[0]: bool(span.error) for reference, span in steps.items()} == {
        "Trace": False,
        "Exec": True,
    }
    for name, address in ADDRESSES.items():
        written = server.path(f"/hosts/{address}/trace").read_text()
        assert parse_traceparent(written) == TraceContext(root.trace, hosts[name].id)


def test_hosts_get_the_trace_of_ci_without_a_receiver_too(fleet: SshFleet, server: Server) -> None:
    """Programs on hosts also; an invalid one is not passed on."""
    assert fleet.run("apply", "site.yaml", "--on", "web1", TRACEPARENT=PARENT).code == 0
    assert server.path(f"/hosts/{ADDRESSES['web1']}/trace").read_text() == PARENT
    shown = fleet.run("run", "--on", "web1", "--", "echo trace $TRACEPARENT", TRACEPARENT=PARENT)
    assert f"  trace {PARENT}" in shown.out.splitlines()
    shown = fleet.run("run", "--on", "web1", "--", "echo trace $TRACEPARENT", TRACEPARENT="$(reboot)")
    assert "  trace" in shown.out.splitlines()


def test_a_silent_receiver_costs_a_run_over_hosts_its_limit_only(fleet: SshFleet) -> None:
    """Every host is done, and the exit code is theirs."""
    with receiving(silent) as receiver:
        result = fleet.run("apply", "site.yaml", "--on", "web1", OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url)
    assert (result.code, "Applied to 1 host" in result.out) == (0, True)
    assert f"Warning: no trace to {receiver.url}: no answer" in result.err
