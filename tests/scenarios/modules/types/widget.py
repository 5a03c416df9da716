"""Widgets have one attribute of every kind and of the most common data types."""

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="widget",
    docs="A widget. It exists in a file only.",
    attributes={
        "name": Attribute("String[1]", "What it is called.", kind="namevar"),
        "ensure": Attribute("Enum[present, absent]", "Whether it exists.", default="present"),
        "size": Attribute("Optional[Integer[0, 100]]", "How big it is."),
        "colour": Attribute("Optional[String]", "How it looks."),
        "parts": Attribute("Optional[Array[String]]", "What it is made of."),
        "labels": Attribute("Optional[Hash[String, Integer]]", "What is written on it."),
        "mixed": Attribute("Optional[Variant[String, Boolean]]", "A word, or a truth."),
        "weight": Attribute("Optional[Float]", "How heavy it is."),
        "image": Attribute("Optional[String]", "What it is made from.", kind="init_only"),
        "serial": Attribute("Optional[String]", "Its number.", kind="read_only"),
        "force": Attribute("Boolean", "Whether to press harder.", kind="parameter", default=False),
    },
)
