"""Hosts in the inventory service of this example."""

from resource_api import Attribute, Function, TypeDefinition

TYPE = TypeDefinition(
    name="inventory_host",
    version="1.2.0",
    docs="""
    Manage the hosts of an inventory service over HTTP.

        providers:
          inventory_host:
            config: {url: "http://127.0.0.1:8765", token: "${inputs.token}"}
        resources:
          Inventory_host[web-1]: {role: web, address: 10.0.0.1}
    """,
    config={
        "url": Attribute(
            "Pattern[/\\Ahttps?:/]", "The address of the service; by default the environment's INVENTORY_URL."
        ),
        "token": Attribute(
            "Sensitive[String[1]]",
            "The token for the service; by default the content of the file that INVENTORY_TOKEN_FILE names.",
        ),
        "timeout": Attribute("Numeric", "The time limit of one request in seconds.", default=10),
    },
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the host is listed.", default="present"),
        "name": Attribute("Pattern[/\\A[a-z0-9][a-z0-9.-]*\\z/]", "The host's name.", kind="namevar"),
        "address": Attribute("Optional[String]", "Its address, unique among all hosts."),
        "role": Attribute("Optional[String]", "The purpose of the host."),
        "tags": Attribute("Optional[Array[String]]", "Words to search it by."),
        "password": Attribute("Optional[Sensitive[String]]", "The password of its console."),
        "id": Attribute("Optional[String]", "The number that the service has assigned.", kind="read_only"),
    },
    features={"simple_get_filter", "parallel"},
    functions={
        "free_address": Function(
            "Return the address of a host, or the first free one.",
            inputs={
                "network": Attribute("String", "The network to search, such as 10.0.0.0/24."),
                "host": Attribute("String", "The host that needs the address; one that has an address keeps it."),
            },
            output="String",
        ),
    },
)
