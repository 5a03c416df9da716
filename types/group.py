"""Groups of the local machine."""

from resource_api import Attribute, TypeDefinition

#: Excludes characters that would forge lines of account files, and names that programs read as options.
NAME = r"Pattern[/\A[^-+:,\/\s[:cntrl:]][^:,\/[:cntrl:]]*\z/]"

TYPE = TypeDefinition(
    name="group",
    docs="""Manage the groups of the local machine.

    Group[web]:
      members: [alice, bob]

Members must exist: declare the group after its users. Or declare `groups` of the type `user`; a resource fails where
both are declared and contradict each other. Users with this primary group are not listed as members.
""",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the group exists.", default="present"),
        "name": Attribute(NAME, "The group's name.", kind="namevar", must_be="a group's name"),
        "gid": Attribute(
            "Optional[Integer[0, 4294967294]]",
            "The number; by default the next free one. A change does not affect files.",
        ),
        "members": Attribute(
            f"Optional[Array[{NAME}]]",
            "Exactly these users, in any order; `[]` for none. Undeclared members stay.",
            must_be="a user's name",
        ),
        "system": Attribute(
            "Boolean", "Whether a new group gets a number from the system range.", kind="parameter", default=False
        ),
    },
    features={"canonicalize", "preflight", "preflight_of_removals", "side_effects", "simple_get_filter", "validate"},
)
