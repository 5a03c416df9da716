"""Tokens are hexadecimal numbers with several spellings, one of which is canonical."""

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="token",
    docs="A token with a hexadecimal number.",
    attributes={
        "id": Attribute(r"Pattern[/\A(0x)?[0-9a-fA-F]+\z/]", "Its number.", kind="namevar"),
        "ensure": Attribute("Enum[present, absent]", "Whether it exists.", default="present"),
        "tint": Attribute("Optional[String]", "Its colour, in capitals."),
    },
    features={"canonicalize", "simple_get_filter"},
)
