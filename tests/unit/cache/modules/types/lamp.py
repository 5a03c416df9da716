"""Lamps, of which this machine has one of several kinds."""

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="lamp",
    docs="A lamp.",
    attributes={
        "name": Attribute("String", "Which one.", kind="namevar"),
        "on": Attribute("Optional[Boolean]", "Whether it is on."),
    },
)
