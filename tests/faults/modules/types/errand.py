"""Errands cannot be read back; ``due`` is evaluated right before each run."""

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="errand",
    docs="Something to be done once.",
    attributes={
        "path": Attribute("String", "Where each time is written down.", kind="namevar"),
        "text": Attribute("String", "What is written down.", kind="parameter"),
    },
    features={"imperative"},
)
