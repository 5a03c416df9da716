"""Resources that exist from their creation to the end of the run: each run creates all of them."""

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="fresh",
    docs="A resource that lasts as long as the run.",
    attributes={
        "name": Attribute("String", "Its name.", kind="namevar"),
        "ensure": Attribute("Enum[present, absent]", "Whether it exists.", default="present"),
    },
    features={"simple_get_filter"},
)
