"""Things are files that are written in place; a crash can leave one half written."""

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="thing",
    docs="A file that is written in place.",
    attributes={
        "path": Attribute("String", "Where it is.", kind="namevar"),
        "ensure": Attribute("Enum[present, absent]", "Whether it is there.", default="present"),
        "text": Attribute("Optional[String]", "What is in it."),
        "make": Attribute("Pattern[/^0[0-7]{3}$/]", "The mode that it is made with.", kind="init_only", default="0600"),
    },
    features={"simple_get_filter", "parallel"},
)
