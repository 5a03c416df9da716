"""Accounts have three secrets: one that can be read back, one that cannot, and one parameter."""

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="account",
    docs="An account with secrets.",
    attributes={
        "name": Attribute("String", "Whose.", kind="namevar"),
        "ensure": Attribute("Enum[present, absent]", "Whether it exists.", default="present"),
        "password": Attribute("Optional[Sensitive[String[8]]]", "What is kept."),
        "pin": Attribute("Optional[Sensitive[String]]", "What is set and never read.", write_only=True),
        "key": Attribute("Optional[Sensitive[String]]", "How to get in.", kind="parameter"),
        "note": Attribute("Optional[String]", "Anything."),
    },
)
