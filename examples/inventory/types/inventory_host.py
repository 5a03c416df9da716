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
            "Pattern[/\\Ahttps?:/]", "Where the service is; the environment's INVENTORY_URL if not given."
        ),
        "token": Attribute(
            "Sensitive[String[1]]",
            "What the service knows us by; what is in the file that INVENTORY_TOKEN_FILE names if not given.",
        ),
        "timeout": Attribute("Numeric", "Seconds that one request may take.", default=10),
    },
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the host is listed.", default="present"),
        "name": Attribute("Pattern[/\\A[a-z0-9][a-z0-9.-]*\\z/]", "The host's name.", kind="namevar"),
        "address": Attribute("Optional[String]", "Its address; no two hosts have the same."),
        "role": Attribute("Optional[String]", "What it is there for."),
        "tags": Attribute("Optional[Array[String]]", "Words to find it by."),
        "password": Attribute("Optional[Sensitive[String]]", "The password of its console."),
        "id": Attribute("Optional[String]", "The number that the service has given it.", kind="read_only"),
    },
    features={"simple_get_filter", "parallel"},
    functions={
        "free_address": Function(
            "Give the address that a host has, or the first that nobody has.",
            inputs={
                "network": Attribute("String", "The network to look in, such as 10.0.0.0/24."),
                "host": Attribute("String", "The host that it is for, so that the answer stays the same."),
            },
            output="String",
        ),
    },
)
