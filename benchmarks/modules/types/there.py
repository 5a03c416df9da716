"""Things of which nothing is to be read or done: what is left of a run is the runtime's own work."""

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="there",
    docs="A thing that is there.",
    attributes={
        "name": Attribute("String", "Its name.", kind="namevar"),
        "ensure": Attribute("Enum[present, absent]", "Whether it exists.", default="present"),
    },
    features={"simple_get_filter"},
)
