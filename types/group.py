"""Groups of the local machine."""

from resource_api import Attribute, TypeDefinition

#: No line of an account file can be forged with it, no program takes it for an option.
NAME = r"Pattern[/\A[^-+:,\/\s[:cntrl:]][^:,\/[:cntrl:]]*\z/]"

TYPE = TypeDefinition(
    name="group",
    docs="""Manage the groups of the local machine.

    Group[web]:
      members: [alice, bob]

Members must exist already: write the group below its users. Or say it on the other side, with the attribute `groups`
of the type `user`, which creates the group first; do not say both. Users whose primary group this is are no members.
""",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the group exists.", default="present"),
        "name": Attribute(NAME, "The group's name.", kind="namevar"),
        "gid": Attribute(
            "Optional[Integer[0, 4294967294]]",
            "The number; the next free one when the group is made without. Files keep the number that they have.",
        ),
        "members": Attribute(
            f"Optional[Array[{NAME}]]",
            "Exactly these users are members, in any order; `[]`: nobody. Not declared: membership is left alone.",
        ),
        "system": Attribute(
            "Boolean",
            "Whether a new group's number comes from the range for the system.",
            kind="parameter",
            default=False,
        ),
    },
    features={"canonicalize", "simple_get_filter"},
)
