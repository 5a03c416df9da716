"""The same inventory with many hosts, as a Python manifest; see docs/providers.md."""

PROJECT = "inventory"
INPUTS = {
    "url": {"type": "String", "default": "http://127.0.0.1:8765", "docs": "Where the service is."},
    "token": {"type": "Sensitive[String]", "docs": "What it knows us by."},
    "count": {"type": "Integer[0]", "default": 200, "docs": "How many hosts there are to be."},
}
PROVIDERS = {
    "lab": {
        "type": "inventory_host",
        "version": ">=1.2",
        "config": {"url": "${inputs.url}", "token": "${inputs.token}"},
    },
}
DEFAULTS = {"Inventory_host": {"provider": "lab"}}


def manifest(m):
    """Declare the hosts, and a gateway that gets an address of its own."""
    for number in range(m.inputs.count):
        m.inventory_host(f"web-{number:03}", role="web", tags=["many"])
    address = m.invoke("free_address", provider="lab", network="10.0.0.0/24", host="gateway")
    gateway = m.inventory_host("gateway", role="gateway", address=address)
    m.output("gateway", m.text("{0} at {1}", gateway.id, address))
