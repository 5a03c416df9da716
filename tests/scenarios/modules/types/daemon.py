"""Daemons can be refreshed and subscribe automatically to the widgets that they read."""

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="daemon",
    docs="A daemon that can be refreshed.",
    attributes={
        "name": Attribute("String", "Which one.", kind="namevar"),
        "ensure": Attribute("Enum[running, stopped]", "Whether it runs.", default="running"),
        "reads": Attribute("Variant[String, Array[String]]", "Widgets that it reads.", kind="parameter", default=[]),
    },
    autosubscribe={"widget": "$reads"},
    features={"refreshable"},
)
