"""Resources in memory, with an attribute of every kind."""

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="memory",
    docs="Resources in memory.",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether it exists.", default="present"),
        "name": Attribute(r"Pattern[/\A[^\x00-\x1f\x7f]+\z/]", "Its name, in any case.", kind="namevar"),
        "owner": Attribute("String[1]", "The owner."),
        "size": Attribute("Optional[Integer[0, 100]]", "The size."),
        "labels": Attribute("Optional[Array[String[1]]]", "Labels, in any order."),
        "sizes": Attribute("Optional[Hash[String[1], Integer]]", "Sizes by name.", merged=True),
        "password": Attribute("Optional[Sensitive[String]]", "A secret."),
        "pin": Attribute("Sensitive[String]", "A secret that cannot be read.", write_only=True),
        "origin": Attribute("Optional[String]", "The origin.", kind="init_only"),
        "force": Attribute("Boolean", "A parameter without effect.", kind="parameter", default=False),
        "serial": Attribute("Optional[Integer]", "A number.", kind="read_only"),
    },
    features={
        *("canonicalize", "custom_insync", "noop_handler", "parallel"),
        *("preflight", "refreshable", "side_effects", "simple_get_filter"),
    },
)
