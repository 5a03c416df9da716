"""Things that exist once they have been made, as long as the run lasts: each run makes them all."""

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="fresh",
    docs="A thing that lasts as long as the run.",
    attributes={
        "name": Attribute("String", "Its name.", kind="namevar"),
        "ensure": Attribute("Enum[present, absent]", "Whether it exists.", default="present"),
    },
    features={"simple_get_filter"},
)
