"""The name of this machine."""

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="hostname",
    docs="""Set the name of this machine: in /etc/hostname, and of the running kernel.

    Hostname[system]:
      hostname: web1.example.org

There is one such resource, `Hostname[system]`; it cannot be created or deleted. The resolver does not look at it:
declare the address of the name with a resource of the type `host`. Programs that have read the name before, such as a
logging daemon, use the new one when they are started again. Comments in /etc/hostname stay.
""",
    attributes={
        "name": Attribute("Enum[system]", "Always `system`: this machine.", kind="namevar"),
        "hostname": Attribute(
            r"Pattern[/\A[A-Za-z0-9]([A-Za-z0-9.-]{0,62}[A-Za-z0-9])?\z/]",
            "The name: labels of letters, digits and hyphens, with dots between them, at most 64 characters in all.",
            must_be="a machine's name of at most 64 letters, digits, hyphens and dots",
        ),
        "live": Attribute("String", "The name that the running kernel has.", kind="read_only"),
    },
    features={"custom_insync", "not_rehearsable", "preflight", "simple_get_filter", "validate"},
)
