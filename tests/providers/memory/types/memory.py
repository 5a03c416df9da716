"""Things that exist in memory alone, with an attribute of every kind."""

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="memory",
    docs="Things in memory.",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether it exists.", default="present"),
        "name": Attribute(r"Pattern[/\A[A-Za-z][\w-]*\z/]", "Its name, in any case.", kind="namevar"),
        "owner": Attribute("String[1]", "Whose it is."),
        "size": Attribute("Optional[Integer[0, 100]]", "How large it is."),
        "labels": Attribute("Optional[Array[String[1]]]", "What is written on it, in any order."),
        "password": Attribute("Optional[Sensitive[String]]", "What opens it."),
        "pin": Attribute("Sensitive[String]", "What else opens it; nobody can read it.", write_only=True),
        "origin": Attribute("Optional[String]", "Where it came from.", kind="init_only"),
        "force": Attribute("Boolean", "Whether to go on where others stop.", kind="parameter", default=False),
        "serial": Attribute("Optional[Integer]", "Which one it is.", kind="read_only"),
    },
    features={"canonicalize", "simple_get_filter", "noop_handler"},
)
