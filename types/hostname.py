"""The name of this machine."""

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="hostname",
    docs="""Set the name of this machine: in /etc/hostname, and of the running kernel.

    Hostname[system]:
      hostname: web1.example.org

The only resource is `Hostname[system]`; it cannot be created or deleted. Declare the address of the name with the type
`host`. Running programs, such as a logging daemon, use the new name after a restart. Comments in /etc/hostname stay.
""",
    attributes={
        "name": Attribute("Enum[system]", "Always `system`: this machine.", kind="namevar"),
        "hostname": Attribute(
            r"Pattern[/\A[A-Za-z0-9]([A-Za-z0-9.-]{0,62}[A-Za-z0-9])?\z/]",
            "Labels of letters, digits and hyphens, separated by dots.",
            must_be="a machine's name of at most 64 letters, digits, hyphens and dots",
        ),
        "live": Attribute("String", "The name in the running kernel.", kind="read_only"),
    },
    features={"custom_insync", "not_rehearsable", "preflight", "simple_get_filter", "validate"},
)
