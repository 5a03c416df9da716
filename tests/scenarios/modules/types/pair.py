"""Pairs have two namevars, and a title matches one of two patterns."""

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="pair",
    docs="A package from a manager.",
    attributes={
        "package": Attribute("String", "What.", kind="namevar"),
        "manager": Attribute("String", "From whom.", kind="namevar"),
        "ensure": Attribute("Enum[present, absent]", "Whether it exists.", default="present"),
        "level": Attribute("Optional[Integer]", "How much."),
    },
    title_patterns=[
        {"pattern": r"\A(?<package>[^\-]+)-(?<manager>[a-z]+)\z", "desc": "package and manager with a hyphen"},
        {"pattern": r"\A(?<package>[a-z]+)\z", "desc": "the package alone"},
    ],
)
