"""Daemons use the configuration that was current at their last refresh."""

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="daemon",
    docs="A daemon that reads its configuration when it is refreshed, and only then.",
    attributes={
        "path": Attribute("String", "The file that says that it runs.", kind="namevar"),
        "ensure": Attribute("Enum[present, absent]", "Whether it runs.", default="present"),
        "reads": Attribute("Array[String]", "What it reads.", kind="parameter", default=[]),
    },
    features={"refreshable", "simple_get_filter"},
)
