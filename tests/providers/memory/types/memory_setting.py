"""Settings that always exist: they can be changed, but neither created nor deleted."""

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="memory_setting",
    docs="Settings in memory.",
    attributes={
        "name": Attribute("Enum[volume, brightness]", "The setting.", kind="namevar"),
        "value": Attribute("Integer[0, 10]", "The value."),
        "muted": Attribute("Optional[Boolean]", "Whether it is muted."),
    },
)
