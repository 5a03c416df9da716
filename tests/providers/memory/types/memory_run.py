"""Runs that set marks, which cannot be read."""

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="memory_run",
    docs="Runs that set a mark in memory.",
    attributes={
        "name": Attribute("String[1]", "The name.", kind="namevar"),
        "creates": Attribute(
            "Optional[String[1]]", "The mark that the run sets; it is due while the mark is missing.", kind="parameter"
        ),
        "token": Attribute("Optional[Sensitive[String]]", "A secret.", kind="parameter"),
    },
    features={"imperative"},
)
