"""Shelves of a room that the provider is configured with."""

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="shelf",
    docs="A shelf in a room.",
    config={
        "room": Attribute("Variant[String, Integer]", "Where the shelves are.", default="hall"),
        "style": Attribute("Optional[String]", "How they are made."),
    },
    attributes={
        "name": Attribute("String", "Which one.", kind="namevar"),
        "ensure": Attribute("Enum[present, absent]", "Whether it is there.", default="present"),
        "boards": Attribute("Optional[Integer]", "How many boards it has."),
    },
)
