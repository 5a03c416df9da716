"""The component of the inventory example, applied to the real service through the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.scenarios import inventory
from tests.scenarios.inventory import Site, names

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GROUPS = """
    project: p
    inputs:
      token: {{type: "Sensitive[String]", default: token-one}}
      password: {{type: "Sensitive[String]", default: hunter2hunter2}}
    providers:
      lab: {{type: inventory_host, config: {{url: "{url}", token: "${{inputs.token}}"}}}}
    defaults:
      Host_group: {{provider: lab, password: "${{inputs.password}}"}}
    resources:
      Host_group[web]: {{addresses: [10.0.0.1, 10.0.0.2], require: "Host_group[db]"}}
      Host_group[db]: {{addresses: [10.0.0.9], role: database}}
      Inventory_host[monitor]: {{provider: lab, role: "watches ${{Host_group[web].roster}}"}}
    outputs:
      web: "${{Host_group[web].ids}}"
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Yield a separate directory and stop the services that a test starts."""
    yield from inventory.site(tmp_path)


def test_a_group_of_hosts_is_created_in_the_selected_service(site: Site) -> None:
    """The hosts are created in order with the secret, the outputs refer to them, and a second run changes nothing."""
    server = site.serve()
    applied = site.run("apply", site.write("site.yaml", GROUPS.format(url=server.url)))
    assert applied.code == 0, applied.err
    assert "hunter2hunter2" not in applied.out + applied.err
    hosts = server.inventory.find(None)
    assert [host["name"] for host in hosts] == ["db-1", "web-1", "web-2", "monitor"]
    assert {host.get("password") for host in hosts[:3]} == {"hunter2hunter2"}
    assert [host["role"] for host in hosts[:3]] == ["database", "web", "web"]
    assert hosts[3]["role"] == f"watches {hosts[1]['id']} {hosts[2]['id']}"
    assert site.run("output", "web", "--json").document == [hosts[1]["id"], hosts[2]["id"]]
    recorded = site.recorded()
    assert recorded["Host_group[web]/Inventory_host[web-1]"]["provider"] == "lab"
    again = site.run("apply", "site.yaml", "--detailed-exitcodes")
    assert (again.code, "4 unchanged" in again.out) == (0, True), again.out


def test_a_group_is_pruned_and_destroyed(site: Site) -> None:
    """``--prune`` deletes a host that is no longer declared, and targets and ``destroy`` include the group."""
    server = site.serve()
    text = GROUPS.format(url=server.url)
    assert site.run("apply", site.write("site.yaml", text)).code == 0
    site.write("site.yaml", text.replace("[10.0.0.1, 10.0.0.2]", "[10.0.0.1]"))
    target = ("--prune", "--target", "Host_group[web]")
    refused = site.run("apply", "site.yaml", *target)
    assert (refused.code, "Inventory_host[monitor]" in refused.err) == (64, True), refused.err
    assert names(server) == ["db-1", "monitor", "web-1", "web-2"]
    pruned = site.run("apply", "site.yaml", *target, "--with-dependents")
    assert pruned.code == 0, pruned.err
    assert names(server) == ["db-1", "monitor", "web-1"]
    assert site.run("apply", "site.yaml").code == 0
    destroyed = site.run("destroy", "site.yaml", "--yes")
    assert destroyed.code == 0, destroyed.err
    assert names(server) == []


def test_a_nested_component_inherits_its_provider(site: Site) -> None:
    """Components inside a component use the provider that the outer one selects."""
    server = site.serve()
    site.write(
        "modules/components/rack.py",
        """
        from resource_api import ComponentDefinition

        COMPONENT = ComponentDefinition(name="rack", docs="Two groups.")


        def build(m):
            m.host_group("front", addresses=["10.1.0.1"])
            m.host_group("back", addresses=["10.2.0.1"])
        """,
    )
    text = GROUPS.format(url=server.url)
    text = text[: text.index("    resources:")] + "    resources:\n      Rack[r]: {provider: lab}\n"
    result = site.run(
        "apply", site.write("site.yaml", text), "--module-path", "modules", "--module-path", inventory.EXAMPLE
    )
    assert result.code == 0, result.err
    assert names(server) == ["back-1", "front-1"]
    assert site.recorded()["Rack[r]/Host_group[back]/Inventory_host[back-1]"]["provider"] == "lab"


def test_an_unknown_provider_of_a_component_is_refused(site: Site) -> None:
    """A component that selects a provider that is not configured is refused."""
    server = site.serve()
    site.write(
        "site.yaml", GROUPS.format(url=server.url).replace("Host_group: {provider: lab", "Host_group: {provider: lob")
    )
    result = site.run("apply", "site.yaml")
    assert result.code == 65
    assert "unknown provider 'lob'" in result.err
