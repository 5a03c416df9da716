"""Errands cannot be read back; ``due`` is evaluated right before each run."""

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="errand",
    docs="Something to be done.",
    attributes={
        "name": Attribute("String", "Which one.", kind="namevar"),
        "awaits": Attribute("Optional[String]", "The widget that must exist, or 'never'.", kind="parameter"),
        "says": Attribute("Optional[String]", "What is written down.", kind="parameter"),
    },
    features={"imperative", "refreshable"},
)
