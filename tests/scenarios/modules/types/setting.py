"""Settings always exist and can only be updated; they are read by name with a filter."""

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="setting",
    docs="A setting that can be configured, not created.",
    attributes={
        "key": Attribute("String", "Which one.", kind="namevar"),
        "value": Attribute("Variant[String, Integer]", "What it is set to."),
        "unit": Attribute("Optional[String]", "What it counts."),
    },
    features={"simple_get_filter"},
)
