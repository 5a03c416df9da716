"""Settings that are always there: they can be changed, not made."""

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="memory_setting",
    docs="Settings in memory.",
    attributes={
        "name": Attribute("Enum[volume, brightness]", "Which one.", kind="namevar"),
        "value": Attribute("Integer[0, 10]", "How much."),
        "muted": Attribute("Optional[Boolean]", "Whether it is off for now."),
    },
)
