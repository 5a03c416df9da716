"""Resources whose creation logs lines and runs a program, as often as is declared."""

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="talker",
    docs="A resource whose creation logs lines and runs a program.",
    attributes={
        "name": Attribute("String", "Its name.", kind="namevar"),
        "ensure": Attribute("Enum[present, absent]", "Whether it exists.", default="present"),
        "lines": Attribute("Integer", "How many lines its creation logs.", default=0, kind="parameter"),
        "programs": Attribute("Integer", "How often its creation runs a program.", default=0, kind="parameter"),
        "text": Attribute("String", "A text, which may be secret and is not logged.", default="", kind="parameter"),
    },
    features={"simple_get_filter"},
)
