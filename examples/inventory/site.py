"""The same inventory with many hosts, as a Python manifest; see docs/providers.md."""

from resource_api import ManifestApi

PROJECT = "inventory"
INPUTS = {
    "url": {"type": "String", "default": "http://127.0.0.1:8765", "docs": "The address of the service."},
    "token": {"type": "Sensitive[String]", "docs": "The token for the service."},
    "count": {"type": "Integer[0]", "default": 200, "docs": "The number of hosts."},
}
PROVIDERS = {
    "lab": {
        "type": "inventory_host",
        "version": ">=1.2",
        "config": {"url": "${inputs.url}", "token": "${inputs.token}"},
    },
}
DEFAULTS = {"Inventory_host": {"provider": "lab"}}


def manifest(m: ManifestApi) -> None:
    """Declare the hosts, and a gateway with a free address."""
    for number in range(m.inputs.count):
        m.inventory_host(f"web-{number:03}", role="web", tags=["many"])
    address = m.invoke("free_address", provider="lab", network="10.0.0.0/24", host="gateway")
    gateway = m.inventory_host("gateway", role="gateway", address=address)
    m.output("gateway", m.text("{0} at {1}", gateway.id, address))
