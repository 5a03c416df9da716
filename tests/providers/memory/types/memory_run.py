"""Marks that are set by running, and that nobody can read back."""

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="memory_run",
    docs="Runs that leave a mark in memory.",
    attributes={
        "name": Attribute("String[1]", "What this is called.", kind="namevar"),
        "creates": Attribute(
            "Optional[String[1]]", "The mark that it leaves, and with which it is done.", kind="parameter"
        ),
        "token": Attribute("Optional[Sensitive[String]]", "What allows it.", kind="parameter"),
    },
    features={"imperative"},
)
