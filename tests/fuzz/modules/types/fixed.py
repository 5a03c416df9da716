"""Things that are as they are, in files, so that runs about them may be cached."""

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="fixed",
    docs="A thing that is as it is.",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether it exists.", default="present"),
        "name": Attribute("String[1]", "Its name.", kind="namevar"),
        "size": Attribute("Optional[Integer]", "The size."),
    },
    features={"simple_get_filter"},
)
