"""Resources that always exist, without reading anything: such a run measures the runtime alone."""

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="there",
    docs="A resource that always exists.",
    attributes={
        "name": Attribute("String", "Its name.", kind="namevar"),
        "ensure": Attribute("Enum[present, absent]", "Whether it exists.", default="present"),
    },
    features={"simple_get_filter"},
)
