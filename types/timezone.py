"""The time zone of this machine."""

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="timezone",
    docs="""Set the time zone of this machine: the link /etc/localtime and, where that file exists, /etc/timezone.

    Timezone[system]:
      zone: Europe/Berlin

The only resource is `Timezone[system]`; it cannot be created or deleted. The zone must exist in /usr/share/zoneinfo
(package `tzdata`). Running programs, such as cron, use the new zone after a restart: let them subscribe to it.
""",
    attributes={
        "name": Attribute("Enum[system]", "Always `system`: this machine.", kind="namevar"),
        "zone": Attribute(
            r"Pattern[/\A[A-Za-z0-9+_-]+(\/[A-Za-z0-9+_-]+)*\z/]",
            "The name below /usr/share/zoneinfo. Without the link /etc/localtime it is `UTC`.",
            must_be="a time zone such as Europe/Berlin",
        ),
        "timezone_file": Attribute("Optional[String]", "The content of /etc/timezone, if it exists.", kind="read_only"),
    },
    autorequires={"package": "tzdata"},
    features={"custom_insync", "preflight", "simple_get_filter", "validate"},
)
