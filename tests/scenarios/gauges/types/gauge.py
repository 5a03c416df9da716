"""Gauges: the provider looks up more for those that are declared as ``latest``."""

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="gauge",
    docs="A gauge.",
    attributes={
        "name": Attribute("String[1]", "What it is called.", kind="namevar"),
        "ensure": Attribute("String", "Whether it exists.", default="present"),
        "newest": Attribute("Optional[String]", "What there is.", kind="read_only"),
        "about": Attribute("Optional[String]", "What it is about."),
    },
    features={"canonicalize", "custom_insync"},
)
