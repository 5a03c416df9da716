"""Groups of hosts in the inventory service that differ only in name and address."""

from resource_api import Attribute, ComponentApi, ComponentDefinition

COMPONENT = ComponentDefinition(
    name="host_group",
    docs="""
    Declare a host for each address, named after the group: `web-1`, `web-2`, and so on.

        Host_group[web]:
          provider: lab
          addresses: [10.0.0.1, 10.0.0.2]
    """,
    inputs={
        "addresses": Attribute("Array[String[1], 1]", "The address of each host."),
        "role": Attribute("Optional[String]", "Their purpose; by default the group's title."),
        "password": Attribute("Optional[Sensitive[String]]", "The password of their consoles."),
    },
    outputs={
        "names": "The names of the hosts.",
        "ids": "The numbers that the service has assigned.",
        "roster": "All numbers in one line.",
    },
)


def build(m: ComponentApi) -> None:
    """Declare the hosts; the group's provider determines their service."""
    hosts = [
        m.inventory_host(
            f"{m.title}-{number}",
            address=address,
            role=m.inputs.role or m.title,
            tags=["group", m.title],
            password=m.inputs.password,
        )
        for number, address in enumerate(m.inputs.addresses, 1)
    ]
    m.output("names", [f"{m.title}-{number}" for number in range(1, len(hosts) + 1)])
    m.output("ids", [host.id for host in hosts])
    m.output("roster", m.text(" ".join(f"{{{index}}}" for index in range(len(hosts))), *(host.id for host in hosts)))
